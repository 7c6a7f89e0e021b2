//! The first start on a catalogue that was restored or rebuilt: pool and tapes are looked at before anything
//! is written to them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::planted::{Bug, is_planted};
use base::{BlobDescription, BlobPiece, BlockAddress, ByteCount, DriveId, FileId, Vid};
use catalogue::{BULK_FILES, Command, Outcome, PoolLoss, RunEnd, TapeRecord, TapeState};
use drive::ObjectDrive;
use library::{DriveName, TapeDrive};
use mover::Found;
use pool::{Depth, PieceState, PoolError};

use crate::engine::{Engine, truncated};
use crate::libraries::StartDrives;
use crate::rebuild::{LookError, TapeSeen, is_known_there, look};
use crate::session::write_again;
use crate::{ArchiveError, PoolDrive};

mod found;
mod shards;

use found::VolumeFound;
use shards::Shards;

/// Files looked at between two reads of the catalogue.
const FILES_PAGE: usize = 4_096;
/// So many files between two lines in the log.
const FILES_TOLD: usize = 1_000_000;

/// The drives of the pool as they were opened.
pub(crate) type Drives = BTreeMap<DriveId, Option<Arc<dyn ObjectDrive>>>;

pub(crate) fn drives_of(drives: &[PoolDrive]) -> Drives {
    drives.iter().map(|(id, drive)| (*id, drive.clone())).collect()
}

/// Settles a restored catalogue with pool and tapes; does nothing with one that is settled.
pub(crate) fn settle(
    engine: &Engine,
    drives: &Drives,
    tape_drives: &StartDrives,
) -> Result<(), ArchiveError> {
    if !engine.read(|view| view.is_restored())? {
        return Ok(());
    }
    tracing::warn!(
        "the catalogue was restored: pool and tapes are looked at before anything is written, and before the \
         server answers"
    );
    crate::multipart::give_up_restored(engine)?;
    let mut shards = Shards::find_moved(engine, drives)?;
    let mut looked = BTreeSet::new();
    let mut unseen = settle_tapes(engine, tape_drives, &mut looked)?;
    // Afterwards, so that a file that neither has is known to be lost.
    let lost = settle_pool(engine, &mut shards)?;
    if lost > 0 {
        unseen += look_everywhere(engine, tape_drives, &looked)?;
    }
    settle_containers(engine, &mut shards)?;
    let (unlisted, doubtful) = shards.unfound();
    if !unlisted.is_empty() {
        tracing::error!(
            ?unlisted,
            blobs = doubtful.len(),
            "drives of the pool are away since the restore, or cannot be listed, and may hold shards that \
             moved to them: nothing is decided about these, and nothing evicted, until a start has seen \
             the drives (kist pool drive replace, if they are gone for good)"
        );
        return Ok(());
    }
    if unseen > 0 {
        tracing::error!(
            unseen,
            "tapes could not be looked at since the restore: nothing is evicted until a start has seen them, \
             or they are disabled"
        );
        return Ok(());
    }
    engine.execute(Command::RestoreSettled)?;
    tracing::info!(
        "all tapes that count were looked at: what did not agree with the restored catalogue is told above"
    );
    Ok(())
}

/// Whether a tape holds, or may hold, what the catalogue counts on or does not know of.
fn is_concerned(tape: &TapeRecord) -> bool {
    matches!(tape.state, TapeState::Active | TapeState::Labelling)
        || tape.run.is_some()
        || tape.containers > 0
}

/// Files whose bytes the pool does not have any more, since they were removed after the point of the
/// restore or with their drives, become NEARLINE or LOST. A drive that is away may still have them. Gives
/// how many are LOST.
fn settle_pool(engine: &Engine, shards: &mut Shards<'_>) -> Result<u64, ArchiveError> {
    let mut after = None;
    let (mut nearline, mut lost) = (0u64, 0u64);
    let (mut looked, mut told) = (0usize, 0usize);
    loop {
        let page = engine.read(|view| view.files(after, FILES_PAGE))?;
        let Some((last, _)) = page.last() else { break };
        after = Some(*last);
        looked += page.len();
        if looked / FILES_TOLD > told {
            told = looked / FILES_TOLD;
            tracing::warn!(files = looked, nearline, lost, "files are being looked for in the pool");
        }
        let mut gone: Vec<FileId> = Vec::new();
        for (file, record) in page {
            for piece in &record.pieces {
                if !has_bytes(engine, shards, piece)? {
                    gone.push(file);
                    break;
                }
            }
        }
        for batch in gone.chunks(BULK_FILES) {
            let outcome = engine.execute(Command::PoolCopyLost { files: batch.to_vec() })?;
            let Outcome::PoolCopyLost(losses) = outcome else { continue };
            nearline += losses.iter().filter(|loss| matches!(loss, PoolLoss::Nearline)).count() as u64;
            lost += losses.iter().filter(|loss| matches!(loss, PoolLoss::Lost)).count() as u64;
        }
    }
    tracing::warn!(nearline, lost, "files whose bytes the pool does not have");
    Ok(lost)
}

/// Whether the pool has the bytes of a piece, or drives that do not answer may have them. Looks at the bytes:
/// a value may be gone from a segment whose extents are all there. What the drives of the catalogue do not
/// give is looked for on all others.
fn has_bytes(engine: &Engine, shards: &mut Shards<'_>, piece: &BlobPiece) -> Result<bool, ArchiveError> {
    let Some(blob) = engine.read(|view| view.blob(piece.blob))? else { return Ok(false) };
    if is_planted(Bug::BelievedExtent) || shards.is_doubtful(piece.blob) {
        return Ok(true);
    }
    // Also if enough is there: of what counts as whole here, reads and the scrubber may find damaged more.
    if shards.is_whole(&blob)? && !is_gone(engine, &blob, piece)? {
        return Ok(true);
    }
    let blob = shards.find_whole(&blob, piece)?.unwrap_or(blob);
    Ok(!is_gone(engine, &blob, piece)? || shards.is_doubtful(piece.blob))
}

/// Whether no drive that the blob's description names has the piece, whatever drives come back.
fn is_gone(engine: &Engine, blob: &BlobDescription, piece: &BlobPiece) -> Result<bool, ArchiveError> {
    match engine.pool.verify_piece(blob, piece, Depth::Headers) {
        Ok(state) => Ok(state == PieceState::Gone),
        // Nothing is known: whoever reads it finds out.
        Err(PoolError::Shortage { .. } | PoolError::ArenaTooSmall { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// What the pool keeps for containers, and does not have any more: an image is dropped; a pack without its
/// skeleton is read from a tape again, if one has it, and else dissolved.
fn settle_containers(engine: &Engine, shards: &mut Shards<'_>) -> Result<(), ArchiveError> {
    let mut after = None;
    loop {
        let (pieces, last) = engine.read(|view| view.container_pieces(after, FILES_PAGE))?;
        for (container, piece) in pieces {
            if has_bytes(engine, shards, &piece)? {
                continue;
            }
            let Some(record) = engine.read(|view| view.container(container))? else { continue };
            if record.image == Some(piece) {
                engine.execute(Command::DropImage { container })?;
                // If it cannot be had otherwise either, whoever is to write it finds out.
            } else if record.image.is_none()
                && !engine.want_bytes(container, |_| {})?
                && !engine.dissolve_if_stuck(container, false)?
            {
                tracing::error!(%container, "neither the pool nor a tape can give this pack now");
            }
        }
        match last {
            Some(last) => after = Some(last),
            None => return Ok(()),
        }
    }
}

/// What a look at a tape has found.
enum Seen {
    /// What the catalogue expects.
    Good,
    /// The volume, and something speaks against writing to it.
    Aside(String),
    /// Another volume, or none: nothing that the catalogue expects is there.
    Gone(String),
    /// Nothing is known.
    Unseen(String),
}

/// Tapes that hold what the restored catalogue does not know are not written any more, and from those that
/// were used again since nothing is expected; what they hold of the catalogue's files is taken over. Gives
/// how many could not be looked at; those that were are put into `looked`.
fn settle_tapes(
    engine: &Engine,
    drives: &StartDrives,
    looked: &mut BTreeSet<Vid>,
) -> Result<usize, ArchiveError> {
    let mut tapes = engine.read(|view| view.tapes())?;
    tapes.retain(|(_, tape)| is_concerned(tape));
    let (mut unseen, of) = (0, tapes.len());
    let mut volumes: Vec<VolumeFound> = Vec::new();
    for ((vid, record), number) in tapes.into_iter().zip(1..) {
        let Some(name) = drives.of_tape(vid) else {
            unseen += 1;
            continue;
        };
        tracing::warn!(%vid, number, of, "a tape is mounted and looked at; the server answers afterwards");
        let is_written = record.state == TapeState::Active || record.run.is_some();
        let Look { seen, found } = look_at(engine, name, vid, &record)?;
        let is_needed = found.as_ref().is_some_and(VolumeFound::is_needed);
        // Who disabled it knows that it is away, or not to be read.
        let counts = record.state != TapeState::Disabled;
        unseen += usize::from(counts && found.as_ref().is_some_and(VolumeFound::is_unread));
        volumes.extend(found);
        if !matches!(seen, Seen::Unseen(_)) && (is_written || matches!(seen, Seen::Gone(_))) {
            looked.insert(vid);
        }
        match seen {
            Seen::Good => {}
            Seen::Aside(reason) if record.state == TapeState::Labelling => {
                set_state(engine, vid, TapeState::Disabled, &reason)?;
            }
            Seen::Aside(reason) => set_aside(engine, vid, &record, &reason)?,
            Seen::Gone(reason) => {
                set_aside(engine, vid, &record, &reason)?;
                drop_places(engine, vid, &reason)?;
                // What it holds now is read; else nobody needs it.
                if !is_needed {
                    set_state(engine, vid, TapeState::Disabled, &reason)?;
                }
            }
            Seen::Unseen(reason) => {
                let reason = format!("it could not be looked at after the restore: {reason}");
                tracing::warn!(%vid, reason, "a tape was not seen");
                if is_written {
                    set_aside(engine, vid, &record, &reason)?;
                }
                unseen += usize::from(counts && record.containers > 0);
            }
        }
    }
    found::take_over(engine, volumes)?;
    Ok(unseen)
}

/// Files are lost that the catalogue knew: any other tape may have been written since, scratch ones too.
/// Gives how many hold what could not be read now.
fn look_everywhere(
    engine: &Engine,
    drives: &StartDrives,
    looked: &BTreeSet<Vid>,
) -> Result<usize, ArchiveError> {
    let mut unread = 0;
    let mut tapes = engine.read(|view| view.tapes())?;
    tapes.retain(|(vid, tape)| !looked.contains(vid) && tape.run.is_none());
    let of = tapes.len();
    for ((vid, record), number) in tapes.into_iter().zip(1..) {
        let Some(name) = drives.of_tape(vid) else { continue };
        tracing::warn!(%vid, number, of, "files are lost: they are looked for on a tape");
        let look = with_mounted(engine, name, vid, |engine, drive| gather_from(engine, drive, vid))?;
        // Who disabled it knows that it is away, or not to be read.
        let counts = record.state != TapeState::Disabled;
        unread += usize::from(counts && matches!(look.seen, Seen::Unseen(_)));
        let Some(found) = look.found else { continue };
        unread += usize::from(counts && found.is_unread());
        let (of_catalogue, here) = (engine.tape(vid)?.uuid, found.uuid());
        if of_catalogue.is_some_and(|uuid| uuid != here) {
            drop_places(engine, vid, &format!("the tape holds volume {here} since the restore"))?;
        }
        found::take_over(engine, vec![found])?;
    }
    Ok(unread)
}

/// What the volume in the drive holds of the catalogue's files, if it is one of this tape.
fn gather_from(engine: &Engine, drive: &mut dyn TapeDrive, vid: Vid) -> Result<Look, ArchiveError> {
    Ok(match look(drive) {
        Ok(Ok(volume)) if volume.vid == vid => {
            Look { seen: Seen::Good, found: found::gather(engine, drive, &volume)? }
        }
        Ok(_) | Err(LookError::NoIndex) => Seen::Good.into(),
        Err(error) => {
            tracing::warn!(%vid, %error, "what a tape holds is not known");
            Seen::Unseen(error.to_string()).into()
        }
    })
}

fn set_state(engine: &Engine, vid: Vid, state: TapeState, reason: &str) -> Result<(), ArchiveError> {
    tracing::warn!(%vid, reason, ?state, "a tape is set aside");
    engine.execute(Command::SetTapeState { vid, state, reason: truncated(reason, 512) })?;
    Ok(())
}

/// The tape is read only from now on. A tape that is not written already stays as it is.
fn set_aside(engine: &Engine, vid: Vid, record: &TapeRecord, reason: &str) -> Result<(), ArchiveError> {
    match record.run {
        Some(run) => {
            tracing::warn!(%vid, reason, "the tape is read only from now on");
            engine.execute(Command::EndRun {
                run,
                end: RunEnd::Torn,
                tape_state: TapeState::ReadOnly,
                reason: truncated(reason, 512),
                end_of_data: None,
                torn: ByteCount(0),
            })?;
        }
        None if record.state == TapeState::Active => set_state(engine, vid, TapeState::ReadOnly, reason)?,
        None => return Ok(()),
    }
    write_again(engine, vid, reason)
}

/// Nothing is expected on a tape any more: what stood there is written again from what the pool has.
fn drop_places(engine: &Engine, vid: Vid, reason: &str) -> Result<(), ArchiveError> {
    let mut from = BlockAddress(0);
    loop {
        let content = engine.read(|view| view.content(vid, from, FILES_PAGE))?;
        let Some((last, _)) = content.last() else { return Ok(()) };
        from = BlockAddress(last.0 + 1);
        for (block, container) in content {
            let reason = truncated(reason, 512);
            engine.execute(Command::CopyDamaged { container, vid, block, reason })?;
        }
    }
}

/// What a look at a tape has found, and what of it the catalogue lacks.
struct Look {
    seen: Seen,
    found: Option<VolumeFound>,
}

impl From<Seen> for Look {
    fn from(seen: Seen) -> Self {
        Look { seen, found: None }
    }
}

fn look_at(engine: &Engine, name: &DriveName, vid: Vid, record: &TapeRecord) -> Result<Look, ArchiveError> {
    with_mounted(engine, name, vid, |engine, drive| look_at_mounted(engine, drive, vid, record))
}

fn with_mounted(
    engine: &Engine,
    name: &DriveName,
    vid: Vid,
    look: impl FnOnce(&Engine, &mut dyn TapeDrive) -> Result<Look, ArchiveError>,
) -> Result<Look, ArchiveError> {
    let mut handle = engine.library.take_drive(name)?;
    if let Err(error) = engine.library.mount(vid, name) {
        return Ok(Seen::Unseen(error.to_string()).into());
    }
    let look = look(engine, handle.as_mut());
    match engine.library.unmount(name) {
        Ok(_) => look,
        Err(error) => Ok(Seen::Unseen(error.to_string()).into()),
    }
}

fn look_at_mounted(
    engine: &Engine,
    drive: &mut dyn TapeDrive,
    vid: Vid,
    record: &TapeRecord,
) -> Result<Look, ArchiveError> {
    let Some(uuid) = record.uuid else { return Ok(Seen::Good.into()) };
    if record.state == TapeState::Labelling {
        let seen = match mover::check_may_be_labelled(drive, vid, uuid, None) {
            Ok(()) => Seen::Good,
            Err(error @ mover::VolumeError::NotBlank { .. }) => Seen::Aside(error.to_string()),
            Err(error) => Seen::Unseen(error.to_string()),
        };
        return Ok(seen.into());
    }
    match mover::identify(drive) {
        Ok(Found::Volume { uuid: found, .. }) if found == uuid => {}
        Ok(found @ (Found::Volume { .. } | Found::Blank)) => {
            let seen = Seen::Gone(format!("it holds {found} since the restore, not volume {uuid}"));
            let now = gather_from(engine, drive, vid)?;
            // What it holds now may be needed: it is looked at again.
            return Ok(if matches!(now.seen, Seen::Unseen(_)) { now } else { Look { seen, ..now } });
        }
        Ok(found) => return Ok(Seen::Unseen(format!("it holds {found}")).into()),
        Err(error) => return Ok(Seen::Unseen(error.to_string()).into()),
    }
    if record.state != TapeState::Active && record.run.is_none() {
        return Ok(Seen::Good.into());
    }
    match look(drive) {
        Ok(Ok(volume)) => {
            let found = found::gather(engine, drive, &volume)?;
            Ok(Look { seen: why_not_to_write(engine, &volume, record)?, found })
        }
        // It is the volume: what is wrong with it is for those who read it to find.
        Ok(Err(found)) => Ok(Seen::Aside(format!("it holds {found}")).into()),
        Err(error) => Ok(Seen::Aside(format!("it could not be looked at after the restore: {error}")).into()),
    }
}

fn why_not_to_write(engine: &Engine, seen: &TapeSeen, record: &TapeRecord) -> Result<Seen, ArchiveError> {
    let unknown = count_unknown(engine, seen)?;
    if unknown > 0 {
        let reason = format!("it holds {unknown} containers that the restored catalogue does not know");
        return Ok(Seen::Aside(reason));
    }
    let (end, known) = (seen.end_of_data, record.end_of_data);
    if end < known {
        return Ok(Seen::Aside(format!("its end of data is block {end}, the catalogue says {known}")));
    }
    // With an open run, what stands behind is that run's: the next step of the start looks at it.
    if record.run.is_none() && end > known {
        let reason = format!("its end of data is block {end}, the restored catalogue knows {known} blocks");
        return Ok(Seen::Aside(reason));
    }
    Ok(Seen::Good)
}

fn count_unknown(engine: &Engine, seen: &TapeSeen) -> Result<u64, ArchiveError> {
    let mut unknown = 0;
    for named in seen.containers() {
        let known = engine.read(|view| is_known_there(view, seen.vid, named.container, named.block))?;
        unknown += u64::from(!known);
    }
    Ok(unknown)
}
