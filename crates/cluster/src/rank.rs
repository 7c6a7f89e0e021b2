//! Rendezvous scores, and the choice of the next drive of a set under failure domains.

use std::collections::BTreeMap;

use base::DriveId;

use crate::map::{DriveEntry, FailureDomain};

/// A well-mixed number of a seed, a set and a drive: everyone who computes it gets the same.
pub(crate) fn score(seed: u64, set: u64, drive: DriveId) -> u64 {
    mix(mix(mix(seed) ^ set) ^ u64::from(drive.0))
}

/// The finaliser of SplitMix64.
fn mix(value: u64) -> u64 {
    let z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// How many drives share a failure domain with a place: in the same host, of these in the same enclosure, of
/// these on the same disk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Beside {
    pub(crate) host: usize,
    pub(crate) enclosure: usize,
    pub(crate) disk: usize,
}

impl Beside {
    pub(crate) fn count<'a>(here: &FailureDomain, others: impl Iterator<Item = &'a FailureDomain>) -> Beside {
        let mut beside = Beside { host: 0, enclosure: 0, disk: 0 };
        for other in others.filter(|other| other.host == here.host) {
            let in_enclosure = other.enclosure == here.enclosure;
            beside.host += 1;
            beside.enclosure += usize::from(in_enclosure);
            beside.disk += usize::from(in_enclosure && other.disk == here.disk);
        }
        beside
    }

    /// No failure that takes this place takes more of the others than one that takes that place.
    pub(crate) fn is_no_worse_than(&self, that: &Beside) -> bool {
        self.host <= that.host && self.enclosure <= that.enclosure && self.disk <= that.disk
    }
}

/// The best of `candidates` to stand beside `chosen`: fewest drives in the same host, then enclosure, then
/// disk, then least used for its weight so far, then by score.
pub(crate) fn best<'a>(
    candidates: impl Iterator<Item = &'a DriveEntry>,
    chosen: &[&DriveEntry],
    used: &BTreeMap<DriveId, u64>,
    score: impl Fn(DriveId) -> u64,
) -> Option<&'a DriveEntry> {
    candidates.filter(|drive| chosen.iter().all(|other| other.id != drive.id)).min_by_key(|drive| {
        let beside = Beside::count(&drive.domain, chosen.iter().map(|other| &other.domain));
        let share =
            used.get(&drive.id).copied().unwrap_or(0) * u64::from(u32::MAX) / u64::from(drive.weight.max(1));
        (beside, share, score(drive.id), drive.id)
    })
}
