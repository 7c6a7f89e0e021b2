//! Blobs that were written anew after the point of a restore: the catalogue knows their extents by the id of
//! before, and these were removed since. The new ones have ids of their own kind, and their cells say whose
//! they are.

use std::collections::{BTreeMap, BTreeSet};

use base::{BlobDescription, BlobId, DriveId, Layout, StripeCode, StripeSet};
use catalogue::Command;
use drive::ExtentId;
use pool::OrphanCandidate;

use crate::room::Settler;
use crate::shards::{named, places};
use ground::ArchiveError;

/// Extents listed together.
const EXTENTS_PAGE: usize = 4_096;
/// Headers that are read, of extents of one id, before it counts as nobody's.
const HEADERS_MAX: u8 = 3;

/// What came of it.
#[derive(Default)]
pub(crate) struct FoundAnew {
    /// Blobs that stand as what they were written anew.
    pub(crate) found: BTreeSet<BlobId>,
    /// Such that would, if drives that could not be listed held what lacks.
    pub(crate) doubtful: BTreeSet<BlobId>,
    /// These drives.
    pub(crate) unlisted: BTreeSet<DriveId>,
}

/// What was found of extents of one id that no record names.
#[derive(Default)]
struct Extents {
    /// Whose they are, and their code; `None`: not known yet.
    of: Option<(BlobId, StripeCode)>,
    headers: u8,
    /// The drives that have each shard, by stripe: one that moved may stand on two.
    places: BTreeMap<(u32, u8), Vec<DriveId>>,
}

/// Looks through all drives for blobs that have too few shards where the catalogue says, and records where
/// they stand as what they were written anew.
pub(crate) fn find(settler: &Settler<'_>, gone: &BTreeSet<BlobId>) -> Result<FoundAnew, ArchiveError> {
    let mut anew = FoundAnew::default();
    let Some(all) = list(settler, gone, &mut anew.unlisted)? else { return Ok(anew) };
    // Of what no listed drive has anything others hold enough only if they are as many.
    if anew.unlisted.len() >= settler.pool.config().data_min() {
        anew.doubtful.clone_from(gone);
    }
    // The newest first: a blob may have been written anew twice.
    for (id, extents) in all.into_iter().rev() {
        let Some((blob, code)) = extents.of.filter(|(blob, _)| !anew.found.contains(blob)) else { continue };
        let Some(record) = settler.read(|view| view.blob_record(blob))? else { continue };
        let Some((stripes, lacks)) = stripes(settler, code, &extents.places)? else { continue };
        let layout = Layout::Striped { code };
        let to = BlobDescription { id: blob, stands_as: Some(id), layout, length: record.length, stripes };
        if !is_readable(settler, &to, &lacks, 0) {
            if is_readable(settler, &to, &lacks, anew.unlisted.len()) {
                anew.doubtful.insert(blob);
            }
            continue;
        }
        match settler.execute(Command::BlobRecoded { from: record.stands_as, to }) {
            Ok(()) => {
                anew.found.insert(blob);
                if !lacks.is_empty() {
                    settler.pool.needs_repair(blob);
                }
            }
            // It was given up meanwhile, or one of the drives was taken out.
            Err(ArchiveError::Rejected(rejection)) if !rejection.is_engine_failure() => {
                tracing::warn!(%blob, %rejection, "what a blob was written anew as is not taken over");
            }
            Err(error) => return Err(error),
        }
    }
    anew.doubtful.retain(|blob| !anew.found.contains(blob));
    if !anew.found.is_empty() {
        let blobs = anew.found.len();
        tracing::warn!(blobs, "blobs were written anew after the point of the restore: found");
    }
    Ok(anew)
}

/// The extents of the drives that no record names and that are of one of these blobs, by their id; `None` if
/// the server stops.
fn list(
    settler: &Settler<'_>,
    gone: &BTreeSet<BlobId>,
    unlisted: &mut BTreeSet<DriveId>,
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
            let Some(Ok(extents)) = listed else {
                unlisted.insert(drive);
                break;
            };
            let Some(last) = extents.last() else { break };
            after = Some(*last);
            let anew = |extent: &ExtentId| extent.blob.epoch() < epoch && pool::is_written_anew(extent.blob);
            for extent in unnamed(settler, extents.into_iter().filter(anew))? {
                note(settler, gone, all.entry(extent.blob).or_default(), OrphanCandidate { drive, extent });
            }
        }
    }
    all.retain(|_, extents| extents.of.is_some());
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

fn note(settler: &Settler<'_>, gone: &BTreeSet<BlobId>, extents: &mut Extents, candidate: OrphanCandidate) {
    let OrphanCandidate { drive, extent } = candidate;
    extents.places.entry((extent.stripe, extent.shard)).or_default().push(drive);
    if extents.of.is_none() && extents.headers < HEADERS_MAX {
        extents.headers += 1;
        let of = settler.pool.orphan_of(&candidate);
        extents.of = of.filter(|(blob, _)| gone.contains(blob));
    }
}

type Stripes = (Vec<StripeSet>, BTreeSet<(u32, u8)>);

/// A set for each stripe, and the shards that were found nowhere, which get drives that have no other of the
/// stripe. `None` if there are too few drives, or nothing was found.
fn stripes(
    settler: &Settler<'_>,
    code: StripeCode,
    found: &BTreeMap<(u32, u8), Vec<DriveId>>,
) -> Result<Option<Stripes>, ArchiveError> {
    let Some(((last, _), _)) = found.last_key_value() else { return Ok(None) };
    let removed: BTreeSet<DriveId> =
        settler.read(|view| view.pool_drives())?.into_iter().map(|(drive, _)| drive).collect();
    // Those that an operator empties or has taken out last.
    let (first, then): (Vec<DriveId>, Vec<DriveId>) =
        named(settler).into_iter().partition(|drive| !removed.contains(drive));
    let fillers: Vec<DriveId> = first.into_iter().chain(then).take(code.width()).collect();
    if fillers.len() < code.width() {
        return Ok(None);
    }
    let (mut stripes, mut lacks) = (Vec::new(), BTreeSet::new());
    for stripe in 0..=*last {
        let mut shards = Vec::new();
        for shard in (0..code.width()).map(|shard| u8::try_from(shard).unwrap_or(u8::MAX)) {
            let drives = found.get(&(stripe, shard)).cloned().unwrap_or_default();
            if drives.is_empty() {
                lacks.insert((stripe, shard));
            }
            shards.push((shard, drives));
        }
        stripes.push(settler.pool.set_of_drives(places(&fillers, &shards))?);
    }
    Ok(Some((stripes, lacks)))
}

/// Whether no stripe lacks more than it bears, as far as lengths and headers tell, if so many of those that
/// were not found were there.
fn is_readable(
    settler: &Settler<'_>,
    blob: &BlobDescription,
    lacks: &BTreeSet<(u32, u8)>,
    may_be_there: usize,
) -> bool {
    let Ok(lacking) = settler.pool.lacking(blob, &blob.drives()) else { return false };
    let mut gone: BTreeMap<u32, BTreeSet<usize>> = BTreeMap::new();
    let bad = lacking.bad.iter().map(|bad| (bad.stripe, bad.shard));
    for (stripe, shard) in bad.chain(lacks.iter().copied()) {
        gone.entry(stripe).or_default().insert(shard.into());
    }
    gone.values().all(|gone| {
        let gone: Vec<usize> = gone.iter().copied().skip(may_be_there).collect();
        pool::survives(blob.layout, &gone)
    })
}
