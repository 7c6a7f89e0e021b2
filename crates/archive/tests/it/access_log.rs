//! What a real engine writes down of its users, and that writing holds nobody up.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use crate::common::{
    Instance, SystemClock, all, bytes, migrate_all, path, put, put_with, stage, wait_for, wait_until,
};
use archive::{
    AccessLog, AccessLogFiles, AccessLogRead, AccessReading, Archive, ArchiveError, Machines, PutOptions,
    Selection, StageOptions, Stat, USAGE_STEP_BYTES,
};
use base::{ByteCount, Clock, Duration, FileId, Timestamp};
use journal::decode;
use usage::{Access, Begins, Get, Put, What};

const DAY: Duration = Duration::from_secs(86_400);
const FOREVER: Timestamp = Timestamp(i64::MAX);

pub(crate) fn open_logged(instance: &Instance, log: Arc<dyn AccessLog>) -> Archive {
    open_logged_at(instance, log, Arc::new(SystemClock))
}

pub(crate) fn open_logged_at(instance: &Instance, log: Arc<dyn AccessLog>, clock: Arc<dyn Clock>) -> Archive {
    let mut machines = Machines::open(&instance.settings, clock.clone()).unwrap();
    machines.access_log = Some(log);
    Archive::open_on(machines, instance.settings.clone(), clock).unwrap()
}

/// Reads through the engine, which hands on what waits before.
fn lines(archive: &Archive, log: &AccessLogFiles) -> Vec<Access> {
    archive.usage(DAY, None).unwrap();
    let mut lines = Vec::new();
    let met = log.read(Timestamp(0), FOREVER, &mut |access| lines.push(access)).unwrap();
    assert_eq!(met, AccessLogRead::default());
    lines
}

fn read(archive: &Archive, at: &str, who: &str, range: Option<(u64, u64)>) -> Result<u64, ArchiveError> {
    let mut download = archive.open_read_for(&path(at), Some(who))?;
    if let Some((offset, length)) = range {
        download.select(offset, length)?;
    }
    let mut length = 0;
    while let Some(chunk) = download.next()? {
        length += chunk.as_ref().len() as u64;
    }
    Ok(length)
}

fn file(archive: &Archive, at: &str) -> FileId {
    let Stat::File(stat) = archive.stat(&path(at)).unwrap() else { panic!("a file") };
    stat.file
}

fn gets(lines: &[Access]) -> Vec<(Option<&str>, &Get)> {
    let get = |access: &'_ Access| matches!(access.what, What::Get(_));
    let gets = lines.iter().filter(|access| get(access));
    gets.map(|access| match &access.what {
        What::Get(get) => (access.who.as_deref(), get),
        _ => unreachable!("only gets are left"),
    })
    .collect()
}

#[test]
fn puts_gets_stages_recalls_evicts_and_deletes_leave_their_lines() {
    let instance = Instance::new(ByteCount::mib(512));
    let directory = tempfile::tempdir().unwrap();
    let log = Arc::new(AccessLogFiles::new(directory.path()));
    let archive = open_logged(&instance, log.clone());
    let options = || PutOptions { make_parents: true, who: Some("anna".to_owned()), ..PutOptions::default() };
    let sizes = [("/d/a", 400_000u64), ("/d/b", 30_000), ("/d/large", 3_000_000)];
    for (at, length) in sizes {
        put_with(&archive, at, &bytes(length, length as usize), options()).unwrap();
    }
    // A repeat makes no version, and a check is nobody's access; nor is a get that takes no bytes.
    put_with(&archive, "/d/a", &bytes(400_000, 400_000), options()).unwrap();
    archive.verify(&path("/d/a"), 0, u64::MAX).unwrap();
    drop(archive.open_read(&path("/d/a")).unwrap());
    assert_eq!(read(&archive, "/d/a", "bert", None).unwrap(), 400_000);
    assert_eq!(read(&archive, "/d/large", "bert", Some((1_000_000, 500))).unwrap(), 500);
    let found = lines(&archive, &log);
    let puts: Vec<_> = found.iter().filter(|access| matches!(access.what, What::Put(_))).collect();
    assert_eq!(puts.len(), 3, "{puts:?}");
    for (access, (at, length)) in puts.iter().zip(sizes) {
        let What::Put(put) = &access.what else { panic!("a put") };
        assert_eq!((put.file, put.bytes), (file(&archive, at), ByteCount(length)));
        assert!(access.who.as_deref() == Some("anna") && put.took > Duration::ZERO && put.set > 0);
        assert_eq!(access.class.as_deref(), Some(if length < 1 << 20 { "small" } else { "large" }));
    }
    let [(who, whole), (_, range)] = gets(&found)[..] else { panic!("two gets: {found:?}") };
    assert_eq!((who, whole.sent, whole.asked, whole.online), (Some("bert"), whole.bytes, whole.bytes, true));
    assert_eq!((range.offset.0, range.asked.0, range.sent.0), (1_000_000, 500, 500));

    migrate_all(&archive);
    assert_eq!(archive.evict(&all(&["/d"])).unwrap().evicted, 3);
    assert!(matches!(read(&archive, "/d/a", "carl", None), Err(ArchiveError::Nearline { .. })));
    let request = stage(&archive, &["/d"]);
    wait_for(&archive, request);
    lines(&archive, &log);
    read(&archive, "/d/a", "carl", None).unwrap();
    put(&archive, "/d/b", &bytes(9, 9_000));
    archive.remove(&path("/d/a")).unwrap();
    check_tape_lines(&archive, &lines(&archive, &log));
    check_figures(&archive);
    archive.close();
}

fn check_tape_lines(archive: &Archive, found: &[Access]) {
    let mut migrated = Vec::new();
    let (mut stages, mut recalled, mut evicted, mut deleted) = (0, 0, 0, Vec::new());
    for access in found {
        match &access.what {
            What::Migrated(copy) => {
                assert!(copy.length.0 > 0 && copy.members > 0 && !copy.repack, "{copy:?}");
                assert!(access.class.is_some(), "{access:?}");
                migrated.push((copy.container, copy.pool.clone(), copy.vid, copy.block, copy.length));
            }
            What::Stage(wanted) => {
                stages += 1;
                assert!(!wanted.online && wanted.copies.len() == 2, "{wanted:?}");
                for copy in &wanted.copies {
                    let place =
                        (copy.container, copy.pool.clone(), copy.vid, copy.block, copy.container_length);
                    assert!(migrated.contains(&place), "{copy:?} is where it was written: {migrated:?}");
                    assert_eq!(copy.length, wanted.bytes);
                    assert!(copy.offset.0 + copy.length.0 <= copy.container_length.0, "{copy:?}");
                }
            }
            What::Recalled(back) => {
                recalled += 1;
                assert!(migrated.iter().any(|(_, _, vid, _, _)| *vid == back.vid), "{back:?}");
                assert!(back.wait.is_some_and(|wait| wait < DAY), "{back:?}");
            }
            What::Evicted(file) => evicted += u64::from(file.bytes.is_some()),
            What::Deleted(file) => deleted.push(file.bytes),
            _ => {}
        }
    }
    assert_eq!((stages, recalled, evicted), (3, 3, 3));
    assert_eq!(deleted.len(), 2, "one was replaced, one removed: {deleted:?}");
    assert_eq!(deleted[1], Some(ByteCount(400_000)));
    let refused: Vec<_> = gets(found).into_iter().filter(|(_, get)| !get.online).collect();
    assert!(matches!(refused[..], [(Some("carl"), get)] if get.sent.0 == 0), "{refused:?}");
    let state = |is: fn(&What) -> bool| found.iter().filter(|access| is(&access.what)).count();
    assert_eq!(state(|what| matches!(what, What::Tape(_))), 6);
    assert_eq!(state(|what| matches!(what, What::Drive(drive) if drive.up)), 2);
    assert_eq!(state(|what| matches!(what, What::Class(class) if class.pools.len() == 2)), 2);
    let What::Start(start) = &found[0].what else { panic!("{:?}", found[0]) };
    assert!(start.begins == Begins::Server && start.pool.0 > 0, "{start:?}");
    assert_eq!(start.block_size, ByteCount::kib(64));
    assert!(archive.totals().unwrap().mounts >= 2);
}

fn check_figures(archive: &Archive) {
    let report = archive.usage(DAY, None).unwrap();
    assert!(report.is_logged && report.trouble.is_none(), "{report:?}");
    let all = &report.usage.all;
    assert_eq!((all.puts.files, all.gets.files, all.refused, all.recalled.files), (4, 3, 1, 3));
    // Three files came from tape, one of them was read; before that two reads were served.
    assert_eq!((all.hits.files, all.misses.files, all.hit_rate()), (2, 3, Some(0.4)));
    assert!(all.migrated.bytes.0 >= 2 * 3_430_000, "two copies");
    assert!(all.cache.space.is_some_and(|space| space.0 > 0) && all.cache.mean_days.is_some());
    let large = archive.usage(DAY, Some("large")).unwrap().usage;
    assert_eq!((large.classes.len(), large.all.puts.files), (1, 1));
    let refused = archive.usage(DAY, Some("nope"));
    assert!(matches!(refused, Err(ArchiveError::NoSuchClass { .. })), "{refused:?}");
    assert_eq!(archive.usage(Duration::ZERO, None).unwrap().usage.lines, 0);
}

/// A log in memory that refuses or hangs as it is told.
#[derive(Default)]
struct Log {
    text: Mutex<String>,
    refuses: AtomicBool,
    refused: AtomicU64,
    hangs: Mutex<bool>,
    free: Condvar,
    hung: AtomicU64,
}

impl Log {
    fn hang(&self, hangs: bool) {
        *self.hangs.lock().unwrap() = hangs;
        self.free.notify_all();
    }

    fn lines(&self) -> Vec<Access> {
        self.text.lock().unwrap().lines().map(|line| decode(line.as_bytes()).unwrap()).collect()
    }
}

/// A log without a line.
struct NothingThere;

impl AccessReading for NothingThere {
    fn read_some(&mut self, _: u64, _: &mut dyn FnMut(Access)) -> io::Result<bool> {
        Ok(false)
    }

    fn progress(&self) -> (u64, u64) {
        (0, 0)
    }

    fn met(&self) -> AccessLogRead {
        AccessLogRead::default()
    }
}

impl AccessLog for Log {
    fn begins_file(&self) -> bool {
        false
    }

    fn append(&self, lines: &str) -> io::Result<()> {
        let mut hangs = self.hangs.lock().unwrap();
        while *hangs {
            self.hung.fetch_add(1, Ordering::Relaxed);
            hangs = self.free.wait(hangs).unwrap();
        }
        if self.refuses.load(Ordering::Relaxed) {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.text.lock().unwrap().push_str(lines);
        Ok(())
    }

    fn open(&self, _: Timestamp, _: Timestamp) -> io::Result<Box<dyn AccessReading>> {
        Ok(Box::new(NothingThere))
    }
}

#[test]
fn a_log_that_hangs_holds_up_neither_clients_nor_drives() {
    let instance = Instance::new(ByteCount::mib(512));
    let log = Arc::new(Log::default());
    log.hang(true);
    let archive = open_logged(&instance, log.clone());
    for number in 0..5 {
        put(&archive, &format!("/d/{number}"), &bytes(number, 300_000));
    }
    wait_until("the log hangs", || log.hung.load(Ordering::Relaxed) > 0);
    migrate_all(&archive);
    assert_eq!(archive.evict(&all(&["/d"])).unwrap().evicted, 5);
    let request = stage(&archive, &["/d"]);
    wait_for(&archive, request);
    assert_eq!(read(&archive, "/d/3", "anna", None).unwrap(), 300_000);
    assert!(log.lines().is_empty(), "the log hangs all the time");
    log.hang(false);
    archive.close();
    let found = log.lines();
    let count = |is: fn(&What) -> bool| found.iter().filter(|access| is(&access.what)).count();
    assert_eq!(count(|what| matches!(what, What::Put(_))), 5, "what waited is written when it can be");
    assert_eq!(count(|what| matches!(what, What::Recalled(_))), 5);
    assert_eq!(count(|what| matches!(what, What::Get(_))), 1);
    assert_eq!(count(|what| matches!(what, What::Dropped { .. })), 0);
}

#[test]
fn what_a_full_disk_did_not_take_is_counted_when_it_takes_again() {
    // Nothing goes to tape by itself within an hour.
    let instance = Instance::with(ByteCount::mib(512), |settings| {
        settings.classes.iter_mut().for_each(|class| class.pack_age = Duration::from_secs(3600));
    });
    let log = Arc::new(Log::default());
    let archive = open_logged(&instance, log.clone());
    put(&archive, "/d/before", &bytes(1, 1_000));
    archive.usage(DAY, None).unwrap();
    log.refuses.store(true, Ordering::Relaxed);
    for number in 0..7 {
        put(&archive, &format!("/d/{number}"), &bytes(number, 1_000));
        archive.usage(DAY, None).unwrap();
    }
    assert!(log.refused.load(Ordering::Relaxed) >= 7, "each was tried");
    log.refuses.store(false, Ordering::Relaxed);
    put(&archive, "/d/after", &bytes(2, 1_000));
    archive.close();
    let found = log.lines();
    let puts = found.iter().filter(|access| matches!(access.what, What::Put(_))).count();
    let dropped: Vec<&What> =
        found.iter().map(|access| &access.what).filter(|what| matches!(what, What::Dropped { .. })).collect();
    assert_eq!((puts, dropped), (2, vec![&What::Dropped { count: 7 }]));
}

#[test]
fn a_new_file_begins_with_the_state() {
    let instance = Instance::new(ByteCount::mib(512));
    let directory = tempfile::tempdir().unwrap();
    let log = Arc::new(AccessLogFiles::with_limits(directory.path(), 4_000, 64));
    let archive = open_logged(&instance, log.clone());
    for number in 0..60 {
        put(&archive, &format!("/d/{number}"), &bytes(number, 100));
        lines(&archive, &log);
    }
    let selection = Selection { paths: vec![path("/d")], recursive: true };
    let options = StageOptions { owner: "anna".to_owned(), pin: DAY, priority: 3 };
    archive.stage(&selection, options).unwrap();
    let found = lines(&archive, &log);
    archive.close();
    // Beside them stands the directory of the summaries.
    let entries = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<_> = entries.filter(|path| path.is_file()).collect();
    assert!(files.len() > 2, "{files:?}");
    for path in files {
        let text = std::fs::read_to_string(path).unwrap();
        let first = decode::<Access>(text.lines().next().unwrap().as_bytes()).unwrap();
        assert!(matches!(first.what, What::Start(_)), "{first:?}");
    }
    let puts = found.iter().filter(|access| matches!(access.what, What::Put(_))).count();
    let staged = |access: &&Access| {
        matches!(&access.what, What::Stage(stage)
            if stage.online && stage.priority == 3 && stage.copies.is_empty()
                && access.who.as_deref() == Some("anna"))
    };
    assert_eq!((puts, found.iter().filter(staged).count()), (60, 60));
    let starts = found
        .iter()
        .filter(|access| matches!(&access.what, What::Start(start) if start.begins == Begins::File));
    assert!(starts.count() >= 2);
}

/// A log that hung while the writer looked files up kept the catalogue's snapshot: no page that came free was
/// used again, and the catalogue grew with every commit, 200 MB in this test.
#[test]
fn a_log_that_hangs_holds_on_to_no_snapshot_of_the_catalogue() {
    let instance = Instance::with(ByteCount::mib(512), |settings| {
        settings.classes.iter_mut().for_each(|class| class.pack_age = Duration::from_secs(3600));
    });
    let log = Arc::new(Log::default());
    let archive = open_logged(&instance, log.clone());
    for number in 0..2600u64 {
        put(&archive, &format!("/d/{number}"), &bytes(number, 10));
    }
    archive.usage(DAY, None).unwrap();
    log.hang(true);
    // More lines than are handed on together: the log hangs in the middle of them.
    let options = StageOptions { owner: "a".repeat(60), pin: DAY, priority: 3 };
    archive.stage(&Selection { paths: vec![path("/d")], recursive: true }, options).unwrap();
    wait_until("the log hangs", || log.hung.load(Ordering::Relaxed) > 0);
    let before = catalogue_bytes(instance.directory.path());
    for _ in 0..5 {
        for number in 0..100u64 {
            put(&archive, &format!("/d/again{number}"), &bytes(number, 10));
        }
        for number in 0..100u64 {
            archive.remove(&path(&format!("/d/again{number}"))).unwrap();
        }
    }
    let after = catalogue_bytes(instance.directory.path());
    assert!(after < before + (8 << 20), "{before} bytes became {after}");
    log.hang(false);
    archive.close();
}

fn catalogue_bytes(directory: &std::path::Path) -> u64 {
    let entries = std::fs::read_dir(directory).unwrap().map(Result::unwrap);
    let bytes = entries.map(|entry| match entry.file_type().unwrap().is_dir() {
        true => catalogue_bytes(&entry.path()),
        false if entry.file_name() == "data.mdb" => entry.metadata().unwrap().len(),
        false => 0,
    });
    bytes.sum()
}

/// Story: a report over a year read 1 GB of log in one call. Now no step reads more than a little, what it
/// gives is the same, and who comes meanwhile is told so at once.
#[test]
fn a_report_is_made_in_steps_that_read_a_little_each() {
    let instance = Instance::new(ByteCount::mib(64));
    let directory = instance.directory.path().join("log");
    let files = AccessLogFiles::new(&directory);
    let now = SystemClock.now();
    let mut text = String::new();
    let mut lines = 0;
    while (text.len() as u64) < 2 * USAGE_STEP_BYTES + USAGE_STEP_BYTES / 2 {
        let put = Put { file: FileId(lines), bytes: ByteCount(lines), set: 0, took: Duration::ZERO };
        let at = Timestamp(now.0 - 3_600_000_000_000 + lines as i64);
        journal::encode(
            &Access { at, class: Some("small".into()), who: None, what: What::Put(put) },
            &mut text,
        );
        lines += 1;
    }
    files.append(&text).unwrap();
    let archive = open_logged(&instance, Arc::new(files));
    let day = Duration::from_secs(86_400);
    let mut reading = archive.begin_usage(day, None).unwrap();
    let mut steps = 0;
    let report = loop {
        steps += 1;
        let step = reading.step();
        let busy = archive.usage(day, None).unwrap();
        assert!(busy.trouble.unwrap().contains("somebody else"));
        if let Some(report) = step {
            break report;
        }
        let (read, of) = reading.progress();
        let most = steps * USAGE_STEP_BYTES;
        assert!(read >= most && read < most + 1_000 && of >= text.len() as u64, "{steps}: {read} of {of}");
    };
    assert_eq!(steps, 3);
    assert_eq!((report.usage.all.puts.files, report.trouble.clone()), (lines, None));
    drop(reading);
    let whole = archive.usage(day, None).unwrap();
    assert_eq!((whole.usage.all.puts, whole.trouble), (report.usage.all.puts, None));
    archive.close();
}
