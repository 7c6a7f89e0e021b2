//! The writer of an extent that takes the place of another when it is sealed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use drive::{DriveError, ExtentId, ExtentWriter, PAGE};

use super::super::Fault;
use super::super::disk_state::DiskEffect;
use super::{PAGE_NANOS, SYNC_NANOS, SimDisk, SimDrive, eio};

/// What is written under another name is garbage until the seal, so it is kept beside the disk.
pub(super) struct Replacement {
    disk: SimDisk,
    life: u64,
    is_suspect: Arc<AtomicBool>,
    id: ExtentId,
    bytes: Vec<u8>,
    is_poisoned: bool,
}

impl Replacement {
    pub(super) fn new(drive: &SimDrive, id: ExtentId) -> Self {
        Replacement {
            disk: drive.disk.clone(),
            life: drive.life,
            is_suspect: Arc::clone(&drive.is_suspect),
            id,
            bytes: Vec::new(),
            is_poisoned: false,
        }
    }

    fn fail(&mut self, operation: &'static str, source: std::io::Error) -> DriveError {
        self.is_poisoned = true;
        self.is_suspect.store(true, Ordering::SeqCst);
        DriveError::Io { drive: self.disk.0.id, extent: self.id, operation, source }
    }
}

impl ExtentWriter for Replacement {
    fn append(&mut self, bytes: &[u8]) -> Result<(), DriveError> {
        let (drive, extent) = (self.disk.0.id, self.id);
        if self.is_poisoned {
            return Err(DriveError::Poisoned { drive, extent });
        }
        let nanos = (bytes.len() / PAGE) as u64 * PAGE_NANOS;
        self.disk.pass(self.life, nanos).map_err(|error| self.fail("write", error))?;
        if self.disk.hits(Fault::DiskWrite) {
            return Err(self.fail("write", eio()));
        }
        let used = self.disk.lock().used().saturating_add((self.bytes.len() + bytes.len()) as u64);
        if self.disk.hits(Fault::DiskFull) || used > self.disk.0.capacity.0 {
            self.is_poisoned = true;
            return Err(DriveError::Full { drive, extent });
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), DriveError> {
        if self.is_poisoned {
            return Err(DriveError::Poisoned { drive: self.disk.0.id, extent: self.id });
        }
        self.disk.pass(self.life, SYNC_NANOS).map_err(|error| self.fail("sync", error))?;
        if self.disk.hits(Fault::DiskSync) {
            return Err(self.fail("sync", eio()));
        }
        Ok(())
    }

    fn seal(mut self: Box<Self>) -> Result<(), DriveError> {
        self.sync()?;
        let bytes: Arc<[u8]> = std::mem::take(&mut self.bytes).into();
        let mut state = self.disk.lock();
        self.disk.apply(&mut state, DiskEffect::Replace(self.id, bytes));
        Ok(())
    }
}
