//! The groups of drives that Kist's placement makes, for drives that do not exist.

use std::collections::{BTreeMap, BTreeSet};

use base::{DriveGroup, DriveId, Epoch};
use cluster::{DriveEntry, DriveMap, DriveState, FailureDomain, SETS_PER_DRIVE, StripeSets};

use crate::code::{Code, choose};
use crate::inputs::InputError;

/// Stripe sets of a pool and what follows from them.
#[derive(Clone, PartialEq, Debug)]
pub struct Placement {
    /// Drives in the pool.
    pub drives: usize,
    /// The drives of each set in the order of its shards. Sets of the same drives are one for Reed-Solomon:
    /// what is lost does not depend on the order.
    pub groups: Vec<Vec<usize>>,
    /// For each drive the groups that it is in, and its place there.
    pub places: Vec<Vec<(usize, usize)>>,
    /// For each drive how many others share a group with it.
    pub partners: Vec<usize>,
    /// The most drives of one group in one enclosure.
    pub together_max: usize,
}

impl Placement {
    /// The sets that `cluster` makes for `drives` alike, spread in turn over `enclosures`.
    ///
    /// # Errors
    /// [`InputError::TooFewDrives`], [`InputError::Placement`].
    pub fn new(code: Code, drives: u32, enclosures: u32, seed: u64) -> Result<Self, InputError> {
        let width = code.width() as usize;
        let failed = |error: &dyn std::fmt::Display| InputError::Placement(error.to_string());
        let all = u16::try_from(drives).map_err(|_| failed(&"a pool has at most 65,535 drives"))?;
        let enclosure = |drive: u16| u32::from(drive) % enclosures.max(1);
        let entry = |drive: u16| DriveEntry {
            id: DriveId(drive),
            domain: FailureDomain {
                host: String::new(),
                enclosure: enclosure(drive).to_string(),
                disk: drive.to_string(),
            },
            group: DriveGroup::MAIN,
            state: DriveState::Up,
            weight: 1,
        };
        let map = DriveMap::new(Epoch(1), (0..all).map(entry).collect()).map_err(|e| failed(&e))?;
        let mut sets = StripeSets::open(map, seed, Vec::new()).map_err(|e| failed(&e))?;
        // The first choice makes all sets of the width.
        sets.choose(width, 0, &BTreeSet::new()).map_err(|e| failed(&e))?;
        let mut seen = BTreeSet::new();
        let mut groups: Vec<Vec<usize>> = Vec::new();
        let mut together_max = 0;
        for set in sets.new_sets() {
            let mut key: Vec<usize> = set.drives.iter().map(|id| id.0 as usize).collect();
            let group = key.clone();
            if matches!(code, Code::ReedSolomon { .. }) {
                key.sort_unstable();
            }
            if seen.insert(key) {
                let mut together: BTreeMap<u32, usize> = BTreeMap::new();
                set.drives.iter().for_each(|id| *together.entry(enclosure(id.0)).or_default() += 1);
                together_max = together_max.max(together.into_values().max().unwrap_or(0));
                groups.push(group);
            }
        }
        let mut places = vec![Vec::new(); drives as usize];
        let mut beside = vec![BTreeSet::new(); drives as usize];
        for (at, group) in groups.iter().enumerate() {
            for (place, drive) in group.iter().enumerate() {
                places[*drive].push((at, place));
                beside[*drive].extend(group.iter().copied().filter(|other| other != drive));
            }
        }
        let partners = beside.iter().map(BTreeSet::len).collect();
        Ok(Placement { drives: drives as usize, groups, places, partners, together_max })
    }
}

/// Distinct groups that Kist's placement makes: [`SETS_PER_DRIVE`] for each drive, as far as there are so
/// many.
#[must_use]
pub fn expected_groups(code: Code, drives: u32) -> f64 {
    (SETS_PER_DRIVE as f64 * f64::from(drives)).min(choose(drives, code.width()))
}

/// Drives that share a group with one drive, expected, if each is in so many random ones:
/// `(N-1) x (1 - (1 - (n-1)/(N-1))^(groups per drive))`.
#[must_use]
pub fn expected_partners(code: Code, drives: u32, groups: f64) -> f64 {
    let (others, beside) = (f64::from(drives - 1), f64::from(code.width() - 1));
    if others == 0.0 {
        return 0.0;
    }
    let per_drive = groups * f64::from(code.width()) / f64::from(drives);
    (others * (1.0 - (1.0 - beside / others).powf(per_drive))).max(beside)
}

/// The fewest groups in which each drive has `scatter` partners: `N/n x scatter/(n-1)`.
#[must_use]
pub fn groups_for_scatter(code: Code, drives: u32, scatter: u32) -> f64 {
    let width = f64::from(code.width());
    let beside = (width - 1.0).max(1.0);
    (f64::from(drives) / width * (f64::from(scatter) / beside).max(1.0)).round().max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_expectations_are_those_of_the_placement() {
        for (layout, drives) in [("4+2", 12), ("8+2", 60), ("12+4", 84), ("4+2", 100)] {
            let code = Code::parse(layout).unwrap();
            let made = Placement::new(code, drives, 1, 7).unwrap();
            let groups = expected_groups(code, drives);
            assert!((made.groups.len() as f64 / groups - 1.0).abs() < 0.1, "{layout} over {drives}");
            let mean = made.partners.iter().sum::<usize>() as f64 / f64::from(drives);
            let expected = expected_partners(code, drives, groups);
            assert!((mean / expected - 1.0).abs() < 0.05, "{layout} over {drives}: {mean}, {expected}");
        }
    }

    #[test]
    fn a_group_spreads_over_enclosures() {
        let code = Code::parse("12+4").unwrap();
        assert_eq!(Placement::new(code, 90, 18, 1).unwrap().together_max, 1);
        assert_eq!(Placement::new(code, 84, 4, 1).unwrap().together_max, 4);
        assert!(Placement::new(code, 15, 1, 1).is_err());
    }

    #[test]
    fn scatter_and_groups_go_together() {
        let code = Code::parse("12+4").unwrap();
        // Neither fewer than one group a drive, nor a drive in part of one.
        assert!((groups_for_scatter(code, 160, 15) - 10.0).abs() < 1e-9);
        assert!((groups_for_scatter(code, 160, 60) - 40.0).abs() < 1e-9);
    }
}
