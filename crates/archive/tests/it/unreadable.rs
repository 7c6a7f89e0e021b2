//! Files that wait for tape and that the pool cannot give: no tape is taken for them, and they keep no other
//! file from tape.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use crate::common::{Instance, all, bytes, get, migrate_all, path, put, wait_until};
use crate::faulty::{Trouble, check_all, fill, place, round};
use archive::{Archive, Locality, Stat, TapeUse};
use base::{ContainerId, Duration};

fn set_all_tapes(archive: &Archive, to: TapeUse) {
    for tape in archive.tapes().unwrap() {
        archive.set_tape(tape.vid, to, "for the test").unwrap();
    }
}

fn labelled(archive: &Archive) -> usize {
    archive.tapes().unwrap().iter().filter(|tape| tape.uuid.is_some()).count()
}

pub fn extents(trouble: &Trouble) -> BTreeSet<PathBuf> {
    extents_in(&trouble.instance)
}

/// All extents of the pool.
pub fn extents_in(instance: &Instance) -> BTreeSet<PathBuf> {
    let buckets = instance.settings.pool.drives.iter().flat_map(|drive| {
        fs::read_dir(drive.at.directory().join("extents")).unwrap().map(|bucket| bucket.unwrap().path())
    });
    buckets.flat_map(|bucket| fs::read_dir(bucket).unwrap().map(|extent| extent.unwrap().path())).collect()
}

/// Puts a file of which the pool loses all bytes later; gives what is to be removed for that.
pub fn put_bad(trouble: &Trouble, archive: &Archive, name: &str, length: usize) -> Vec<PathBuf> {
    let before = extents(trouble);
    put(archive, name, &bytes(1, length));
    let shards: Vec<PathBuf> = extents(trouble).difference(&before).cloned().collect();
    assert_eq!(shards.len(), 6, "the shards of the file");
    shards
}

/// Seals all that waits, with no tape to go to.
pub fn seal(archive: &Archive) {
    archive.migrate_now(None).unwrap();
    wait_until("all is sealed", || archive.totals().unwrap().todo.files == 0);
}

fn containers(archive: &Archive, name: &str) -> BTreeSet<ContainerId> {
    let Stat::File(stat) = archive.stat(&path(name)).unwrap() else { panic!("a file") };
    stat.copies.iter().map(|copy| copy.container).collect()
}

fn is_lost(archive: &Archive, name: &str) -> bool {
    let Stat::File(stat) = archive.stat(&path(name)).unwrap() else { panic!("a file") };
    stat.locality == Locality::Lost
}

/// Waits until a file has failed so many times to come to tape: each time it rests until another moment.
pub fn wait_for_rests(archive: &Archive, name: &str, count: usize) {
    let mut seen = BTreeSet::new();
    wait_until("it has rested so many times", || {
        let why = archive.why_path(&path(name)).unwrap().join(" ");
        if why.contains("left alone until") {
            seen.insert(why);
        }
        seen.len() >= count
    });
}

/// Story: one file that could not be read kept its whole pack from tape until a scrub came by, and each time
/// that the pack was tried again another scratch tape was labelled with nothing on it.
#[test]
fn one_bad_member_keeps_no_other_from_tape() {
    let trouble = Trouble::new(2);
    let (archive, _) = trouble.open();
    set_all_tapes(&archive, TapeUse::Disabled);
    let shards = put_bad(&trouble, &archive, "/t/bad", 300_000);
    let files = fill(&archive);
    seal(&archive);
    let pack = containers(&archive, "/t/small7");
    shards.iter().for_each(|path| fs::remove_file(path).unwrap());
    set_all_tapes(&archive, TapeUse::Active);
    archive.migrate_now(None).unwrap();
    wait_until("the bad one is known to be lost", || is_lost(&archive, "/t/bad"));
    wait_until("its pack is given up", || containers(&archive, "/t/small7").is_disjoint(&pack));
    migrate_all(&archive);
    assert!(files.iter().all(|(name, _)| place(&archive, name).len() == 2), "the others are on tape");
    assert_eq!(labelled(&archive), 2, "one tape for each pool");
    assert!(get(&archive, "/t/bad").is_err());
    archive.remove(&path("/t/bad")).unwrap();
    round(&archive, &files);
    archive.close();
}

/// Story: `migrate --now` was forgotten for a pack that had to be given up afterwards: its other files waited
/// for the age of their class once more, and their pack for that of the tape pool.
#[test]
fn haste_holds_for_the_files_of_a_pack_that_is_given_up() {
    let trouble = Trouble::with(2, Duration::from_millis(200), |settings| {
        settings.tape_pools.iter_mut().for_each(|pool| pool.mount_age = Duration::from_secs(3_600));
    });
    let (archive, _) = trouble.open();
    set_all_tapes(&archive, TapeUse::Disabled);
    let shards = put_bad(&trouble, &archive, "/t/bad", 300_000);
    let files = fill(&archive);
    seal(&archive);
    shards.iter().for_each(|path| fs::remove_file(path).unwrap());
    // Nobody asks for haste again.
    set_all_tapes(&archive, TapeUse::Active);
    wait_until("the bad one is known to be lost", || is_lost(&archive, "/t/bad"));
    wait_until("the others are on tape", || {
        let totals = archive.totals().unwrap();
        totals.todo.files == 0 && totals.queued.files == 0 && totals.unindexed == 0
    });
    assert!(files.iter().all(|(name, _)| place(&archive, name).len() == 2), "each has two copies");
    archive.close();
}

/// The same with a file that has a container of its own: nothing is labelled for it, however often it is
/// tried, and what comes after it goes to tape.
#[test]
fn no_tape_is_labelled_for_a_file_that_cannot_be_read() {
    let trouble = Trouble::new(2);
    let (archive, _) = trouble.open();
    set_all_tapes(&archive, TapeUse::Disabled);
    let shards = put_bad(&trouble, &archive, "/t/bad", 3_000_000);
    seal(&archive);
    shards.iter().for_each(|path| fs::remove_file(path).unwrap());
    set_all_tapes(&archive, TapeUse::Active);
    archive.migrate_now(None).unwrap();
    wait_for_rests(&archive, "/t/bad", 4);
    assert_eq!(labelled(&archive), 0, "{:?}", archive.tapes().unwrap());
    assert!(is_lost(&archive, "/t/bad"));
    assert!(archive.queue().unwrap().iter().all(|line| !line.reason.is_empty()));
    let files = fill(&archive);
    archive.migrate_now(None).unwrap();
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    wait_until("others come to tape", || archive.evict(&all(&names)).unwrap().refused_count == 0);
    assert_eq!(labelled(&archive), 2, "one tape for each pool");
    archive.close();
}

/// Drives of the pool are away: nobody is lost, nothing is labelled, and all goes to tape when they are back.
#[test]
fn no_tape_is_labelled_while_the_drives_of_the_pool_are_away() {
    let trouble = Trouble::new(2);
    let (archive, _) = trouble.open();
    set_all_tapes(&archive, TapeUse::Disabled);
    let files = fill(&archive);
    seal(&archive);
    archive.close();
    drop(archive);
    // Every stripe of 4+2 over 8 drives has at least 3 of these 5.
    let drives = &trouble.instance.settings.pool.drives[..5];
    drives.iter().for_each(|drive| {
        fs::rename(drive.at.directory(), drive.at.directory().with_extension("away")).unwrap();
    });
    let (archive, _) = trouble.open();
    set_all_tapes(&archive, TapeUse::Active);
    archive.migrate_now(None).unwrap();
    for name in ["/t/large0", "/t/large3"] {
        wait_for_rests(&archive, name, 3);
    }
    assert_eq!(labelled(&archive), 0, "{:?}", archive.tapes().unwrap());
    assert!(!is_lost(&archive, "/t/large0"));
    archive.close();
    drop(archive);
    drives.iter().for_each(|drive| {
        fs::rename(drive.at.directory().with_extension("away"), drive.at.directory()).unwrap();
    });
    let (archive, _) = trouble.open();
    migrate_all(&archive);
    check_all(&archive, &files);
    assert_eq!(labelled(&archive), 2, "one tape for each pool");
    archive.close();
}

/// Story: a file was LOST before a tape had it, and was removed. Its container stayed in the tape queue, was
/// tried in vain ever more seldom, and `kist wait` did not end.
#[test]
fn a_lost_file_that_is_removed_leaves_the_tape_queue() {
    let trouble = Trouble::with_retry(2, Duration::from_secs(3_600));
    let (archive, _) = trouble.open();
    set_all_tapes(&archive, TapeUse::Disabled);
    let mut shards = put_bad(&trouble, &archive, "/t/large", 3_000_000);
    seal(&archive);
    shards.extend(put_bad(&trouble, &archive, "/t/small", 300_000));
    put(&archive, "/t/beside", &bytes(2, 300_000));
    seal(&archive);
    archive.remove(&path("/t/beside")).unwrap();
    shards.iter().for_each(|path| fs::remove_file(path).unwrap());
    set_all_tapes(&archive, TapeUse::Active);
    archive.migrate_now(None).unwrap();
    wait_until("they are known to be lost", || {
        is_lost(&archive, "/t/large") && is_lost(&archive, "/t/small")
    });
    wait_for_rests(&archive, "/t/large", 1);
    archive.remove(&path("/t/large")).unwrap();
    archive.remove(&path("/t/small")).unwrap();
    wait_until("nothing waits for tapes", || archive.totals().unwrap().queued.files == 0);
    let queue = archive.queue().unwrap();
    assert!(queue.is_empty(), "{queue:?}");
    assert_eq!(labelled(&archive), 0, "{:?}", archive.tapes().unwrap());
    archive.close();
}

/// Story: what had failed to come to tape rested for hours. Its cause was mended, and `migrate --now` did not
/// hurry it.
#[test]
fn migrate_now_tries_at_once_what_rests() {
    let trouble = Trouble::with_retry(2, Duration::from_secs(3_600));
    let (archive, _) = trouble.open();
    set_all_tapes(&archive, TapeUse::Disabled);
    let files = fill(&archive);
    seal(&archive);
    archive.close();
    drop(archive);
    let drives = &trouble.instance.settings.pool.drives[..5];
    drives.iter().for_each(|drive| {
        fs::rename(drive.at.directory(), drive.at.directory().with_extension("away")).unwrap();
    });
    let (archive, _) = trouble.open();
    set_all_tapes(&archive, TapeUse::Active);
    archive.migrate_now(None).unwrap();
    for name in ["/t/large0", "/t/large3"] {
        wait_for_rests(&archive, name, 1);
    }
    for (id, drive) in (0..5).zip(drives) {
        fs::remove_dir_all(drive.at.directory()).ok();
        fs::rename(drive.at.directory().with_extension("away"), drive.at.directory()).unwrap();
        archive.pool_drive_replace(id, false, false).unwrap();
    }
    migrate_all(&archive);
    check_all(&archive, &files);
    archive.close();
}
