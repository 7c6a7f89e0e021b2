//! Moves of shards from one drive of the pool to another: what emptying drives and a rebalance share.
//!
//! A shard is copied, verified, or computed from the rest of its stripe where it is damaged; it is synced on
//! its new drive before the catalogue names it there, and the old one is removed when nobody reads it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use base::{BlobDescription, BlobId, ByteCount, DriveId, Duration, StripeSet};
use pool::{BadShard, Repaired};

use crate::Upkeep;
use crate::pool_rebuild::{record_moves, with_sealed};
use crate::scrub::{Scrubber, pace};
use ground::ArchiveError;

/// Blobs looked up together.
const PAGE: usize = 256;
/// After a round that met nothing it is looked again after so long whether something was still on its way.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// What could not be moved is tried again after so long, each time after twice as long,
const REST_MIN: Duration = Duration::from_secs(5);
/// up to this.
const REST_MAX: Duration = Duration::from_secs(600);

/// A blob, and what the values in it have if it is a segment.
pub(crate) struct Weighed {
    pub(crate) blob: BlobDescription,
    pub(crate) live: ByteCount,
}

impl Weighed {
    fn of(upkeep: &Upkeep, id: BlobId) -> Result<Option<Weighed>, ArchiveError> {
        upkeep.read(|view| {
            let live = view.blob_record(id)?.map(|record| record.live);
            Ok(live.zip(view.blob(id)?).map(|(live, blob)| Weighed { blob, live }))
        })
    }

    /// The numbers of its stripes.
    pub(crate) fn stripes(&self) -> impl Iterator<Item = u32> + use<> {
        0..u32::try_from(self.blob.stripes.len()).unwrap_or(u32::MAX)
    }
}

/// The next blobs behind one.
fn page(upkeep: &Upkeep, after: Option<BlobId>) -> Result<Vec<(BlobId, Option<Weighed>)>, ArchiveError> {
    upkeep.read(|view| {
        let blobs = view.blobs(after, PAGE)?.into_iter();
        let weighed = |(id, live)| Ok((id, view.blob(id)?.map(|blob| Weighed { blob, live })));
        blobs.map(|(id, record)| (id, record.live)).map(weighed).collect()
    })
}

/// What stands on a drive.
#[derive(Clone, Copy, Default)]
pub(crate) struct Standing {
    pub(crate) shards: u64,
    pub(crate) bytes: ByteCount,
}

/// Counts what stands on drives, by the catalogue.
pub(crate) fn standing(upkeep: &Upkeep) -> Result<BTreeMap<DriveId, Standing>, ArchiveError> {
    let mut standing: BTreeMap<DriveId, Standing> = BTreeMap::new();
    let mut after = None;
    loop {
        if upkeep.stopping() {
            return Err(ArchiveError::Stopping);
        }
        let page = page(upkeep, after)?;
        let Some((last, _)) = page.last() else { return Ok(standing) };
        after = Some(*last);
        for weighed in page.into_iter().filter_map(|(_, weighed)| weighed) {
            for (stripe, set) in weighed.stripes().zip(&weighed.blob.stripes) {
                // A description that the pool cannot take is the scrubber's to find: the others count.
                let bytes = upkeep.pool.shard_bytes(&weighed.blob, stripe, weighed.live).unwrap_or_default();
                for drive in &set.drives {
                    let on = standing.entry(*drive).or_default();
                    on.shards += 1;
                    on.bytes.0 = on.bytes.0.saturating_add(bytes.0);
                }
            }
        }
    }
}

/// A way through all stripes, over and over.
pub(crate) struct Round {
    after: Option<BlobId>,
    /// Stripes that were found and are not moved yet.
    found: VecDeque<(BlobId, u32)>,
    /// Shards that were moved in this round.
    pub(crate) moved: u64,
    /// The next round begins then, by the steady clock, after this rest.
    due: Duration,
    rest: Duration,
}

impl Round {
    pub(crate) fn new() -> Self {
        Round { after: None, found: VecDeque::new(), moved: 0, due: Duration::ZERO, rest: REST_MIN }
    }

    pub(crate) fn is_due(&self, now: Duration) -> bool {
        self.due <= now
    }

    /// The next stripe of those that were found.
    pub(crate) fn next(&mut self) -> Option<(BlobId, u32)> {
        self.found.pop_front()
    }

    /// A stripe is looked at once more before the others.
    pub(crate) fn again(&mut self, blob: BlobId, stripe: u32) {
        self.found.push_front((blob, stripe));
    }

    /// What was found is of no interest any more.
    pub(crate) fn forget_found(&mut self) {
        self.found.clear();
    }

    /// All stripes are gone through from the first one on.
    pub(crate) fn restart(&mut self) {
        self.found.clear();
        self.after = None;
    }

    /// Finds stripes among the next blobs; `false` at the end of all.
    pub(crate) fn look(
        &mut self,
        upkeep: &Upkeep,
        mut is_wanted: impl FnMut(&Weighed, u32) -> Result<bool, ArchiveError>,
    ) -> Result<bool, ArchiveError> {
        let page = page(upkeep, self.after)?;
        let Some((last, _)) = page.last() else { return Ok(false) };
        let last = *last;
        for weighed in page.into_iter().filter_map(|(_, weighed)| weighed) {
            for stripe in weighed.stripes() {
                if is_wanted(&weighed, stripe)? {
                    self.found.push_back((weighed.blob.id, stripe));
                }
            }
        }
        self.after = Some(last);
        Ok(true)
    }

    /// All stripes were gone through, and some could not be moved or none had to stay. Gives how many shards
    /// were moved.
    pub(crate) fn end(&mut self, now: Duration, has_left: bool) -> u64 {
        let moved = std::mem::take(&mut self.moved);
        self.after = None;
        self.rest = match (has_left, moved) {
            (false, 0) => LOOK_AGAIN,
            (_, 1..) => REST_MIN,
            (true, 0) => self.longer_rest(),
        };
        // Whether something came meanwhile is looked for at once.
        let rest = if !has_left && moved > 0 { Duration::ZERO } else { self.rest };
        self.due = now.saturating_add(rest);
        moved
    }

    fn longer_rest(&self) -> Duration {
        (self.rest * 2).clamp(REST_MIN, REST_MAX)
    }

    pub(crate) fn rest_after_failure(&mut self, now: Duration) {
        self.rest = self.longer_rest();
        self.due = now.saturating_add(self.rest);
    }
}

/// Which shards of a blob move, and where.
pub(crate) enum Moving {
    /// To whatever drives have room, off drives that are being emptied.
    Away(BTreeSet<BadShard>),
    /// This one, to the drive that it has in this set.
    To(BadShard, StripeSet),
}

/// What came of it.
#[derive(Default)]
pub(crate) struct Moved {
    /// Those that were moved, where they stood.
    pub(crate) shards: Vec<BadShard>,
    /// Bytes written.
    pub(crate) bytes: ByteCount,
    /// Those that were not, and why.
    pub(crate) failed: Vec<(BadShard, String)>,
}

impl Scrubber {
    /// Moves shards of a blob; which, is chosen from what the catalogue says of it now.
    pub(crate) fn move_shards(
        &mut self,
        id: BlobId,
        choose: impl FnOnce(&Weighed) -> Result<Option<Moving>, ArchiveError>,
    ) -> Result<Moved, ArchiveError> {
        let upkeep = Arc::clone(&self.upkeep);
        let reading = upkeep.gate.enter();
        let Some(weighed) = Weighed::of(&upkeep, id)? else { return Ok(Moved::default()) };
        let Some(moving) = choose(&weighed)? else { return Ok(Moved::default()) };
        let blob = &weighed.blob;
        let mut pacing = |bytes: ByteCount| pace(&upkeep, bytes);
        let written = with_sealed(&upkeep, || match &moving {
            Moving::Away(shards) => upkeep.pool.move_away(blob, shards, &mut pacing),
            Moving::To(shard, set) => upkeep.pool.move_to(blob, *shard, set, &mut pacing),
        })?;
        let Repaired { moved, bytes, failed, .. } = written;
        let shards = moved.iter().flat_map(|step| &step.old).copied().collect();
        let old = record_moves(&upkeep, blob, moved)?;
        drop(reading);
        self.leave(old);
        Ok(Moved { shards, bytes, failed })
    }
}
