//! What keeps a drive from a tape: suspect copies, failures, libraries, pool space, streams, robots, rests.

use crate::engine::{Engine, GB, Outside, at, name, policy, secs, vid};
use base::{ByteCount, ClassId, FailureCause, FileId, LibraryId, ShareId, TapePoolId, Timestamp, Vid};
use scheduler::{
    ASIDE_REST_MAX, ASIDE_RESTS, Action, Backlog, DRIVE_FAILURES_MAX, DriveState, Event, Failure, JOIN_MAX,
    Policy, Reason, Scheduler, SessionEnd, SharePolicy, ShortRoom, TAPE_FAILURES_MAX, TapeSummary,
    WantedFile,
};

fn want(file: u64, copies: &[usize]) -> Outside {
    Outside::Want { file: FileId(file), bytes: 2 * GB, copies: copies.iter().map(|n| vid(*n)).collect() }
}

fn mounts(actions: &[Action]) -> Vec<(String, Vid)> {
    let mounts = actions.iter().filter_map(|action| match action {
        Action::Mount { drive, vid, .. } => Some((drive.clone(), *vid)),
        _ => None,
    });
    mounts.collect()
}

/// A scheduler that is told events by hand.
struct Hand {
    scheduler: Scheduler,
    now: i64,
    /// Tapes that were cleared of a drive's failures.
    cleared: Vec<Vid>,
}

impl Hand {
    fn new(policy: Policy, drives: usize, tapes: usize) -> Self {
        let mut hand = Hand { scheduler: Scheduler::new(policy), now: 1000, cleared: Vec::new() };
        (0..tapes).for_each(|tape| drop(hand.tape(tape, false)));
        (0..drives).for_each(|drive| drop(hand.tell(Event::DriveUp(name(drive)))));
        hand
    }

    fn tell(&mut self, event: Event) -> Vec<(String, Vid)> {
        let mut actions = Vec::new();
        self.scheduler.step(at(self.now), event, &mut actions);
        self.scheduler.assert_consistent();
        let clear = |action: &Action| if let Action::Clear { vid, .. } = action { Some(*vid) } else { None };
        self.cleared.extend(actions.iter().filter_map(clear));
        mounts(&actions)
    }

    fn tape(&mut self, number: usize, suspect: bool) -> Vec<(String, Vid)> {
        let tape_pool = Some(TapePoolId(1));
        let summary = TapeSummary { tape_pool, readable: true, suspect, ..TapeSummary::default() };
        self.tell(Event::Tape(vid(number), summary))
    }

    fn want(&mut self, file: u64, gb: u64, priority: u8, copies: &[usize]) -> Vec<(String, Vid)> {
        let (file, bytes, since) = (FileId(file), ByteCount(gb * GB), at(self.now));
        let copies = copies.iter().map(|number| vid(*number)).collect();
        self.tell(Event::Wanted { file, bytes, since, priority, share: ShareId(0), copies })
    }

    fn why(&self, file: u64) -> Reason {
        self.scheduler.why_recalling(FileId(file), at(self.now)).unwrap()
    }
}

#[test]
fn a_tape_is_mounted_for_bytes_files_age_or_priority() {
    let policy = || Policy { recall_files: 3, recall_at_once: 8, ..policy() };
    let mut hand = Hand::new(policy(), 1, 2);
    assert_eq!(hand.want(1, 99, 7, &[0]), []);
    assert_eq!(hand.want(2, 1, 0, &[0]), [(name(0), vid(0))], "100 GB");
    let mut hand = Hand::new(policy(), 1, 2);
    assert_eq!(hand.want(1, 1, 0, &[0]), []);
    assert_eq!(hand.want(2, 1, 0, &[0]), []);
    assert_eq!(hand.want(3, 1, 0, &[0]), [(name(0), vid(0))], "three files");
    let mut hand = Hand::new(policy(), 1, 2);
    assert_eq!(hand.want(1, 1, 8, &[0]), [(name(0), vid(0))], "an urgent file");
    let mut hand = Hand::new(policy(), 1, 2);
    assert_eq!(hand.want(1, 1, 0, &[0]), []);
    hand.now += 300;
    assert_eq!(hand.tell(Event::Tick), [(name(0), vid(0))], "five minutes");
}

#[test]
fn the_best_priority_goes_before_the_least_drive_time() {
    let mut hand = Hand::new(policy(), 0, 3);
    hand.want(1, 500, 3, &[0]);
    hand.want(2, 100, 4, &[1]);
    hand.want(3, 400, 4, &[2]);
    let first = hand.tell(Event::DriveUp(name(0)));
    assert_eq!(first, [(name(0), vid(1))], "priority 4, and read sooner than the other one");
}

/// Until 2026-11 the most bytes went first: with one wanted file a tape the longest read, for which all
/// others waited.
#[test]
fn what_is_read_sooner_goes_first_until_it_is_much_younger() {
    let large_and_small = |apart: i64| {
        let mut hand = Hand::new(policy(), 0, 2);
        hand.want(1, 200, 0, &[0]);
        hand.now += apart;
        hand.want(2, 100, 0, &[1]);
        hand.tell(Event::DriveUp(name(0)))
    };
    // 100 GB take 278 s longer, which is an age of 32 times as much.
    assert_eq!(large_and_small(0), [(name(0), vid(1))]);
    assert_eq!(large_and_small(8_800), [(name(0), vid(1))]);
    assert_eq!(large_and_small(8_900), [(name(0), vid(0))]);
}

/// Which tape gets the first mount where so many drives are up and so many may mount at once: the one with
/// 100 GB, or the one with 10 GB that were wanted so much later.
fn first_of_large_and_small(drives: usize, mounts_at_once_max: usize, apart: i64) -> Vid {
    let hours = secs(3 * 3600);
    let recall_bytes = ByteCount(u64::MAX);
    let mut hand =
        Hand::new(Policy { mounts_at_once_max, recall_age: hours, recall_bytes, ..policy() }, drives, 2);
    assert_eq!(hand.want(1, 100, 0, &[0]), []);
    hand.now += apart;
    assert_eq!(hand.want(2, 10, 0, &[1]), []);
    hand.now += 3 * 3600;
    hand.tell(Event::Tick)[0].1
}

/// Four drives read a tape's files four times as soon as one, so a long read holds up the others a quarter.
#[test]
fn the_more_drives_the_less_a_long_read_holds_up() {
    // 90 GB take 250 s longer: 32 times that, and a quarter of it.
    assert_eq!(first_of_large_and_small(1, 1, 7_900), vid(1));
    assert_eq!(first_of_large_and_small(1, 1, 8_100), vid(0));
    assert_eq!(first_of_large_and_small(4, 4, 1_900), vid(1));
    assert_eq!(first_of_large_and_small(4, 4, 2_100), vid(0));
}

/// Until 2026-11 short reads went first here too, and came all together, which robots cannot follow.
#[test]
fn where_mounts_are_scarce_a_short_read_is_no_cheaper() {
    assert_eq!(first_of_large_and_small(4, 4, 60), vid(1));
    assert_eq!(first_of_large_and_small(4, 1, 60), vid(0));
}

/// Two files take less of a drive together than one mount for each, so each of them less than a single one.
#[test]
fn a_tape_with_more_files_goes_first() {
    let mut hand = Hand::new(policy(), 0, 2);
    hand.want(1, 100, 0, &[0]);
    hand.now += 60;
    hand.want(2, 100, 0, &[1]);
    hand.want(3, 100, 0, &[1]);
    assert_eq!(hand.tell(Event::DriveUp(name(0))), [(name(0), vid(1))]);
}

/// Tape 0 would be read sooner, but all that is on it is on tape 1 too, which has to be mounted anyway.
#[test]
fn a_copy_that_another_mount_brings_too_costs_no_mount() {
    let mut engine = Engine::new(policy(), 1);
    (0..2).for_each(|tape| engine.add_tape(vid(tape), Some(1), 0));
    engine.outside(secs(0), want(1, &[0, 1]));
    engine.outside(secs(0), Outside::Want { file: FileId(2), bytes: 900 * GB, copies: vec![vid(1)] });
    engine.run(secs(40_000));
    assert!(engine.is_drained());
    assert_eq!((engine.mounts_of(vid(0)), engine.mounts_of(vid(1))), (0, 1));
}

/// Tape 0 is suspect: what lies on tape 1 too is read from there, and only the rest from tape 0.
#[test]
fn suspect_copies_are_read_last() {
    let mut engine = Engine::new(policy(), 1);
    (0..3).for_each(|tape| engine.add_tape(vid(tape), Some(1), 0));
    engine.set_suspect(vid(0), true);
    for file in 0..20 {
        engine.outside(secs(0), want(file, &[0, 1]));
    }
    engine.run(secs(3000));
    assert!(engine.is_drained());
    assert_eq!((engine.mounts_of(vid(0)), engine.mounts_of(vid(1))), (0, 1), "the suspect tape is spared");
    engine.outside(secs(0), want(100, &[0]));
    engine.outside(secs(0), want(101, &[0, 2]));
    engine.outside(secs(1), Outside::Unreadable(vid(2)));
    engine.run(secs(3000));
    assert!(engine.is_drained(), "no other copy can be had");
    assert_eq!((engine.mounts_of(vid(0)), engine.mounts_of(vid(2))), (1, 0));
    // It waits for the better copy again as soon as there is one.
    engine.outside(secs(0), Outside::Readable(vid(2)));
    engine.outside(secs(1), want(102, &[0, 2]));
    engine.run(secs(3000));
    assert_eq!((engine.mounts_of(vid(0)), engine.mounts_of(vid(2))), (1, 1));
}

#[test]
fn a_tape_that_fails_in_three_drives_is_set_aside() {
    let mut hand = Hand::new(Policy { recall_age: secs(0), ..policy() }, 4, 1);
    let mut drives = vec![hand.want(1, 1, 0, &[0])[0].0.clone()];
    while drives.len() < TAPE_FAILURES_MAX {
        let drive = drives.last().unwrap().clone();
        let next = hand.tell(Event::MountFailed(drive, vid(0), "jam".into()));
        drives.push(next[0].0.clone());
    }
    let last = drives.last().unwrap().clone();
    assert_eq!(hand.tell(Event::MountFailed(last, vid(0), "jam".into())), [], "not in the fourth drive");
    let Reason::Resting { until, cause } = hand.why(1) else { panic!("{:?}", hand.why(1)) };
    assert_eq!(until, at(hand.now).plus(policy().retry_delay * ASIDE_RESTS));
    assert!(cause.contains("drive0, drive1, drive2") && cause.contains("jam"), "{cause}");
    assert_eq!(hand.scheduler.set_aside().count(), 1);
    assert_eq!(hand.tell(Event::TapeReleased(vid(0))).len(), 1, "an operator has looked at it");
    assert_eq!(hand.scheduler.set_aside().count(), 0);
}

#[test]
fn a_drive_that_fails_with_three_tapes_is_set_aside() {
    let mut hand = Hand::new(Policy { recall_age: secs(0), ..policy() }, 1, 4);
    let mut next = Vec::new();
    for tape in 0..4 {
        next.extend(hand.want(tape, 1, 0, &[tape as usize]));
    }
    for failure in 1..=DRIVE_FAILURES_MAX {
        let (drive, tape) = next[0].clone();
        hand.tell(Event::Mounted(drive.clone(), tape));
        assert_eq!(hand.tell(Event::RecallEnded(drive.clone(), SessionEnd::Failed("read error".into()))), []);
        next = hand.tell(Event::Unmounted(drive));
        assert_eq!(next.is_empty(), failure == DRIVE_FAILURES_MAX);
    }
    let down: Vec<String> = hand.scheduler.drives().map(|(_, state)| state.to_string()).collect();
    assert!(down[0].contains("it failed with tapes T00000, T00001, T00002"), "{down:?}");
    assert_eq!(hand.scheduler.set_aside().count(), 0, "the tapes are not to blame");
    // A robot that jams looks the same: the first rest is not a day.
    let rest = policy().retry_delay * ASIDE_RESTS;
    assert!(rest < ASIDE_REST_MAX);
    hand.now += rest.as_secs() as i64;
    assert_eq!(hand.tell(Event::Tick).len(), 1, "it is tried again after a long rest");
}

/// Tapes that were labelled since a restore were scratch by the catalogue, and each that was to be labelled
/// was refused: after three of them the drive was taken out of use, twice as long each time.
#[test]
fn cartridges_that_are_not_what_they_should_be_are_not_the_drives_fault() {
    for (cause, at_session) in
        [(Some(FailureCause::Cartridge), false), (Some(FailureCause::Cartridge), true), (None, false)]
    {
        let failure = Failure { reason: "it is not blank".to_owned(), cause, suspect: false };
        let mut hand = Hand::new(Policy { recall_age: secs(0), ..policy() }, 1, 9);
        for tape in 0..9 {
            let (drive, vid) = hand.want(tape, 1, 0, &[tape as usize])[0].clone();
            if at_session {
                hand.tell(Event::Mounted(drive.clone(), vid));
                hand.tell(Event::RecallEnded(drive.clone(), SessionEnd::Failed(failure.clone())));
                hand.tell(Event::NotWanted(FileId(tape)));
                hand.tell(Event::Unmounted(drive));
            } else {
                hand.tell(Event::MountFailed(drive, vid, failure.clone()));
                hand.tell(Event::NotWanted(FileId(tape)));
            }
        }
        let states: Vec<_> = hand.scheduler.drives().map(|(_, state)| state.clone()).collect();
        assert_eq!(states, [DriveState::Empty], "{cause:?}");
        // The pair parts for a while all the same, so that nothing is done over and over.
        assert_eq!(hand.want(20, 1, 0, &[8]), []);
    }
}

/// Dirt on a head looks like one bad tape after the other.
#[test]
fn tapes_that_become_suspect_one_after_the_other_in_one_drive_are_cleared_once() {
    let failure =
        |suspect| Failure { reason: "medium error".to_owned(), cause: Some(FailureCause::Unknown), suspect };
    let fail = |hand: &mut Hand, file: u64, suspect| -> Vec<Vid> {
        let (drive, vid) = hand.want(file, 1, 0, &[file as usize])[0].clone();
        hand.tell(Event::Mounted(drive.clone(), vid));
        hand.tell(Event::RecallEnded(drive.clone(), SessionEnd::Failed(failure(suspect))));
        hand.tell(Event::NotWanted(FileId(file)));
        hand.tell(Event::Unmounted(drive));
        std::mem::take(&mut hand.cleared)
    };
    let policy = Policy { recall_age: secs(0), retry_delay: secs(10), ..policy() };
    let mut hand = Hand::new(policy.clone(), 1, 9);
    assert_eq!(fail(&mut hand, 0, true), []);
    assert_eq!(fail(&mut hand, 1, true), [vid(0), vid(1)]);
    let down: Vec<String> = hand.scheduler.drives().map(|(_, state)| state.to_string()).collect();
    assert!(down[0].contains("the tapes T00000 and T00001 failed in it one after the other"), "{down:?}");
    // The same two once more: they are at fault themselves.
    hand.now += 10 * i64::from(ASIDE_RESTS);
    hand.tell(Event::Tick);
    assert_eq!(fail(&mut hand, 0, true), []);
    assert_eq!(fail(&mut hand, 1, true), []);
    // What speaks against the tape alone, or comes with a good session between, clears nobody.
    let mut hand = Hand::new(policy, 1, 9);
    assert_eq!(fail(&mut hand, 2, true), []);
    let (drive, tape) = hand.want(3, 1, 0, &[3])[0].clone();
    hand.tell(Event::Mounted(drive.clone(), tape));
    hand.tell(Event::NotWanted(FileId(3)));
    hand.tell(Event::RecallEnded(drive.clone(), SessionEnd::Drained));
    hand.now += 200;
    hand.tell(Event::Tick);
    hand.tell(Event::Unmounted(drive));
    assert_eq!(fail(&mut hand, 4, true), []);
    assert_eq!(fail(&mut hand, 5, false), []);
}

#[test]
fn a_good_session_between_forgives() {
    let mut hand = Hand::new(Policy { recall_age: secs(0), retry_delay: secs(0), ..policy() }, 1, 9);
    for file in 0..9 {
        let (drive, tape) = hand.want(file, 1, 0, &[file as usize])[0].clone();
        hand.tell(Event::Mounted(drive.clone(), tape));
        if file % 3 == 2 {
            hand.tell(Event::NotWanted(FileId(file)));
            hand.tell(Event::RecallEnded(drive.clone(), SessionEnd::Drained));
            hand.now += 200;
            hand.tell(Event::Tick);
        } else {
            hand.tell(Event::RecallEnded(drive.clone(), SessionEnd::Failed("read error".into())));
            hand.tell(Event::NotWanted(FileId(file)));
        }
        hand.tell(Event::Unmounted(drive));
    }
    assert!(
        hand.scheduler.drives().all(|(_, state)| *state == DriveState::Empty),
        "six failures, no three in a row"
    );
}

#[test]
fn a_library_without_a_drive_is_no_place_for_a_copy() {
    let mut hand = Hand::new(Policy { recall_age: secs(0), ..policy() }, 1, 1);
    let summary = |library| TapeSummary {
        tape_pool: Some(TapePoolId(1)),
        readable: true,
        library: LibraryId(library),
        ..TapeSummary::default()
    };
    hand.tell(Event::Tape(vid(1), summary(1)));
    assert_eq!(hand.want(1, 900, 9, &[1]), []);
    assert_eq!(hand.why(1), Reason::NoDriveInLibrary { vid: vid(1) });
    assert_eq!(
        hand.want(2, 1, 0, &[0, 1]),
        [(name(0), vid(0))],
        "the copy in reach, though less waits there"
    );
    hand.tell(Event::DriveIn(name(1), LibraryId(1)));
    assert_eq!(hand.tell(Event::DriveUp(name(1))), [(name(1), vid(1))]);
}

/// No age makes room: until 2026-11 a wait was told to end with the recall's age although the pool was full.
#[test]
fn missing_room_is_told_before_the_age() {
    let mut hand = Hand::new(policy(), 1, 1);
    hand.tell(Event::PoolSpace { share: Some(ShareId(0)), free: ByteCount(0) });
    assert_eq!(hand.want(1, 1, 0, &[0]), []);
    let space = Reason::WaitingForSpace { free: ByteCount(0), coming: ByteCount(0), of: ShortRoom::Pool };
    assert_eq!(hand.why(1), space);
    assert_eq!(hand.scheduler.why_tape(vid(0)), space);
    hand.tell(Event::PoolSpace { share: Some(ShareId(0)), free: ByteCount(u64::MAX) });
    assert!(matches!(hand.why(1), Reason::WaitingForBytes { .. }), "{:?}", hand.why(1));
    assert_eq!(hand.scheduler.why_tape(vid(0)), hand.why(1));
}

/// Story: a file was larger than what was free, and `kist why` spoke of the pool_max of a class that has
/// none.
#[test]
fn a_pool_max_is_named_only_where_one_is_set() {
    for has_pool_max in [false, true] {
        let mut rules = policy();
        let share = SharePolicy { name: "of class a".to_owned(), has_pool_max, ..SharePolicy::default() };
        rules.shares.insert(ShareId(0), share);
        let mut hand = Hand::new(rules, 1, 1);
        hand.tell(Event::PoolSpace { share: Some(ShareId(0)), free: ByteCount(0) });
        assert_eq!(hand.want(1, 1, 0, &[0]), []);
        let why = hand.why(1).to_string();
        assert!(why.contains("of class a") && why.contains("a file"), "{why}");
        assert_eq!(why.contains("pool_max"), has_pool_max, "{why}");
        assert_eq!(why.contains("0 B are free"), has_pool_max, "the figure is of the limit: {why}");
    }
}

/// Story: of a tape that lay idle in a drive, and that nobody wanted, it was said that something waits for
/// it.
#[test]
fn nothing_waits_for_a_tape_that_is_kept_mounted() {
    let mut hand = Hand::new(Policy { recall_age: secs(0), ..policy() }, 1, 1);
    assert_eq!(hand.want(1, 1, 0, &[0]).len(), 1);
    hand.tell(Event::Mounted(name(0), vid(0)));
    hand.tell(Event::NotWanted(FileId(1)));
    hand.tell(Event::RecallEnded(name(0), SessionEnd::Drained));
    let why = hand.scheduler.why_tape(vid(0));
    assert!(matches!(why, Reason::KeptMounted { .. }), "{why}");
    assert!(why.to_string().starts_with("nothing waits for tape"), "{why}");
    assert_eq!(Some(why), hand.scheduler.why_drive(&name(0), at(hand.now)), "tape and drive tell the same");
}

/// Story: with the `pool_max` of a class reached, its tape was said to wait for itself: "tape KS0001 is in
/// drive d0, which is idle with KS0001".
#[test]
fn a_tape_that_lies_idle_in_its_drive_waits_for_room_and_not_for_itself() {
    let policy = Policy { recall_age: secs(0), dismount_delay: secs(60), ..policy() };
    let mut hand = Hand::new(policy, 1, 1);
    assert_eq!(hand.want(1, 1, 0, &[0]).len(), 1);
    hand.tell(Event::Mounted(name(0), vid(0)));
    hand.tell(Event::NotWanted(FileId(1)));
    hand.tell(Event::PoolSpace { share: Some(ShareId(0)), free: ByteCount(0) });
    hand.tell(Event::RecallEnded(name(0), SessionEnd::Drained));
    assert_eq!(hand.want(2, 1, 0, &[0]), []);
    let space = Reason::WaitingForSpace { free: ByteCount(0), coming: ByteCount(0), of: ShortRoom::Pool };
    assert_eq!((hand.scheduler.why_tape(vid(0)), hand.why(2)), (space.clone(), space));
}

#[test]
fn recall_does_not_outrun_the_pool() {
    let mut hand = Hand::new(Policy { recall_age: secs(0), ..policy() }, 2, 3);
    hand.tell(Event::PoolSpace { share: None, free: ByteCount(5 * GB) });
    assert_eq!(hand.want(1, 10, 0, &[0]).len(), 1, "there is room for some of it");
    assert_eq!(hand.want(2, 1, 0, &[1]), [], "10 GB are on their way to 5 GB");
    let space =
        Reason::WaitingForSpace { free: ByteCount(5 * GB), coming: ByteCount(10 * GB), of: ShortRoom::Pool };
    assert_eq!(hand.why(2), space);
    assert_eq!(hand.tell(Event::PoolSpace { share: None, free: ByteCount(11 * GB) }).len(), 1);
    let share = Some(ShareId(0));
    hand.tell(Event::PoolSpace { share, free: ByteCount(0) });
    assert_eq!(hand.want(3, 1, 0, &[2]), []);
    hand.tell(Event::DriveUp(name(2)));
    assert!(matches!(hand.why(3), Reason::WaitingForSpace { .. }), "{:?}", hand.why(3));
    assert_eq!(hand.tell(Event::PoolSpace { share, free: ByteCount(u64::MAX) }).len(), 0, "11 GB are taken");
    assert_eq!(hand.tell(Event::PoolSpace { share: None, free: ByteCount(u64::MAX) }).len(), 1);
}

#[test]
fn no_more_streams_than_the_pool_can_feed() {
    let mut hand = Hand::new(Policy { recall_age: secs(0), ..policy() }, 3, 3);
    hand.tell(Event::Streams { max: 1 });
    assert_eq!(hand.want(1, 1, 0, &[0]).len(), 1);
    assert_eq!(hand.want(2, 1, 0, &[1]), []);
    assert_eq!(hand.why(2), Reason::WaitingForStream { limit: 1 });
    assert_eq!(hand.tell(Event::Streams { max: 2 }).len(), 1);
}

/// While this host can carry out nothing, no session begins; what failed for it alone is tried at once when
/// it can again, and nobody was to blame.
#[test]
fn a_failure_of_this_host_ends_with_its_cause() {
    let mut hand = Hand::new(Policy { recall_age: secs(0), ..policy() }, 1, 3);
    for number in 0..3 {
        let (drive, tape) = hand.want(number, 1, 0, &[number as usize])[0].clone();
        hand.tell(Event::Mounted(drive.clone(), tape));
        let reason = "the catalogue is full".to_owned();
        let failure = Failure { reason, cause: Some(FailureCause::Host), suspect: false };
        hand.tell(Event::RecallEnded(drive.clone(), SessionEnd::Failed(failure)));
        hand.tell(Event::Streams { max: 0 });
        assert_eq!(hand.tell(Event::Unmounted(drive)), []);
        let begun = hand.tell(Event::Streams { max: usize::MAX });
        assert_eq!(begun.len(), 1, "{number}: at once, without a rest");
        let (drive, tape) = begun[0].clone();
        hand.tell(Event::Mounted(drive.clone(), tape));
        hand.tell(Event::NotWanted(FileId(number)));
        hand.tell(Event::RecallEnded(drive.clone(), SessionEnd::Drained));
        hand.tell(Event::Unmounted(drive));
    }
}

#[test]
fn robots_move_no_more_tapes_than_they_can() {
    let mut hand = Hand::new(Policy { recall_age: secs(0), mounts_at_once_max: 1, ..policy() }, 3, 3);
    let (drive, tape) = hand.want(1, 1, 0, &[0])[0].clone();
    assert_eq!(hand.want(2, 1, 0, &[1]), []);
    assert_eq!(hand.why(2), Reason::WaitingForRobot { limit: 1 });
    assert_eq!(hand.tell(Event::Mounted(drive, tape)).len(), 1, "the robot is free");
}

#[test]
fn a_tape_just_unmounted_rests_in_its_slot() {
    let policy = || Policy {
        recall_age: secs(0),
        remount_delay: secs(600),
        remount_bytes: ByteCount(100 * GB),
        dismount_delay: secs(0),
        ..policy()
    };
    let used = || {
        let mut hand = Hand::new(policy(), 1, 1);
        hand.want(1, 1, 0, &[0]);
        hand.tell(Event::Mounted(name(0), vid(0)));
        hand.tell(Event::NotWanted(FileId(1)));
        hand.tell(Event::RecallEnded(name(0), SessionEnd::Drained));
        hand.tell(Event::Unmounted(name(0)));
        hand
    };
    let mut hand = used();
    assert_eq!(hand.want(2, 1, 0, &[0]), []);
    let until = Timestamp(at(hand.now).0).plus(secs(600));
    assert_eq!(hand.why(2), Reason::JustUnmounted { vid: vid(0), until });
    assert_eq!(hand.want(3, 99, 0, &[0]).len(), 1, "100 GB are worth it");
    let mut hand = used();
    hand.want(2, 1, 0, &[0]);
    hand.now += 600;
    assert_eq!(hand.tell(Event::Tick).len(), 1, "it has rested");
}

/// A tape that was asked for again and again kept its drive for good: what was asked for joined the session.
#[test]
fn files_join_a_session_during_its_first_hour() {
    let mut hand = Hand::new(Policy { recall_age: secs(0), ..policy() }, 1, 2);
    hand.want(1, 1, 0, &[0]);
    hand.tell(Event::Mounted(name(0), vid(0)));
    hand.now += 60;
    hand.want(2, 1, 0, &[0]);
    assert_eq!(hand.scheduler.claim(vid(0), &[FileId(1), FileId(2)]), [true, true]);
    hand.now += JOIN_MAX.as_secs() as i64;
    hand.want(3, 1, 0, &[0]);
    assert_eq!(hand.scheduler.claim(vid(0), &[FileId(2), FileId(3)]), [true, false]);
    hand.want(4, 1, 0, &[1]);
    hand.tell(Event::NotWanted(FileId(1)));
    hand.tell(Event::NotWanted(FileId(2)));
    hand.tell(Event::RecallEnded(name(0), SessionEnd::Drained));
    assert_eq!(hand.tell(Event::Unmounted(name(0))).len(), 1);
}

/// The drive's time is the shares' in proportion to what they wanted from its tape.
#[test]
fn a_tape_of_several_shares_is_charged_to_all_of_them() {
    let mut hand = Hand::new(Policy { recall_age: secs(3600), ..policy() }, 1, 1);
    for (file, gb, share) in [(1, 20, 1), (2, 60, 2), (3, 20, 1)] {
        let (file, bytes, since, copies) = (FileId(file), ByteCount(gb * GB), at(hand.now), vec![vid(0)]);
        hand.tell(Event::Wanted { file, bytes, since, priority: 0, share: ShareId(share), copies });
    }
    hand.now += 100;
    hand.tell(Event::Mounted(name(0), vid(0)));
    let used: Vec<u64> = hand.scheduler.shares().values().map(|(used, _)| used.as_secs()).collect();
    assert_eq!(used, [40, 60], "of 100 s");
}

/// A restart takes the queue in at once and goes on as if it had heard of each file by itself.
#[test]
fn a_loaded_queue_is_the_queue() {
    let mut number = 1u64;
    let mut next = |below: u64| {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (number >> 33) % below
    };
    let files: Vec<WantedFile> = (0..3000)
        .map(|_| WantedFile {
            file: FileId(next(2500)),
            bytes: ByteCount((1 + next(5)) * GB),
            since: at(900 - next(800) as i64),
            priority: next(12) as u8,
            share: ShareId(next(3) as u16),
            copies: (0..1 + next(3)).map(|_| vid(next(30) as usize)).collect(),
        })
        .collect();
    let mut hands = [Hand::new(policy(), 0, 30), Hand::new(policy(), 0, 30)];
    for hand in &mut hands {
        (0..5).for_each(|tape| drop(hand.tape(tape, true)));
    }
    let [bulk, single] = &mut hands;
    bulk.scheduler.load(at(1000), files.iter().cloned());
    bulk.scheduler.assert_consistent();
    for wanted in files {
        let WantedFile { file, bytes, since, priority, share, copies } = wanted;
        single.tell(Event::Wanted { file, bytes, since, priority, share, copies });
    }
    for drive in 0..30 {
        let up = || Event::DriveUp(name(drive));
        let chosen = bulk.tell(up());
        assert_eq!(chosen, single.tell(up()), "drive {drive}");
        assert!(drive > 10 || chosen.len() == 1, "there is enough to do");
    }
}

/// A session may find no room although some is said to be free: for files of another share, or until others
/// have brought what they have claimed. Its tape must not go to and fro for that.
#[test]
fn a_tape_that_found_no_room_is_not_mounted_for_that_again_at_once() {
    let mut hand = Hand::new(policy(), 1, 2);
    let space =
        |share: u16, free: u64| Event::PoolSpace { share: Some(ShareId(share)), free: ByteCount(free) };
    hand.tell(space(1, 0));
    let wanted = |file: u64, share: u16| Event::Wanted {
        file: FileId(file),
        bytes: ByteCount(200 * GB),
        since: at(1000),
        priority: 0,
        share: ShareId(share),
        copies: vec![vid(0)],
    };
    assert_eq!(hand.tell(wanted(1, 1)), []);
    assert_eq!(hand.tell(wanted(2, 2)), [(name(0), vid(0))], "for the other share");
    let turn = |hand: &mut Hand| {
        hand.tell(Event::Mounted(name(0), vid(0)));
        assert_eq!(hand.tell(Event::RecallEnded(name(0), SessionEnd::NoRoom)), []);
        hand.tell(Event::Unmounted(name(0)))
    };
    assert_eq!(turn(&mut hand), []);
    assert!(hand.why(2).to_string().contains("room in the pool"), "{}", hand.why(2));
    assert_eq!(hand.want(3, 200, 0, &[1]), [(name(0), vid(1))], "the drive is free for others");
    hand.tell(Event::Mounted(name(0), vid(1)));
    hand.tell(Event::NotWanted(FileId(3)));
    hand.tell(Event::RecallEnded(name(0), SessionEnd::Drained));
    hand.now += 120;
    hand.tell(Event::Tick);
    assert_eq!(hand.tell(Event::Unmounted(name(0))), []);
    hand.now += 780;
    assert_eq!(hand.tell(Event::Tick), [(name(0), vid(0))], "it is tried again");
    assert_eq!(turn(&mut hand), []);
    assert_eq!(hand.tell(space(1, 1)), [(name(0), vid(0))], "or when there is room");
    // Story: room for one file of a share with several classes was no room for the share, and what had found
    // none rested although it fitted.
    assert_eq!(turn(&mut hand), []);
    assert_eq!(hand.tell(Event::RoomMade), [(name(0), vid(0))], "or when what found none fits");
}

/// Ten million files may be asked for while the pool, or one class, is full and all tapes starve: none is to
/// cost a look at each, nor is any step of a forecast.
#[test]
fn a_full_pool_makes_no_event_dear() {
    for full in [None, Some(ShareId(0))] {
        let mut hand = Hand::new(policy(), 4, 0);
        hand.tell(Event::PoolSpace { share: full, free: ByteCount(0) });
        let tell = |hand: &mut Hand, event: Event| hand.scheduler.step(at(hand.now), event, &mut Vec::new());
        let wanted = |file: u64, tape: usize| Event::Wanted {
            file: FileId(file),
            bytes: ByteCount(GB),
            since: at(0),
            priority: 0,
            share: ShareId(0),
            copies: vec![vid(tape)],
        };
        for tape in 0..4_000 {
            let summary = TapeSummary { readable: true, ..TapeSummary::default() };
            tell(&mut hand, Event::Tape(vid(tape), summary));
            tell(&mut hand, wanted(tape as u64, tape));
        }
        hand.now += 100_000;
        let clock = std::time::Instant::now();
        (0..1_000).for_each(|file| tell(&mut hand, wanted(1_000_000 + file, 0)));
        assert!(clock.elapsed() < secs(1), "{full:?}: {:?} for a thousand more", clock.elapsed());
    }
}

/// Story: of a container the pool had lost the bytes while one copy was missing, and they were read from the
/// other tape. Meanwhile it did not count as queued, so `migrate --now` was over for its pool, and the copy
/// waited for more bytes or age: for ever, where no more came.
#[test]
fn what_was_left_alone_when_all_was_to_be_migrated_goes_as_soon_as_it_can() {
    let mut hand = Hand::new(policy(), 1, 0);
    let pool = TapePoolId(1);
    let free = ByteCount(1000 * GB);
    let summary = TapeSummary {
        tape_pool: Some(pool),
        readable: true,
        writable: true,
        labelled: true,
        free,
        ..TapeSummary::default()
    };
    hand.tell(Event::Tape(vid(0), summary));
    let queued = |items: u64, oldest: i64| {
        let oldest = (items > 0).then_some(at(oldest));
        Event::Queued(pool, Backlog { items, bytes: ByteCount(items * GB), oldest })
    };
    assert_eq!(hand.tell(queued(1, 900)), [], "too little, too young");
    // It is left alone when the word comes, and is not afterwards.
    hand.tell(queued(0, 0));
    assert_eq!(hand.tell(Event::MigrateNow(None)), []);
    hand.now += 10;
    assert_eq!(hand.tell(queued(1, 1005)), [], "what came after the word waits for more");
    assert_eq!(hand.tell(queued(2, 900)), [(name(0), vid(0))]);
}

/// Story: containers that `migrate --now` had sealed were on their way to a tape when that failed. By then
/// nothing was queued and the word was over; they came back as younger than it, and waited for bytes or age.
#[test]
fn what_was_sealed_for_haste_and_comes_back_from_a_failed_tape_goes_at_once() {
    let mut hand = Hand::new(policy(), 3, 0);
    let (pool, class) = (TapePoolId(1), ClassId(1));
    let free = ByteCount(1000 * GB);
    let ready =
        || TapeSummary { readable: true, writable: true, labelled: true, free, ..TapeSummary::default() };
    hand.tell(Event::Tape(vid(0), TapeSummary { tape_pool: Some(pool), ..ready() }));
    let fail = |hand: &mut Hand, (drive, vid): &(String, Vid)| {
        hand.tell(Event::Queued(pool, Backlog::default()));
        hand.tell(Event::MountFailed(drive.clone(), *vid, "jam".into()));
    };
    let backlog = |items: u64, oldest: i64| {
        let oldest = (items > 0).then_some(at(oldest));
        Backlog { items, bytes: ByteCount(items * GB), oldest }
    };
    hand.tell(Event::Todo(class, backlog(1, 990)));
    assert_eq!(hand.tell(Event::MigrateNow(Some(class))), []);
    hand.now += 10;
    hand.tell(Event::Todo(class, backlog(0, 0)));
    let first = hand.tell(Event::Queued(pool, backlog(1, 1005)));
    assert_eq!(first.iter().map(|(_, vid)| *vid).collect::<Vec<_>>(), [vid(0)]);
    hand.tell(Event::SealEnded(class));
    hand.now += 10;
    // The tape fails with it in its drive: the container is queued as before, for another one.
    fail(&mut hand, &first[0]);
    hand.tell(Event::Tape(vid(1), TapeSummary { tape_pool: Some(pool), ..ready() }));
    let second = hand.tell(Event::Queued(pool, backlog(1, 1005)));
    assert_eq!(second.iter().map(|(_, vid)| *vid).collect::<Vec<_>>(), [vid(1)]);
    fail(&mut hand, &second[0]);
    hand.tell(Event::Tape(vid(2), TapeSummary { tape_pool: Some(pool), ..ready() }));
    assert_eq!(hand.tell(Event::Queued(pool, backlog(1, 1021))), [], "what came since waits");
}
