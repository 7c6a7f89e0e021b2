//! What the kernel knows about its clock.

/// Whether the kernel says that its clock is synchronised: a time server disciplines it, and nobody has set
/// it by hand since (setting it takes the mark away). `false` where that cannot be found out.
#[must_use]
pub fn kernel_clock_is_synchronised() -> bool {
    #[cfg(not(target_os = "linux"))]
    return false;
    #[cfg(target_os = "linux")]
    {
        use std::ffi::{c_int, c_void};
        // From sys/timex.h; part of the kernel's interface.
        const TIME_ERROR: c_int = 5;
        /// More than `struct timex` has anywhere (208 bytes on 64-bit machines).
        const TIMEX_WORDS: usize = 64;
        unsafe extern "C" {
            fn adjtimex(buffer: *mut c_void) -> c_int;
        }
        let mut buffer = [0u64; TIMEX_WORDS];
        // SAFETY: the buffer is larger than the structure that is written and aligned as its largest field.
        // Its first field, `modes`, is 0: nothing is set, and no privilege is needed.
        let state = unsafe { adjtimex(buffer.as_mut_ptr().cast()) };
        (0..TIME_ERROR).contains(&state)
    }
}

#[cfg(test)]
mod tests {
    /// What it says depends on the machine; that it can be asked, and says the same twice, does not.
    #[test]
    fn it_can_be_asked() {
        assert_eq!(super::kernel_clock_is_synchronised(), super::kernel_clock_is_synchronised());
    }
}
