//! Matrix times shards, in an order that caches and prefetchers can follow.

use crate::field::{AFFINE, NIBBLES, bit_products};
use crate::kernel::{self, CHECKED_ROWS_MAX, CHECKED_STEP, Kernel, Pass, ROWS_MAX, Start};
use crate::{CodecError, MAX_SHARDS, codec, crc32c};
use base::Crc32c;
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
///
/// A processor's prefetchers follow some ten sequential streams; with more, or with shards whose addresses
/// differ by a power of two and so compete for the same places in the cache, every line is waited for.
/// Therefore a tile of a few sources is read before the same tile of the next ones, and the sums wait in the
/// second-level cache: for 32+4 from memory twice as fast as all sources side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Order {
    /// Bytes of each shard that are handled before any further ones; of the sums, too.
    pub(crate) tile: usize,
    /// Sources that are read side by side.
    pub(crate) columns: usize,
}

/// Sources read side by side; up to [`COLUMNS_WHOLE`], all of them.
const COLUMNS: usize = 8;
const COLUMNS_WHOLE: usize = 10;
/// Bytes of each shard in a tile when nothing but sums is computed.
const TILE_BYTES: usize = 32 << 10;
/// Bytes of each shard in a tile when checksums are computed in between, so that the pieces of a group of
/// sources and of the next one share the second-level cache with the sums.
pub(crate) const TILE_BYTES_CHECKED: usize = 16 << 10;

impl Order {
    /// The order for sums alone.
    pub(crate) fn plain(columns: usize, rows: usize) -> Order {
        let one_pass = columns <= COLUMNS_WHOLE && rows <= ROWS_MAX;
        let tile = if one_pass { usize::MAX } else { TILE_BYTES };
        Order { tile, columns: side_by_side(columns) }
    }

    /// The order for sums and checksums.
    pub(crate) fn checked(columns: usize) -> Order {
        Order { tile: TILE_BYTES_CHECKED, columns: side_by_side(columns) }
    }
}

/// As even as can be: 6 and 6 rather than 8 and 4.
fn side_by_side(columns: usize) -> usize {
    if columns <= COLUMNS_WHOLE { columns } else { columns.div_ceil(columns.div_ceil(COLUMNS)) }
}

/// What is read after a piece: these shards, so many bytes further on.
#[derive(Clone, Copy)]
struct Ahead<'p> {
    shards: &'p [&'p [u8]],
    distance: usize,
}

impl Ahead<'_> {
    const NONE: Ahead<'static> = Ahead { shards: &[], distance: 0 };
}

/// Tells of the range of the given sources, one by one, each with one of the next to fetch meanwhile.
fn show(
    sources: &[&[u8]],
    columns: Range<usize>,
    range: &Range<usize>,
    ahead: Ahead<'_>,
    seen: &mut impl FnMut(Seen<'_>),
) {
    let mut next = ahead.shards.iter();
    for column in columns {
        let next =
            next.next().and_then(|shard| shard.get(range.start + ahead.distance..)).unwrap_or_default();
        let next = &next[..next.len().min(range.len())];
        debug_assert!(range.end <= sources[column].len());
        seen(Seen::Source { column, range: range.clone(), next });
    }
}

/// A piece of a shard that has just been read or computed and is in the cache.
#[derive(Debug)]
pub(crate) enum Seen<'s> {
    /// These bytes of a source.
    Source {
        /// Which one.
        column: usize,
        /// Where in the shard.
        range: Range<usize>,
        /// Bytes as many, or fewer, that are read next and are worth fetching meanwhile.
        next: &'s [u8],
    },
    /// These bytes of an output, computed last.
    Output {
        /// Which one.
        row: usize,
        /// Their offset in the shard.
        at: usize,
        /// They themselves.
        bytes: &'s [u8],
    },
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
        order: Order,
        seen: &mut impl FnMut(Seen<'_>),
    ) {
        assert_eq!(sources.len(), self.columns);
        assert_eq!(outputs.len(), self.rows);
        assert!(order.tile > 0 && order.columns > 0);
        let length = sources.first().map_or(0, |source| source.len());
        if length <= order.tile && self.is_one_pass(length, order) {
            // What small shards cost is mostly what is done around the pass.
            self.pass(Pass::new(sources, 0..length, outputs, Start::Zero), 0);
            show(sources, 0..self.columns, &(0..length), Ahead::NONE, seen);
            for (row, bytes) in outputs.iter().enumerate() {
                seen(Seen::Output { row, at: 0, bytes });
            }
            return;
        }
        let tile = order.tile.min(length.max(1));
        for start in (0..length).step_by(tile) {
            let range = start..length.min(start + tile);
            if outputs.is_empty() {
                show(sources, 0..self.columns, &range, Ahead::NONE, seen);
            }
            for (group, outputs) in outputs.chunks_mut(self.group_rows).enumerate() {
                let (first_row, rows) = (group * self.group_rows, outputs.len());
                let mut seen_sources = |columns: Range<usize>, next: Ahead<'_>| {
                    if group == 0 {
                        show(sources, columns, &range, next, seen);
                    }
                };
                let mut tiles = pieces(outputs.iter_mut().map(|output| &mut output[range.clone()]));
                let tiles = &mut tiles[..rows];
                self.apply_tile(sources, tiles, first_row, &range, order, &mut seen_sources);
                for (row, tile) in tiles.iter().enumerate() {
                    seen(Seen::Output { row: first_row + row, at: start, bytes: tile });
                }
            }
        }
    }

    /// Data and parity shards, of what this matrix encodes.
    pub(crate) fn shards(&self) -> usize {
        self.columns + self.rows
    }

    /// Computes all parity shards from all data shards, after checking that they are as many as the matrix
    /// has columns and rows, and of one length.
    pub(crate) fn encode(&self, data: &[&[u8]], parity: &mut [&mut [u8]]) -> Result<(), CodecError> {
        self.check_encode(data, parity)?;
        self.apply(data, parity, Order::plain(self.columns, self.rows), &mut |_| ());
        Ok(())
    }

    pub(crate) fn check_encode(&self, data: &[&[u8]], parity: &[&mut [u8]]) -> Result<(), CodecError> {
        if data.len() != self.columns {
            return Err(CodecError::DataShardCount { expected: self.columns, given: data.len() });
        }
        if parity.len() != self.rows {
            return Err(CodecError::ParityShardCount { expected: self.rows, given: parity.len() });
        }
        let lengths = data.iter().map(|shard| shard.len()).chain(parity.iter().map(|shard| shard.len()));
        codec::check_lengths(lengths.enumerate())
    }

    /// Whether one pass computes all outputs from all sources.
    fn is_one_pass(&self, length: usize, order: Order) -> bool {
        length >= self.kernel.vector_bytes()
            && (1..=self.group_rows).contains(&self.rows)
            && self.columns <= order.columns
    }

    /// As [`Product::apply`], and in the same loop the CRC-32C of all sources and outputs: the register of
    /// each source, then of each output, moves on over a tile, and `turn` is told where the next begins.
    ///
    /// `false`, with nothing done, where the kernel has no such passes for this matrix.
    pub(crate) fn apply_checked(
        &self,
        sources: &[&[u8]],
        outputs: &mut [&mut [u8]],
        turn: &mut impl FnMut(usize, &mut [u32]),
    ) -> bool {
        let Tables::Affine(tables) = &self.tables else { return false };
        if !kernel::has_checked(self.kernel) || !(1..=CHECKED_ROWS_MAX).contains(&self.rows) {
            return false;
        }
        assert_eq!((sources.len(), outputs.len()), (self.columns, self.rows));
        let Order { tile, columns } = Order::checked(self.columns);
        let length = sources.first().map_or(0, |source| source.len());
        let mut registers = [u32::MAX; MAX_SHARDS];
        let registers = &mut registers[..self.columns + self.rows];
        for start in (0..length).step_by(tile) {
            turn(start, registers);
            let range = start..length.min(start + tile);
            let mut tiles = pieces(outputs.iter_mut().map(|output| &mut output[range.clone()]));
            let tiles = &mut tiles[..self.rows];
            let whole = range.len() - range.len() % CHECKED_STEP;
            let (source_registers, output_registers) = registers.split_at_mut(self.columns);
            for first in (0..self.columns).step_by(columns) {
                let group = first..self.columns.min(first + columns);
                let begin = if first == 0 { Start::Zero } else { Start::Sum };
                let mut parts = pieces(tiles.iter_mut().map(|tile| &mut tile[..whole]));
                let part = range.start..range.start + whole;
                let pass = Pass::new(&sources[group.clone()], part, &mut parts[..self.rows], begin);
                let pass = pass.fetching(if range.end + tile <= length { tile } else { 0 });
                let weights = first * self.rows..group.end * self.rows;
                let finished = if group.end == self.columns { self.rows } else { 0 };
                let output_registers = &mut output_registers[..finished];
                kernel::affine_checked(
                    pass,
                    &tables[weights],
                    &mut source_registers[group],
                    output_registers,
                );
            }
            let rest = range.start + whole..range.end;
            if !rest.is_empty() {
                let mut parts = pieces(tiles.iter_mut().map(|tile| &mut tile[whole..]));
                let pass = Pass::new(sources, rest.clone(), &mut parts[..self.rows], Start::Zero);
                self.pass(pass, 0);
                let bytes = sources.iter().map(|source| &source[rest.clone()]);
                let bytes = bytes.chain(parts[..self.rows].iter().map(|part| &**part));
                for (register, bytes) in registers.iter_mut().zip(bytes) {
                    *register = !crc32c::extend(Crc32c(!*register), bytes, &[]).0;
                }
            }
        }
        turn(length, registers);
        true
    }

    /// One tile of one group of outputs, the first of which is `first_row`.
    fn apply_tile(
        &self,
        sources: &[&[u8]],
        tiles: &mut [&mut [u8]],
        first_row: usize,
        range: &Range<usize>,
        order: Order,
        seen: &mut impl FnMut(Range<usize>, Ahead<'_>),
    ) {
        let vector = self.kernel.vector_bytes();
        let rows = tiles.len();
        let first_weight = first_row * self.columns;
        // Sums can go on from one group of sources to the next only in whole vectors.
        let whole = range.len() - range.len() % vector;
        let side_by_side = order.columns.min(self.columns);
        for first in (0..self.columns).step_by(side_by_side) {
            let columns = first..self.columns.min(first + side_by_side);
            let next = columns.end..self.columns.min(columns.end + side_by_side);
            let ahead = match next.is_empty() {
                false => Ahead { shards: &sources[next], distance: 0 },
                true => Ahead { shards: &sources[..side_by_side], distance: range.len() },
            };
            if whole > 0 {
                let start = if first == 0 { Start::Zero } else { Start::Sum };
                let mut parts = pieces(tiles.iter_mut().map(|tile| &mut tile[..whole]));
                let part = range.start..range.start + whole;
                let pass = Pass::new(&sources[columns.clone()], part, &mut parts[..rows], start);
                self.pass(pass, first_weight + first * rows);
            }
            seen(columns, ahead);
        }
        if whole < range.len() {
            let rest = range.start + whole..range.end;
            let mut parts = pieces(tiles.iter_mut().map(|tile| &mut tile[whole..]));
            self.pass(Pass::new(sources, rest, &mut parts[..rows], Start::Zero), first_weight);
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
