//! Checksums of the cells of shards, and coding that computes them on the way.

use crate::crc32c;
use crate::product::{Order, Seen, TILE_BYTES_CHECKED};
use crate::{Codec, CodecError};
use base::{Adler32, Crc32c};

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
struct Sink<'c> {
    cell: usize,
    cells: usize,
    checksums: &'c mut [Crc32c],
}

impl Sink<'_> {
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
        self.check_encode(data, parity)?;
        let mut sink = self.sink(data, cell, checksums)?;
        if !cell.is_multiple_of(TILE_BYTES_CHECKED) || !self.encode_folded(data, parity, &mut sink) {
            self.encode_seen(data, parity, |shard, at, bytes, next| sink.extend(shard, at, bytes, next));
        }
        Ok(())
    }

    /// As [`Codec::encode_with_checksums`], and the Adler-32 of all data shards one after the other.
    ///
    /// Every byte is still read from memory once; the additional sum costs its own computing time.
    pub fn encode_with_stream_checksum(
        &self,
        data: &[&[u8]],
        parity: &mut [&mut [u8]],
        cell: usize,
        checksums: &mut [Crc32c],
    ) -> Result<Adler32, CodecError> {
        self.check_encode(data, parity)?;
        let mut sink = self.sink(data, cell, checksums)?;
        let mut sums = [Adler32::default(); crate::MAX_SHARDS];
        self.encode_seen(data, parity, |shard, at, bytes, next| {
            if shard < data.len() {
                sums[shard] = sums[shard].extend(bytes);
            }
            sink.extend(shard, at, bytes, next);
        });
        let length = data.first().map_or(0, |shard| shard.len()) as u64;
        let shards = sums[..data.len()].iter();
        Ok(shards.fold(Adler32::default(), |sum, shard| sum.combine(*shard, length)))
    }

    fn sink<'c>(
        &self,
        data: &[&[u8]],
        cell: usize,
        checksums: &'c mut [Crc32c],
    ) -> Result<Sink<'c>, CodecError> {
        if cell == 0 {
            return Err(CodecError::EmptyCell);
        }
        let cells = cells_of(data.first().map_or(0, |shard| shard.len()), cell);
        let expected = cells * (self.data_shards() + self.parity_shards());
        if checksums.len() != expected {
            return Err(CodecError::ChecksumCount { expected, given: checksums.len() });
        }
        checksums.fill(Crc32c::default());
        Ok(Sink { cell, cells, checksums })
    }

    /// Encodes and folds in one loop; `false`, with nothing done, if there is none for this kernel and shape.
    /// Cells are whole numbers of tiles.
    fn encode_folded(&self, data: &[&[u8]], parity: &mut [&mut [u8]], sink: &mut Sink<'_>) -> bool {
        let length = data.first().map_or(0, |shard| shard.len());
        self.encoder().apply_checked(data, parity, &mut |at, registers| {
            if at == 0 || !(at == length || at.is_multiple_of(sink.cell)) {
                return;
            }
            let cell = (at - 1) / sink.cell;
            for (shard, register) in registers.iter_mut().enumerate() {
                sink.checksums[shard * sink.cells + cell] = Crc32c(!*register);
                *register = u32::MAX;
            }
        })
    }

    /// Encodes and hands over every piece of every shard while it is in the cache: its shard, its offset,
    /// its bytes, and what to fetch meanwhile.
    fn encode_seen(
        &self,
        data: &[&[u8]],
        parity: &mut [&mut [u8]],
        mut piece: impl FnMut(usize, usize, &[u8], &[u8]),
    ) {
        let first_parity = self.data_shards();
        self.encoder().apply(data, parity, Order::checked(first_parity), &mut |seen| match seen {
            Seen::Source { column, range, next } => {
                piece(column, range.start, &data[column][range], next);
            }
            Seen::Output { row, at, bytes } => piece(first_parity + row, at, bytes, &[]),
        });
    }
}

const _: () = assert!(TILE_BYTES_CHECKED.is_power_of_two());
