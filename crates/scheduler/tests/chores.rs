//! Work that nobody waits for, and drives that fail.

use std::collections::BTreeMap;
use std::time::Duration;

use base::{ByteCount, FileId, TapePoolId, Timestamp, Vid};
use scheduler::{Action, DRIVE_REST_MAX, DriveState, Event, Policy, Scheduler, SessionEnd, TapeSummary};

const RETRY: Duration = Duration::from_secs(10);

fn at(second: i64) -> Timestamp {
    Timestamp(second * 1_000_000_000)
}

fn vid(number: u16) -> Vid {
    Vid::new(&format!("T{number:05}")).unwrap()
}

struct Bench {
    scheduler: Scheduler,
    actions: Vec<Action>,
}

impl Bench {
    fn new() -> Self {
        let scheduler = Scheduler::new(Policy {
            classes: BTreeMap::new(),
            tape_pools: BTreeMap::new(),
            recall_age: Duration::ZERO,
            recall_bytes: ByteCount(1),
            dismount_delay: Duration::from_secs(600),
            retry_delay: RETRY,
        });
        let mut bench = Bench { scheduler, actions: Vec::new() };
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
        self.tell(second, Event::Wanted { file, bytes: ByteCount(1 << 30), since: at(second), copies })
    }

    fn is_down(&self) -> bool {
        self.scheduler.drives().all(|(_, state)| matches!(state, DriveState::Down { .. }))
    }
}

fn summary(readable: bool) -> TapeSummary {
    let reason = "suspect".to_owned();
    TapeSummary { tape_pool: Some(TapePoolId(1)), readable, writable: false, free: ByteCount(0), reason }
}

fn a() -> String {
    "A".to_owned()
}

#[test]
fn chores_take_a_free_drive_and_give_it_back() {
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
    assert_eq!(bench.tell(701, Event::Unmounted(a())), [again], "the chore goes on");
    bench.tell(702, Event::Mounted(a(), vid(1)));
    bench.tell(703, Event::Maintain(vid(1), false));
    assert_eq!(bench.tell(704, Event::MaintenanceEnded(a(), SessionEnd::Drained)), []);
}

#[test]
fn a_suspect_tape_is_mounted_for_its_chores() {
    let mut bench = Bench::new();
    bench.tell(0, Event::Tape(vid(2), summary(false)));
    let mount = Action::Mount { drive: a(), vid: vid(2), assign: None };
    assert_eq!(bench.tell(1, Event::Maintain(vid(2), true)), [mount]);
    bench.tell(2, Event::MountFailed(a(), vid(2), "jam".to_owned()));
    assert!(bench.scheduler.why_chores(vid(2)).to_string().contains("jam"));
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
