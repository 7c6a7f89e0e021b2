//! The catalogue's base on the mounted tape, behind an index: whatever becomes of it, the containers before
//! it are covered. It counts only when it was read back from the tape, whole.

use std::sync::Arc;

use backup::tape::read_bytes;
use backup::{BaseReader, MadeBase};
use base::planted::{Bug, is_planted};
use base::{BlockAddress, ByteCount, TapePoolId, Vid};
use catalogue::{Command, TapeState};
use library::{TapeDrive, TapeError};
use ltfs::Entry;
use ltfs::catalogue_base::BasePart;
use ltfs::changes::ChangeNumber;
use ltfs::naming::base_path;
use mover::{Volume, VolumeError};

use super::{MountedTape, SessionError};
use crate::bases_on_tapes::{Log, Standing};
use crate::room::{Tape, reserve};
use ground::ArchiveError;

impl MountedTape<'_> {
    /// Writes a base behind the newest index if the mounted tape is due for one, then an index that names it,
    /// reads it back and records it. Only on a tape to which more may be written. What makes that impossible
    /// is told and no error, unless it is the tape's.
    pub(super) fn write_base(&mut self) -> Result<(), SessionError> {
        let room = Arc::clone(self.room);
        let mounted = &mut *self.tape;
        let (vid, Some(run)) = (mounted.vid, mounted.run) else { return Ok(()) };
        if mounted.volume.is_changed() || room.stopping() {
            return Ok(());
        }
        let Some(made) = due(&room, self.drive.as_mut(), vid, run.tape_pool)? else { return Ok(()) };
        match write_parts(&room, self.drive.as_mut(), &mut mounted.volume, &made) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::error!(%vid, error, "the base of the catalogue is not written: its files are wrong");
                room.bases.waiting().discard(made.change);
                room.bases.tried(vid, false, room.steady());
                // What was written of it is behind the index, and the next one passes over it.
                mounted.volume.mark_changed();
                return self.write_index();
            }
            Err(SessionError::Volume(VolumeError::Tape(TapeError::EndOfMedium { .. }))) => {
                tracing::error!(%vid, "the tape ended within a base of the catalogue: another one gets it");
                room.bases.tried(vid, false, room.steady());
                return self.end_without_index(0);
            }
            Err(error) => {
                room.bases.tried(vid, false, room.steady());
                return Err(error);
            }
        }
        self.write_index()?;
        let mounted = &*self.tape;
        let (change, parts, bytes) = (made.change, made.parts(), made.bytes);
        let read = match is_planted(Bug::UnreadBase) {
            true => Ok(()),
            false => read_back(&room, self.drive.as_mut(), &mounted.volume, change, parts)?,
        };
        room.bases.tried(vid, read.is_ok(), room.steady());
        if let Err(reason) = read {
            tracing::error!(%vid, change, reason, "a base of the catalogue does not count: it was read back");
            room.bases.waiting().discard(change);
            return Ok(());
        }
        room.execute(Command::BaseOnTape { vid, change, parts, bytes })?;
        tracing::info!(%vid, change, parts, "a base of the catalogue is on tape, and was read back");
        room.sweep.ring();
        Ok(())
    }
}

/// The base that the tape is to get, if it is due for one and has room for it beside its indexes.
fn due(
    room: &Tape,
    drive: &mut dyn TapeDrive,
    vid: Vid,
    tape_pool: TapePoolId,
) -> Result<Option<Arc<MadeBase>>, SessionError> {
    let record = room.tape(vid)?;
    let keeps_history = room.maintenance().tapes.get(&vid).is_some_and(|tasks| tasks.keep_history);
    let may_be_written = record.state == TapeState::Active || keeps_history;
    if !may_be_written || !room.has_current_key(&record) || !room.bases.may_write(vid, room.steady()) {
        return Ok(None);
    }
    // Before that no base on an encrypted tape counts, and each pool seems to lack one.
    if !room.upkeep.has_asked_for_keys() {
        return Ok(None);
    }
    let settings = room.settings.change_log;
    let has_backup = room.backup_reach.may_count(room.steady());
    let size = room.catalogue.log_size().map_err(ArchiveError::from)?;
    let is_due = room.read(|view| {
        let (log, standing) = (Log::of(view, size)?, Standing::of(room, view, has_backup)?);
        Ok(standing.is_due(&log, settings, tape_pool, vid))
    })?;
    if !is_due {
        return Ok(None);
    }
    let Some(made) = room.bases.waiting().take(room).map_err(ArchiveError::from)? else {
        return Ok(None);
    };
    let left = drive.remaining()?.0.saturating_sub(2 * reserve(record.capacity).0);
    if made.bytes.0 > left {
        let bytes = made.bytes.0;
        tracing::info!(%vid, bytes, left, "the base of the catalogue goes to another tape");
        room.bases.tried(vid, false, room.steady());
        return Ok(None);
    }
    Ok(Some(made))
}

/// Writes the parts behind the newest index. The inner error: a part is not what was made.
fn write_parts(
    room: &Tape,
    drive: &mut dyn TapeDrive,
    volume: &mut Volume,
    made: &MadeBase,
) -> Result<Result<(), String>, SessionError> {
    let parts = made.parts();
    for at in 0..parts {
        let path = base_path(ChangeNumber(made.change), at + 1, parts);
        if volume.tree().lookup(&path).is_some() {
            continue;
        }
        let bytes = match made.part(at) {
            Ok(bytes) => bytes,
            Err(error) => return Ok(Err(error.to_string())),
        };
        if let Err(error) = BasePart::parse(&bytes) {
            return Ok(Err(error.to_string()));
        }
        volume.write_small_file(drive, path, &bytes, room.now())?;
    }
    Ok(Ok(()))
}

/// Reads a base as a rebuild does: all parts, what each row is, and what they add up to. The inner error says
/// what is wrong with it.
fn read_back(
    room: &Tape,
    drive: &mut dyn TapeDrive,
    volume: &Volume,
    change: u64,
    parts: u32,
) -> Result<Result<(), String>, SessionError> {
    let places = parts_on(volume, change, parts);
    if places.len() != parts as usize {
        return Ok(Err("the index does not name all of it".to_owned()));
    }
    let mut reader = BaseReader::new(room.instance, change, parts);
    for (block, length) in places {
        let bytes = match read_bytes(drive, block, length, volume.block_size()) {
            Ok(bytes) => bytes,
            Err(error @ (TapeError::Unreadable { .. } | TapeError::BufferTooSmall { .. })) => {
                return Ok(Err(error.to_string()));
            }
            Err(error) => return Err(error.into()),
        };
        let checked = reader.part(&bytes).and_then(|part| reader.check_rows(&part));
        if let Err(error) = checked {
            return Ok(Err(format!("block {block}: {error}")));
        }
    }
    Ok(reader.end().map_err(|error| error.to_string()))
}

/// Where the index has the parts of a base, in order: block and length. Fewer than there are if it lacks
/// some.
fn parts_on(volume: &Volume, change: u64, parts: u32) -> Vec<(BlockAddress, u64)> {
    let place = |part| {
        let Entry::File(file) = volume.tree().lookup(&base_path(ChangeNumber(change), part, parts))? else {
            return None;
        };
        Some((file.extents.first()?.start_block, file.length.0))
    };
    (1..=parts).map_while(place).collect()
}

/// The places of all bases that the catalogue has on a tape: the first block of a part, and which base and
/// part should stand there.
pub(super) fn recorded_parts(
    room: &Tape,
    vid: Vid,
    volume: &Volume,
) -> Result<Vec<(BlockAddress, u64, u32)>, ArchiveError> {
    let mut places = Vec::new();
    for (change, base) in room.read(|view| view.bases(vid))? {
        let of_base = parts_on(volume, change, base.parts);
        places.extend((1..).zip(of_base).map(|(part, (block, _))| (block, change, part)));
    }
    Ok(places)
}

/// A base is not to be counted on any more: the pool gets another one as soon as the log needs it.
pub(super) fn forget(room: &Tape, vid: Vid, change: u64) -> Result<(), ArchiveError> {
    room.execute(Command::BaseOnTape { vid, change, parts: 0, bytes: ByteCount(0) })?;
    // What stands on the tape under this name is of no use: another one has another name.
    if let Some(mut waiting) = room.bases.waiting_now() {
        waiting.discard(change);
    }
    room.sweep.ring();
    Ok(())
}

/// Forgets the bases that the catalogue has on a tape and its index does not name: an older index took the
/// place of one that was damaged.
pub(super) fn forget_missing(room: &Tape, vid: Vid, volume: &Volume) -> Result<(), ArchiveError> {
    for (change, base) in room.read(|view| view.bases(vid))? {
        if parts_on(volume, change, base.parts).len() != base.parts as usize {
            tracing::error!(%vid, change, "the index names no base of the catalogue as it was recorded");
            forget(room, vid, change)?;
        }
    }
    Ok(())
}
