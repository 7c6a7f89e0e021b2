//! The first start on a catalogue that was restored or rebuilt: pool and tapes are looked at before anything
//! is written to them.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{BlobDescription, BlobId, ByteCount, DriveId, Epoch, FileId, Layout, Vid};
use catalogue::{BATCH_FILES_MAX, Command, Outcome, PoolLoss, RunEnd, TapeRecord, TapeState};
use drive::{DriveError, ExtentId, ObjectDrive};
use library::DriveName;
use pool::OrphanCandidate;

use crate::engine::{Engine, truncated};
use crate::rebuild::{TapeSeen, is_known_there, look};
use crate::{ArchiveError, PoolDrive};

/// Files looked at between two reads of the catalogue.
const FILES_PAGE: usize = 4_096;
/// Extents looked at together.
const EXTENTS_PAGE: usize = 4_096;
/// Blobs whose state is remembered.
const BLOBS_KEPT: usize = 1 << 20;

/// The drives of the pool as they were opened.
pub(crate) type Drives = BTreeMap<DriveId, Option<Arc<dyn ObjectDrive>>>;

pub(crate) fn drives_of(drives: &[PoolDrive]) -> Drives {
    drives.iter().map(|(id, drive)| (*id, drive.clone())).collect()
}

/// Settles a restored catalogue with pool and tapes; does nothing with one that is settled.
pub(crate) fn settle(
    engine: &Engine,
    drives: &Drives,
    tape_drive: Option<&DriveName>,
) -> Result<(), ArchiveError> {
    if !engine.read(|view| view.is_restored())? {
        return Ok(());
    }
    tracing::warn!("the catalogue was restored: pool and tapes are looked at before anything is written");
    settle_pool(engine, drives)?;
    if let Some(tape_drive) = tape_drive {
        settle_tapes(engine, tape_drive)?;
    }
    engine.execute(Command::RestoreSettled)?;
    Ok(())
}

/// Files whose bytes the pool does not have any more, since they were removed after the point of the restore
/// or with their drives, become NEARLINE or LOST. A drive that is away may still have them.
fn settle_pool(engine: &Engine, drives: &Drives) -> Result<(), ArchiveError> {
    let mut known: BTreeMap<BlobId, bool> = BTreeMap::new();
    let mut after = None;
    let (mut nearline, mut lost) = (0u64, 0u64);
    loop {
        let page = engine.read(|view| view.files(after, FILES_PAGE))?;
        let Some((last, _)) = page.last() else { break };
        after = Some(*last);
        let mut gone: Vec<FileId> = Vec::new();
        for (file, record) in page {
            for piece in &record.pieces {
                if !has_blob(engine, drives, &mut known, piece.blob)? {
                    gone.push(file);
                    break;
                }
            }
        }
        for batch in gone.chunks(BATCH_FILES_MAX) {
            let outcome = engine.execute(Command::PoolCopyLost { files: batch.to_vec() })?;
            let Outcome::PoolCopyLost(losses) = outcome else { continue };
            nearline += losses.iter().filter(|loss| matches!(loss, PoolLoss::Nearline)).count() as u64;
            lost += losses.iter().filter(|loss| matches!(loss, PoolLoss::Lost)).count() as u64;
        }
    }
    tracing::warn!(nearline, lost, "files whose bytes the pool does not have");
    Ok(())
}

fn has_blob(
    engine: &Engine,
    drives: &Drives,
    known: &mut BTreeMap<BlobId, bool>,
    blob: BlobId,
) -> Result<bool, ArchiveError> {
    if let Some(there) = known.get(&blob) {
        return Ok(*there);
    }
    let there = match engine.read(|view| view.blob(blob))? {
        Some(description) => is_there(&description, drives),
        None => false,
    };
    if known.len() >= BLOBS_KEPT {
        known.clear();
    }
    known.insert(blob, there);
    Ok(there)
}

/// Whether enough shards of every stripe are there, or may be on drives that are away.
fn is_there(blob: &BlobDescription, drives: &Drives) -> bool {
    let needed = match blob.layout {
        Layout::Striped { data, .. } => usize::from(data),
        Layout::Segment { .. } => 1,
    };
    blob.stripes.iter().zip(0u32..).all(|(set, stripe)| {
        let may_be_there = set.drives.iter().zip(0u8..).filter(|(drive, shard)| {
            let extent = ExtentId { blob: blob.id, stripe, shard: *shard };
            match drives.get(drive) {
                Some(Some(drive)) => {
                    !matches!(drive.read_at(extent, ByteCount(0), &mut []), Err(DriveError::NotFound { .. }))
                }
                Some(None) => true,
                None => false,
            }
        });
        may_be_there.count() >= needed
    })
}

/// Visits the extents of epochs up to `until` whose blob the catalogue does not know at all. Shards that a
/// repair is just writing belong to known blobs and are not among them.
pub(crate) fn for_each_unknown(
    engine: &Engine,
    until: Epoch,
    mut visit: impl FnMut(&OrphanCandidate),
) -> Result<(), ArchiveError> {
    let mut cursor = None;
    loop {
        let page = engine.pool.list_orphan_candidates(cursor, EXTENTS_PAGE)?;
        let unknown = engine.read(|view| {
            let mut unknown = Vec::new();
            for candidate in page.candidates {
                let blob = candidate.extent.blob;
                let is_old = blob.epoch() <= until;
                if is_old && view.blob_record(blob)?.is_none() && !view.is_garbage(blob)? {
                    unknown.push(candidate);
                }
            }
            Ok(unknown)
        })?;
        unknown.iter().for_each(&mut visit);
        match page.next {
            Some(next) => cursor = Some(next),
            None => return Ok(()),
        }
    }
}

/// Tapes that hold what the restored catalogue does not know are not written any more.
fn settle_tapes(engine: &Engine, name: &DriveName) -> Result<(), ArchiveError> {
    let tapes = engine.read(|view| view.tapes())?;
    let written = tapes.into_iter().filter(|(_, tape)| tape.state == TapeState::Active || tape.run.is_some());
    for (vid, record) in written {
        let Some(reason) = why_not_to_write(engine, name, vid, &record)? else { continue };
        tracing::warn!(%vid, reason, "the tape is read only from now on");
        let reason = truncated(&reason, 512);
        match record.run {
            Some(run) => engine.execute(Command::EndRun {
                run,
                end: RunEnd::Torn,
                tape_state: TapeState::ReadOnly,
                reason,
                end_of_data: None,
                torn: ByteCount(0),
            })?,
            None => engine.execute(Command::SetTapeState { vid, state: TapeState::ReadOnly, reason })?,
        };
    }
    Ok(())
}

fn why_not_to_write(
    engine: &Engine,
    name: &DriveName,
    vid: Vid,
    record: &TapeRecord,
) -> Result<Option<String>, ArchiveError> {
    let mut handle = engine.library.take_drive(name)?;
    if let Err(error) = engine.library.mount(vid, name) {
        return Ok(Some(format!("it could not be looked at after the restore: {error}")));
    }
    let looked = look(handle.as_mut());
    if let Err(error) = engine.library.unmount(name) {
        return Ok(Some(format!("it could not be looked at after the restore: {error}")));
    }
    let seen = match looked {
        Ok(Ok(seen)) if Some(seen.uuid) == record.uuid => seen,
        Ok(Ok(seen)) => return Ok(Some(format!("it holds the volume {} since the restore", seen.uuid))),
        Ok(Err(found)) => return Ok(Some(format!("it holds {found}"))),
        Err(error) => return Ok(Some(format!("it could not be looked at after the restore: {error}"))),
    };
    let unknown = count_unknown(engine, &seen)?;
    if unknown > 0 {
        return Ok(Some(format!("it holds {unknown} containers that the restored catalogue does not know")));
    }
    if seen.end_of_data < record.end_of_data {
        let (end, expected) = (seen.end_of_data, record.end_of_data);
        return Ok(Some(format!("its end of data is block {end}, the catalogue says {expected}")));
    }
    // With an open run, what stands behind is that run's: the next step of the start looks at it.
    if record.run.is_none() && seen.end_of_data > record.end_of_data {
        let (end, known) = (seen.end_of_data, record.end_of_data);
        return Ok(Some(format!(
            "its end of data is block {end}, the restored catalogue knows {known} blocks"
        )));
    }
    Ok(None)
}

fn count_unknown(engine: &Engine, seen: &TapeSeen) -> Result<u64, ArchiveError> {
    let mut unknown = 0;
    for named in seen.containers() {
        let known = engine.read(|view| is_known_there(view, seen.vid, named.container, named.block))?;
        unknown += u64::from(!known);
    }
    Ok(unknown)
}
