//! Summaries of the days of the access log.
//!
//! Story: a report over a year read all lines of the log each time, gigabytes at a grid site, and of days
//! whose lines had made room for newer ones nothing was known any more.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::access_log::{open_logged, open_logged_at};
use crate::common::{Instance, SystemClock, put, wait_until};
use archive::{AccessLog as _, AccessLogFiles, AccessLogRead, DayReading};
use base::{ByteCount, Clock, Crc32c, Duration, FileId, ManualClock, RequestId, Timestamp};
use usage::{
    Access, Analysis, Begins, ClassState, Day, DayNumber, Get, Put, Recalled, Stage, Start, Usage, What,
    Window,
};

const SECOND: i64 = 1_000_000_000;
const HOUR: i64 = 3_600 * SECOND;
const DAY: i64 = 24 * HOUR;
/// A midnight.
const BEGIN: i64 = 1_795_305_600_000_000_000;

fn line(at: i64, class: &str, what: What) -> Access {
    Access { at: Timestamp(at), class: Some(class.to_owned()), who: Some("anna".into()), what }
}

fn get(file: u64, bytes: u64, online: bool) -> What {
    let (file, bytes, took) = (FileId(file), ByteCount(bytes), Duration::from_secs(1));
    let sent = if online { bytes } else { ByteCount(0) };
    What::Get(Get { file, bytes, offset: ByteCount(0), asked: bytes, sent, online, took })
}

/// One day: files are put, read again after days, recalled over midnight.
fn day(begin: i64, number: u64, files: u64) -> Vec<Access> {
    let class = if number.is_multiple_of(3) { "raw" } else { "small" };
    let mut lines = Vec::new();
    for one in 0..files {
        let (file, at) = (FileId(number * 1_000 + one), begin + one as i64 * 80_000 / files as i64 * SECOND);
        let (bytes, took) = (ByteCount(1_000 + 17 * one), Duration::from_secs(1));
        lines.push(line(at, class, What::Put(Put { file, bytes, set: 1, took })));
        // Of nine days before, when the class was the same: a file has one.
        if let Some(older) = (number * 1_000 + one).checked_sub(9_000) {
            lines.push(line(at + 60 * SECOND, class, get(older, 1_000, true)));
        }
    }
    // Asked for in the evening; it comes, and is read, on the next day.
    let file = FileId(number * 1_000 + 999);
    let bytes = ByteCount(5_000);
    let stage = Stage { file, bytes, request: RequestId(1), priority: 4, online: false, copies: vec![] };
    lines.push(line(begin + 23 * HOUR + 1_800 * SECOND, class, What::Stage(stage)));
    let next = begin + DAY;
    let vid = base::Vid::new("KS0001").unwrap();
    let wait = Some(Duration::from_secs(3_600));
    lines.push(line(next + 1_800 * SECOND, class, What::Recalled(Recalled { file, bytes, vid, wait })));
    lines.push(line(next + 1_900 * SECOND, class, get(file.0, 5_000, true)));
    lines
}

fn history(begin: i64, days: u64) -> Vec<Access> {
    history_of(begin, days, 40)
}

fn history_of(begin: i64, days: u64, files: u64) -> Vec<Access> {
    let start = Start {
        begins: Begins::Server,
        tapes: 0,
        drives: 0,
        pool: ByteCount(1 << 40),
        block_size: ByteCount(524_288),
    };
    let state = ClassState { pools: vec!["a".into(), "b".into()], pool_max: Some(ByteCount(1 << 30)) };
    let mut lines = vec![
        Access { at: Timestamp(begin), class: None, who: None, what: What::Start(start) },
        line(begin, "raw", What::Class(state)),
    ];
    lines.extend((0..days).flat_map(|number| day(begin + number as i64 * DAY, number, files)));
    lines.sort_by_key(|access| access.at);
    lines
}

fn append(log: &AccessLogFiles, lines: &[Access]) {
    for lines in lines.chunks(50) {
        let mut text = String::new();
        lines.iter().for_each(|access| journal::encode(access, &mut text));
        log.append(&text).unwrap();
    }
}

/// The report, and how many bytes were read for it.
fn report(log: &AccessLogFiles, window: Window, class: Option<&str>) -> (Usage, AccessLogRead, u64) {
    let mut days: DayReading = log.open_days().unwrap().unwrap();
    loop {
        while days.read_some(1 << 20, window.until).unwrap() {}
        let mut total = days.begin_total(window, class);
        loop {
            if let Some((usage, met)) = days.add_some(&mut total).unwrap() {
                return (usage, met, days.progress().0);
            }
            if days.has_lines() {
                break;
            }
        }
    }
}

fn whole(days: i64) -> Window {
    Window { since: Timestamp(BEGIN), until: Timestamp(BEGIN + days * DAY + 2 * HOUR) }
}

fn log_bytes(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().metadata().unwrap());
    entries.filter(fs::Metadata::is_file).map(|found| found.len()).sum()
}

fn summary(directory: &Path, day: i64) -> std::path::PathBuf {
    let date = Timestamp(BEGIN + day * DAY).to_string();
    directory.join("days").join(format!("{}.usage", &date[..10]))
}

#[test]
fn a_report_over_400_days_reads_summaries_and_gives_what_the_lines_give() {
    let instance = Instance::new(ByteCount::mib(64));
    let directory = instance.directory.path().join("log");
    let log = AccessLogFiles::with_limits(&directory, 1 << 20, 64);
    let now = SystemClock.now().0;
    let begin = now.div_euclid(DAY) * DAY - 399 * DAY;
    let lines: Vec<Access> =
        history_of(begin, 400, 200).into_iter().filter(|access| access.at.0 < now - 60 * SECOND).collect();
    append(&log, &lines);
    let bytes = log_bytes(&directory);
    let archive = open_logged(&instance, Arc::new(log));
    let span = Duration::from_secs(400 * 86_400);
    let first = archive.usage(span, None).unwrap();
    assert_eq!(first.trouble, None);
    let expected = Analysis::of(&lines, first.usage.window);
    let usage = &first.usage;
    assert_eq!((usage.all.puts, usage.all.misses), (expected.all.puts, expected.all.misses));
    // What is said of the engine itself, which added its lines of state, is another pool.
    assert_eq!((&usage.all.movement, &usage.all.rereads), (&expected.all.movement, &expected.all.rereads));
    assert_eq!((usage.lines, usage.all.files_read), (expected.lines, expected.all.files_read));
    let before = read_by_this_thread();
    let second = archive.usage(span, None).unwrap();
    let read = read_by_this_thread() - before;
    // Means are over the time until now, which went on.
    assert_eq!(second.usage.all.movement.days, first.usage.all.movement.days);
    assert_eq!((second.usage.all.misses, second.usage.lines), (usage.all.misses, usage.lines));
    // Summaries, the tracker, and what the engine itself wrote since; before, all of the log.
    let summaries = log_bytes(&directory.join("days"));
    assert!(bytes > 10_000_000 && summaries < bytes / 2, "{summaries} of {bytes}");
    assert!(read < summaries + 100_000, "{read} bytes were read, of summaries of {summaries}");
    archive.close();
}

/// What this thread had read from any file so far, as the kernel counts it.
fn read_by_this_thread() -> u64 {
    let counts = fs::read_to_string("/proc/thread-self/io").unwrap();
    let rchar = counts.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap();
    rchar.parse().unwrap()
}

#[test]
fn summaries_give_what_lines_give_for_each_window_and_class() {
    let directory = tempfile::tempdir().unwrap();
    let log = AccessLogFiles::with_limits(directory.path(), 100_000, 64);
    let lines = history(BEGIN, 30);
    for part in lines.chunks(400) {
        append(&log, part);
        let until = Timestamp(part.last().unwrap().at.0 + 1);
        report(&log, Window { since: Timestamp(BEGIN), until }, None);
    }
    let expected = Analysis::of(&lines, whole(30));
    let (found, met, _) = report(&log, whole(30), None);
    assert_eq!((&found, met), (&expected, AccessLogRead::default()));
    let mut of_raw = Analysis::new(whole(30), Some("raw"));
    lines.iter().for_each(|access| of_raw.add(access));
    assert_eq!(report(&log, whole(30), Some("raw")).0, of_raw.end());
    // A later window: what was asked for before it is not counted twice, and nothing else differs.
    let late = Window { since: Timestamp(BEGIN + 20 * DAY + HOUR), ..whole(30) };
    let (found, _, read) = report(&log, late, None);
    assert_eq!(found.window.since, Timestamp(BEGIN + 20 * DAY), "days are whole");
    let expected = Analysis::of(&lines, found.window);
    assert_eq!((found.all.puts, found.all.gets), (expected.all.puts, expected.all.gets));
    assert_eq!((found.from, found.days, found.lines), (expected.from, expected.days, expected.lines));
    assert!(read < log_bytes(directory.path()), "{read}");
}

#[test]
fn a_summary_that_is_missing_or_damaged_is_made_anew_from_the_log() {
    let directory = tempfile::tempdir().unwrap();
    let log = AccessLogFiles::with_limits(directory.path(), 100_000, 64);
    append(&log, &history(BEGIN, 10));
    let (expected, ..) = report(&log, whole(10), None);
    let good = fs::read(summary(directory.path(), 4)).unwrap();
    fs::remove_file(summary(directory.path(), 4)).unwrap();
    assert_eq!(report(&log, whole(10), None).0, expected);
    assert_eq!(fs::read(summary(directory.path(), 4)).unwrap(), good);
    for at in [0, 9, good.len() / 2, good.len() - 1] {
        let mut damaged = good.clone();
        damaged[at] ^= 1;
        fs::write(summary(directory.path(), 4), &damaged).unwrap();
        let (found, met, _) = report(&log, whole(10), None);
        assert_eq!((found, met), (expected.clone(), AccessLogRead::default()), "byte {at}");
    }
    // A whole one of the right day, but not the one that was written.
    let other = tempfile::tempdir().unwrap();
    let other_log = AccessLogFiles::new(other.path());
    append(&other_log, &history(BEGIN, 10)[..300]);
    report(&other_log, whole(10), None);
    fs::copy(summary(other.path(), 4), summary(directory.path(), 4)).unwrap();
    assert_eq!(report(&log, whole(10), None).0, expected);
    fs::write(directory.path().join("days/reading.usage"), b"nothing").unwrap();
    assert_eq!(report(&log, whole(10), None).0, expected);
    fs::remove_dir_all(directory.path().join("days")).unwrap();
    assert_eq!(report(&log, whole(10), None).0, expected);
}

#[test]
fn a_log_that_was_changed_is_read_again_and_not_its_summaries() {
    let directory = tempfile::tempdir().unwrap();
    let log = AccessLogFiles::with_limits(directory.path(), 100_000, 64);
    append(&log, &history(BEGIN, 30));
    let (before, ..) = report(&log, whole(30), None);
    let read = |log: &AccessLogFiles| {
        let mut lines = Vec::new();
        log.read(Timestamp(0), Timestamp(i64::MAX), &mut |access| lines.push(access)).unwrap();
        Analysis::of(&lines, whole(30))
    };
    // A line is taken out of a file that is full, one of the file that grows; the file that grows is cut.
    for (name, cut) in [("access.2.log", false), ("access.log", false), ("access.log", true)] {
        let path = directory.path().join(name);
        let text = fs::read_to_string(&path).unwrap();
        let kept = text.lines().count() / 2;
        let lines = text.lines().enumerate();
        let changed: String = lines
            .filter(|(at, _)| if cut { *at < kept } else { *at != kept })
            .map(|(_, line)| format!("{line}\n"))
            .collect();
        fs::write(&path, changed).unwrap();
        let log = AccessLogFiles::with_limits(directory.path(), 100_000, 64);
        let (found, ..) = report(&log, whole(30), None);
        assert_ne!(found, before, "{name}");
        assert_eq!(found, read(&log), "{name}");
    }
}

#[test]
fn late_lines_come_to_the_day_that_was_closed() {
    let directory = tempfile::tempdir().unwrap();
    let log = AccessLogFiles::new(directory.path());
    let mut lines = history(BEGIN, 10);
    append(&log, &lines);
    report(&log, whole(10), None);
    let late = line(
        BEGIN + 3 * DAY + HOUR,
        "late",
        What::Put(Put { file: FileId(9_999_999), bytes: ByteCount(77), set: 1, took: Duration::ZERO }),
    );
    append(&log, std::slice::from_ref(&late));
    lines.push(late);
    for _ in 0..2 {
        assert_eq!(report(&log, whole(10), None).0, Analysis::of(&lines, whole(10)));
    }
}

#[test]
fn days_whose_lines_are_gone_are_known_by_their_summaries() {
    let directory = tempfile::tempdir().unwrap();
    // Two files of some three days.
    let log = AccessLogFiles::with_limits(directory.path(), 40_000, 2);
    let lines = history(BEGIN, 30);
    for part in lines.chunks(80) {
        append(&log, part);
        let until = Timestamp(part.last().unwrap().at.0 + 1);
        report(&log, Window { since: Timestamp(BEGIN), until }, None);
    }
    let expected = Analysis::of(&lines, whole(30));
    assert_eq!(report(&log, whole(30), None).0, expected);
    // A line of a day whose others are gone comes late. It was counted once more with each reading anew.
    let late = line(
        BEGIN + 2 * DAY + HOUR,
        "raw",
        What::Put(Put { file: FileId(9_999_999), bytes: ByteCount(77), set: 1, took: Duration::ZERO }),
    );
    append(&log, std::slice::from_ref(&late));
    let lines: Vec<Access> = lines.into_iter().chain([late]).collect();
    let expected = Analysis::of(&lines, whole(30));
    assert_eq!(report(&log, whole(30), None).0.lines, expected.lines);
    // Without the place up to which it was read: what the log has is read, older days stay.
    fs::remove_file(directory.path().join("days/reading.usage")).unwrap();
    let (found, met, _) = report(&log, whole(30), None);
    assert_eq!((found.all.puts, found.lines), (expected.all.puts, expected.lines));
    assert_eq!((found.all.movement.written, met), (expected.all.movement.written, AccessLogRead::default()));
    // What is damaged and cannot be made anew is told.
    fs::write(summary(directory.path(), 5), b"damaged").unwrap();
    let (found, met, _) = report(&log, whole(30), None);
    assert_eq!((met.days_lost, found.lines), (1, expected.lines - 43));
}

/// Story: that a summary is damaged was known to the reader alone that had met it. If the server stopped
/// before that one was through, only a report of the day found it again, and the log could have lost it.
#[test]
fn a_damaged_summary_is_made_anew_also_by_the_next_reader() {
    let directory = tempfile::tempdir().unwrap();
    let log = AccessLogFiles::new(directory.path());
    let mut lines = history(BEGIN, 50);
    let rest = lines.split_off(lines.partition_point(|access| access.at.0 < BEGIN + 10 * DAY));
    append(&log, &lines);
    report(&log, whole(10), None);
    let good = fs::read(summary(directory.path(), 1)).unwrap();
    fs::write(summary(directory.path(), 1), b"damaged").unwrap();
    let late = line(BEGIN + DAY + HOUR, "raw", get(1_000, 10, true));
    append(&log, std::slice::from_ref(&late));
    append(&log, &rest);
    let until = whole(50).until;
    let mut stopped = log.open_days().unwrap().unwrap();
    while !summary(directory.path(), 12).exists() {
        assert!(stopped.read_some(2_000, until).unwrap(), "it is stopped before it is through");
    }
    drop(stopped);
    let mut next = log.open_days().unwrap().unwrap();
    while next.read_some(1 << 20, until).unwrap() {}
    drop(next);
    let day = |file: &[u8]| Day::decode(DayNumber::of(Timestamp(BEGIN + DAY)), file).map(|day| day.lines());
    let lines = day(&good).unwrap();
    assert_eq!(day(&fs::read(summary(directory.path(), 1)).unwrap()), Some(lines + 1));
}

#[test]
fn damaged_lines_are_told_from_summaries_too() {
    let directory = tempfile::tempdir().unwrap();
    let log = AccessLogFiles::new(directory.path());
    let lines = history(BEGIN, 6);
    append(&log, &lines[..200]);
    log.append("00000000 1 put at=5\n").unwrap();
    append(&log, &lines[200..]);
    for _ in 0..2 {
        assert_eq!(report(&log, whole(6), None).1, AccessLogRead { damaged: 1, ..AccessLogRead::default() });
    }
}

#[test]
fn an_unreadable_line_behind_a_closed_day_leaves_its_figures() {
    // Damaged, and of a version to come.
    let body = "9 put at=5";
    let newer = format!("{} {body}\n", Crc32c::of(body.as_bytes()));
    for (text, expected) in [("00000000 1 put at=5\n", (1, 0)), (newer.as_str(), (0, 1))] {
        let directory = tempfile::tempdir().unwrap();
        let log = AccessLogFiles::new(directory.path());
        append(&log, &history(BEGIN, 6));
        let (before, ..) = report(&log, whole(8), None);
        log.append(text).unwrap();
        for _ in 0..2 {
            let (found, met, _) = report(&log, whole(8), None);
            assert_eq!((met.damaged, met.newer), expected);
            assert_eq!((found.lines, found.all.gets), (before.lines, before.all.gets));
        }
    }
}

#[test]
fn a_day_that_was_read_outlives_a_log_that_turned_over_before_its_summary() {
    let directory = tempfile::tempdir().unwrap();
    let log = AccessLogFiles::with_limits(directory.path(), 20_000, 2);
    let mut lines = history(BEGIN, 1);
    lines.retain(|access| access.at.0 < BEGIN + DAY);
    append(&log, &lines);
    // It is read at midnight, when late lines of it may still come.
    let midnight = Window { since: Timestamp(BEGIN), until: Timestamp(BEGIN + DAY) };
    let (first, ..) = report(&log, midnight, None);
    assert!(!summary(directory.path(), 0).exists(), "it is not closed yet");
    // Then more is written than the log keeps.
    append(&log, &history_of(BEGIN + 2 * DAY, 1, 2_000));
    let mut left = 0;
    let met = log.read(Timestamp(0), Timestamp(i64::MAX), &mut |access| {
        assert!(access.at.0 >= BEGIN + 2 * DAY, "the log has lines of the first day");
        left += u64::from(!access.is_state());
    });
    assert_eq!(met.unwrap(), AccessLogRead::default());
    for _ in 0..2 {
        let (found, met, _) = report(&log, whole(6), None);
        assert_eq!((found.lines, met), (first.lines + left, AccessLogRead::default()));
    }
}

#[test]
fn a_file_of_the_log_that_is_full_is_read_for_the_summaries() {
    let instance = Instance::new(ByteCount::mib(64));
    let directory = instance.directory.path().join("log");
    let log = AccessLogFiles::with_limits(&directory, 200, 16);
    let archive = open_logged(&instance, Arc::new(log));
    assert!(!summarised(&directory), "nothing is over, and no report was made");
    let mut number = 0;
    wait_until("a full file is read", || {
        number += 1;
        put(&archive, &format!("/d/{number}"), b"some bytes");
        summarised(&directory)
    });
    archive.close();
}

#[test]
fn a_day_is_summarised_once_late_lines_of_it_cannot_come_any_more() {
    let instance = Instance::new(ByteCount::mib(64));
    let directory = instance.directory.path().join("log");
    let clock = Arc::new(ManualClock::new(Timestamp(BEGIN + DAY - 10 * SECOND)));
    let archive = open_logged_at(&instance, Arc::new(AccessLogFiles::new(&directory)), clock.clone());
    // Lines before midnight, soon after it, and more than a minute after it.
    for name in ["/d/before", "/d/after"] {
        put(&archive, name, b"some bytes");
        // They are written, and what comes with them was begun.
        archive.usage(Duration::from_secs(60), None).unwrap();
        clock.advance(Duration::from_secs(40));
    }
    let mut number = 0;
    wait_until("the day is summarised", || {
        number += 1;
        put(&archive, &format!("/d/{number}"), b"some bytes");
        summary(&directory, 0).exists()
    });
    archive.close();
}

fn summarised(directory: &Path) -> bool {
    directory.join("days/reading.usage").exists()
}
