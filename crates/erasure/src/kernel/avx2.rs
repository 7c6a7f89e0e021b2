//! Multiplication by nibble tables: a shuffle looks up the products of 32 low or high nibbles at once.

use super::{Pass, Start};
use std::arch::x86_64::{
    __m256i, _mm_loadu_si128, _mm256_and_si256, _mm256_broadcastsi128_si256, _mm256_loadu_si256,
    _mm256_set1_epi8, _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_srli_epi64, _mm256_storeu_si256,
    _mm256_xor_si256,
};

const VECTOR: usize = size_of::<__m256i>();

/// Handles `U` vectors of every source at a time, `R` outputs.
///
/// # Safety
///
/// The processor has AVX2, and the pass fits vectors of 32 bytes.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn run<const R: usize, const U: usize>(mut pass: Pass<'_, '_>, weights: &[[u8; 32]]) {
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
#[target_feature(enable = "avx2")]
unsafe fn step<const R: usize, const U: usize>(
    pass: &Pass<'_, '_>,
    outputs: [*mut u8; R],
    columns: &[[[u8; 32]; R]],
    at: usize,
) {
    let mask = _mm256_set1_epi8(0x0F);
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
        let mut low = [_mm256_setzero_si256(); U];
        let mut high = low;
        for (unit, (low, high)) in low.iter_mut().zip(&mut high).enumerate() {
            // SAFETY: the caller vouches for these bytes.
            let bytes = unsafe { _mm256_loadu_si256(source.as_ptr().add(from + unit * VECTOR).cast()) };
            *low = _mm256_and_si256(bytes, mask);
            *high = _mm256_and_si256(_mm256_srli_epi64::<4>(bytes), mask);
        }
        for (sums, table) in sums.iter_mut().zip(column) {
            let (low_table, high_table) = load_table(table);
            for (sum, (&low, &high)) in sums.iter_mut().zip(low.iter().zip(&high)) {
                let low_product = _mm256_shuffle_epi8(low_table, low);
                let high_product = _mm256_shuffle_epi8(high_table, high);
                *sum = _mm256_xor_si256(*sum, _mm256_xor_si256(low_product, high_product));
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

/// The products of the low nibbles and of the high nibbles, each in both halves of a register.
#[inline]
#[target_feature(enable = "avx2")]
fn load_table(table: &[u8; 32]) -> (__m256i, __m256i) {
    let start: *const u8 = table.as_ptr();
    // SAFETY: the table has two halves of 16 bytes.
    let (low, high) = unsafe { (_mm_loadu_si128(start.cast()), _mm_loadu_si128(start.add(16).cast())) };
    (_mm256_broadcastsi128_si256(low), _mm256_broadcastsi128_si256(high))
}
