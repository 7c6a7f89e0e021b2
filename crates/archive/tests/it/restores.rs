//! Restores to a point before files went to tape, drives were replaced, tapes were labelled: what any medium
//! still holds is found, wherever it stands now.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::common::{Instance, SystemClock, bytes, get, migrate_all, path, put, wait_until};
use crate::history::{
    Contents, compare, destroy_catalogue, evict_all, facts, first_part, recall_and_compare, second_part,
};
use archive::{
    Archive, BackupDirectory, BackupSettings, ReplacedDrive, RestoreTo, Settings, pool_seen, restore,
};
use base::{ByteCount, Clock};

const MAP: ByteCount = ByteCount(256 << 20);

fn backup_directory(instance: &Instance) -> PathBuf {
    instance.directory.path().join("backup")
}

pub fn open(instance: &Instance) -> Archive {
    let archive = instance.open();
    archive
        .start_backup(BackupSettings {
            directory: backup_directory(instance),
            ship_every: Duration::from_millis(20),
            snapshot_every: Duration::from_secs(3_600),
            keep_snapshots: 1_000,
        })
        .unwrap();
    archive
}

/// The newest change, once the backup has it.
pub fn shipped(archive: &Archive) -> u64 {
    let mut change = 0;
    wait_until("everything is shipped", || {
        let status = archive.backup_status().unwrap();
        change = status.change;
        status.line > 0 && status.shipped >= status.change
    });
    change
}

/// The instance as it is at a later point, with the catalogue of an earlier one.
pub fn back_to(instance: &Instance, archive: Archive, change: u64) -> Archive {
    shipped(&archive);
    archive.close();
    drop(archive);
    destroy_catalogue(instance);
    let from = BackupDirectory::open(&backup_directory(instance)).unwrap();
    let (seen, _) = pool_seen(&instance.settings);
    let into = &instance.settings.catalogue_directory;
    let now = Some((seen, SystemClock.now()));
    restore(&from, RestoreTo::Change(change), into, MAP, now, &mut |_| {}).unwrap();
    open(instance)
}

/// An operator removes all lines of the backup but the one that is being written.
pub fn give_up_the_past(archive: &Archive, instance: &Instance) {
    shipped(archive);
    let newest = archive.backup_status().unwrap().line;
    for line in 1..newest {
        let _ = fs::remove_dir_all(backup_directory(instance).join(format!("line-{line:04}")));
    }
}

pub fn check(archive: &Archive) {
    let found = archive.verify_catalogue().unwrap();
    assert!(found.is_empty(), "{found:?}");
}

/// Nothing goes to tape unless it is asked for.
pub fn at_rest(settings: &mut Settings) {
    for class in &mut settings.classes {
        (class.pack_age, class.pack_bytes) = (Duration::from_secs(3_600), ByteCount::mib(4_000));
    }
    for pool in &mut settings.tape_pools {
        (pool.mount_age, pool.mount_bytes) = (Duration::from_secs(3_600), ByteCount::gib(4));
    }
}

/// At the point small files wait to be sealed and large ones to be written, all tapes are scratch. Afterwards
/// all goes to tape and out of the pool.
#[test]
fn what_was_migrated_and_evicted_since_is_found_on_tape() {
    let instance = Instance::with(ByteCount::mib(256), at_rest);
    let archive = open(&instance);
    let contents = first_part(&archive);
    let before = facts(&archive);
    let point = shipped(&archive);
    migrate_all(&archive);
    evict_all(&archive);
    let archive = back_to(&instance, archive, point);
    assert_eq!(facts(&archive), before);
    check(&archive);
    recall_and_compare(&archive, &contents);
    // It goes on: what is new goes to tape, and all can be evicted again.
    put(&archive, "/new", &bytes(77, 200_000));
    migrate_all(&archive);
    evict_all(&archive);
    recall_and_compare(&archive, &contents);
    check(&archive);
    archive.close();
}

/// At the point the tapes hold a part of the files already, and go on with others afterwards. Twice: the
/// second restore meets what the first one has made.
#[test]
fn tapes_that_were_written_on_since_are_read_to_their_end() {
    let instance = Instance::with(ByteCount::mib(256), at_rest);
    let archive = open(&instance);
    let mut contents = first_part(&archive);
    migrate_all(&archive);
    let first = shipped(&archive);
    let at_first = (facts(&archive), contents.clone());
    second_part(&archive, &mut contents);
    let second = shipped(&archive);
    let at_second = (facts(&archive), contents.clone());
    migrate_all(&archive);
    evict_all(&archive);
    let mut archive = back_to(&instance, archive, second);
    for (at, point) in [(&at_second, None), (&at_first, Some(first)), (&at_second, Some(second))] {
        if let Some(point) = point {
            archive = back_to(&instance, archive, point);
        }
        let (facts_then, contents): &(_, Contents) = at;
        assert_eq!(&facts(&archive), facts_then);
        check(&archive);
        recall_and_compare(&archive, contents);
    }
    archive.close();
}

/// A drive of the pool is gone, what it held is rebuilt on others, and a new one takes its place.
pub fn replace_lost(archive: &Archive, instance: &Instance, drive: u16, round: u64) {
    let path = &instance.settings.pool.drives[usize::from(drive)].path;
    fs::rename(path, path.with_extension(format!("gone{round}"))).unwrap();
    archive.pool_drive_lost(drive).unwrap();
    wait_until("what it held is rebuilt", || {
        let health = archive.pool_health().unwrap();
        health.degraded == 0 && health.unreadable == 0
    });
    assert_eq!(archive.pool_drive_replace(drive, true).unwrap(), ReplacedDrive::New);
}

/// Story: 60 files in the pool only; three drives are lost, rebuilt and replaced one after another.
/// Restored to before that, six files were LOST although every byte stood on other drives; the end of the
/// quarantine, which counted none of it, destroyed them for every later restore.
#[test]
fn shards_that_moved_since_are_found_on_their_drives() {
    let instance = Instance::with(ByteCount::mib(256), at_rest);
    let archive = open(&instance);
    let content = |n: u64| bytes(n + 1, if n % 3 == 0 { 3_000 + n as usize } else { 300_000 });
    for n in 0..60 {
        put(&archive, &format!("/t/file{n}"), &content(n));
    }
    let point = shipped(&archive);
    for drive in 0..3 {
        replace_lost(&archive, &instance, drive, 0);
    }
    let mut archive = back_to(&instance, archive, point);
    for round in 0..2 {
        for n in 0..60 {
            assert!(get(&archive, &format!("/t/file{n}")).unwrap() == content(n), "round {round}, file {n}");
        }
        check(&archive);
        // Points of before are kept, so this is refused, and nothing is lost by asking.
        assert!(archive.end_quarantine().is_err());
        for n in 0..60 {
            assert!(get(&archive, &format!("/t/file{n}")).unwrap() == content(n), "round {round}, file {n}");
        }
        archive = back_to(&instance, archive, point);
    }
    give_up_the_past(&archive, &instance);
    let kept = archive.count_quarantined().unwrap();
    archive.end_quarantine().unwrap();
    assert_eq!(kept, 0, "all of it was found a place again");
    compare(&archive, &(0..60).map(|n| (format!("/t/file{n}"), content(n))).collect());
    assert!(archive.stat(&path("/t/file0")).is_ok());
    archive.close();
}
