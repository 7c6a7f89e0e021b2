//! Multiplication by `gf2p8affineqb` on 64-byte registers.

use super::{Pass, Start};
use std::arch::x86_64::{
    __m512i, _mm512_gf2p8affine_epi64_epi8, _mm512_loadu_si512, _mm512_set1_epi64, _mm512_setzero_si512,
    _mm512_storeu_si512, _mm512_ternarylogic_epi64, _mm512_xor_si512,
};

const VECTOR: usize = size_of::<__m512i>();
/// The truth table of `a XOR b XOR c`.
pub(super) const XOR3: i32 = 0x96;

/// Handles `U` vectors of every source at a time, `R` outputs.
///
/// # Safety
///
/// The processor has AVX-512F and GFNI, and the pass fits vectors of 64 bytes.
#[target_feature(enable = "avx512f,gfni")]
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
#[target_feature(enable = "avx512f,gfni")]
unsafe fn step<const R: usize, const U: usize>(
    pass: &Pass<'_, '_>,
    outputs: [*mut u8; R],
    columns: &[[u64; R]],
    at: usize,
) {
    let mut sums = [[_mm512_setzero_si512(); U]; R];
    if pass.start == Start::Sum {
        for (output, sums) in outputs.iter().zip(&mut sums) {
            // SAFETY: the caller vouches for these bytes.
            *sums = unsafe { load(output.cast_const().add(at)) };
        }
    }
    let from = pass.range.start + at;
    // Two sources at a time, so that one instruction adds both products.
    let (pairs, last) = pass.sources.as_chunks::<2>();
    let (column_pairs, last_column) = columns.as_chunks::<2>();
    for ([left, right], [left_column, right_column]) in pairs.iter().zip(column_pairs) {
        // SAFETY: the caller vouches for these bytes.
        let (left, right) =
            unsafe { (load::<U>(left.as_ptr().add(from)), load::<U>(right.as_ptr().add(from))) };
        for (sums, (&left_weight, &right_weight)) in sums.iter_mut().zip(left_column.iter().zip(right_column))
        {
            let left_matrix = _mm512_set1_epi64(left_weight.cast_signed());
            let right_matrix = _mm512_set1_epi64(right_weight.cast_signed());
            for (sum, (&left, &right)) in sums.iter_mut().zip(left.iter().zip(&right)) {
                let left = _mm512_gf2p8affine_epi64_epi8::<0>(left, left_matrix);
                let right = _mm512_gf2p8affine_epi64_epi8::<0>(right, right_matrix);
                *sum = _mm512_ternarylogic_epi64::<XOR3>(*sum, left, right);
            }
        }
    }
    for (source, column) in last.iter().zip(last_column) {
        // SAFETY: the caller vouches for these bytes.
        let bytes = unsafe { load::<U>(source.as_ptr().add(from)) };
        for (sums, &weight) in sums.iter_mut().zip(column) {
            let matrix = _mm512_set1_epi64(weight.cast_signed());
            for (sum, &bytes) in sums.iter_mut().zip(&bytes) {
                *sum = _mm512_xor_si512(*sum, _mm512_gf2p8affine_epi64_epi8::<0>(bytes, matrix));
            }
        }
    }
    for (output, sums) in outputs.into_iter().zip(sums) {
        for (unit, sum) in sums.into_iter().enumerate() {
            // SAFETY: the caller vouches for these bytes.
            unsafe { _mm512_storeu_si512(output.add(at + unit * VECTOR).cast(), sum) };
        }
    }
}

/// # Safety
///
/// `U` vectors may be read from `bytes` on.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn load<const U: usize>(bytes: *const u8) -> [__m512i; U] {
    let mut vectors = [_mm512_setzero_si512(); U];
    for (unit, vector) in vectors.iter_mut().enumerate() {
        // SAFETY: the caller vouches for these bytes.
        *vector = unsafe { _mm512_loadu_si512(bytes.add(unit * VECTOR).cast()) };
    }
    vectors
}
