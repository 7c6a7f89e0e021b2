//! An instance with a backup that goes back in time.

#![allow(dead_code)]

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{
    Instance, PATIENCE, SystemClock, all, bytes, extents_quarantined, get, migrate_all, path, put, settled,
    wait_until,
};
use crate::history::{Contents, compare, destroy_catalogue, recall_and_compare};
use archive::{Archive, Machines, PoolShape, ReplacedDrive, Settings, pool_seen};
use backup::{BackupDirectory, BackupSettings, RestoreTo, restore};
use base::{ByteCount, Clock, TrustedClock};

const MAP: ByteCount = ByteCount(256 << 20);

fn backup_directory(instance: &Instance) -> PathBuf {
    instance.directory.path().join("backup")
}

pub fn open(instance: &Instance) -> Archive {
    with_backup(instance, instance.open())
}

/// As a server opens it: over a clock that it does not believe in all, and with an eye on its backup.
/// Segments are small: a drive reserves room for a whole one at each start, which is allocated in memory.
pub fn open_trusting(instance: &Instance, clock: Arc<dyn Clock>) -> Archive {
    let clock = Arc::new(TrustedClock::new(clock));
    let mut machines = Machines::open(&instance.settings, Arc::clone(&clock) as Arc<dyn Clock>).unwrap();
    machines.backup = Some(backup_directory(instance));
    let shape = PoolShape { segment_size: Some(ByteCount::mib(2)), ..PoolShape::default() };
    let archive = Archive::open_shaped(machines, instance.settings.clone(), clock, shape).unwrap();
    with_backup(instance, settled(archive))
}

fn with_backup(instance: &Instance, archive: Archive) -> Archive {
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

/// Waits until no tape is in a drive: what the catalogue knows then has no session that is still open, which
/// a restore to it would close with a mount of its own.
pub fn dismounted(archive: &Archive) {
    wait_until("all tapes are in their slots", || {
        archive.tape_drives().iter().all(|drive| drive.state == "empty")
    });
}

/// The instance as it is at a later point, with the catalogue of an earlier one.
pub fn back_to(instance: &Instance, archive: Archive, change: u64) -> Archive {
    restore_to(instance, archive, change);
    open(instance)
}

/// Stops the engine and puts the catalogue of an earlier point in place.
pub fn restore_to(instance: &Instance, archive: Archive, change: u64) {
    shipped(&archive);
    archive.close();
    drop(archive);
    destroy_catalogue(instance);
    let from = BackupDirectory::open(&backup_directory(instance)).unwrap();
    let (seen, _) = pool_seen(&instance.settings);
    let into = &instance.settings.catalogue_directory;
    let now = Some((seen, SystemClock.now()));
    restore(&from, RestoreTo::Change(change), into, MAP, now, &mut |_| {}).unwrap();
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
    let path = instance.settings.pool.drives[usize::from(drive)].at.directory();
    fs::rename(path, path.with_extension(format!("gone{round}"))).unwrap();
    archive.pool_drive_lost(drive, true).unwrap();
    let begun = std::time::Instant::now();
    loop {
        let health = archive.pool_health().unwrap();
        if health.degraded == 0 && health.unreadable == 0 {
            break;
        }
        let (scrub, drives) = (archive.scrub_info(), archive.pool_info().unwrap().drives);
        let drives: Vec<_> = drives.into_iter().map(|drive| (drive.state, drive.gaps_after)).collect();
        assert!(
            begun.elapsed() < PATIENCE,
            "drive {drive} is not rebuilt: {health:?}\n{scrub:?}\n{drives:?}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(archive.pool_drive_replace(drive, true, false).unwrap(), ReplacedDrive::New);
}

/// Story: 60 files in the pool only; three drives are lost, rebuilt and replaced one after another.
/// Restored to before that, six files were LOST although every byte stood on other drives; the end of the
/// quarantine, which counted none of it, destroyed them for every later restore.
pub fn go_back_before_drives_were_replaced() {
    let instance = Instance::with(ByteCount::mib(256), at_rest);
    let archive = open(&instance);
    let content = |n: u64| bytes(n + 1, if n.is_multiple_of(3) { 3_000 + n as usize } else { 300_000 });
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
    let kept = extents_quarantined(&archive);
    archive.end_quarantine().unwrap();
    assert_eq!(kept, 0, "all of it was found a place again");
    compare(&archive, &(0..60).map(|n| (format!("/t/file{n}"), content(n))).collect());
    assert!(archive.stat(&path("/t/file0")).is_ok());
    archive.close();
}

/// Story: as above, and drives to which shards have moved are away at the first start after the restore. That
/// start took their files for LOST, and no later one looked for them.
pub fn go_back_while_drives_are_away() {
    let instance = Instance::with(ByteCount::mib(256), at_rest);
    let archive = open(&instance);
    let content = |n: u64| bytes(n + 1, if n.is_multiple_of(3) { 3_000 } else { 300_000 });
    for n in 0..40 {
        put(&archive, &format!("/t/file{n}"), &content(n));
    }
    let point = shipped(&archive);
    for drive in 0..4 {
        replace_lost(&archive, &instance, drive, 0);
    }
    restore_to(&instance, archive, point);
    let away = [4usize, 5, 6].map(|drive| instance.settings.pool.drives[drive].at.directory().to_owned());
    away.iter().for_each(|path| fs::rename(path, path.with_extension("away")).unwrap());
    let archive = open(&instance);
    let unreadable = (0..40).filter(|n| get(&archive, &format!("/t/file{n}")).is_err()).count();
    assert!(unreadable > 0, "the drives that are away decide on no file");
    give_up_the_past(&archive, &instance);
    let refused = archive.end_quarantine().unwrap_err().to_string();
    assert!(refused.contains("not settled"), "{refused}");
    archive.close();
    drop(archive);
    away.iter().for_each(|path| fs::rename(path.with_extension("away"), path).unwrap());
    let archive = open(&instance);
    for n in 0..40 {
        assert!(get(&archive, &format!("/t/file{n}")).unwrap() == content(n), "file {n}");
    }
    check(&archive);
    // The backup knows which line it goes on with.
    shipped(&archive);
    archive.end_quarantine().unwrap();
    compare(&archive, &(0..40).map(|n| (format!("/t/file{n}"), content(n))).collect());
    archive.close();
}

/// Small files that share segments go to tape; then every second one leaves the pool. Restored to before
/// that the segments' extents are all there, and those values are not in them.
pub fn go_back_before_values_were_punched() {
    let instance = Instance::with(ByteCount::mib(256), at_rest);
    let archive = open(&instance);
    let contents: Contents = (0..20).map(|n| (format!("/t/file{n:02}"), bytes(n + 1, 5_000))).collect();
    contents.iter().for_each(|(name, content)| drop(put(&archive, name, content)));
    migrate_all(&archive);
    let point = shipped(&archive);
    let gone: Vec<&str> = contents.keys().step_by(2).map(String::as_str).collect();
    assert_eq!(archive.evict(&all(&gone)).unwrap().evicted, 10);
    wait_until("garbage is removed", || archive.pool_info().unwrap().garbage == 0);
    let archive = back_to(&instance, archive, point);
    recall_and_compare(&archive, &contents);
    check(&archive);
    archive.close();
}
