//! An instance with a backup that goes back in time.

#![allow(dead_code)]

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::common::{Instance, SystemClock, wait_until};
use crate::history::destroy_catalogue;
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
