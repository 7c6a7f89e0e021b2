//! What the library and the mover share of a drive: the one loads and unloads, the other reads and writes.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::scsi::Transport;
use base::{BlockAddress, ByteCount, Partition, TapePosition, Vid};
use mechanics::{LocateFit, MotionReport, Track};

use super::reservation::Hold;
use super::{
    AttentionsSeen, Drive, DriveIdentity, Medium, PartitionSpace, Planted, ScsiDriveOptions, TimedLocate,
};
use crate::{
    DriveCounters, DriveName, DriveProduct, ReadBlock, TapeAlert, TapeDrive, TapeError, WriteResult,
};

/// What was unloaded.
#[derive(Debug)]
pub struct Unloaded {
    /// The cartridge. The robot may take it out.
    pub vid: Vid,
    /// Whether all that was written is on it.
    pub flushed: Result<(), TapeError>,
}

struct Shared {
    name: DriveName,
    state: Mutex<State>,
}

struct State {
    drive: Drive,
    /// A handle exists.
    taken: bool,
}

/// A tape drive behind SCSI, for the library that it is in.
#[derive(Clone)]
pub struct ScsiDrive(Arc<Shared>);

impl ScsiDrive {
    /// Opens the drive behind a transport. `expected`: the drive that it must be; without, whichever it is is
    /// remembered.
    ///
    /// # Errors
    /// If there is another device, or none.
    pub fn open(
        name: DriveName,
        transport: Box<dyn Transport>,
        expected: Option<&DriveIdentity>,
        options: ScsiDriveOptions,
    ) -> Result<ScsiDrive, TapeError> {
        let drive = Drive::open(name.clone(), transport, expected, options)?;
        Ok(ScsiDrive(Arc::new(Shared { name, state: Mutex::new(State { drive, taken: false }) })))
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &DriveName {
        &self.0.name
    }

    /// What tells it from all others.
    #[must_use]
    pub fn identity(&self) -> DriveIdentity {
        self.0.lock().drive.identity.clone()
    }

    /// What it says that it is.
    #[must_use]
    pub fn product(&self) -> DriveProduct {
        self.0.lock().drive.product()
    }

    /// The handle for the mover's thread; `None` while another exists. Dropping it gives the drive back.
    #[must_use]
    pub fn take(&self) -> Option<Box<dyn TapeDrive>> {
        let mut state = self.0.lock();
        if std::mem::replace(&mut state.taken, true) {
            return None;
        }
        Some(Box::new(Handle { shared: self.0.clone() }))
    }

    /// Takes the cartridge that the robot has put into the drive, or that was in it: waits for it, reserves
    /// and sets the drive, and goes to the begin of the index partition.
    ///
    /// # Errors
    /// The drive holds nothing then, as far as the handle knows.
    pub fn load(&self, vid: Vid) -> Result<Medium, TapeError> {
        self.0.lock().drive.load(vid)
    }

    /// Flushes and unloads the cartridge, and gives the drive free.
    ///
    /// # Errors
    /// If it is still in the drive.
    pub fn unload(&self) -> Result<Unloaded, TapeError> {
        self.0.lock().drive.unload().map(|(vid, flushed)| Unloaded { vid, flushed })
    }

    /// Lets the robot take out what is in the drive, whether it was loaded here or not. Gives what failed of
    /// the flush of one that was.
    ///
    /// # Errors
    /// If it is still in the drive.
    pub fn let_out(&self) -> Result<Option<TapeError>, TapeError> {
        let mut state = self.0.lock();
        match state.drive.session {
            Some(_) => state.drive.unload().map(|(_, flushed)| flushed.err()),
            None => state.drive.eject().map(|()| None),
        }
    }

    /// Waits until the drive has done with the cleaning cartridge that the robot has put in, `most` at the
    /// longest. Gives the flags that it has raised.
    ///
    /// # Errors
    /// If it was not cleaned, or does not come to an end.
    pub fn clean(&self, most: Duration) -> Result<Vec<TapeAlert>, TapeError> {
        self.0.lock().drive.clean(most)
    }

    /// The cartridge that was loaded.
    #[must_use]
    pub fn loaded(&self) -> Option<Vid> {
        self.0.lock().drive.session.as_ref().map(|session| session.vid)
    }

    /// What is known of the cartridge in the drive, as of its load.
    #[must_use]
    pub fn medium(&self) -> Option<Medium> {
        self.0.lock().drive.session.as_ref().map(|session| session.medium.clone())
    }

    /// What a partition of the cartridge holds; `None` if the drive does not tell.
    ///
    /// # Errors
    /// If there is none, or the drive cannot be asked.
    pub fn space(&self, partition: Partition) -> Result<Option<PartitionSpace>, TapeError> {
        self.0.lock().drive.space_of(partition)
    }

    /// Takes the drive from another host that has reserved it, which ends what that one is doing with it.
    /// Only on an operator's word, or if that host is known to be dead. Then load.
    ///
    /// # Errors
    /// If it stays reserved.
    pub fn take_over(&self) -> Result<(), TapeError> {
        self.0.lock().drive.take_over()
    }

    /// What it has been through since it was opened.
    #[must_use]
    pub fn seen(&self) -> AttentionsSeen {
        self.0.lock().drive.seen
    }

    /// Whether the drive has a command, as far as is known: by its own list, or because it has not refused
    /// it.
    #[must_use]
    pub fn may(&self, operation: u8, service_action: u16) -> bool {
        self.0.lock().drive.abilities.may(operation, service_action)
    }

    /// What it can do of what an archive makes use of, by its own list of commands, in words; empty if it
    /// gives none.
    #[must_use]
    pub fn abilities(&self) -> Vec<&'static str> {
        self.0.lock().drive.abilities.words()
    }

    /// Whether other hosts are kept from it now.
    #[must_use]
    pub fn is_reserved(&self) -> bool {
        self.0.lock().drive.hold != Hold::None
    }

    /// Writes a record with a wrong checksum at the end of data, to see whether the drive looks at it. *Only
    /// on a tape without value.*
    ///
    /// # Errors
    /// If the drive fails otherwise.
    pub fn plant_wrong_checksum(&self, block: &[u8]) -> Result<Planted, TapeError> {
        self.0.lock().drive.plant(block)
    }

    /// What the ways on the data partition cost by the model alone, without what its locates took; `None` if
    /// there is no model.
    ///
    /// # Errors
    /// If it holds no cartridge, or cannot be asked.
    pub fn model_track(&self, block_size: u32) -> Result<Option<Track>, TapeError> {
        self.0.lock().drive.model_track(block_size)
    }

    /// By how much the drive's locates differ from the model of it; `None` if there is no model.
    ///
    /// # Errors
    /// If it holds no cartridge, or cannot be asked.
    pub fn fit(&self, block_size: u32) -> Result<Option<LocateFit>, TapeError> {
        self.0.lock().drive.fit(block_size)
    }

    /// Locates of this mount since its track was last asked for, the oldest first.
    #[must_use]
    pub fn recent_locates(&self) -> Vec<TimedLocate> {
        self.0.lock().drive.recent_locates()
    }

    /// What its last loads took, the oldest first.
    #[must_use]
    pub fn recent_loads(&self) -> Vec<Duration> {
        self.0.lock().drive.recent_loads()
    }

    /// The longest block that can be written, in bytes.
    #[must_use]
    pub fn block_bytes_max(&self) -> usize {
        self.0.lock().drive.block_max
    }

    /// How long before its own early warning the drive was told to warn for the cartridge in it; `None` if it
    /// was not, or cannot be told.
    #[must_use]
    pub fn programmed_early_warning(&self) -> Option<ByteCount> {
        self.0.lock().drive.early_warning_room()
    }

    /// Whether the drive was to be told so for the cartridge in it: a small one ends too soon for that.
    #[must_use]
    pub fn wishes_early_warning(&self) -> bool {
        self.0.lock().drive.wishes_early_warning()
    }

    /// Whether blocks carry checksums between host and tape now.
    #[must_use]
    pub fn is_protected(&self) -> bool {
        self.0.lock().drive.protection.is_some()
    }
}

impl fmt::Debug for ScsiDrive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScsiDrive({})", self.0.name)
    }
}

impl Shared {
    /// The state. After a panic in the midst of a command the cartridge takes no more writes.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned: PoisonError<MutexGuard<'_, State>>| {
            let mut state = poisoned.into_inner();
            state.drive.poison();
            state
        })
    }
}

/// The mover's handle.
struct Handle {
    shared: Arc<Shared>,
}

impl Handle {
    fn with<T>(&self, run: impl FnOnce(&mut Drive) -> Result<T, TapeError>) -> Result<T, TapeError> {
        run(&mut self.shared.lock().drive)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.lock().taken = false;
    }
}

impl TapeDrive for Handle {
    fn id(&self) -> &DriveName {
        &self.shared.name
    }

    fn read_block(&mut self, buffer: &mut [u8]) -> Result<ReadBlock, TapeError> {
        self.with(|drive| {
            let begun = drive.begin();
            let block = drive.read(buffer)?;
            let bytes = if let ReadBlock::Data(bytes) = block { bytes } else { 0 };
            drive.measure_transfer(&begun, bytes, 0);
            Ok(block)
        })
    }

    fn write_block(&mut self, block: &[u8]) -> Result<WriteResult, TapeError> {
        self.with(|drive| {
            let begun = drive.begin();
            let result = drive.write(block)?;
            drive.measure_transfer(&begun, 0, block.len());
            Ok(result)
        })
    }

    fn write_filemarks(&mut self, count: u32) -> Result<WriteResult, TapeError> {
        self.with(|drive| {
            let begun = drive.begin();
            let result = drive.mark(count)?;
            drive.measure_flush(&begun);
            Ok(result)
        })
    }

    fn locate(&mut self, to: TapePosition) -> Result<(), TapeError> {
        self.with(|drive| drive.locate(to))
    }

    fn space_to_end_of_data(&mut self, partition: Partition) -> Result<TapePosition, TapeError> {
        self.with(|drive| drive.end_of_data(partition))
    }

    fn position(&mut self) -> Result<TapePosition, TapeError> {
        self.with(Drive::position)
    }

    fn rewind(&mut self) -> Result<(), TapeError> {
        self.with(|drive| {
            let partition = drive.session()?.at.partition;
            drive.locate(TapePosition { partition, block: BlockAddress(0) })
        })
    }

    fn loaded(&self) -> bool {
        self.shared.lock().drive.is_loaded()
    }

    fn format_partitions(&mut self) -> Result<(), TapeError> {
        self.with(Drive::format)
    }

    fn read_attribute(&mut self, partition: Partition, id: u16) -> Result<Option<Vec<u8>>, TapeError> {
        self.with(|drive| drive.attribute(partition, id))
    }

    fn write_attribute(&mut self, partition: Partition, id: u16, value: &[u8]) -> Result<(), TapeError> {
        self.with(|drive| drive.set_attribute(partition, id, value))
    }

    fn remaining(&mut self) -> Result<ByteCount, TapeError> {
        self.with(|drive| match drive.space_of(Partition::Data)? {
            Some(space) => Ok(space.remaining),
            None => Err(drive.unfit("read capacity")),
        })
    }

    fn early_warning_room(&mut self) -> Option<ByteCount> {
        self.shared.lock().drive.early_warning_room()
    }

    fn end_of_wrap_positions(&mut self) -> Result<Option<Vec<BlockAddress>>, TapeError> {
        self.with(Drive::wrap_ends)
    }

    fn recommended_order(
        &mut self,
        segments: &[(BlockAddress, BlockAddress)],
    ) -> Result<Option<Vec<usize>>, TapeError> {
        self.with(|drive| drive.order(segments))
    }

    fn track(&mut self, block_size: u32) -> Result<Option<Track>, TapeError> {
        self.with(|drive| drive.track(block_size))
    }

    fn motion_report(&mut self) -> Option<MotionReport> {
        self.shared.lock().drive.motion()
    }

    fn set_encryption(&mut self, encryption: Option<&crate::TapeEncryption>) -> Result<(), TapeError> {
        self.with(|drive| drive.set_encryption(encryption))
    }

    fn block_encryption(&mut self) -> Result<crate::BlockEncryption, TapeError> {
        self.with(Drive::block_encryption)
    }

    fn alerts(&mut self) -> Result<Vec<TapeAlert>, TapeError> {
        self.with(Drive::raised_alerts)
    }

    fn counters(&mut self) -> Result<DriveCounters, TapeError> {
        self.with(Drive::count)
    }
}
