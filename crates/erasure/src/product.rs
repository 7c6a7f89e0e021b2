//! Matrix times shards, in an order that caches and prefetchers can follow.

use crate::field::{AFFINE, NIBBLES, bit_products};
use crate::kernel::{self, Ahead, Kernel, Pass, ROWS_MAX, Start};
use std::ops::Range;

/// A matrix of weights in the form its kernel multiplies by.
#[derive(Debug, Clone)]
pub(crate) struct Product {
    kernel: Kernel,
    columns: usize,
    rows: usize,
    /// Rows of one group; the last group may have fewer.
    group_rows: usize,
    /// The weights as products with the eight powers of two, for the portable kernel and for very short
    /// shards.
    bits: Vec<[u8; 8]>,
    tables: Tables,
}

/// Weights stand in groups of rows; within a group column by column, as a pass reads them.
#[derive(Debug, Clone)]
enum Tables {
    None,
    Nibbles(Vec<[u8; 32]>),
    Affine(Vec<u64>),
}

/// The order in which a product reads and writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traversal {
    /// Bytes of each shard that are handled before the next ones.
    pub tile: usize,
    /// Sources that are read side by side.
    pub columns: usize,
    /// Whether the next sources are fetched into the cache in time; without, by how many bytes ahead.
    pub ahead: usize,
    /// Whether outputs go round the cache to memory.
    pub stream: bool,
}

/// Bytes of a tile of all outputs of a group, the largest that a traversal may ask for.
const TILE_MAX: usize = 8 << 10;

/// A piece of a shard that has just been read or computed and is in the cache.
#[derive(Debug, Clone)]
pub(crate) enum Seen<'s> {
    /// These sources, in this range.
    Sources(Range<usize>, Range<usize>),
    /// Bytes of this output, beginning at this offset.
    Output(usize, usize, &'s [u8]),
}

impl Product {
    /// Prepares a matrix of `columns` weights per row; the kernel must be one that this processor can run.
    pub(crate) fn new(kernel: Kernel, columns: usize, weights: &[u8]) -> Product {
        assert!(kernel.is_available());
        assert!(columns > 0 && weights.len().is_multiple_of(columns));
        let rows = weights.len() / columns;
        // As even as can be: two groups of 4 rather than one of 6 and one of 2.
        let group_rows = rows.div_ceil(rows.div_ceil(ROWS_MAX).max(1)).max(1);
        let grouped: Vec<u8> = weights
            .chunks(group_rows * columns)
            .flat_map(|group| (0..columns).map(move |column| group.iter().skip(column).step_by(columns)))
            .flatten()
            .copied()
            .collect();
        let tables = match kernel {
            Kernel::Portable => Tables::None,
            Kernel::Avx2 | Kernel::Neon => {
                Tables::Nibbles(grouped.iter().map(|&w| NIBBLES[usize::from(w)]).collect())
            }
            Kernel::Gfni | Kernel::Avx512Gfni => {
                Tables::Affine(grouped.iter().map(|&w| AFFINE[usize::from(w)]).collect())
            }
        };
        let bits = grouped.into_iter().map(bit_products).collect();
        Product { kernel, columns, rows, group_rows, bits, tables }
    }

    /// Overwrites every output with its weighted sum of the sources, which are all of one length, and tells
    /// `seen` of every byte of sources and outputs once, in ascending order within each shard.
    pub(crate) fn apply(
        &self,
        sources: &[&[u8]],
        outputs: &mut [&mut [u8]],
        order: Traversal,
        seen: &mut impl FnMut(Seen<'_>),
    ) {
        assert_eq!(sources.len(), self.columns);
        assert_eq!(outputs.len(), self.rows);
        assert!(order.tile > 0 && order.columns > 0 && (!order.stream || order.tile <= TILE_MAX));
        let length = sources.first().map_or(0, |source| source.len());
        let mut scratch = order.stream.then(|| [0; ROWS_MAX * TILE_MAX]);
        for start in (0..length).step_by(order.tile) {
            let range = start..length.min(start + order.tile);
            if outputs.is_empty() {
                seen(Seen::Sources(0..self.columns, range.clone()));
            }
            for (group, outputs) in outputs.chunks_mut(self.group_rows).enumerate() {
                let (first_row, rows) = (group * self.group_rows, outputs.len());
                let mut seen_sources = |columns: Range<usize>| {
                    if group == 0 {
                        seen(Seen::Sources(columns, range.clone()));
                    }
                };
                match &mut scratch {
                    None => {
                        let mut tiles = pieces(outputs.iter_mut().map(|output| &mut output[range.clone()]));
                        let tiles = &mut tiles[..rows];
                        self.apply_tile(sources, tiles, first_row, &range, order, &mut seen_sources);
                        for (row, tile) in tiles.iter().enumerate() {
                            seen(Seen::Output(first_row + row, start, tile));
                        }
                    }
                    Some(scratch) => {
                        let mut tiles =
                            pieces(scratch.chunks_exact_mut(TILE_MAX).map(|tile| &mut tile[..range.len()]));
                        let tiles = &mut tiles[..rows];
                        self.apply_tile(sources, tiles, first_row, &range, order, &mut seen_sources);
                        for (row, (tile, output)) in tiles.iter().zip(outputs.iter_mut()).enumerate() {
                            kernel::stream(tile, &mut output[range.clone()]);
                            seen(Seen::Output(first_row + row, start, tile));
                        }
                    }
                }
            }
        }
        if order.stream {
            kernel::stream_fence();
        }
    }

    /// One tile of one group of outputs, the first of which is `first_row`.
    fn apply_tile(
        &self,
        sources: &[&[u8]],
        tiles: &mut [&mut [u8]],
        first_row: usize,
        range: &Range<usize>,
        order: Traversal,
        seen: &mut impl FnMut(Range<usize>),
    ) {
        let vector = self.kernel.vector_bytes();
        let rows = tiles.len();
        let first_weight = first_row * self.columns;
        if self.columns <= order.columns {
            let ahead = Ahead { shards: if order.ahead > 0 { sources } else { &[] }, distance: order.ahead };
            self.pass(Pass::new(sources, ahead, range.clone(), tiles, Start::Zero), first_weight);
            return seen(0..self.columns);
        }
        // Sums can go on from one group of sources to the next only in whole vectors.
        let whole = range.len() - range.len() % vector;
        for first in (0..self.columns).step_by(order.columns) {
            let columns = first..self.columns.min(first + order.columns);
            let next = columns.end..self.columns.min(columns.end + order.columns);
            let mut ahead = Ahead { shards: &sources[next], distance: 0 };
            if ahead.shards.is_empty() {
                ahead = Ahead { shards: &sources[..order.columns], distance: order.tile };
            }
            if order.ahead == 0 {
                ahead.shards = &[];
            }
            if whole > 0 {
                let start = if first == 0 { Start::Zero } else { Start::Sum };
                let mut parts = pieces(tiles.iter_mut().map(|tile| &mut tile[..whole]));
                let part = range.start..range.start + whole;
                let pass = Pass::new(&sources[columns.clone()], ahead, part, &mut parts[..rows], start);
                self.pass(pass, first_weight + first * rows);
            }
            seen(columns);
        }
        if whole < range.len() {
            let rest = range.start + whole..range.end;
            let mut parts = pieces(tiles.iter_mut().map(|tile| &mut tile[whole..]));
            let none = Ahead { shards: &[], distance: 0 };
            self.pass(Pass::new(sources, none, rest, &mut parts[..rows], Start::Zero), first_weight);
        }
    }

    fn pass(&self, pass: Pass<'_, '_>, first_weight: usize) {
        let weights = first_weight..first_weight + pass.weights();
        let bits = &self.bits[weights.clone()];
        if pass.length() < self.kernel.vector_bytes() {
            return kernel::portable(pass, bits);
        }
        match &self.tables {
            Tables::None => kernel::portable(pass, bits),
            Tables::Nibbles(tables) => kernel::nibbles(self.kernel, pass, &tables[weights]),
            Tables::Affine(tables) => kernel::affine(self.kernel, pass, &tables[weights]),
        }
    }
}

/// Up to [`ROWS_MAX`] pieces, one of each output of a group; the rest are empty.
fn pieces<'o>(outputs: impl Iterator<Item = &'o mut [u8]>) -> [&'o mut [u8]; ROWS_MAX] {
    let mut outputs = outputs.fuse();
    std::array::from_fn(|_| outputs.next().unwrap_or_default())
}
