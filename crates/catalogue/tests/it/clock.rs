//! What is known of the time: doubt, leaps ahead and back, and what they do to ages.

use crate::common::*;
use base::*;
use catalogue::*;

const DAY: Duration = Duration::from_secs(86_400);
const TEN_YEARS: Duration = Duration::from_secs(3_653 * 86_400);

fn doubt(bench: &mut Bench) -> Timestamp {
    bench.ok(Command::NoteTime { doubted: true });
    bench.at
}

/// From when on the age of a file counts.
fn age_from(bench: &Bench, file: FileId) -> Timestamp {
    bench.view().clock().unwrap().age_from(file, bench.file(file).created)
}

/// After two months without power an operator vouches for the clock. What was put just before would have been
/// two months old at once, and a rule of thirty days would have deleted it.
#[test]
fn what_was_made_in_doubt_counts_as_made_when_it_ended() {
    let mut bench = Bench::new();
    let before = bench.put("before", "1");
    let since = doubt(&mut bench);
    doubt(&mut bench);
    assert_eq!(bench.view().clock().unwrap().doubted, Some(since), "the first word counts");
    let during = bench.put("during", "2");
    let to = bench.at.plus(DAY * 60);
    bench.ok(Command::MoveTimeForward { to });
    assert_eq!(bench.view().newest_time().unwrap(), Some(to), "a start goes on from there");
    assert_eq!(bench.view().clock().unwrap().doubted, None);
    bench.at = to;
    let after = bench.put("after", "3");
    assert_eq!(age_from(&bench, before), bench.file(before).created);
    assert_eq!(age_from(&bench, during), to);
    assert_eq!(age_from(&bench, after), bench.file(after).created);
    assert!(bench.replayed() == bench.store);
}

/// The same for uploads in parts, which a rule gives up when they are old.
#[test]
fn an_upload_begun_in_doubt_is_young_when_it_ended_and_holds_up_no_other() {
    let mut bench = Bench::new();
    let dir = bench.mkdir(DirId::ROOT, "b");
    let before = bench.open_upload(dir, "before");
    doubt(&mut bench);
    let during = bench.open_upload(dir, "during");
    let to = bench.at.plus(DAY * 60);
    bench.ok(Command::MoveTimeForward { to });
    bench.at = to.plus(DAY);
    let after = bench.open_upload(dir, "after");
    let older_than = |bench: &Bench, days: u32| {
        let before = Timestamp(bench.at.0 - i64::try_from((DAY * days).as_nanos()).unwrap());
        let uploads = bench.view().uploads_before(before, None, 9).unwrap();
        uploads.into_iter().map(|(id, _)| id).collect::<Vec<_>>()
    };
    assert_eq!(older_than(&bench, 7), [before]);
    bench.at = bench.at.plus(DAY * 8);
    assert_eq!(older_than(&bench, 7), [before, during, after]);
}

#[test]
fn a_doubt_that_ends_without_a_leap_changes_no_age() {
    let mut bench = Bench::new();
    doubt(&mut bench);
    let during = bench.put("during", "2");
    bench.ok(Command::NoteTime { doubted: false });
    let clock = bench.view().clock().unwrap();
    assert_eq!((clock.doubted, clock.noted, clock.moves.len()), (None, bench.at, 0));
    assert_eq!(age_from(&bench, during), bench.file(during).created);
}

/// One start in 2036 recorded times that were never true; ten years on, such times are true.
#[test]
fn after_the_time_went_back_false_times_count_as_now_and_true_ones_as_they_are() {
    let mut bench = Bench::new();
    let before = bench.put("before", "1");
    let right = bench.at;
    bench.at = bench.at.plus(TEN_YEARS);
    let during = bench.put("during", "2");
    let to = right.plus(DAY);
    assert!(bench.rejected(Command::TimeMovedBack { from: bench.at }).contains("without a plan"));
    bench.ok(Command::PlanTimeBack { to: Some(to) });
    let from = bench.at;
    bench.at = to;
    bench.ok(Command::TimeMovedBack { from });
    let now = bench.at;
    assert_eq!(bench.view().newest_time().unwrap(), Some(now));
    assert_eq!(bench.view().clock().unwrap().planned_back, None);
    assert_eq!(age_from(&bench, before), bench.file(before).created);
    assert_eq!(age_from(&bench, during), now);
    let clock = bench.view().clock().unwrap();
    assert_eq!(clock.waits_from(from, now.plus(DAY)), now, "what waits has waited since then");
    assert_eq!(clock.waits_from(right, now.plus(DAY)), right);
    bench.at = bench.at.plus(TEN_YEARS - DAY * 30);
    let later = bench.put("later", "3");
    assert_eq!(age_from(&bench, later), bench.file(later).created);
    assert!(bench.replayed() == bench.store);
}

#[test]
fn leaps_that_are_none_are_refused() {
    let mut bench = Bench::new();
    let now = bench.at;
    assert!(bench.rejected(Command::MoveTimeForward { to: now }).contains("to a later one"));
    assert!(bench.rejected(Command::PlanTimeBack { to: Some(now.plus(DAY)) }).contains("to an earlier one"));
    bench.ok(Command::PlanTimeBack { to: Some(now) });
    bench.ok(Command::PlanTimeBack { to: None });
    assert!(bench.rejected(Command::TimeMovedBack { from: now.plus(DAY) }).contains("without a plan"));
}

/// Counted from a clock that is ten years ahead, a lock would last ten years too long, for good; counted from
/// a trusted time that is two months late, it would end when an operator vouches for the clock.
#[test]
fn no_default_retention_is_given_while_the_time_is_in_doubt() {
    let mut bench = Bench::new();
    let settings = BucketSettings {
        versioning: Versioning::Enabled,
        object_lock: true,
        default_retention: Some((RetentionMode::Compliance, DAY)),
        ..BucketSettings::default()
    };
    let (attributes, settings) = (Attributes::default(), Box::new(settings));
    let made = bench.ok(Command::MakeBucket { name: name("b"), attributes, settings });
    let Outcome::Directory(dir) = made else { panic!("{made:?}") };
    doubt(&mut bench);
    let put = bench.new_put(dir, "key", "content");
    let plain = Command::PutFile(Box::new(put.clone()));
    assert!(bench.rejected(plain.clone()).contains("kist clock"));
    let retention = Some(Retention { mode: RetentionMode::Compliance, until: bench.at.plus(DAY) });
    let put = PutFile { name: name("named"), ..put };
    let hold = Some(Hold { retention, legal: false });
    bench.ok(Command::PutObject(Box::new(PutObject { put, if_current: None, hold, always: true })));
    bench.ok(Command::NoteTime { doubted: false });
    bench.ok(plain);
}

/// More leaps than are kept apart: what was made in doubt never counts as older than it is.
#[test]
fn many_leaps_are_kept_in_few_and_no_age_grows() {
    let mut bench = Bench::new();
    let mut files = Vec::new();
    for at in 0..70u64 {
        doubt(&mut bench);
        let file = bench.put(&format!("f{at}"), "x");
        let to = bench.at.plus(DAY);
        bench.ok(Command::MoveTimeForward { to });
        bench.at = to;
        files.push((file, to));
    }
    assert_eq!(bench.view().clock().unwrap().moves.len(), 64);
    for (file, to) in files {
        assert!(age_from(&bench, file) >= to, "{file:?}");
    }
}
