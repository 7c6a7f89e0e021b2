//! Placement: distinct, deterministic, balanced, spread over failure domains.

use std::collections::{BTreeMap, BTreeSet};

use base::{ByteCount, DriveGroup, DriveId, Epoch, StripeSet, StripeSetId};
use cluster::{
    DriveEntry, DriveMap, DriveState, FailureDomain, MapError, PlacementError, SETS_PER_DRIVE, SetKind,
    StripeSets,
};
use proptest::prelude::*;

fn map(hosts: u16, drives_each: u16) -> DriveMap {
    let entry = |n: u16| DriveEntry {
        id: DriveId(n),
        domain: FailureDomain {
            host: format!("host{}", n / drives_each),
            enclosure: String::new(),
            disk: n.to_string(),
        },
        group: DriveGroup::MAIN,
        state: DriveState::Up,
        weight: 1,
    };
    DriveMap::new(Epoch(1), (0..hosts * drives_each).map(entry).collect()).unwrap()
}

fn sets(map: DriveMap, known: Vec<StripeSet>) -> StripeSets {
    StripeSets::open(map, 42, known).unwrap()
}

fn down(ids: &[u16]) -> BTreeSet<DriveId> {
    ids.iter().map(|n| DriveId(*n)).collect()
}

#[test]
fn a_drive_is_in_the_map_once() {
    let mut twice = map(1, 2).drives().to_vec();
    twice.push(twice[0].clone());
    assert_eq!(DriveMap::new(Epoch(1), twice), Err(MapError::Duplicate(DriveId(0))));
}

#[test]
fn the_list_is_bounded_and_balanced() {
    let mut sets = sets(map(8, 1), vec![]);
    let mut uses: BTreeMap<DriveId, usize> = BTreeMap::new();
    let mut ids = BTreeSet::new();
    for sequence in 0..32 {
        let set = sets.choose(6, sequence, &down(&[])).unwrap();
        set.drives.iter().for_each(|drive| *uses.entry(*drive).or_default() += 1);
        ids.insert(set.id);
    }
    assert_eq!(sets.new_sets().len(), 8 * SETS_PER_DRIVE);
    assert_eq!(ids.len(), 32);
    assert!(uses.len() == 8 && uses.values().all(|n| (22..=26).contains(n)), "{uses:?}");
}

#[test]
fn no_host_holds_more_than_it_must() {
    let mut sets = sets(map(3, 4), vec![]);
    for sequence in 0..100 {
        let set = sets.choose(6, sequence, &down(&[])).unwrap();
        for host in 0..3 {
            assert_eq!(set.drives.iter().filter(|d| d.0 / 4 == host).count(), 2, "{set:?}");
        }
    }
}

/// Hosts had no names once. That all drives get the same one changes no set, whatever it is.
#[test]
fn one_host_of_any_name_is_the_same_placement() {
    let of = |host: &str| {
        let named = |drive: &DriveEntry| {
            let domain = FailureDomain { host: host.to_owned(), ..drive.domain.clone() };
            DriveEntry { domain, ..drive.clone() }
        };
        let map = DriveMap::new(Epoch(1), map(1, 9).drives().iter().map(named).collect()).unwrap();
        let mut sets = sets(map, vec![]);
        let chosen: Vec<StripeSet> = (0..40).map(|n| sets.choose(6, n, &down(&[])).unwrap()).collect();
        let spare = sets.substitute(&chosen[0], &down(&[chosen[0].drives[2].0]), &down(&[])).unwrap();
        (chosen, spare)
    };
    assert_eq!(of("localhost"), of(""));
}

#[test]
fn known_sets_keep_their_ids_and_drives() {
    let mut first = sets(map(8, 1), vec![]);
    let used: Vec<StripeSet> = (0..3).map(|n| first.choose(6, n, &down(&[])).unwrap()).collect();
    let highest = used.iter().map(|set| set.id).max().unwrap();
    let mut second = sets(map(8, 1), used.clone());
    second.choose(6, 0, &down(&[])).unwrap();
    assert!(second.new_sets().iter().all(|set| set.id > highest));
    let chosen: BTreeSet<StripeSetId> =
        (0..64).map(|n| second.choose(6, n, &down(&[])).unwrap().id).collect();
    assert!(used.iter().all(|set| chosen.contains(&set.id)), "known sets stay in use");
}

#[test]
fn contradicting_records_are_refused() {
    let set = |drives: &[u16]| StripeSet {
        id: StripeSetId(7),
        drives: drives.iter().map(|n| DriveId(*n)).collect(),
    };
    let open = |known| StripeSets::open(map(4, 1), 1, known).map(|_| ());
    assert_eq!(open(vec![set(&[0, 1]), set(&[1, 0])]), Err(PlacementError::Contradiction(StripeSetId(7))));
    assert_eq!(open(vec![set(&[0, 0])]), Err(PlacementError::NotDistinct(StripeSetId(7))));
    assert_eq!(open(vec![]), Ok(()));
}

#[test]
fn new_drives_come_into_use() {
    let mut first = sets(map(8, 1), vec![]);
    first.choose(6, 0, &down(&[])).unwrap();
    let mut grown = sets(map(16, 1), first.new_sets());
    let mut uses: BTreeMap<DriveId, usize> = BTreeMap::new();
    for sequence in 0..64 {
        let set = grown.choose(6, sequence, &down(&[])).unwrap();
        set.drives.iter().for_each(|drive| *uses.entry(*drive).or_default() += 1);
    }
    assert!((8..16).all(|n| uses.get(&DriveId(n)).copied().unwrap_or(0) >= 20), "{uses:?}");
}

/// How many of so many stripes each drive gets.
fn stripes(sets: &mut StripeSets, count: u64, rooms: &BTreeMap<DriveId, ByteCount>) -> BTreeMap<u16, u64> {
    let mut uses: BTreeMap<u16, u64> = BTreeMap::new();
    for sequence in 0..count {
        let set = sets.choose_by_room(6, sequence, &down(&[]), rooms).unwrap();
        set.drives.iter().for_each(|drive| *uses.entry(drive.0).or_default() += 1);
    }
    uses
}

fn grown(from: DriveMap, to: DriveMap) -> StripeSets {
    let mut first = sets(from, vec![]);
    first.choose(6, 0, &down(&[])).unwrap();
    sets(to, first.new_sets())
}

/// Story: one drive more was in 4 of 36 sets, which came in turn: it got 11 % of the stripes, and the others
/// 69 %, until they were full.
#[test]
fn a_drive_that_is_added_gets_as_much_as_the_others() {
    let mut sets = grown(map(8, 1), map(9, 1));
    let uses = stripes(&mut sets, 900, &BTreeMap::new());
    assert!((0..9).all(|drive| (580..=620).contains(&uses[&drive])), "{uses:?}");
    assert_eq!(sets.new_sets().len(), SETS_PER_DRIVE, "no more combinations of drives than before");
}

#[test]
fn emptier_drives_get_more_but_none_more_than_twice_its_part() {
    let mut sets = grown(map(31, 1), map(32, 1));
    let rooms = |newest: u64| -> BTreeMap<DriveId, ByteCount> {
        (0..32).map(|n| (DriveId(n), ByteCount::gib(if n == 31 { newest } else { 100 }))).collect()
    };
    // Even parts are 187.5 of 1,000.
    let counts: Vec<u64> =
        [100, 150, 200, 10_000, 10].map(|newest| stripes(&mut sets, 1_000, &rooms(newest))[&31]).into();
    let expected = [187, 276, 358, 362, 94];
    let near = |(count, expected): (&u64, u64)| count.abs_diff(expected) <= 20;
    assert!(counts.iter().zip(expected).all(near), "{counts:?}");
}

#[test]
fn domains_come_before_room() {
    let mut sets = grown(map(3, 4), map(3, 4));
    let rooms: BTreeMap<DriveId, ByteCount> =
        (0..12).map(|n| (DriveId(n), ByteCount::gib(if n < 4 { 1_000 } else { 10 }))).collect();
    for sequence in 0..300 {
        let set = sets.choose_by_room(6, sequence, &down(&[]), &rooms).unwrap();
        for host in 0..3 {
            assert_eq!(set.drives.iter().filter(|drive| drive.0 / 4 == host).count(), 2, "{set:?}");
        }
    }
}

#[test]
fn substitution_keeps_the_places_of_the_living() {
    let mut sets = sets(map(8, 1), vec![]);
    let set = sets.choose(6, 3, &down(&[])).unwrap();
    let lost = set.drives[2];
    let next = sets.substitute(&set, &BTreeSet::from([lost]), &down(&[])).unwrap();
    assert_ne!(next.id, set.id);
    for at in 0..6 {
        assert_eq!(next.drives[at] == set.drives[at], at != 2);
    }
    assert_eq!(sets.substitute(&set, &BTreeSet::from([lost]), &down(&[])).unwrap(), next);
}

proptest! {
    #[test]
    fn chosen_drives_are_distinct_up_and_deterministic(
        count in 1u16..24, width in 1usize..12, lost in proptest::collection::btree_set(0u16..24, 0..12),
        sequence in any::<u64>(),
    ) {
        let lost: BTreeSet<DriveId> = lost.into_iter().map(DriveId).collect();
        let living = (0..count).filter(|n| !lost.contains(&DriveId(*n))).count();
        let chosen = sets(map(count, 1), vec![]).choose(width, sequence, &lost);
        prop_assert_eq!(&chosen, &sets(map(count, 1), vec![]).choose(width, sequence, &lost));
        match chosen {
            Ok(set) => {
                prop_assert_eq!(set.drives.len(), width);
                prop_assert_eq!(set.drives.iter().collect::<BTreeSet<_>>().len(), width);
                prop_assert!(set.drives.iter().all(|drive| drive.0 < count && !lost.contains(drive)));
                prop_assert!(living >= width);
            }
            Err(error) => {
                prop_assert_eq!(error, PlacementError::TooFewDrives { width, writable: living });
                prop_assert!(living < width);
            }
        }
    }
}

const FAST: DriveGroup = DriveGroup(1);

/// Drives of which the last ones are in a group.
fn grouped(main: u16, fast: u16) -> DriveMap {
    let of = |drive: &DriveEntry| {
        let group = if drive.id.0 < main { DriveGroup::MAIN } else { FAST };
        DriveEntry { group, ..drive.clone() }
    };
    DriveMap::new(Epoch(1), map(1, main + fast).drives().iter().map(of).collect()).unwrap()
}

#[test]
fn sets_of_a_group_have_its_drives_and_those_of_no_group_have_others() {
    let mut sets = sets(grouped(8, 5), vec![]);
    let fast = SetKind { group: FAST, width: 4 };
    for sequence in 0..64 {
        assert!(sets.choose(4, sequence, &down(&[])).unwrap().drives.iter().all(|drive| drive.0 < 8));
        assert!(sets.choose(fast, sequence, &down(&[])).unwrap().drives.iter().all(|drive| drive.0 >= 8));
    }
    let of_group = sets.new_sets().iter().filter(|set| set.drives[0].0 >= 8).count();
    assert!((2..=5 * SETS_PER_DRIVE).contains(&of_group), "{of_group}");
    let wide = SetKind { group: FAST, width: 6 };
    let error = sets.choose(wide, 0, &down(&[])).unwrap_err();
    assert_eq!(error, PlacementError::TooFewDrives { width: 6, writable: 5 });
}

#[test]
fn a_drive_in_no_group_stands_in_where_the_group_has_none_left() {
    let mut sets = sets(grouped(8, 5), vec![]);
    let fast = SetKind { group: FAST, width: 4 };
    let set = sets.choose(fast, 0, &down(&[])).unwrap();
    let other = (8..13).map(DriveId).find(|drive| !set.drives.contains(drive)).unwrap();
    let lost = BTreeSet::from([set.drives[1]]);
    assert_eq!(sets.substitute(&set, &lost, &down(&[])).unwrap().drives[1], other);
    let spared = sets.substitute(&set, &lost, &down(&[other.0])).unwrap();
    assert!(spared.drives[1].0 < 8, "{spared:?}");
    // It is not chosen for what the group gets.
    for sequence in 0..64 {
        assert!(sets.choose(fast, sequence, &down(&[])).unwrap().drives.iter().all(|drive| drive.0 >= 8));
    }
    // One that is in no group is never replaced by one that is.
    let main = sets.choose(6, 0, &down(&[])).unwrap();
    let lost = BTreeSet::from([main.drives[0]]);
    let others: Vec<u16> = (0..8).filter(|id| !main.drives.contains(&DriveId(*id))).collect();
    let error = sets.substitute(&main, &lost, &down(&others)).unwrap_err();
    assert!(matches!(error, PlacementError::TooFewDrives { width: 6, .. }), "{error}");
}
