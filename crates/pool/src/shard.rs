//! One extent being written: a shard of a stripe, or a copy of a segment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use threads::Mutex;

use base::planted::{Bug, is_planted};
use base::{ByteCount, DriveId};
use drive::{AlignedBuffer, DriveError, ExtentId, QueuedExtent, WriteOperation, WriteStep};

use crate::arena::CellBuffer;
use crate::drives::{Device, Present, count};
use crate::gather::lock;
use crate::lane::Flight;

/// An extent on its way to a drive. Its steps are done on the drive in the order in which they are queued.
pub(crate) struct ShardStream {
    pub(crate) id: ExtentId,
    pub(crate) drive: DriveId,
    preallocate: ByteCount,
    /// Whether it takes the place of an extent that may be there, once it is sealed.
    replaces: bool,
    /// The extent on the drive, from the first append to the seal or a failure. The lock is held as long as a
    /// step takes that blocks: nothing that is asked while a drive hangs may need it.
    extent: Mutex<Option<Box<dyn QueuedExtent>>>,
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
            extent: Mutex::new(None),
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

    /// Queues a step behind the earlier ones; `then` is called when it is over, whatever came of it. Nothing
    /// is done after a failure. If the drive is set aside meanwhile, `then` is dropped.
    pub(crate) fn queue(
        self: &Arc<Self>,
        present: &Present,
        step: Step,
        then: impl FnOnce() + Send + 'static,
    ) {
        let stream = Arc::clone(self);
        present.write(Box::new(move |device, flight| stream.begin(device, flight, step, then)));
    }

    /// Hands a step to the drive.
    fn begin(
        self: Arc<Self>,
        device: &Arc<Device>,
        flight: Flight,
        step: Step,
        then: impl FnOnce() + Send + 'static,
    ) {
        let mut extent = lock(&self.extent);
        if self.has_failed() {
            *extent = None;
        } else if matches!(step, Step::Append(_)) {
            assert!(
                !self.ended.load(Ordering::Relaxed),
                "nothing is appended behind the seal of {}",
                self.id
            );
            extent.get_or_insert_with(|| device.queue.extent(self.id, self.preallocate, self.replaces));
        }
        let Some(mut open) = extent.take() else {
            // It has failed, or nothing was appended to it.
            drop((extent, flight, step));
            drop(self);
            return then();
        };
        let is_last = matches!(step, Step::Seal);
        self.ended.fetch_or(is_last, Ordering::Relaxed);
        let operation = Writing { stream: Arc::clone(&self), device: Arc::clone(device), flight, step, then };
        if is_last && is_planted(Bug::MissingPoolSync) {
            drop(open);
            return Box::new(operation).done(Ok(()));
        }
        open.submit(Box::new(operation));
        if !is_last {
            *extent = Some(open);
        }
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

/// A step on its way.
struct Writing<T> {
    stream: Arc<ShardStream>,
    device: Arc<Device>,
    flight: Flight,
    step: Step,
    then: T,
}

impl<T: FnOnce() + Send> WriteOperation for Writing<T> {
    fn step(&self) -> WriteStep<'_> {
        match &self.step {
            Step::Append(bytes) => WriteStep::Append(bytes.bytes()),
            Step::Sync => WriteStep::Sync,
            Step::Seal => WriteStep::Seal,
        }
    }

    fn done(self: Box<Self>, result: Result<(), DriveError>) {
        let Writing { stream, device, flight, step, then } = *self;
        let bytes = if let Step::Append(bytes) = &step { bytes.bytes().len() } else { 0 };
        stream.appended.fetch_add(bytes as u64, Ordering::Relaxed);
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
        drop((step, stream));
        then();
        // Nothing of the drive is held when its place is free: who waits for that may close it.
        drop(device);
        drop(flight);
    }
}
