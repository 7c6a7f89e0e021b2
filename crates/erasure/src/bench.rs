//! The work that the bench measures, without clock, threads or memory of its own.
//!
//! A driver lays stripes one after the other into a buffer, shards of a stripe one after the other, data
//! before parity; lets [`Work::run`] go over them, on a part of the buffer for each core; and takes the time.

use crate::{Codec, CodecError, MAX_SHARDS, cells_of, find_bad_cell};
use base::Crc32c;

/// Bytes of a cell in the operations with checksums.
pub const CELL_BYTES: usize = 64 << 10;

/// What is measured; the names in rows are those of [`Operation::name`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// All parity from all data.
    Encode,
    /// Data shard 0 from the others and the first parity.
    DecodeOne,
    /// The first `m` data shards (or all) from the others and the parity.
    DecodeAll,
    /// All parity, and the checksum of every cell of every shard, in one pass.
    EncodeChecked,
    /// The same in two passes, one after the other.
    EncodeThenCheck,
    /// The checksums of all cells of the data, as a verified read checks them.
    Verify,
    /// The data is read and summed: what memory gives a reader.
    Read,
    /// The data shards are overwritten: what memory gives a writer.
    Write,
    /// The first half of the data is copied over the second: what memory gives a copy, of which the bytes
    /// that are copied count.
    Copy,
    /// The data is read and the parity overwritten: the traffic of an encoding without its arithmetic.
    ReadAndWrite,
}

impl Operation {
    /// All operations.
    pub const ALL: [Operation; 10] = [
        Operation::Encode,
        Operation::DecodeOne,
        Operation::DecodeAll,
        Operation::EncodeChecked,
        Operation::EncodeThenCheck,
        Operation::Verify,
        Operation::Read,
        Operation::Write,
        Operation::Copy,
        Operation::ReadAndWrite,
    ];

    /// The name in rows, and of the operations that peers offer, in requests to them.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Encode => "encode",
            Operation::DecodeOne => "decode-1",
            Operation::DecodeAll => "decode-m",
            Operation::EncodeChecked => "encode+crc32c",
            Operation::EncodeThenCheck => "encode,crc32c",
            Operation::Verify => "verify",
            Operation::Read => "memory-read",
            Operation::Write => "memory-write",
            Operation::Copy => "memory-copy",
            Operation::ReadAndWrite => "memory-mix",
        }
    }
}

/// An operation on one stripe, with room for some number of shards.
type Step = fn(&mut Work, &mut [u8]) -> Result<(), CodecError>;

/// An operation on stripes of one shape, with the places it needs.
#[derive(Debug)]
pub struct Work {
    codec: Codec,
    operation: Operation,
    shard_bytes: usize,
    checksums: Vec<Crc32c>,
}

impl Work {
    /// Prepares an operation on stripes of `codec` with shards of `shard_bytes`, at least 1.
    pub fn new(codec: Codec, operation: Operation, shard_bytes: usize) -> Work {
        let shard_bytes = shard_bytes.max(1);
        let shards = codec.data_shards() + codec.parity_shards();
        let checksums = vec![Crc32c::default(); shards * cells_of(shard_bytes, CELL_BYTES)];
        Work { codec, operation, shard_bytes, checksums }
    }

    /// Bytes of a stripe.
    pub fn stripe_bytes(&self) -> usize {
        (self.codec.data_shards() + self.codec.parity_shards()) * self.shard_bytes
    }

    /// Goes over all whole stripes in `buffer` once; the bytes of data (not parity) that it worked on, of a
    /// copy those that were copied. What the operation computes overwrites what the buffer holds.
    pub fn run(&mut self, buffer: &mut [u8]) -> Result<u64, CodecError> {
        let mut done = 0;
        let data_bytes = self.codec.data_shards() * self.shard_bytes;
        let data_bytes = if self.operation == Operation::Copy { data_bytes / 2 } else { data_bytes };
        for stripe in buffer.chunks_exact_mut(self.stripe_bytes()) {
            self.stripe(stripe)?;
            done += data_bytes as u64;
        }
        Ok(done)
    }

    fn stripe(&mut self, stripe: &mut [u8]) -> Result<(), CodecError> {
        let (k, bytes) = (self.codec.data_shards(), self.shard_bytes);
        match self.operation {
            Operation::Encode | Operation::EncodeChecked | Operation::EncodeThenCheck => {
                self.sized(stripe, Work::encode::<16>, Work::encode::<48>, Work::encode::<MAX_SHARDS>)
            }
            Operation::DecodeOne | Operation::DecodeAll => {
                self.sized(stripe, Work::decode::<16>, Work::decode::<48>, Work::decode::<MAX_SHARDS>)
            }
            Operation::Verify => {
                let cells = cells_of(bytes, CELL_BYTES);
                for (shard, expected) in
                    stripe.chunks_exact(bytes).zip(self.checksums.chunks_exact(cells)).take(k)
                {
                    for (cell, expected) in shard.chunks(CELL_BYTES).zip(expected) {
                        std::hint::black_box(find_bad_cell(cell, CELL_BYTES, std::slice::from_ref(expected)));
                    }
                }
                Ok(())
            }
            Operation::Read => {
                std::hint::black_box(sum(&stripe[..k * bytes]));
                Ok(())
            }
            Operation::Write => {
                stripe[..k * bytes].fill(std::hint::black_box(0x5A));
                Ok(())
            }
            Operation::Copy => {
                let (from, to) = stripe[..k * bytes].split_at_mut(k * bytes / 2);
                to[..from.len()].copy_from_slice(from);
                Ok(())
            }
            Operation::ReadAndWrite => {
                let (data, parity) = stripe.split_at_mut(k * bytes);
                parity.fill(sum(data) as u8);
                Ok(())
            }
        }
    }

    /// Runs the one with just enough room for all shards: lists on the stack cost a small stripe less than
    /// allocations, but clearing room for 255 shards takes as long as the smallest stripes themselves.
    fn sized(&mut self, stripe: &mut [u8], few: Step, some: Step, many: Step) -> Result<(), CodecError> {
        match self.codec.data_shards() + self.codec.parity_shards() {
            0..=16 => few(self, stripe),
            17..=48 => some(self, stripe),
            _ => many(self, stripe),
        }
    }

    fn encode<const N: usize>(&mut self, stripe: &mut [u8]) -> Result<(), CodecError> {
        let (data, parity) = stripe.split_at_mut(self.codec.data_shards() * self.shard_bytes);
        let mut sources: [&[u8]; N] = [&[]; N];
        for (place, shard) in sources.iter_mut().zip(data.chunks_exact(self.shard_bytes)) {
            *place = shard;
        }
        let sources = &sources[..self.codec.data_shards()];
        let mut outputs: [&mut [u8]; N] = std::array::from_fn(|_| Default::default());
        for (place, shard) in outputs.iter_mut().zip(parity.chunks_exact_mut(self.shard_bytes)) {
            *place = shard;
        }
        let outputs = &mut outputs[..self.codec.parity_shards()];
        if self.operation == Operation::EncodeChecked {
            return self.codec.encode_with_checksums(sources, outputs, CELL_BYTES, &mut self.checksums);
        }
        self.codec.encode(sources, outputs)?;
        if self.operation == Operation::EncodeThenCheck {
            let shards = sources.iter().copied().chain(outputs.iter().map(|shard| &**shard));
            let cells = shards.flat_map(|shard| shard.chunks(CELL_BYTES));
            for (cell, place) in cells.zip(&mut self.checksums) {
                *place = Crc32c::of(cell);
            }
        }
        Ok(())
    }

    fn decode<const N: usize>(&mut self, stripe: &mut [u8]) -> Result<(), CodecError> {
        let (k, m) = (self.codec.data_shards(), self.codec.parity_shards());
        let lost = if self.operation == Operation::DecodeOne { m.min(1) } else { m.min(k) };
        let (lost_bytes, rest) = stripe.split_at_mut(lost * self.shard_bytes);
        let mut present: [(usize, &[u8]); N] = [(0, &[]); N];
        for (at, (place, shard)) in present.iter_mut().zip(rest.chunks_exact(self.shard_bytes)).enumerate() {
            *place = (lost + at, shard);
        }
        let mut wanted: [(usize, &mut [u8]); N] = std::array::from_fn(|at| (at, Default::default()));
        for ((_, place), shard) in wanted.iter_mut().zip(lost_bytes.chunks_exact_mut(self.shard_bytes)) {
            *place = shard;
        }
        self.codec.reconstruct(&present[..k], &mut wanted[..lost])
    }
}

/// The sum of all words, in eight parts so that nothing but memory limits it.
fn sum(bytes: &[u8]) -> u64 {
    let (blocks, rest) = bytes.as_chunks::<256>();
    let mut sums = [0u64; 32];
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        for (sum, word) in sums.iter_mut().zip(words) {
            *sum ^= u64::from_le_bytes(*word);
        }
    }
    let tail = rest.iter().fold(0, |sum, &byte| sum ^ u64::from(byte));
    sums.iter().fold(tail, |sum, word| sum ^ word)
}
