//! Stores that go round the cache: bytes that nobody reads soon cost no read of the line they overwrite.

/// Copies `from`, which is in the cache, to `to` in memory. [`stream_fence`] must follow before other threads
/// are told of the bytes.
#[cfg(target_arch = "x86_64")]
pub(crate) fn stream(from: &[u8], to: &mut [u8]) {
    if !is_x86_feature_detected!("avx512f") {
        return to.copy_from_slice(from);
    }
    // SAFETY: the processor has AVX-512F.
    unsafe { stream_lines(from, to) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn stream_lines(from: &[u8], to: &mut [u8]) {
    use std::arch::x86_64::{_mm512_loadu_si512, _mm512_stream_si512};
    assert_eq!(from.len(), to.len());
    let first = to.as_ptr().align_offset(64).min(to.len());
    to[..first].copy_from_slice(&from[..first]);
    let (from, to) = (&from[first..], &mut to[first..]);
    let (from_lines, from_rest) = from.as_chunks::<64>();
    let (to_lines, to_rest) = to.as_chunks_mut::<64>();
    for (from, to) in from_lines.iter().zip(to_lines) {
        // SAFETY: both have 64 bytes, and `to` is aligned to 64.
        unsafe { _mm512_stream_si512(to.as_mut_ptr().cast(), _mm512_loadu_si512(from.as_ptr().cast())) };
    }
    to_rest.copy_from_slice(from_rest);
}

/// Orders streamed stores before all later ones.
#[cfg(target_arch = "x86_64")]
pub(crate) fn stream_fence() {
    // SAFETY: every processor with the x86-64 instruction set has SSE.
    unsafe { std::arch::x86_64::_mm_sfence() }
}

/// Copies; this processor has no such stores that we know of.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn stream(from: &[u8], to: &mut [u8]) {
    to.copy_from_slice(from);
}

/// Nothing to order.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn stream_fence() {}
