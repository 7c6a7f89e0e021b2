//! A blob that is written anew on other drives or in another code, and stays the same blob to everybody who
//! refers to it: how that is begun, and told to the catalogue when all of it is written.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::planted::{Bug, is_planted};
use base::{BlobDescription, BlobId, ByteCount, DriveGroup, Duration};
use catalogue::Command;
use pool::{BlobRewrite, PoolError};

use crate::Upkeep;
use crate::left_behind::OldShards;
use crate::pool_rebuild::shards_on;
use crate::rebalance::REBUILD_FIRST;
use crate::scrub::{Scrubber, pace};
use ground::{ArchiveError, HeldBlobs};

/// What was written anew, and is still read as it was before, may take so much of the room for files.
const STILL_READ_PART: u64 = 20;
/// A blob that could not is left alone for so long, twice as long each time,
const FAILED_REST_MIN: Duration = Duration::from_secs(60);
/// up to this; and so many are remembered.
const FAILED_REST_MAX: Duration = Duration::from_secs(7 * 86_400);
const FAILED_MAX: usize = 10_000;
/// Why it waits.
const QUARANTINE_FIRST: &str = "since a restore there may be extents that the catalogue does not \
                                           name: kist pool quarantine --end first, when the restore is \
                                           settled";

/// Blobs that could not be written anew, when each is tried again, and after which rest: what is lost in one
/// is not found before all in front of it was written.
#[derive(Default)]
pub(crate) struct Failed(BTreeMap<BlobId, (Duration, Duration)>);

impl Failed {
    /// A blob is left alone for a while, twice as long each time.
    pub(crate) fn note(&mut self, id: BlobId, now: Duration) {
        if self.0.len() < FAILED_MAX || self.0.contains_key(&id) {
            let rest = self.0.get(&id).map_or(FAILED_REST_MIN, |(_, rest)| (*rest * 2).min(FAILED_REST_MAX));
            self.0.insert(id, (now.saturating_add(rest), rest));
        }
    }

    pub(crate) fn is_tried(&self, id: BlobId, now: Duration) -> bool {
        self.0.get(&id).is_none_or(|(due, _)| *due <= now)
    }

    /// It was written.
    pub(crate) fn is_done(&mut self, id: BlobId) {
        self.0.remove(&id);
    }
}

/// One that is being written, and what keeps what it reads.
pub(crate) struct WrittenAnew {
    rewrite: BlobRewrite,
    held: HeldBlobs,
}

impl WrittenAnew {
    /// The blob as it was at the beginning.
    pub(crate) fn blob(&self) -> &BlobDescription {
        self.rewrite.blob()
    }
}

impl Upkeep {
    /// Whether drives of a group have room for a blob that is written anew there.
    pub(crate) fn has_room_anew(&self, group: DriveGroup, bytes: ByteCount) -> bool {
        match group {
            DriveGroup::MAIN => self.blob_room_for_files().takes(bytes),
            group => self.pool.has_room_in(group, bytes),
        }
    }
}

impl Scrubber {
    /// What comes before anything is written anew: meanwhile drives may be replaced, which nobody looks
    /// through for what no record names yet, and what the catalogue does not name is kept.
    pub(crate) fn anew_waits_for(&self) -> Result<Option<&'static str>, ArchiveError> {
        if self.rebuild_is_due() {
            return Ok(Some(REBUILD_FIRST));
        }
        Ok(self.upkeep.read(|view| view.quarantine())?.map(|_| QUARANTINE_FIRST))
    }

    /// Whether what was written anew, and is still read as it was before, takes so much room that nothing
    /// more is begun: it comes back with the last byte of a download.
    pub(crate) fn still_reads_much(&mut self) -> bool {
        self.remove_left_behind();
        self.left_behind_bytes() > self.upkeep.blob_room_for_files().all.0 / STILL_READ_PART
    }

    /// Begins with a blob that was just looked up, on these drives; `reading` was entered before.
    pub(crate) fn begin_anew(
        &self,
        blob: &BlobDescription,
        group: DriveGroup,
    ) -> Result<WrittenAnew, ArchiveError> {
        let held = self.upkeep.gate.hold([blob.id].into());
        let rewrite = self.upkeep.pool.rewrite(blob, group)?;
        Ok(WrittenAnew { rewrite, held })
    }

    /// Writes some of it; when all is written, tells the catalogue. `Some`: it has ended, and what of it
    /// stands where it was to stand, nothing if the blob was removed meanwhile.
    pub(crate) fn write_anew(
        &mut self,
        anew: &mut Option<WrittenAnew>,
    ) -> Result<Option<ByteCount>, ArchiveError> {
        let upkeep = Arc::clone(&self.upkeep);
        let Some(WrittenAnew { rewrite, .. }) = anew else { return Ok(None) };
        if let Some(bytes) = rewrite.step()? {
            return if pace(&upkeep, bytes) { Ok(None) } else { Err(ArchiveError::Stopping) };
        }
        match anew.take() {
            Some(written) => self.end_anew(written).map(Some),
            None => Ok(None),
        }
    }

    fn end_anew(&mut self, WrittenAnew { rewrite, held }: WrittenAnew) -> Result<ByteCount, ArchiveError> {
        let upkeep = Arc::clone(&self.upkeep);
        let (id, from) = (rewrite.blob().id, rewrite.blob().stands_as);
        let anew = rewrite.finish()?;
        // Between its first stripe and now a drive may have failed, or lost what it had synced.
        let lacks = match upkeep.pool.lacking(&anew, &anew.drives()) {
            Ok(lacking) => !lacking.bad.is_empty() || lacking.unknown > 0,
            Err(_) => true,
        };
        if lacks {
            upkeep.pool.remove(&anew)?;
            let what = "a drive has not kept what was written to it, or does not answer";
            return Err(ArchiveError::Pool(PoolError::WrittenAnewLacks { blob: id, what }));
        }
        // Its shards may have moved while it was written: what is left is where it stands now.
        let before = upkeep.read(|view| view.blob(id))?;
        if is_planted(Bug::EarlyRemoved)
            && let Some(before) = &before
        {
            upkeep.pool.remove(before)?;
        }
        if let Err(error) = upkeep.execute(Command::BlobRecoded { from, to: anew.clone() }) {
            if error.is_certain_refusal() {
                upkeep.pool.remove(&anew)?;
            }
            // Who was removed meanwhile needs no other place.
            let is_gone = before.is_none() || upkeep.read(|view| view.blob(id))?.is_none();
            return if is_gone { Ok(ByteCount(0)) } else { Err(error) };
        }
        drop(held);
        if let Some(before) = before {
            let (extents, shards) = (before.extents(), shards_on(&before, &before.drives()));
            let bytes = before.length;
            self.leave(vec![OldShards { blob: id, extents, shards, bytes }]);
        }
        Ok(anew.length)
    }
}
