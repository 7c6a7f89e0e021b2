//! Drives of the pool that are emptied, put back from an old copy, or damaged beyond what the code bears.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{
    Instance, bytes, copy, extents, get, migrate_all, path, put, scrub, stop, wait_for_pool,
};
use crate::replaced::instance;
use archive::{Archive, ArchiveError, Locality, PoolHealth, ReplacedDrive, Stat};

const FILES: u64 = 24;
const LENGTH: usize = 300_000;

fn name(n: u64) -> String {
    format!("/t/file{n}")
}

/// Every third file is small enough for a segment.
fn content(n: u64) -> Vec<u8> {
    bytes(n + 1, if n.is_multiple_of(3) { 20_000 } else { LENGTH })
}

fn fill(archive: &Archive, files: std::ops::Range<u64>) {
    files.for_each(|n| drop(put(archive, &name(n), &content(n))));
}

fn check(archive: &Archive, files: std::ops::Range<u64>) {
    for n in files {
        assert!(get(archive, &name(n)).unwrap() == content(n), "{n}");
    }
}

fn directory(instance: &Instance, drive: usize) -> &Path {
    instance.settings.pool.drives[drive].at.directory()
}

/// Of some files this many drives held more than the code bears; they are gone, and nobody gave them up.
fn filled_without_three(instance: &Instance) -> Archive {
    let archive = instance.open();
    fill(&archive, 0..FILES);
    stop(archive);
    for n in 0..3 {
        fs::rename(directory(instance, n), directory(instance, n).with_extension("gone")).unwrap();
    }
    instance.open()
}

fn empty(path: &Path) {
    for entry in fs::read_dir(path).unwrap() {
        let entry = entry.unwrap().path();
        if entry.is_dir() { fs::remove_dir_all(entry).unwrap() } else { fs::remove_file(entry).unwrap() }
    }
}

fn state(archive: &Archive, drive: usize) -> &'static str {
    archive.pool_info().unwrap().drives[drive].state
}

fn is_whole(archive: &Archive) {
    scrub(archive);
    let info = archive.scrub_info();
    assert_eq!((info.found, info.failed, info.lost), (0, 0, 0), "{:?}", info.findings);
}

/// Story: an hour-old copy of a drive was put in its place while the server was down. It counted as `up`, and
/// nothing as degraded, until reads or a scrub met what it lacked.
#[test]
fn what_a_drive_from_an_old_copy_lacks_is_written_anew_at_once() {
    let instance = instance();
    let drive = directory(&instance, 0);
    let image = instance.directory.path().join("image");
    let archive = instance.open();
    fill(&archive, 0..FILES / 2);
    archive.close();
    drop(archive);
    copy(drive, &image);
    let archive = instance.open();
    fill(&archive, FILES / 2..FILES);
    archive.close();
    drop(archive);
    let whole = extents(drive);
    empty(drive);
    copy(&image, drive);
    assert!(extents(drive).len() < whole.len());
    let archive = instance.open();
    // Nobody asks for anything: no read, no scrub, no operator.
    wait_for_pool(&archive, "it has no gaps", || archive.pool_info().unwrap().drives[0].gaps_after.is_none());
    let info = archive.scrub_info();
    assert!(info.found > 0 && info.failed == 0, "{info:?}");
    assert!(info.findings.iter().any(|line| line.contains("put back")), "{info:?}");
    // On a loaded machine another drive may have been silent for a while.
    wait_for_pool(&archive, "nothing is wrong any more", || {
        let health = archive.pool_health().unwrap();
        health == PoolHealth { late_cells: health.late_cells, ..PoolHealth::default() }
    });
    is_whole(&archive);
    assert!(extents(drive).len() >= whole.len());
    check(&archive, 0..FILES);
    archive.close();
}

/// Three drives were put back from old copies: what can be computed is, and the rest when a better copy of
/// one is found.
#[test]
fn gaps_of_what_is_lost_are_filled_when_it_is_found_again() {
    let instance = instance();
    let archive = instance.open();
    archive.close();
    drop(archive);
    let image = |n: usize| instance.directory.path().join(format!("image{n}"));
    // Three drives lack everything: of a stripe on all of them too little is left.
    (0..3).for_each(|n| copy(directory(&instance, n), &image(n)));
    let archive = instance.open();
    fill(&archive, 0..FILES);
    archive.close();
    drop(archive);
    let whole = |n: usize| instance.directory.path().join(format!("whole{n}"));
    for n in 0..3 {
        copy(directory(&instance, n), &whole(n));
        empty(directory(&instance, n));
        copy(&image(n), directory(&instance, n));
    }
    let archive = instance.open();
    let gaps = |archive: &Archive| {
        let drives = archive.pool_info().unwrap().drives;
        assert!(drives.iter().all(|drive| drive.host == "localhost"), "directories are of one host");
        drives.iter().filter(|drive| drive.gaps_after.is_some()).map(|drive| drive.id).collect::<Vec<_>>()
    };
    wait_for_pool(&archive, "they were gone through, and read, since files are lost", || {
        archive.scrub_info().passes > 0
    });
    wait_for_pool(&archive, "nothing is to come of waiting", || gaps(&archive).is_empty());
    let health = archive.pool_health().unwrap();
    assert!(health.lost > 0 && health.degraded == 0 && health.silent_drives == 0, "{health:?}");
    let lost = archive.scrub_info().lost;
    assert!(lost > 0 && lost < FILES, "{lost}");
    archive.close();
    drop(archive);
    // One of them is found whole.
    empty(directory(&instance, 1));
    copy(&whole(1), directory(&instance, 1));
    let archive = instance.open();
    wait_for_pool(&archive, "they have no gaps", || gaps(&archive).is_empty());
    wait_for_pool(&archive, "all files are found again", || {
        (0..FILES).all(|n| get(&archive, &name(n)).is_ok_and(|found| found == content(n)))
    });
    wait_for_pool(&archive, "the other drives get their shards without being asked", || {
        archive.scrub_info().passes > 0
    });
    is_whole(&archive);
    archive.close();
}

/// Story: a drive was emptied while the server ran. The server wrote its superblock anew, and at the next
/// start it was a drive like others.
#[test]
fn a_drive_that_is_emptied_while_in_use_is_rebuilt_elsewhere() {
    let instance = instance();
    let archive = instance.open();
    fill(&archive, 0..FILES);
    let drive = directory(&instance, 0);
    empty(drive);
    // A put has the next stamp written; that of the close would be the last chance.
    fill(&archive, FILES..FILES + 1);
    check(&archive, 0..FILES + 1);
    archive.scrub_now();
    wait_for_pool(&archive, "it is noticed", || state(&archive, 0) == "wiped");
    let warnings = archive.totals().unwrap().warnings;
    assert!(warnings.iter().any(|w| w.contains("0 (wiped)")), "{warnings:?}");
    wait_for_pool(&archive, "what it held is elsewhere", || {
        let health = archive.pool_health().unwrap();
        health.silent_drives == 1 && health.degraded == 0
    });
    assert_eq!(fs::read_dir(drive).unwrap().count(), 0, "nothing was written to it");
    assert_eq!(archive.scrub_info().lost, 0);
    assert_eq!(archive.pool_drive_replace(0, false, false).unwrap(), ReplacedDrive::New);
    wait_for_pool(&archive, "it is filled", || !drive.join("unfilled.kist").exists());
    wait_for_pool(&archive, "and whole", || archive.pool_info().unwrap().drives[0].gaps_after.is_none());
    assert_eq!(state(&archive, 0), "up");
    check(&archive, 0..FILES + 1);
    is_whole(&archive);
    archive.close();
}

/// Story: the disk of a drive was unmounted for good, and left its empty mount point: "it does not work: mend
/// it", where a directory that is gone could be replaced. An empty directory may also be that of a disk which
/// is mounted again, and what still is the drive is never replaced.
#[test]
fn an_empty_directory_under_a_drive_is_a_new_drive_if_that_is_said() {
    let instance = instance();
    let archive = instance.open();
    fill(&archive, 0..FILES);
    let drive = directory(&instance, 2);
    let gone = drive.with_extension("gone");
    let refused = |new: bool| archive.pool_drive_replace(2, new, false).unwrap_err().to_string();
    fs::create_dir(&gone).unwrap();
    assert!(refused(true).contains("in use"), "{}", refused(true));
    fs::remove_dir(&gone).unwrap();
    fs::rename(drive, &gone).unwrap();
    archive.scrub_now();
    wait_for_pool(&archive, "it is noticed", || state(&archive, 2) == "away");
    fs::create_dir(drive).unwrap();
    assert!(refused(false).contains("replace 2 --new"), "{}", refused(false));
    assert_eq!(fs::read_dir(drive).unwrap().count(), 0, "nothing was written to it");
    assert_eq!(archive.pool_drive_replace(2, true, false).unwrap(), ReplacedDrive::New);
    wait_for_pool(&archive, "it is filled", || !drive.join("unfilled.kist").exists());
    wait_for_pool(&archive, "and whole", || archive.pool_info().unwrap().drives[2].gaps_after.is_none());
    check(&archive, 0..FILES);
    archive.close();
}

/// The shards of one striped blob, by number.
fn shards_of_one(instance: &Instance) -> Vec<PathBuf> {
    let all: Vec<PathBuf> = (0..8).flat_map(|n| extents(directory(instance, n))).collect();
    let shard_of = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let blob = all.iter().map(|path| shard_of(path)).find(|name| name.ends_with(".0.5")).unwrap();
    let blob = blob.trim_end_matches(".0.5");
    let shard = |n| all.iter().find(|path| shard_of(path) == format!("{blob}.0.{n}")).unwrap().clone();
    (0..6).map(shard).collect()
}

/// Story: of one file no drive held enough. Each drive that was lost and replaced later counted as not filled
/// for ever, and all that it held as degraded.
#[test]
fn what_is_lost_keeps_no_drive_from_being_filled() {
    let instance = instance();
    let archive = instance.open();
    fill(&archive, 0..FILES);
    let shards = shards_of_one(&instance);
    shards[..3].iter().for_each(|shard| fs::remove_file(shard).unwrap());
    let n = (0..8).find(|n| shards[3].starts_with(directory(&instance, *n))).unwrap();
    let drive = directory(&instance, n);
    fs::rename(drive, drive.with_extension("gone")).unwrap();
    archive.pool_drive_lost(u16::try_from(n).unwrap(), true).unwrap();
    let left = || archive.pool_health().map(|health| (health.degraded, health.unreadable)).unwrap();
    wait_for_pool(&archive, "what can be is elsewhere", || left() == (0, 0));
    assert_eq!(archive.pool_health().unwrap().lost, 1);
    let replaced = archive.pool_drive_replace(u16::try_from(n).unwrap(), true, false).unwrap();
    assert_eq!(replaced, ReplacedDrive::New);
    wait_for_pool(&archive, "it is filled", || !drive.join("unfilled.kist").exists());
    wait_for_pool(&archive, "and whole", || archive.pool_info().unwrap().drives[n].gaps_after.is_none());
    assert_eq!((archive.pool_health().unwrap().lost, left()), (1, (0, 0)));
    scrub(&archive);
    let lost = (0..FILES).filter(|n| get(&archive, &name(*n)).is_err()).count();
    assert_eq!(lost, 1);
    archive.close();
}

/// Story: `kist pool drive lost` asked nothing, and files of which the pool had the only copy were LOST.
#[test]
fn drives_that_take_files_with_them_are_given_up_only_if_that_is_accepted() {
    let instance = instance();
    let archive = filled_without_three(&instance);
    // No file misses more than the code bears yet.
    archive.pool_drive_lost(0, false).unwrap();
    archive.pool_drive_lost(1, false).unwrap();
    for refused in [archive.pool_drive_lost(2, false), archive.pool_rebuild(Some(2), false)] {
        let Err(ArchiveError::WouldLose(loss)) = refused else { panic!("{refused:?}") };
        assert!(loss.files > 0 && loss.bytes.0 >= 20_000 * loss.files, "{loss:?}");
        assert!(loss.named.iter().all(|path| path.starts_with("/t/file")), "{loss:?}");
        assert!(ArchiveError::WouldLose(loss).to_string().contains("--accept-loss"));
    }
    assert!(matches!(archive.pool_rebuild(None, false), Err(ArchiveError::WouldLose(_))));
    assert_eq!((state(&archive, 1), state(&archive, 2)), ("lost", "missing"));
    archive.pool_drive_lost(2, true).unwrap();
    assert_eq!(state(&archive, 2), "lost");
    archive.pool_drive_lost(2, false).unwrap();
    archive.close();
}

/// Story: a drive that was given up was `missing` after the next start, and its rebuild began only after
/// hours more; one whose directory was still there was in use again, and got new data.
#[test]
fn a_drive_that_is_given_up_stays_so_over_restarts() {
    let instance = instance();
    let archive = instance.open();
    fill(&archive, 0..FILES);
    archive.pool_drive_lost(0, false).unwrap();
    archive.close();
    drop(archive);
    let archive = instance.open();
    assert_eq!(state(&archive, 0), "lost");
    wait_for_pool(&archive, "what it held is elsewhere", || archive.pool_health().unwrap().degraded == 0);
    fill(&archive, FILES..2 * FILES);
    check(&archive, 0..2 * FILES);
    assert_eq!(state(&archive, 0), "lost");
    // It is put in again, and in use over restarts.
    assert_eq!(archive.pool_drive_replace(0, false, false).unwrap(), ReplacedDrive::Returned);
    archive.close();
    drop(archive);
    let archive = instance.open();
    assert_eq!(state(&archive, 0), "up");
    check(&archive, 0..2 * FILES);
    archive.close();
}

/// Story: an empty directory in the place of a missing drive is a new drive at once: files of which the
/// missing one had what was left were LOST, and nobody was asked.
#[test]
fn a_new_drive_takes_files_with_it_only_if_that_is_accepted() {
    let instance = instance();
    let archive = filled_without_three(&instance);
    archive.pool_drive_lost(0, false).unwrap();
    archive.pool_drive_lost(1, false).unwrap();
    fs::create_dir(directory(&instance, 2)).unwrap();
    let refused = archive.pool_drive_replace(2, false, false);
    let Err(ArchiveError::WouldLose(loss)) = refused else { panic!("{refused:?}") };
    assert!(loss.files > 0, "{loss:?}");
    assert_eq!(state(&archive, 2), "missing");
    assert_eq!(fs::read_dir(directory(&instance, 2)).unwrap().count(), 0, "nothing was written to it");
    // The drive itself takes nothing with it.
    fs::remove_dir(directory(&instance, 2)).unwrap();
    fs::rename(directory(&instance, 2).with_extension("gone"), directory(&instance, 2)).unwrap();
    assert_eq!(archive.pool_drive_replace(2, false, false).unwrap(), ReplacedDrive::Returned);
    check(&archive, 0..FILES);
    archive.close();
    drop(archive);
    for n in 0..3 {
        let gone = directory(&instance, n).with_extension("gone");
        drop(fs::rename(directory(&instance, n), gone));
    }
    let archive = instance.open();
    archive.pool_drive_lost(0, true).unwrap();
    archive.pool_drive_lost(1, true).unwrap();
    fs::create_dir(directory(&instance, 2)).unwrap();
    assert_eq!(archive.pool_drive_replace(2, false, true).unwrap(), ReplacedDrive::New);
    archive.close();
}

/// Story: drives that were given up and replaced one after the other took files with them, and nobody was
/// asked: a new one counted as if it had all that should be on it.
#[test]
fn drives_that_are_replaced_one_by_one_take_files_with_them_only_if_that_is_accepted() {
    let instance = instance();
    let archive = filled_without_three(&instance);
    for n in [0, 1] {
        archive.pool_drive_lost(n, false).unwrap();
        assert_eq!(archive.pool_drive_replace(n, true, false).unwrap(), ReplacedDrive::New);
    }
    let refused = archive.pool_drive_lost(2, false);
    let Err(ArchiveError::WouldLose(loss)) = refused else { panic!("{refused:?}") };
    assert!(loss.files > 0, "{loss:?}");
    let refused = archive.pool_drive_replace(2, true, false);
    assert!(matches!(refused, Err(ArchiveError::WouldLose(_))), "{refused:?}");
    // The drive itself brings all back.
    let _ = fs::remove_dir_all(directory(&instance, 2));
    fs::rename(directory(&instance, 2).with_extension("gone"), directory(&instance, 2)).unwrap();
    assert_eq!(archive.pool_drive_replace(2, false, false).unwrap(), ReplacedDrive::Returned);
    check(&archive, 0..FILES);
    archive.close();
}

/// Story: somebody asked that all goes to tape while a file was LOST, since too few of its shards were there.
/// They came back, and the file waited for the age of its class all the same.
#[test]
fn haste_holds_for_a_file_that_is_found_again() {
    let instance = instance();
    let archive = instance.open();
    fill(&archive, 0..FILES);
    let shards = shards_of_one(&instance);
    let aside = |n: usize| instance.directory.path().join(format!("shard{n}"));
    (0..3).for_each(|n| fs::rename(&shards[n], aside(n)).unwrap());
    scrub(&archive);
    let lost: Vec<u64> = (0..FILES).filter(|n| get(&archive, &name(*n)).is_err()).collect();
    assert_eq!(lost.len(), 1, "{lost:?}");
    let locality = || {
        let Stat::File(stat) = archive.stat(&path(&name(lost[0]))).unwrap() else { panic!("a file") };
        stat.locality
    };
    assert_eq!(locality(), Locality::Lost);
    migrate_all(&archive);
    assert_eq!(locality(), Locality::Lost);
    (0..3).for_each(|n| fs::rename(aside(n), &shards[n]).unwrap());
    scrub(&archive);
    // Nobody asks again.
    wait_for_pool(&archive, "it is on tape", || locality() == Locality::OnlineAndNearline);
    archive.close();
}

/// Story: of one row more cells were damaged than the code bears. The repair counted its shards as repaired.
#[test]
fn a_row_beyond_repair_costs_its_file_and_nothing_else() {
    let instance = instance();
    let archive = instance.open();
    let names: Vec<u64> = (0..FILES).collect();
    fill(&archive, 0..FILES);
    let shards = shards_of_one(&instance);
    // One is gone and two are damaged: three of six, and two are borne.
    fs::remove_file(&shards[0]).unwrap();
    for shard in &shards[1..3] {
        let mut bytes = fs::read(shard).unwrap();
        bytes[5000] ^= 1;
        fs::write(shard, bytes).unwrap();
    }
    scrub(&archive);
    let info = archive.scrub_info();
    // Once by the pass, and again since its reads found it damaged.
    assert!(info.failed >= 3 && info.failed.is_multiple_of(3), "{:?}", info.findings);
    assert_eq!((info.repaired, info.lost), (0, 1), "{:?}", info.findings);
    let row = info.findings.iter().find(|line| line.contains("cannot be computed") && line.contains("row 0"));
    assert!(row.is_some_and(|line| line.contains("(shard 0), drive")), "{:?}", info.findings);
    assert!(!shards[0].exists(), "nothing is written in the place of what cannot be computed");
    let lost: Vec<u64> = names.iter().copied().filter(|n| get(&archive, &name(*n)).is_err()).collect();
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert_eq!(info.files, [format!("{} LOST", name(lost[0]))]);
    let Stat::File(stat) = archive.stat(&path(&name(lost[0]))).unwrap() else { panic!("a file") };
    assert_eq!(stat.locality, Locality::Lost);
    archive.close();
}

/// Story: one missing directory of one drive kept the whole server from starting.
#[test]
fn a_directory_of_a_drive_that_is_gone_stops_no_start() {
    let instance = instance();
    let archive = instance.open();
    for number in 0..40 {
        put(&archive, &format!("/{number}"), &bytes(number, 300_000));
    }
    archive.close();
    drop(archive);
    let extents = instance.settings.pool.drives[2].at.directory().join("extents");
    let mut removed = 0;
    for bucket in fs::read_dir(&extents).unwrap().map(|entry| entry.unwrap().path()) {
        if fs::read_dir(&bucket).unwrap().next().is_some() {
            removed += fs::read_dir(&bucket).unwrap().count();
            fs::remove_dir_all(&bucket).unwrap();
        }
    }
    assert!(removed > 0, "the drive held extents");
    let archive = instance.open();
    for number in 0..40 {
        assert_eq!(get(&archive, &format!("/{number}")).unwrap(), bytes(number, 300_000));
    }
    wait_for_pool(&archive, "the drive is filled again", || {
        archive.pool_info().unwrap().drives[2].gaps_after.is_none()
    });
    let there: usize = fs::read_dir(&extents)
        .unwrap()
        .map(|entry| fs::read_dir(entry.unwrap().path()).unwrap().count())
        .sum();
    assert!(there >= removed, "{there} extents of {removed}");
    archive.close();
}
