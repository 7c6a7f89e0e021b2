//! Drives that ask to be cleaned.

use std::time::Duration;

use base::{ByteCount, FileId, LibraryId, ShareId, Timestamp, Vid};
use scheduler::{
    Action, CLEAN_AGAIN_AFTER, CLEAN_IDLE_MAX, CleaningBar, CleaningDue, CleaningEnd, CleaningUrgency,
    DriveState, Event, Policy, Reason, Scheduler, SessionEnd, TapeSummary, UNCLEANED_REST,
};

const RETRY: Duration = Duration::from_secs(10);

fn at(second: u64) -> Timestamp {
    Timestamp(i64::try_from(second).unwrap() * 1_000_000_000)
}

fn vid(text: &str) -> Vid {
    Vid::new(text).unwrap()
}

fn policy() -> Policy {
    Policy {
        recall_age: Duration::ZERO,
        recall_bytes: ByteCount(1),
        dismount_delay: Duration::from_secs(600),
        retry_delay: RETRY,
        ..Policy::default()
    }
}

struct Bench {
    scheduler: Scheduler,
    file: u64,
}

impl Bench {
    /// Drives A and so on, tapes T00001 and T00002, and these cleaning cartridges.
    fn new(drives: &[&str], cleaners: &[&str]) -> Bench {
        Bench::with(policy(), drives, cleaners)
    }

    fn with(policy: Policy, drives: &[&str], cleaners: &[&str]) -> Bench {
        let mut bench = Bench { scheduler: Scheduler::new(policy), file: 0 };
        for tape in ["T00001", "T00002"] {
            let summary = TapeSummary { readable: true, labelled: true, ..TapeSummary::default() };
            bench.tell(0, Event::Tape(vid(tape), summary));
        }
        for drive in drives {
            bench.tell(0, Event::DriveUp((*drive).to_owned()));
        }
        bench.cleaners(0, cleaners);
        bench
    }

    fn tell(&mut self, second: u64, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        self.scheduler.step(at(second), event, &mut actions);
        self.scheduler.assert_consistent();
        actions.retain(|action| !matches!(action, Action::WakeAt(_)));
        actions
    }

    fn cleaners(&mut self, second: u64, cleaners: &[&str]) -> Vec<Action> {
        let all = cleaners.iter().map(|name| (LibraryId(0), vid(name))).collect();
        self.tell(second, Event::CleaningCartridges(all))
    }

    fn want(&mut self, second: u64, tape: &str) -> Vec<Action> {
        self.file += 1;
        let (file, copies) = (FileId(self.file), vec![vid(tape)]);
        let (bytes, since, priority, share) = (ByteCount(1 << 30), at(second), 0, ShareId(0));
        self.tell(second, Event::Wanted { file, bytes, since, priority, share, copies })
    }

    fn ask(&mut self, second: u64, drive: &str, urgency: CleaningUrgency) -> Vec<Action> {
        let due = CleaningDue { urgency, since: at(second), with: None, cleaned: None };
        self.tell(second, Event::CleanDrive(drive.to_owned(), Some(due)))
    }

    fn cleaned(&mut self, second: u64, drive: &str, end: CleaningEnd) -> Vec<Action> {
        self.tell(second, Event::Cleaned(drive.to_owned(), end))
    }

    fn why(&self, second: u64, drive: &str) -> Reason {
        self.scheduler.why_drive(&drive.to_owned(), at(second)).unwrap()
    }

    fn bar(&self, second: u64, drive: &str) -> Option<CleaningBar> {
        self.scheduler.cleaning_bar(&drive.to_owned(), at(second))
    }
}

fn clean(drive: &str, with: &str) -> Vec<Action> {
    vec![Action::Clean { drive: drive.to_owned(), vid: vid(with) }]
}

fn mount(drive: &str, tape: &str) -> Vec<Action> {
    vec![Action::Mount { drive: drive.to_owned(), vid: vid(tape), assign: None }]
}

#[test]
fn a_drive_that_must_be_cleaned_is_before_its_next_mount() {
    let mut bench = Bench::new(&["A"], &["CLN001"]);
    assert_eq!(bench.want(1, "T00001"), mount("A", "T00001"));
    bench.tell(2, Event::Mounted("A".to_owned(), vid("T00001")));
    assert_eq!(bench.ask(3, "A", CleaningUrgency::Now), [], "its session goes on");
    bench.want(4, "T00002");
    bench.tell(5, Event::NotWanted(FileId(1)));
    let ended = bench.tell(6, Event::RecallEnded("A".to_owned(), SessionEnd::Drained));
    assert_eq!(ended, [Action::Unmount { drive: "A".to_owned() }]);
    assert_eq!(bench.tell(7, Event::Unmounted("A".to_owned())), clean("A", "CLN001"));
    let drives: Vec<_> = bench.scheduler.drives().map(|(_, state)| state.clone()).collect();
    assert_eq!(drives, [DriveState::Cleaning { vid: vid("CLN001"), since: at(7) }]);
    assert_eq!(bench.why(8, "A"), Reason::Cleaning { drive: "A".to_owned(), vid: vid("CLN001") });
    assert_eq!(bench.tell(9, Event::Tick), [], "it gets no tape meanwhile");
    assert_eq!(bench.cleaned(10, "A", CleaningEnd::Cleaned), mount("A", "T00002"));
}

#[test]
fn one_that_asks_for_it_is_cleaned_when_nothing_waits() {
    let mut bench = Bench::new(&["A"], &["CLN001"]);
    bench.want(1, "T00001");
    bench.tell(2, Event::Mounted("A".to_owned(), vid("T00001")));
    bench.ask(3, "A", CleaningUrgency::Idle);
    bench.tell(4, Event::NotWanted(FileId(1)));
    assert_eq!(bench.tell(5, Event::RecallEnded("A".to_owned(), SessionEnd::Drained)), []);
    bench.want(6, "T00002");
    // The other tape goes first.
    assert_eq!(bench.tell(7, Event::Unmounted("A".to_owned())), mount("A", "T00002"));
    bench.tell(8, Event::Mounted("A".to_owned(), vid("T00002")));
    bench.tell(9, Event::NotWanted(FileId(2)));
    bench.tell(10, Event::RecallEnded("A".to_owned(), SessionEnd::Drained));
    assert_eq!(bench.tell(700, Event::Tick), [Action::Unmount { drive: "A".to_owned() }]);
    assert_eq!(bench.tell(701, Event::Unmounted("A".to_owned())), clean("A", "CLN001"));
    bench.cleaned(702, "A", CleaningEnd::Cleaned);
    assert_eq!(bench.tell(703, Event::Tick), [], "once");
}

/// A drive that is never idle would never be cleaned.
#[test]
fn one_that_has_asked_for_a_day_goes_first() {
    let mut bench = Bench::new(&["A"], &["CLN001"]);
    bench.want(1, "T00001");
    bench.tell(2, Event::Mounted("A".to_owned(), vid("T00001")));
    bench.ask(3, "A", CleaningUrgency::Idle);
    bench.tell(4, Event::NotWanted(FileId(1)));
    let late = 4 + CLEAN_IDLE_MAX.as_secs();
    bench.want(late, "T00002");
    bench.tell(late + 1, Event::RecallEnded("A".to_owned(), SessionEnd::Drained));
    assert_eq!(bench.tell(late + 2, Event::Unmounted("A".to_owned())), clean("A", "CLN001"));
}

#[test]
fn without_a_cleaning_cartridge_a_drive_goes_on_or_rests_for_an_hour() {
    let mut bench = Bench::new(&["A", "B"], &[]);
    bench.ask(1, "A", CleaningUrgency::Idle);
    bench.ask(1, "B", CleaningUrgency::Now);
    assert_eq!(bench.bar(1, "A"), Some(CleaningBar::NoCartridge));
    assert_eq!(bench.want(2, "T00001"), mount("A", "T00001"), "clean periodic: it is used");
    assert_eq!(bench.want(3, "T00002"), [], "clean now: it rests");
    let why = bench.why(3, "B");
    assert!(why.needs_an_operator() && why.kind() == "to-be-cleaned", "{why}");
    let until = at(1).plus(UNCLEANED_REST);
    assert_eq!(why.until(), Some(until));
    let told = why.to_string();
    assert!(told.contains("no cleaning cartridge") && told.contains("kist drive up B"), "{told}");
    assert_eq!(bench.tell(1 + UNCLEANED_REST.as_secs(), Event::Tick), mount("B", "T00002"));
    // One that comes is used at once.
    let mut bench = Bench::new(&["B"], &[]);
    bench.ask(1, "B", CleaningUrgency::Now);
    assert_eq!(bench.cleaners(2, &["CLN007"]), clean("B", "CLN007"));
}

#[test]
fn one_that_asks_again_so_soon_is_left_to_an_operator() {
    let mut bench = Bench::new(&["A"], &["CLN001"]);
    let cleaned = Some(at(0));
    let due = |urgency, since| CleaningDue { urgency, since: at(since), with: None, cleaned };
    let ask = |due| Event::CleanDrive("A".to_owned(), Some(due));
    assert_eq!(bench.tell(5, ask(due(CleaningUrgency::Now, 5))), []);
    assert_eq!(bench.bar(6, "A"), Some(CleaningBar::Lately { cleaned: at(0) }));
    assert_eq!(bench.tell(6, ask(due(CleaningUrgency::Ordered, 6))), clean("A", "CLN001"));
    bench.cleaned(7, "A", CleaningEnd::Cleaned);
    bench.tell(8, ask(due(CleaningUrgency::Idle, 8)));
    assert_eq!(bench.tell(CLEAN_AGAIN_AFTER.as_secs() - 1, Event::Tick), []);
    assert_eq!(bench.tell(CLEAN_AGAIN_AFTER.as_secs(), Event::Tick), clean("A", "CLN001"));
}

#[test]
fn a_cartridge_that_is_used_up_makes_way_and_one_that_failed_rests() {
    let mut bench = Bench::new(&["A"], &["CLN001", "CLN002"]);
    assert_eq!(bench.ask(1, "A", CleaningUrgency::Now), clean("A", "CLN001"));
    bench.cleaners(2, &["CLN002"]);
    assert_eq!(bench.cleaned(3, "A", CleaningEnd::Unfit), clean("A", "CLN002"));
    assert_eq!(bench.cleaned(4, "A", CleaningEnd::Failed("robot".to_owned())), []);
    assert!(matches!(bench.bar(5, "A"), Some(CleaningBar::Failed { .. })));
    assert_eq!(bench.tell(14, Event::Tick), clean("A", "CLN002"));
    // Each rest is longer.
    bench.cleaned(15, "A", CleaningEnd::Failed("robot".to_owned()));
    assert_eq!(bench.tell(25, Event::Tick), []);
    assert_eq!(bench.tell(35, Event::Tick), clean("A", "CLN002"));
}

#[test]
fn one_cartridge_cleans_one_drive_after_the_other() {
    let mut bench = Bench::new(&["A", "B"], &["CLN001"]);
    assert_eq!(bench.ask(1, "A", CleaningUrgency::Now), clean("A", "CLN001"));
    assert_eq!(bench.ask(2, "B", CleaningUrgency::Now), []);
    assert_eq!(bench.bar(3, "B"), Some(CleaningBar::InUse));
    assert_eq!(bench.want(4, "T00001"), [], "B waits for it");
    assert_eq!(bench.cleaned(5, "A", CleaningEnd::Cleaned), {
        let mut both = clean("B", "CLN001");
        both.extend(mount("A", "T00001"));
        both
    });
}

/// A drive that refused to work before it was cleaned rested a quarter of an hour first, and doubled that.
#[test]
fn a_drive_that_failed_for_want_of_it_comes_up_for_it() {
    let mut bench = Bench::new(&["A"], &["CLN001"]);
    bench.want(1, "T00001");
    bench.tell(2, Event::Mounted("A".to_owned(), vid("T00001")));
    bench.ask(3, "A", CleaningUrgency::Now);
    let failed = || Event::DriveFailed("A".to_owned(), "it must be cleaned".to_owned());
    assert_eq!(bench.tell(4, failed()), clean("A", "CLN001"));
    // It fails of that: no loop.
    assert_eq!(bench.tell(5, failed()), []);
    assert!(matches!(bench.bar(5, "A"), Some(CleaningBar::Failed { .. })));
    // What an operator has taken out of use stays so.
    bench.tell(6, Event::DriveDown("A".to_owned(), "service".to_owned()));
    assert_eq!(bench.tell(100, Event::Tick), []);
}

fn order(since: u64, with: &str) -> CleaningDue {
    let with = (!with.is_empty()).then(|| vid(with));
    CleaningDue { urgency: CleaningUrgency::Ordered, since: at(since), with, cleaned: None }
}

/// A drive that was to be cleaned with a cartridge that turned out to be used up, or was taken out, waited
/// for it for ever, and what it asked for itself was forgotten with the order.
#[test]
fn an_order_goes_on_with_another_cartridge_and_the_drives_own_request_stays() {
    let mut bench = Bench::new(&["A"], &["CLN001", "CLN002"]);
    let clean_with = |vid| Event::CleanDrive("A".to_owned(), Some(order(1, vid)));
    assert_eq!(bench.tell(1, clean_with("CLN002")), clean("A", "CLN002"));
    bench.ask(2, "A", CleaningUrgency::Now);
    bench.cleaners(3, &["CLN001"]);
    assert_eq!(bench.cleaned(3, "A", CleaningEnd::Unfit), clean("A", "CLN001"));
    bench.cleaned(4, "A", CleaningEnd::Cleaned);
    assert_eq!(bench.bar(4, "A"), None, "all is done");
    // It is taken out before the drive is empty.
    bench.want(5, "T00001");
    bench.tell(6, Event::Mounted("A".to_owned(), vid("T00001")));
    bench.tell(7, clean_with("CLN001"));
    bench.cleaners(8, &["CLN003"]);
    bench.tell(9, Event::NotWanted(FileId(1)));
    bench.tell(10, Event::RecallEnded("A".to_owned(), SessionEnd::Drained));
    assert_eq!(bench.tell(11, Event::Unmounted("A".to_owned())), clean("A", "CLN003"));
    bench.cleaned(12, "A", CleaningEnd::Cleaned);
    // Without any, the drive that must be cleaned by its own word rests as without the order.
    bench.cleaners(13, &[]);
    bench.tell(13, clean_with(""));
    bench.ask(14, "A", CleaningUrgency::Now);
    assert_eq!(bench.want(15, "T00002"), []);
    assert_eq!(bench.why(15, "A").until(), Some(at(14).plus(UNCLEANED_REST)));
}

/// A cartridge that a drive does not take, and that is the one most used, was brought to it again and again
/// beside others.
#[test]
fn after_a_failure_another_cartridge_goes_first() {
    let mut bench = Bench::new(&["A"], &["CLN001", "CLN002"]);
    assert_eq!(bench.ask(1, "A", CleaningUrgency::Now), clean("A", "CLN001"));
    let failed = || CleaningEnd::Failed("refused".to_owned());
    bench.cleaned(2, "A", failed());
    assert_eq!(bench.tell(12, Event::Tick), clean("A", "CLN002"));
    bench.cleaned(13, "A", failed());
    assert_eq!(bench.tell(33, Event::Tick), clean("A", "CLN001"), "which failed longer ago");
}

/// A drive that was down came up to be cleaned, was not, and was given tapes, long before its rest was over.
#[test]
fn a_drive_that_was_down_and_is_not_cleaned_goes_on_resting() {
    let mut bench = Bench::new(&["A"], &["CLN001"]);
    bench.want(1, "T00001");
    bench.tell(2, Event::Mounted("A".to_owned(), vid("T00001")));
    bench.tell(3, Event::DriveFailed("A".to_owned(), "it must be cleaned".to_owned()));
    let was = bench.why(4, "A");
    bench.want(4, "T00002");
    assert_eq!(bench.ask(4, "A", CleaningUrgency::Now), clean("A", "CLN001"));
    assert_eq!(bench.cleaned(5, "A", CleaningEnd::Failed("robot".to_owned())), []);
    assert_eq!(bench.why(5, "A"), was, "with the same words, until the same time");
    assert_eq!(bench.tell(13, Event::Tick), [], "its rest is over, and it waits to be cleaned");
    assert_eq!(bench.tell(15, Event::Tick), clean("A", "CLN001"));
    assert_eq!(bench.cleaned(16, "A", CleaningEnd::Cleaned).len(), 1, "and works");
}

/// While the robot is busy a drive that is down stays so: it was given a tape as soon as the robot was free.
#[test]
fn a_drive_that_is_down_waits_for_the_robot_to_be_cleaned() {
    let policy = Policy { mounts_at_once_max: 1, ..policy() };
    let mut bench = Bench::with(policy, &["A", "B"], &["CLN001"]);
    bench.tell(1, Event::DriveFailed("A".to_owned(), "it must be cleaned".to_owned()));
    assert_eq!(bench.want(2, "T00001"), mount("B", "T00001"));
    assert_eq!(bench.ask(3, "A", CleaningUrgency::Now), []);
    let states: Vec<_> = bench.scheduler.drives().map(|(_, state)| state.clone()).collect();
    assert!(matches!(states[0], DriveState::Down { .. }), "{states:?}");
    assert_eq!(bench.tell(4, Event::Mounted("B".to_owned(), vid("T00001"))).len(), 2);
}

/// While a drive is cleaned the robot mounts tapes in others: cleaning takes minutes, of which it works for
/// seconds.
#[test]
fn a_drive_that_is_cleaned_holds_no_robot() {
    let policy = Policy { mounts_at_once_max: 1, ..policy() };
    let mut bench = Bench::with(policy, &["A", "B", "C"], &["CLN001", "CLN002"]);
    assert_eq!(bench.ask(1, "A", CleaningUrgency::Now), clean("A", "CLN001"));
    assert_eq!(bench.ask(1, "B", CleaningUrgency::Now), clean("B", "CLN002"));
    assert_eq!(bench.want(2, "T00001"), mount("C", "T00001"));
    assert_eq!(bench.want(3, "T00002"), [], "all drives are in use");
    assert_eq!(bench.tell(4, Event::Mounted("C".to_owned(), vid("T00001"))).len(), 1, "it is read");
    assert_eq!(bench.cleaned(5, "A", CleaningEnd::Cleaned), mount("A", "T00002"));
}
