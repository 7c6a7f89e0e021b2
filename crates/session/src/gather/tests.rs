use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use proptest::prelude::*;

use super::*;

const SIZE: PackSize = PackSize { bytes: 800, members: 40, limit: PackLimit::NONE };

/// Runs a whole queue through; gives packs and what was left.
fn gather(queue: &[Waiting], rest: Rest) -> (Vec<Vec<Waiting>>, (u64, u64)) {
    let mut gather = Gather::new(SIZE, rest);
    let place = |file: FileId| Ok::<_, Infallible>(format!("{:03}", 999 - file.0 % 1000));
    let mut packs = Vec::new();
    for file in queue {
        packs.extend(gather.push(*file));
        if gather.window_is_full() {
            let Ok(mixed) = gather.mix(false, place);
            packs.extend(mixed);
        }
        assert!(gather.own.files.len() < SIZE.members * 3 / 2, "what is held is bounded");
    }
    packs.extend(gather.end());
    let Ok(mixed) = gather.mix(true, place);
    packs.extend(mixed);
    (packs, gather.left())
}

/// Data sets of these files' sizes, in the order of the queue.
fn queue(sets: &[Vec<u64>]) -> Vec<Waiting> {
    let mut file = 0;
    let mut queue = Vec::new();
    for (set, sizes) in sets.iter().enumerate() {
        for size in sizes {
            file += 1;
            queue.push(Waiting { data_set: set as u64, file: FileId(file), size: *size });
        }
    }
    queue
}

fn bytes(files: &[Waiting]) -> u64 {
    files.iter().map(|file| file.size).sum()
}

fn data_sets(pack: &[Waiting]) -> BTreeSet<u64> {
    pack.iter().map(|file| file.data_set).collect()
}

fn sets() -> impl Strategy<Value = Vec<Vec<u64>>> {
    proptest::collection::vec(
        prop_oneof![
            4 => proptest::collection::vec(0u64..100, 1..12),
            2 => proptest::collection::vec(0u64..100, 1..120),
            1 => proptest::collection::vec(0u64..3, 1..300),
        ],
        0..120,
    )
}

/// Story: of a rest between one pack and one and a half the first half by bytes went first. All bytes were
/// in a few files, and the other half had more members than a pack may have.
#[test]
fn halves_of_a_rest_are_packs_by_members_too() {
    let sizes: Vec<u64> = [vec![20; 4], vec![0; 50]].concat();
    let (packs, left) = gather(&queue(&[sizes]), Rest::Goes);
    let lengths: Vec<usize> = packs.iter().map(Vec::len).collect();
    assert_eq!((lengths, left), (vec![14, 40], (0, 0)));
}

proptest! {
    #[test]
    fn every_file_goes_once_or_is_left(sets in sets()) {
        let queue = queue(&sets);
        for rest in [Rest::Stays, Rest::Mixed, Rest::Goes] {
            let (packs, (left, left_bytes)) = gather(&queue, rest);
            let gone: Vec<Waiting> = packs.iter().flatten().copied().collect();
            let once: BTreeSet<Waiting> = gone.iter().copied().collect();
            prop_assert_eq!(once.len(), gone.len());
            prop_assert!(once.is_subset(&queue.iter().copied().collect()));
            prop_assert_eq!(gone.len() as u64 + left, queue.len() as u64);
            prop_assert_eq!(bytes(&gone) + left_bytes, bytes(&queue));
            prop_assert!(rest != Rest::Goes || left == 0);
            prop_assert!(packs.iter().all(|pack| !pack.is_empty() && pack.len() <= SIZE.members));
        }
    }

    #[test]
    fn files_of_a_data_set_keep_their_order(sets in sets()) {
        let (packs, _) = gather(&queue(&sets), Rest::Goes);
        let mut last: BTreeMap<u64, FileId> = BTreeMap::new();
        for file in packs.iter().flatten() {
            prop_assert!(last.insert(file.data_set, file.file).is_none_or(|before| before < file.file));
        }
    }

    #[test]
    fn who_fills_half_a_pack_shares_none(sets in sets()) {
        let queue = queue(&sets);
        let (packs, _) = gather(&queue, Rest::Goes);
        for (set, sizes) in sets.iter().enumerate() {
            let set = set as u64;
            let own: Vec<_> = packs.iter().filter(|pack| data_sets(pack).contains(&set)).collect();
            let half = sizes.iter().sum::<u64>() * 2 >= SIZE.bytes || sizes.len() * 2 >= SIZE.members;
            if half {
                prop_assert!(own.iter().all(|pack| data_sets(pack).len() == 1));
            } else {
                prop_assert_eq!(own.len(), 1);
            }
        }
    }

    #[test]
    fn packs_are_few(sets in sets()) {
        let queue = queue(&sets);
        let (packs, _) = gather(&queue, Rest::Goes);
        // Two packs that follow each other hold together a pack's worth, but for the unevenness of their
        // files.
        let by_bytes = bytes(&queue) / (SIZE.bytes * 3 / 8);
        let by_members = queue.len() / (SIZE.members * 3 / 8);
        prop_assert!(packs.len() as u64 <= by_bytes + by_members as u64 + 1);
    }

    #[test]
    fn only_full_packs_go_when_the_rest_stays(sets in sets()) {
        let (packs, _) = gather(&queue(&sets), Rest::Stays);
        for pack in packs {
            prop_assert_eq!(data_sets(&pack).len(), 1);
            prop_assert!(bytes(&pack) >= SIZE.bytes || pack.len() == SIZE.members);
        }
    }
}

#[test]
fn neighbours_in_the_tree_go_together() {
    // The places of the test fall as the numbers of files rise: the queue's order is turned round.
    let sets: Vec<Vec<u64>> = (0..6).map(|_| vec![300]).collect();
    let (packs, _) = gather(&queue(&sets), Rest::Goes);
    let sets: Vec<Vec<u64>> =
        packs.iter().map(|pack| pack.iter().map(|file| file.data_set).collect()).collect();
    assert_eq!(sets, [[5, 4], [3, 2], [1, 0]]);
}

#[test]
fn the_window_is_bounded() {
    let many = WINDOW_FILES_MAX + 5_000;
    let sets: Vec<Vec<u64>> = (0..many).map(|_| vec![0]).collect();
    let queue = queue(&sets);
    let mut gather = Gather::new(SIZE, Rest::Goes);
    let (mut held, mut mixes, mut gone) = (0, 0, 0);
    for file in queue {
        gone += gather.push(file).len();
        held = held.max(gather.small_files);
        if gather.window_is_full() {
            let Ok(packs) = gather.mix(false, |_| Ok::<_, Infallible>(String::new()));
            (mixes, gone) = (mixes + 1, gone + packs.iter().map(Vec::len).sum::<usize>());
        }
    }
    assert_eq!((held, mixes), (WINDOW_FILES_MAX, 1));
    gone += gather.end().len();
    let Ok(packs) = gather.mix(true, |_| Ok::<_, Infallible>(String::new()));
    assert_eq!(gone + packs.iter().map(Vec::len).sum::<usize>(), many);
}
