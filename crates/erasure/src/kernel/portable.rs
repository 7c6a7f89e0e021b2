//! Multiplication in plain Rust, in a form that compilers turn into the vector code of any processor.

use super::{Pass, Start};

/// Bytes handled at once; short enough that the sums of four outputs stay in registers.
const BLOCK: usize = 32;

/// A product is the sum, over the set bits of a source byte, of the weight times that power of two. Each bit
/// becomes a mask once and serves all outputs; there are no tables to look up, so timing does not depend on
/// the data.
pub(super) fn run<const R: usize>(pass: Pass<'_, '_>, weights: &[[u8; 8]]) {
    let (columns, rest) = weights.as_chunks::<R>();
    assert!(rest.is_empty() && columns.len() == pass.sources.len() && pass.outputs.len() == R);
    let length = pass.range.len();
    for start in (0..length).step_by(BLOCK) {
        let end = length.min(start + BLOCK);
        let mut sums = [[0u8; BLOCK]; R];
        if pass.start == Start::Sum {
            for (sum, output) in sums.iter_mut().zip(pass.outputs.iter()) {
                sum[..end - start].copy_from_slice(&output[start..end]);
            }
        }
        for (source, column) in pass.sources.iter().zip(columns) {
            let mut block = [0u8; BLOCK];
            block[..end - start].copy_from_slice(&source[pass.range.start + start..pass.range.start + end]);
            add_products(&mut sums, &block, column);
        }
        for (output, sum) in pass.outputs.iter_mut().zip(&sums) {
            output[start..end].copy_from_slice(&sum[..end - start]);
        }
    }
}

#[inline]
fn add_products<const R: usize>(sums: &mut [[u8; BLOCK]; R], block: &[u8; BLOCK], column: &[[u8; 8]; R]) {
    for bit in 0..8 {
        let mask = block.map(|byte| ((byte >> bit) & 1).wrapping_neg());
        for (sum, weight) in sums.iter_mut().zip(column) {
            for (sum, mask) in sum.iter_mut().zip(&mask) {
                *sum ^= mask & weight[bit];
            }
        }
    }
}
