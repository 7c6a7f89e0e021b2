//! Writing a striped blob.

use std::sync::Arc;

use base::{BlobDescription, BlobId, ByteCount, Crc32c, Layout, StreamChecksums, StripeSet};
use erasure::StreamSums;

use crate::arena::CellBuffer;
use crate::cell::{BLOCK_BYTES, HEADER_BYTES};
use crate::code::Code;
use crate::config::WRITE_ROWS_IN_FLIGHT;
use crate::error::PoolError;
use crate::geometry::Geometry;
use crate::pool::Pool;
use crate::stripe::Stripe;
use crate::traffic::Use;

/// Takes the bytes of one blob in order. Dropping it before [`BlobWriter::finish`] removes what was written.
pub struct BlobWriter {
    pool: Arc<Pool>,
    id: BlobId,
    geometry: Geometry,
    code: Arc<Code>,
    expected: Option<ByteCount>,
    length: u64,
    /// Of what has been coded, if they are wanted.
    sums: Option<StreamChecksums>,
    row: Option<Row>,
    current: Option<Stripe>,
    closing: Option<Stripe>,
    done: Vec<StripeSet>,
    failed: bool,
    /// No more bytes are taken.
    ended: bool,
    finished: bool,
    whose: Use,
}

/// A row being filled: its data cells, then its parity cells.
struct Row {
    cells: Vec<CellBuffer>,
    filled: usize,
}

impl BlobWriter {
    pub(crate) fn new(pool: Arc<Pool>, id: BlobId, expected: Option<ByteCount>) -> Result<Self, PoolError> {
        let geometry = pool.geometry(pool.config().code);
        let code = pool.code(pool.config().code)?;
        Ok(BlobWriter {
            pool,
            id,
            geometry,
            code,
            expected,
            length: 0,
            sums: None,
            row: None,
            current: None,
            closing: None,
            done: Vec::new(),
            failed: false,
            ended: false,
            finished: false,
            whose: Use::Engine,
        })
    }

    /// Says for whom it writes, before the first byte.
    #[must_use]
    pub fn used_by(mut self, whose: Use) -> Self {
        self.whose = whose;
        self
    }

    /// Has the checksums of all bytes computed, for [`BlobWriter::end`]: to be asked for before the first.
    #[must_use]
    pub fn with_checksums(mut self) -> Self {
        assert!(self.length == 0, "asked for before the first byte");
        self.sums = Some(StreamChecksums::default());
        self
    }

    /// The id that the blob will have.
    #[must_use]
    pub fn id(&self) -> BlobId {
        self.id
    }

    /// Bytes taken so far.
    #[must_use]
    pub fn length(&self) -> ByteCount {
        ByteCount(self.length)
    }

    /// Takes bytes. Waits for memory and drives; nothing is durable yet.
    ///
    /// # Errors
    /// [`PoolError::Placement`] if no spare drive is up, [`PoolError::WriteLost`]; the writer is of no use
    /// then.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), PoolError> {
        if self.failed || self.ended {
            return Err(PoolError::WriterFailed(self.id));
        }
        let result = self.take(bytes);
        self.failed = result.is_err();
        result
    }

    /// Ends the stream of bytes: no more can follow. Gives the checksums of all of them if they were asked
    /// for, computed from the very bytes that are on their way to the drives. Nothing is durable yet.
    ///
    /// # Errors
    /// As [`BlobWriter::write`].
    pub fn end(&mut self) -> Result<Option<StreamChecksums>, PoolError> {
        if self.failed {
            return Err(PoolError::WriterFailed(self.id));
        }
        if self.row.is_some() {
            let result = self.submit();
            self.failed = result.is_err();
            result?;
        }
        self.ended = true;
        Ok(self.sums)
    }

    /// Ends the blob. On return all shards are synced on distinct drives; the blob is durable once the
    /// catalogue has committed the description.
    ///
    /// # Errors
    /// As [`BlobWriter::write`]; what was written is removed then.
    pub fn finish(mut self) -> Result<BlobDescription, PoolError> {
        self.end()?;
        self.close_current()?;
        self.finish_closing()?;
        self.finished = true;
        let stripes = std::mem::take(&mut self.done);
        let layout = Layout::Striped { code: self.geometry.code };
        let blob = BlobDescription { id: self.id, layout, length: ByteCount(self.length), stripes };
        assert!(self.geometry.fits(&blob), "every stripe of the blob is described");
        Ok(blob)
    }

    fn take(&mut self, mut bytes: &[u8]) -> Result<(), PoolError> {
        let row_bytes = self.geometry.data * self.geometry.cell_bytes;
        while !bytes.is_empty() {
            if self.row.is_none() {
                self.begin_row()?;
            }
            let Some(row) = &mut self.row else { break };
            let (cell, at) = (row.filled / self.geometry.cell_bytes, row.filled % self.geometry.cell_bytes);
            let (now, later) = bytes.split_at(bytes.len().min(self.geometry.cell_bytes - at));
            let start = HEADER_BYTES + at;
            row.cells[cell].as_mut_slice()[start..start + now.len()].copy_from_slice(now);
            row.filled += now.len();
            self.length += now.len() as u64;
            bytes = later;
            if row.filled == row_bytes {
                self.submit()?;
            }
        }
        Ok(())
    }

    /// Waits for a row on its way to end, then takes memory for the next, whole.
    fn begin_row(&mut self) -> Result<(), PoolError> {
        if let Some(stripe) = &mut self.current {
            stripe.wait_rows(WRITE_ROWS_IN_FLIGHT);
            if !stripe.failed().is_empty() {
                self.pool.mend(stripe, &self.geometry, &self.code)?;
            }
        }
        if self.whose == Use::Client {
            // No row is in hand: what is on its way to drives comes back by itself.
            let row = (self.geometry.data * self.geometry.cell_bytes) as u64;
            let rest = self.expected.map_or(row, |expected| expected.0.saturating_sub(self.length));
            self.pool.pace(row.min(rest));
        }
        let cells = self.pool.write_arena().acquire(self.geometry.width(), self.whose);
        self.row = Some(Row { cells, filled: 0 });
        Ok(())
    }

    /// Codes the row and hands it to the drives.
    fn submit(&mut self) -> Result<(), PoolError> {
        let Some(Row { mut cells, filled }) = self.row.take() else { return Ok(()) };
        let payload = self.geometry.payload(filled as u64);
        spread(&mut cells[..self.geometry.data], filled, self.geometry.cell_bytes, payload);
        let checksums = self.encode(&mut cells, filled, payload)?;
        let full = |stripe: &Stripe| stripe.rows.len() as u64 == self.geometry.rows_per_stripe;
        if self.current.as_ref().is_some_and(full) {
            self.close_current()?;
        }
        if self.current.is_none() {
            self.begin_stripe()?;
        }
        if let Some(stripe) = &mut self.current {
            stripe.submit(&self.pool, &self.geometry, filled as u64, cells, &checksums);
        }
        Ok(())
    }

    /// Computes the parity of a row and the checksums of all blocks of all cells, and goes on with those of
    /// the stream, in one pass.
    fn encode(
        &mut self,
        cells: &mut [CellBuffer],
        filled: usize,
        payload: usize,
    ) -> Result<Vec<Crc32c>, PoolError> {
        let mut checksums = vec![Crc32c::default(); cells.len() * payload.div_ceil(BLOCK_BYTES)];
        let range = HEADER_BYTES..HEADER_BYTES + payload;
        let (data, parity) = cells.split_at_mut(self.geometry.data);
        let data: Vec<&[u8]> = data.iter().map(|cell| &cell.as_slice()[range.clone()]).collect();
        let mut parity: Vec<&mut [u8]> =
            parity.iter_mut().map(|cell| &mut cell.as_mut_slice()[range.clone()]).collect();
        let mut stream = StreamSums {
            adler32: self.sums.map(|sums| sums.adler32),
            crc32c: self.sums.map(|sums| sums.crc32c),
            crc64nvme: None,
        };
        self.code.encode_with_sums(&data, &mut parity, &mut checksums, (&mut stream, filled))?;
        let sums = stream.adler32.zip(stream.crc32c);
        self.sums = sums.map(|(adler32, crc32c)| StreamChecksums { adler32, crc32c });
        Ok(checksums)
    }

    fn begin_stripe(&mut self) -> Result<(), PoolError> {
        let number = self.done.len() + usize::from(self.closing.is_some());
        let set = self.pool.choose_set(self.geometry.width())?;
        let preallocate = match self.expected {
            Some(length) => self.geometry.extent_bytes(length.0, number as u64),
            // Whoever wrote one stripe is likely to fill the next.
            None if number > 0 => self.geometry.extent_offset(self.geometry.rows_per_stripe),
            None => 0,
        };
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        self.current = Some(Stripe::new(self.id, number, set, ByteCount(preallocate)));
        Ok(())
    }

    /// Lets the current stripe sync while the next is written; waits for the one before.
    fn close_current(&mut self) -> Result<(), PoolError> {
        self.finish_closing()?;
        if let Some(mut stripe) = self.current.take() {
            stripe.seal(&self.pool);
            self.closing = Some(stripe);
        }
        Ok(())
    }

    fn finish_closing(&mut self) -> Result<(), PoolError> {
        let Some(stripe) = &mut self.closing else { return Ok(()) };
        self.pool.mend(stripe, &self.geometry, &self.code)?;
        assert!(stripe.shards.iter().all(|shard| shard.is_sealed()), "every shard is synced on its drive");
        self.done.push(stripe.set.clone());
        self.closing = None;
        Ok(())
    }
}

impl Drop for BlobWriter {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let mut sets = std::mem::take(&mut self.done);
        for stripe in [self.closing.take(), self.current.take()].into_iter().flatten() {
            let mut stripe = stripe;
            stripe.wait_rows(1);
            sets.push(stripe.set.clone());
        }
        // What cannot be deleted now is an orphan of this epoch and goes with the next opening.
        let _ = self.pool.delete_extents(self.id, &sets);
    }
}

/// Moves the bytes of a short row, which lie at `stride` per cell, to `payload` per cell, and zeroes the
/// rest.
fn spread(cells: &mut [CellBuffer], filled: usize, stride: usize, payload: usize) {
    if filled < cells.len() * stride {
        // From the last cell down: a cell's new bytes come from itself or from cells before it.
        for target in (0..cells.len()).rev() {
            let end = filled.min((target + 1) * payload);
            let start = end.min(target * payload);
            let (before, rest) = cells.split_at_mut(target);
            let own = rest[0].as_mut_slice();
            let own_from = start.max(target * stride).min(end);
            let at = |from: usize| HEADER_BYTES + (from - target * payload);
            if own_from < end {
                let source = HEADER_BYTES + (own_from - target * stride);
                own.copy_within(source..source + (end - own_from), at(own_from));
            }
            let mut from = start;
            while from < own_from {
                let (cell, offset) = (from / stride, from % stride);
                let length = (stride - offset).min(own_from - from);
                let source = &before[cell].as_slice()[HEADER_BYTES + offset..][..length];
                own[at(from)..][..length].copy_from_slice(source);
                from += length;
            }
            own[HEADER_BYTES + (end - start)..HEADER_BYTES + payload].fill(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::Arena;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_short_row_is_spread_in_order(data in 1usize..7, share in 0.0f64..1.0) {
            const STRIDE: usize = 5 * 4096;
            let filled = 1 + (share * (data * STRIDE - 1) as f64) as usize;
            let payload = filled.div_ceil(data).next_multiple_of(4096).min(STRIDE);
            let bytes: Vec<u8> = (0..filled).map(|n| (n % 251) as u8 + 1).collect();
            let arena = Arena::new(HEADER_BYTES + STRIDE, data);
            let mut cells = arena.acquire(data, Use::Engine);
            for cell in &mut cells {
                cell.as_mut_slice().fill(0xee);
            }
            for (cell, part) in cells.iter_mut().zip(bytes.chunks(STRIDE)) {
                cell.as_mut_slice()[HEADER_BYTES..HEADER_BYTES + part.len()].copy_from_slice(part);
            }
            spread(&mut cells, filled, STRIDE, payload);
            let mut joined: Vec<u8> = cells.iter()
                .flat_map(|cell| cell.as_slice()[HEADER_BYTES..HEADER_BYTES + payload].to_vec()).collect();
            prop_assert!(joined[filled..].iter().all(|byte| *byte == 0));
            joined.truncate(filled);
            prop_assert_eq!(joined, bytes);
        }
    }
}
