//! Multiplication by `gf2p8affineqb` on 32-byte registers.

use super::Tile;
use std::arch::x86_64::{
    __m256i, _mm256_gf2p8affine_epi64_epi8, _mm256_loadu_si256, _mm256_set1_epi64x, _mm256_setzero_si256,
    _mm256_storeu_si256, _mm256_xor_si256,
};

const VECTOR: usize = size_of::<__m256i>();
/// Vectors of each source per step: independent sums hide the latency of the multiplication.
const UNROLL: usize = 3;

/// # Safety
///
/// The processor has AVX2 and GFNI, and the tile ends at least one vector from the start of its shards.
#[target_feature(enable = "avx2,gfni")]
pub(super) unsafe fn run<const R: usize>(tile: Tile<'_, '_>, weights: &[u64]) {
    let (columns, rest) = weights.as_chunks::<R>();
    assert!(rest.is_empty() && columns.len() == tile.sources.len() && tile.outputs.len() == R);
    let end = tile.range.end;
    let mut at = tile.range.start;
    let mut outputs = tile.outputs.iter_mut();
    let outputs: [*mut u8; R] =
        std::array::from_fn(|_| outputs.next().map_or(std::ptr::null_mut(), |output| output.as_mut_ptr()));
    while end - at >= UNROLL * VECTOR {
        // SAFETY: the step stays below the end of the range, which every shard reaches.
        unsafe { step::<R, UNROLL>(tile.sources, outputs, columns, at) };
        at += UNROLL * VECTOR;
    }
    while at < end {
        // SAFETY: the last vector ends where the range does, and the caller left room for one before it.
        unsafe { step::<R, 1>(tile.sources, outputs, columns, at.min(end - VECTOR)) };
        at += VECTOR;
    }
}

/// # Safety
///
/// All sources and outputs have `U` vectors from offset `at` on, and no output overlaps a source.
#[inline]
#[target_feature(enable = "avx2,gfni")]
unsafe fn step<const R: usize, const U: usize>(
    sources: &[&[u8]],
    outputs: [*mut u8; R],
    columns: &[[u64; R]],
    at: usize,
) {
    let mut sums = [[_mm256_setzero_si256(); U]; R];
    for (source, column) in sources.iter().zip(columns) {
        let mut bytes = [_mm256_setzero_si256(); U];
        for (unit, bytes) in bytes.iter_mut().enumerate() {
            // SAFETY: the caller vouches for these bytes.
            *bytes = unsafe { _mm256_loadu_si256(source.as_ptr().add(at + unit * VECTOR).cast()) };
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
