//! Writing a striped blob.

use std::sync::Arc;
use std::time::Duration;

use base::{BlobDescription, BlobId, ByteCount, Crc32c, DriveGroup, Layout, StreamChecksums, StripeSet};
use blob::Use;
use cluster::SetKind;
use erasure::StreamSums;

use crate::arena::CellBuffer;
use crate::cell::{BLOCK_BYTES, HEADER_BYTES};
use crate::code::Code;
use crate::config::{ROW_QUICK, WRITE_ROWS_IN_FLIGHT};
use crate::error::PoolError;
use crate::gathering::Portion;
use crate::geometry::Geometry;
use crate::groups::GroupClaim;
use crate::pool::Pool;
use crate::stripe::{BlobNames, Stripe};

/// Takes the bytes of one blob in order. Dropping it before [`BlobWriter::finish`] removes what was written.
pub struct BlobWriter {
    pool: Arc<Pool>,
    group: DriveGroup,
    /// Room there that is kept for what is not written yet.
    claim: Option<GroupClaim>,
    names: BlobNames,
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
    /// The caller whose client sends the bytes, if it is one.
    caller: Arc<str>,
    /// The client filled its last row at once.
    is_quick: bool,
}

/// A row being filled.
struct Row {
    memory: Memory,
    filled: usize,
    begun: Duration,
    /// Of a client: what the row counts for among the rows of all.
    portion: Option<Portion>,
}

/// Where a row is filled.
enum Memory {
    /// In the arena: its data cells, then its parity cells.
    Cells(Vec<CellBuffer>),
    /// In ordinary memory, until it is full: nobody knows when the client will have sent it.
    Aside(Vec<u8>),
}

impl BlobWriter {
    pub(crate) fn new(
        pool: Arc<Pool>,
        names: BlobNames,
        expected: Option<ByteCount>,
    ) -> Result<Self, PoolError> {
        let geometry = pool.geometry(pool.config().code);
        let code = pool.code(pool.config().code)?;
        Ok(BlobWriter {
            pool,
            group: DriveGroup::MAIN,
            claim: None,
            names,
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
            caller: Arc::from(""),
            is_quick: false,
        })
    }

    /// Has it written to a group of drives, before the first byte: see [`Pool::create_on`].
    pub(crate) fn on(mut self, group: DriveGroup) -> Result<Self, PoolError> {
        assert!(self.length == 0, "asked for before the first byte");
        if group == DriveGroup::MAIN {
            return Ok(self);
        }
        // Of one of unknown length each stripe is claimed when it begins.
        match self.expected {
            Some(bytes) => match self.pool.claim_in(group, bytes) {
                Some(claim) => self.claim = Some(claim),
                None => return Ok(self),
            },
            None if !self.pool.has_room_in(group, ByteCount(0)) => return Ok(self),
            None => {}
        }
        let code = self.pool.config().code_of(group);
        self.code = self.pool.code(code)?;
        (self.group, self.geometry) = (group, self.pool.geometry(code));
        Ok(self)
    }

    /// Says for whom it writes, before the first byte.
    #[must_use]
    pub fn used_by(mut self, whose: Use) -> Self {
        self.whose = whose;
        self
    }

    /// Says which caller's client sends the bytes, before the first: the callers share memory. Whoever waits
    /// for a client has to say so after a while: [`BlobWriter::pause`].
    #[must_use]
    pub fn used_by_client_of(mut self, caller: &str) -> Self {
        (self.whose, self.caller) = (Use::Client, Arc::from(caller));
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
        self.names.id
    }

    /// Bytes taken so far.
    #[must_use]
    pub fn length(&self) -> ByteCount {
        ByteCount(self.length)
    }

    /// Bytes of a row: whoever has written a multiple of it holds no memory.
    pub(crate) fn row_bytes(&self) -> u64 {
        self.geometry.row_bytes()
    }

    /// Takes bytes. Waits for memory and drives; nothing is durable yet.
    ///
    /// # Errors
    /// [`PoolError::Placement`] if no spare drive is up, [`PoolError::WriteLost`]; the writer is of no use
    /// then.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), PoolError> {
        if self.failed || self.ended {
            return Err(PoolError::WriterFailed(self.names.id));
        }
        let result = self.take(bytes);
        self.failed = result.is_err();
        result
    }

    /// The client sends nothing at present: what it has in the arena is set aside, so that others get on.
    pub fn pause(&mut self) {
        self.is_quick = false;
        if let Some(row) = &mut self.row {
            row.set_aside(self.geometry.cell_bytes);
        }
    }

    /// Ends the stream of bytes: no more can follow. Gives the checksums of all of them if they were asked
    /// for, computed from the very bytes that are on their way to the drives. Nothing is durable yet.
    ///
    /// # Errors
    /// As [`BlobWriter::write`].
    pub fn end(&mut self) -> Result<Option<StreamChecksums>, PoolError> {
        if self.failed {
            return Err(PoolError::WriterFailed(self.names.id));
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
        let BlobNames { id, stands_as } = self.names;
        let blob = BlobDescription { id, stands_as, layout, length: ByteCount(self.length), stripes };
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
            let now = row.take(bytes, row_bytes, self.geometry.cell_bytes);
            assert!(now > 0 && row.filled <= row_bytes, "each turn takes bytes, and no more than a row has");
            self.length += now as u64;
            bytes = bytes.split_at(now).1;
            let (is_full, is_clients) = (row.filled == row_bytes, row.portion.is_some());
            if is_clients {
                let took = self.pool.watch().steady().unwrap_or_default().saturating_sub(row.begun);
                self.is_quick = took <= ROW_QUICK;
                if !self.is_quick && !is_full {
                    row.set_aside(self.geometry.cell_bytes);
                }
            }
            if is_full {
                self.submit()?;
            }
        }
        Ok(())
    }

    /// Waits for a row on its way to end, then for memory for the next, whole.
    fn begin_row(&mut self) -> Result<(), PoolError> {
        assert!(self.row.is_none(), "one row is filled at a time");
        let (width, arena) = (self.geometry.width(), self.pool.write_arena());
        let mut ahead = None;
        if let Some(stripe) = &mut self.current {
            if self.whose == Use::Stream {
                // What a tape gives goes to disks in runs, which are as long as what waits there.
                ahead = stripe.wait_behind(|| arena.try_acquire(width, Use::Stream));
            } else {
                stripe.wait_rows(WRITE_ROWS_IN_FLIGHT);
            }
            if !stripe.failed().is_empty() {
                drop(ahead.take());
                self.pool.mend(stripe, &self.geometry, &self.code)?;
            }
        }
        let (memory, portion) = if self.whose == Use::Client {
            // No row is in hand: what is on its way to drives comes back by itself.
            let row = self.geometry.data * self.geometry.cell_bytes;
            let rest = self.expected.map(|expected| expected.0.saturating_sub(self.length));
            let rest = rest.and_then(|rest| usize::try_from(rest).ok()).filter(|rest| *rest > 0);
            let bytes = rest.map_or(row, |rest| rest.min(row));
            self.pool.pace(bytes as u64);
            let portion = self.pool.gathering().take(&self.caller, bytes);
            let cells = if self.is_quick {
                Some(arena.acquire(width, self.whose))
            } else {
                arena.try_acquire_spare(width)
            };
            (cells.map_or_else(|| Memory::aside(&portion), Memory::Cells), Some(portion))
        } else {
            let cells = ahead.unwrap_or_else(|| arena.acquire(width, self.whose));
            (Memory::Cells(cells), None)
        };
        let begun = self.pool.watch().steady().unwrap_or_default();
        self.row = Some(Row { memory, filled: 0, begun, portion });
        Ok(())
    }

    /// Codes the row and hands it to the drives.
    fn submit(&mut self) -> Result<(), PoolError> {
        let Some(Row { memory, filled, portion, .. }) = self.row.take() else { return Ok(()) };
        let mut cells = match memory {
            Memory::Cells(cells) => cells,
            Memory::Aside(bytes) => {
                assert_eq!(bytes.len(), filled, "what was set aside is the whole row");
                self.cells_of(&bytes)
            }
        };
        assert_eq!(cells.len(), self.geometry.width(), "each shard has a cell");
        drop(portion);
        let payload = self.geometry.payload(filled as u64);
        spread(&mut cells[..self.geometry.data], filled, self.geometry.cell_bytes, payload);
        let checksums = self.encode(&mut cells, filled, payload)?;
        let full = |stripe: &Stripe| stripe.rows.len() as u64 == self.geometry.rows_per_stripe;
        if self.current.as_ref().is_some_and(full) {
            self.close_current()?;
        }
        if self.current.is_none() {
            self.begin_stripe(payload)?;
        }
        if let Some(stripe) = &mut self.current {
            stripe.submit(&self.pool, &self.geometry, filled as u64, cells, &checksums);
        }
        Ok(())
    }

    /// Waits for memory of the arena for a row that was filled beside it.
    fn cells_of(&self, bytes: &[u8]) -> Vec<CellBuffer> {
        assert!(bytes.len() as u64 <= self.geometry.row_bytes(), "a row has no more bytes than fit");
        let mut cells = self.pool.write_arena().acquire(self.geometry.width(), self.whose);
        for (cell, part) in cells.iter_mut().zip(bytes.chunks(self.geometry.cell_bytes)) {
            cell.as_mut_slice()[HEADER_BYTES..HEADER_BYTES + part.len()].copy_from_slice(part);
        }
        cells
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

    /// For a first row of cells with so much payload.
    fn begin_stripe(&mut self, payload: usize) -> Result<(), PoolError> {
        assert!(self.current.is_none(), "one stripe is written at a time");
        let number = self.done.len() + usize::from(self.closing.is_some());
        let known = self.expected.map(|length| self.geometry.extent_bytes(length.0, number as u64));
        let least = ByteCount(known.unwrap_or(0).max((HEADER_BYTES + payload) as u64));
        let kind = SetKind { group: self.group_of_stripe(), width: self.geometry.width() };
        let set = self.pool.choose_set(kind, least, self.whose)?;
        let preallocate = match known {
            Some(bytes) => bytes,
            // Whoever wrote one stripe is likely to fill the next.
            None if number > 0 => {
                let whole = self.geometry.extent_offset(self.geometry.rows_per_stripe);
                whole.min(self.pool.room_ahead(&set).0)
            }
            None => 0,
        };
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        self.current = Some(Stripe::new(self.names, number, set, ByteCount(preallocate), self.whose));
        Ok(())
    }

    /// The drives for the next stripe: those of its group if there is room that is nobody else's.
    fn group_of_stripe(&mut self) -> DriveGroup {
        if self.group == DriveGroup::MAIN || self.expected.is_some() {
            return self.group;
        }
        match self.pool.claim_in(self.group, self.geometry.stripe_bytes()) {
            Some(more) => {
                match &mut self.claim {
                    Some(claim) => claim.join(more),
                    None => self.claim = Some(more),
                }
                self.group
            }
            None => DriveGroup::MAIN,
        }
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
        let is_in_group = self.pool.group_of_drives(&stripe.set.drives) == self.group;
        if let Some(claim) = self.claim.as_mut().filter(|_| is_in_group) {
            claim.is_written(self.geometry.code.raw(self.geometry.stripe_bytes()));
        }
        self.done.push(stripe.set.clone());
        self.closing = None;
        Ok(())
    }
}

impl Row {
    /// Takes of these bytes what fits; how many.
    fn take(&mut self, bytes: &[u8], row_bytes: usize, cell_bytes: usize) -> usize {
        let fits = match &mut self.memory {
            Memory::Cells(cells) => {
                let (cell, at) = (self.filled / cell_bytes, self.filled % cell_bytes);
                let fits = bytes.len().min(cell_bytes - at);
                let start = HEADER_BYTES + at;
                cells[cell].as_mut_slice()[start..start + fits].copy_from_slice(&bytes[..fits]);
                fits
            }
            Memory::Aside(aside) => {
                let fits = bytes.len().min(row_bytes - self.filled);
                aside.extend_from_slice(&bytes[..fits]);
                fits
            }
        };
        self.filled += fits;
        fits
    }

    /// Gives memory of the arena back that a client's row has; what has come of the row lies in ordinary
    /// memory from now on.
    fn set_aside(&mut self, cell_bytes: usize) {
        let (Memory::Cells(cells), Some(portion)) = (&self.memory, &self.portion) else { return };
        let mut aside = Vec::with_capacity(portion.bytes());
        for cell in cells {
            let part = (self.filled - aside.len()).min(cell_bytes);
            aside.extend_from_slice(&cell.as_slice()[HEADER_BYTES..HEADER_BYTES + part]);
        }
        assert_eq!(aside.len(), self.filled, "no byte is lost on the way");
        self.memory = Memory::Aside(aside);
    }
}

impl Memory {
    /// Room for a row, of which only what is written takes memory.
    fn aside(portion: &Portion) -> Memory {
        Memory::Aside(Vec::with_capacity(portion.bytes()))
    }
}

impl Drop for BlobWriter {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        self.row = None;
        let mut sets = std::mem::take(&mut self.done);
        for stripe in [self.closing.take(), self.current.take()].into_iter().flatten() {
            let mut stripe = stripe;
            stripe.wait_rows(1);
            sets.push(stripe.set.clone());
        }
        // What cannot be deleted now is an orphan of this epoch and goes with the next opening.
        let _ = self.pool.delete_extents(self.names.extents(), &sets);
    }
}

/// Moves the bytes of a short row, which lie at `stride` per cell, to `payload` per cell, and zeroes the
/// rest.
fn spread(cells: &mut [CellBuffer], filled: usize, stride: usize, payload: usize) {
    assert!(filled <= cells.len() * payload && payload <= stride, "the cells have room for all bytes");
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
