//! A tape drive in memory, with the semantics of the virtual one.

use base::{BlockAddress, ByteCount, Partition, TapePosition, Vid};
use library::{
    BLOCK_BYTES_MAX, DriveName, FILE_MARKS_MAX, MEMORY_ATTRIBUTES_MAX, MEMORY_VALUE_BYTES_MAX, MotionReport,
    ReadBlock, Sense, TapeAlert, TapeDrive, TapeError, Track, WriteResult,
};

use super::Fault;
use super::library::{
    LABELLED_OBJECTS_MAX, LOAD_POINT, LibraryState, Loaded, MountState, Overwrite, SimLibrary, eio,
};
use super::tape_state::{TapeEffect, TapeObject, VOLUME_CHANGE_REFERENCE};

/// How long one command takes, beside the transfer.
const COMMAND_NANOS: u64 = 100_000;
/// How long a synchronous flush takes.
const FLUSH_NANOS: u64 = 50_000_000;
const LOCATE_NANOS: u64 = 5_000_000_000;
/// Nanoseconds for 4 KiB: 300 MB/s.
const KIBS4_NANOS: u64 = 13_000;
const SLOW_NANOS: u64 = 60_000_000_000;

/// The handle of a drive.
pub(crate) struct SimTapeDrive {
    library: SimLibrary,
    name: DriveName,
    bay: usize,
    life: u64,
}

/// One command: what the drive does, and on which cartridge.
struct Command<'a> {
    library: &'a SimLibrary,
    state: &'a mut LibraryState,
    bay: usize,
}

impl Command<'_> {
    fn loaded(&mut self) -> &mut Loaded {
        let bay = self.state.bays.get_mut(self.bay);
        bay.and_then(|bay| bay.loaded.as_mut()).unwrap_or_else(|| unreachable!("checked before"))
    }

    fn vid(&mut self) -> Vid {
        self.loaded().vid
    }

    fn here(&mut self) -> (Vid, Partition, usize) {
        let loaded = self.loaded();
        (loaded.actual, loaded.position.partition, loaded.position.block.0 as usize)
    }

    fn end_of(&mut self, partition: Partition) -> TapePosition {
        let actual = self.loaded().actual;
        TapePosition { partition, block: BlockAddress(self.state.tape(actual).end(partition) as u64) }
    }

    fn medium(&mut self, operation: &'static str) -> TapeError {
        TapeError::Medium { vid: self.vid(), operation, source: eio().into() }
    }

    /// Something that changes the medium failed: nothing more is written.
    fn poison(&mut self, operation: &'static str) -> TapeError {
        self.loaded().is_poisoned = true;
        self.medium(operation)
    }

    fn apply(&mut self, effect: TapeEffect) {
        let actual = self.loaded().actual;
        self.library.apply(self.state, actual, effect);
    }

    fn check_writable(&mut self) -> Result<(), TapeError> {
        let (vid, actual, is_poisoned) = {
            let loaded = self.loaded();
            (loaded.vid, loaded.actual, loaded.is_poisoned)
        };
        if self.state.tape(actual).is_write_protected {
            return Err(TapeError::WriteProtected { vid });
        }
        if is_poisoned {
            return Err(TapeError::Poisoned { vid });
        }
        Ok(())
    }

    fn note_change(&mut self, lost: bool) {
        if !std::mem::replace(&mut self.loaded().is_raised, true) || lost {
            self.apply(TapeEffect::Changed);
        }
    }

    /// Prepares a write at the head: what stands behind it goes.
    fn cut_behind(&mut self) {
        let (actual, partition, at) = self.here();
        let end = self.state.tape(actual).end(partition);
        self.note_change(at < end);
        if at < end {
            if partition == Partition::Data {
                let overwrite = Overwrite { vid: actual, at: at as u64, end: end as u64 };
                self.state.note_overwrite(overwrite);
            }
            self.apply(TapeEffect::Cut(partition, at));
        }
    }

    fn append(&mut self, object: TapeObject) {
        let (_, partition, _) = self.here();
        self.apply(TapeEffect::Append(partition, object));
        self.loaded().position.block.0 += 1;
    }

    fn write_result(&mut self) -> WriteResult {
        let (actual, partition, _) = self.here();
        let tape = self.state.tape(actual);
        let (total, warning) = tape.limits(partition);
        WriteResult { early_warning: tape.payload(partition) > total.saturating_sub(warning) }
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<ReadBlock, TapeError> {
        let (actual, partition, at) = self.here();
        let (vid, position) = (self.vid(), self.loaded().position);
        let result = match self.state.tape(actual).object(partition, at) {
            None => return Ok(ReadBlock::EndOfData),
            Some(TapeObject::FileMark) => ReadBlock::FileMark,
            Some(TapeObject::Damaged(_)) => return Err(TapeError::Unreadable { vid, at: position }),
            Some(TapeObject::Record(bytes)) => match buffer.get_mut(..bytes.len()) {
                Some(into) => {
                    into.copy_from_slice(bytes);
                    ReadBlock::Data(bytes.len())
                }
                None => {
                    let (record, buffer) = (bytes.len(), buffer.len());
                    return Err(TapeError::BufferTooSmall { record, buffer });
                }
            },
        };
        self.loaded().position.block.0 += 1;
        Ok(result)
    }
}

impl SimTapeDrive {
    pub(crate) fn new(library: SimLibrary, name: DriveName, bay: usize, life: u64) -> Self {
        SimTapeDrive { library, name, bay, life }
    }

    fn hits(&self, fault: Fault) -> bool {
        let vid = self.library.lock().bays[self.bay].loaded.as_ref().map(|loaded| loaded.vid);
        vid.is_some_and(|vid| self.library.hits(fault, &self.name, vid))
    }

    fn is_behind_labels(&self) -> bool {
        let state = self.library.lock();
        let loaded = state.bays[self.bay].loaded.as_ref();
        loaded.is_some_and(|loaded| {
            let at = loaded.position;
            at.partition == Partition::Data && at.block.0 as usize > LABELLED_OBJECTS_MAX
        })
    }

    /// Lets a command's time pass and runs it on the loaded cartridge, if the drive lives.
    fn run<T>(
        &self,
        doing: MountState,
        operation: &'static str,
        nanos: u64,
        run: impl FnOnce(&mut Command<'_>) -> Result<T, TapeError>,
    ) -> Result<T, TapeError> {
        let slow = if self.hits(Fault::TapeSlow) { SLOW_NANOS } else { 0 };
        self.library.0.around.pace.pause(COMMAND_NANOS + nanos + slow);
        let moves = operation != "position";
        let is_reset = moves && self.hits(Fault::PositionLost);
        let refusal = self.refusal();
        // Carried out or not: nobody is told.
        let is_cut = self.hits(Fault::DrivePath);
        let is_carried_out = is_cut && self.library.dice().below(2) == 0;
        let mut state = self.library.lock();
        let not_loaded = || TapeError::NotLoaded { drive: self.name.clone() };
        if state.life() != self.life || threads::simulated::is_dead() {
            return Err(not_loaded());
        }
        let loaded = state.bays[self.bay].loaded.as_ref().map(|loaded| (loaded.vid, loaded.actual));
        let (vid, actual) = loaded.ok_or_else(not_loaded)?;
        if self.library.is_dead(&mut state, self.bay, doing) {
            if let Some(loaded) = &mut state.bays[self.bay].loaded {
                loaded.is_poisoned = true;
            }
            return Err(TapeError::Medium { vid, operation, source: eio().into() });
        }
        if is_reset {
            // A write that fails poisons as always; otherwise only what was lost with the buffer does.
            let has_lost = self.library.lose_buffer(&mut state, actual) || doing == MountState::Writing;
            if let Some(loaded) = &mut state.bays[self.bay].loaded {
                loaded.position = LOAD_POINT;
                loaded.is_poisoned |= has_lost;
            }
            let sense = Sense { key: 0x6, code: 0x29, qualifier: 0x00 };
            return Err(TapeError::Interrupted { drive: self.name.clone(), sense });
        }
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        if !is_cut {
            return run(&mut Command { library: &self.library, state: &mut state, bay: self.bay });
        }
        if is_carried_out {
            // Its answer is lost, whatever it was.
            let _ = run(&mut Command { library: &self.library, state: &mut state, bay: self.bay });
        }
        if let Some(loaded) = &mut state.bays[self.bay].loaded {
            loaded.is_poisoned |= doing == MountState::Writing;
        }
        Err(TapeError::Path { drive: self.name.clone(), operation, source: eio().into() })
    }

    /// What the drive says instead of carrying out a command.
    fn refusal(&self) -> Option<TapeError> {
        let drive = || self.name.clone();
        if self.hits(Fault::DriveReserved) {
            return Some(TapeError::Reserved { drive: drive() });
        }
        if self.hits(Fault::DriveCleaning) {
            let sense = Sense { key: 0x2, code: 0x30, qualifier: 0x07 };
            return Some(TapeError::CleaningNeeded { drive: drive(), sense });
        }
        let sense = Sense { key: 0x2, code: 0x04, qualifier: 0x01 };
        self.hits(Fault::DriveNotReady).then(|| TapeError::NotReady { drive: drive(), sense })
    }
}

impl Drop for SimTapeDrive {
    fn drop(&mut self) {
        let mut state = self.library.lock();
        if state.life() == self.life {
            state.bays[self.bay].is_taken = false;
        }
    }
}

fn transfer_nanos(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(4096) * KIBS4_NANOS
}

impl TapeDrive for SimTapeDrive {
    fn id(&self) -> &DriveName {
        &self.name
    }

    fn read_block(&mut self, buffer: &mut [u8]) -> Result<ReadBlock, TapeError> {
        let becomes_unreadable = self.hits(Fault::TapeUnreadable);
        self.run(MountState::Reading, "read", transfer_nanos(buffer.len() / 2), |command| {
            if becomes_unreadable {
                let (actual, partition, at) = command.here();
                if let Some(TapeObject::Record(bytes)) = command.state.tape(actual).object(partition, at) {
                    let damaged = TapeObject::Damaged(bytes.len());
                    command.apply(TapeEffect::Replace(partition, at, damaged));
                }
            }
            command.read(buffer)
        })
    }

    fn write_block(&mut self, block: &[u8]) -> Result<WriteResult, TapeError> {
        let length = block.len();
        if length == 0 || length > BLOCK_BYTES_MAX {
            return Err(TapeError::BlockLength { length, max: BLOCK_BYTES_MAX });
        }
        let ends = self.hits(Fault::TapeEarlyEnd);
        let fails = self.hits(Fault::TapeWrite);
        // Nobody repacks onto a tape whose labels are wrong.
        let flip =
            (self.is_behind_labels() && self.hits(Fault::TapeBitFlip)).then(|| self.library.dice().roll());
        self.run(MountState::Writing, "write", transfer_nanos(length), |command| {
            command.check_writable()?;
            let (actual, partition, at) = command.here();
            if ends && partition == Partition::Data {
                command.apply(TapeEffect::EarlyEnd(at));
            }
            let tape = command.state.tape(actual);
            let (total, _) = tape.limits(partition);
            let used = tape.payload_before(partition, at);
            if used.saturating_add(length as u64) > total || tape.is_early_end(partition, at) {
                let (vid, at) = (command.vid(), command.loaded().position);
                return Err(TapeError::EndOfMedium { vid, at });
            }
            if fails {
                return Err(command.poison("write"));
            }
            command.cut_behind();
            let mut stored: std::sync::Arc<[u8]> = block.into();
            if let Some(random) = flip {
                std::sync::Arc::make_mut(&mut stored)[random as usize % length] ^= 1 << (random >> 61);
            }
            command.append(TapeObject::Record(stored));
            Ok(command.write_result())
        })
    }

    fn write_filemarks(&mut self, count: u32) -> Result<WriteResult, TapeError> {
        if count > FILE_MARKS_MAX {
            return Err(TapeError::FileMarkCount { count, max: FILE_MARKS_MAX });
        }
        let fails = self.hits(Fault::TapeFlush);
        self.run(MountState::Writing, "flush", FLUSH_NANOS, |command| {
            command.check_writable()?;
            if count > 0 {
                command.cut_behind();
            }
            (0..count).for_each(|_| command.append(TapeObject::FileMark));
            if fails {
                let actual = command.loaded().actual;
                command.library.lose_buffer(command.state, actual);
                return Err(command.poison("flush"));
            }
            command.apply(TapeEffect::Flush);
            Ok(command.write_result())
        })
    }

    fn locate(&mut self, to: TapePosition) -> Result<(), TapeError> {
        self.run(MountState::Idle, "locate", LOCATE_NANOS, |command| {
            let end = command.end_of(to.partition);
            if to.block > end.block {
                return Err(TapeError::BeyondEndOfData { vid: command.vid(), to, end });
            }
            command.loaded().position = to;
            Ok(())
        })
    }

    fn space_to_end_of_data(&mut self, partition: Partition) -> Result<TapePosition, TapeError> {
        self.run(MountState::Idle, "locate", LOCATE_NANOS, |command| {
            let end = command.end_of(partition);
            command.loaded().position = end;
            Ok(end)
        })
    }

    fn position(&mut self) -> Result<TapePosition, TapeError> {
        self.run(MountState::Idle, "position", 0, |command| Ok(command.loaded().position))
    }

    fn rewind(&mut self) -> Result<(), TapeError> {
        self.run(MountState::Idle, "rewind", LOCATE_NANOS, |command| {
            command.loaded().position.block = BlockAddress(0);
            Ok(())
        })
    }

    fn loaded(&self) -> bool {
        let state = self.library.lock();
        state.life() == self.life && state.bays[self.bay].loaded.is_some()
    }

    fn format_partitions(&mut self) -> Result<(), TapeError> {
        self.run(MountState::Writing, "format", LOCATE_NANOS, |command| {
            command.check_writable()?;
            command.note_change(true);
            let actual = command.loaded().actual;
            let end = command.state.tape(actual).end(Partition::Data);
            if end > LABELLED_OBJECTS_MAX && !command.state.takes_format(actual) {
                command.state.note_overwrite(Overwrite { vid: actual, at: 0, end: end as u64 });
            }
            command.apply(TapeEffect::Cut(Partition::Data, 0));
            command.apply(TapeEffect::Cut(Partition::Index, 0));
            command.loaded().position = LOAD_POINT;
            Ok(())
        })
    }

    fn read_attribute(&mut self, partition: Partition, id: u16) -> Result<Option<Vec<u8>>, TapeError> {
        self.run(MountState::Idle, "memory read", 0, |command| {
            if id == VOLUME_CHANGE_REFERENCE {
                command.loaded().is_raised = false;
            }
            let actual = command.loaded().actual;
            Ok(command.state.tape(actual).attribute(partition, id))
        })
    }

    fn write_attribute(&mut self, partition: Partition, id: u16, value: &[u8]) -> Result<(), TapeError> {
        if !((0x0800..=0x0BFF).contains(&id) || (0x1400..=0x17FF).contains(&id)) {
            return Err(TapeError::AttributeReadOnly { id });
        }
        if value.len() > MEMORY_VALUE_BYTES_MAX {
            return Err(TapeError::AttributeLength { id, length: value.len(), max: MEMORY_VALUE_BYTES_MAX });
        }
        self.run(MountState::Idle, "memory write", 0, |command| {
            command.check_writable()?;
            let (vid, actual) = (command.vid(), command.loaded().actual);
            if command.state.tape(actual).has_no_room(partition, id, value) {
                return Err(TapeError::AttributesFull { vid, max: MEMORY_ATTRIBUTES_MAX });
            }
            command.apply(TapeEffect::Attribute(partition, id, value.to_vec()));
            Ok(())
        })
    }

    fn remaining(&mut self) -> Result<ByteCount, TapeError> {
        self.run(MountState::Idle, "position", 0, |command| {
            let actual = command.loaded().actual;
            let tape = command.state.tape(actual);
            Ok(ByteCount(tape.capacity.saturating_sub(tape.payload(Partition::Data))))
        })
    }

    fn end_of_wrap_positions(&mut self) -> Result<Option<Vec<BlockAddress>>, TapeError> {
        Ok(None)
    }

    fn recommended_order(
        &mut self,
        _segments: &[(BlockAddress, BlockAddress)],
    ) -> Result<Option<Vec<usize>>, TapeError> {
        Ok(None)
    }

    fn track(&mut self, _block_size: u32) -> Result<Option<Track>, TapeError> {
        Ok(None)
    }

    fn motion_report(&mut self) -> Option<MotionReport> {
        None
    }

    fn set_encryption(&mut self, encryption: Option<&library::TapeEncryption>) -> Result<(), TapeError> {
        if encryption.is_some() {
            return Err(TapeError::EncryptionUnsupported { drive: self.id().clone() });
        }
        Ok(())
    }

    fn block_encryption(&mut self) -> Result<library::BlockEncryption, TapeError> {
        Ok(library::BlockEncryption::Unknown)
    }

    fn alerts(&mut self) -> Result<Vec<TapeAlert>, TapeError> {
        Ok(Vec::new())
    }

    fn counters(&mut self) -> Result<library::DriveCounters, TapeError> {
        Ok(library::DriveCounters::default())
    }
}
