//! A drive's place in a library: its handle, and the drive behind it once it was reached.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{BlockAddress, ByteCount, Partition, TapePosition, Vid};
use mechanics::{MotionReport, Track};

use super::reach::LoadableDrive;
use crate::{
    DriveCounters, DriveName, DriveProduct, ReadBlock, TapeAlert, TapeDrive, TapeError, WriteResult,
};

/// A place for one drive. Its lock is held while the drive carries out a command, so that an unmount waits
/// for it.
pub(super) struct Bay {
    pub(super) name: DriveName,
    state: Mutex<BayState>,
    /// What the drive said of itself when it was last reached. Read while the drive works.
    told: Mutex<DriveWords>,
}

/// What a drive says of itself.
#[derive(Clone, Default)]
pub(super) struct DriveWords {
    pub(super) abilities: Vec<&'static str>,
    pub(super) product: Option<DriveProduct>,
}

#[derive(Default)]
pub(super) struct BayState {
    /// A handle is out.
    pub(super) is_taken: bool,
    /// The drive, since it was first needed and reached.
    pub(super) drive: Option<Box<dyn LoadableDrive>>,
    /// What this process has mounted.
    pub(super) loaded: Option<Vid>,
}

impl Bay {
    pub(super) fn new(name: DriveName) -> Arc<Bay> {
        Arc::new(Bay { name, state: Mutex::default(), told: Mutex::default() })
    }

    /// What the drive says of itself.
    pub(super) fn told(&self) -> MutexGuard<'_, DriveWords> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, BayState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, if nobody works with the drive.
    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, BayState>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) => None,
        }
    }
}

/// The one handle of a drive. Without a mounted cartridge it says so, whether the drive is reached or not.
pub(super) struct BayHandle(pub(super) Arc<Bay>);

impl Drop for BayHandle {
    fn drop(&mut self) {
        self.0.lock().is_taken = false;
    }
}

impl BayHandle {
    fn with<T>(&self, work: impl FnOnce(&mut dyn TapeDrive) -> Result<T, TapeError>) -> Result<T, TapeError> {
        let mut state = self.0.lock();
        let is_loaded = state.loaded.is_some();
        match state.drive.as_deref_mut().filter(|_| is_loaded) {
            Some(drive) => work(drive.tape()),
            None => Err(TapeError::NotLoaded { drive: self.0.name.clone() }),
        }
    }
}

impl TapeDrive for BayHandle {
    fn id(&self) -> &DriveName {
        &self.0.name
    }

    fn read_block(&mut self, buffer: &mut [u8]) -> Result<ReadBlock, TapeError> {
        self.with(|drive| drive.read_block(buffer))
    }

    fn write_block(&mut self, block: &[u8]) -> Result<WriteResult, TapeError> {
        self.with(|drive| drive.write_block(block))
    }

    fn write_filemarks(&mut self, count: u32) -> Result<WriteResult, TapeError> {
        self.with(|drive| drive.write_filemarks(count))
    }

    fn locate(&mut self, to: TapePosition) -> Result<(), TapeError> {
        self.with(|drive| drive.locate(to))
    }

    fn space_to_end_of_data(&mut self, partition: Partition) -> Result<TapePosition, TapeError> {
        self.with(|drive| drive.space_to_end_of_data(partition))
    }

    fn position(&mut self) -> Result<TapePosition, TapeError> {
        self.with(|drive| drive.position())
    }

    fn rewind(&mut self) -> Result<(), TapeError> {
        self.with(|drive| drive.rewind())
    }

    fn loaded(&self) -> bool {
        let state = self.0.lock();
        state.loaded.is_some() && state.drive.as_ref().is_some_and(|drive| drive.is_loaded())
    }

    fn format_partitions(&mut self) -> Result<(), TapeError> {
        self.with(|drive| drive.format_partitions())
    }

    fn read_attribute(&mut self, partition: Partition, id: u16) -> Result<Option<Vec<u8>>, TapeError> {
        self.with(|drive| drive.read_attribute(partition, id))
    }

    fn write_attribute(&mut self, partition: Partition, id: u16, value: &[u8]) -> Result<(), TapeError> {
        self.with(|drive| drive.write_attribute(partition, id, value))
    }

    fn remaining(&mut self) -> Result<ByteCount, TapeError> {
        self.with(|drive| drive.remaining())
    }

    fn early_warning_room(&mut self) -> Option<ByteCount> {
        self.with(|drive| Ok(drive.early_warning_room())).ok().flatten()
    }

    fn end_of_wrap_positions(&mut self) -> Result<Option<Vec<BlockAddress>>, TapeError> {
        self.with(|drive| drive.end_of_wrap_positions())
    }

    fn recommended_order(
        &mut self,
        segments: &[(BlockAddress, BlockAddress)],
    ) -> Result<Option<Vec<usize>>, TapeError> {
        self.with(|drive| drive.recommended_order(segments))
    }

    fn track(&mut self, block_size: u32) -> Result<Option<Track>, TapeError> {
        self.with(|drive| drive.track(block_size))
    }

    fn motion_report(&mut self) -> Option<MotionReport> {
        // Of the last mount too, after the unmount.
        self.0.lock().drive.as_mut().and_then(|drive| drive.tape().motion_report())
    }

    fn set_encryption(&mut self, encryption: Option<&crate::TapeEncryption>) -> Result<(), TapeError> {
        self.with(|drive| drive.set_encryption(encryption))
    }

    fn block_encryption(&mut self) -> Result<crate::BlockEncryption, TapeError> {
        self.with(|drive| drive.block_encryption())
    }

    fn alerts(&mut self) -> Result<Vec<TapeAlert>, TapeError> {
        match self.0.lock().drive.as_mut() {
            Some(drive) => drive.tape().alerts(),
            None => Ok(Vec::new()),
        }
    }

    fn counters(&mut self) -> Result<DriveCounters, TapeError> {
        self.with(|drive| drive.counters())
    }
}
