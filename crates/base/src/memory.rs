//! How the C library's allocator treats memory that was given back.

/// Free memory at the end of an arena that is kept for the next allocation: more than what is on its way
/// between a connection and the pool at a time, which is a few pieces of half a MiB.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const KEPT_BYTES: i32 = 16 << 20;
/// Allocations from this size on are mapped one by one, and given back one by one.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MAPPED_BYTES: i32 = 4 << 20;
/// Arenas for each core: with [`KEPT_BYTES`] they limit what is kept in all.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const ARENAS_PER_CORE: i32 = 2;

/// Lets the allocator keep buffers that are freed and allocated again all the time, at most 32 MiB a core.
/// By default it gives their pages back to the kernel and faults them in anew, which costs a stream over
/// HTTP a third of its processor time. Call it before the first thread is started. Where the allocator is
/// not that of glibc it does nothing.
pub fn keep_freed_memory(cores: usize) {
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    let _ = cores;
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        use std::ffi::c_int;
        // From malloc.h; they are part of the ABI of glibc.
        const M_TRIM_THRESHOLD: c_int = -1;
        const M_MMAP_THRESHOLD: c_int = -3;
        const M_ARENA_MAX: c_int = -8;
        unsafe extern "C" {
            fn mallopt(parameter: c_int, value: c_int) -> c_int;
        }
        let arenas = c_int::try_from(cores).unwrap_or(1).clamp(1, 1024) * ARENAS_PER_CORE;
        for (parameter, value) in
            [(M_TRIM_THRESHOLD, KEPT_BYTES), (M_MMAP_THRESHOLD, MAPPED_BYTES), (M_ARENA_MAX, arenas)]
        {
            // SAFETY: mallopt takes two numbers, locks the allocator itself, and keeps no pointer. It
            // refuses what it does not know, which leaves the default.
            let _ = unsafe { mallopt(parameter, value) };
        }
    }
}
