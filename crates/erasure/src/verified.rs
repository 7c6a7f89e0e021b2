//! Reconstruction that checks what it reads in the pass that reads it.

use crate::cells::{Sink, cells_of};
use crate::matrices::{contains, rank};
use crate::stream::Parts;
use crate::{Codec, CodecError};
use base::Crc32c;

impl Codec {
    /// Computes the wanted shards as [`Codec::reconstruct`] does, and in the same pass checks the CRC-32C of
    /// every cell of the shards it reads and computes those of the wanted shards.
    ///
    /// Each shard comes with its index, its bytes and the checksums of its cells, which have `cell` bytes;
    /// the last may be shorter. Those of present shards are compared, those of wanted ones are places to be
    /// filled; each list has [`cells_of`]`(length, cell)` of them. When more than `k` shards are present, the
    /// `k` with the lowest indexes are read and checked, and no others.
    ///
    /// A cell that is not right is [`CodecError::BadCell`]: the first bad cell of the first bad shard. The
    /// wanted shards and their checksums then hold anything, computed from that cell too: do not use them.
    /// On any other error nothing has been written. Nothing wanted means nothing read, and nothing checked.
    pub fn reconstruct_verified(
        &self,
        present: &[(usize, &[u8], &[Crc32c])],
        wanted: &mut [(usize, &mut [u8], &mut [Crc32c])],
        cell: usize,
    ) -> Result<(), CodecError> {
        let plan = self.plan(
            present.iter().map(|(shard, bytes, _)| (*shard, bytes.len())),
            wanted.iter().map(|(shard, bytes, _)| (*shard, bytes.len())),
        )?;
        let (k, length) = (self.data_shards(), present.first().map_or(0, |(_, bytes, _)| bytes.len()));
        let expected = cells_of(length, cell);
        if cell == 0 {
            return Err(CodecError::EmptyCell);
        }
        let lists = present.iter().map(|(_, _, list)| list.len());
        if let Some(given) =
            lists.chain(wanted.iter().map(|(_, _, list)| list.len())).find(|&given| given != expected)
        {
            return Err(CodecError::ChecksumCount { expected, given });
        }
        let mut found = vec![Crc32c::default(); (k + wanted.len()) * expected];
        let mut sink = Sink::new(k + wanted.len(), length, cell, &mut found)?;
        if wanted.is_empty() {
            return Ok(());
        }
        let mut read: Vec<_> = present.iter().filter(|(shard, ..)| contains(&plan.chosen, *shard)).collect();
        read.sort_unstable_by_key(|(shard, ..)| *shard);
        let sources: Vec<&[u8]> = read.iter().map(|(_, bytes, _)| *bytes).collect();
        let mut outputs: Vec<&mut [u8]> = wanted.iter().map(|_| Default::default()).collect();
        for (shard, bytes, _) in wanted.iter_mut() {
            outputs[rank(&plan.wanted, *shard)] = bytes;
        }
        sink.apply(&self.product(&plan), &sources, &mut outputs, &mut Parts::none());
        let (of_sources, of_outputs) = found.split_at(k * expected);
        for ((shard, _, right), found) in read.into_iter().zip(of_sources.chunks(expected.max(1))) {
            if let Some(cell) = (0..expected).find(|&cell| right[cell] != found[cell]) {
                return Err(CodecError::BadCell { shard: *shard, cell });
            }
        }
        for (shard, _, places) in wanted.iter_mut() {
            places.copy_from_slice(&of_outputs[rank(&plan.wanted, *shard) * expected..][..expected]);
        }
        Ok(())
    }
}
