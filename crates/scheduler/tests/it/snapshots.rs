//! Small exchanges of events and actions, written out.

use crate::engine::{GB, at, policy, vid};
use base::{ByteCount, ClassId, FileId, ShareId, TapePoolId};
use scheduler::{Action, Backlog, Event, Reason, Scheduler, SessionEnd, TapeSummary};

/// Feeds each event at its second and compares the actions, one line per event that causes any.
fn check(scheduler: &mut Scheduler, events: Vec<(i64, Event)>, expected: &str) {
    let mut lines = String::new();
    for (second, event) in events {
        let mut actions = Vec::new();
        scheduler.step(at(second), event, &mut actions);
        scheduler.assert_consistent();
        if !actions.is_empty() {
            let actions: Vec<String> = actions.iter().map(show).collect();
            lines += &format!("{second}: {}\n", actions.join(", "));
        }
    }
    let expected: String = expected.lines().map(|line| line.trim_start().to_owned() + "\n").collect();
    assert_eq!(lines.trim(), expected.trim());
}

fn show(action: &Action) -> String {
    match action {
        Action::Seal { class, partial } => format!("seal {class}{}", if *partial { " partial" } else { "" }),
        Action::Mount { drive, vid, assign: None } => format!("mount {vid} in {drive}"),
        Action::Mount { drive, vid, assign: Some(pool) } => format!("mount {vid} in {drive} for pool {pool}"),
        Action::Migrate { drive, vid, tape_pool } => format!("write pool {tape_pool} to {vid} in {drive}"),
        Action::Recall { drive, vid } => format!("read {vid} in {drive}"),
        Action::Maintain { drive, vid } => format!("check {vid} in {drive}"),
        Action::Unmount { drive } => format!("unmount {drive}"),
        Action::Clean { drive, vid } => format!("clean {drive} with {vid}"),
        Action::Clear { drive, vid } => format!("clear {vid} of {drive}"),
        Action::WakeAt(time) => format!("wake at {}", time.0 / 1_000_000_000),
    }
}

fn backlog(items: u64, gb: u64, oldest: i64) -> Backlog {
    Backlog { items, bytes: ByteCount(gb * GB), oldest: (items > 0).then_some(at(oldest)) }
}

fn tape(number: usize, pool: Option<u16>, free: u64) -> (i64, Event) {
    let summary = TapeSummary {
        tape_pool: pool.map(TapePoolId),
        readable: true,
        writable: free > 0,
        free: ByteCount(free * GB),
        labelled: pool.is_some(),
        mounts: 0,
        ..TapeSummary::default()
    };
    (0, Event::Tape(vid(number), summary))
}

fn up(drive: &str) -> (i64, Event) {
    (0, Event::DriveUp(drive.into()))
}

fn want(second: i64, file: u64, gb: u64, copies: &[usize]) -> (i64, Event) {
    let copies = copies.iter().map(|number| vid(*number)).collect();
    let (file, bytes, since) = (FileId(file), ByteCount(gb * GB), at(second));
    (second, Event::Wanted { file, bytes, since, priority: 0, share: ShareId(0), copies })
}

fn todo(second: i64, backlog: Backlog) -> (i64, Event) {
    (second, Event::Todo(ClassId(1), backlog))
}

fn queued(second: i64, backlog: Backlog) -> (i64, Event) {
    (second, Event::Queued(TapePoolId(1), backlog))
}

fn mounted(second: i64, drive: &str, number: usize) -> (i64, Event) {
    (second, Event::Mounted(drive.into(), vid(number)))
}

fn drained_writing(second: i64, drive: &str) -> (i64, Event) {
    (second, Event::MigrationEnded(drive.into(), SessionEnd::Drained))
}

#[test]
fn sealing_by_bytes_age_and_request() {
    let events = vec![
        todo(0, backlog(1, 1, 0)),
        todo(10, backlog(3, 5, 0)),
        // One seal at a time.
        todo(11, backlog(4, 9, 0)),
        todo(20, backlog(1, 1, 0)),
        (20, Event::SealEnded(ClassId(1))),
        (600, Event::Tick),
        todo(601, backlog(0, 0, 0)),
        (601, Event::SealEnded(ClassId(1))),
        todo(700, backlog(1, 1, 700)),
        (710, Event::MigrateNow(Some(ClassId(1)))),
        // Something else came meanwhile: the request stands until nothing is left.
        todo(720, backlog(1, 1, 715)),
        (720, Event::SealEnded(ClassId(1))),
        todo(730, backlog(0, 0, 0)),
        (730, Event::SealEnded(ClassId(1))),
        todo(800, backlog(1, 1, 800)),
    ];
    let expected = "0: wake at 600
        10: seal 1
        600: seal 1 partial
        700: wake at 1300
        710: seal 1 partial
        720: seal 1 partial";
    check(&mut Scheduler::new(policy()), events, expected);
}

#[test]
fn a_seal_that_changes_nothing_is_not_repeated_at_once() {
    let events = vec![
        todo(0, backlog(9, 5, 0)),
        todo(1, backlog(9, 5, 0)),
        (1, Event::SealEnded(ClassId(1))),
        (600, Event::Tick),
        (601, Event::SealEnded(ClassId(1))),
        (1501, Event::Tick),
    ];
    let expected = "0: seal 1
        1: wake at 600
        600: seal 1 partial
        601: wake at 1501
        1501: seal 1 partial";
    check(&mut Scheduler::new(policy()), events, expected);
}

#[test]
fn migration_from_queue_to_slot() {
    let events = vec![
        up("A"),
        tape(1, None, 500),
        queued(10, backlog(2, 20, 10)),
        queued(20, backlog(6, 60, 10)),
        mounted(110, "A", 1),
        queued(200, backlog(0, 0, 0)),
        drained_writing(200, "A"),
        // The tape is there: no threshold.
        queued(250, backlog(1, 1, 250)),
        queued(260, backlog(0, 0, 0)),
        drained_writing(260, "A"),
        (320, Event::Tick),
        (380, Event::Tick),
        (440, Event::Unmounted("A".into())),
    ];
    let expected = "10: wake at 3610
        20: mount T00001 in A for pool 1
        110: write pool 1 to T00001 in A
        200: wake at 320
        250: write pool 1 to T00001 in A
        320: wake at 380
        380: unmount A";
    check(&mut Scheduler::new(policy()), events, expected);
}

/// Story: a scratch tape that could not be labelled was given back by its operator again and again, and was
/// the first choice each time: others that were never tried did not come to their turn in four hours.
#[test]
fn the_scratch_tape_that_was_mounted_least_comes_first() {
    let used = |number: usize, mounts: u64| {
        let (second, Event::Tape(vid, summary)) = tape(number, None, 500) else { unreachable!() };
        (second, Event::Tape(vid, TapeSummary { mounts, ..summary }))
    };
    let events = vec![up("A"), used(1, 7), used(2, 3), used(3, 4), queued(20, backlog(6, 60, 10))];
    check(&mut Scheduler::new(policy()), events, "20: mount T00002 in A for pool 1, wake at 3610");
}

/// Story: two tapes whose labelling failed belonged to their pool already. Given back again and again they
/// took turns for four hours, while nobody tried the scratch tapes.
#[test]
fn tapes_whose_labelling_fails_again_and_again_do_not_keep_scratch_tapes_waiting() {
    let bad = |mounts: u64| {
        let (second, Event::Tape(vid, summary)) = tape(1, Some(1), 500) else { unreachable!() };
        (second, Event::Tape(vid, TapeSummary { labelled: false, mounts, ..summary }))
    };
    let choice = |of: (i64, Event), expected: &str| {
        let events = vec![up("A"), of, tape(2, None, 500), queued(20, backlog(6, 60, 10))];
        check(&mut Scheduler::new(policy()), events, expected);
    };
    choice(bad(4), "20: mount T00001 in A, wake at 3610");
    choice(bad(5), "20: mount T00002 in A for pool 1, wake at 3610");
    let (second, Event::Tape(vid, summary)) = tape(1, Some(1), 500) else { unreachable!() };
    choice(
        (second, Event::Tape(vid, TapeSummary { mounts: 900, ..summary })),
        "20: mount T00001 in A, wake at 3610",
    );
}

#[test]
fn recall_waits_for_age_or_bytes_and_takes_the_better_copy() {
    let events = vec![
        up("A"),
        tape(1, Some(1), 0),
        tape(2, Some(1), 0),
        want(10, 1, 1, &[1, 2]),
        want(20, 2, 1, &[2]),
        (310, Event::Tick),
        // Both files are of the tape that is on its way; so is a new one.
        want(320, 3, 200, &[1, 2]),
        mounted(400, "A", 2),
        (410, Event::NotWanted(FileId(1))),
        (420, Event::NotWanted(FileId(2))),
        (430, Event::NotWanted(FileId(3))),
        (431, Event::RecallEnded("A".into(), SessionEnd::Drained)),
        // The drive is given up at once if something else needs it.
        want(440, 4, 200, &[1]),
        (500, Event::Unmounted("A".into())),
    ];
    let expected = "10: wake at 310
        310: mount T00002 in A
        400: read T00002 in A
        431: wake at 551
        440: unmount A
        500: mount T00001 in A";
    check(&mut Scheduler::new(policy()), events, expected);
}

/// A tape of the pool is read, of which so much is wanted, when this is queued.
fn queued_while_it_is_read(wanted: u64, backlog: Backlog) -> Vec<(i64, Event)> {
    let wanted = want(0, 1, wanted, &[1]);
    let tapes = [tape(1, Some(1), 500), tape(2, None, 500)];
    let events = [wanted, (300, Event::Tick), mounted(390, "A", 1), queued(400, backlog)];
    [up("A"), up("B")].into_iter().chain(tapes).chain(events).collect()
}

/// Story: a scratch tape was labelled while a nearly empty one of the same pool was read for a minute.
#[test]
fn a_begun_tape_that_is_soon_read_is_waited_for() {
    let mut scheduler = Scheduler::new(policy());
    let reading = "0: wake at 300
        300: mount T00001 in A
        390: read T00001 in A
        400: wake at 990";
    check(&mut scheduler, queued_while_it_is_read(50, backlog(5, 60, 0)), reading);
    let told = scheduler.why_migrating(TapePoolId(1), at(401));
    assert_eq!(told, Reason::Reading { drive: "A".into(), vid: vid(1), position: 0 });
    let events =
        vec![(500, Event::NotWanted(FileId(1))), (500, Event::RecallEnded("A".into(), SessionEnd::Drained))];
    check(&mut scheduler, events, "500: write pool 1 to T00001 in A");
}

/// What is to be written does not wait for long, nor for what takes long, nor when it has waited for long.
#[test]
fn a_scratch_tape_is_taken_when_the_begun_one_is_read_for_longer() {
    let reading = "0: wake at 300
        300: mount T00001 in A
        390: read T00001 in A";
    let mut events = queued_while_it_is_read(50, backlog(5, 60, 0));
    events.push((990, Event::Tick));
    let late = format!("{reading}\n400: wake at 990\n990: mount T00002 in B for pool 1, wake at 3600");
    check(&mut Scheduler::new(policy()), events, &late);
    let at_once = format!("{reading}\n400: mount T00002 in B for pool 1");
    let starving = queued_while_it_is_read(50, backlog(5, 60, -30 * 86_400));
    check(&mut Scheduler::new(policy()), starving, &at_once);
    let long = queued_while_it_is_read(90, backlog(5, 60, 0));
    check(&mut Scheduler::new(policy()), long, &format!("{at_once}, wake at 3600"));
}

/// Story: a robot that hung with the pool's begun tape held up what was to be written until it starved.
#[test]
fn a_begun_tape_that_does_not_arrive_is_not_waited_for_long() {
    let tapes = || [up("A"), up("B"), tape(1, Some(1), 500), tape(2, None, 500)].into_iter();
    let mounting =
        [want(0, 1, 50, &[1]), (300, Event::Tick), queued(400, backlog(5, 60, 0)), (2100, Event::Tick)];
    let expected = "0: wake at 300
        300: mount T00001 in A
        400: wake at 2100
        2100: mount T00002 in B for pool 1, wake at 3600";
    check(&mut Scheduler::new(policy()), tapes().chain(mounting).collect(), expected);
    let unmounting = [
        want(0, 1, 50, &[1]),
        (300, Event::Tick),
        mounted(390, "A", 1),
        (500, Event::NotWanted(FileId(1))),
        (500, Event::RecallEnded("A".into(), SessionEnd::Drained)),
        (620, Event::Tick),
        queued(700, backlog(5, 60, 0)),
        (2420, Event::Tick),
    ];
    let expected = "0: wake at 300
        300: mount T00001 in A
        390: read T00001 in A
        500: wake at 620
        620: unmount A
        700: wake at 2420
        2420: mount T00002 in B for pool 1, wake at 3600";
    check(&mut Scheduler::new(policy()), tapes().chain(unmounting).collect(), expected);
}

#[test]
fn a_drive_that_goes_down_gives_everything_back() {
    let events = vec![
        up("A"),
        tape(1, Some(1), 0),
        want(0, 1, 200, &[1]),
        mounted(90, "A", 1),
        (100, Event::DriveDown("A".into(), "no answer".into())),
        // Late answers of the drive that is down.
        (101, Event::RecallEnded("A".into(), SessionEnd::Drained)),
        (102, Event::Unmounted("A".into())),
        (200, Event::DriveUp("B".into())),
    ];
    let expected = "0: mount T00001 in A
        90: read T00001 in A
        200: mount T00001 in B";
    check(&mut Scheduler::new(policy()), events, expected);
}

#[test]
fn failed_copies_and_tapes_send_files_to_the_other_copy() {
    let events = vec![
        up("A"),
        up("B"),
        tape(1, Some(1), 0),
        tape(2, Some(1), 0),
        want(0, 1, 200, &[1, 2]),
        mounted(90, "A", 1),
        (100, Event::CopyFailed(FileId(1), vid(1))),
        (101, Event::RecallEnded("A".into(), SessionEnd::Drained)),
        (150, Event::Tape(vid(2), TapeSummary { readable: false, ..summary() })),
        (200, Event::MountFailed("B".into(), vid(2), "no label".into())),
        (1000, Event::Tick),
    ];
    let expected = "0: mount T00001 in A
        90: read T00001 in A
        100: mount T00002 in B, wake at 1000
        101: wake at 221
        1000: read T00001 in A, wake at 1100";
    check(&mut Scheduler::new(policy()), events, expected);
}

/// What the session has claimed it may finish; the rest goes to the other copy at once.
#[test]
fn a_tape_that_becomes_unreadable_gives_up_what_is_not_claimed() {
    let mut scheduler = Scheduler::new(policy());
    let begin = vec![
        up("A"),
        up("B"),
        tape(1, Some(1), 0),
        want(0, 1, 200, &[1, 2]),
        want(0, 2, 200, &[1, 2]),
        tape(2, Some(1), 0),
        mounted(90, "A", 1),
    ];
    check(&mut scheduler, begin, "0: mount T00001 in A\n90: read T00001 in A");
    assert_eq!(scheduler.claim(vid(1), &[FileId(1)]), [true]);
    let unreadable = TapeSummary { readable: false, leaves: true, ..summary() };
    let end = vec![
        (100, Event::Tape(vid(1), unreadable)),
        (110, Event::NotWanted(FileId(1))),
        (110, Event::RecallEnded("A".into(), SessionEnd::Stopped)),
    ];
    check(&mut scheduler, end, "100: mount T00002 in B\n110: unmount A");
}

/// Two drives write to a pool; the first has taken all that is queued, so the second finds nothing and is
/// not sent back for the same.
#[test]
fn a_second_writer_that_finds_nothing_is_not_repeated() {
    let events = vec![
        up("A"),
        up("B"),
        tape(1, Some(1), 500),
        tape(2, Some(1), 600),
        queued(0, backlog(30, 300, 0)),
        mounted(90, "A", 1),
        mounted(90, "B", 2),
        queued(100, backlog(29, 290, 0)),
        drained_writing(100, "B"),
        queued(110, backlog(28, 280, 0)),
        queued(120, backlog(40, 400, 0)),
    ];
    let expected = "0: mount T00001 in A, mount T00002 in B, wake at 3600
        90: write pool 1 to T00001 in A
        90: write pool 1 to T00002 in B
        100: wake at 220
        120: write pool 1 to T00002 in B";
    check(&mut Scheduler::new(policy()), events, expected);
}

fn summary() -> TapeSummary {
    let (tape_pool, free) = (Some(TapePoolId(1)), ByteCount(0));
    TapeSummary {
        tape_pool,
        readable: true,
        writable: false,
        free,
        labelled: true,
        mounts: 0,
        reason: "label damaged".into(),
        ..TapeSummary::default()
    }
}

/// A session that ends without having done anything would otherwise be begun again for ever.
#[test]
fn a_session_that_does_nothing_is_not_repeated_at_once() {
    let events = vec![
        up("A"),
        tape(1, Some(1), 0),
        want(0, 1, 200, &[1]),
        mounted(90, "A", 1),
        (100, Event::RecallEnded("A".into(), SessionEnd::Drained)),
        (160, Event::Unmounted("A".into())),
        (1000, Event::Tick),
    ];
    let expected = "0: mount T00001 in A
        90: read T00001 in A
        100: unmount A, wake at 1000
        1000: mount T00001 in A";
    check(&mut Scheduler::new(policy()), events, expected);
}

#[test]
fn reasons_in_plain_words() {
    let mut scheduler = Scheduler::new(policy());
    let mut actions = Vec::new();
    let mut tell = |scheduler: &mut Scheduler, events: Vec<(i64, Event)>| {
        for (second, event) in events {
            scheduler.step(at(second), event, &mut actions);
        }
    };
    let file = |scheduler: &Scheduler, file: u64| {
        scheduler.why_recalling(FileId(file), at(1000)).map_or("not wanted".to_owned(), |why| why.to_string())
    };
    tell(
        &mut scheduler,
        vec![todo(0, backlog(2, 1, 0)), queued(0, backlog(2, 20, 0)), want(500, 1, 1, &[1])],
    );
    assert_eq!(
        file(&scheduler, 1),
        "the only copy is on tape T00001, which cannot be read: no library holds it"
    );
    assert_eq!(file(&scheduler, 2), "not wanted");
    let sealing =
        "waits for more: 1.00 GB of 4.00 GB are there; it begins at 1970-01-01T00:10:00Z at the latest";
    assert_eq!(scheduler.why_sealing(ClassId(1), at(1)).to_string(), sealing);
    // No age brings a drive: it is told at once.
    assert_eq!(scheduler.why_migrating(TapePoolId(1), at(1)).to_string(), "there is no tape drive");
    tell(&mut scheduler, vec![tape(1, Some(1), 0), tape(2, Some(1), 0), queued(1000, backlog(9, 90, 0))]);
    assert_eq!(scheduler.why_migrating(TapePoolId(1), at(1000)).to_string(), "there is no tape drive");
    tell(&mut scheduler, vec![(1000, Event::DriveDown("A".into(), "cleaning".into()))]);
    assert_eq!(
        scheduler.why_migrating(TapePoolId(1), at(1000)).to_string(),
        "every tape drive is down: A (cleaning); kist drive up NAME takes one into use again, when it is well"
    );
    tell(
        &mut scheduler,
        vec![(1000, Event::DriveUp("A".into())), want(1000, 3, 200, &[1]), want(1000, 4, 150, &[2])],
    );
    assert_eq!(file(&scheduler, 3), "tape T00001 is being mounted in drive A");
    assert_eq!(file(&scheduler, 4), "waits for a drive: A (mounting T00001 to read)");
    tell(&mut scheduler, vec![mounted(1100, "A", 1)]);
    assert_eq!(
        file(&scheduler, 3),
        "tape T00001 is being read in drive A, 1 older files in the same session"
    );
    assert_eq!(
        scheduler.why_tape(vid(1)).to_string(),
        "tape T00001 is being read in drive A, 0 older files in the same session"
    );
    assert_eq!(scheduler.why_tape(vid(7)).to_string(), "in its slot; nothing waits for it");
    tell(
        &mut scheduler,
        vec![(1200, Event::RecallEnded("A".into(), SessionEnd::Failed("sense 4/44".into())))],
    );
    tell(&mut scheduler, vec![(1260, Event::Unmounted("A".into()))]);
    assert_eq!(
        scheduler.drives().map(|(_, state)| state.to_string()).collect::<Vec<_>>(),
        ["mounting T00002 to read"]
    );
    let resting = "failed (sense 4/44) and is tried again at 1970-01-01T00:35:00Z";
    assert_eq!(file(&scheduler, 3), resting);
    assert_eq!(
        scheduler.why_migrating(TapePoolId(1), at(1260)).to_string().split(';').next(),
        Some("no tape of the pool can be written and there is no scratch tape")
    );
}

fn told(events: Vec<(i64, Event)>) -> Scheduler {
    let mut scheduler = Scheduler::new(policy());
    let mut actions = Vec::new();
    for (second, event) in events {
        scheduler.step(at(second), event, &mut actions);
    }
    scheduler
}

fn unreadable(number: usize, reason: &str) -> (i64, Event) {
    (0, Event::Tape(vid(number), TapeSummary { readable: false, reason: reason.into(), ..summary() }))
}

/// Story: one of two tapes with the same files was read, and `kist why` said of the other one that 4,329
/// files are wanted from it, and that nothing waits for it.
#[test]
fn a_tape_whose_files_others_give_names_them() {
    let two = || vec![tape(1, Some(1), 0), tape(2, Some(1), 0)];
    let reads = [two(), vec![up("A"), want(1000, 1, 200, &[1, 2])]].concat();
    let scheduler = told(reads);
    assert_eq!(scheduler.why_tape(vid(1)).to_string(), "tape T00001 is being mounted in drive A");
    let elsewhere = scheduler.why_tape(vid(2));
    assert_eq!(elsewhere.to_string(), "its files are read from tape T00001, not from T00002");
    assert_eq!(elsewhere, Reason::ReadElsewhere { vid: vid(2), tapes: vec![vid(1)] });
    assert_eq!(scheduler.why_tape(vid(3)), Reason::InSlot, "nothing is wanted from it");
    // The same while it stays in a drive since it was read for others.
    let kept = [
        two(),
        vec![up("A"), up("B"), want(1000, 1, 200, &[2]), want(1000, 2, 200, &[1])],
        vec![mounted(1010, "A", 2), mounted(1010, "B", 1), (1020, Event::NotWanted(FileId(1)))],
        vec![(1021, Event::RecallEnded("A".into(), SessionEnd::Drained))],
    ];
    let mut scheduler = told(kept.concat());
    let idle = scheduler.why_tape(vid(2));
    assert!(matches!(idle, Reason::KeptMounted { .. }), "{idle}");
    scheduler.step(at(1022), want(1022, 3, 1, &[1, 2]).1, &mut Vec::new());
    assert_eq!(scheduler.why_tape(vid(2)), elsewhere);
    // A tape that cannot be read, and whose files stand on another one.
    let one = vec![unreadable(1, "it is disabled"), tape(2, Some(1), 0), up("A"), want(1000, 1, 1, &[1, 2])];
    let elsewhere = told(one).why_tape(vid(1));
    assert_eq!(elsewhere, Reason::ReadElsewhere { vid: vid(1), tapes: vec![vid(2)] });
}

/// Story: with both tapes of a file disabled each was said to have the only copy.
#[test]
fn the_only_copy_is_the_only_one() {
    let both = || vec![unreadable(1, "it is disabled"), unreadable(2, "no library holds it"), up("A")];
    let scheduler = told([both(), vec![want(1000, 1, 200, &[2, 1])]].concat());
    let text = "no copy can be read: T00001 (it is disabled), T00002 (no library holds it)";
    for reason in [scheduler.why_tape(vid(1)), scheduler.why_tape(vid(2))] {
        assert_eq!(reason.to_string(), text);
    }
    let of_file = scheduler.why_recalling(FileId(1), at(1000)).unwrap();
    assert_eq!(of_file.to_string(), text);
    let scheduler = told([both(), vec![want(1000, 1, 200, &[1])]].concat());
    let text = "the only copy is on tape T00001, which cannot be read: it is disabled";
    assert_eq!(scheduler.why_tape(vid(1)).to_string(), text);
    assert_eq!(scheduler.why_recalling(FileId(1), at(1000)).unwrap().to_string(), text);
}
