//! Drives of the pool that are emptied and taken out, with all that they hold.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{
    Instance, SystemClock, all, bytes, extents, get, migrate_all, path, put, scrub, stage, stop, wait_for,
    wait_for_pool,
};
use crate::replaced::instance;
use archive::{Archive, DrainInfo, Machines, ReplacedDrive, Settings};
use base::{ByteCount, DriveId};
use catalogue::{Command, PoolDriveState};

/// Striped files and small ones, which lie in segments.
const FILES: u64 = 40;
const STRIPED: usize = 600_000;
const SMALL: usize = 9_000;

fn directory(instance: &Instance, drive: usize) -> PathBuf {
    instance.settings.pool.drives[drive].at.directory().to_owned()
}

pub fn name(n: u64) -> String {
    format!("/t/file{n}")
}

pub fn content(n: u64) -> Vec<u8> {
    bytes(n + 1, if n.is_multiple_of(2) { STRIPED } else { SMALL })
}

pub fn put_files(archive: &Archive, files: std::ops::Range<u64>) {
    files.for_each(|n| drop(put(archive, &name(n), &content(n))));
}

pub fn check_files(archive: &Archive, files: std::ops::Range<u64>) {
    files.for_each(|n| assert!(get(archive, &name(n)).unwrap() == content(n), "{n}"));
}

/// Puts, reads, removals and sessions until it is over, beside so many files. Gives how many there are then.
pub fn load(archive: &Archive, files: u64, is_over: &AtomicBool) -> u64 {
    let mut written = files;
    while !is_over.load(Ordering::SeqCst) {
        put_files(archive, written..written + 4);
        written += 4;
        archive.migrate_now(None).unwrap();
        check_files(archive, written / 2..written / 2 + 4);
        archive.remove(&path(&name(written - 3))).unwrap();
        drop(put(archive, &name(written - 3), &content(written - 3)));
    }
    written
}

/// With packs of a few of the files.
pub fn small_packs(settings: &mut Settings) {
    for class in &mut settings.classes {
        class.pack_bytes = ByteCount::mib(2);
    }
}

/// What nothing names is not among them once it is removed.
fn extents_on(instance: &Instance, drive: usize) -> usize {
    extents(&directory(instance, drive)).len()
}

/// A server with files, of which nothing goes to tape.
fn filled() -> (Instance, Archive) {
    let instance = instance();
    let archive = instance.open();
    put_files(&archive, 0..FILES);
    (instance, archive)
}

fn state(archive: &Archive, drive: usize) -> &'static str {
    archive.pool_info().unwrap().drives[drive].state
}

fn drain(archive: &Archive, drive: usize) -> Option<DrainInfo> {
    archive.pool_info().unwrap().drives[drive].drain.clone()
}

fn wait_empty(archive: &Archive, drive: usize) {
    wait_for_pool(archive, "it is empty", || drain(archive, drive).is_some_and(|drain| drain.is_empty));
}

fn refused(result: Result<(), archive::ArchiveError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn a_drive_is_emptied_and_taken_out() {
    let (instance, archive) = filled();
    let before = extents_on(&instance, 3);
    assert!(before > 5, "{before}");
    let said = refused(archive.pool_drive_remove(3));
    assert!(said.contains("kist pool drive drain 3"), "{said}");
    let read_before: Vec<u64> =
        archive.pool_info().unwrap().drives.iter().map(|drive| drive.read.0).collect();
    archive.pool_drive_drain(3).unwrap();
    archive.pool_drive_drain(3).unwrap();
    assert_eq!(state(&archive, 3), "draining");
    wait_empty(&archive, 3);
    let told = drain(&archive, 3).unwrap();
    assert_eq!((told.moved, told.stuck), (told.shards, 0), "{told:?}");
    wait_for_pool(&archive, "what was left behind is removed", || extents_on(&instance, 3) == 0);
    // Shards are copied: of the others nothing is read but the copies of small files.
    let read: Vec<u64> = archive.pool_info().unwrap().drives.iter().map(|drive| drive.read.0).collect();
    let others: u64 = (0..8).filter(|n| *n != 3).map(|n| read[n] - read_before[n]).sum();
    let own = read[3] - read_before[3];
    assert!(own > 0 && others < own, "{others} bytes were read of others for {own}");
    check_files(&archive, 0..FILES);

    put_files(&archive, FILES..2 * FILES);
    assert_eq!(extents_on(&instance, 3), 0, "nothing new comes to it");
    archive.pool_drive_remove(3).unwrap();
    archive.pool_drive_remove(3).unwrap();
    assert_eq!((state(&archive, 3), drain(&archive, 3)), ("removed", None));
    let totals = archive.totals().unwrap();
    assert_eq!((totals.pool_drives, totals.pool_drives_up), (7, 7));
    assert_eq!(archive.pool_health().unwrap().silent_drives, 0, "it is none of them");
    assert!(totals.warnings.iter().all(|warning| !warning.contains("drives of the pool")), "{totals:?}");
    fs::remove_dir_all(directory(&instance, 3)).unwrap();
    scrub(&archive);
    let info = archive.scrub_info();
    assert_eq!((info.found, info.failed), (0, 0), "{:?}", info.findings);
    check_files(&archive, 0..2 * FILES);
    stop(archive);

    // The settings name it still, and its directory is there again.
    fs::create_dir_all(directory(&instance, 3)).unwrap();
    let archive = instance.open();
    assert_eq!(state(&archive, 3), "removed");
    check_files(&archive, 0..2 * FILES);
    assert_eq!(archive.pool_drive_replace(3, false, false).unwrap(), ReplacedDrive::New);
    assert_eq!(state(&archive, 3), "up");
    put_files(&archive, 2 * FILES..3 * FILES);
    assert!(extents_on(&instance, 3) > 0, "it is one of them again");
    check_files(&archive, 0..3 * FILES);
    stop(archive);
    let archive = instance.open();
    assert_eq!(state(&archive, 3), "up");
    check_files(&archive, 0..3 * FILES);
    stop(archive);
}

#[test]
fn a_drain_goes_on_after_a_restart_and_can_be_ended() {
    let (instance, archive) = filled();
    archive.pool_drive_drain(5).unwrap();
    stop(archive);
    let archive = instance.open();
    assert_eq!(state(&archive, 5), "draining");
    wait_empty(&archive, 5);
    archive.pool_drive_keep(5).unwrap();
    assert_eq!((state(&archive, 5), drain(&archive, 5)), ("up", None));
    assert!(refused(archive.pool_drive_keep(5)).contains("not being emptied"));
    put_files(&archive, FILES..3 * FILES);
    assert!(extents_on(&instance, 5) > 0, "it takes data again");
    check_files(&archive, 0..3 * FILES);
    stop(archive);
    let archive = instance.open();
    assert_eq!(state(&archive, 5), "up");
    stop(archive);
}

/// Puts, reads, sessions that write and read, and removals go on while two drives are emptied, and one of
/// them is given back and emptied once more.
#[test]
fn drives_are_emptied_under_load() {
    let instance = Instance::with(ByteCount::mib(256), small_packs);
    let archive = instance.open();
    put_files(&archive, 0..FILES);
    let is_over = AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        let load = scope.spawn(|| load(&archive, FILES, &is_over));
        archive.pool_drive_drain(6).unwrap();
        archive.pool_drive_drain(7).unwrap();
        wait_empty(&archive, 6);
        archive.pool_drive_keep(6).unwrap();
        wait_empty(&archive, 7);
        archive.pool_drive_drain(6).unwrap();
        wait_empty(&archive, 6);
        for drive in [6, 7] {
            // A put may have chosen its drives before the word was given, and be recorded only now.
            wait_for_pool(&archive, "it is taken out", || archive.pool_drive_remove(drive).is_ok());
        }
        is_over.store(true, Ordering::SeqCst);
        load.join().unwrap()
    });
    [6, 7].into_iter().for_each(|drive| fs::remove_dir_all(directory(&instance, drive)).unwrap());
    check_files(&archive, 0..written);
    migrate_all(&archive);
    let evicted = archive.evict(&all(&["/t"])).unwrap();
    assert_eq!(evicted.refused_count, 0, "{:?}", evicted.refused);
    let request = stage(&archive, &["/t"]);
    wait_for(&archive, request);
    check_files(&archive, 0..written);
    scrub(&archive);
    let info = archive.scrub_info();
    assert_eq!((info.found, info.failed), (0, 0), "{:?}", info.findings);
    stop(archive);
}

/// 4 + 2 shards on 8 drives: two may go, a third not.
#[test]
fn as_many_drives_stay_as_a_stripe_needs() {
    let (_instance, archive) = filled();
    archive.pool_drive_drain(0).unwrap();
    archive.pool_drive_drain(1).unwrap();
    let said = refused(archive.pool_drive_drain(2));
    assert!(said.contains("5 drives take files, 6 are needed"), "{said}");
    assert_eq!(state(&archive, 2), "up");
    assert!(refused(archive.pool_drive_drain(9)).contains('9'));
    [0, 1].into_iter().for_each(|drive| wait_empty(&archive, drive));
    put_files(&archive, FILES..2 * FILES);
    [0, 1].into_iter().for_each(|drive| archive.pool_drive_remove(drive).unwrap());
    check_files(&archive, 0..2 * FILES);
    scrub(&archive);
    assert_eq!(archive.scrub_info().found, 0);
    stop(archive);
}

/// What is damaged on a drive that is emptied is rebuilt from the others, and not copied.
#[test]
fn what_is_damaged_is_rebuilt_on_its_way() {
    let (instance, archive) = filled();
    stop(archive);
    let mut damaged = 0;
    for bucket in fs::read_dir(directory(&instance, 2).join("extents")).unwrap() {
        for extent in fs::read_dir(bucket.unwrap().path()).unwrap() {
            let file = extent.unwrap().path();
            let mut content = fs::read(&file).unwrap();
            let at = content.len() / 2;
            content[at..at + 100].iter_mut().for_each(|byte| *byte ^= 0x5a);
            fs::write(&file, content).unwrap();
            damaged += 1;
        }
    }
    assert!(damaged > 5);
    let archive = instance.open();
    archive.pool_drive_drain(2).unwrap();
    wait_empty(&archive, 2);
    archive.pool_drive_remove(2).unwrap();
    fs::remove_dir_all(directory(&instance, 2)).unwrap();
    scrub(&archive);
    let info = archive.scrub_info();
    assert_eq!((info.found, info.failed), (0, 0), "{:?}", info.findings);
    check_files(&archive, 0..FILES);
    stop(archive);
}

/// A drive that does not answer is not emptied; one that was given up can be taken out when it is rebuilt.
#[test]
fn a_lost_drive_is_taken_out_when_nothing_stands_on_it() {
    let (instance, archive) = filled();
    stop(archive);
    fs::rename(directory(&instance, 4), directory(&instance, 4).with_extension("away")).unwrap();
    let archive = instance.open();
    let said = refused(archive.pool_drive_drain(4));
    assert!(said.contains("kist pool drive lost 4"), "{said}");
    let said = refused(archive.pool_drive_remove(4));
    assert!(said.contains("stand on it still") && said.contains("kist pool drive lost 4"), "{said}");
    archive.pool_drive_lost(4, false).unwrap();
    wait_for_pool(&archive, "it is taken out", || archive.pool_drive_remove(4).is_ok());
    assert_eq!(state(&archive, 4), "removed");
    check_files(&archive, 0..FILES);
    stop(archive);
}

/// What one operator says while another takes a drive out stands or is refused; a removed drive is none.
#[test]
fn a_removed_drive_is_neither_lost_nor_kept() {
    let (instance, archive) = filled();
    archive.pool_drive_drain(3).unwrap();
    std::thread::scope(|scope| {
        let takers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    wait_for_pool(&archive, "it is taken out", || archive.pool_drive_remove(3).is_ok());
                    assert_eq!(state(&archive, 3), "removed", "who is told so can rely on it");
                })
            })
            .collect();
        takers.into_iter().for_each(|taker| taker.join().unwrap());
    });
    for said in [
        refused(archive.pool_drive_lost(3, true)),
        refused(archive.pool_rebuild(Some(3), true)),
        refused(archive.pool_drive_keep(3)),
        refused(archive.pool_drive_drain(3)),
    ] {
        assert!(!said.is_empty() && state(&archive, 3) == "removed", "{said}");
    }
    // What is in its directory may be another's by now.
    stop(archive);
    fs::write(directory(&instance, 3).join("drive.kist"), b"of another instance").unwrap();
    let archive = instance.open();
    assert_eq!(state(&archive, 3), "removed");
    fs::remove_dir_all(directory(&instance, 3)).unwrap();
    assert_eq!(archive.pool_drive_replace(3, true, false).unwrap(), ReplacedDrive::New);
    put_files(&archive, FILES..2 * FILES);
    check_files(&archive, 0..2 * FILES);
    stop(archive);
}

/// A server that ended in the middle of a removal goes on emptying the drive: what comes of it is decided
/// anew.
#[test]
fn a_removal_cut_short_is_begun_anew() {
    let (instance, archive) = filled();
    stop(archive);
    let machines = Machines::open(&instance.settings, Arc::new(SystemClock)).unwrap();
    let leaving = Command::SetPoolDrive { drive: DriveId(3), state: Some(PoolDriveState::Leaving) };
    machines.catalogue.execute(leaving).unwrap();
    drop(machines);
    let archive = instance.open();
    assert_eq!(state(&archive, 3), "draining");
    wait_empty(&archive, 3);
    archive.pool_drive_keep(3).unwrap();
    put_files(&archive, FILES..2 * FILES);
    assert!(extents_on(&instance, 3) > 0, "it takes data again");
    check_files(&archive, 0..2 * FILES);
    stop(archive);
}

/// Who reads what has moved keeps the drive until it has done.
#[test]
fn a_drive_stays_while_it_is_read() {
    let (_instance, archive) = filled();
    let mut reader = archive.open_read(&path(&name(0))).unwrap();
    archive.pool_drive_drain(3).unwrap();
    wait_empty(&archive, 3);
    let said = refused(archive.pool_drive_remove(3));
    assert!(said.contains("still being read"), "{said}");
    let mut read = Vec::new();
    while let Some(bytes) = reader.next().unwrap() {
        read.extend_from_slice(bytes.as_ref());
    }
    assert!(read == content(0));
    drop(reader);
    wait_for_pool(&archive, "it is taken out", || archive.pool_drive_remove(3).is_ok());
    stop(archive);
}

/// Story: a drive that `kist.toml` did not name any more was no drive at all: what stood on it was neither
/// told of nor rebuilt.
#[test]
fn a_drive_that_the_settings_do_not_name_is_missing() {
    let (mut instance, archive) = filled();
    stop(archive);
    instance.settings.pool.drives.retain(|drive| drive.id != 6);
    let archive = instance.open();
    let drives = archive.pool_info().unwrap().drives;
    assert_eq!((drives.len(), drives[6].state), (8, "missing"));
    // Only the log had said why.
    assert!(drives[6].reason.contains("kist.toml does not name it"), "{:?}", drives[6]);
    let warnings = archive.totals().unwrap().warnings;
    let named = "drive 6 of the pool: kist.toml does not name it";
    assert!(warnings.iter().any(|warning| warning.starts_with(named)), "{warnings:?}");
    check_files(&archive, 0..FILES);
    archive.pool_drive_lost(6, false).unwrap();
    wait_for_pool(&archive, "it is taken out", || archive.pool_drive_remove(6).is_ok());
    scrub(&archive);
    assert_eq!(archive.scrub_info().found, 0);
    stop(archive);
    let archive = instance.open();
    assert_eq!(archive.pool_info().unwrap().drives.len(), 7);
    check_files(&archive, 0..FILES);
    stop(archive);
}
