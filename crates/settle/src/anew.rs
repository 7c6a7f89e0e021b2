//! Blobs that were written anew after the point of a restore: the catalogue knows their extents by the id of
//! before, and these were removed since. The cells of the new ones say whose they are.

use std::collections::{BTreeMap, BTreeSet};

use base::{BlobDescription, BlobId, DriveId, Layout, StripeCode, StripeSet};
use catalogue::Command;
use drive::ExtentId;
use pool::OrphanCandidate;

use crate::room::Settler;
use crate::shards::named;
use ground::ArchiveError;

/// Extents listed together.
const EXTENTS_PAGE: usize = 4_096;
/// Headers that are read, of extents of one id, before it counts as nobody's.
const HEADERS_MAX: u8 = 3;

/// What was found of extents of one id that no record names.
struct Extents {
    /// Whose they are, and their code; `None`: not known yet.
    of: Option<(BlobId, StripeCode)>,
    headers: u8,
    /// The drives of its shards, by stripe.
    places: BTreeMap<(u32, u8), DriveId>,
}

/// Looks through all drives for blobs that have too few shards where the catalogue says, and records where
/// they stand as what they were written anew. Gives those that were found.
pub(crate) fn find(settler: &Settler<'_>, gone: &BTreeSet<BlobId>) -> Result<BTreeSet<BlobId>, ArchiveError> {
    let mut found = BTreeSet::new();
    let Some(all) = list(settler, gone)? else { return Ok(found) };
    // The newest first: a blob may have been written anew twice.
    for (id, extents) in all.into_iter().rev() {
        let Some((blob, code)) = extents.of.filter(|(blob, _)| !found.contains(blob)) else { continue };
        let Some(record) = settler.read(|view| view.blob_record(blob))? else { continue };
        let stands_as = Some(id);
        let Some(stripes) = stripes(settler, code, &extents.places)? else { continue };
        let layout = Layout::Striped { code };
        let to = BlobDescription { id: blob, stands_as, layout, length: record.length, stripes };
        if is_readable(settler, &to) {
            settler.execute(Command::BlobRecoded { from: record.stands_as, to })?;
            found.insert(blob);
        }
    }
    if !found.is_empty() {
        tracing::warn!(blobs = found.len(), "blobs were written anew after the point of the restore: found");
    }
    Ok(found)
}

/// The extents of the drives that no record names and that are of one of these blobs, by their id; `None` if
/// the server stops.
fn list(
    settler: &Settler<'_>,
    gone: &BTreeSet<BlobId>,
) -> Result<Option<BTreeMap<BlobId, Extents>>, ArchiveError> {
    let epoch = settler.pool.epoch();
    let mut all: BTreeMap<BlobId, Extents> = BTreeMap::new();
    for drive in named(settler) {
        let mut after = None;
        loop {
            if settler.stopping() {
                return Ok(None);
            }
            let listed = settler.pool.ask_drive(drive, move |drive| drive.list(after, EXTENTS_PAGE));
            // What others hold may suffice.
            let Some(Ok(extents)) = listed else { break };
            let Some(last) = extents.last() else { break };
            after = Some(*last);
            let old = extents.into_iter().filter(|extent| extent.blob.epoch() < epoch);
            for extent in unnamed(settler, old)? {
                note(settler, &mut all, OrphanCandidate { drive, extent });
            }
        }
    }
    all.retain(|_, extents| extents.of.is_some_and(|(blob, _)| gone.contains(&blob)));
    Ok(Some(all))
}

fn unnamed(
    settler: &Settler<'_>,
    extents: impl Iterator<Item = ExtentId>,
) -> Result<Vec<ExtentId>, ArchiveError> {
    settler.read(|view| {
        let mut unnamed = Vec::new();
        for extent in extents {
            if view.blob_of_extents(extent.blob)?.is_none() {
                unnamed.push(extent);
            }
        }
        Ok(unnamed)
    })
}

fn note(settler: &Settler<'_>, all: &mut BTreeMap<BlobId, Extents>, candidate: OrphanCandidate) {
    let OrphanCandidate { drive, extent } = candidate;
    let extents = all.entry(extent.blob).or_insert(Extents { of: None, headers: 0, places: BTreeMap::new() });
    extents.places.insert((extent.stripe, extent.shard), drive);
    if extents.of.is_none() && extents.headers < HEADERS_MAX {
        extents.headers += 1;
        extents.of = settler.pool.orphan_of(&candidate);
    }
}

/// A set for each stripe; a shard that was not found gets a drive that has no other of the stripe. `None` if
/// there are too few drives, or a stripe of which nothing was found.
fn stripes(
    settler: &Settler<'_>,
    code: StripeCode,
    places: &BTreeMap<(u32, u8), DriveId>,
) -> Result<Option<Vec<StripeSet>>, ArchiveError> {
    let Some(((last, _), _)) = places.last_key_value() else { return Ok(None) };
    let all = named(settler);
    let mut stripes = Vec::new();
    for stripe in 0..=*last {
        let place = |shard: usize| places.get(&(stripe, u8::try_from(shard).ok()?)).copied();
        let mut drives: Vec<Option<DriveId>> = (0..code.width()).map(place).collect();
        let used: BTreeSet<DriveId> = drives.iter().flatten().copied().collect();
        let mut free = all.difference(&used).copied();
        for drive in drives.iter_mut().filter(|drive| drive.is_none()) {
            *drive = free.next();
        }
        let drives: Vec<DriveId> = drives.into_iter().flatten().collect();
        let distinct: BTreeSet<&DriveId> = drives.iter().collect();
        if drives.len() != code.width() || distinct.len() != drives.len() || used.is_empty() {
            return Ok(None);
        }
        stripes.push(settler.pool.set_of_drives(drives)?);
    }
    Ok(Some(stripes))
}

/// Whether no stripe lacks more than it bears, as far as lengths and headers tell.
fn is_readable(settler: &Settler<'_>, blob: &BlobDescription) -> bool {
    let drives = blob.stripes.iter().flat_map(|set| set.drives.iter().copied()).collect();
    let Ok(lacking) = settler.pool.lacking(blob, &drives) else { return false };
    let mut lacks: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for bad in &lacking.bad {
        lacks.entry(bad.stripe).or_default().push(bad.shard.into());
    }
    lacking.unknown == 0 && lacks.values().all(|gone| pool::survives(blob.layout, gone))
}
