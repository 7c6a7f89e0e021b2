//! Two clocks: what frees or deletes goes by the trusted time, which does not believe every system's clock.

use std::sync::Arc;

use crate::common::{Instance, bytes, path, put, put_with, stop, wait_until};
use archive::{
    Archive, ArchiveError, BucketSettings, Hold, LifecycleRule, ObjectStat, PutOptions, Retention,
    RetentionMode, Versioning, Which,
};
use base::{ByteCount, Clock, Duration, ManualClock, Name, Timestamp};

const DAY: Duration = Duration::from_secs(86_400);
const TEN_YEARS: Duration = Duration::from_secs(3_653 * 86_400);

/// An instance and the clock of its machine, which a test sets.
fn instance() -> (Instance, Arc<ManualClock>) {
    let instance = Instance::new(ByteCount::mib(512));
    let clock = instance.clock();
    (instance, clock)
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn expire(prefix: &str, age: Duration) -> LifecycleRule {
    LifecycleRule {
        id: format!("rule {prefix}"),
        enabled: true,
        prefix: prefix.to_owned(),
        transition: None,
        expiration: Some(age),
        abort_uploads: None,
    }
}

/// Bucket `old`: rules that delete after 3,000 days, after 30, and, last, after a day.
fn with_rules(archive: &Archive) -> BucketSettings {
    let lifecycle = vec![expire("3000/", DAY * 3_000), expire("30/", DAY * 30), expire("1/", DAY)];
    let settings = BucketSettings { lifecycle, ..BucketSettings::default() };
    archive.make_bucket(&name("old"), "alice", &settings).unwrap();
    settings
}

/// Bucket `locked`: each object for a day, in mode compliance.
fn with_lock(archive: &Archive) {
    let settings = BucketSettings {
        versioning: Versioning::Enabled,
        object_lock: true,
        default_retention: Some((RetentionMode::Compliance, DAY)),
        ..BucketSettings::default()
    };
    archive.make_bucket(&name("locked"), "alice", &settings).unwrap();
}

fn put_object(archive: &Archive, at: &str, hold: Option<Hold>) -> Result<ObjectStat, ArchiveError> {
    let options = PutOptions { make_parents: true, hold, ..PutOptions::default() };
    put_with(archive, at, &bytes(1, 1_000), options)?;
    archive.object(&path(at), Which::Current)
}

fn compliance(until: Timestamp) -> Option<Hold> {
    Some(Hold { retention: Some(Retention { mode: RetentionMode::Compliance, until }), legal: false })
}

fn delete(archive: &Archive, object: &ObjectStat) -> Result<(), ArchiveError> {
    let which = Which::Version(object.file.file);
    archive.remove_object(&object.file.path, which, true).map(drop)
}

fn is_there(archive: &Archive, at: &str) -> bool {
    archive.stat(&path(at)).is_ok()
}

/// Has all rules looked at once more: the last one deletes this file, which is more than a day old.
fn look_at_rules(archive: &Archive, settings: &BucketSettings, oldest: &str) {
    archive.set_bucket(&name("old"), settings).unwrap();
    wait_until("the rules were looked at", || !is_there(archive, oldest));
}

fn today(clock: &ManualClock) -> Timestamp {
    let (year, month, day, ..) = clock.now().civil();
    Timestamp::from_civil(year, month, day, 0, 0, 0, 0).unwrap()
}

/// One start with the clock ten years ahead was for good: a lock of five years could be deleted, a rule of
/// 3,000 days fired, and the time stayed in 2036 after the clock was right again.
#[test]
fn a_start_ten_years_ahead_frees_and_deletes_nothing() {
    let (instance, clock) = instance();
    let begin = clock.now();
    let archive = instance.start(&clock);
    let settings = with_rules(&archive);
    with_lock(&archive);
    let until = begin.plus(DAY * 1_825);
    let locked = put_object(&archive, "/locked/five-years", compliance(until)).unwrap();
    put(&archive, "/old/3000/a", b"kept");
    put(&archive, "/old/1/first", b"short");
    assert!(archive.totals().unwrap().warnings.iter().all(|warning| !warning.contains("clock")));
    archive.close();
    drop(archive);

    clock.set(begin.plus(TEN_YEARS));
    let archive = instance.start(&clock);
    let info = archive.clock_info().unwrap();
    assert!(info.doubted.is_some() && info.standing.ahead() > 0 && info.standing.trusted < begin.plus(DAY));
    let warnings = archive.totals().unwrap().warnings;
    assert!(warnings.iter().any(|warning| warning.contains("kist clock accept")), "{warnings:?}");
    assert!(matches!(delete(&archive, &locked), Err(ArchiveError::Held { .. })));
    // A day and more of running time.
    clock.advance(DAY + DAY / 2);
    look_at_rules(&archive, &settings, "/old/1/first");
    assert!(is_there(&archive, "/old/3000/a"), "a rule of 3,000 days fired after one");
    let refused = put_object(&archive, "/locked/when", None).unwrap_err();
    assert!(refused.to_string().contains("kist clock"), "{refused}");
    archive.close();
    drop(archive);

    // The clock is right again: all is as before.
    clock.set(begin.plus(DAY * 2));
    let archive = instance.start(&clock);
    let info = archive.clock_info().unwrap();
    assert_eq!((info.doubted, info.standing.ahead(), info.planned_back), (None, 0, None));
    assert!(matches!(delete(&archive, &locked), Err(ArchiveError::Held { .. })));
    let day = put_object(&archive, "/locked/when", None).unwrap();
    assert_eq!(day.hold.retention.unwrap().until, begin.plus(DAY * 3));
    clock.advance(DAY * 2);
    delete(&archive, &day).unwrap();
    clock.advance(DAY * 1_825);
    delete(&archive, &locked).unwrap();
    archive.close();
    assert_eq!(archive.verify_catalogue().unwrap(), []);
}

/// A clock that is set while the server runs is not followed either, and is once it is right again.
#[test]
fn a_clock_that_leaps_while_the_server_runs_is_not_followed() {
    let (instance, clock) = instance();
    let begin = clock.now();
    let archive = instance.start(&clock);
    let locked = put_object(&archive, "/locked-by-hand", compliance(begin.plus(DAY))).unwrap();
    clock.set(begin.plus(TEN_YEARS));
    assert!(matches!(delete(&archive, &locked), Err(ArchiveError::Held { .. })));
    clock.set(begin.plus(DAY * 2));
    assert!(matches!(delete(&archive, &locked), Err(ArchiveError::Held { .. })), "nobody vouches for it");
    clock.set_synchronised(true);
    // The sweeper looks at the clocks, and an eviction has it look.
    archive.evict(&archive::Selection { paths: Vec::new(), recursive: false }).unwrap();
    wait_until("a time server vouches", || delete(&archive, &locked).is_ok());
    archive.close();
}

/// The server was off for two months at a site without a time server: an operator vouches. What was put
/// before that is not two months old by it.
#[test]
fn an_operator_moves_the_time_forward_and_what_is_new_stays_young() {
    let (instance, clock) = instance();
    let begin = clock.now();
    let archive = instance.start(&clock);
    let settings = with_rules(&archive);
    put(&archive, "/old/30/before", b"old");
    // The doubt begins later than that: a start goes on from the newest change.
    clock.advance(Duration::from_secs(1));
    put(&archive, "/later", b"x");
    archive.close();
    drop(archive);
    clock.set(begin.plus(DAY * 60));
    let archive = instance.start(&clock);
    put(&archive, "/old/30/during", b"new");
    let wrong = archive.accept_time(begin, false);
    assert!(matches!(wrong, Err(ArchiveError::OtherDate { .. })), "{wrong:?}");
    assert!(archive.clock_info().unwrap().doubted.is_some());
    let info = archive.accept_time(today(&clock), false).unwrap();
    assert_eq!((info.doubted, info.standing.ahead(), info.moves.len()), (None, 0, 1));
    put(&archive, "/old/1/last", b"x");
    clock.advance(DAY + DAY / 2);
    look_at_rules(&archive, &settings, "/old/1/last");
    wait_until("the rule of thirty days was looked at", || !is_there(&archive, "/old/30/before"));
    assert!(is_there(&archive, "/old/30/during"), "a file of a day was deleted by a rule of thirty");
    archive.close();
    drop(archive);
    // It is kept: the next start does not doubt.
    let archive = instance.start(&clock);
    assert_eq!(archive.clock_info().unwrap().standing.ahead(), 0);
    clock.advance(DAY * 30);
    put(&archive, "/old/1/again", b"x");
    clock.advance(DAY * 2);
    look_at_rules(&archive, &settings, "/old/1/again");
    wait_until("the rule of thirty days was looked at", || !is_there(&archive, "/old/30/during"));
    archive.close();
}

/// A time server is believed up to 400 days, nobody is believed ten years.
#[test]
fn a_synchronised_clock_is_believed_at_a_start_up_to_a_limit() {
    let (instance, clock) = instance();
    let begin = clock.now();
    instance.start(&clock).close();
    clock.set_synchronised(true);
    clock.set(begin.plus(DAY * 200));
    let archive = instance.start(&clock);
    assert_eq!(archive.clock_info().unwrap().standing.ahead(), 0);
    archive.close();
    drop(archive);
    clock.set(begin.plus(TEN_YEARS));
    let archive = instance.start(&clock);
    assert!(archive.clock_info().unwrap().doubted.is_some());
    archive.close();
}

/// The catalogue of a Kist that believed a clock of 2036: an operator brings it back. What was put then
/// counts as put now, and holds up no rule.
#[test]
fn a_catalogue_with_times_that_were_never_true_is_brought_back() {
    let (instance, clock) = instance();
    let begin = clock.now();
    let mut instance = instance;
    for class in &mut instance.settings.classes {
        class.pack_age = Duration::from_secs(3_600);
    }
    // Kist as it was: it believed every clock.
    let wrong = Arc::new(ManualClock::new(begin.plus(TEN_YEARS)));
    let archive = Archive::open(instance.settings.clone(), wrong).unwrap();
    let settings = with_rules(&archive);
    put(&archive, "/old/1/then", b"x");
    put(&archive, "/to-tape", b"then");
    archive.close();
    drop(archive);

    let archive = instance.start(&clock);
    let info = archive.clock_info().unwrap();
    assert!(info.doubted.is_some() && info.standing.ahead() < 0);
    let refused = archive.accept_time(today(&clock), false);
    assert!(matches!(refused, Err(ArchiveError::ClockBehind { .. })), "{refused:?}");
    let info = archive.accept_time(today(&clock), true).unwrap();
    assert_eq!(info.planned_back, Some(clock.now()));
    assert!(archive.totals().unwrap().warnings.iter().any(|warning| warning.contains("restart")));
    archive.close();
    drop(archive);

    clock.advance(DAY / 2);
    let archive = instance.start(&clock);
    let info = archive.clock_info().unwrap();
    assert_eq!((info.doubted, info.standing.ahead(), info.moves.len()), (None, 0, 1));
    // What has waited for tape since 2036 does not wait until then.
    clock.advance(DAY / 8);
    wait_until("the file is sealed", || archive.totals().unwrap().todo.files < 2);
    put(&archive, "/old/1/now", b"y");
    assert!(is_there(&archive, "/old/1/then"));
    clock.advance(DAY + DAY / 2);
    look_at_rules(&archive, &settings, "/old/1/now");
    assert!(!is_there(&archive, "/old/1/then"));
    archive.close();
    assert_eq!(archive.verify_catalogue().unwrap(), []);
    drop(archive);
    let archive = instance.start(&clock);
    assert_eq!(archive.clock_info().unwrap().standing.ahead(), 0, "it stays so");
    archive.close();
}

/// An operator accepted the time, or a time server came up: the time leapt, and drives of the pool that had
/// not answered for a moment seemed to have been away for years. They were given up, files that only they had
/// were LOST, and drives that were at work were set aside since they seemed to hang.
#[test]
fn when_the_time_leaps_no_drive_was_away_for_so_long() {
    let (instance, clock) = instance();
    let archive = instance.start(&clock);
    put(&archive, "/large", &bytes(3, 3_000_000));
    clock.set(clock.now().plus(TEN_YEARS));
    for drive in &instance.settings.pool.drives[..5] {
        std::fs::rename(drive.at.directory(), drive.at.directory().with_extension("away")).unwrap();
    }
    let is_refused = || {
        let mut download = archive.open_read(&path("/large"))?;
        while download.next()?.is_some() {}
        Ok(())
    };
    let result: Result<(), ArchiveError> = is_refused();
    assert!(result.is_err(), "five of eight drives are away");
    wait_until("the drives are set aside", || archive.pool_health().unwrap().silent_drives == 5);
    let pass = || {
        let before = archive.scrub_info().passes;
        archive.scrub_now();
        wait_until("all was looked at", || archive.scrub_info().passes > before);
    };
    pass();
    let info = archive.accept_time(today(&clock), false).unwrap();
    assert_eq!(info.moves.len(), 1);
    pass();
    let archive::Stat::File(stat) = archive.stat(&path("/large")).unwrap() else { panic!() };
    assert_ne!(stat.locality, archive::Locality::Lost, "{:?}", archive.scrub_info());
    archive.close();
}

/// Each start six days ahead of the last, and nobody vouches for it: a lock of thirty days holds. What the
/// server runs itself gives the starts their days back.
#[test]
fn many_starts_are_no_way_to_another_year() {
    let (instance, clock) = instance();
    let archive = instance.start(&clock);
    with_lock(&archive);
    let object = put_object(&archive, "/locked/one", compliance(clock.now().plus(DAY * 30))).unwrap();
    stop(archive);
    for _ in 0..8 {
        clock.set(clock.now().plus(DAY * 6));
        stop(instance.start(&clock));
    }
    let archive = instance.start(&clock);
    let info = archive.clock_info().unwrap();
    assert!(info.standing.ahead() > i64::try_from((DAY * 35).as_nanos()).unwrap(), "one start was believed");
    assert!(delete(&archive, &object).is_err());
    stop(archive);
    // The clock is set right; after seven days of running a start believes seven days again.
    clock.set(info.standing.trusted);
    let archive = instance.start(&clock);
    clock.advance(DAY * 7);
    put_object(&archive, "/locked/two", None).unwrap();
    stop(archive);
    clock.set(clock.now().plus(DAY * 7));
    let archive = instance.start(&clock);
    assert!(!archive.clock_info().unwrap().standing.is_apart());
    stop(archive);
}
