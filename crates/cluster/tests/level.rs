//! Moves that make drives equally full: they end, and keep what holds of placements.

use std::collections::{BTreeMap, BTreeSet};

use base::{ByteCount, DriveGroup, DriveId, Epoch, PercentPoints, StripeSet};
use cluster::{DriveEntry, DriveFill, DriveMap, DriveState, FailureDomain, Fills, Share, StripeSets};
use proptest::prelude::*;

const WIDTH: usize = 6;

/// A pool as a test has it: stripes with the bytes of each of their shards.
#[derive(Clone, Debug)]
struct Pool {
    entries: Vec<DriveEntry>,
    totals: Vec<u64>,
    /// Below this what is free is not for shards.
    floor: u64,
    stripes: Vec<(StripeSet, u64)>,
}

fn entry(id: u16, host: u16, enclosure: u16) -> DriveEntry {
    let domain = FailureDomain {
        host: format!("host{host}"),
        enclosure: format!("jbod{enclosure}"),
        disk: id.to_string(),
    };
    DriveEntry { id: DriveId(id), domain, group: DriveGroup::MAIN, state: DriveState::Up, weight: 1 }
}

fn sets(entries: &[DriveEntry], known: Vec<StripeSet>) -> StripeSets {
    StripeSets::open(DriveMap::new(Epoch(1), entries.to_vec()).unwrap(), 42, known).unwrap()
}

impl Pool {
    /// Stripes of these sizes on the first `filled` drives.
    fn new(entries: Vec<DriveEntry>, totals: Vec<u64>, filled: usize, sizes: &[u64]) -> Pool {
        let mut before = sets(&entries[..filled], vec![]);
        let none = BTreeSet::new();
        let stripe = |(n, bytes): (usize, &u64)| (before.choose(WIDTH, n as u64, &none).unwrap(), *bytes);
        let stripes = sizes.iter().enumerate().map(stripe).collect();
        Pool { entries, totals, floor: 0, stripes }
    }

    fn used(&self) -> BTreeMap<DriveId, u64> {
        let mut used: BTreeMap<DriveId, u64> = self.entries.iter().map(|entry| (entry.id, 0)).collect();
        for (set, bytes) in &self.stripes {
            set.drives.iter().for_each(|drive| *used.get_mut(drive).unwrap() += bytes);
        }
        used
    }

    /// Of the drives that take part.
    fn fills(&self, used: &BTreeMap<DriveId, u64>) -> Fills {
        let drives = self.entries.iter().zip(&self.totals);
        Fills::new(drives.filter(|(entry, _)| entry.state == DriveState::Up).map(|(entry, total)| {
            let on = used[&entry.id];
            let room = ByteCount(total.saturating_sub(on).saturating_sub(self.floor));
            (entry.id, DriveFill { group: entry.group, used: ByteCount(on), total: ByteCount(*total), room })
        }))
    }

    fn known(&self) -> Vec<StripeSet> {
        let sets: BTreeMap<_, _> = self.stripes.iter().map(|(set, _)| (set.id, set.clone())).collect();
        sets.into_values().collect()
    }

    /// Sum of used² / total, which each move makes smaller.
    fn potential(&self) -> f64 {
        let used = self.used();
        self.entries.iter().zip(&self.totals).map(|(e, t)| (used[&e.id] as f64).powi(2) / *t as f64).sum()
    }

    /// The most shards of a stripe that one host, one enclosure and one disk has.
    fn most_together(&self, set: &StripeSet) -> [usize; 3] {
        let domain = |drive: &DriveId| &self.entries.iter().find(|entry| entry.id == *drive).unwrap().domain;
        let most = |key: fn(&FailureDomain) -> FailureDomain| {
            let mut counts: BTreeMap<FailureDomain, usize> = BTreeMap::new();
            set.drives.iter().for_each(|drive| *counts.entry(key(domain(drive))).or_default() += 1);
            counts.into_values().max().unwrap_or(0)
        };
        let host = |domain: &FailureDomain| FailureDomain { host: domain.host.clone(), ..<_>::default() };
        let enclosure = |domain: &FailureDomain| FailureDomain { disk: String::new(), ..domain.clone() };
        [most(host), most(enclosure), most(Clone::clone)]
    }

    /// Goes through all stripes over and over until nothing moves; gives how many shards moved, and how many
    /// sets there are then.
    fn level(&mut self, to: PercentPoints) -> (u64, usize) {
        let mut sets = sets(&self.entries, self.known());
        let least = Share(Share::of_points(to).0 / 2);
        let mut moved = 0;
        loop {
            let before = moved;
            for at in 0..self.stripes.len() {
                loop {
                    let fills = self.fills(&self.used());
                    if fills.spread() <= Share::of_points(to) {
                        return (moved, self.known().len());
                    }
                    let (set, bytes) = self.stripes[at].clone();
                    let Some(step) = sets.level(&set, ByteCount(bytes), &fills, least) else { break };
                    let was = (self.potential(), self.most_together(&set));
                    let room = |drive| fills.drives().find(|(id, _)| *id == drive).unwrap().1.room.0;
                    assert!(bytes <= room(step.to), "the floor stays free");
                    self.stripes[at].0 = sets.of_drives(step.drives_after(&set)).unwrap();
                    let now = self.most_together(&self.stripes[at].0);
                    assert!(now.iter().zip(&was.1).all(|(now, was)| now <= was), "{now:?} {was:?}");
                    assert!(self.potential() < was.0, "{} {}", self.potential(), was.0);
                    moved += 1;
                    assert!(moved < 100_000, "the moves end");
                }
            }
            if moved == before {
                return (moved, self.known().len());
            }
        }
    }
}

fn one_host(drives: u16) -> Vec<DriveEntry> {
    (0..drives).map(|id| entry(id, 0, 0)).collect()
}

#[test]
fn new_drives_are_filled_and_no_more_moves_than_must() {
    let mut pool = Pool::new(one_host(9), vec![1_000_000; 9], 6, &[1_000; 400]);
    assert_eq!(pool.fills(&pool.used()).spread(), Share::of_points(PercentPoints(40)));
    let (moved, sets) = pool.level(PercentPoints(5));
    let spread = pool.fills(&pool.used()).spread();
    assert!(spread <= Share::of_points(PercentPoints(5)), "{spread:?}");
    // A third of 2,400 shards would be moved to be quite equal.
    assert!((600..=800).contains(&moved), "{moved}");
    assert!(sets <= 80, "few sets share the loss of a few drives: {sets}");
    assert_eq!(pool.level(PercentPoints(5)).0, 0, "it is over");
    // With no difference at all: to within two shards.
    pool.level(PercentPoints(0));
    let used: BTreeSet<u64> = pool.used().into_values().collect();
    assert!(used.last().unwrap() - used.first().unwrap() <= 2_000, "{used:?}");
}

#[test]
fn drives_of_all_sizes_come_to_be_equally_full() {
    let totals: Vec<u64> = (0..12).map(|n| 1_000_000 + 300_000 * (n % 3)).collect();
    let mut pool = Pool::new(one_host(12), totals, 7, &[700; 900]);
    pool.level(PercentPoints(3));
    let spread = pool.fills(&pool.used()).spread();
    assert!(spread <= Share::of_points(PercentPoints(3)), "{spread:?}");
}

/// Three hosts with two shards of each stripe: what is added to one of them takes from that one only.
#[test]
fn no_host_gets_more_shards_of_a_stripe_than_it_had() {
    let mut entries: Vec<DriveEntry> = (0..6).map(|id| entry(id, id / 2, 0)).collect();
    entries.extend((6..9).map(|id| entry(id, 0, 0)));
    let mut pool = Pool::new(entries, vec![1_000_000; 9], 6, &[1_000; 500]);
    let (moved, _) = pool.level(PercentPoints(5));
    let used = pool.used();
    assert!(moved > 0 && (2..6).all(|id| used[&DriveId(id)] == 500_000), "{used:?}");
    assert!([0, 1, 6, 7, 8].iter().all(|id| (180_000..=220_000).contains(&used[&DriveId(*id)])), "{used:?}");
    assert_eq!(pool.level(PercentPoints(5)).0, 0, "nothing can move with gain");
}

/// Drives of a group are levelled among themselves, and how full others are is nothing to them.
#[test]
fn shards_stay_within_their_group() {
    let entries: Vec<DriveEntry> =
        (0..8).map(|id| DriveEntry { group: DriveGroup(u8::from(id >= 4)), ..entry(id, 0, 0) }).collect();
    let sets = sets(&entries, vec![]);
    let set = StripeSet { id: base::StripeSetId(1), drives: (0..2).map(DriveId).collect() };
    let fill = |group, used| {
        let room = ByteCount(1_000);
        DriveFill { group, used: ByteCount(used), total: ByteCount(1_000), room }
    };
    let (main, fast) = (DriveGroup::MAIN, DriveGroup(1));
    let of = |third: u64| {
        let fills = [(0, main, 500), (1, main, 500), (2, main, third), (5, fast, 0), (6, fast, 300)];
        Fills::new(fills.map(|(id, group, used)| (DriveId(id), fill(group, used))))
    };
    assert_eq!(of(500).spread(), Share::of_points(PercentPoints(30)));
    assert_eq!(sets.level(&set, ByteCount(100), &of(500), Share(0)), None);
    assert_eq!(sets.level(&set, ByteCount(100), &of(0), Share(0)).unwrap().to, DriveId(2));
}

#[test]
fn nothing_moves_without_gain_nor_where_there_is_no_room() {
    let sets = sets(&one_host(7), vec![]);
    let set = StripeSet { id: base::StripeSetId(1), drives: (0..6).map(DriveId).collect() };
    let fills = |used: u64, of_new: u64, room: u64| {
        let fill = |used, room| DriveFill {
            group: DriveGroup::MAIN,
            used: ByteCount(used),
            total: ByteCount(1_000),
            room: ByteCount(room),
        };
        let old = (0..6).map(|id| (DriveId(id), fill(used, 0)));
        Fills::new(old.chain([(DriveId(6), fill(of_new, room))]))
    };
    let moves = |fills: &Fills, least| {
        sets.level(&set, ByteCount(100), fills, Share::of_points(PercentPoints(least)))
    };
    assert!(moves(&fills(500, 300, 700), 0).is_some(), "both have as much afterwards");
    assert!(moves(&fills(500, 301, 700), 0).is_none(), "it would only change which is the fuller one");
    assert!(moves(&fills(500, 300, 99), 0).is_none(), "no room");
    assert!(moves(&fills(500, 300, 700), 20).is_some() && moves(&fills(500, 300, 700), 21).is_none());
    assert!(moves(&fills(500, 500, 700), 0).is_none() && moves(&fills(300, 500, 700), 0).is_none());
    assert!(sets.level(&set, ByteCount(0), &fills(500, 0, 700), Share(0)).is_none(), "nothing to gain");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever the drives and stripes are: moves end (each makes the potential smaller), keep domains and
    /// the floor, and use no drive that takes no part.
    #[test]
    fn moves_end_and_keep_what_holds(
        hosts in proptest::collection::vec((0u16..4, 0u16..2), 7..16),
        totals in proptest::collection::vec(20_000u64..80_000, 16),
        sizes in proptest::collection::vec(1u64..900, 1..80),
        filled in 6usize..16,
        aside in 0usize..16,
        floor in 0u64..30_000,
        to in 0u8..20,
    ) {
        let entries: Vec<DriveEntry> = (0u16..).zip(&hosts).map(|(id, (h, e))| entry(id, *h, *e)).collect();
        let count = entries.len();
        let mut pool = Pool::new(entries, totals[..count].to_vec(), filled.min(count), &sizes);
        pool.floor = floor;
        if let Some(entry) = pool.entries.get_mut(aside) {
            entry.state = DriveState::Draining;
        }
        let before = pool.used();
        pool.level(PercentPoints(to));
        for (set, _) in &pool.stripes {
            prop_assert_eq!(set.drives.iter().collect::<BTreeSet<_>>().len(), WIDTH);
        }
        let after = pool.used();
        prop_assert_eq!(before.values().sum::<u64>(), after.values().sum::<u64>(), "no shard comes or goes");
        if aside < count {
            let id = DriveId(u16::try_from(aside).unwrap());
            prop_assert_eq!(before[&id], after[&id]);
        }
        prop_assert_eq!(pool.level(PercentPoints(to)).0, 0);
    }
}
