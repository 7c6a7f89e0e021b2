//! The catalogue's base on the mounted tape, before an index.

use base::{ByteCount, TapePoolId, Vid};
use catalogue::Command;
use library::TapeDrive;
use ltfs::catalogue_base::BasePart;
use ltfs::changes::ChangeNumber;
use ltfs::naming::base_path;
use mover::Volume;

use super::SessionError;
use crate::ArchiveError;
use crate::bases;
use crate::engine::{Engine, reserve};

/// A base that stands on the tape, and is to be recorded when an index names it.
pub(super) struct Written {
    change: u64,
    parts: u32,
    bytes: ByteCount,
}

impl Written {
    /// What records it.
    pub(super) fn command(&self, vid: Vid) -> Command {
        Command::BaseOnTape { vid, change: self.change, parts: self.parts, bytes: self.bytes }
    }
}

/// Writes a base if the tape pool is due for one, and the tape has room for it beside its indexes. What makes
/// that impossible is told and no error, unless it is the tape's.
pub(super) fn write(
    engine: &Engine,
    drive: &mut dyn TapeDrive,
    vid: Vid,
    tape_pool: TapePoolId,
    volume: &mut Volume,
) -> Result<Option<Written>, SessionError> {
    let settings = engine.settings.change_log;
    let log = engine.catalogue.log_size().map_err(ArchiveError::from)?;
    let is_due = engine.read(|view| {
        let newest = bases::newest_bases(view, None)?.get(&tape_pool).copied().unwrap_or(0);
        bases::is_due(view, log, settings, newest)
    })?;
    if !is_due {
        return Ok(None);
    }
    let Some(made) = engine.bases.waiting().take(engine).map_err(ArchiveError::from)? else {
        return Ok(None);
    };
    let room = drive.remaining()?.0.saturating_sub(2 * reserve(engine.tape(vid)?.capacity).0);
    if made.bytes.0 > room {
        tracing::info!(%vid, bytes = made.bytes.0, room, "the base of the catalogue goes to another tape");
        return Ok(None);
    }
    let parts = made.parts();
    for at in 0..parts {
        let path = base_path(ChangeNumber(made.change), at + 1, parts);
        if volume.tree().lookup(&path).is_some() {
            continue;
        }
        let bytes = match made.part(at) {
            Ok(bytes) if BasePart::parse(&bytes).is_ok() => bytes,
            Ok(_) => return Ok(not_written(vid, "its file was changed")),
            Err(error) => return Ok(not_written(vid, &error.to_string())),
        };
        volume.write_small_file(drive, path, &bytes, engine.now())?;
    }
    let written = Written { change: made.change, parts, bytes: made.bytes };
    tracing::info!(%vid, change = written.change, parts, "a base of the catalogue is written");
    Ok(Some(written))
}

fn not_written(vid: Vid, error: &str) -> Option<Written> {
    tracing::error!(%vid, error, "the base of the catalogue is not written: it cannot be read back");
    None
}

/// Forgets the bases that the catalogue has on a tape and its index does not name: an older index took the
/// place of one that was damaged.
pub(super) fn forget_missing(engine: &Engine, vid: Vid, volume: &Volume) -> Result<(), ArchiveError> {
    for (change, base) in engine.read(|view| view.bases(vid))? {
        let is_named = |part| {
            let path = base_path(ChangeNumber(change), part, base.parts);
            volume.tree().lookup(&path).is_some()
        };
        if !(1..=base.parts).all(is_named) {
            tracing::error!(%vid, change, "the index names no base of the catalogue as it was recorded");
            engine.execute(Command::BaseOnTape { vid, change, parts: 0, bytes: ByteCount(0) })?;
        }
    }
    Ok(())
}
