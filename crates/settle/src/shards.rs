//! Shards that stand on other drives than a restored catalogue says: they moved there after the point of the
//! restore, when drives were lost and replaced.

use std::collections::{BTreeMap, BTreeSet};

use base::planted::{Bug, is_planted};
use base::{BlobDescription, BlobId, BlobPiece, ByteCount, DriveId, Layout};
use catalogue::Command;
use drive::{DriveError, ExtentId};

use crate::anew;
use crate::room::Settler;
use ground::ArchiveError;

/// Extents listed together.
const EXTENTS_PAGE: usize = 4_096;
/// Extents that a drive is asked for together: a slow disk looks up a few dozen in a second.
const ASKED_TOGETHER: usize = 64;
/// Blobs looked at between two reads of the catalogue.
const BLOBS_PAGE: usize = 4_096;
/// Missing shards that are looked for in one pass over all drives.
const MISSING_MAX: usize = 1 << 20;

/// A shard that its drive does not have, and the drives that were found to have it.
type Missing = BTreeMap<ExtentId, Vec<DriveId>>;
/// Missing shards of one stripe, by number, and the drives that were found to have each.
type ShardsOfStripe = Vec<(u8, Vec<DriveId>)>;
/// Blobs of which the extents beside their places are remembered.
const BESIDE_BLOBS_MAX: usize = 1_000;
/// Blobs that are remembered to be whole: several files may share one.
const WHOLE_BLOBS_MAX: usize = 100_000;

/// Where the shards of the pool stand after a restore, and of what nothing can be said.
pub(crate) struct Shards<'e> {
    settler: &'e Settler<'e>,
    /// Drives that are away or cannot be listed, and may hold what decides whether a blob is whole.
    unlisted: BTreeSet<DriveId>,
    /// These blobs: nothing is known of them until the drives were seen.
    doubtful: BTreeSet<BlobId>,
    /// Drives that have an extent of this name beside the one that the catalogue names, of blobs looked at
    /// last.
    beside: BTreeMap<BlobId, Missing>,
    /// Blobs of which all shards were there when they were looked at.
    whole: BTreeSet<BlobId>,
    /// Striped blobs that lack more than they bear, wherever it was looked.
    gone: BTreeSet<BlobId>,
}

impl<'e> Shards<'e> {
    /// Looks for each shard that is not where the catalogue says on all other drives, and records where it
    /// is. Only then is what no drive has gone.
    pub(crate) fn find_moved(settler: &'e Settler<'e>) -> Result<Self, ArchiveError> {
        let (unlisted, doubtful) = (BTreeSet::new(), BTreeSet::new());
        let (beside, whole, gone) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        let mut this = Shards { settler, unlisted, doubtful, beside, whole, gone };
        if is_planted(Bug::SettledByOldSets) {
            return Ok(this);
        }
        let (mut after, mut missing, mut moved) = (None, Missing::new(), 0);
        loop {
            let (blobs, last) = settler.read(|view| {
                let blobs = view.blobs(after, BLOBS_PAGE)?;
                let last = blobs.last().map(|(id, _)| *id);
                let mut described = Vec::with_capacity(blobs.len());
                // What this server writes stands where it says.
                let epoch = settler.pool.epoch();
                for (id, _) in blobs.into_iter().filter(|(id, _)| id.epoch() < epoch) {
                    described.extend(view.blob(id)?);
                }
                Ok((described, last))
            })?;
            enter_missing(settler, &blobs, &mut missing);
            if missing.len() >= MISSING_MAX || last.is_none() {
                moved += this.find(std::mem::take(&mut missing))?;
            }
            let Some(last) = last.filter(|_| !settler.stopping()) else { break };
            after = Some(last);
        }
        if !this.gone.is_empty() {
            let anew = anew::find(settler, &this.gone)?;
            this.doubtful.retain(|blob| !anew.found.contains(blob));
            if !anew.doubtful.is_empty() {
                this.doubtful.extend(anew.doubtful);
                this.unlisted.extend(anew.unlisted);
            }
        }
        if moved > 0 {
            tracing::warn!(stripes = moved, "stripes stand on other drives than the restored catalogue knew");
        }
        Ok(this)
    }

    /// Whether nothing is known of a blob until other drives were seen.
    pub(crate) fn is_doubtful(&self, blob: BlobId) -> bool {
        self.doubtful.contains(&blob)
    }

    /// Drives that must be seen, and the blobs on which they decide.
    pub(crate) fn unfound(self) -> (BTreeSet<DriveId>, BTreeSet<BlobId>) {
        (self.unlisted, self.doubtful)
    }

    /// Whether each drive that the catalogue names has its shards of a blob, as far as lengths and headers
    /// tell.
    pub(crate) fn is_whole(&mut self, blob: &BlobDescription) -> Result<bool, ArchiveError> {
        if self.whole.contains(&blob.id) {
            return Ok(true);
        }
        if !self.settler.pool.lacking(blob, &blob.drives())?.bad.is_empty() {
            return Ok(false);
        }
        if self.whole.len() >= WHOLE_BLOBS_MAX {
            self.whole.clear();
        }
        self.whole.insert(blob.id);
        Ok(true)
    }

    /// Looks on all drives for whole shards of a blob in the place of those that are there, but damaged or
    /// cut off, and records where they are: a drive that was away while its shards were rebuilt elsewhere may
    /// have come back with damaged ones. Gives the blob as it stands then, if anything was found.
    pub(crate) fn find_whole(
        &mut self,
        blob: &BlobDescription,
        piece: &BlobPiece,
    ) -> Result<Option<BlobDescription>, ArchiveError> {
        if is_planted(Bug::SettledByOldSets) {
            return Ok(None);
        }
        let settler = self.settler;
        let mut has_moved = false;
        for (set, stripe) in blob.stripes.iter().zip(0u32..) {
            let mut not_whole: ShardsOfStripe = Vec::new();
            for (own, shard) in set.drives.iter().zip(0u8..) {
                let stands_on = |drive| settler.pool.stands_on(blob, piece, (stripe, shard), drive);
                if stands_on(*own)? {
                    continue;
                }
                let mut found = Vec::new();
                for drive in self.beside(blob, ExtentId { blob: blob.extents(), stripe, shard }, *own) {
                    if stands_on(drive)? {
                        found.push(drive);
                    }
                }
                not_whole.push((shard, found));
            }
            if not_whole.iter().any(|(_, found)| !found.is_empty()) {
                has_moved |= record(settler, blob.id, stripe, &not_whole)?;
            }
            // Also those that were set aside while they were asked.
            let away = &settler.pool.silent_drives() & &named(settler);
            // A value that is gone from all copies of its segment was removed from them.
            let is_striped = matches!(blob.layout, Layout::Striped { .. });
            if is_striped && is_doubtful(settler, blob.id, stripe, &not_whole, &away)? {
                self.doubtful.insert(blob.id);
                self.unlisted.extend(&away);
            }
        }
        if has_moved { Ok(settler.read(|view| view.blob(blob.id))?) } else { Ok(None) }
    }

    /// The drives that have an extent of this name, but for the one that the catalogue names.
    fn beside(&mut self, blob: &BlobDescription, extent: ExtentId, own: DriveId) -> Vec<DriveId> {
        if self.beside.len() >= BESIDE_BLOBS_MAX && !self.beside.contains_key(&blob.id) {
            self.beside.clear();
        }
        let known = self.beside.entry(blob.id).or_default();
        let pool = &self.settler.pool;
        let has = |id: &DriveId| pool.ask_drive(*id, move |drive| drive.length(extent).is_ok()) == Some(true);
        let all = || pool.drive_health().into_iter().map(|(id, _)| id);
        let drives = known.entry(extent).or_insert_with(|| all().filter(has).collect());
        drives.iter().copied().filter(|drive| *drive != own).collect()
    }

    /// Looks through all drives for missing shards. Gives how many stripes have moved.
    fn find(&mut self, mut missing: Missing) -> Result<u64, ArchiveError> {
        if missing.is_empty() {
            return Ok(0);
        }
        let Some(unlisted) = list_missing(self.settler, &mut missing) else { return Ok(0) };
        let mut stripes: BTreeMap<(BlobId, u32), ShardsOfStripe> = BTreeMap::new();
        for (extent, found) in missing {
            // By the id that the catalogue has for the blob.
            let blob = self.settler.read(|view| view.blob_named(extent.blob))?;
            stripes.entry((blob, extent.stripe)).or_default().push((extent.shard, found));
        }
        for ((blob, _), shards) in &stripes {
            let not_found = shards.iter().filter(|(_, found)| found.is_empty()).count();
            let layout = self.settler.read(|view| view.blob_record(*blob))?.map(|record| record.layout);
            if layout.is_some_and(|it| matches!(it, Layout::Striped { .. }) && not_found > it.bears()) {
                self.gone.insert(*blob);
            }
        }
        for ((blob, stripe), shards) in &stripes {
            if is_doubtful(self.settler, *blob, *stripe, shards, &unlisted)? {
                self.doubtful.insert(*blob);
                self.unlisted.extend(&unlisted);
            }
        }
        stripes.retain(|_, shards| shards.iter().any(|(_, found)| !found.is_empty()));
        let mut moved = 0;
        for ((blob, stripe), shards) in stripes {
            moved += u64::from(record(self.settler, blob, stripe, &shards)?);
        }
        Ok(moved)
    }
}

/// Enters the extents of blobs that must be looked for: their drive does not have them, is away, or is no
/// drive any more. One that is away may have been replaced since the point, and what it held may stand
/// elsewhere.
fn enter_missing(settler: &Settler<'_>, blobs: &[BlobDescription], missing: &mut Missing) {
    let mut by_drive: BTreeMap<DriveId, Vec<ExtentId>> = BTreeMap::new();
    for blob in blobs {
        for (set, stripe) in blob.stripes.iter().zip(0u32..) {
            for (drive, shard) in set.drives.iter().zip(0u8..) {
                by_drive.entry(*drive).or_default().push(ExtentId { blob: blob.extents(), stripe, shard });
            }
        }
    }
    let asked =
        by_drive.iter().flat_map(|(drive, all)| all.chunks(ASKED_TOGETHER).map(|some| (*drive, some)));
    for (drive, extents) in asked.take_while(|_| !settler.stopping()) {
        let looked_for = extents.to_vec();
        let not_there = settler.pool.ask_drive(drive, move |drive| {
            let is_missing = |extent: &ExtentId| {
                let read = drive.read_at(*extent, ByteCount(0), &mut []);
                matches!(read, Err(DriveError::NotFound { .. }))
            };
            looked_for.into_iter().filter(is_missing).collect::<Vec<_>>()
        });
        let not_there = not_there.unwrap_or_else(|| extents.to_vec());
        missing.extend(not_there.into_iter().map(|extent| (extent, Vec::new())));
    }
}

/// The drives that the settings name.
pub(crate) fn named(settler: &Settler<'_>) -> BTreeSet<DriveId> {
    settler.pool_drives.all().iter().map(|drive| DriveId(drive.id)).collect()
}

/// Enters which drives have which missing shards. Gives the drives that could not be listed; `None` if the
/// server stops: half a list decides nothing.
fn list_missing(settler: &Settler<'_>, missing: &mut Missing) -> Option<BTreeSet<DriveId>> {
    let mut unlisted: BTreeSet<DriveId> = BTreeSet::new();
    // One that the settings do not name any more comes not back by waiting for it.
    for id in named(settler) {
        let mut after = None;
        loop {
            if settler.stopping() {
                return None;
            }
            let extents = match settler.pool.ask_drive(id, move |drive| drive.list(after, EXTENTS_PAGE)) {
                Some(Ok(extents)) => extents,
                Some(Err(error)) => {
                    tracing::error!(drive = id.0, %error, "a drive of the pool cannot be listed");
                    unlisted.insert(id);
                    break;
                }
                // It is away, or does not answer.
                None => {
                    unlisted.insert(id);
                    break;
                }
            };
            let Some(last) = extents.last() else { break };
            after = Some(*last);
            for extent in &extents {
                if let Some(found) = missing.get_mut(extent) {
                    found.push(id);
                }
            }
        }
    }
    Some(unlisted)
}

/// Whether a stripe lacks more than it bears, and would not if drives that could not be listed held what is
/// missing.
fn is_doubtful(
    settler: &Settler<'_>,
    blob: BlobId,
    stripe: u32,
    shards: &[(u8, Vec<DriveId>)],
    unlisted: &BTreeSet<DriveId>,
) -> Result<bool, ArchiveError> {
    let Some(described) = settler.read(|view| view.blob(blob))? else { return Ok(false) };
    let set = usize::try_from(stripe).ok().and_then(|at| described.stripes.get(at));
    let width = set.map_or(0, |set| set.drives.len());
    let not_found = shards.iter().filter(|(_, found)| found.is_empty()).count().min(width);
    // No drive holds two shards of a stripe.
    let may_be_there = unlisted.len().min(not_found);
    let bears = described.layout.bears();
    Ok(not_found > bears && not_found - may_be_there <= bears)
}

/// Records where the missing shards of a stripe were found. No drive gets two shards of one stripe.
fn record(
    settler: &Settler<'_>,
    blob: BlobId,
    stripe: u32,
    shards: &[(u8, Vec<DriveId>)],
) -> Result<bool, ArchiveError> {
    let described = settler.read(|view| view.blob(blob))?;
    let sets = described.map(|blob| blob.stripes).unwrap_or_default();
    let Some(old) = usize::try_from(stripe).ok().and_then(|at| sets.get(at)) else { return Ok(false) };
    let drives = places(&old.drives, shards);
    if drives == old.drives {
        return Ok(false);
    }
    let to = settler.pool.set_of_drives(drives)?;
    match settler.execute(Command::MoveStripe { blob, stripe, from: old.id, to }) {
        Ok(()) => Ok(true),
        // It was given up meanwhile, or moved by somebody else.
        Err(ArchiveError::Rejected(rejection)) if !rejection.is_engine_failure() => Ok(false),
        Err(error) => Err(error),
    }
}

/// The drives of a stripe with its missing shards where they were found. One that was found nowhere leaves
/// its drive to another that was, and gets one that is free: no drive stands in a set twice.
pub(crate) fn places(old: &[DriveId], missing: &[(u8, Vec<DriveId>)]) -> Vec<DriveId> {
    let mut places: Vec<Option<DriveId>> = old.iter().copied().map(Some).collect();
    for (shard, _) in missing {
        places[usize::from(*shard)] = None;
    }
    for (shard, found) in missing {
        places[usize::from(*shard)] = found.iter().copied().find(|drive| !places.contains(&Some(*drive)));
    }
    for at in 0..places.len() {
        if places[at].is_none() {
            let own_first = old[at..].iter().chain(&old[..at]);
            places[at] = own_first.copied().find(|drive| !places.contains(&Some(*drive)));
        }
    }
    // As many drives as shards stood in the old set, so one was free for each.
    places.into_iter().zip(old).map(|(place, own)| place.unwrap_or(*own)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drives(ids: &[u16]) -> Vec<DriveId> {
        ids.iter().copied().map(DriveId).collect()
    }

    #[test]
    fn missing_shards_stand_where_they_were_found() {
        let old = drives(&[0, 1, 2, 3]);
        let missing = |shards: &[(u8, &[u16])]| -> ShardsOfStripe {
            shards.iter().map(|(shard, found)| (*shard, drives(found))).collect()
        };
        assert_eq!(places(&old, &missing(&[(0, &[5])])), drives(&[5, 1, 2, 3]));
        // What is there as it should be keeps its drive.
        assert_eq!(places(&old, &missing(&[(0, &[1, 6])])), drives(&[6, 1, 2, 3]));
        assert_eq!(places(&old, &missing(&[(0, &[1])])), old);
        // Two have changed places.
        assert_eq!(places(&old, &missing(&[(0, &[1]), (1, &[0])])), drives(&[1, 0, 2, 3]));
        // One that was found nowhere is in nobody's way.
        assert_eq!(places(&old, &missing(&[(0, &[3]), (3, &[])])), drives(&[3, 1, 2, 0]));
        assert_eq!(places(&old, &missing(&[(1, &[]), (2, &[1])])), drives(&[0, 2, 1, 3]));
    }
}
