//! The catalogue is destroyed and restored from its backup, to the newest point and to one in the middle, and
//! the server goes on with it. What the backup does without a server: `crates/backup/tests/it`.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{
    Instance, SystemClock, bytes, copy, extents_quarantined, get, migrate_all, path, put, wait_until,
};
use crate::history::{
    blank_pool, compare, destroy_catalogue, evict_all, facts, first_part, recall_and_compare, second_part,
};
use archive::{Archive, Machines, TapeUse, pool_seen};
use backup::{BackupDirectory, BackupSettings, RestoreError, RestoreTo, Restored, restore};
use base::{ByteCount, Clock};
use catalogue::TapeState;

const MAP: ByteCount = ByteCount(256 << 20);

pub fn backup_directory(instance: &Instance) -> PathBuf {
    instance.directory.path().join("backup")
}

pub fn settings(directory: PathBuf) -> BackupSettings {
    BackupSettings {
        directory,
        ship_every: Duration::from_millis(20),
        snapshot_every: Duration::from_secs(3_600),
        keep_snapshots: 3,
    }
}

fn open(instance: &Instance) -> Archive {
    let archive = instance.open();
    archive.start_backup(settings(backup_directory(instance))).unwrap();
    archive
}

/// As a server starts.
fn start(instance: &Instance) -> Result<Archive, archive::OpenError> {
    let clock = Arc::new(SystemClock);
    let mut machines = Machines::open(&instance.settings, clock.clone())?;
    machines.backup = Some(backup_directory(instance));
    Archive::open_on(machines, instance.settings.clone(), clock).map(crate::common::settled)
}

/// Story: the directory of the catalogue was put back as it was a few seconds before a kill, before any drive
/// had been told of what came after. It was accepted, and what it did not know was gone.
#[test]
fn a_catalogue_that_its_backup_has_outrun_is_refused() {
    let instance = Instance::new(ByteCount::mib(256));
    let archive = open(&instance);
    put(&archive, "/one", b"1");
    wait_shipped(&archive);
    close(archive);
    let (catalogue, drives) =
        (&instance.settings.catalogue_directory, instance.directory.path().join("pool"));
    let kept = instance.directory.path().join("kept");
    copy(catalogue, &kept.join("catalogue"));
    copy(&drives, &kept.join("pool"));
    let archive = open(&instance);
    put(&archive, "/two", b"2");
    wait_shipped(&archive);
    close(archive);
    for (from, to) in [("catalogue", catalogue), ("pool", &drives)] {
        fs::remove_dir_all(to).unwrap();
        copy(&kept.join(from), to);
    }
    for _ in 0..2 {
        let refused = start(&instance).err().unwrap();
        assert!(refused.is_damage(), "{refused}");
        assert!(refused.to_string().contains("/backup has "), "{refused}");
    }
    // The way out that the message names.
    destroy_catalogue(&instance);
    restore_to(&instance, RestoreTo::Newest).unwrap();
    let archive = start(&instance).unwrap();
    assert!(archive.stat(&path("/two")).is_ok());
    close(archive);
    // One that is older than a restored catalogue, or not there, stops nothing.
    close(start(&instance).unwrap());
    fs::remove_dir_all(backup_directory(&instance)).unwrap();
    close(start(&instance).unwrap());
}

pub fn wait_shipped(archive: &Archive) -> u64 {
    let mut change = 0;
    wait_until("everything is shipped", || {
        let status = archive.backup_status().unwrap();
        assert_eq!(status.failing, None);
        change = status.change;
        status.line > 0 && status.shipped >= status.change
    });
    change
}

pub fn snapshot(archive: &Archive) {
    let asked = archive.backup_now().unwrap();
    wait_until("the snapshot is taken", || archive.backup_status().unwrap().answered >= asked);
}

pub fn restore_to(instance: &Instance, to: RestoreTo) -> Result<Restored, RestoreError> {
    let from = BackupDirectory::open(&backup_directory(instance)).unwrap();
    let (seen, _) = pool_seen(&instance.settings);
    let into = &instance.settings.catalogue_directory;
    restore(&from, to, into, MAP, Some((seen, SystemClock.now())), &mut |_| {})
}

pub fn close(archive: Archive) {
    archive.close();
    drop(archive);
}

#[test]
fn the_newest_point_comes_back() {
    let instance = Instance::new(ByteCount::mib(256));
    let archive = open(&instance);
    let mut contents = first_part(&archive);
    migrate_all(&archive);
    snapshot(&archive);
    second_part(&archive, &mut contents);
    migrate_all(&archive);
    put(&archive, "/not on tape yet", b"only in the pool");
    contents.insert("/not on tape yet".to_owned(), b"only in the pool".to_vec());
    wait_shipped(&archive);
    let before = facts(&archive);
    close(archive);
    destroy_catalogue(&instance);

    let restored = restore_to(&instance, RestoreTo::Newest).unwrap();
    assert!(restored.replayed > 20 && restored.passed_over.is_empty(), "{restored:?}");
    let archive = open(&instance);
    assert_eq!(facts(&archive), before);
    compare(&archive, &contents);
    migrate_all(&archive);
    evict_all(&archive);
    recall_and_compare(&archive, &contents);
    // The history goes on in a line of its own.
    wait_until("the new line is there", || archive.backup_status().unwrap().line == 2);
    close(archive);
}

#[test]
fn a_point_in_the_middle_comes_back() {
    let instance = Instance::new(ByteCount::mib(256));
    let archive = open(&instance);
    let contents = first_part(&archive);
    migrate_all(&archive);
    let middle = wait_shipped(&archive);
    let before = facts(&archive);
    let mut later = contents.clone();
    second_part(&archive, &mut later);
    migrate_all(&archive);
    // What is removed now is gone from the pool, but still named at the point of the restore.
    evict_all(&archive);
    wait_shipped(&archive);
    close(archive);

    assert!(matches!(restore_to(&instance, RestoreTo::Change(middle)), Err(RestoreError::NotEmpty(_))));
    destroy_catalogue(&instance);
    let beyond = restore_to(&instance, RestoreTo::Change(u64::MAX));
    assert!(matches!(beyond, Err(RestoreError::EndsBefore { .. })), "{beyond:?}");
    destroy_catalogue(&instance);
    assert_eq!(restore_to(&instance, RestoreTo::Change(middle)).unwrap().change, middle);
    let archive = open(&instance);
    assert_eq!(facts(&archive), before);
    let tapes = archive.tapes().unwrap();
    let set_aside: Vec<_> = tapes.iter().filter(|tape| tape.state == TapeState::ReadOnly).collect();
    assert_eq!(set_aside.len(), 2, "both were written to after the point of the restore: {tapes:?}");
    assert!(
        set_aside.iter().all(|tape| tape.reason.contains("after the point of the restore")),
        "{set_aside:?}"
    );
    recall_and_compare(&archive, &contents);
    assert!(archive.quarantine().unwrap().is_some());
    // Work goes on, on other tapes.
    put(&archive, "/after the restore", &bytes(77, 2_600_000));
    migrate_all(&archive);
    evict_all(&archive);
    let mut contents = contents;
    contents.insert("/after the restore".to_owned(), bytes(77, 2_600_000));
    recall_and_compare(&archive, &contents);
    wait_shipped(&archive);
    close(archive);

    // The history that was given up can still be restored.
    destroy_catalogue(&instance);
    let again = restore_to(&instance, RestoreTo::Change(middle + 5)).unwrap();
    assert_eq!((again.line, again.change), (1, middle + 5));
}

/// Pool bytes that a restored catalogue does not name are kept until an operator has looked.
#[test]
fn what_a_restored_catalogue_does_not_know_is_kept() {
    let instance = Instance::new(ByteCount::mib(256));
    let archive = open(&instance);
    put(&archive, "/one", &bytes(1, 3_000_000));
    let middle = wait_shipped(&archive);
    put(&archive, "/two", &bytes(2, 3_000_000));
    wait_shipped(&archive);
    close(archive);
    destroy_catalogue(&instance);
    restore_to(&instance, RestoreTo::Change(middle)).unwrap();
    let archive = open(&instance);
    assert!(archive.stat(&path("/two")).is_err());
    crate::disks::nothing_is_done_by_itself(&archive);
    let kept = archive.quarantined().unwrap().unwrap();
    assert!(kept.extents >= 6, "the shards of the second file: {kept:?}");
    // It took so much of the drives and nobody was told: only extents were counted.
    assert!(kept.blobs >= 1 && kept.blobs < kept.extents, "{kept:?}");
    assert!(kept.bytes > ByteCount(3_000_000), "the second file and its parity: {kept:?}");
    close(archive);
    // A later point is still whole: nothing was removed.
    destroy_catalogue(&instance);
    let lines = BackupDirectory::open(&backup_directory(&instance)).unwrap().lines().unwrap();
    let newest = lines[0].segments().unwrap().last().map(|segment| segment.last).unwrap();
    restore_to(&instance, RestoreTo::Change(newest)).unwrap();
    let archive = open(&instance);
    assert_eq!(get(&archive, "/two").unwrap(), bytes(2, 3_000_000));
    close(archive);
    destroy_catalogue(&instance);
    restore_to(&instance, RestoreTo::Change(middle)).unwrap();
    let archive = open(&instance);
    // As long as the backup can go back to where the second file is, its bytes are kept.
    wait_shipped(&archive);
    let refused = archive.end_quarantine().unwrap_err().to_string();
    assert!(refused.contains("line-0001") && refused.contains("older than line 4"), "{refused}");
    // One line was named at a time, and the next one when that was gone.
    assert!(refused.contains("line-0002") && refused.contains("line-0003"), "{refused}");
    wait_until("who holds the room is told", || {
        archive.totals().unwrap().holders.quarantined > ByteCount(3_000_000)
    });
    assert!(extents_quarantined(&archive) >= 6);
    for line in 1..4 {
        fs::remove_dir_all(backup_directory(&instance).join(format!("line-{line:04}"))).unwrap();
    }
    archive.end_quarantine().unwrap();
    assert_eq!(extents_quarantined(&archive), 0);
    assert_eq!(get(&archive, "/one").unwrap(), bytes(1, 3_000_000));
    close(archive);
}

#[test]
fn a_backup_that_fails_stops_nothing_and_says_why() {
    let instance = Instance::new(ByteCount::mib(256));
    let archive = instance.open();
    let parent = instance.directory.path().join("not mounted");
    archive.start_backup(settings(parent.join("backup"))).unwrap();
    wait_until("the reason is told", || archive.backup_status().unwrap().failing.is_some());
    let reason = archive.backup_status().unwrap().failing.unwrap();
    assert!(reason.contains("not mounted/backup"), "{reason}");
    put(&archive, "/one", b"1");
    assert_eq!(get(&archive, "/one").unwrap(), b"1");
    fs::create_dir(&parent).unwrap();
    wait_until("it works again", || {
        let status = archive.backup_status().unwrap();
        status.failing.is_none() && status.shipped == status.change
    });
    close(archive);
    // The directory of another instance is left alone.
    let other = Instance::new(ByteCount::mib(64));
    let identity = parent.join("backup/KIST-BACKUP");
    let text = fs::read_to_string(&identity).unwrap();
    fs::write(&identity, text.replace("07", "08")).unwrap();
    let archive = other.open();
    archive.start_backup(settings(parent.join("backup"))).unwrap();
    wait_until("the reason is told", || archive.backup_status().unwrap().failing.is_some());
    close(archive);
}

/// The machine is lost but for its tapes and the backup.
#[test]
fn a_blank_pool_makes_everything_nearline() {
    let instance = Instance::new(ByteCount::mib(256));
    let archive = open(&instance);
    let contents = first_part(&archive);
    migrate_all(&archive);
    put(&archive, "/only in the pool", &bytes(5, 500_000));
    wait_shipped(&archive);
    let before = facts(&archive);
    close(archive);
    destroy_catalogue(&instance);
    blank_pool(&instance);
    restore_to(&instance, RestoreTo::Newest).unwrap();
    let archive = open(&instance);
    assert_eq!(facts(&archive), before);
    assert!(get(&archive, "/only in the pool").is_err());
    archive.remove(&path("/only in the pool")).unwrap();
    recall_and_compare(&archive, &contents);
    close(archive);
}

/// Story: at the point of a restore a pack was sealed and on no tape; since then two tapes got it, and the
/// pool gave its skeleton up. The restored catalogue knows of neither tape, so the pack was never written,
/// nobody said why, and its files stayed on no tape at all.
#[test]
fn a_pack_whose_skeleton_is_gone_since_the_restore_is_sealed_anew() {
    let instance = Instance::new(ByteCount::mib(256));
    let archive = open(&instance);
    let set_tapes = |archive: &Archive, which: &dyn Fn(base::Vid) -> bool, to| {
        for tape in archive.tapes().unwrap().into_iter().filter(|tape| which(tape.vid)) {
            archive.set_tape(tape.vid, to, "for the test").unwrap();
        }
    };
    set_tapes(&archive, &|_| true, TapeUse::Disabled);
    let names: Vec<String> = (0..10).map(|n| format!("/f{n}")).collect();
    for (name, seed) in names.iter().zip(1..) {
        put(&archive, name, &bytes(seed, 20_000));
    }
    archive.migrate_now(None).unwrap();
    wait_until("the pack is sealed", || archive.totals().unwrap().todo.files == 0);
    let middle = wait_shipped(&archive);
    set_tapes(&archive, &|_| true, TapeUse::Active);
    migrate_all(&archive);
    wait_until("the skeleton is gone", || archive.pool_info().unwrap().garbage == 0);
    let copies = |archive: &Archive, name: &str| {
        let archive::Stat::File(stat) = archive.stat(&path(name)).unwrap() else { panic!("a file") };
        stat.copies
    };
    let used: Vec<base::Vid> = copies(&archive, "/f3").into_iter().filter_map(|copy| copy.vid).collect();
    assert_eq!(used.len(), 2);
    wait_shipped(&archive);
    close(archive);
    destroy_catalogue(&instance);
    restore_to(&instance, RestoreTo::Change(middle)).unwrap();

    let archive = open(&instance);
    // What the restored catalogue does not know stands on these two.
    set_tapes(&archive, &|vid| !used.contains(&vid), TapeUse::Active);
    migrate_all(&archive);
    for (name, seed) in names.iter().zip(1..) {
        assert_eq!(get(&archive, name).unwrap(), bytes(seed, 20_000));
        let copies = copies(&archive, name);
        let vids: Vec<_> = copies.iter().filter_map(|copy| copy.vid).collect();
        assert!(vids.len() == 2 && vids.iter().all(|vid| !used.contains(vid)), "{name}: {copies:?}");
    }
    evict_all(&archive);
    let contents = names.iter().cloned().zip((1..).map(|seed| bytes(seed, 20_000))).collect();
    recall_and_compare(&archive, &contents);
    close(archive);
}
