//! A restore to a time takes the history that was in force then, or says that it does not know which was; and
//! it says what is missing behind the end of what the backup has.

use std::fs;
use std::sync::Arc;

use crate::backup::{backup_directory, close, restore_to, settings, wait_shipped};
use crate::common::{Instance, path, put, wait_until};
use crate::history::destroy_catalogue;
use archive::{Archive, pool_seen};
use backup::{Candidate, Reached, RestoreError, RestoreTo, Restored};
use base::{ByteCount, Clock, Duration, ManualClock, Timestamp};

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

fn start(instance: &Instance, clock: &Arc<ManualClock>) -> Archive {
    let archive = instance.start(clock);
    archive.start_backup(settings(backup_directory(instance))).unwrap();
    archive
}

/// Starts a server, puts a file and stops; gives the change behind it.
fn put_one(instance: &Instance, clock: &Arc<ManualClock>, name: &str) -> u64 {
    let archive = start(instance, clock);
    put(&archive, name, b"1");
    let change = wait_shipped(&archive);
    close(archive);
    change
}

fn restored(instance: &Instance, to: RestoreTo) -> Result<Restored, RestoreError> {
    if instance.settings.catalogue_directory.exists() {
        destroy_catalogue(instance);
    }
    restore_to(instance, to)
}

fn candidates(instance: &Instance, time: Timestamp) -> Vec<Candidate> {
    let result = restored(instance, RestoreTo::Time(time));
    let Err(error @ RestoreError::WhichLine { .. }) = &result else { panic!("{result:?}") };
    assert!(error.to_string().contains("nothing was restored") && error.to_string().contains("--to-change"));
    let Err(RestoreError::WhichLine { candidates, .. }) = result else { unreachable!() };
    candidates
}

fn before(time: Timestamp, span: Duration) -> Timestamp {
    Timestamp(time.0 - i64::try_from(span.as_nanos()).unwrap())
}

/// Story: after a restore to a point of ten days ago, whose time the next start did not believe, the state of
/// yesterday was wanted. The new line's changes are ten days old by Kist's time, so the new line seemed to be
/// the one of yesterday, and its first snapshot was restored, with exit code 0.
#[test]
fn a_time_that_two_lines_may_have_had_is_refused() {
    let instance = Instance::new(ByteCount::mib(256));
    let clock = instance.clock();
    // A time server vouches for each step.
    clock.set_synchronised(true);
    let first = put_one(&instance, &clock, "/a");
    clock.set(clock.now().plus(6 * DAY));
    let middle = put_one(&instance, &clock, "/b");
    clock.set(clock.now().plus(4 * DAY));
    put_one(&instance, &clock, "/c");
    let yesterday = before(clock.now(), DAY);
    let wanted = restored(&instance, RestoreTo::Time(yesterday)).unwrap();
    assert!(wanted.line == 1 && wanted.change >= middle, "{wanted:?}");
    assert_eq!(wanted.reached, Reached::Point);

    clock.set_synchronised(false);
    restored(&instance, RestoreTo::Change(first)).unwrap();
    put_one(&instance, &clock, "/after the restore");
    let found = candidates(&instance, yesterday);
    let [new, old] = found[..] else { panic!("{found:?}") };
    assert_eq!((new.line, old.line), (2, 1));
    assert_eq!(old.state, Some((wanted.change, wanted.changed_at)));
    let begun = new.start.unwrap();
    assert!(begun.trusted < before(begun.system, 9 * DAY), "{begun:?}");
    assert_eq!(begun.system, clock.now());
    // Each candidate's change is what it says.
    for candidate in &found {
        let change = candidate.state.unwrap().0;
        assert_eq!(restored(&instance, RestoreTo::Change(change)).unwrap().line, candidate.line);
    }
    restored(&instance, RestoreTo::Change(old.state.unwrap().0)).unwrap();
    let archive = instance.start(&clock);
    assert!(archive.stat(&path("/b")).is_ok() && archive.stat(&path("/c")).is_err());
    close(archive);
    // Later than the restore by both clocks, it is the new line's.
    assert_eq!(restored(&instance, RestoreTo::Time(clock.now().plus(DAY))).unwrap().line, 2);
    // An earlier Kist did not note when a line began: the same holds.
    let note = backup_directory(&instance).join("line-0002/LINE");
    let text = fs::read_to_string(&note).unwrap();
    fs::remove_file(&note).unwrap();
    let without: Vec<_> = candidates(&instance, yesterday).iter().map(|old| (old.line, old.start)).collect();
    assert_eq!(without[0], (2, None));
    assert_eq!(without.len(), 2);
    fs::write(&note, text.replace("system 1", "system 2")).unwrap();
    assert_eq!(candidates(&instance, yesterday)[0].start, None, "a damaged note says nothing");
    // A time before the new line's first change is not one that it may have had.
    let early = before(begun.trusted, HOUR);
    assert!(!matches!(restored(&instance, RestoreTo::Time(early)), Err(RestoreError::WhichLine { .. })));
    // Without the older line, the time of before is not the new line's either.
    fs::write(&note, &text).unwrap();
    fs::remove_dir_all(backup_directory(&instance).join("line-0001")).unwrap();
    assert_eq!(candidates(&instance, yesterday).len(), 1);
}

#[test]
fn a_time_is_of_the_history_that_was_in_force() {
    let instance = Instance::new(ByteCount::mib(256));
    let clock = instance.clock();
    let first = put_one(&instance, &clock, "/a");
    clock.set(clock.now().plus(4 * HOUR));
    let end = put_one(&instance, &clock, "/b");
    clock.set(clock.now().plus(2 * HOUR));
    let seen = pool_seen(&instance.settings).0.change;
    restored(&instance, RestoreTo::Change(first)).unwrap();
    let an_hour_ago = before(clock.now(), HOUR);
    put_one(&instance, &clock, "/after the restore");
    // Nothing was made behind its end before the restore, so nothing is missing: the restore began a new one.
    let old = restored(&instance, RestoreTo::Time(an_hour_ago)).unwrap();
    assert!(old.line == 1 && old.change >= end, "{old:?}");
    assert_eq!(old.reached, Reached::End { known: old.change, is_closed: true });
    assert_eq!(old.missing_to(u64::MAX), None);
    // Story: it named a change, and no time that could be said.
    let early = restored(&instance, RestoreTo::Time(base::Timestamp(1))).unwrap_err().to_string();
    assert!(early.contains("the earliest possible is ") && early.contains(": --to-time "), "{early}");
    // Its last segment is gone since: the new line has noted how far it went.
    let line = backup_directory(&instance).join("line-0001/segments");
    let mut segments: Vec<_> = fs::read_dir(&line).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.sort();
    let last = segments.pop().unwrap();
    let bytes = fs::read(&last).unwrap();
    fs::remove_file(&last).unwrap();
    let shorter = restored(&instance, RestoreTo::Time(an_hour_ago)).unwrap();
    assert!(shorter.change < old.change, "{shorter:?}");
    assert_eq!(shorter.missing_to(seen), Some(old.change));
    fs::write(&last, bytes).unwrap();

    // The backup's disk was away for three hours after another restore: which history was in force before
    // that shows the first start, not the line's first snapshot.
    restored(&instance, RestoreTo::Change(first)).unwrap();
    clock.set(clock.now().plus(HOUR));
    let archive = instance.start(&clock);
    put(&archive, "/without a backup", b"1");
    clock.advance(3 * HOUR);
    archive.start_backup(settings(backup_directory(&instance))).unwrap();
    wait_until("the third line is there", || archive.backup_status().unwrap().line == 3);
    wait_shipped(&archive);
    close(archive);
    let found = candidates(&instance, before(clock.now(), 2 * HOUR));
    assert_eq!(found.iter().map(|candidate| candidate.line).collect::<Vec<_>>(), [3, 2]);
    let before_restore = before(clock.now(), Duration::from_secs(3_600 * 7 / 2));
    assert_eq!(restored(&instance, RestoreTo::Time(before_restore)).unwrap().line, 2);
}
