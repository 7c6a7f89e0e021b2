//! One extent being written: a shard of a stripe, or a copy of a segment.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use threads::Mutex;

use base::planted::{Bug, is_planted};
use base::{ByteCount, DriveId};
use blob::Use;
use drive::{AlignedBuffer, DriveError, ExtentId, QueuedExtent, WriteOperation, WriteStep};

use crate::arena::CellBuffer;
use crate::drives::{Device, Present, count};
use crate::gather::lock;
use crate::lane::{Flight, InLine, Line};
use crate::order::Wanted;
use crate::slow::Kind;

/// An extent on its way to a drive. Its steps are done on the drive in the order in which they are queued.
pub(crate) struct ShardStream {
    pub(crate) id: ExtentId,
    pub(crate) drive: DriveId,
    preallocate: ByteCount,
    /// Whether it takes the place of an extent that may be there, once it is sealed.
    replaces: bool,
    /// For whom it is written.
    whose: Use,
    /// Steps queued so far, and bytes of appends.
    queued: AtomicU64,
    queued_bytes: AtomicU64,
    /// The lock is held as long as a step takes that blocks: nothing that is asked while a drive hangs may
    /// need it.
    progress: Mutex<Progress>,
    /// The steps that the drive has.
    line: Arc<Line>,
    /// Bytes of the appends that are over, the one that failed among them: what is still on its way says
    /// nothing of the room that the drive lacks.
    appended: AtomicU64,
    /// Its seal is on its way.
    ended: AtomicBool,
    sealed: AtomicBool,
    failed: AtomicBool,
    /// The drive has told of a failure: those that follow from it are no others.
    told: AtomicBool,
}

/// How far the drive has come with the steps of an extent.
#[derive(Default)]
struct Progress {
    /// Steps begun so far.
    begun: u64,
    /// The extent on the drive, from the first append to the seal or a failure.
    extent: Option<OpenExtent>,
}

/// An extent, and the drive that it was made on.
struct OpenExtent {
    device: Weak<Device>,
    queue: Box<dyn QueuedExtent>,
}

impl Progress {
    /// Takes note of a step. `false` if it does not continue the steps before: one of them was dropped by a
    /// drive that was set aside, or another drive has taken the place of the one that has the extent.
    fn continues(&mut self, number: u64, device: &Arc<Device>) -> bool {
        let in_order = self.begun == number;
        self.begun = number + 1;
        let has_it = |open: &OpenExtent| std::ptr::eq(open.device.as_ptr(), Arc::as_ptr(device));
        in_order && self.extent.as_ref().is_none_or(has_it)
    }
}

/// What is done next with an extent.
pub(crate) enum Step {
    /// Appends pages; makes the extent first if need be.
    Append(Outgoing),
    /// Syncs what was appended.
    Sync,
    /// Syncs and ends the extent.
    Seal,
}

/// Bytes on their way to a drive: the first so many of some memory.
pub(crate) enum Outgoing {
    Cell(CellBuffer, usize),
    Pages(AlignedBuffer),
    /// The same bytes go to several drives.
    Shared(Arc<AlignedBuffer>, usize),
    Bytes(Vec<u8>),
}

impl Outgoing {
    fn bytes(&self) -> &[u8] {
        match self {
            Outgoing::Cell(cell, length) => &cell.as_slice()[..*length],
            Outgoing::Pages(pages) => pages.as_slice(),
            Outgoing::Shared(pages, length) => &pages.as_slice()[..*length],
            Outgoing::Bytes(bytes) => bytes,
        }
    }
}

impl ShardStream {
    pub(crate) fn new(id: ExtentId, drive: DriveId, preallocate: ByteCount) -> Self {
        ShardStream {
            id,
            drive,
            preallocate,
            replaces: false,
            whose: Use::Engine,
            queued: AtomicU64::new(0),
            queued_bytes: AtomicU64::new(0),
            progress: Mutex::default(),
            line: Arc::default(),
            appended: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            sealed: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            told: AtomicBool::new(false),
        }
    }

    /// One that replaces the extent of this id on its drive, if there is one, when it is sealed.
    pub(crate) fn replacing(id: ExtentId, drive: DriveId, preallocate: ByteCount) -> Self {
        ShardStream { replaces: true, ..ShardStream::new(id, drive, preallocate) }
    }

    /// Says for whom it is written, before the first byte.
    #[must_use]
    pub(crate) fn used_by(self, whose: Use) -> Self {
        ShardStream { whose, ..self }
    }

    /// Queues a step behind the earlier ones; `then` is called when it is over, whatever came of it. Nothing
    /// is done after a failure. If the drive is set aside meanwhile, the extent fails and `then` is dropped.
    ///
    /// The steps of one extent are queued by one thread at a time. Who waits for the last knows of them all:
    /// a step before which one is missing fails.
    pub(crate) fn queue(
        self: &Arc<Self>,
        present: &Present,
        step: Step,
        then: impl FnOnce() + Send + 'static,
    ) {
        let number = self.queued.fetch_add(1, Ordering::Relaxed);
        let bytes = if let Step::Append(bytes) = &step { bytes.bytes().len() as u64 } else { 0 };
        let from = self.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        let wanted = Wanted { extent: self.id, from, to: from + bytes, whose: self.whose };
        let pending = Pending { stream: Arc::clone(self), is_over: false };
        let queued = QueuedStep { pending, number, step, then };
        present.write(wanted, Box::new(move |device, flight| queued.begin(device, flight)));
    }

    /// Takes note that the shard cannot be relied on, for a reason found elsewhere.
    pub(crate) fn fail(&self) {
        self.failed.store(true, Ordering::Release);
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    pub(crate) fn is_sealed(&self) -> bool {
        !self.has_failed() && self.sealed.load(Ordering::Acquire)
    }

    /// A step failed on the drive.
    fn failed_on(&self, device: &Device, error: &DriveError) {
        self.fail();
        if !self.told.swap(true, Ordering::Relaxed) {
            // What was written is given back, so that it does not count as room for the next attempt.
            let appended = ByteCount(self.appended.load(Ordering::Relaxed));
            device.write_failed(error, self.preallocate.max(appended));
        }
    }
}

/// The duty to bring a step to its end. Dropped before that it fails the extent: what follows would stand in
/// the place of what is missing, and a sync would cover older bytes only.
struct Pending {
    stream: Arc<ShardStream>,
    is_over: bool,
}

impl Pending {
    fn over(mut self) {
        self.is_over = true;
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.is_over {
            self.stream.fail();
        }
    }
}

/// A step that waits for the drive, or that the drive has. Dropped, it ends in the order of its fields: the
/// extent has failed, and the memory is free, before anybody can see that `then` was dropped.
struct QueuedStep<T> {
    pending: Pending,
    /// The number of steps queued before.
    number: u64,
    step: Step,
    then: T,
}

impl<T: FnOnce() + Send + 'static> QueuedStep<T> {
    /// Hands the step to the drive.
    fn begin(self, device: &Arc<Device>, flight: Flight) {
        let stream = Arc::clone(&self.pending.stream);
        let mut progress = lock(&stream.progress);
        if !progress.continues(self.number, device) {
            stream.fail();
        }
        if stream.has_failed() {
            progress.extent = None;
        } else if matches!(self.step, Step::Append(_)) {
            let ended = stream.ended.load(Ordering::Relaxed);
            assert!(!ended, "nothing is appended behind the seal of {}", stream.id);
            progress.extent.get_or_insert_with(|| OpenExtent {
                device: Arc::downgrade(device),
                queue: device.queue.extent(stream.id, stream.preallocate, stream.replaces),
            });
        }
        let Some(mut open) = progress.extent.take() else {
            // It has failed, or nothing was to be appended to it.
            drop((progress, flight, self.step));
            drop(stream);
            self.pending.over();
            return (self.then)();
        };
        let is_last = matches!(self.step, Step::Seal);
        stream.ended.fetch_or(is_last, Ordering::Relaxed);
        let turn = stream.line.join(flight, &device.watch);
        let operation = Box::new(Writing { queued: self, device: Arc::clone(device), turn });
        if is_last && is_planted(Bug::MissingPoolSync) {
            drop(open);
            return operation.done(Ok(()));
        }
        open.queue.submit(operation);
        if !is_last {
            progress.extent = Some(open);
        }
    }
}

/// A step that the drive has.
struct Writing<T> {
    queued: QueuedStep<T>,
    device: Arc<Device>,
    turn: InLine,
}

impl<T: FnOnce() + Send> WriteOperation for Writing<T> {
    fn step(&self) -> WriteStep<'_> {
        match &self.queued.step {
            Step::Append(bytes) => WriteStep::Append(bytes.bytes()),
            Step::Sync => WriteStep::Sync,
            Step::Seal => WriteStep::Seal,
        }
    }

    fn done(self: Box<Self>, result: Result<(), DriveError>) {
        self.over(result, drop);
    }

    fn lost(self: Box<Self>, error: DriveError) {
        self.over(Err(error), std::mem::forget);
    }
}

impl<T: FnOnce() + Send> Writing<T> {
    /// `free` does away with the memory.
    fn over(self, result: Result<(), DriveError>, free: fn(Step)) {
        let Writing { queued, device, turn } = self;
        let QueuedStep { pending, step, then, .. } = queued;
        let stream = &pending.stream;
        let bytes = if let Step::Append(bytes) = &step { bytes.bytes().len() } else { 0 };
        stream.appended.fetch_add(bytes as u64, Ordering::Relaxed);
        // The appends of repairs are much longer than those of others, and a drive that is filled gets few
        // others.
        let is_repaired = stream.whose == Use::Upkeep;
        if result.is_ok() && !is_repaired {
            let kind = if matches!(step, Step::Append(_)) { Kind::Append } else { Kind::Sync };
            device.took(kind, turn.flight());
        }
        match (result, &step) {
            (Err(error), _) => stream.failed_on(&device, &error),
            (Ok(()), Step::Append(_)) => count(&device.counters.bytes_written, bytes),
            (Ok(()), Step::Sync) => count(&device.counters.syncs, 1),
            (Ok(()), Step::Seal) => {
                count(&device.counters.syncs, 1);
                stream.sealed.store(true, Ordering::Release);
            }
        }
        // The memory is free again before anybody is told.
        free(step);
        pending.over();
        then();
        // Nothing of the drive is held when its place is free: who waits for that may close it.
        drop(device);
        drop(turn);
    }
}

#[cfg(test)]
#[path = "shard_tests.rs"]
mod tests;
