use std::collections::{BTreeMap, BTreeSet};

use base::{ByteCount, Vid};
use proptest::prelude::*;

use super::*;
use crate::fixture::{TAPE, holding, site};
use scenario::laws::Law;
use scenario::model::SizeLaw;

fn file(sequence: u64) -> FileNumber {
    FileNumber { class: ClassIndex(0), sequence }
}

/// Where each file stands, by the letter of [`Holding`].
fn naive(holding: &Holding, first_tape: u32, size: impl Fn(u64) -> u64) -> Vec<(u32, u64)> {
    let runs = holding.files.div_ceil(u64::from(holding.run_files));
    let lanes = u64::from(holding.spread).min(runs).max(1);
    let mut lane: Vec<(u32, u64)> = (0..lanes).map(|at| (first_tape + at as u32, 0)).collect();
    let mut next = first_tape + lanes as u32;
    let mut places = Vec::new();
    for sequence in 0..holding.files {
        let lane = &mut lane[(sequence / u64::from(holding.run_files) % lanes) as usize];
        let bytes = size(sequence);
        if lane.1 > 0 && lane.1 + bytes > holding.fill.0 {
            *lane = (next, 0);
            next += 1;
        }
        places.push(*lane);
        lane.1 += bytes;
    }
    places
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn files_stand_where_a_list_of_all_files_says(
        files in 1u64..6_000,
        run_files in 1u32..300,
        spread in 1u32..12,
        fill in 20_000_000_000u64..TAPE,
        copies in 1u16..3,
        asked in proptest::collection::vec(0u64..6_000, 50),
    ) {
        let mut site = site(copies);
        let law = Law::Lognormal { mean: 2e9, sigma: 1.5, least: 1, most: 30_000_000_000 };
        site.classes[0].sizes = law.table().unwrap();
        site.holdings = vec![Holding { run_files, spread, fill: ByteCount(fill), ..holding(files) }];
        let mut holdings = Holdings::new(&site, 1);
        let size = |sequence| site.classes[0].sizes.size(file(sequence));
        let expected = naive(&site.holdings[0], 0, size);
        let tapes = expected.iter().map(|place| place.0).max().unwrap() + 1;
        prop_assert_eq!(holdings.tapes().len(), usize::from(copies) * tapes as usize + 3);
        for sequence in asked.into_iter().filter(|asked| *asked < files).chain(0..files) {
            let found = holdings.copies(file(sequence));
            prop_assert_eq!(found.len(), usize::from(copies));
            let (tape, byte) = expected[sequence as usize];
            for (copy, place) in found.iter().enumerate() {
                prop_assert_eq!((place.tape.0, place.byte), (tape + copy as u32 * tapes, byte));
            }
        }
        let mut used = vec![(0, 0); tapes as usize];
        for (sequence, (tape, byte)) in expected.iter().enumerate() {
            used[*tape as usize].0 = byte + size(sequence as u64);
            used[*tape as usize].1 += 1;
        }
        let known: Vec<_> = holdings.tapes().iter().map(|tape| (tape.used, tape.files)).collect();
        prop_assert_eq!(&known[..used.len()], &used[..]);
        let first: Vec<u64> = holdings.on_first_tapes(ClassIndex(0), 2).into_iter().flatten().collect();
        let wanted: Vec<u64> = (0..files).filter(|at| expected[*at as usize].0 < 2).collect();
        prop_assert_eq!(first, wanted);
    }

    #[test]
    fn ranges_written_are_found_as_in_a_list_of_files(
        writes in proptest::collection::vec((0usize..2, 1u64..400, 0u8..10), 1..60),
        asked in proptest::collection::vec(0u64..10_000, 100),
        recall_packs: bool,
    ) {
        let mut site = site(2);
        site.classes[0].recall_packs = recall_packs;
        site.classes[0].sizes = SizeLaw::Listed((0..10_000).map(|at| 1 + at % 977).collect());
        let mut holdings = Holdings::new(&site, 1);
        let mut list: BTreeMap<u64, Vec<(u32, u64)>> = BTreeMap::new();
        // Two writers, one for each copy, each on a tape of its own that it sometimes changes.
        let mut writers = [(0u64, 0u32, 0u64), (0, 1, 0)];
        for (copy, files, change) in writes {
            let (next, tape, byte) = &mut writers[copy];
            if change == 0 {
                (*tape, *byte) = ((*tape + 2) % 3, 5_000_000_000 + *next);
            }
            let range = *next..*next + files;
            let place = Place { tape: TapeIndex(*tape), byte: *byte, order: 0 };
            holdings.record(ClassIndex(0), range.clone(), place);
            for sequence in range {
                list.entry(sequence).or_default().push((*tape, *byte));
                *byte += holdings.size(file(sequence));
            }
            *next += files;
        }
        for sequence in asked.into_iter().chain(0..writers[0].0.max(writers[1].0)) {
            let mut found: Vec<_> =
                holdings.copies(file(sequence)).iter().map(|place| (place.tape.0, place.byte)).collect();
            let mut expected = list.get(&sequence).cloned().unwrap_or_default();
            found.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(found, expected);
        }
    }
}

/// 10 tapes listed at GridKa; the newest copies of their files lay on 48 more.
#[test]
fn newest_copies_need_58_tapes_where_10_hold_all() {
    let mut site = site(1);
    let duplicates = Holding { duplicates_per_mille: 200, duplicate_tapes: 48, ..holding(54_160) };
    site.holdings = vec![Holding { fill: ByteCount(2_708 * 2_000_000_000), ..duplicates }];
    let mut holdings = Holdings::new(&site, 7);
    let listed: Vec<u64> = holdings.on_first_tapes(ClassIndex(0), 10).into_iter().flatten().collect();
    assert_eq!(listed.len(), 27_080);
    let (mut newest, mut all) = (BTreeSet::new(), BTreeSet::new());
    for sequence in listed {
        let copies = holdings.copies(file(sequence));
        newest.insert(copies.iter().max_by_key(|copy| copy.order).unwrap().tape);
        all.insert(copies[0].tape);
    }
    assert_eq!((newest.len(), all.len()), (58, 10));
    // The duplicates lie among others' files on full tapes.
    assert_eq!(holdings.tapes().len(), 20 + 48 + 3);
    assert!(holdings.tapes()[20..68].iter().all(|tape| tape.used > TAPE * 8 / 10 && tape.used <= TAPE));
}

#[test]
fn neighbouring_ranges_on_a_tape_become_one() {
    let mut site = site(1);
    let mut holdings = Holdings::new(&site, 1);
    let write = |holdings: &mut Holdings| {
        for pack in 0..100u64 {
            let place = Place { tape: TapeIndex(0), byte: pack * (20_000_000_000 + 4096), order: 0 };
            holdings.record(ClassIndex(0), pack * 10..pack * 10 + 10, place);
        }
    };
    write(&mut holdings);
    assert_eq!(holdings.classes[0].records.ranges(), 1);
    let found = holdings.copies(file(995))[0].byte;
    let exact = 99 * (20_000_000_000 + 4096) + 10_000_000_000;
    assert!(found <= exact && exact - found < 1_000_000, "{found} {exact}");
    // Where packs are recalled as a whole they stay apart.
    site.classes[0].recall_packs = true;
    let mut holdings = Holdings::new(&site, 1);
    write(&mut holdings);
    assert_eq!(holdings.classes[0].records.ranges(), 100);
    assert!(holdings.pack_of(file(995)).into_iter().flatten().eq(990..1000));
}

#[test]
fn packs_of_files_laid_out_end_with_their_run() {
    let mut site = site(1);
    site.holdings = vec![Holding { run_files: 25, ..holding(1000) }];
    let holdings = Holdings::new(&site, 1);
    assert!(holdings.pack_of(file(0)).into_iter().flatten().eq(0..10));
    assert!(holdings.pack_of(file(24)).into_iter().flatten().eq(20..25));
    assert!(holdings.pack_of(file(25)).into_iter().flatten().eq(25..35));
    assert!(holdings.pack_of(file(5000)).into_iter().flatten().eq(5000..5001));
    site.classes[0].large = ByteCount(1000);
    assert!(Holdings::new(&site, 1).pack_of(file(7)).into_iter().flatten().eq(7..8));
}

#[test]
fn a_lost_tape_has_no_copies_and_new_files_have_none() {
    let mut site = site(2);
    site.holdings = vec![holding(10)];
    let mut holdings = Holdings::new(&site, 1);
    assert_eq!(holdings.copies(file(3)).len(), 2);
    holdings.forget_tape(TapeIndex(0));
    let left: Vec<TapeIndex> = holdings.copies(file(3)).iter().map(|place| place.tape).collect();
    assert_eq!(left, [TapeIndex(1)]);
    let new = holdings.put(ClassIndex(0));
    assert_eq!((new.sequence, holdings.files(ClassIndex(0))), (10, 11));
    assert!(holdings.copies(new).is_empty());
}

#[test]
fn volume_identifiers_are_in_order() {
    let indices = [0, 1, 9, 10, 35, 36, 46_655, 46_656, 1_000_000];
    let vids: Vec<Vid> = indices.iter().map(|index| Holdings::vid(TapeIndex(*index))).collect();
    assert!(vids.is_sorted());
    assert_eq!((vids[0].as_str(), vids[5].as_str()), ("A00000", "A00010"));
    for (index, vid) in indices.iter().zip(vids) {
        assert_eq!(Holdings::index_of(vid), Some(TapeIndex(*index)));
    }
    assert_eq!(Holdings::index_of(Vid::new("000001").unwrap()), None);
}

/// A pack of files of several data sets has them in several runs: a recall of one brings back all.
#[test]
fn a_pack_of_several_runs_is_recalled_as_a_whole() {
    let mut site = site(1);
    (site.classes[0].recall_packs, site.classes[0].large) = (true, ByteCount(1 << 40));
    let mut holdings = Holdings::new(&site, 1);
    let runs = [3..5, 9..10, 20..24];
    for run in &runs {
        holdings.record(ClassIndex(0), run.clone(), Place { tape: TapeIndex(0), byte: run.start, order: 0 });
    }
    holdings.record_pack(ClassIndex(0), &runs);
    for sequence in [3, 4, 9, 20, 23] {
        let file = FileNumber { class: ClassIndex(0), sequence };
        assert_eq!(holdings.pack_of(file), runs, "{sequence}");
    }
}
