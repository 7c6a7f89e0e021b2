//! Figures that can be checked by hand.

use super::*;
use crate::access::{Begins, ClassState, FileSize, Get, Migrated, Put, Recalled, Stage, Start, What};
use crate::{Count, Day, DayNumber};
use base::{BlockAddress, ByteCount, ContainerId, Duration, FileId, RequestId, Timestamp, Vid};

const HOUR: i64 = 3_600_000_000_000;
/// Midnight in UTC.
const BEGIN: i64 = 1_795_305_600_000_000_000;

fn vid() -> Vid {
    Vid::new("KS0001").unwrap()
}

fn by(hour: i64, class: &str, what: What) -> Access {
    let class = (!class.is_empty()).then(|| class.to_owned());
    Access { at: Timestamp(BEGIN + hour * HOUR), class, who: None, what }
}

fn put(hour: i64, class: &str, file: u64, bytes: u64) -> Access {
    let (file, bytes) = (FileId(file), ByteCount(bytes));
    by(hour, class, What::Put(Put { file, bytes, set: 1, took: Duration::from_secs(1) }))
}

fn get(hour: i64, class: &str, file: u64, bytes: u64, online: bool) -> Access {
    let (file, bytes) = (FileId(file), ByteCount(bytes));
    let sent = if online { bytes } else { ByteCount(0) };
    let (offset, took) = (ByteCount(0), Duration::from_secs(1));
    by(hour, class, What::Get(Get { file, bytes, offset, asked: bytes, sent, online, took }))
}

fn stage(hour: i64, class: &str, file: u64, bytes: u64, online: bool) -> Access {
    let (file, bytes, request) = (FileId(file), ByteCount(bytes), RequestId(1));
    by(hour, class, What::Stage(Stage { file, bytes, request, priority: 4, online, copies: vec![] }))
}

fn recalled(hour: i64, class: &str, file: u64, bytes: u64, wait: Option<u64>) -> Access {
    let (file, bytes, wait) = (FileId(file), ByteCount(bytes), wait.map(Duration::from_secs));
    by(hour, class, What::Recalled(Recalled { file, bytes, vid: vid(), wait }))
}

fn migrated(hour: i64, class: &str, length: u64, repack: bool) -> Access {
    let migrated = Migrated {
        container: ContainerId(1),
        pool: "a".to_owned(),
        vid: vid(),
        block: BlockAddress(4),
        length: ByteCount(length),
        members: 1,
        repack,
    };
    by(hour, class, What::Migrated(migrated))
}

fn start(hour: i64, pool: u64) -> Access {
    let (pool, block_size) = (ByteCount(pool), ByteCount(524_288));
    by(hour, "", What::Start(Start { begins: Begins::Server, tapes: 0, drives: 0, pool, block_size }))
}

fn class(hour: i64, name: &str, copies: usize, pool_max: Option<u64>) -> Access {
    let pools = vec!["a".to_owned(); copies];
    by(hour, name, What::Class(ClassState { pools, pool_max: pool_max.map(ByteCount) }))
}

fn days(count: i64) -> Window {
    Window { since: Timestamp(BEGIN), until: Timestamp(BEGIN + count * 24 * HOUR) }
}

/// Two days: 100 written on the first, 300 on the second; a read that hits, one that misses.
fn two_days() -> Vec<Access> {
    vec![
        start(-5, 1_000),
        class(-5, "data", 2, Some(800)),
        class(-5, "small", 1, None),
        put(1, "data", 1, 100),
        migrated(2, "data", 110, false),
        migrated(2, "data", 110, false),
        get(3, "data", 1, 100, true),
        by(4, "data", What::Evicted(FileSize { file: FileId(1), bytes: Some(ByteCount(100)) })),
        get(5, "data", 1, 100, false),
        stage(5, "data", 1, 100, false),
        recalled(6, "data", 1, 100, Some(3_600)),
        get(7, "data", 1, 100, true),
        get(8, "data", 1, 100, true),
        put(30, "data", 2, 300),
        put(31, "small", 3, 7),
        migrated(32, "data", 110, true),
        get(99, "data", 1, 100, true),
    ]
}

#[test]
fn a_refusal_its_stage_its_recall_and_its_read_are_one_access() {
    let usage = Analysis::of(&two_days(), days(2));
    assert_eq!((usage.days, usage.from, usage.lines), (2.0, Some(Timestamp(BEGIN)), 13));
    let data = &usage.classes[0];
    assert_eq!((data.name.as_str(), data.copies), ("data", Some(2)));
    let count = |files, bytes| Count { files, bytes: ByteCount(bytes) };
    assert_eq!((data.puts, data.gets, data.refused), (count(2, 400), count(3, 300), 1));
    assert_eq!((data.hits, data.misses), (count(2, 200), count(1, 100)));
    assert_eq!((data.staged, data.staged_online, data.recalled), (count(1, 100), 0, count(1, 100)));
    assert_eq!((data.migrated, data.repacked, data.evicted), (count(2, 220), count(1, 110), count(1, 100)));
    assert_eq!(data.hit_rate(), Some(2.0 / 3.0));
    assert_eq!(data.files_read, 1);
    assert_eq!(usage.classes[1].hit_rate(), None, "nobody read anything of it");
    assert_eq!(usage.all.puts, count(3, 407));
}

#[test]
fn lifetime_is_what_sdsc_computed_by_hand() {
    let usage = Analysis::of(&two_days(), days(2));
    let cache = &usage.classes[0].cache;
    // (1 - h) R + W: 100 missed and 400 written in two days; on the second day 300 written.
    assert_eq!((cache.space, cache.fill), (Some(ByteCount(800)), 250.0));
    assert_eq!(cache.mean_days, Some(800.0 / 250.0));
    let peak = cache.peak_day.unwrap();
    assert_eq!((peak.begin.0, peak.bytes.0), (BEGIN + 24 * HOUR, 300));
    assert_eq!(cache.least_days, Some(800.0 / 300.0));
    assert_eq!(usage.all.cache.space, Some(ByteCount(1_000)), "all classes have all of the pool");
    let workload = &usage.workloads()[0];
    let (h, read) = (workload.hit_rate_bytes.unwrap(), workload.bytes_read);
    assert_eq!((1.0 - h) * read + workload.bytes_written, 250.0, "the formula itself gives the same");
    assert_eq!((workload.files_written, workload.files_read), (1.0, 1.5));
    assert_eq!((workload.mean_written, workload.mean_read), (Some(ByteCount(200)), Some(ByteCount(100))));
}

#[test]
fn movement_has_means_and_peaks() {
    let usage = Analysis::of(&two_days(), days(2));
    let movement = &usage.classes[0].movement;
    assert_eq!((movement.written.mean, movement.written.peak_day.0), (200.0, 300));
    assert_eq!((movement.read.mean, movement.read.peak_hour.0), (150.0, 100));
    assert_eq!((movement.recalled.mean, movement.migrated.mean), (50.0, 110.0));
    let peak = movement.peak_day.unwrap();
    assert_eq!((peak.begin.0, peak.bytes.0), (BEGIN, 400), "100 written and 300 read on the first day");
    assert_eq!(movement.internal_factor, Some((700.0 + 100.0 + 220.0) / 700.0));
    assert_eq!(movement.days.len(), 2);
    let waits = usage.classes[0].waits.unwrap();
    assert_eq!((waits.count, waits.mean.as_secs(), waits.most.as_secs()), (1, 3_600, 3_600));
    let class = &usage.classes[0];
    // After the put 2 h, then 4 h, then 1 h.
    let rereads = class.rereads.unwrap();
    assert_eq!((rereads.count, rereads.most.as_secs()), (3, 4 * 3_600));
    let within: Vec<f64> = class.residencies.iter().map(|kept| kept.within).collect();
    assert!(within.is_sorted() && within[1] == 1.0, "{within:?}");
    // For six hours: 7 h until it was read again, and 6 h after the last read and the other put, of 48; the
    // files of five uses have 140 bytes on the mean.
    let six = class.residencies[1];
    assert_eq!((six.hit_rate, six.space.0), (1.0, (140.0_f64 * (7.0 + 2.0 * 6.0) / 48.0) as u64));
}

#[test]
fn a_window_and_a_class_leave_out_the_rest() {
    let all = two_days();
    let window = Window { since: Timestamp(BEGIN + 24 * HOUR), until: Timestamp(BEGIN + 48 * HOUR) };
    let usage = Analysis::of(&all, window);
    assert_eq!((usage.all.puts.files, usage.all.gets.files, usage.pool), (2, 0, Some(ByteCount(1_000))));
    let mut small = Analysis::new(days(2), Some("small"));
    all.iter().for_each(|access| small.add(access));
    let small = small.end();
    assert_eq!((small.lines, small.classes.len(), small.all.puts.bytes.0), (1, 1, 7));
    let nothing = Analysis::of(&[], days(2));
    assert_eq!((nothing.days, nothing.from, nothing.all.cache.mean_days), (1.0, None, None));
    assert!(nothing.classes.is_empty() && nothing.all.hit_rate().is_none());
}

#[test]
fn means_of_a_short_log_are_over_a_day() {
    let records = [start(0, 1_000), put(0, "data", 1, 500)];
    let window = Window { since: Timestamp(BEGIN - HOUR), until: Timestamp(BEGIN + HOUR) };
    let usage = Analysis::of(&records, window);
    assert_eq!((usage.days, usage.all.cache.fill, usage.all.cache.least_days), (1.0, 500.0, Some(2.0)));
}

#[test]
fn what_comes_along_with_a_pack_is_recalled_but_no_access() {
    let records = [
        stage(1, "data", 1, 100, false),
        stage(1, "data", 9, 100, true),
        recalled(2, "data", 1, 100, Some(60)),
        recalled(2, "data", 2, 50, None),
        // Asked for before the window.
        recalled(2, "data", 3, 10, Some(30 * 3_600)),
        get(3, "data", 2, 50, true),
        by(4, "", What::Dropped { count: 7 }),
    ];
    let usage = Analysis::of(&records, days(1));
    let data = &usage.classes[0];
    assert_eq!((data.recalled.files, data.misses.files, data.hits.files), (3, 2, 1));
    assert_eq!((data.staged.files, data.staged_online, usage.dropped), (2, 1, 7));
}

#[test]
fn classes_beyond_the_limit_are_added_up_together() {
    let count = ANALYSIS_CLASSES_MAX as u64 + 50;
    let records: Vec<Access> =
        (0..count).map(|number| put(1, &format!("class-{number:04}"), number, 1)).collect();
    let usage = Analysis::of(&records, days(1));
    assert_eq!(usage.classes.len(), ANALYSIS_CLASSES_MAX + 1);
    let other = usage.classes.iter().find(|class| class.name == OTHER_CLASSES).unwrap();
    assert_eq!((other.puts.files, usage.all.puts.files), (50, count));
}

/// The `count` ranges of a file, a second after the other from `hour` on.
fn ranges(hour: i64, file: u64, bytes: u64, count: u64) -> Vec<Access> {
    let length = bytes / count;
    let range = |number: u64| {
        let mut access = get(hour, "data", file, bytes, true);
        access.at.0 += number as i64 * 1_000_000_000;
        if let What::Get(get) = &mut access.what {
            get.offset = ByteCount(number * length);
            (get.asked, get.sent) = (ByteCount(length), ByteCount(length));
        }
        access
    };
    (0..count).map(range).collect()
}

/// A reader of ranges made a file that came from tape look like a thousand reads, of which all but the first
/// were hits: twice the bytes, a hit rate of 99.9 %, and a planner that saw no need of drives.
#[test]
fn ranges_of_a_recalled_file_are_its_miss() {
    let bytes = 2_000_000_000;
    let mut records = vec![stage(1, "data", 5, bytes, false), recalled(2, "data", 5, bytes, Some(10))];
    records.extend(ranges(3, 5, bytes, 1_000));
    let usage = Analysis::of(&records, days(1));
    let data = &usage.classes[0];
    let count = |files, bytes| Count { files, bytes: ByteCount(bytes) };
    assert_eq!((data.hits, data.misses, data.accesses()), (count(0, 0), count(1, bytes), count(1, bytes)));
    assert_eq!((data.hit_rate(), data.hit_rate_bytes()), (Some(0.0), Some(0.0)));
    assert_eq!(data.sizes_read.as_ref().unwrap().count, count(1, bytes));
    assert_eq!((data.gets, data.rereads.is_some()), (count(1_000, bytes), false));
    let workload = &usage.workloads()[0];
    assert_eq!((workload.files_read, workload.bytes_read), (1.0, bytes as f64));
    // Once more on another hour: that is a hit. Evicted and recalled in the midst of it: a second miss.
    records.extend(ranges(5, 5, bytes, 100));
    records.push(by(5, "data", What::Evicted(FileSize { file: FileId(5), bytes: None })));
    records.push(get(5, "data", 5, bytes, false));
    records.extend(ranges(5, 5, bytes, 10));
    let usage = Analysis::of(&records, days(1));
    assert_eq!((usage.all.hits, usage.all.misses), (count(1, bytes), count(2, 2 * bytes)));
}

#[test]
fn ranges_of_a_file_in_the_pool_are_one_hit() {
    let usage = Analysis::of(&ranges(3, 5, 1_000_000, 500), days(1));
    let data = &usage.classes[0];
    let one = Count { files: 1, bytes: ByteCount(1_000_000) };
    assert_eq!((data.hits, data.accesses(), data.hit_rate()), (one, one, Some(1.0)));
    assert_eq!((data.hit_rate_bytes(), data.files_read), (Some(1.0), 1));
    assert_eq!(data.sizes_read.as_ref().unwrap().count, one);
    // A part of it is a hit of that part, and what was not read is not counted.
    let usage = Analysis::of(&ranges(3, 5, 1_000_000, 500)[..10], days(1));
    assert_eq!(usage.all.hits, Count { files: 1, bytes: ByteCount(20_000) });
}

/// Days that were written into files and read again, with the tracker between them, add up to the same as
/// lines.
#[test]
fn days_that_went_through_files_add_up_to_the_same() {
    let mut records = Vec::new();
    for day in 0..12 {
        let shifted =
            two_days().into_iter().filter(|access| day == 0 || !access.is_state()).map(|mut access| {
                access.at.0 += day * 24 * HOUR;
                access
            });
        records.extend(shifted);
    }
    records.sort_by_key(|access| access.at);
    let window = Window { since: Timestamp(BEGIN), until: Timestamp(BEGIN + 30 * 24 * HOUR) };
    let expected = Analysis::of(&records, window);
    let mut tracker = Tracker::new(Timestamp(i64::MIN));
    let mut files = Vec::new();
    for (at, access) in records.iter().enumerate() {
        tracker.add(access);
        if at % 7 == 0 {
            let (position, read) = Tracker::decode(&tracker.encode(&[at as u64])).unwrap();
            assert_eq!(position, [at as u64]);
            tracker = read;
        }
        while tracker.days().count() > 1 {
            let number = tracker.days().next().unwrap().0;
            files.push((number, tracker.take(number).unwrap().encode(number)));
        }
    }
    let (last, _) = tracker.days().next().unwrap();
    files.push((last, tracker.take(last).unwrap().encode(last)));
    assert!(files.len() > 12, "{}", files.len());
    let mut total = Total::new(None);
    for (number, file) in &files {
        total.add(*number, &Day::decode(*number, file).unwrap());
    }
    total.stands(&tracker);
    assert_eq!(total.end(window), expected);
}

#[test]
fn a_day_that_is_not_whole_or_another_one_is_refused() {
    let number = DayNumber::of(Timestamp(BEGIN));
    let mut tracker = Tracker::new(Timestamp(BEGIN));
    tracker.add(&put(1, "data", 1, 100));
    let file = tracker.days().next().unwrap().1.encode(number);
    assert!(Day::decode(number, &file).is_some());
    assert!(Day::decode(DayNumber(number.0 + 1), &file).is_none());
    for at in 0..file.len() {
        let mut damaged = file.clone();
        damaged[at] ^= 1;
        assert!(Day::decode(number, &damaged).is_none(), "byte {at}");
        assert!(Day::decode(number, &file[..at]).is_none(), "cut at {at}");
    }
    assert!(Tracker::decode(&file).is_none(), "a day is no tracker");
}

/// The bytes of a day in version 1, as they are documented: they are read for good.
#[test]
fn the_golden_day_is_read_and_written_byte_for_byte() {
    let number = DayNumber::of(Timestamp(BEGIN));
    let mut tracker = Tracker::new(Timestamp(i64::MIN));
    two_days().iter().filter(|access| access.at.0 < BEGIN + 24 * HOUR).for_each(|access| tracker.add(access));
    let day = tracker.take(number).unwrap();
    let golden = include_bytes!("../golden/day-1.usage");
    assert_eq!(Day::decode(number, golden).as_ref(), Some(&day));
    assert_eq!(day.encode(number), golden);
}
