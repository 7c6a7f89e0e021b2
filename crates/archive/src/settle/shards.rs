//! Shards that stand on other drives than a restored catalogue says: they moved there after the point of the
//! restore, when drives were lost and replaced.

use std::collections::{BTreeMap, BTreeSet};

use base::planted::{Bug, is_planted};
use base::{BlobDescription, BlobId, ByteCount, DriveId};
use catalogue::Command;
use drive::{DriveError, ExtentId};

use super::Drives;
use crate::ArchiveError;
use crate::engine::Engine;

/// Blobs looked at between two reads of the catalogue.
const BLOBS_PAGE: usize = 4_096;
/// Extents of a drive looked at together.
const EXTENTS_PAGE: usize = 4_096;
/// Missing shards that are looked for in one pass over all drives.
const MISSING_MAX: usize = 1 << 20;

/// A shard that its drive does not have, and the drives that were found to have it.
type Missing = BTreeMap<ExtentId, Vec<DriveId>>;
/// Shards of one stripe, by number, and the drives that were found to have each.
type Shards = Vec<(u8, Vec<DriveId>)>;

/// Looks for each shard that is not where the catalogue says on all other drives, and records where it is.
/// Only then is what no drive has gone.
/// Gives how many drives could not be listed.
pub(super) fn find_moved(engine: &Engine, drives: &Drives) -> Result<usize, ArchiveError> {
    if is_planted(Bug::SettledByOldSets) {
        return Ok(0);
    }
    let mut unlisted = BTreeSet::new();
    let (mut after, mut missing, mut moved) = (None, Missing::new(), 0);
    loop {
        let page = engine.read(|view| {
            let blobs = view.blobs(after, BLOBS_PAGE)?;
            let last = blobs.last().map(|(id, _)| *id);
            let mut described = Vec::with_capacity(blobs.len());
            for (id, _) in blobs {
                described.extend(view.blob(id)?);
            }
            Ok((described, last))
        })?;
        let (blobs, last) = page;
        blobs.iter().for_each(|blob| enter_missing(blob, drives, &mut missing));
        if missing.len() >= MISSING_MAX || last.is_none() {
            moved += find(engine, drives, std::mem::take(&mut missing), &mut unlisted)?;
        }
        let Some(last) = last else { break };
        after = Some(last);
    }
    if moved > 0 {
        tracing::warn!(stripes = moved, "stripes stand on other drives than the restored catalogue knew");
    }
    Ok(unlisted.len())
}

fn enter_missing(blob: &BlobDescription, drives: &Drives, missing: &mut Missing) {
    for (set, stripe) in blob.stripes.iter().zip(0u32..) {
        for (drive, shard) in set.drives.iter().zip(0u8..) {
            let extent = ExtentId { blob: blob.id, stripe, shard };
            if is_missing(drives, *drive, extent) {
                missing.insert(extent, Vec::new());
            }
        }
    }
}

/// Whether a drive that answers does not have an extent, or there is no such drive any more.
fn is_missing(drives: &Drives, drive: DriveId, extent: ExtentId) -> bool {
    match drives.get(&drive) {
        Some(Some(drive)) => {
            matches!(drive.read_at(extent, ByteCount(0), &mut []), Err(DriveError::NotFound { .. }))
        }
        Some(None) => false,
        None => true,
    }
}

/// Looks through all drives for missing shards. Gives how many stripes have moved.
fn find(
    engine: &Engine,
    drives: &Drives,
    mut missing: Missing,
    unlisted: &mut BTreeSet<DriveId>,
) -> Result<u64, ArchiveError> {
    if missing.is_empty() {
        return Ok(0);
    }
    for (id, drive) in drives {
        let Some(drive) = drive else { continue };
        let mut after = None;
        loop {
            let extents = match drive.list(after, EXTENTS_PAGE) {
                Ok(extents) => extents,
                Err(error) => {
                    tracing::error!(drive = id.0, %error, "a drive of the pool cannot be listed");
                    unlisted.insert(*id);
                    break;
                }
            };
            let Some(last) = extents.last() else { break };
            after = Some(*last);
            for extent in &extents {
                if let Some(found) = missing.get_mut(extent) {
                    found.push(*id);
                }
            }
        }
    }
    let mut stripes: BTreeMap<(BlobId, u32), Shards> = BTreeMap::new();
    for (extent, found) in missing.into_iter().filter(|(_, found)| !found.is_empty()) {
        stripes.entry((extent.blob, extent.stripe)).or_default().push((extent.shard, found));
    }
    let mut moved = 0;
    for ((blob, stripe), shards) in stripes {
        moved += u64::from(record(engine, blob, stripe, &shards)?);
    }
    Ok(moved)
}

/// Records where the missing shards of a stripe were found. No drive gets two shards of one stripe.
fn record(
    engine: &Engine,
    blob: BlobId,
    stripe: u32,
    shards: &[(u8, Vec<DriveId>)],
) -> Result<bool, ArchiveError> {
    let described = engine.read(|view| view.blob(blob))?;
    let sets = described.map(|blob| blob.stripes).unwrap_or_default();
    let Some(old) = usize::try_from(stripe).ok().and_then(|at| sets.get(at)) else { return Ok(false) };
    let missing: Vec<usize> = shards.iter().map(|(shard, _)| usize::from(*shard)).collect();
    let mut drives = old.drives.clone();
    // Drives of shards that are where they should be; those of missing ones are free for others.
    let mut used: Vec<DriveId> =
        drives.iter().enumerate().filter(|(shard, _)| !missing.contains(shard)).map(|(_, id)| *id).collect();
    for (shard, found) in shards {
        let free = found.iter().find(|drive| !used.contains(drive));
        if let (Some(free), Some(place)) = (free, drives.get_mut(usize::from(*shard))) {
            *place = *free;
            used.push(*free);
        }
    }
    // Missing ones that were not found leave a drive that another shard was found on.
    let free: Vec<DriveId> = old.drives.iter().filter(|drive| !drives.contains(drive)).copied().collect();
    let mut free = free.into_iter();
    for at in missing {
        let is_double = drives.get(at).is_some_and(|drive| drives.iter().filter(|d| *d == drive).count() > 1);
        let was_found = drives.get(at) != old.drives.get(at);
        if is_double
            && !was_found
            && let (Some(place), Some(drive)) = (drives.get_mut(at), free.next())
        {
            *place = drive;
        }
    }
    let is_set = drives.iter().enumerate().all(|(at, drive)| !drives[..at].contains(drive));
    if !is_set || drives == old.drives {
        return Ok(false);
    }
    let to = engine.pool.set_of_drives(drives)?;
    engine.execute(Command::MoveStripe { blob, stripe, from: old.id, to })?;
    Ok(true)
}
