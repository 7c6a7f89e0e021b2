//! Checksums of the cells of shards, and coding that computes them on the way.

use crate::crc32c;
use crate::product::{Order, Product, Seen, TILE_BYTES_CHECKED};
use crate::stream::Parts;
use crate::{Codec, CodecError, StreamSums};
use base::Crc32c;

/// The number of cells of `cell` bytes in a shard of `length` bytes; the last may be shorter.
pub fn cells_of(length: usize, cell: usize) -> usize {
    length.div_ceil(cell.max(1))
}

/// The first cell of `shard` whose CRC-32C is not the expected one, as an index; `None` if all are right.
///
/// Cells have `cell` bytes, the last may be shorter. A shard with more or fewer cells than `expected` has
/// names fails at the first cell that has no counterpart.
pub fn find_bad_cell(shard: &[u8], cell: usize, expected: &[Crc32c]) -> Option<usize> {
    let mut bad = None;
    let mut cells = shard.chunks(cell.max(1));
    for (index, expected) in expected.iter().enumerate() {
        let right =
            cells.next().is_some_and(|cell| crc32c::extend(Crc32c::default(), cell, &[]) == *expected);
        if !right {
            bad = Some(index);
            break;
        }
    }
    bad.or_else(|| cells.next().map(|_| expected.len()))
}

/// Where checksums go: those of shard `i` begin at `i` times the cells of a shard.
pub(crate) struct Sink<'c> {
    cell: usize,
    cells: usize,
    checksums: &'c mut [Crc32c],
}

impl<'c> Sink<'c> {
    /// For `shards` shards of `length` bytes; refuses cells of no bytes and places that are not as many as
    /// the cells.
    pub(crate) fn new(
        shards: usize,
        length: usize,
        cell: usize,
        checksums: &'c mut [Crc32c],
    ) -> Result<Sink<'c>, CodecError> {
        if cell == 0 {
            return Err(CodecError::EmptyCell);
        }
        let cells = cells_of(length, cell);
        let expected = cells * shards;
        if checksums.len() != expected {
            return Err(CodecError::ChecksumCount { expected, given: checksums.len() });
        }
        checksums.fill(Crc32c::default());
        Ok(Sink { cell, cells, checksums })
    }

    /// Multiplies, and puts the checksums of all sources, then of all outputs, into their places; `parts` go
    /// on with the sources.
    pub(crate) fn apply(
        &mut self,
        product: &Product,
        sources: &[&[u8]],
        outputs: &mut [&mut [u8]],
        parts: &mut Parts,
    ) {
        if self.cell.is_multiple_of(TILE_BYTES_CHECKED) && self.apply_folded(product, sources, outputs, parts)
        {
            return;
        }
        let first_output = sources.len();
        product.apply(sources, outputs, Order::checked(first_output), &mut |seen| match seen {
            Seen::Source { column, range, next } => {
                let bytes = &sources[column][range.clone()];
                parts.extend(column, range.start, bytes);
                self.extend(column, range.start, bytes, next);
            }
            Seen::Output { row, at, bytes } => self.extend(first_output + row, at, bytes, &[]),
        });
    }

    /// Multiplies and folds in one loop; `false`, with nothing done, if there is none for this kernel and
    /// shape. Cells are whole numbers of tiles.
    fn apply_folded(
        &mut self,
        product: &Product,
        sources: &[&[u8]],
        outputs: &mut [&mut [u8]],
        parts: &mut Parts,
    ) -> bool {
        let length = sources.first().map_or(0, |shard| shard.len());
        let mut before = 0;
        product.apply_checked(sources, outputs, &mut |at, registers| {
            if !parts.is_none() {
                // The tile that has just been folded is still in the second-level cache.
                for (shard, bytes) in sources.iter().enumerate() {
                    parts.extend(shard, before, &bytes[before..at]);
                }
                before = at;
            }
            if at == 0 || !(at == length || at.is_multiple_of(self.cell)) {
                return;
            }
            let cell = (at - 1) / self.cell;
            for (shard, register) in registers.iter_mut().enumerate() {
                self.checksums[shard * self.cells + cell] = Crc32c(!*register);
                *register = u32::MAX;
            }
        })
    }

    /// Goes on with the cells of a shard that `bytes`, at offset `at`, belong to.
    fn extend(&mut self, shard: usize, mut at: usize, mut bytes: &[u8], mut next: &[u8]) {
        while !bytes.is_empty() {
            let (part, rest) = bytes.split_at(bytes.len().min(self.cell - at % self.cell));
            let (part_next, rest_next) = next.split_at(next.len().min(part.len()));
            let checksum = &mut self.checksums[shard * self.cells + at / self.cell];
            *checksum = crc32c::extend(*checksum, part, part_next);
            at += part.len();
            (bytes, next) = (rest, rest_next);
        }
    }
}

impl Codec {
    /// Computes all parity shards, and in the same pass the CRC-32C of every cell of every shard.
    ///
    /// `data` and `parity` are as for [`Codec::encode`]. Cells have `cell` bytes, at least 1 and best 64 KiB;
    /// the last of a shard may be shorter. `checksums` has one place for each of the
    /// [`cells_of`]`(length, cell)` cells of each shard: all of data shard 0 first, those of the last parity
    /// shard last. On an error nothing has been written.
    pub fn encode_with_checksums(
        &self,
        data: &[&[u8]],
        parity: &mut [&mut [u8]],
        cell: usize,
        checksums: &mut [Crc32c],
    ) -> Result<(), CodecError> {
        self.encode_with_stream_sums(data, parity, cell, checksums, &mut StreamSums::default(), 0)
    }
}

const _: () = assert!(TILE_BYTES_CHECKED.is_power_of_two());
