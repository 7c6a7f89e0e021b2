//! Multiplication by `gf2p8affineqb` on 32-byte registers.

use super::{Pass, Start};
use std::arch::x86_64::{
    __m256i, _mm256_gf2p8affine_epi64_epi8, _mm256_loadu_si256, _mm256_set1_epi64x, _mm256_setzero_si256,
    _mm256_storeu_si256, _mm256_xor_si256,
};

const VECTOR: usize = size_of::<__m256i>();

/// Handles `U` vectors of every source at a time, `R` outputs.
///
/// # Safety
///
/// The processor has AVX2 and GFNI, and the pass fits vectors of 32 bytes.
#[target_feature(enable = "avx2,gfni")]
pub(super) unsafe fn run<const R: usize, const U: usize>(mut pass: Pass<'_, '_>, weights: &[u64]) {
    let (columns, rest) = weights.as_chunks::<R>();
    assert!(rest.is_empty() && columns.len() == pass.sources.len());
    let outputs = pass.output_pointers::<R>();
    let length = pass.range.len();
    let mut at = 0;
    while length - at >= U * VECTOR {
        // SAFETY: the step stays within the range, which every source reaches and every output has.
        unsafe { step::<R, U>(&pass, outputs, columns, at) };
        at += U * VECTOR;
    }
    while at < length {
        // SAFETY: the last vector ends where the range does, which has at least one vector.
        unsafe { step::<R, 1>(&pass, outputs, columns, at.min(length - VECTOR)) };
        at += VECTOR;
    }
}

/// # Safety
///
/// The range has `U` vectors from its offset `at` on.
#[inline]
#[target_feature(enable = "avx2,gfni")]
unsafe fn step<const R: usize, const U: usize>(
    pass: &Pass<'_, '_>,
    outputs: [*mut u8; R],
    columns: &[[u64; R]],
    at: usize,
) {
    let mut sums = [[_mm256_setzero_si256(); U]; R];
    if pass.start == Start::Sum {
        for (output, sums) in outputs.iter().zip(&mut sums) {
            for (unit, sum) in sums.iter_mut().enumerate() {
                // SAFETY: the caller vouches for these bytes.
                *sum = unsafe { _mm256_loadu_si256(output.add(at + unit * VECTOR).cast_const().cast()) };
            }
        }
    }
    let from = pass.range.start + at;
    for (source, column) in pass.sources.iter().zip(columns) {
        let mut bytes = [_mm256_setzero_si256(); U];
        for (unit, bytes) in bytes.iter_mut().enumerate() {
            // SAFETY: the caller vouches for these bytes.
            *bytes = unsafe { _mm256_loadu_si256(source.as_ptr().add(from + unit * VECTOR).cast()) };
        }
        for (sums, &weight) in sums.iter_mut().zip(column) {
            let matrix = _mm256_set1_epi64x(weight.cast_signed());
            for (sum, &bytes) in sums.iter_mut().zip(&bytes) {
                *sum = _mm256_xor_si256(*sum, _mm256_gf2p8affine_epi64_epi8::<0>(bytes, matrix));
            }
        }
    }
    for (output, sums) in outputs.into_iter().zip(sums) {
        for (unit, sum) in sums.into_iter().enumerate() {
            // SAFETY: the caller vouches for these bytes.
            unsafe { _mm256_storeu_si256(output.add(at + unit * VECTOR).cast(), sum) };
        }
    }
}
