//! Matrix times shards, tile by tile.

use crate::field::{AFFINE, NIBBLES, bit_products};
use crate::kernel::{self, Kernel, Tile};

/// The most outputs computed in one pass over the sources: their sums stay in registers.
pub(crate) const GROUP_MAX: usize = 4;

/// Bytes of all sources together that one tile covers; they stay in a core's second-level cache, so that a
/// second group of outputs does not read memory again.
const TILE_BYTES: usize = 256 << 10;
const TILE_SHARD_BYTES_MIN: usize = 4 << 10;
const TILE_SHARD_BYTES_MAX: usize = 16 << 10;

/// A matrix of weights in the form its kernel multiplies by.
#[derive(Debug, Clone)]
pub(crate) struct Product {
    kernel: Kernel,
    columns: usize,
    rows: usize,
    /// The weights as products with the eight powers of two, for the portable kernel and for very short
    /// shards.
    bits: Vec<[u8; 8]>,
    tables: Tables,
}

/// Weights stand in groups of up to [`GROUP_MAX`] rows; within a group column by column, as a pass reads
/// them.
#[derive(Debug, Clone)]
enum Tables {
    None,
    Nibbles(Vec<[u8; 32]>),
    Affine(Vec<u64>),
}

impl Product {
    /// Prepares a matrix of `columns` weights per row; the kernel must be one that this processor can run.
    pub(crate) fn new(kernel: Kernel, columns: usize, weights: &[u8]) -> Product {
        assert!(kernel.is_available());
        assert!(columns > 0 && weights.len().is_multiple_of(columns));
        let grouped: Vec<u8> = weights
            .chunks(GROUP_MAX * columns)
            .flat_map(|group| (0..columns).map(move |column| group.iter().skip(column).step_by(columns)))
            .flatten()
            .copied()
            .collect();
        let tables = match kernel {
            Kernel::Portable => Tables::None,
            Kernel::Avx2 => Tables::Nibbles(grouped.iter().map(|&w| NIBBLES[usize::from(w)]).collect()),
            Kernel::Gfni | Kernel::Avx512Gfni => {
                Tables::Affine(grouped.iter().map(|&w| AFFINE[usize::from(w)]).collect())
            }
        };
        let bits = grouped.into_iter().map(bit_products).collect();
        Product { kernel, columns, rows: weights.len() / columns, bits, tables }
    }

    /// Overwrites every output with its weighted sum of the sources, which are all of one length.
    pub(crate) fn apply(&self, sources: &[&[u8]], outputs: &mut [&mut [u8]]) {
        assert_eq!(sources.len(), self.columns);
        assert_eq!(outputs.len(), self.rows);
        let length = sources.first().map_or(0, |source| source.len());
        let tile_bytes = (TILE_BYTES / self.columns).clamp(TILE_SHARD_BYTES_MIN, TILE_SHARD_BYTES_MAX);
        let tile_bytes = tile_bytes.next_multiple_of(TILE_SHARD_BYTES_MIN);
        // With a single group nothing is read twice, and longer runs serve the prefetchers better.
        let tile_bytes = if self.rows <= GROUP_MAX { length.max(1) } else { tile_bytes };
        for start in (0..length).step_by(tile_bytes) {
            let end = length.min(start + tile_bytes);
            for (group, outputs) in outputs.chunks_mut(GROUP_MAX).enumerate() {
                let first = group * GROUP_MAX * self.columns;
                let weights = first..first + outputs.len() * self.columns;
                self.apply_tile(Tile::new(sources, outputs, start..end), weights);
            }
        }
    }

    fn apply_tile(&self, tile: Tile<'_, '_>, weights: std::ops::Range<usize>) {
        let bits = &self.bits[weights.clone()];
        if tile.end() < self.kernel.vector_bytes() {
            return kernel::portable(tile, bits);
        }
        match &self.tables {
            Tables::None => kernel::portable(tile, bits),
            Tables::Nibbles(tables) => kernel::nibbles(tile, &tables[weights]),
            Tables::Affine(tables) => kernel::affine(self.kernel, tile, &tables[weights]),
        }
    }
}
