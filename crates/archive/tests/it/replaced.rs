//! A drive of the pool that took the place of another one gets everything that the other one held.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::common::{Instance, bytes, extents, get, path, put, scrub, wait_for_pool};
use archive::{Archive, Locality, ReplacedDrive, Stat};
use base::ByteCount;

const FILES: u64 = 150;

/// Nothing is sealed, so that the pool holds the files and nothing else.
pub fn instance() -> Instance {
    Instance::with(ByteCount::mib(128), |settings| {
        for class in &mut settings.classes {
            (class.pack_age, class.pack_bytes) = (Duration::from_secs(3600), ByteCount::mib(4_000));
        }
    })
}

fn name(n: u64) -> String {
    format!("/t/file{n}")
}

/// The archive over a new directory in the place of drive 0, and how many extents that one held.
fn with_a_blank(instance: &Instance) -> (Archive, usize) {
    let path = instance.settings.pool.drives[0].at.directory();
    let archive = instance.open();
    for n in 0..FILES {
        put(&archive, &name(n), &bytes(n + 1, 300_000));
    }
    archive.close();
    drop(archive);
    let expected = extents(path).len();
    assert!(expected > 50, "{expected}");
    fs::remove_dir_all(path).unwrap();
    fs::create_dir_all(path).unwrap();
    (instance.open(), expected)
}

/// Drive 0 was replaced while drives 1 and 2 were away, and its rebuild was tried; the mark that it is not
/// filled.
fn tried_without_two(instance: &Instance) -> (Archive, PathBuf) {
    let (archive, _) = with_a_blank(instance);
    archive.close();
    drop(archive);
    let drives = &instance.settings.pool.drives;
    for n in [1, 2] {
        fs::rename(drives[n].at.directory(), drives[n].at.directory().with_extension("away")).unwrap();
    }
    let archive = instance.open();
    assert_eq!(archive.pool_drive_replace(0, false, false).unwrap(), ReplacedDrive::New);
    wait_for_pool(&archive, "a rebuild was tried", || {
        let info = archive.scrub_info();
        info.failed > 0 && info.phase == "idle"
    });
    (archive, drives[0].at.directory().join("unfilled.kist"))
}

fn bring_back(instance: &Instance, n: usize) {
    let path = instance.settings.pool.drives[n].at.directory();
    fs::rename(path.with_extension("away"), path).unwrap();
}

fn assert_filled(archive: &Archive, mark: &Path) {
    wait_for_pool(archive, "it is filled", || !mark.exists());
    // Not a pass that was under way before: it found what was not filled yet.
    scrub(archive);
    let info = archive.scrub_info();
    assert_eq!(info.found, 0, "{:?}", info.findings);
    archive.close();
}

#[test]
fn a_replaced_drive_is_filled() {
    let instance = instance();
    let path = instance.settings.pool.drives[0].at.directory();
    let (archive, expected) = with_a_blank(&instance);
    assert_eq!(archive.pool_drive_replace(0, false, false).unwrap(), ReplacedDrive::New);
    wait_for_pool(&archive, "it is filled", || !path.join("unfilled.kist").exists());
    assert_eq!(extents(path).len(), expected);
    // Story: the shards that the new drive had not got yet were counted as its errors.
    let errors: Vec<u64> = archive.pool_info().unwrap().drives.iter().map(|drive| drive.errors).collect();
    assert_eq!(errors, [0; 8], "a new drive has done nothing wrong");
    archive.close();
}

/// That a replaced drive was to be filled stood in memory only: a server that ended before it was done left
/// the drive half empty, until a scrub came by weeks later.
#[test]
fn a_replaced_drive_is_filled_after_a_restart() {
    let instance = instance();
    let path = instance.settings.pool.drives[0].at.directory();
    let (archive, expected) = with_a_blank(&instance);
    assert_eq!(archive.pool_drive_replace(0, false, false).unwrap(), ReplacedDrive::New);
    archive.close();
    drop(archive);
    let filled = extents(path).len();
    assert!(filled < expected, "the server ended before the drive was filled: {filled}");
    let archive = instance.open();
    wait_for_pool(&archive, "it is filled", || extents(path).len() >= expected);
    wait_for_pool(&archive, "that is recorded", || !path.join("unfilled.kist").exists());
    for n in 0..FILES {
        assert!(get(&archive, &name(n)).unwrap() == bytes(n + 1, 300_000), "{n}");
    }
    archive.close();
}

/// Story: while a replaced drive was filled two others were away. They came back, and nothing went on with
/// it: the pool looked whole, and what the drive should hold was missing until the next start.
#[test]
fn a_drive_is_filled_when_what_it_needs_comes_back() {
    let instance = instance();
    let (archive, mark) = tried_without_two(&instance);
    for n in [1, 2] {
        bring_back(&instance, n);
        assert_eq!(archive.pool_drive_replace(n as u16, false, false).unwrap(), ReplacedDrive::Returned);
    }
    assert_filled(&archive, &mark);
}

/// Story: while a replaced drive was filled two others were away: too few shards were whole to rebuild from,
/// and the mark that says so was removed all the same. A scrub found the empty cells long after.
#[test]
fn a_drive_that_could_not_be_filled_stays_marked() {
    let instance = instance();
    let (archive, mark) = tried_without_two(&instance);
    archive.close();
    drop(archive);
    assert!(mark.exists(), "what could not be rebuilt is missing still");
    for n in [1, 2] {
        bring_back(&instance, n);
    }
    let archive = instance.open();
    assert_filled(&archive, &mark);
}

/// Story: three drives of a pool that bears two were replaced, and what they had was accepted as lost. The
/// files stood as ONLINE until somebody read one, or the next pass came by.
#[test]
fn what_is_lost_with_replaced_drives_is_named_at_once() {
    let instance = instance();
    let archive = instance.open();
    for n in 0..FILES {
        put(&archive, &name(n), &bytes(n + 1, if n % 2 == 0 { 300_000 } else { 900 }));
    }
    archive.close();
    drop(archive);
    for n in 0..3 {
        let path = instance.settings.pool.drives[n].at.directory();
        fs::remove_dir_all(path).unwrap();
        fs::create_dir_all(path).unwrap();
    }
    let archive = instance.open();
    for n in 0..3 {
        assert_eq!(archive.pool_drive_replace(n, false, true).unwrap(), ReplacedDrive::New);
    }
    let marks = instance.settings.pool.drives[..3].iter();
    let marks: Vec<PathBuf> = marks.map(|drive| drive.at.directory().join("unfilled.kist")).collect();
    wait_for_pool(&archive, "they are filled", || marks.iter().all(|mark| !mark.exists()));
    let info = archive.scrub_info();
    assert_eq!((info.passes, info.running), (0, false), "no pass has looked for them: {info:?}");
    let is_lost = |n: &u64| match archive.stat(&path(&name(*n))).unwrap() {
        Stat::File(file) => file.locality == Locality::Lost,
        Stat::Directory(_) => false,
    };
    let lost: Vec<u64> = (0..FILES).filter(is_lost).collect();
    assert!(!lost.is_empty() && lost.len() < FILES as usize, "{lost:?}");
    for n in 0..FILES {
        assert_eq!(get(&archive, &name(n)).is_ok(), !lost.contains(&n), "{n}");
    }
    archive.close();
}
