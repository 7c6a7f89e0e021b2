//! Multiplication on 64-byte registers that folds what it reads and writes into CRC-32C on the way.
//!
//! Multiplying and folding compete for the same execution units, so nothing is gained there; what is saved is
//! a second reading of every byte, and the bytes that a later pass needs are fetched meanwhile.

use super::avx512_gfni::{XOR3, load};
use super::{CHECKED_COLUMNS_MAX, CHECKED_STEP, Pass, Start};
use crate::crc32c::{State, begin, finish, fold_in};
use std::arch::x86_64::{
    _MM_HINT_T1, _mm_prefetch, _mm512_gf2p8affine_epi64_epi8, _mm512_set1_epi64, _mm512_setzero_si512,
    _mm512_storeu_si512, _mm512_ternarylogic_epi64, _mm512_xor_si512,
};

/// Bytes of a register, and registers of each source in a step.
const VECTOR: usize = 64;
const U: usize = CHECKED_STEP / VECTOR;

/// # Safety
///
/// The processor has AVX-512F, GFNI, VPCLMULQDQ and SSE4.2; the range is a multiple of [`CHECKED_STEP`].
#[target_feature(enable = "avx512f,gfni,vpclmulqdq,sse4.2")]
pub(super) unsafe fn run<const R: usize>(
    mut pass: Pass<'_, '_>,
    weights: &[u64],
    registers: &mut [u32],
    output_registers: &mut [u32],
) {
    let (columns, rest) = weights.as_chunks::<R>();
    assert!(rest.is_empty() && columns.len() == pass.sources.len());
    let outputs = pass.output_pointers::<R>();
    let zero = [_mm512_setzero_si512(); U];
    let mut states = [zero; CHECKED_COLUMNS_MAX];
    let mut output_states = [zero; R];
    let length = pass.range.len();
    for at in (0..length).step_by(CHECKED_STEP) {
        // SAFETY: the step stays within the range, which every source reaches and every output has.
        let sums = unsafe { step::<R>(&pass, outputs, columns, at, &mut states, registers) };
        if !output_registers.is_empty() {
            let states = output_states.iter_mut().zip(&*output_registers);
            for ((state, &register), sums) in states.zip(sums) {
                *state = if at == 0 { begin(register, sums) } else { fold_in(*state, sums) };
            }
        }
    }
    if length > 0 {
        for (register, state) in registers.iter_mut().zip(states) {
            *register = finish(state);
        }
        for (register, state) in output_registers.iter_mut().zip(output_states) {
            *register = finish(state);
        }
    }
}

/// # Safety
///
/// The range has [`CHECKED_STEP`] bytes from its offset `at` on.
#[inline]
#[target_feature(enable = "avx512f,gfni,vpclmulqdq,sse4.2")]
unsafe fn step<const R: usize>(
    pass: &Pass<'_, '_>,
    outputs: [*mut u8; R],
    columns: &[[u64; R]],
    at: usize,
    states: &mut [State; CHECKED_COLUMNS_MAX],
    registers: &[u32],
) -> [State; R] {
    let mut sums = [[_mm512_setzero_si512(); U]; R];
    if pass.start == Start::Sum {
        for (output, sums) in outputs.iter().zip(&mut sums) {
            // SAFETY: the caller vouches for these bytes.
            *sums = unsafe { load(output.cast_const().add(at)) };
        }
    }
    let from = pass.range.start + at;
    let check = |state: &mut State, bytes: State, register: u32| {
        *state = if at == 0 { begin(register, bytes) } else { fold_in(*state, bytes) };
    };
    let (pairs, last) = pass.sources.as_chunks::<2>();
    let (column_pairs, last_column) = columns.as_chunks::<2>();
    let (state_pairs, _) = states.as_chunks_mut::<2>();
    let (register_pairs, last_register) = registers.as_chunks::<2>();
    let checks = state_pairs.iter_mut().zip(register_pairs);
    for (([left, right], [left_column, right_column]), (states, registers)) in
        pairs.iter().zip(column_pairs).zip(checks)
    {
        let (left_at, right_at) = (left.as_ptr().wrapping_add(from), right.as_ptr().wrapping_add(from));
        // SAFETY: the caller vouches for these bytes.
        let (left, right): (State, State) = unsafe { (load(left_at), load(right_at)) };
        check(&mut states[0], left, registers[0]);
        check(&mut states[1], right, registers[1]);
        if pass.ahead > 0 {
            for line in (0..CHECKED_STEP).step_by(VECTOR) {
                _mm_prefetch::<_MM_HINT_T1>(left_at.wrapping_add(pass.ahead + line).cast());
                _mm_prefetch::<_MM_HINT_T1>(right_at.wrapping_add(pass.ahead + line).cast());
            }
        }
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
    for ((source, column), &register) in last.iter().zip(last_column).zip(last_register) {
        // SAFETY: the caller vouches for these bytes.
        let bytes: State = unsafe { load(source.as_ptr().add(from)) };
        check(&mut states[pass.sources.len() - 1], bytes, register);
        for (sums, &weight) in sums.iter_mut().zip(column) {
            let matrix = _mm512_set1_epi64(weight.cast_signed());
            for (sum, &bytes) in sums.iter_mut().zip(&bytes) {
                *sum = _mm512_xor_si512(*sum, _mm512_gf2p8affine_epi64_epi8::<0>(bytes, matrix));
            }
        }
    }
    for (output, sums) in outputs.into_iter().zip(&sums) {
        for (unit, sum) in sums.iter().enumerate() {
            // SAFETY: the caller vouches for these bytes.
            unsafe { _mm512_storeu_si512(output.add(at + unit * VECTOR).cast(), *sum) };
        }
    }
    sums
}
