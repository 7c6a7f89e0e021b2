//! Multiplication by nibble tables: a look-up takes the products of 16 low or high nibbles at once.
//!
//! Tested by `tests/neon/run.sh` in qemu's emulation of a 64-bit ARM processor; its speed was never measured.

use super::{Pass, Start};
use std::arch::aarch64::{
    uint8x16_t, vandq_u8, vdupq_n_u8, veorq_u8, vld1q_u8, vqtbl1q_u8, vshrq_n_u8, vst1q_u8,
};

const VECTOR: usize = size_of::<uint8x16_t>();

/// Handles `U` vectors of every source at a time, `R` outputs. ARM's prefetchers are left to themselves.
///
/// # Safety
///
/// The processor has NEON, and the pass fits vectors of 16 bytes.
#[target_feature(enable = "neon")]
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
#[target_feature(enable = "neon")]
unsafe fn step<const R: usize, const U: usize>(
    pass: &Pass<'_, '_>,
    outputs: [*mut u8; R],
    columns: &[[[u8; 32]; R]],
    at: usize,
) {
    let mask = vdupq_n_u8(0x0F);
    let mut sums = [[vdupq_n_u8(0); U]; R];
    if pass.start == Start::Sum {
        for (output, sums) in outputs.iter().zip(&mut sums) {
            for (unit, sum) in sums.iter_mut().enumerate() {
                // SAFETY: the caller vouches for these bytes.
                *sum = unsafe { vld1q_u8(output.add(at + unit * VECTOR)) };
            }
        }
    }
    let from = pass.range.start + at;
    for (source, column) in pass.sources.iter().zip(columns) {
        let mut low = [vdupq_n_u8(0); U];
        let mut high = low;
        for (unit, (low, high)) in low.iter_mut().zip(&mut high).enumerate() {
            // SAFETY: the caller vouches for these bytes.
            let bytes = unsafe { vld1q_u8(source.as_ptr().add(from + unit * VECTOR)) };
            *low = vandq_u8(bytes, mask);
            *high = vshrq_n_u8::<4>(bytes);
        }
        for (sums, table) in sums.iter_mut().zip(column) {
            // SAFETY: the table has two halves of 16 bytes.
            let (low_table, high_table) =
                unsafe { (vld1q_u8(table.as_ptr()), vld1q_u8(table.as_ptr().add(VECTOR))) };
            for (sum, (&low, &high)) in sums.iter_mut().zip(low.iter().zip(&high)) {
                let product = veorq_u8(vqtbl1q_u8(low_table, low), vqtbl1q_u8(high_table, high));
                *sum = veorq_u8(*sum, product);
            }
        }
    }
    for (output, sums) in outputs.into_iter().zip(sums) {
        for (unit, sum) in sums.into_iter().enumerate() {
            // SAFETY: the caller vouches for these bytes.
            unsafe { vst1q_u8(output.add(at + unit * VECTOR), sum) };
        }
    }
}
