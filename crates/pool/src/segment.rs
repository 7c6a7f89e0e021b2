//! The open segment: the extents that small values are appended to, the same bytes on each drive.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::planted::{Bug, is_planted};
use base::{BlobDescription, BlobId, ByteCount, DriveId, Layout, StripeSet, Uuid};
use drive::{AlignedBuffer, ExtentId, PAGE};

use crate::drives::PoolDrive;
use crate::gather::Gather;
use crate::pool::Pool;
use crate::record::{RecordIdentity, footer, footer_bytes, record_bytes};
use crate::shard::{Outgoing, ShardStream, Step};

/// Where a record of a batch lies in the batch, and how long its value is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Placed {
    pub(crate) at: usize,
    pub(crate) length: usize,
}

/// What a batch takes of a segment in which there are so many records with it, the footer included.
pub(crate) fn taken(bytes: usize, records: usize) -> ByteCount {
    ByteCount((bytes.next_multiple_of(PAGE) + footer_bytes(records)) as u64)
}

pub(crate) struct Segment {
    pub(crate) id: BlobId,
    set: StripeSet,
    /// Drives that were slow when it was begun: it could not do without them.
    slow: BTreeSet<DriveId>,
    copies: Vec<Arc<ShardStream>>,
    /// Bytes appended, whole pages.
    tail: u64,
    /// The length at which it ends.
    size: ByteCount,
    /// Acknowledged records: offset and length.
    records: Vec<(u32, u32)>,
}

impl Segment {
    pub(crate) fn new(id: BlobId, set: StripeSet, size: ByteCount, slow: BTreeSet<DriveId>) -> Self {
        let copies = set.drives.iter().enumerate().map(|(copy, drive)| {
            let shard = u8::try_from(copy).unwrap_or(u8::MAX);
            Arc::new(ShardStream::new(ExtentId { blob: id, stripe: 0, shard }, *drive, size))
        });
        Segment { id, copies: copies.collect(), set, slow, tail: 0, size, records: Vec::new() }
    }

    pub(crate) fn description(&self) -> BlobDescription {
        let copies = u8::try_from(self.set.drives.len()).unwrap_or(u8::MAX);
        BlobDescription {
            stands_as: None,
            id: self.id,
            layout: Layout::Segment { copies },
            length: ByteCount(0),
            stripes: vec![self.set.clone()],
        }
    }

    /// Whether one of its drives has become slow since it was begun: every value would wait for it.
    pub(crate) fn is_slowed_by(&self, slow: &BTreeSet<DriveId>) -> bool {
        self.set.drives.iter().any(|drive| slow.contains(drive) && !self.slow.contains(drive))
    }

    /// Whether a batch and the footer still fit.
    pub(crate) fn has_room(&self, bytes: usize, records: usize) -> bool {
        self.tail + taken(bytes, self.records.len() + records).0 <= self.size.0
    }

    /// Where the next batch will begin.
    pub(crate) fn tail(&self) -> u64 {
        self.tail
    }

    /// Completes the headers of a batch for this segment, appends it to all copies and syncs them.
    ///
    /// `false` if a drive failed: nothing of the batch counts, and the buffer comes back, or a copy of it.
    pub(crate) fn commit(
        &mut self,
        pool: &Pool,
        mut buffer: AlignedBuffer,
        length: usize,
        records: &[Placed],
    ) -> (bool, Option<AlignedBuffer>) {
        let end = |placed: &Placed| placed.at + record_bytes(placed.length);
        assert!(records.is_sorted_by(|one, next| end(one) <= next.at), "records do not overlap");
        assert!(records.last().is_none_or(|last| end(last) <= length), "each is part of the batch");
        let instance = pool.config().instance;
        for placed in records {
            let identity = self.identity(instance, placed);
            identity.seal(&mut buffer.as_mut_slice()[placed.at..placed.at + record_bytes(placed.length)]);
        }
        let padded = length.next_multiple_of(PAGE);
        buffer.as_mut_slice()[length..padded].fill(0);
        let shared = Arc::new(buffer);
        let mut steps = vec![StepOfAll::Append(Arc::clone(&shared), padded)];
        if !is_planted(Bug::MissingSegmentSync) {
            steps.push(StepOfAll::Sync);
        }
        let done = self.on_all(pool, steps);
        if done {
            let word = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
            let listed =
                records.iter().map(|placed| (word(self.base_of(placed)), word(placed.length as u64)));
            let listed: Vec<(u32, u32)> = listed.collect();
            self.records.extend(listed);
            self.tail += padded as u64;
            assert!(self.tail.is_multiple_of(PAGE as u64), "a segment grows by whole pages");
            assert!(self.tail < 1 << 31, "a place in a segment fits into its footer");
        }
        match Arc::try_unwrap(shared) {
            Ok(buffer) => (done, Some(buffer)),
            Err(_) if done => (done, None),
            // A drive that hangs still holds it; the next segment gets a copy.
            Err(held) => {
                let mut copy = AlignedBuffer::new(held.as_slice().len());
                copy.as_mut_slice().copy_from_slice(held.as_slice());
                (done, Some(copy))
            }
        }
    }

    /// Writes the footer, syncs and ends the segment. A failure leaves it without a footer, which loses
    /// nothing.
    pub(crate) fn seal(self, pool: &Pool) {
        if self.records.is_empty() {
            return;
        }
        let mut bytes = AlignedBuffer::new(footer_bytes(self.records.len()));
        let footer = footer(pool.config().instance, self.id, self.tail, &self.records);
        bytes.as_mut_slice().copy_from_slice(&footer);
        let length = bytes.as_slice().len();
        let append = StepOfAll::Append(Arc::new(bytes), length);
        let sealed = self.on_all(pool, vec![append, StepOfAll::Seal]);
        if !sealed {
            tracing::warn!(segment = %self.id, "segment was left without a footer");
        }
    }

    /// Ends a segment of which a drive has failed: the copies that are left keep what was acknowledged, and
    /// give back what was reserved. It gets no footer, since the copies differ.
    pub(crate) fn abandon(self, pool: &Pool) {
        self.on_all(pool, vec![StepOfAll::Seal]);
    }

    /// The copies that have failed.
    pub(crate) fn failed(&self) -> impl Iterator<Item = &ShardStream> + Clone {
        self.copies.iter().map(|copy| &**copy).filter(|copy| copy.has_failed())
    }

    fn base_of(&self, placed: &Placed) -> u64 {
        self.tail + placed.at as u64
    }

    fn identity(&self, instance: Uuid, placed: &Placed) -> RecordIdentity {
        RecordIdentity {
            instance,
            segment: self.id,
            offset: self.base_of(placed),
            length: u32::try_from(placed.length).unwrap_or(u32::MAX),
        }
    }

    /// Has steps done for each copy and waits. `false` if one of the copies has failed. Only the end of the
    /// last step is waited for: it fails if one before it was dropped.
    fn on_all(&self, pool: &Pool, mut steps: Vec<StepOfAll>) -> bool {
        let Some(last) = steps.pop() else { return true };
        let gather = Gather::new();
        let mut drives = Vec::with_capacity(self.copies.len());
        for (copy, stream) in self.copies.iter().enumerate() {
            let present = pool.drive(stream.drive).and_then(PoolDrive::present);
            let Some(present) = present else {
                stream.fail();
                continue;
            };
            let ticket = gather.ticket();
            steps.iter().for_each(|step| stream.queue(&present, step.of_one(), || ()));
            stream.queue(&present, last.of_one(), move || ticket.done(copy));
            drives.push((copy, present));
        }
        // The batch must be free when the last ticket is in.
        drop((steps, last));
        // A copy whose drive's thread died has no result; it counts as failed.
        let done = gather.wait_unless(|done| {
            drives.iter().all(|(copy, drive)| done.contains(copy) || drive.device.is_away())
        });
        let lost = drives.iter().filter(|(copy, _)| !done.contains(copy));
        lost.for_each(|(copy, _)| self.copies[*copy].fail());
        done.len() == self.copies.len() && self.copies.iter().all(|copy| !copy.has_failed())
    }
}

/// What is done with each copy.
enum StepOfAll {
    /// The first so many bytes are appended.
    Append(Arc<AlignedBuffer>, usize),
    Sync,
    Seal,
}

impl StepOfAll {
    fn of_one(&self) -> Step {
        match self {
            StepOfAll::Append(bytes, length) => Step::Append(Outgoing::Shared(Arc::clone(bytes), *length)),
            StepOfAll::Sync => Step::Sync,
            StepOfAll::Seal => Step::Seal,
        }
    }
}
