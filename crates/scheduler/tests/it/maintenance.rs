//! Work that nobody waits for, and drives that fail.

use std::collections::BTreeMap;
use std::time::Duration;

use base::{ByteCount, FileId, ShareId, TapePoolId, Timestamp, Vid};
use scheduler::{
    Action, Backlog, DRIVE_REST_MAX, DriveState, Event, Policy, Scheduler, SessionEnd, TapePoolPolicy,
    TapeSummary,
};

const RETRY: Duration = Duration::from_secs(10);

fn at(second: i64) -> Timestamp {
    Timestamp(second * 1_000_000_000)
}

fn vid(number: u16) -> Vid {
    Vid::new(&format!("T{number:05}")).unwrap()
}

fn bench_policy() -> Policy {
    Policy {
        classes: BTreeMap::new(),
        tape_pools: BTreeMap::new(),
        recall_age: Duration::ZERO,
        recall_bytes: ByteCount(1),
        dismount_delay: Duration::from_secs(600),
        retry_delay: RETRY,
        ..Policy::default()
    }
}

struct Bench {
    scheduler: Scheduler,
    actions: Vec<Action>,
}

impl Bench {
    fn new() -> Self {
        let mut bench = Bench { scheduler: Scheduler::new(bench_policy()), actions: Vec::new() };
        for number in 1..=2 {
            bench.tell(0, Event::Tape(vid(number), summary(true)));
        }
        bench.tell(0, Event::DriveUp("A".to_owned()));
        bench
    }

    /// Tells an event and gives what is to be done but for ticks.
    fn tell(&mut self, second: i64, event: Event) -> Vec<Action> {
        self.scheduler.step(at(second), event, &mut self.actions);
        self.scheduler.assert_consistent();
        self.actions.retain(|action| !matches!(action, Action::WakeAt(_)));
        std::mem::take(&mut self.actions)
    }

    fn want(&mut self, second: i64, file: u64, tape: u16) -> Vec<Action> {
        let (file, copies) = (FileId(file), vec![vid(tape)]);
        let (bytes, since, priority, share) = (ByteCount(1 << 30), at(second), 0, ShareId(0));
        self.tell(second, Event::Wanted { file, bytes, since, priority, share, copies })
    }

    fn is_down(&self) -> bool {
        self.scheduler.drives().all(|(_, state)| matches!(state, DriveState::Down { .. }))
    }
}

fn summary(readable: bool) -> TapeSummary {
    let reason = "suspect".to_owned();
    TapeSummary {
        tape_pool: Some(TapePoolId(1)),
        readable,
        writable: false,
        free: ByteCount(0),
        labelled: true,
        mounts: 0,
        reason,
        ..TapeSummary::default()
    }
}

fn a() -> String {
    "A".to_owned()
}

#[test]
fn maintenance_takes_a_free_drive_and_gives_it_back() {
    let mut bench = Bench::new();
    let mount = Action::Mount { drive: a(), vid: vid(1), assign: None };
    assert_eq!(bench.tell(1, Event::Maintain(vid(1), true)), [mount]);
    assert_eq!(bench.tell(2, Event::Mounted(a(), vid(1))), [Action::Maintain { drive: a(), vid: vid(1) }]);
    assert!(!bench.scheduler.must_yield(&a(), at(3)), "nobody waits");
    assert_eq!(bench.want(4, 1, 2), []);
    assert!(bench.scheduler.must_yield(&a(), at(5)), "a recall waits for the only drive");
    let ended = bench.tell(6, Event::MaintenanceEnded(a(), SessionEnd::Stopped));
    assert_eq!(ended, [Action::Unmount { drive: a() }], "it gives way");
    let recall = Action::Mount { drive: a(), vid: vid(2), assign: None };
    assert_eq!(bench.tell(7, Event::Unmounted(a())), [recall], "recall goes first");
    bench.tell(8, Event::Mounted(a(), vid(2)));
    bench.tell(9, Event::NotWanted(FileId(1)));
    bench.tell(10, Event::RecallEnded(a(), SessionEnd::Drained));
    bench.tell(700, Event::Tick);
    let again = Action::Mount { drive: a(), vid: vid(1), assign: None };
    assert_eq!(bench.tell(701, Event::Unmounted(a())), [again], "the maintenance goes on");
    bench.tell(702, Event::Mounted(a(), vid(1)));
    bench.tell(703, Event::Maintain(vid(1), false));
    assert_eq!(bench.tell(704, Event::MaintenanceEnded(a(), SessionEnd::Drained)), []);
}

#[test]
fn a_suspect_tape_is_mounted_for_its_maintenance() {
    let mut bench = Bench::new();
    bench.tell(0, Event::Tape(vid(2), summary(false)));
    let mount = Action::Mount { drive: a(), vid: vid(2), assign: None };
    assert_eq!(bench.tell(1, Event::Maintain(vid(2), true)), [mount]);
    bench.tell(2, Event::MountFailed(a(), vid(2), "jam".into()));
    assert!(bench.scheduler.why_maintenance(vid(2)).to_string().contains("jam"));
}

/// When the maintenance of a tape is mounted, in the order of the attempts, while each fails 1 s later.
fn attempts(drives: &[&str], seconds: i64, mut fails: impl FnMut(&mut Bench, i64, String)) -> Vec<i64> {
    let mut bench = Bench::new();
    for drive in &drives[1..] {
        bench.tell(0, Event::DriveUp((*drive).to_owned()));
    }
    let (mut attempts, mut failing) = (Vec::new(), None::<(i64, String)>);
    let mut orders = bench.tell(0, Event::Maintain(vid(1), true));
    for now in 0..seconds {
        if let Some((_, drive)) = failing.take_if(|(at, _)| *at <= now) {
            fails(&mut bench, now, drive);
        }
        orders.extend(bench.tell(now, Event::Tick));
        for order in std::mem::take(&mut orders) {
            match order {
                Action::Mount { drive, .. } => {
                    attempts.push(now);
                    failing = Some((now + 1, drive));
                }
                Action::Unmount { drive } => orders.extend(bench.tell(now, Event::Unmounted(drive))),
                other => panic!("{other:?}"),
            }
        }
    }
    attempts
}

/// Story: a robot that jammed was sent for a tape that was to be checked every ten seconds, for ever, from
/// two drives.
#[test]
fn maintenance_that_fails_rests_twice_as_long_each_time_whatever_drives_there_are() {
    let jams = |bench: &mut Bench, now, drive| {
        drop(bench.tell(now, Event::MountFailed(drive, vid(1), "jam".into())));
    };
    for drives in [&["A"][..], &["A", "B"]] {
        let attempts = attempts(drives, 2_000, jams);
        let rests: Vec<i64> = attempts.windows(2).map(|pair| pair[1] - pair[0] - 1).collect();
        assert_eq!(rests, [10, 20, 40, 80, 160, 320, 640], "{drives:?}: {attempts:?}");
    }
}

/// What is asked for anew, or looked at by an operator, does not wait for what failed before.
#[test]
fn what_is_asked_for_anew_is_tried_at_once() {
    let mut bench = Bench::new();
    let mount = Action::Mount { drive: a(), vid: vid(1), assign: None };
    assert_eq!(bench.tell(1, Event::Maintain(vid(1), true)), [mount]);
    bench.tell(2, Event::MountFailed(a(), vid(1), "jam".into()));
    bench.tell(12, Event::MountFailed(a(), vid(1), "jam".into()));
    bench.tell(13, Event::Tick);
    assert_eq!(bench.tell(14, Event::MountFailed(a(), vid(1), "jam".into())), []);
    assert!(bench.scheduler.why_maintenance(vid(1)).to_string().contains("jam"));
    bench.tell(15, Event::Maintain(vid(1), false));
    let mount = Action::Mount { drive: a(), vid: vid(1), assign: None };
    // The pair of tape and drive has its own rest.
    assert_eq!(bench.tell(40, Event::Maintain(vid(1), true)), [mount]);
}

#[test]
fn a_drive_that_fails_rests_twice_as_long_each_time() {
    let mut bench = Bench::new();
    let mut now = 0;
    let mut rest = RETRY.as_secs() as i64;
    for _ in 0..20 {
        bench.tell(now, Event::DriveFailed(a(), "hardware error".to_owned()));
        assert!(bench.is_down());
        bench.tell(now + rest - 1, Event::Tick);
        assert!(bench.is_down(), "it rests for {rest} s");
        bench.tell(now + rest, Event::Tick);
        assert!(!bench.is_down(), "it is tried again after {rest} s");
        now += rest;
        rest = (2 * rest).min(DRIVE_REST_MAX.as_secs() as i64);
    }
    bench.want(now, 1, 1);
    bench.tell(now, Event::Mounted(a(), vid(1)));
    bench.tell(now, Event::NotWanted(FileId(1)));
    bench.tell(now, Event::RecallEnded(a(), SessionEnd::Drained));
    bench.tell(now, Event::DriveFailed(a(), "hardware error".to_owned()));
    bench.tell(now + RETRY.as_secs() as i64, Event::Tick);
    assert!(!bench.is_down(), "what went well between is remembered");
}

#[test]
fn a_drive_is_retired_when_its_session_has_ended() {
    let mut bench = Bench::new();
    bench.want(1, 1, 1);
    bench.tell(2, Event::Mounted(a(), vid(1)));
    assert_eq!(bench.tell(3, Event::RetireDrive(a(), "cleaning".to_owned())), []);
    bench.tell(4, Event::NotWanted(FileId(1)));
    let ended = bench.tell(5, Event::RecallEnded(a(), SessionEnd::Drained));
    assert_eq!(ended, [Action::Unmount { drive: a() }]);
    bench.tell(6, Event::Unmounted(a()));
    assert!(bench.is_down());
    bench.tell(100_000, Event::Tick);
    assert!(bench.is_down(), "an operator's word stands");
    assert_eq!(bench.want(100_001, 2, 2), []);
    assert_eq!(bench.tell(100_002, Event::DriveUp(a())).len(), 1);
}

/// Recalls from the very tape that was being checked waited until the check was done, for hours: only tapes
/// in slots were counted as wanted.
#[test]
fn maintenance_gives_way_to_recalls_from_its_own_tape() {
    let mut bench = Bench::new();
    bench.tell(1, Event::Maintain(vid(1), true));
    bench.tell(2, Event::Mounted(a(), vid(1)));
    assert!(!bench.scheduler.must_yield(&a(), at(3)), "nobody waits");
    assert_eq!(bench.want(4, 1, 1), []);
    assert!(bench.scheduler.must_yield(&a(), at(5)), "a file on this tape is wanted");
    let recall = Action::Recall { drive: a(), vid: vid(1) };
    assert_eq!(bench.tell(6, Event::MaintenanceEnded(a(), SessionEnd::Stopped)), [recall]);
    bench.tell(7, Event::NotWanted(FileId(1)));
    let again = Action::Maintain { drive: a(), vid: vid(1) };
    assert_eq!(
        bench.tell(8, Event::RecallEnded(a(), SessionEnd::Drained)),
        [again],
        "the maintenance goes on"
    );
}

/// The same for the pool of the tape: its only tape was in the drive for a check, so nothing was written.
#[test]
fn maintenance_gives_way_to_migration_to_its_own_tape() {
    let mut bench = Bench::new();
    let pool = TapePoolId(1);
    let policy = TapePoolPolicy {
        name: "first".to_owned(),
        mount_bytes: ByteCount(1 << 20),
        mount_age: Duration::from_secs(3600),
        drives_max: 1,
        ..TapePoolPolicy::default()
    };
    let tape_pools = BTreeMap::from([(pool, policy)]);
    bench.scheduler.set_policy(Policy { tape_pools, ..bench_policy() });
    let free = ByteCount(1 << 40);
    bench.tell(0, Event::Tape(vid(1), TapeSummary { writable: true, free, ..summary(true) }));
    bench.tell(1, Event::Maintain(vid(1), true));
    bench.tell(2, Event::Mounted(a(), vid(1)));
    let backlog = |bytes| Backlog { items: 1, bytes: ByteCount(bytes), oldest: Some(at(3)) };
    bench.tell(3, Event::Queued(pool, backlog(1)));
    assert!(!bench.scheduler.must_yield(&a(), at(4)), "it is not due");
    bench.tell(5, Event::Queued(pool, backlog(1 << 30)));
    assert!(bench.scheduler.must_yield(&a(), at(6)), "its pool is due");
    let migrate = Action::Migrate { drive: a(), vid: vid(1), tape_pool: pool };
    assert_eq!(bench.tell(7, Event::MaintenanceEnded(a(), SessionEnd::Stopped)), [migrate]);
}

/// An operator's `drive down` was undone: the session that was still running ended with a failure of the
/// drive, which was tried again by itself after its rest.
#[test]
fn a_retired_drive_that_fails_stays_down() {
    let mut bench = Bench::new();
    bench.want(1, 1, 1);
    bench.tell(2, Event::Mounted(a(), vid(1)));
    bench.tell(3, Event::RetireDrive(a(), "cleaning".to_owned()));
    bench.tell(4, Event::DriveFailed(a(), "hardware error".to_owned()));
    assert!(bench.is_down());
    bench.tell(100_000, Event::Tick);
    assert!(bench.is_down(), "an operator's word stands");
    let why: Vec<String> = bench.scheduler.drives().map(|(_, state)| state.to_string()).collect();
    assert_eq!(why, ["down: cleaning"]);
}

/// What is wanted from the tape cannot be read for now: its maintenance must not be begun and broken off for
/// that again and again.
#[test]
fn maintenance_goes_on_while_what_is_wanted_of_its_tape_has_no_room() {
    let limits = [
        Event::PoolSpace { share: None, free: ByteCount(0) },
        Event::PoolSpace { share: Some(ShareId(0)), free: ByteCount(0) },
        Event::Streams { max: 0 },
    ];
    for limit in limits {
        let mut bench = Bench::new();
        bench.tell(0, limit.clone());
        assert_eq!(bench.want(1, 1, 1), []);
        bench.tell(2, Event::Maintain(vid(1), true));
        assert_eq!(
            bench.tell(3, Event::Mounted(a(), vid(1))),
            [Action::Maintain { drive: a(), vid: vid(1) }]
        );
        assert!(!bench.scheduler.must_yield(&a(), at(4)), "{limit:?}");
        bench.tell(5, Event::PoolSpace { share: None, free: ByteCount(u64::MAX) });
        bench.tell(5, Event::PoolSpace { share: Some(ShareId(0)), free: ByteCount(u64::MAX) });
        bench.tell(5, Event::Streams { max: 1 });
        assert!(bench.scheduler.must_yield(&a(), at(6)), "{limit:?}");
        let ended = bench.tell(7, Event::MaintenanceEnded(a(), SessionEnd::Stopped));
        assert_eq!(ended, [Action::Recall { drive: a(), vid: vid(1) }], "{limit:?}");
    }
}

/// A drive that failed is tried again by itself; one that is said to be down afterwards is not.
#[test]
fn a_drive_that_is_down_is_not_tried_again_for_an_earlier_failure() {
    let mut bench = Bench::new();
    bench.tell(0, Event::DriveFailed(a(), "hardware error".to_owned()));
    bench.tell(1, Event::DriveDown(a(), "its thread has ended".to_owned()));
    bench.tell(100_000, Event::Tick);
    assert!(bench.is_down());
    bench.tell(100_001, Event::DriveUp(a()));
    assert!(!bench.is_down());
}
