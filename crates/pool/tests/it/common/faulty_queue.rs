//! The queue of a drive with faults on demand: what a fault hits is refused by the drive's own queue, in its
//! turn, and told of as what the fault is.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::{ByteCount, DriveId};
use drive::{
    DriveError, DriveQueue, ExtentId, QueueEngine, QueuedExtent, ReadOperation, WriteOperation, WriteStep,
};

use super::{Faults, broken};

pub struct FaultyQueue {
    pub inner: Arc<dyn DriveQueue>,
    pub drive: DriveId,
    pub faults: Arc<Faults>,
}

struct FaultyExtent {
    /// `None`: what was to be reserved finds no room.
    inner: Option<Box<dyn QueuedExtent>>,
    id: ExtentId,
    drive: DriveId,
    faults: Arc<Faults>,
    synced_badly: bool,
}

/// A step that a fault hits, or none.
struct Hit(Box<dyn WriteOperation>, Option<DriveError>);

impl WriteOperation for Hit {
    fn step(&self) -> WriteStep<'_> {
        // Refused by any writer, and so the end of this one.
        if self.1.is_some() { WriteStep::Append(&[0]) } else { self.0.step() }
    }

    fn done(self: Box<Self>, result: Result<(), DriveError>) {
        let refused = self.1.filter(|_| matches!(result, Err(DriveError::Unaligned { .. })));
        self.0.done(refused.map_or(result, Err));
    }
}

impl DriveQueue for FaultyQueue {
    fn depth(&self) -> usize {
        self.inner.depth()
    }

    fn engine(&self) -> QueueEngine {
        self.inner.engine()
    }

    fn read(&self, mut read: Box<dyn ReadOperation>) {
        if self.faults.hung.load(Ordering::SeqCst) {
            let (inner, faults) = (Arc::clone(&self.inner), Arc::clone(&self.faults));
            std::thread::spawn(move || {
                faults.hang();
                inner.read(read);
            });
            return;
        }
        let mut number = 0;
        while let Some((offset, _)) = read.part(number) {
            if let Err(error) = self.faults.check_read(self.drive, read.extent(), offset) {
                return read.done(Err(error));
            }
            number += 1;
        }
        self.inner.read(read);
    }

    fn extent(&self, id: ExtentId, preallocate: ByteCount, replaces: bool) -> Box<dyn QueuedExtent> {
        let lacks = !replaces && self.faults.lacks(preallocate);
        let inner = (!lacks).then(|| self.inner.extent(id, preallocate, replaces));
        let (drive, faults) = (self.drive, Arc::clone(&self.faults));
        Box::new(FaultyExtent { inner, id, drive, faults, synced_badly: false })
    }
}

impl QueuedExtent for FaultyExtent {
    fn submit(&mut self, operation: Box<dyn WriteOperation>) {
        let (drive, extent) = (self.drive, self.id);
        let Some(inner) = &mut self.inner else {
            return operation.done(Err(DriveError::Full { drive, extent }));
        };
        let faults = &self.faults;
        let hit = match operation.step() {
            WriteStep::Append(_) if faults.full.load(Ordering::SeqCst) => {
                faults.fired.fetch_add(1, Ordering::SeqCst);
                Some(DriveError::Full { drive, extent })
            }
            WriteStep::Append(_) => {
                faults.fires(&faults.appends_left).then(|| broken(drive, extent, "write"))
            }
            WriteStep::Sync | WriteStep::Seal => {
                faults.syncs.fetch_add(1, Ordering::SeqCst);
                faults.syncs_after_failure.fetch_add(u64::from(self.synced_badly), Ordering::SeqCst);
                faults.fires(&faults.syncs_left).then(|| broken(drive, extent, "sync"))
            }
        };
        self.synced_badly |= matches!(&hit, Some(DriveError::Io { operation: "sync", .. }));
        inner.submit(Box::new(Hit(operation, hit)));
    }
}
