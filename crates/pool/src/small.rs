//! Small values: group commit into the open segment, reading with copies to fall back on, punching of holes.

use std::ops::Range;
use std::sync::{Arc, PoisonError};
use threads::{Condvar, Mutex, MutexGuard};

use base::{BlobDescription, BlobId, BlobPiece, ByteCount, Layout};
use drive::{AlignedBuffer, DriveError, ExtentId, PAGE};

use crate::config::{BATCH_BYTES_MAX, SEGMENT_ATTEMPTS_MAX};
use crate::drives::Device;
use crate::error::PoolError;
use crate::gather::lock;
use crate::pool::Pool;
use crate::record::{RECORD_PAYLOAD_MAX, RecordIdentity, block_crcs, lay, record_bytes};
use crate::segment::{Placed, Segment, taken};

/// The small values that wait, and the segment they go to.
///
/// Callers lay their values into the open batch. One of them, the leader, commits it while the others fill
/// the next one; thus one sync serves all callers of a moment.
pub(crate) struct SmallWriter {
    state: Mutex<State>,
    changed: Condvar,
    /// Used by the leader only, who is one.
    segment: Mutex<Option<Segment>>,
}

struct State {
    batch: Batch,
    spare: Option<AlignedBuffer>,
    leading: bool,
    closed: bool,
    open: Option<BlobId>,
}

struct Batch {
    buffer: Option<AlignedBuffer>,
    length: usize,
    records: Vec<Placed>,
    outcome: Arc<Mutex<Option<Outcome>>>,
}

/// A value that lies in a batch.
struct Waiting {
    outcome: Arc<Mutex<Option<Outcome>>>,
    /// Where in the batch.
    at: usize,
}

/// Where a batch went, or why it did not.
type Outcome = Result<(BlobDescription, u64), Arc<PoolError>>;

impl Batch {
    fn new(buffer: Option<AlignedBuffer>) -> Self {
        Batch { buffer, length: 0, records: Vec::new(), outcome: Arc::default() }
    }
}

impl SmallWriter {
    pub(crate) fn new() -> Self {
        let state = State { batch: Batch::new(None), spare: None, leading: false, closed: false, open: None };
        SmallWriter { state: Mutex::new(state), changed: Condvar::new(), segment: Mutex::new(None) }
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    fn batch_limit(pool: &Pool) -> usize {
        let half = usize::try_from(pool.config().segment_size.0 / 2).unwrap_or(usize::MAX);
        BATCH_BYTES_MAX.min(half / PAGE * PAGE)
    }

    /// Lays a value into the open batch; [`SmallWriter::settle`] makes it durable.
    fn place(&self, pool: &Pool, value: &[u8]) -> Result<Waiting, PoolError> {
        let crcs = block_crcs(value);
        let size = record_bytes(value.len());
        let limit = Self::batch_limit(pool);
        assert!(size <= limit, "a value fits into a batch, or it would wait for ever");
        let mut state = lock(&self.state);
        while !state.closed && state.batch.length + size > limit {
            state = self.lead_or_wait(pool, state);
        }
        if state.closed {
            return Err(PoolError::Closed);
        }
        let at = state.batch.length;
        if state.batch.buffer.is_none() {
            let spare = state.spare.take();
            state.batch.buffer = Some(spare.unwrap_or_else(|| AlignedBuffer::new(limit)));
        }
        let batch = &mut state.batch;
        if let Some(buffer) = &mut batch.buffer {
            lay(&mut buffer.as_mut_slice()[at..at + size], value, &crcs);
        }
        batch.records.push(Placed { at, length: value.len() });
        batch.length += size;
        assert!(batch.length <= limit, "a batch is bounded");
        Ok(Waiting { outcome: Arc::clone(&batch.outcome), at })
    }

    /// Returns after the sync that covers the value, with where it is.
    fn settle(&self, pool: &Pool, waiting: &Waiting) -> Result<(BlobDescription, u64), PoolError> {
        let mut state = lock(&self.state);
        loop {
            if let Some(outcome) = lock(&waiting.outcome).clone() {
                let (blob, base) = outcome.map_err(PoolError::GroupCommit)?;
                return Ok((blob, base + waiting.at as u64));
            }
            state = self.lead_or_wait(pool, state);
        }
    }

    /// Commits the open batch if nobody else is committing, else waits for a change.
    fn lead_or_wait<'a>(&'a self, pool: &Pool, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        if state.leading || state.batch.records.is_empty() {
            return self.wait(state);
        }
        state.leading = true;
        let next = Batch::new(state.spare.take());
        let batch = std::mem::replace(&mut state.batch, next);
        drop(state);
        let outcome = Arc::clone(&batch.outcome);
        let (result, buffer) = self.commit(pool, batch);
        *lock(&outcome) = Some(result.map_err(Arc::new));
        let mut state = lock(&self.state);
        state.leading = false;
        state.spare = state.spare.take().or(buffer);
        self.changed.notify_all();
        state
    }

    /// Writes a batch to the open segment, or to a new one if there is none, it is full, or a drive of it
    /// failed or became slow.
    fn commit(
        &self,
        pool: &Pool,
        batch: Batch,
    ) -> (Result<(BlobDescription, u64), PoolError>, Option<AlignedBuffer>) {
        let Batch { mut buffer, length, records, .. } = batch;
        let mut segment = lock(&self.segment);
        let mut last = PoolError::Closed;
        for attempt in 0..SEGMENT_ATTEMPTS_MAX {
            let slow = pool.slow_drives();
            let is_over = |open: &Segment| !open.has_room(length, records.len()) || open.is_slowed_by(&slow);
            if segment.as_ref().is_some_and(is_over) {
                self.seal_open(pool, &mut segment);
            }
            if segment.is_none() {
                // What one attempt found no room for may have been what was reserved for later values.
                match pool.new_segment(taken(length, records.len()), attempt == 0) {
                    Ok(new) => {
                        lock(&self.state).open = Some(new.id);
                        *segment = Some(new);
                    }
                    Err(error) => {
                        last = error;
                        break;
                    }
                }
            }
            let (Some(open), Some(bytes)) = (segment.as_mut(), buffer.take()) else { break };
            let base = open.tail();
            let (done, back) = open.commit(pool, bytes, length, &records);
            buffer = back;
            if done {
                return (Ok((open.description(), base)), buffer);
            }
            // The copies differ from here on; what was acknowledged before stays on those that are left.
            let lost = PoolError::WriteLost { blob: open.id, stripe: 0, lost: 1, borne: 0 };
            last = pool.full_or(open.failed(), lost);
            tracing::warn!(segment = %open.id, "segment abandoned after a drive failed");
            lock(&self.state).open = None;
            if let Some(failed) = segment.take() {
                failed.abandon(pool);
            }
        }
        (Err(last), buffer)
    }

    fn seal_open(&self, pool: &Pool, segment: &mut Option<Segment>) {
        if let Some(full) = segment.take() {
            full.seal(pool);
        }
        lock(&self.state).open = None;
    }

    /// Takes no more values, lets those under way end, and seals the segment.
    pub(crate) fn close(&self, pool: &Pool) {
        let mut state = lock(&self.state);
        state.closed = true;
        self.changed.notify_all();
        while state.leading || !state.batch.records.is_empty() {
            state = self.lead_or_wait(pool, state);
        }
        drop(state);
        self.seal_open(pool, &mut lock(&self.segment));
    }

    /// Seals the open segment; the next value opens another.
    pub(crate) fn seal(&self, pool: &Pool) {
        self.seal_open(pool, &mut lock(&self.segment));
    }

    pub(crate) fn is_open(&self, blob: BlobId) -> bool {
        lock(&self.state).open == Some(blob)
    }
}

impl Pool {
    /// Stores a small value; many callers at once share one sync. On return it is synced on all copies'
    /// drives, and durable once the catalogue has committed the piece.
    ///
    /// The blob is a segment that other values share: remove it only when no piece of it is committed *or
    /// about to be*.
    ///
    /// # Errors
    /// [`PoolError::TooLarge`], [`PoolError::GroupCommit`] with the reason, [`PoolError::Closed`].
    pub fn put_small(&self, bytes: &[u8]) -> Result<(BlobDescription, BlobPiece), PoolError> {
        self.settle_small(self.place_small(bytes)?)
    }

    /// Stores several small values as [`Pool::put_small`] does each, with as few syncs as their bytes allow.
    /// The results are in the order of the values.
    ///
    /// # Errors
    /// None as a whole; each value has its own.
    pub fn put_small_all(&self, values: &[&[u8]]) -> Vec<Result<(BlobDescription, BlobPiece), PoolError>> {
        let placed: Vec<_> = values.iter().map(|value| self.place_small(value)).collect();
        placed.into_iter().map(|placed| self.settle_small(placed?)).collect()
    }

    fn place_small(&self, bytes: &[u8]) -> Result<(Waiting, ByteCount), PoolError> {
        let (length, limit) = (ByteCount(bytes.len() as u64), self.config().small_limit);
        if length > limit {
            return Err(PoolError::TooLarge { length, limit });
        }
        Ok((self.small().place(self, bytes)?, length))
    }

    fn settle_small(
        &self,
        (waiting, length): (Waiting, ByteCount),
    ) -> Result<(BlobDescription, BlobPiece), PoolError> {
        let (blob, offset) = self.small().settle(self, &waiting)?;
        assert!(offset.is_multiple_of(crate::record::RECORD_ALIGN as u64), "a record begins at a sector");
        let piece = BlobPiece { blob: blob.id, offset: ByteCount(offset), length };
        Ok((blob, piece))
    }

    /// Gives back the space of a deleted small value: the whole pages within its record. May be repeated.
    ///
    /// # Errors
    /// [`PoolError::Drive`] with the first failure after all copies were tried; [`PoolError::Description`].
    pub fn punch(&self, blob: &BlobDescription, piece: &BlobPiece) -> Result<(), PoolError> {
        let (_, drives) = self.record(blob, piece)?;
        let length = usize::try_from(piece.length.0).unwrap_or(usize::MAX);
        let pages = whole_pages(piece.offset.0..piece.offset.0 + record_bytes(length) as u64);
        if pages.is_empty() {
            return Ok(());
        }
        let jobs = drives.iter().enumerate().map(|(copy, drive)| {
            let shard = u8::try_from(copy).unwrap_or(u8::MAX);
            let (id, pages) = (ExtentId { blob: blob.id, stripe: 0, shard }, pages.clone());
            let job = move |device: &Device| {
                match device.drive.punch(id, ByteCount(pages.start), ByteCount(pages.end - pages.start)) {
                    Ok(()) | Err(DriveError::NotFound { .. }) => device.space_freed(),
                    Err(error) => return Err(error),
                }
                Ok(())
            };
            (*drive, job)
        });
        self.on_writers(jobs)
    }

    /// Checks that a piece can be a record of a segment.
    pub(crate) fn record<'a>(
        &self,
        blob: &'a BlobDescription,
        piece: &BlobPiece,
    ) -> Result<(RecordIdentity, &'a [base::DriveId]), PoolError> {
        let wrong = PoolError::Description(blob.id);
        let (Layout::Segment { copies }, [set]) = (blob.layout, blob.stripes.as_slice()) else {
            return Err(wrong);
        };
        let length = u32::try_from(piece.length.0).ok().filter(|n| *n as usize <= RECORD_PAYLOAD_MAX);
        let in_range = piece.offset.0 < 1 << 31 && piece.blob == blob.id;
        match length {
            Some(length) if in_range && usize::from(copies) == set.drives.len() => {
                let (instance, offset) = (self.config().instance, piece.offset.0);
                Ok((RecordIdentity { instance, segment: blob.id, offset, length }, &set.drives))
            }
            _ => Err(wrong),
        }
    }
}

/// The whole pages within a range; empty if there are none.
fn whole_pages(range: Range<u64>) -> Range<u64> {
    let page = PAGE as u64;
    let (start, end) = (range.start.next_multiple_of(page), range.end / page * page);
    start..end.max(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_pages_are_punched() {
        assert_eq!(whole_pages(0..4096), 0..4096);
        assert!(whole_pages(512..4096 + 511).is_empty());
        assert_eq!(whole_pages(512..3 * 4096 + 512), 4096..3 * 4096);
    }
}
