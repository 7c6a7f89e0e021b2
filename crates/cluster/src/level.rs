//! Which shard of a stripe moves where, so that drives become equally full.
//!
//! A shard of `s` bytes moves from drive `a` to drive `b` only if `a` is no less full than `b` afterwards
//! too. So the sum over all drives of used² / total becomes smaller with each move, by at least
//! s² (1 / total_a + 1 / total_b): however stripes are gone through, the moves come to an end, and none leads
//! back.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use base::{ByteCount, DriveGroup, DriveId, PercentPoints, StripeSet};

use crate::map::{DriveEntry, FailureDomain};
use crate::rank::Beside;
use crate::sets::StripeSets;

/// A part of a whole, in billionths.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Share(pub u64);

impl Share {
    /// The whole.
    const WHOLE: u64 = 1_000_000_000;

    /// So many percentage points.
    #[must_use]
    pub fn of_points(points: PercentPoints) -> Share {
        Share(u64::from(points.0) * (Share::WHOLE / 100))
    }

    /// In percentage points.
    #[must_use]
    pub fn points(self) -> f64 {
        self.0 as f64 * 100.0 / Share::WHOLE as f64
    }

    /// Rounded down.
    fn of(part: ByteCount, whole: ByteCount) -> Share {
        let share = u128::from(part.0) * u128::from(Share::WHOLE) / u128::from(whole.0.max(1));
        Share(u64::try_from(share).unwrap_or(u64::MAX))
    }
}

/// How full a drive is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DriveFill {
    /// Its group: shards move between drives of one.
    pub group: DriveGroup,
    /// What stands on it.
    pub used: ByteCount,
    /// Its size, above 0.
    pub total: ByteCount,
    /// What new shards may take of it; 0: none comes to it.
    pub room: ByteCount,
}

impl DriveFill {
    fn share(&self) -> Share {
        Share::of(self.used, self.total)
    }
}

/// How full the drives are between which shards move; no shard of any other drive is touched.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Fills(BTreeMap<DriveId, DriveFill>);

impl Fills {
    /// Of these drives; one without a size takes no part.
    #[must_use]
    pub fn new(drives: impl IntoIterator<Item = (DriveId, DriveFill)>) -> Fills {
        Fills(drives.into_iter().filter(|(_, fill)| fill.total.0 > 0).collect())
    }

    /// The drives.
    pub fn drives(&self) -> impl Iterator<Item = (DriveId, &DriveFill)> {
        self.0.iter().map(|(id, fill)| (*id, fill))
    }

    /// The drives, group by group.
    fn by_group(&self) -> impl Iterator<Item = Vec<&DriveFill>> {
        let mut groups: BTreeMap<DriveGroup, Vec<&DriveFill>> = BTreeMap::new();
        self.0.values().for_each(|fill| groups.entry(fill.group).or_default().push(fill));
        groups.into_values()
    }

    /// How far the fullest and the emptiest of a group are apart, where that is most.
    #[must_use]
    pub fn spread(&self) -> Share {
        let spread = |drives: Vec<&DriveFill>| {
            let shares = || drives.iter().map(|fill| fill.share());
            Share(shares().max().unwrap_or_default().0 - shares().min().unwrap_or_default().0)
        };
        self.by_group().map(spread).max().unwrap_or_default()
    }

    /// What stands above the common level of its group, and half of `to` more, on all drives together: about
    /// what is to be moved still.
    #[must_use]
    pub fn above_level(&self, to: Share) -> ByteCount {
        let of_group = |drives: Vec<&DriveFill>| {
            let sum =
                |of: fn(&DriveFill) -> ByteCount| drives.iter().map(|f| u128::from(of(f).0)).sum::<u128>();
            let (used, total) = (sum(|fill| fill.used), sum(|fill| fill.total));
            let above = |fill: &&DriveFill| {
                let size = u128::from(fill.total.0);
                let spared = size * u128::from(to.0 / 2) / u128::from(Share::WHOLE);
                u128::from(fill.used.0).saturating_sub(used * size / total.max(1) + spared)
            };
            drives.iter().map(above).sum::<u128>()
        };
        ByteCount(u64::try_from(self.by_group().map(of_group).sum::<u128>()).unwrap_or(u64::MAX))
    }

    /// How far apart two drives are, if a shard of so many bytes may move between them.
    fn gap(&self, from: DriveId, to: DriveId, bytes: ByteCount) -> Option<Share> {
        let (a, b) = (self.0.get(&from)?, self.0.get(&to)?);
        let (left, taken) = (a.used.0.checked_sub(bytes.0)?, b.used.0.checked_add(bytes.0)?);
        // Exact: the proof that the moves end stands on it.
        let stays_above =
            u128::from(left) * u128::from(b.total.0) >= u128::from(taken) * u128::from(a.total.0);
        let may_move = bytes.0 > 0 && stays_above && b.room >= bytes && a.group == b.group;
        may_move.then(|| Share(a.share().0.saturating_sub(b.share().0)))
    }
}

/// A shard of a stripe that moves to another drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LevellingMove {
    /// Its number within the stripe.
    pub shard: usize,
    /// Where it stands.
    pub from: DriveId,
    /// Where it goes.
    pub to: DriveId,
}

impl LevellingMove {
    /// The drives of the stripe afterwards, in their order.
    ///
    /// # Panics
    /// If the shard does not stand where it is taken from.
    #[must_use]
    pub fn drives_after(&self, set: &StripeSet) -> Vec<DriveId> {
        let mut drives = set.drives.clone();
        assert_eq!(drives.get(self.shard), Some(&self.from), "the shard stands where it is taken from");
        drives[self.shard] = self.to;
        drives
    }
}

impl StripeSets {
    /// The shard of a stripe, each of whose shards has so many bytes, that moves next, so that drives become
    /// equally full; `None` if none should. It goes from the fuller drive to the emptier one, where they are
    /// at least `least` apart; to a drive that takes data, has room for it and has no other shard of the
    /// stripe; and no host, enclosure or disk has more shards of the stripe afterwards than one has now.
    ///
    /// Of two moves the one between drives further apart is chosen. One that leads to a set that is known
    /// goes before, if its drives are half as far apart at least: few sets share the loss of a few drives.
    #[must_use]
    pub fn level(
        &self,
        set: &StripeSet,
        bytes: ByteCount,
        fills: &Fills,
        least: Share,
    ) -> Option<LevellingMove> {
        let candidates = self.levelling(set, bytes, fills, least);
        let widest = candidates.iter().map(|(gap, _)| *gap).max()?;
        let known = self.one_apart(set);
        let leads_to_known = |(gap, step): &&(Share, LevellingMove)| {
            gap.0 >= widest.0 / 2 && known.contains(&(step.shard, step.to))
        };
        let order = |(gap, step): &&(Share, LevellingMove)| (*gap, Reverse((step.shard, step.to)));
        let chosen = candidates.iter().filter(leads_to_known).max_by_key(order);
        chosen.or_else(|| candidates.iter().max_by_key(order)).map(|(_, step)| *step)
    }

    /// All moves of a shard of this stripe that may be.
    fn levelling(
        &self,
        set: &StripeSet,
        bytes: ByteCount,
        fills: &Fills,
        least: Share,
    ) -> Vec<(Share, LevellingMove)> {
        let map = self.map();
        let takers = fills.drives().map(|(id, _)| id).filter(|id| !set.drives.contains(id));
        let takers: Vec<&DriveEntry> =
            takers.filter_map(|id| map.get(id)).filter(|entry| entry.is_writable()).collect();
        let mut candidates = Vec::new();
        for (shard, from) in set.drives.iter().copied().enumerate() {
            let Some(here) = map.get(from) else { continue };
            let others = || {
                let others = set.drives.iter().filter(|other| **other != from);
                others.filter_map(|other| map.get(*other)).map(|other| &other.domain)
            };
            let beside = |domain: &FailureDomain| Beside::count(domain, others());
            let now = beside(&here.domain);
            for taker in &takers {
                let gap = fills.gap(from, taker.id, bytes).filter(|gap| *gap >= least);
                if let Some(gap) = gap
                    && beside(&taker.domain).is_no_worse_than(&now)
                {
                    candidates.push((gap, LevellingMove { shard, from, to: taker.id }));
                }
            }
        }
        candidates
    }

    /// The sets that are known and differ from this one in one place: which, and by which drive.
    fn one_apart(&self, set: &StripeSet) -> BTreeSet<(usize, DriveId)> {
        let apart = |other: &StripeSet| {
            let pairs = set.drives.iter().zip(&other.drives);
            let mut differing = pairs.enumerate().filter(|(_, (one, other))| one != other);
            let (at, (_, drive)) = differing.next()?;
            differing.next().is_none().then_some((at, *drive))
        };
        self.of_width(set.drives.len()).filter_map(apart).collect()
    }
}
