//! Multiplication in plain Rust, in a form that compilers turn into the vector code of any processor.

use super::Tile;

/// Bytes handled at once; short enough that the sums of four outputs stay in registers.
const BLOCK: usize = 32;

/// A product is the sum, over the set bits of a source byte, of the weight times that power of two. Each bit
/// becomes a mask once and serves all outputs; there are no tables to look up, so timing does not depend on
/// the data.
pub(super) fn run<const R: usize>(tile: Tile<'_, '_>, weights: &[[u8; 8]]) {
    let (columns, rest) = weights.as_chunks::<R>();
    assert!(rest.is_empty() && columns.len() == tile.sources.len() && tile.outputs.len() == R);
    let mut start = tile.range.start;
    while start < tile.range.end {
        let end = tile.range.end.min(start + BLOCK);
        let mut sums = [[0u8; BLOCK]; R];
        for (source, column) in tile.sources.iter().zip(columns) {
            let mut block = [0u8; BLOCK];
            block[..end - start].copy_from_slice(&source[start..end]);
            add_products(&mut sums, &block, column);
        }
        for (output, sum) in tile.outputs.iter_mut().zip(&sums) {
            output[start..end].copy_from_slice(&sum[..end - start]);
        }
        start = end;
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
