//! Reclaiming where the tape that is to keep the history has no room for it.

use archive::{Archive, ArchiveError, CheckState, TapeUse};
use base::Vid;
use catalogue::TapeState;
use library::Faults;
use std::time::Duration;

use crate::common::{bytes, migrate_all, path, put, stop, wait_until};
use crate::emptied::{dismounted, single_pool, tapes_of};
use crate::faulty::{Trouble, data};

/// Three tapes that were written to one after the other, in order, and hold nothing any more. The last one
/// alone has the changes of many files; no tape is scratch.
fn emptied(archive: &Archive) -> [Vid; 3] {
    let mut order: Vec<Vid> = Vec::new();
    for (round, files) in [1, 1, 700].into_iter().enumerate() {
        for file in 0..files {
            put(archive, &format!("/{round}/{file}"), &bytes(file, 300));
        }
        migrate_all(archive);
        dismounted(archive);
        for vid in
            tapes_of(archive, "vault-a").into_iter().filter(|vid| !order.contains(vid)).collect::<Vec<_>>()
        {
            archive.set_tape(vid, TapeUse::ReadOnly, "for the test").unwrap();
            order.push(vid);
        }
    }
    for tape in archive.tapes().unwrap().iter().filter(|tape| tape.uuid.is_none()) {
        archive.set_tape(tape.vid, TapeUse::Disabled, "no scratch tape is left").unwrap();
    }
    for (round, files) in [1, 1, 700].into_iter().enumerate() {
        (0..files).for_each(|file| archive.remove(&path(&format!("/{round}/{file}"))).unwrap());
    }
    for vid in &order {
        archive.repack_tape(*vid, "for the test").unwrap();
        wait_until("the tape is empty", || archive.tape_repack(*vid).unwrap().is_some_and(|it| it.done));
    }
    <[Vid; 3]>::try_from(order).expect("each round has its own tape")
}

fn owed_to(archive: &Archive, vid: Vid) -> Option<Vid> {
    match archive.reclaim_tape(vid) {
        Err(ArchiveError::SegmentsOwed { other, .. }) => other,
        other => panic!("it is not reclaimed yet: {other:?}"),
    }
}

/// A reclaim of `last` has `first` take the change log, but that tape ends within the segment that it is to
/// get. It is back in its slot then.
fn ends_in_its_segment(archive: &Archive, faults: &Faults, first: Vid, last: Vid) {
    let before = archive.tape(first).unwrap();
    faults.plan_end(first, data(before.end_of_data.0 + 1));
    assert_eq!(owed_to(archive, last), Some(first));
    wait_until("it was tried", || archive.tape(first).unwrap().mounts > before.mounts);
    dismounted(archive);
}

/// Story: `kist tape reclaim` named the same tape for minutes, and mounted it at each call, though it had no
/// room for the change log; another one that had was not asked.
#[test]
fn a_tape_without_room_is_asked_once_and_then_another_one() {
    let trouble = Trouble::with(2, Duration::from_millis(200), single_pool);
    let (archive, faults) = trouble.open();
    let [first, second, last] = emptied(&archive);
    dismounted(&archive);
    let before = archive.tape(first).unwrap();
    ends_in_its_segment(&archive, &faults, first, last);
    assert!(faults.fired() > 0, "the tape has ended");
    let tried = archive.tape(first).unwrap();
    assert_eq!((tried.state, tried.mounts), (TapeState::Repacking, before.mounts + 1));
    assert!(tried.torn > before.torn, "what stands there is counted: {tried:?}");
    wait_until("another one has it", || match archive.reclaim_tape(last) {
        Ok(()) => true,
        Err(ArchiveError::SegmentsOwed { other, .. }) => {
            assert_eq!(other, Some(second), "the first one has no room");
            false
        }
        Err(error) => panic!("{error}"),
    });
    dismounted(&archive);
    assert_eq!(archive.tape(first).unwrap().mounts, tried.mounts, "it is not mounted in vain again");
    assert_eq!(archive.tape(last).unwrap().state, TapeState::Scratch);
    stop(archive);
}

/// Story: the check of such a tape called a segment that was cut short at the end of the tape damage.
#[test]
fn a_segment_that_was_cut_short_is_no_damage() {
    let trouble = Trouble::with(2, Duration::from_millis(200), single_pool);
    let (archive, faults) = trouble.open();
    let [first, _, last] = emptied(&archive);
    dismounted(&archive);
    ends_in_its_segment(&archive, &faults, first, last);
    archive.check_tapes(&[first]).unwrap();
    let check = || archive.tape_check(first).unwrap().unwrap();
    wait_until("the check is done", || check().state == CheckState::Done);
    let check = check();
    assert_eq!((check.damage_count, check.damage.len()), (0, 0), "{:?}", check.damage);
    assert!(check.torn_blocks > 0, "{check:?}");
    stop(archive);
}

/// The words say which tapes could take the history but for their room, and what helps.
#[test]
fn if_no_tape_has_room_that_is_told() {
    let trouble = Trouble::with(2, Duration::from_millis(200), single_pool);
    let (archive, faults) = trouble.open();
    let [first, second, last] = emptied(&archive);
    dismounted(&archive);
    let tapes = [first, second];
    for vid in tapes {
        faults.plan_end(vid, data(archive.tape(vid).unwrap().end_of_data.0 + 1));
    }
    let mounts = |vid: &Vid| archive.tape(*vid).unwrap().mounts;
    let before: Vec<u64> = tapes.iter().map(mounts).collect();
    let mut said = String::new();
    wait_until("no tape is asked any more", || {
        let error = archive.reclaim_tape(last).unwrap_err();
        said = error.to_string();
        matches!(error, ArchiveError::SegmentsOwed { other: None, .. })
    });
    assert!(said.contains(first.as_str()) && said.contains(second.as_str()), "{said}");
    assert!(said.contains("no room") && said.contains("put in a blank one"), "{said}");
    dismounted(&archive);
    let after: Vec<u64> = tapes.iter().map(mounts).collect();
    assert_eq!(after, before.iter().map(|mounts| mounts + 1).collect::<Vec<_>>(), "each is tried once");
    assert_eq!(archive.tape(last).unwrap().state, TapeState::Repacking);
    stop(archive);
}
