//! Recalls and the room of the pool: they wait for it, and no tape or drive gets a bad name for a full pool.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use archive::{
    About, Archive, ArchiveError, CheckState, HealthProblem, PutOptions, QueueLine, Reason, Settings,
    StageOptions, TapeUse,
};
use base::{ByteCount, Clock, Duration, RequestId, Vid};
use catalogue::{ItemState, TapeState};

use crate::common::tight::{Tightness, open_tight_on};
use crate::common::{
    Instance, SystemClock, all, bytes, get, migrate_all, path, put, put_with, stage, wait_for, wait_until,
};
use crate::faulty::place;

const FILE: usize = 3_000_000;

fn instance(pool_max: Option<ByteCount>) -> Instance {
    Instance::with(ByteCount::mib(128), |settings: &mut Settings| {
        for class in &mut settings.classes {
            class.pool_max = pool_max;
        }
    })
}

fn open_tight(instance: &Instance) -> (Archive, Arc<Tightness>) {
    open_tight_on(instance, Arc::new(SystemClock))
}

/// Four files of 3 MB that are on tape only.
fn nearline(archive: &Archive) -> Vec<String> {
    let files: Vec<String> = (0..4).map(|n| format!("/t/f{n}")).collect();
    for (n, file) in files.iter().enumerate() {
        put(archive, file, &bytes(n as u64, FILE));
    }
    migrate_all(archive);
    let evicted = archive.evict(&all(&["/t"])).unwrap();
    assert_eq!(evicted.evicted, 4, "{:?}", evicted.refused);
    files
}

fn states(archive: &Archive, request: RequestId) -> (usize, usize) {
    let (files, _) = archive.request_files(request, 0, 100).unwrap();
    let done = files.iter().filter(|file| matches!(file.state, ItemState::Done(_))).count();
    (done, files.iter().filter(|file| file.state.waits()).count())
}

fn nothing_is_marked_bad(archive: &Archive) {
    for tape in archive.tapes().unwrap() {
        assert!(matches!(tape.state, TapeState::Active | TapeState::Scratch), "{tape:?}");
    }
    no_drive_is_down(archive);
}

/// As [`nothing_is_marked_bad`], where a tape is repacked.
fn nothing_is_marked_bad_but(archive: &Archive, repacked: Vid) {
    assert_eq!(archive.tape(repacked).unwrap().state, TapeState::Repacking);
    for tape in archive.tapes().unwrap().into_iter().filter(|tape| tape.vid != repacked) {
        assert!(matches!(tape.state, TapeState::Active | TapeState::Scratch), "{tape:?}");
    }
    no_drive_is_down(archive);
}

fn no_drive_is_down(archive: &Archive) {
    for drive in archive.tape_drives() {
        assert_ne!(drive.state, "down", "{}", drive.reason);
    }
}

/// Waits until the reasons of a request say so.
fn why_says(archive: &Archive, request: RequestId, what: &str) {
    wait_until(what, || {
        let why = archive.why_request(request).unwrap();
        why.iter().any(|reason| reason.contains(what))
    });
}

#[test]
fn recalls_stop_at_the_ceiling_of_their_class_and_go_on_when_there_is_room() {
    let instance = instance(Some(ByteCount(2 * FILE as u64 + 1_000)));
    let archive = instance.open();
    let files = nearline(&archive);
    let request = stage(&archive, &["/t"]);
    wait_until("two files have come", || states(&archive, request).0 == 2);
    why_says(&archive, request, "itself holds the pool");
    assert_eq!(states(&archive, request), (2, 2), "{:?}", archive.why_request(request));
    assert!(archive.flow().unwrap().classes.iter().any(|class| class.room.0 < FILE as u64));
    nothing_is_marked_bad(&archive);
    archive.release(request, None).unwrap();
    let evicted = archive.evict(&all(&["/t"])).unwrap();
    assert_eq!(evicted.evicted, 2);
    wait_for(&archive, request);
    assert_eq!(archive.request(request).unwrap().record.failed, 0);
    nothing_is_marked_bad(&archive);
    let online = files.iter().filter(|file| get(&archive, file).is_ok()).count();
    assert_eq!(online, 2, "the two that came last");
    // Story: what came after the release was pinned by the request that had been given back.
    let evicted = archive.evict(&all(&["/t"])).unwrap();
    assert_eq!((evicted.evicted, evicted.already), (2, 2), "{:?}", evicted.refused);
    archive.close();
}

/// Story: with room for a recall on eight drives all of it was written to six, one of which had less than its
/// part; that one was full from then on, and so was the pool, though the files came one by one.
#[test]
fn a_recall_writes_no_more_at_once_than_one_set_of_drives_takes() {
    let instance = instance(None);
    let (archive, tightness) = open_tight(&instance);
    nearline(&archive);
    // Of each drive 1.4 MB are left to recalls: two files would have their places on eight drives.
    tightness.capacity.store(20_000_000, Ordering::SeqCst);
    tightness.free.store(2_400_000, Ordering::SeqCst);
    tightness.room.store(1_420_000, Ordering::SeqCst);
    wait_until("the drives were asked", || archive.flow().unwrap().room < ByteCount(8_000_000));
    assert!(archive.flow().unwrap().room > ByteCount(2 * FILE as u64), "{:?}", archive.flow());
    let request = stage(&archive, &["/t"]);
    wait_for(&archive, request);
    assert_eq!(states(&archive, request), (4, 0));
    let drives = archive.pool_info().unwrap().drives;
    assert!(drives.iter().all(|drive| drive.state == "up"), "{drives:?}");
    // The same goes for a put that says how long it is.
    let options = PutOptions { length: Some(ByteCount(3 * FILE as u64)), ..PutOptions::default() };
    let refused = archive.begin_put(&path("/large"), options).err();
    assert!(matches!(refused, Some(ArchiveError::TooLittleRoom { .. })), "{refused:?}");
    archive.close();
}

#[test]
fn recalls_leave_the_share_of_puts_free_and_go_on_when_drives_are_emptied() {
    let instance = instance(None);
    let (archive, tightness) = open_tight(&instance);
    nearline(&archive);
    // A twentieth of the drives' 1 GB is left to puts, which still have room.
    tightness.free.store(50_000_000, Ordering::SeqCst);
    wait_until("the drives were asked", || archive.flow().unwrap().room == ByteCount(0));
    let request = stage(&archive, &["/t"]);
    why_says(&archive, request, "room in the pool");
    assert_eq!(states(&archive, request), (0, 4));
    put(&archive, "/new", &bytes(9, FILE));
    nothing_is_marked_bad(&archive);
    tightness.free.store(900_000_000, Ordering::SeqCst);
    wait_for(&archive, request);
    assert_eq!(states(&archive, request), (4, 0));
    archive.close();
}

/// Story: a repack wrote a file to its new tape while it was evicted. Its bytes were removed under the
/// session, which took the drives of the pool for bad and wrote half a container in vain.
#[test]
fn what_is_evicted_while_a_tape_is_written_goes_when_it_is_written() {
    let instance = instance(None);
    let (archive, tightness) = open_tight(&instance);
    let file = "/t/f".to_owned();
    let content = bytes(1, 20 * FILE);
    put(&archive, &file, &content);
    migrate_all(&archive);
    let (vid, _) = place(&archive, &file)[0];
    let reads = || tightness.reads.load(Ordering::SeqCst);
    let before = reads();
    assert_eq!(get(&archive, &file).unwrap(), content);
    // It is read once as a trial, which is over then.
    tightness.hold_from.store(reads() + (reads() - before) * 3 / 2, Ordering::SeqCst);
    archive.repack_tape(vid, "a test").unwrap();
    wait_until("a tape session reads from the pool", || tightness.reads_held.load(Ordering::SeqCst) > 0);
    // Another one, which the session does not read.
    put(&archive, "/t/other", &bytes(2, FILE));
    archive.remove(&path("/t/other")).unwrap();
    let evicted = archive.evict(&all(&[&file])).unwrap();
    assert_eq!(evicted.evicted, 1, "{:?}", evicted.refused);
    let garbage = || archive.pool_info().unwrap().garbage;
    wait_until("what nobody reads goes at once", || garbage() == 1);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(3);
    while garbage() > 0 && std::time::Instant::now() < until {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(garbage() > 0, "it waits for who reads it");
    tightness.hold_from.store(0, Ordering::SeqCst);
    wait_until("all is moved", || archive.tape_repack(vid).unwrap().is_some_and(|repack| repack.done));
    let pool = archive.pool_info().unwrap();
    assert!(pool.drives.iter().all(|drive| drive.errors == 0), "{pool:?}");
    wait_until("then it goes", || garbage() == 0);
    archive.close();
}

/// A pool that takes no more, and a tape whose repack waits for room in it; nothing is tried before there is.
fn waiting_repack(instance: &Instance) -> (Archive, Arc<Tightness>, Vid) {
    let (archive, tightness) = open_tight(instance);
    nearline(&archive);
    let (vid, _) = place(&archive, "/t/f0")[0];
    tightness.full.store(true, Ordering::SeqCst);
    archive.repack_tape(vid, "a test").unwrap();
    wait_until("status says that it waits for room", || is_told_of_reads(&archive));
    (archive, tightness, vid)
}

/// One that tries nothing again by itself within a test.
fn patient_instance() -> Instance {
    Instance::with(ByteCount::mib(128), |settings: &mut Settings| {
        settings.tape.retry_delay = Duration::from_secs(3600);
        settings.tape.dismount_delay = Duration::ZERO;
    })
}

fn is_told_of_reads(archive: &Archive) -> bool {
    archive.totals().unwrap().warnings.iter().any(|line| line.contains("what repacks and repairs read"))
}

fn mounts(archive: &Archive) -> u64 {
    archive.totals().unwrap().mounts
}

fn make_room(tightness: &Tightness) {
    tightness.full.store(false, Ordering::SeqCst);
    tightness.free.store(900_000_000, Ordering::SeqCst);
}

/// Story: a repack that was to read containers into a full pool failed, and its tape was mounted again every
/// few seconds, 63 times in ten minutes, with no word of it in `kist status`.
#[test]
fn a_repack_waits_for_room_in_the_pool() {
    let instance = patient_instance();
    let (archive, tightness, vid) = waiting_repack(&instance);
    let kinds = |reasons: Vec<Option<Reason>>| -> Vec<&str> {
        reasons.into_iter().flatten().map(|reason| reason.kind()).collect()
    };
    let line = |lines: Vec<QueueLine>| lines.into_iter().find(|line| line.what == format!("repack {vid}"));
    let is_told = || {
        let (in_queue, in_status) = (line(archive.queue().unwrap()), line(archive.totals().unwrap().stuck));
        let why = archive.explain(&About::Tape(vid)).unwrap().into_iter().map(|cause| cause.reason);
        let why = kinds(why.collect());
        let show = archive.tape_repack(vid).unwrap().unwrap().waits.map(|wait| wait.reason);
        let told = kinds(vec![in_queue.unwrap().cause, in_status.and_then(|line| line.cause), show]);
        told == ["no-room-for-reads"; 3] && why.contains(&"no-room-for-reads")
    };
    wait_until("all screens say it", is_told);
    wait_until("the tape is in its slot", || archive.tape(vid).unwrap().drive.is_none());
    let before = mounts(&archive);
    // What needs no room is done meanwhile.
    archive.check_tapes(&[vid]).unwrap();
    wait_until("the tape is checked", || {
        archive.tape_check(vid).unwrap().is_some_and(|check| check.state == CheckState::Done)
    });
    wait_until("the tape is in its slot again", || archive.tape(vid).unwrap().drive.is_none());
    assert_eq!(mounts(&archive), before + 1);
    assert!(is_told());
    nothing_is_marked_bad_but(&archive, vid);
    make_room(&tightness);
    wait_until("all is moved", || archive.tape_repack(vid).unwrap().is_some_and(|repack| repack.done));
    assert!(!is_told_of_reads(&archive));
    nothing_is_marked_bad_but(&archive, vid);
    archive.close();
}

/// Without room, what waits for it is tried again, each time later than before.
#[test]
fn a_repack_without_room_mounts_its_tape_ever_less_often() {
    let instance = instance(None);
    let (archive, _, _) = waiting_repack(&instance);
    let before = mounts(&archive);
    std::thread::sleep(Duration::from_secs(4));
    let tried = mounts(&archive) - before;
    // After 200 ms, and rests of 400, 800 and 1,600; each time what is smaller is tried in the same mount.
    assert!((1..=5).contains(&tried), "{tried} mounts");
    archive.close();
}

#[test]
fn a_repack_that_waits_for_room_is_called_off_or_goes_on_after_a_restart() {
    let instance = patient_instance();
    let (archive, tightness, vid) = waiting_repack(&instance);
    let has_ended = || {
        let queue = archive.queue().unwrap();
        !is_told_of_reads(&archive) && queue.iter().all(|line| !line.what.starts_with("repack"))
    };
    archive.set_tape(vid, TapeUse::Active, "not now").unwrap();
    wait_until("nothing waits any more", has_ended);
    archive.repack_tape(vid, "once more").unwrap();
    wait_until("it waits again", || is_told_of_reads(&archive));
    archive.set_tape(vid, TapeUse::Disabled, "not now").unwrap();
    wait_until("nothing waits any more", has_ended);
    assert_eq!(archive.totals().unwrap().repacked, 0);
    archive.set_tape(vid, TapeUse::Active, "it is well").unwrap();
    archive.repack_tape(vid, "once more").unwrap();
    wait_until("it waits again", || is_told_of_reads(&archive));
    assert_eq!(archive.totals().unwrap().repacked, 4);
    archive.close();
    drop((archive, tightness));
    let archive = instance.open();
    wait_until("all is moved", || archive.tape_repack(vid).unwrap().is_some_and(|repack| repack.done));
    archive.close();
}

/// Puts may take the room that a recall has seen: its writes then fail in the midst.
#[test]
fn a_pool_that_fills_under_a_recall_is_no_fault_of_tape_or_drive() {
    let instance = instance(None);
    let (archive, tightness) = open_tight(&instance);
    let files = nearline(&archive);
    tightness.full.store(true, Ordering::SeqCst);
    let request = stage(&archive, &["/t"]);
    wait_until("writes of the recall were refused", || tightness.refused.load(Ordering::SeqCst) >= 3);
    why_says(&archive, request, "room in the pool");
    nothing_is_marked_bad(&archive);
    assert_eq!(states(&archive, request), (0, 4));
    tightness.full.store(false, Ordering::SeqCst);
    tightness.free.store(0, Ordering::SeqCst);
    wait_for(&archive, request);
    for (n, file) in files.iter().enumerate() {
        assert!(get(&archive, file).unwrap() == bytes(n as u64, FILE), "{file}");
    }
    nothing_is_marked_bad(&archive);
    archive.close();
}

/// Story: a put that was larger than the room that was left was taken, and refused in the midst of its body:
/// its drives were full then, and others were refused too.
#[test]
fn a_put_larger_than_the_room_is_refused_before_its_body() {
    let instance = instance(None);
    let (archive, tightness) = open_tight(&instance);
    put(&archive, "/before", &bytes(1, FILE));
    // A fiftieth of the drives' 1 GB is left to what empties the pool: 5 MB of each of eight are for files.
    tightness.free.store(25_000_000, Ordering::SeqCst);
    let options = |length: u64| PutOptions { length: Some(ByteCount(length)), ..PutOptions::default() };
    let begun = |length: u64| archive.begin_put(&path("/large"), options(length)).map(drop);
    wait_until("the drives were asked", || begun(30_000_000).is_err());
    let Err(ArchiveError::TooLittleRoom { size, room }) = begun(30_000_000) else { panic!("it is refused") };
    assert_eq!((size.0, room.0), (30_000_000, 5_000_000 * 4), "a blob lies on six of them");
    begun(room.0).unwrap();
    put_with(&archive, "/fits", &bytes(2, FILE), options(FILE as u64)).unwrap();
    let drives = archive.pool_info().unwrap().drives;
    assert!(drives.iter().all(|drive| drive.state == "up"), "{drives:?}");
    assert!(archive.health().is_empty());
    archive.close();
}

/// Story: with fewer drives than a row of a file has cells every put was refused, and `/healthz` said `ok`; a
/// recall waited for an evict, which could not help.
#[test]
fn too_few_drives_say_so_everywhere() {
    let instance = instance(None);
    let archive = instance.open();
    nearline(&archive);
    archive.close();
    drop(archive);
    for drive in &instance.settings.pool.drives[..3] {
        std::fs::rename(drive.at.directory(), drive.at.directory().with_extension("gone")).unwrap();
    }
    let archive = instance.open();
    let away = HealthProblem::DrivesAway { writable: 5, needed: 6, takes_small: true };
    assert_eq!(archive.health(), std::slice::from_ref(&away));
    assert_eq!(archive.pool_info().unwrap().refuses, Some(away));
    let totals = archive.totals().unwrap();
    assert_eq!((totals.pool_drives_up, totals.pool_drives_full), (5, 0));
    assert!(
        totals.warnings.iter().any(|line| line.contains("files above 256 KiB are refused")),
        "{totals:?}"
    );
    let length = Some(ByteCount(FILE as u64));
    let refused =
        put_with(&archive, "/large", &bytes(1, FILE), PutOptions { length, ..PutOptions::default() });
    assert!(matches!(refused, Err(ArchiveError::Pool(_))), "{refused:?}");
    put(&archive, "/small", &bytes(1, 1_000));
    let request = stage(&archive, &["/t"]);
    why_says(&archive, request, "5 drives of the pool take new data and 6 are needed");
    assert_eq!(states(&archive, request), (0, 4));
    nothing_is_marked_bad(&archive);
    archive.close();
}

#[test]
fn a_file_that_can_never_fit_is_refused_and_no_request_is_made() {
    let instance = instance(Some(ByteCount(2_000_000)));
    let archive = instance.open();
    nearline(&archive);
    let options = StageOptions { owner: "test".to_owned(), pin: Duration::from_secs(60), priority: 5 };
    let refused = archive.stage(&all(&["/t"]), options);
    let Err(ArchiveError::NeverFits { path: at, size, limit, what }) = refused else { panic!("{refused:?}") };
    assert!(at.starts_with("/t/f"), "{at}");
    assert_eq!((size.0, limit.0), (FILE as u64, 2_000_000));
    assert!(what.contains("pool_max"), "{what}");
    assert!(archive.requests(None, 10).unwrap().is_empty(), "{:?}", archive.requests(None, 10));
    // What is online is asked for no room.
    put(&archive, "/online", &bytes(1, FILE));
    let request = stage(&archive, &["/online"]);
    wait_for(&archive, request);
    assert!(archive.stat(&path("/online")).is_ok());
    archive.close();
}

/// Story: the superblocks of full drives could not be written, and so the drives were suspect: puts were
/// refused since drives were to be brought back, nothing called the pool full, and it came back minutes after
/// there was room. Longer than many probes: the clock is the test's.
#[test]
fn a_full_pool_says_so_everywhere_and_goes_on_by_itself() {
    let instance = instance(None);
    let clock = instance.clock();
    let (archive, tightness) = open_tight_on(&instance, Arc::clone(&clock) as Arc<dyn Clock>);
    let put_one = |name: &str| {
        let length = Some(ByteCount(FILE as u64));
        put_with(&archive, name, &bytes(1, FILE), PutOptions { length, ..PutOptions::default() })
    };
    put(&archive, "/b/before", &bytes(1, FILE));
    // Each that is given up wakes the sweeper, which stamps the drives.
    let upload = |n| archive.open_multipart(&path(&format!("/b/{n}")), PutOptions::default()).unwrap();
    let mut uploads: Vec<_> = (0..400).map(upload).collect();
    tightness.full.store(true, Ordering::SeqCst);
    let refused = put_one("/in-the-midst").unwrap_err();
    assert!(matches!(refused, ArchiveError::PoolFull), "{refused}");
    let (stamps, probes) =
        (|| tightness.stamps_refused.load(Ordering::SeqCst), || tightness.refused.load(Ordering::SeqCst));
    let before = (stamps(), probes());
    wait_until("superblocks were refused, and drives probed, many times", || {
        clock.advance(Duration::from_secs(5));
        uploads.pop().into_iter().for_each(|upload| archive.abort_multipart(upload).unwrap());
        archive.migrate_now(None).unwrap();
        stamps() > before.0 + 40 && probes() > before.1 + 80
    });
    let states = || -> Vec<&str> {
        archive.pool_info().unwrap().drives.into_iter().map(|drive| drive.state).collect()
    };
    assert!(states().iter().all(|state| *state == "full"), "{:?}", states());
    let drives = archive.pool_info().unwrap().drives;
    assert!(drives.iter().all(|drive| drive.up && drive.full && drive.errors == 0), "{drives:?}");
    assert_eq!(archive.pool_info().unwrap().refuses, Some(HealthProblem::PoolFull));
    assert_eq!(archive.health(), [HealthProblem::PoolFull]);
    let totals = archive.totals().unwrap();
    assert!(totals.warnings.iter().any(|warning| warning.contains("the pool is full")), "{totals:?}");
    assert_eq!((totals.pool_drives_up, totals.pool_drives_full), (8, 8));
    let refused = put_one("/after").unwrap_err();
    assert!(matches!(refused, ArchiveError::PoolFull), "{refused}");
    assert!(get(&archive, "/b/before").unwrap() == bytes(1, FILE));
    tightness.full.store(false, Ordering::SeqCst);
    tightness.free.store(900_000_000, Ordering::SeqCst);
    wait_until("there is room again", || {
        clock.advance(Duration::from_secs(1));
        archive.migrate_now(None).unwrap();
        archive.health().is_empty() && states().iter().all(|state| *state == "up")
    });
    put_one("/after").unwrap();
    archive.close();
}

/// Story: three drives of 500 MB with 60 MB free each took no small file, since the segment for it found no
/// room, and the pool was full from then on for the headers of packs too: nothing went to tape, so nothing
/// could be evicted, also after a restart.
#[test]
fn a_pool_that_is_nearly_full_takes_small_files_and_is_emptied() {
    let instance = instance(None);
    let (archive, tightness) = open_tight(&instance);
    put(&archive, "/t/before", &bytes(1, FILE));
    tightness.room.store(60_000_000, Ordering::SeqCst);
    tightness.free.store(60_000_000, Ordering::SeqCst);
    put(&archive, "/t/small", b"small");
    assert!(archive.health().is_empty(), "{:?}", archive.health());
    // A file that does not fit makes the drives full ...
    tightness.room.store(500_000, Ordering::SeqCst);
    let length = Some(ByteCount(FILE as u64));
    let options = PutOptions { length, ..PutOptions::default() };
    let refused = put_with(&archive, "/t/large", &bytes(2, FILE), options.clone()).unwrap_err();
    assert!(matches!(refused, ArchiveError::PoolFull), "{refused}");
    assert_eq!(archive.health(), [HealthProblem::PoolFull]);
    // ... and not too full for what empties them.
    migrate_all(&archive);
    let evicted = archive.evict(&all(&["/t"])).unwrap();
    assert_eq!(evicted.evicted, 2, "{:?}", evicted.refused);
    tightness.room.store(0, Ordering::SeqCst);
    tightness.free.store(900_000_000, Ordering::SeqCst);
    wait_until("there is room again", || archive.health().is_empty());
    put_with(&archive, "/t/large", &bytes(2, FILE), options).unwrap();
    put(&archive, "/t/small2", b"small");
    archive.close();
}
