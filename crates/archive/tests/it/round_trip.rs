//! Put, two tapes, evict, stage, get, on real files: every byte compared.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{TryRecvError, channel};
use std::time::Duration;

use crate::common::tight::open_tight_on;
use crate::common::{
    Instance, SystemClock, all, bytes, extents, get, migrate_all, path, put, put_with, scrub, stage,
    wait_for, wait_until,
};
use archive::{ArchiveError, Locality, PutDone, PutOptions, Stat, TapeUse};
use base::ByteCount;
use library::VirtualCartridgeOptions;

fn tree() -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for n in 0..60u64 {
        files.push((format!("/data/dir{}/file{n}", n % 7), bytes(n + 1, (n as usize * 997) % 40_000 + 1)));
    }
    for (n, size) in [300_000usize, 1_048_576, 2_097_152, 5_000_001, 9_999_999].into_iter().enumerate() {
        files.push((format!("/data/big{n}"), bytes(1000 + n as u64, size)));
    }
    files.push(("/data/empty".to_owned(), Vec::new()));
    files
}

#[test]
fn everything_comes_back() {
    let instance = Instance::new(ByteCount::mib(512));
    let archive = instance.open();
    let files = tree();
    for (name, content) in &files {
        put(&archive, name, content);
    }
    for (name, content) in &files {
        assert_eq!(&get(&archive, name).unwrap(), content, "{name} from the pool");
    }
    migrate_all(&archive);
    let evicted = archive.evict(&all(&["/data"])).unwrap();
    assert_eq!((evicted.evicted, evicted.refused_count), (65, 0), "{:?}", evicted.refused);
    match get(&archive, "/data/dir1/file1") {
        Err(ArchiveError::Nearline { vids, .. }) => assert_eq!(vids.len(), 2),
        other => panic!("a read of a NEARLINE file must be refused, not {other:?}"),
    }
    let mounts_before = archive.totals().unwrap().mounts;
    let request = stage(&archive, &["/data"]);
    wait_for(&archive, request);
    let record = archive.request(request).unwrap().record;
    assert_eq!((record.done, record.failed), (66, 0), "{:?}", archive.why_request(request));
    assert_eq!(archive.totals().unwrap().mounts - mounts_before, 1, "one of the two tapes is enough");
    for (name, content) in &files {
        assert_eq!(&get(&archive, name).unwrap(), content, "{name} from tape");
    }
    let Stat::File(stat) = archive.stat(&path("/data/big3")).unwrap() else { panic!("a file") };
    assert_eq!(stat.locality, Locality::OnlineAndNearline);
    assert_eq!(stat.copies.len(), 2);
    assert_ne!(stat.copies[0].vid, stat.copies[1].vid);
    assert_eq!(stat.pins.len(), 1);
    archive.close();
}

#[test]
fn a_restart_continues_and_appends_to_the_same_tapes() {
    let instance = Instance::new(ByteCount::mib(512));
    let archive = instance.open();
    put(&archive, "/a/one", &bytes(1, 3_000_000));
    migrate_all(&archive);
    archive.close();
    drop(archive);
    let archive = instance.open();
    put(&archive, "/a/two", &bytes(2, 70_000));
    put(&archive, "/a/one", &bytes(3, 2_500_000));
    migrate_all(&archive);
    let used = archive.tapes().unwrap().into_iter().filter(|tape| tape.containers > 0).collect::<Vec<_>>();
    assert_eq!(used.len(), 2, "the second session appends");
    assert!(used.iter().all(|tape| tape.generation > 2 && tape.containers == 3), "{used:?}");
    assert_eq!(archive.evict(&all(&["/a"])).unwrap().evicted, 2);
    archive.close();
    drop(archive);
    let archive = instance.open();
    let request = stage(&archive, &["/a"]);
    wait_for(&archive, request);
    assert_eq!(get(&archive, "/a/one").unwrap(), bytes(3, 2_500_000));
    assert_eq!(get(&archive, "/a/two").unwrap(), bytes(2, 70_000));
    archive.close();
}

#[test]
fn a_full_tape_goes_on_with_the_next() {
    let instance = Instance::new(ByteCount::mib(24));
    let archive = instance.open();
    for n in 0..12 {
        put(&archive, &format!("/f/{n}"), &bytes(n, 4_000_000));
    }
    migrate_all(&archive);
    let tapes = archive.tapes().unwrap();
    let used = tapes.iter().filter(|tape| tape.containers > 0).count();
    assert!(used >= 5, "48 MB twice on tapes of 24 MiB: {tapes:?}");
    assert_eq!(archive.evict(&all(&["/f"])).unwrap().evicted, 12);
    let request = stage(&archive, &["/f"]);
    wait_for(&archive, request);
    for n in 0..12 {
        assert_eq!(get(&archive, &format!("/f/{n}")).unwrap(), bytes(n, 4_000_000), "{n}");
    }
    archive.close();
}

/// The drive warns when half of what the plan reckoned with is written: the session ends there, with an
/// index, and what was planned behind it goes to the next tape.
#[test]
fn an_early_end_goes_on_with_the_next_tape() {
    let early_warning = Some(ByteCount::mib(16));
    let options = VirtualCartridgeOptions { early_warning, ..VirtualCartridgeOptions::default() };
    let instance = Instance::with_tapes(ByteCount::mib(32), options, |_| {});
    let archive = instance.open();
    for n in 0..7 {
        put(&archive, &format!("/f/{n}"), &bytes(n, 4_000_000));
    }
    migrate_all(&archive);
    let tapes = archive.tapes().unwrap();
    let full = tapes.iter().filter(|tape| tape.state == catalogue::TapeState::Full).collect::<Vec<_>>();
    assert_eq!(full.len(), 2, "{tapes:?}");
    assert!(full.iter().all(|tape| tape.committed.0 < 24_000_000 && tape.torn.0 == 0), "{full:?}");
    assert_eq!(tapes.iter().map(|tape| tape.containers).sum::<u64>(), 14, "each file twice and no more");
    assert_eq!(archive.evict(&all(&["/f"])).unwrap().evicted, 7);
    let request = stage(&archive, &["/f"]);
    wait_for(&archive, request);
    for n in 0..7 {
        assert_eq!(get(&archive, &format!("/f/{n}")).unwrap(), bytes(n, 4_000_000), "{n}");
    }
    archive.close();
}

#[test]
fn repeats_create_nothing() {
    let instance = Instance::new(ByteCount::mib(64));
    let archive = instance.open();
    let keyed = |key: &str| PutOptions {
        make_parents: true,
        idempotency: Some((key.to_owned(), "admin".to_owned())),
        ..PutOptions::default()
    };
    let first = put_with(&archive, "/x/file", &bytes(1, 400_000), keyed("k1")).unwrap();
    let again = put_with(&archive, "/x/file", &bytes(1, 400_000), keyed("k1")).unwrap();
    assert_eq!((again.file, again.created), (first.file, false));
    let same_content = put(&archive, "/x/file", &bytes(1, 400_000));
    assert_eq!((same_content.file, same_content.created), (first.file, false));
    let reused = put_with(&archive, "/x/file", &bytes(2, 400_000), keyed("k1"));
    assert!(matches!(reused, Err(ArchiveError::IdempotencyKeyReused)), "{reused:?}");
    let newer = put(&archive, "/x/file", &bytes(2, 400_000));
    assert!(newer.created && newer.replaced);
    // The first answer stands even though a newer version has the name.
    let late = put_with(&archive, "/x/file", &bytes(1, 400_000), keyed("k1")).unwrap();
    assert_eq!((late.file, late.created), (first.file, false));
    assert_eq!(get(&archive, "/x/file").unwrap(), bytes(2, 400_000));
    archive.close();
}

/// A client that puts a NEARLINE file again sends bytes that the pool lacks: they are kept, and no new
/// version, hence no new tape copy, is made.
#[test]
fn a_repeat_of_a_nearline_file_brings_it_online_without_new_copies() {
    let instance = Instance::new(ByteCount::mib(64));
    let archive = instance.open();
    let (small, large) = (bytes(1, 10_000), bytes(2, 3_000_000));
    let first = [put(&archive, "/small", &small).file, put(&archive, "/large", &large).file];
    migrate_all(&archive);
    assert_eq!(archive.evict(&all(&["/"])).unwrap().evicted, 2);
    let again = [put(&archive, "/small", &small), put(&archive, "/large", &large)];
    assert_eq!(again.each_ref().map(|done| (done.file, done.created)), first.map(|file| (file, false)));
    assert_eq!(get(&archive, "/small").unwrap(), small);
    assert_eq!(get(&archive, "/large").unwrap(), large);
    let totals = archive.totals().unwrap();
    assert_eq!((totals.todo.files, totals.queued.files), (0, 0), "nothing goes to tape again");
    assert_eq!(archive.evict(&all(&["/"])).unwrap().evicted, 2);
    archive.close();
}

/// Found in review: a repeat was acknowledged and its bytes thrown away although the first ones were lost.
#[test]
fn a_repeat_is_not_acknowledged_if_the_kept_bytes_cannot_be_read() {
    let instance = Instance::new(ByteCount::mib(64));
    let archive = instance.open();
    let content = bytes(2, 3_000_000);
    put(&archive, "/file", &content);
    archive.close();
    drop(archive);
    for drive in &instance.settings.pool.drives {
        for entry in walk(&drive.at.directory().join("extents")) {
            std::fs::OpenOptions::new().write(true).open(entry).unwrap().set_len(4096).unwrap();
        }
    }
    let archive = instance.open();
    assert!(get(&archive, "/file").is_err());
    let options = PutOptions { make_parents: true, ..PutOptions::default() };
    let repeat = put_with(&archive, "/file", &content, options);
    match repeat {
        Err(ArchiveError::KeptUnreadable { .. }) => {
            archive.remove(&path("/file")).unwrap();
            put(&archive, "/file", &content);
        }
        // The scrubber was first to find that the file is lost: these bytes bring it back.
        done => assert!(done.is_ok(), "{done:?}"),
    }
    assert_eq!(get(&archive, "/file").unwrap(), content);
    archive.close();
}

/// The scrubber called a file LOST between the commit that found its put to be a repeat, and the look at what
/// was kept: the put was acknowledged, its bytes were thrown away, and the file stayed LOST.
#[test]
fn a_repeat_of_a_file_that_is_lost_meanwhile_is_kept() {
    // Nothing is sealed, so that nobody else reads.
    let instance = Instance::with(ByteCount::mib(64), |settings| {
        for class in &mut settings.classes {
            (class.pack_age, class.pack_bytes) = (Duration::from_secs(3600), ByteCount::mib(4_000));
        }
    });
    let contents = [bytes(1, 10_000), bytes(2, 10_000)];
    let (held, held_on) = put_apart(&instance, 0, "/held", &contents[0]);
    // In a segment that is on other drives.
    let (lost, lost_on) = put_apart(&instance, 1, "/lost", &contents[1]);
    assert!(!held_on.is_subset(&lost_on), "{held_on:?} {lost_on:?}");
    for drive in lost_on {
        let drive = instance.settings.pool.drives[usize::from(drive)].at.directory();
        std::fs::rename(drive, drive.with_extension("gone")).unwrap();
    }
    let (archive, tightness) = open_tight_on(&instance, Arc::new(SystemClock));
    // What the scrubber does first is behind it.
    scrub(&archive);
    tightness.hold_reads.store(true, Ordering::SeqCst);
    let (answer, answers) = channel();
    let repeat = |name: &str, content: &[u8]| {
        let mut upload = archive.begin_put(&path(name), PutOptions::default()).unwrap();
        upload.write(content).unwrap();
        let (name, answer) = (name.to_owned(), answer.clone());
        upload.finish_then(Box::new(move |done| answer.send((name, done)).unwrap()));
    };
    repeat("/held", &contents[0]);
    wait_until("the first repeat is read", || {
        assert_eq!(answers.try_recv().err(), Some(TryRecvError::Empty), "no repeat is answered yet");
        tightness.reads_held.load(Ordering::SeqCst) > 0
    });
    // Repeats are looked at one by one, so that this one is committed and waits.
    repeat("/lost", &contents[1]);
    put(&archive, "/behind", &bytes(3, 10_000));
    // All at once: what a rebuild reads between two of them would wait.
    archive.pool_rebuild(None, true).unwrap();
    wait_until("the file is lost", || {
        let Stat::File(stat) = archive.stat(&path("/lost")).unwrap() else { panic!("a file") };
        assert_eq!(answers.try_recv().err(), Some(TryRecvError::Empty), "no repeat is answered yet");
        stat.file == lost.file && stat.locality == Locality::Lost
    });
    tightness.hold_reads.store(false, Ordering::SeqCst);
    for (name, file, created) in [("/held", held.file, false), ("/lost", lost.file, true)] {
        let (answered, done) = answers.recv().unwrap();
        let done = done.unwrap();
        assert_eq!((answered.as_str(), done.created, done.file != file), (name, created, created));
    }
    assert_eq!(get(&archive, "/lost").unwrap(), contents[1]);
    archive.close();
}

/// Puts a small file in a segment of its own, and gives the drives that have it. Placement goes round, from
/// the same beginning at each start: it stands behind so many large files.
fn put_apart(instance: &Instance, large: u64, name: &str, content: &[u8]) -> (PutDone, BTreeSet<u16>) {
    let archive = instance.open();
    for n in 0..large {
        put(&archive, &format!("/large{n}"), &bytes(100 + n, 300_000));
    }
    let drives = || instance.settings.pool.drives.iter().map(|drive| extents(drive.at.directory()));
    let before: Vec<_> = drives().collect();
    let done = put(&archive, name, content);
    // Others may go meanwhile.
    let is_new = |(now, before): &(Vec<PathBuf>, Vec<PathBuf>)| now.iter().any(|now| !before.contains(now));
    let on: BTreeSet<u16> =
        drives().zip(before).zip(0..).filter(|(both, _)| is_new(both)).map(|(_, drive)| drive).collect();
    assert_eq!(on.len(), 3, "one segment: {on:?}");
    archive.close();
    (done, on)
}

fn walk(directory: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(walk(&path)) } else { found.push(path) }
    }
    found
}

/// Found in review: readers that held a piece while they waited for memory stopped each other for good.
#[test]
fn many_readers_share_little_memory() {
    let instance = Instance::with(ByteCount::mib(64), |settings| settings.pool.arena = ByteCount::mib(31));
    let archive = instance.open();
    let content = bytes(5, 12_000_000);
    put(&archive, "/large", &content);
    std::thread::scope(|scope| {
        for _ in 0..24 {
            scope.spawn(|| assert!(get(&archive, "/large").unwrap() == content));
        }
    });
    archive.close();
}

#[test]
fn losing_two_pool_drives_loses_nothing() {
    let instance = Instance::new(ByteCount::mib(64));
    let archive = instance.open();
    let (small, large) = (bytes(1, 10_000), bytes(2, 7_000_000));
    put(&archive, "/small", &small);
    put(&archive, "/large", &large);
    archive.close();
    drop(archive);
    for lost in [1usize, 6] {
        std::fs::remove_dir_all(instance.settings.pool.drives[lost].at.directory()).unwrap();
    }
    let archive = instance.open();
    assert_eq!(get(&archive, "/small").unwrap(), small);
    assert_eq!(get(&archive, "/large").unwrap(), large);
    put(&archive, "/new", &large);
    assert_eq!(get(&archive, "/new").unwrap(), large);
    archive.close();
}

#[test]
fn what_is_wrong_is_refused_and_changes_nothing() {
    let instance = Instance::new(ByteCount::mib(64));
    let archive = instance.open();
    put(&archive, "/d/file", &bytes(1, 1000));
    let changes = archive.totals().unwrap();
    let options = || PutOptions { make_parents: true, ..PutOptions::default() };
    let refused =
        |at: &str, options: PutOptions| put_with(&archive, at, &bytes(9, 500), options).unwrap_err();
    assert!(matches!(refused("/d", options()), ArchiveError::IsADirectory(_)));
    assert!(matches!(refused("/d/file/x", options()), ArchiveError::NotADirectory(_)));
    let short = PutOptions { length: Some(ByteCount(501)), ..options() };
    assert!(matches!(refused("/d/n", short), ArchiveError::LengthMismatch { expected: 501, actual: 500 }));
    let long = PutOptions { length: Some(ByteCount(499)), ..options() };
    assert!(matches!(refused("/d/n", long), ArchiveError::LengthMismatch { .. }));
    let digest = PutOptions { adler32: Some(base::Adler32(1)), ..options() };
    assert!(matches!(refused("/d/n", digest), ArchiveError::DigestMismatch { kind: "adler32", .. }));
    let class = PutOptions { class: Some("nope".to_owned()), ..options() };
    assert!(matches!(refused("/d/n", class), ArchiveError::NoSuchClass { .. }));
    let keep = PutOptions { keep_existing: true, ..options() };
    assert!(matches!(refused("/d/file", keep), ArchiveError::Exists(_)));
    let options = archive::StageOptions { owner: String::new(), pin: std::time::Duration::ZERO, priority: 5 };
    let missing = archive.stage(&all(&["/d/file", "/d/none"]), options).unwrap_err();
    assert!(matches!(missing, ArchiveError::SomeNotFound { count: 1, .. }), "{missing}");
    assert!(archive.requests(None, 10).unwrap().is_empty());
    let mut range = archive.open_read(&path("/d/file")).unwrap();
    assert!(matches!(range.select(1000, 1), Err(ArchiveError::RangeBeyondEnd { offset: 1000, .. })));
    assert_eq!(archive.totals().unwrap().live, changes.live);
    assert!(matches!(archive.remove(&path("/d")), Err(ArchiveError::NotEmpty(_))));
    archive.close();
}

#[test]
fn a_tape_is_set_aside_and_given_back() {
    let instance = Instance::new(ByteCount::mib(64));
    let archive = instance.open();
    put(&archive, "/file", &bytes(1, 500_000));
    migrate_all(&archive);
    archive.evict(&all(&["/"])).unwrap();
    let used: Vec<_> = archive.tapes().unwrap().into_iter().filter(|tape| tape.containers > 0).collect();
    for tape in &used {
        archive.set_tape(tape.vid, TapeUse::Disabled, "for the test").unwrap();
    }
    let request = stage(&archive, &["/file"]);
    let why = archive.why_request(request).unwrap().join(" ");
    crate::common::wait_until("the reason names the tapes", || {
        archive.why_request(request).unwrap().join(" ").contains("for the test")
    });
    assert_eq!(archive.request(request).unwrap().record.done, 0, "{why}");
    archive.set_tape(used[0].vid, TapeUse::Active, "").unwrap();
    wait_for(&archive, request);
    assert_eq!(get(&archive, "/file").unwrap(), bytes(1, 500_000));
    let blank = archive.tapes().unwrap().into_iter().find(|tape| tape.uuid.is_none()).unwrap().vid;
    archive.set_tape(blank, TapeUse::Disabled, "").unwrap();
    archive.set_tape(blank, TapeUse::Active, "").unwrap();
    assert_eq!(archive.tape(blank).unwrap().state, catalogue::TapeState::Scratch);
    assert!(matches!(archive.drive_up("nope"), Err(ArchiveError::NoSuchDrive(_))));
    archive.close();
}

#[test]
fn the_nearest_directory_with_a_class_gives_it() {
    let instance = Instance::new(ByteCount::mib(64));
    let archive = instance.open();
    archive.make_directory(&path("/raw"), catalogue::Attributes::default(), Some("large"), false).unwrap();
    assert_eq!(put(&archive, "/raw/a/b/file", b"few bytes").class, "large");
    assert_eq!(put(&archive, "/else/file", b"few bytes").class, "small");
    let named = PutOptions { class: Some("small".to_owned()), ..PutOptions::default() };
    assert_eq!(put_with(&archive, "/raw/named", b"other bytes", named).unwrap().class, "small");
    archive.close();
}
