//! How far a rebuild is. What is to be rebuilt is counted while the stripes that bear no further loss are
//! looked for, which looks at all anyway: nothing waits for the count.

use std::collections::{BTreeMap, BTreeSet};

use base::{BlobDescription, ByteCount, DriveId};
use ground::RebuildInfo;

use crate::Upkeep;

/// What there is to be rebuilt, by the losses that the stripes bear still.
#[derive(Default)]
pub(crate) struct Due {
    levels: BTreeMap<usize, u64>,
    bytes: u64,
    is_counted: bool,
}

impl Due {
    /// Counts the stripes of a blob that have shards on these drives.
    pub(crate) fn count(&mut self, upkeep: &Upkeep, blob: &BlobDescription, wanting: &BTreeSet<DriveId>) {
        for (stripe, set) in (0u32..).zip(&blob.stripes) {
            let lost = set.drives.iter().filter(|drive| wanting.contains(drive)).count();
            if lost == 0 {
                continue;
            }
            *self.levels.entry(bears_still(blob, lost)).or_default() += 1;
            // A description that the pool cannot take is the scrubber's to find: the others count.
            let shard = upkeep.pool.shard_bytes(blob, stripe, blob.length).unwrap_or_default();
            self.bytes = self.bytes.saturating_add(shard.0.saturating_mul(lost as u64));
        }
    }

    /// All was looked at.
    pub(crate) fn is_counted(&mut self) {
        self.is_counted = true;
    }

    /// How many stripes bear so many further losses.
    fn at(&self, left: usize) -> u64 {
        self.levels.get(&left).copied().unwrap_or(0)
    }
}

/// How many further losses a stripe bears that has so many.
pub(crate) fn bears_still(blob: &BlobDescription, lost: usize) -> usize {
    // More may be gone than it bears: a replaced drive may hold shards all the same, so it is tried.
    blob.layout.bears().saturating_sub(lost)
}

impl Upkeep {
    /// A rebuild begins.
    pub(crate) fn rebuild_begins(&self) {
        let began = self.now();
        self.note(|info| info.rebuild = Some(RebuildInfo { began, ..RebuildInfo::default() }));
    }

    /// It goes on with the stripes that bear so many further losses.
    pub(crate) fn rebuild_is_at(&self, left: usize, due: &Due) {
        self.note_rebuild(|rebuild| {
            (rebuild.bears, rebuild.level_stripes) = (left as u64, 0);
            see(rebuild, left, due);
        });
    }

    /// More was counted.
    pub(crate) fn rebuild_counts(&self, left: usize, due: &Due) {
        self.note_rebuild(|rebuild| see(rebuild, left, due));
    }

    /// A stripe was rebuilt, or tried in vain.
    pub(crate) fn rebuild_has_done(&self, bytes: ByteCount) {
        self.note_rebuild(|rebuild| {
            rebuild.stripes += 1;
            rebuild.level_stripes += 1;
            rebuild.bytes.0 = rebuild.bytes.0.saturating_add(bytes.0);
            rebuild.bound_totals();
        });
    }

    /// It is over, or broken off.
    pub(crate) fn rebuild_ends(&self) {
        self.note(|info| info.rebuild = None);
    }

    /// How far the rebuild is that is under way; `None`: none is.
    #[must_use]
    pub fn rebuild_info(&self) -> Option<RebuildInfo> {
        let mut rebuild = self.info().rebuild?;
        rebuild.estimate(self.now());
        Some(rebuild)
    }

    fn note_rebuild(&self, change: impl FnOnce(&mut RebuildInfo)) {
        self.note(|info| {
            if let Some(rebuild) = &mut info.rebuild {
                change(rebuild);
            }
        });
    }
}

/// Tells what was counted.
fn see(rebuild: &mut RebuildInfo, left: usize, due: &Due) {
    rebuild.stripes_total = due.levels.values().sum();
    rebuild.level_total = due.at(left);
    rebuild.bytes_total = ByteCount(due.bytes);
    rebuild.is_counted = due.is_counted;
    rebuild.bound_totals();
}
