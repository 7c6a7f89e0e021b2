//! One extent being written: a shard of a stripe, or a copy of a segment.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use threads::Mutex;

use base::planted::{Bug, is_planted};
use base::{ByteCount, DriveId};
use drive::{DriveError, ExtentId, ExtentWriter};

use crate::drives::{Device, count};
use crate::gather::lock;

/// An extent on its way to a drive. Its methods run on the drive's writing thread, in order.
pub(crate) struct ShardStream {
    pub(crate) id: ExtentId,
    pub(crate) drive: DriveId,
    preallocate: ByteCount,
    /// Whether it takes the place of an extent that may be there, once it is sealed.
    replaces: bool,
    state: Mutex<State>,
    /// Bytes appended so far.
    appended: AtomicU64,
    // Beside the state, whose lock is held as long as a write takes.
    failed: AtomicBool,
}

enum State {
    New,
    Open(Box<dyn ExtentWriter>),
    Sealed,
    Failed,
}

impl ShardStream {
    pub(crate) fn new(id: ExtentId, drive: DriveId, preallocate: ByteCount) -> Self {
        ShardStream {
            id,
            drive,
            preallocate,
            replaces: false,
            state: Mutex::new(State::New),
            appended: AtomicU64::new(0),
            failed: AtomicBool::new(false),
        }
    }

    /// One that replaces the extent of this id on its drive, if there is one, when it is sealed.
    pub(crate) fn replacing(id: ExtentId, drive: DriveId, preallocate: ByteCount) -> Self {
        ShardStream { replaces: true, ..ShardStream::new(id, drive, preallocate) }
    }

    /// Appends pages; makes the extent first if need be. Does nothing after a failure.
    pub(crate) fn append(&self, device: &Device, bytes: &[u8]) {
        if self.has_failed() {
            return;
        }
        let mut state = lock(&self.state);
        assert!(!matches!(*state, State::Sealed), "nothing is appended behind the seal of {}", self.id);
        if matches!(*state, State::New) {
            let begun = if self.replaces {
                device.drive.replace(self.id, self.preallocate)
            } else {
                device.drive.create(self.id, self.preallocate)
            };
            *state = match begun {
                Ok(writer) => State::Open(writer),
                Err(error) => self.failed(device, &error),
            };
        }
        self.appended.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        if let State::Open(writer) = &mut *state {
            match writer.append(bytes) {
                Ok(()) => count(&device.counters.bytes_written, bytes.len()),
                Err(error) => *state = self.failed(device, &error),
            }
        }
    }

    /// Syncs what was appended.
    pub(crate) fn sync(&self, device: &Device) {
        if self.has_failed() {
            return;
        }
        let mut state = lock(&self.state);
        if let State::Open(writer) = &mut *state {
            match writer.sync() {
                Ok(()) => count(&device.counters.syncs, 1),
                Err(error) => *state = self.failed(device, &error),
            }
        }
    }

    /// Syncs and ends the extent.
    pub(crate) fn seal(&self, device: &Device) {
        if self.has_failed() {
            return;
        }
        let mut state = lock(&self.state);
        // Until the seal has succeeded the shard counts as failed.
        if let State::Open(writer) = std::mem::replace(&mut *state, State::Failed) {
            let sealed = if is_planted(Bug::MissingPoolSync) { Ok(()) } else { writer.seal() };
            match sealed {
                Ok(()) => {
                    count(&device.counters.syncs, 1);
                    *state = State::Sealed;
                }
                Err(error) => *state = self.failed(device, &error),
            }
        }
    }

    /// Takes note that the shard cannot be relied on, for a reason found elsewhere.
    pub(crate) fn fail(&self) {
        self.failed.store(true, Ordering::Release);
        // Not in the state, whose lock a drive that hangs holds.
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    pub(crate) fn is_sealed(&self) -> bool {
        !self.has_failed() && matches!(*lock(&self.state), State::Sealed)
    }

    fn failed(&self, device: &Device, error: &DriveError) -> State {
        self.failed.store(true, Ordering::Release);
        // What was written is given back, so that it does not count as room for the next attempt.
        let appended = ByteCount(self.appended.load(Ordering::Relaxed));
        device.write_failed(error, self.preallocate.max(appended));
        State::Failed
    }
}
