//! Whole campaigns in virtual time against the little archive in `engine`.

use crate::engine::{Engine, GB, Outside, name, policy, secs, vid};
use base::{ClassId, FileId, TapePoolId};
use proptest::prelude::*;
use scheduler::{Action, Event, Reason, STARVATION};

const DAY: u64 = 86_400;

fn want(file: u64, copies: &[usize]) -> Outside {
    Outside::Want { file: FileId(file), bytes: 2 * GB, copies: copies.iter().map(|n| vid(*n)).collect() }
}

/// A fixed sequence of numbers, so that each run is the same.
fn numbers(mut state: u64) -> impl FnMut(u64) -> u64 {
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

/// Mounts for 27,079 files of ten tapes, some of which also lie on one of 48 others. `naive`: only the copy
/// elsewhere, which is newer, is named, as the rule of the newest copy does.
fn mounts_of_duplicates(naive: bool) -> u32 {
    let mut engine = Engine::new(policy(), 4);
    engine.check_every(5_000);
    for tape in 0..58 {
        engine.add_tape(vid(tape), Some(1), 0);
    }
    let mut number = numbers(1);
    for file in 0..27_079 {
        // The ten tapes are not the first by VID, and the order of arrival is no help.
        let home = 48 + number(10) as usize;
        let copies = match number(4) == 0 {
            true if naive => vec![number(48) as usize],
            true => vec![number(48) as usize, home],
            false => vec![home],
        };
        engine.outside(secs(0), want(file, &copies));
    }
    engine.run(secs(30 * DAY));
    assert!(engine.is_drained(), "{} files are left", engine.wanted.len());
    assert_eq!(engine.read, 27_079, "every file is read once");
    engine.mounts
}

/// GridKa listed 27,079 files from 10 tapes. Some of them also existed on other tapes, and because the newest
/// copy was taken, 58 tapes were mounted (twin.md, GK-dup).
#[test]
fn duplicates_cost_no_mounts() {
    assert_eq!(mounts_of_duplicates(false), 10, "one mount for each of the ten tapes");
    assert_eq!(mounts_of_duplicates(true), 58, "the newest copy costs a mount of every tape");
}

#[test]
fn one_drive_does_everything() {
    let mut engine = Engine::new(policy(), 1);
    for tape in 0..6 {
        engine.add_tape(vid(tape), (tape < 2).then_some(1), 500 * GB);
    }
    // More arrives all the time than one mount does, on both sides.
    for hour in 0..48 {
        engine.outside(secs(hour * 3600), Outside::Ingest { class: ClassId(1), bytes: 5 * GB });
        engine.outside(secs(hour * 3600 + 5), want(hour, &[(hour % 2) as usize]));
    }
    engine.run(secs(3 * DAY));
    assert!(engine.is_drained(), "one drive is slow, not dead");
    let migrations = engine.log.iter().filter(|(_, action)| matches!(action, Action::Migrate { .. })).count();
    let recalls = engine.log.iter().filter(|(_, action)| matches!(action, Action::Recall { .. })).count();
    assert!(migrations >= 2 && recalls >= 2, "{migrations} migrations, {recalls} recalls");
}

#[test]
fn a_big_queue_does_not_starve_a_small_one() {
    let mut engine = Engine::new(policy(), 1);
    for tape in 0..12 {
        engine.add_tape(vid(tape), Some(1), 0);
    }
    engine.outside(secs(0), want(1_000_000, &[0]));
    // Ten tapes are wanted again and again, each time with more bytes than tape 0.
    for round in 0..200 {
        for tape in 1..11 {
            for file in 0..3 {
                let file = 10_000 * round + 10 * tape + file;
                engine.outside(secs(round * 600), want(file, &[tape as usize]));
            }
        }
    }
    engine.run(STARVATION + secs(3600));
    assert!(!engine.wanted.contains_key(&FileId(1_000_000)), "the single file waits longer than the bound");
    assert!(!engine.wanted.is_empty(), "the others still keep the drive busy, else this shows nothing");
}

#[test]
fn both_sides_get_the_drive_in_turn() {
    let mut engine = Engine::new(policy(), 1);
    for tape in 0..10 {
        engine.add_tape(vid(tape), None, 0);
    }
    for tape in 20..60 {
        engine.add_tape(vid(tape), None, 6 * GB);
    }
    for file in 0..10 {
        engine.outside(secs(0), want(file, &[file as usize]));
        engine.outside(secs(file * 2), Outside::Ingest { class: ClassId(1), bytes: 5 * GB });
    }
    engine.outside(secs(60), Outside::MigrateNow(None));
    engine.run(secs(5 * DAY));
    assert!(engine.is_drained(), "everything is done");
    let kinds = engine.log.iter().filter_map(|(_, action)| match action {
        Action::Mount { assign, .. } => Some(assign.is_some()),
        _ => None,
    });
    let kinds: Vec<bool> = kinds.collect();
    // Until the recalls are old enough there is only writing.
    let first_read = kinds.iter().position(|writes| !writes).unwrap_or(0);
    let both = &kinds[first_read..first_read + 20];
    assert!(both.windows(2).all(|pair| pair[0] != pair[1]), "in turn while both wait: {kinds:?}");
}

#[test]
fn a_tape_that_fails_in_one_drive_is_tried_in_another() {
    let mut engine = Engine::new(policy(), 2);
    engine.add_tape(vid(1), Some(1), 0);
    engine.outside(secs(0), Outside::FailMounts(1));
    engine.outside(secs(0), want(1, &[1]));
    engine.run(secs(1000));
    assert_eq!(engine.mounts_of(vid(1)), 2, "{:?}", engine.log);
    assert!(engine.is_drained(), "the second drive has read it");
}

/// Writing begins with the fullest begun tape, goes on with the next when it is full, and takes scratch tapes
/// last.
#[test]
fn tapes_are_filled_before_new_ones_are_begun() {
    let mut engine = Engine::new(policy(), 1);
    engine.add_tape(vid(1), None, 100 * GB);
    engine.add_tape(vid(2), None, 100 * GB);
    engine.add_tape(vid(3), Some(1), 20 * GB);
    engine.add_tape(vid(4), Some(1), 10 * GB);
    for file in 0..12 {
        engine.outside(secs(file * 10), Outside::Ingest { class: ClassId(1), bytes: 5 * GB });
    }
    engine.run(secs(2 * DAY));
    assert!(engine.is_drained(), "12 containers for each of two pools are written");
    let mounts = engine.log.iter().filter_map(|(_, action)| match action {
        Action::Mount { vid, assign, .. } => Some((*vid, *assign)),
        _ => None,
    });
    let first: Vec<_> = mounts.filter(|(_, assign)| *assign != Some(TapePoolId(2))).collect();
    assert_eq!(
        first,
        [(vid(4), None), (vid(3), None), (vid(2), Some(TapePoolId(1)))],
        "pool 2 has taken tape 1"
    );
}

#[test]
fn without_scratch_tapes_the_reason_says_so() {
    let mut engine = Engine::new(policy(), 1);
    engine.outside(secs(0), Outside::Ingest { class: ClassId(1), bytes: 60 * GB });
    engine.run(secs(60));
    assert_eq!(engine.scheduler.why_migrating(TapePoolId(1), engine.now), Reason::NoScratchTape);
    engine.add_tape(vid(1), None, 500 * GB);
    engine.run(secs(30));
    let mounting = Reason::Mounting { drive: name(0), vid: vid(1) };
    assert_eq!(engine.scheduler.why_migrating(TapePoolId(1), engine.now), mounting);
}

/// What a full tape left over does not wait for bytes or age again.
#[test]
fn a_campaign_goes_on_after_a_full_tape() {
    let mut engine = Engine::new(policy(), 2);
    for tape in 1..5 {
        engine.add_tape(vid(tape), None, 45 * GB);
    }
    for second in 0..10 {
        engine.outside(secs(second), Outside::Ingest { class: ClassId(1), bytes: 6 * GB });
    }
    engine.run(secs(1200));
    assert!(engine.is_drained(), "60 GB are more than the 50 GB of the policy, the rest of 15 GB is not");
    assert_eq!(engine.mounts, 4, "two tapes for each of two pools");
}

#[test]
fn claims_belong_to_one_session() {
    let mut engine = Engine::new(policy(), 2);
    engine.add_tape(vid(1), Some(1), 0);
    engine.add_tape(vid(2), Some(1), 0);
    assert_eq!(engine.scheduler.claim(vid(1), &[FileId(1)]), [false], "no session runs");
    engine.outside(secs(0), want(1, &[1, 2]));
    engine.outside(secs(0), want(2, &[1]));
    engine.outside(secs(0), want(3, &[2]));
    // Both tapes are being read after the age of 300 s, the mount of 90 s and before the first file.
    engine.run(secs(392));
    let files = [FileId(1), FileId(2), FileId(3), FileId(4)];
    assert_eq!(
        engine.scheduler.claim(vid(2), &files),
        [true, false, true, false],
        "its own and the shared one"
    );
    assert_eq!(
        engine.scheduler.claim(vid(1), &files),
        [false, true, false, false],
        "the shared one is taken"
    );
    engine.tell(Event::CopyFailed(FileId(1), vid(2)));
    assert_eq!(engine.scheduler.claim(vid(2), &files[..1]), [false], "the copy rests");
    assert_eq!(engine.scheduler.claim(vid(1), &files[..1]), [true], "the other copy may be read");
    engine.run(secs(DAY));
    assert!(engine.is_drained());
}

fn outside(tapes: usize, drives: usize, failures: bool) -> impl Strategy<Value = Outside> {
    let copies = proptest::collection::btree_set(0..tapes, 1..=3);
    let want = (0u64..200, 1u64..60, copies).prop_map(|(file, gb, copies)| Outside::Want {
        file: FileId(file),
        bytes: gb * GB,
        copies: copies.into_iter().map(vid).collect(),
    });
    let ingest = (1u16..=2, 1u64..40)
        .prop_map(|(class, gb)| Outside::Ingest { class: ClassId(class), bytes: gb * GB });
    let trouble = prop_oneof![
        (0..drives).prop_map(Outside::DriveDown),
        (0..drives).prop_map(Outside::DriveUp),
        (0u32..4).prop_map(Outside::FailMounts),
        (0u32..4).prop_map(Outside::FailReads),
        (0u32..3).prop_map(Outside::FailSessions),
        (0..tapes).prop_map(|tape| Outside::Unreadable(vid(tape))),
        (0..tapes).prop_map(|tape| Outside::Readable(vid(tape))),
        (0u64..200).prop_map(|file| Outside::Cancel(FileId(file))),
        proptest::option::of(1u16..=2).prop_map(|class| Outside::MigrateNow(class.map(ClassId))),
    ];
    prop_oneof![5 => want, 4 => ingest, u32::from(failures) * 4 => trouble]
}

fn run_script(script: &[(u64, Outside)], drives: usize, tapes: usize) -> Engine {
    let mut engine = Engine::new(policy(), drives);
    for tape in 0..tapes {
        engine.add_tape(vid(tape), [None, Some(1), Some(2)][tape % 3], 60 * GB);
    }
    // Enough to write everything, some of it more than once.
    for tape in 100..200 {
        engine.add_tape(vid(tape), None, 500 * GB);
    }
    for (after, what) in script {
        engine.outside(secs(*after), what.clone());
    }
    engine.run(secs(DAY));
    // The trouble is over.
    for what in [Outside::FailMounts(0), Outside::FailReads(0), Outside::FailSessions(0)] {
        engine.outside(secs(0), what);
    }
    (0..drives).for_each(|drive| engine.outside(secs(0), Outside::DriveUp(drive)));
    (0..tapes).for_each(|tape| engine.outside(secs(0), Outside::Readable(vid(tape))));
    engine.run(secs(10 * DAY));
    engine
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Whatever happens, once it stops everything is done; and the same again gives the same actions.
    #[test]
    fn everything_ends_and_repeats(
        drives in 1usize..4,
        tapes in 2usize..8,
        script in proptest::collection::vec((0..DAY, outside(7, 3, true)), 1..80),
    ) {
        let known = |what: &Outside| match what {
            Outside::Want { copies, .. } => copies.iter().all(|copy| *copy < vid(tapes)),
            Outside::Unreadable(tape) | Outside::Readable(tape) => *tape < vid(tapes),
            _ => true,
        };
        let script: Vec<_> = script.into_iter().filter(|(_, what)| known(what)).collect();
        let engine = run_script(&script, drives, tapes);
        for file in engine.wanted.keys() {
            prop_assert!(false, "{file}: {:?}", engine.scheduler.why_recalling(*file, engine.now));
        }
        for pool in [TapePoolId(1), TapePoolId(2)] {
            let why = engine.scheduler.why_migrating(pool, engine.now);
            prop_assert_eq!(&why, &Reason::NothingWaits, "{}", why);
        }
        prop_assert!(engine.is_drained(), "{:?} {:?}", engine.todo, engine.queued);
        let again = run_script(&script, drives, tapes);
        prop_assert_eq!(engine.log, again.log);
    }

    /// What is asked for together is read with one mount of a tape at most.
    #[test]
    fn one_mount_a_tape_and_campaign(
        drives in 1usize..4,
        files in proptest::collection::vec((0usize..8, 0usize..8), 1..120),
    ) {
        let mut engine = Engine::new(policy(), drives);
        (0..8).for_each(|tape| engine.add_tape(vid(tape), Some(1), 0));
        for (file, (first, second)) in files.iter().enumerate() {
            engine.outside(secs(0), want(file as u64, &[*first, *second]));
        }
        engine.run(secs(DAY));
        prop_assert!(engine.is_drained());
        prop_assert_eq!(engine.read, files.len() as u64);
        for tape in 0..8 {
            prop_assert!(engine.mounts_of(vid(tape)) <= 1, "tape {tape} was mounted again");
        }
        let needed = (0..8).filter(|tape| files.iter().any(|(a, b)| a == tape && b == tape)).count();
        prop_assert!(engine.mounts as usize >= needed, "the test itself is wrong");
    }
}
