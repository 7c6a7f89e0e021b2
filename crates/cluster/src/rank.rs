//! Rendezvous scores, and the choice of the next drive of a set under failure domains.

use std::collections::BTreeMap;

use base::DriveId;

use crate::map::DriveEntry;

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

/// The best of `candidates` to stand beside `chosen`: fewest drives in the same host, then enclosure, then
/// disk, then least used for its weight so far, then by score.
pub(crate) fn best<'a>(
    candidates: impl Iterator<Item = &'a DriveEntry>,
    chosen: &[&DriveEntry],
    used: &BTreeMap<DriveId, u64>,
    score: impl Fn(DriveId) -> u64,
) -> Option<&'a DriveEntry> {
    let beside = |same: &dyn Fn(&DriveEntry) -> bool| chosen.iter().filter(|other| same(other)).count();
    candidates.filter(|drive| chosen.iter().all(|other| other.id != drive.id)).min_by_key(|drive| {
        let here = &drive.domain;
        let host = beside(&|other| other.domain.host == here.host);
        let enclosure =
            beside(&|other| other.domain.host == here.host && other.domain.enclosure == here.enclosure);
        let disk = beside(&|other| other.domain == *here);
        let share =
            used.get(&drive.id).copied().unwrap_or(0) * u64::from(u32::MAX) / u64::from(drive.weight.max(1));
        (host, enclosure, disk, share, score(drive.id), drive.id)
    })
}
