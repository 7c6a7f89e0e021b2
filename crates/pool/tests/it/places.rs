//! Drives that are emptied or put back from an old copy while nobody looks, and what is really there.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::common::{Bench, INSTANCE, bytes, flip, get, put, small_cells};
use base::{BlobDescription, BlobPiece, ByteCount, DriveId};
use drive::{DirectIo, DirectoryDrive, DriveOpenError, ObjectDrive};
use pool::{BadShard, Depth, DriveHealth, PieceState, Pool};

fn health(pool: &Pool, drive: DriveId) -> DriveHealth {
    pool.status().drives[usize::from(drive.0)].health.clone()
}

fn gaps(pool: &Pool) -> Vec<u16> {
    pool.drives_with_gaps().keys().map(|drive| drive.0).collect()
}

/// Removes all that is in a directory, which stays.
fn empty(path: &Path) {
    for entry in fs::read_dir(path).unwrap() {
        let entry = entry.unwrap().path();
        if entry.is_dir() { fs::remove_dir_all(entry).unwrap() } else { fs::remove_file(entry).unwrap() }
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Story: the files of a drive in use were put back as of an hour ago. The next stamp made it as new as the
/// others.
#[test]
fn a_drive_that_is_put_back_while_in_use_is_noticed() {
    let mut bench = Bench::new(6);
    let pool = bench.open(small_cells(), &[]);
    pool.stamp(10).unwrap();
    let image = bench.path(100);
    copy(&bench.path(2), &image);
    let blob = put(&pool, &bytes(100_000, 1)).unwrap();
    pool.stamp(20).unwrap();
    // The directory stays, as it does when files are copied back into it.
    empty(&bench.path(2));
    copy(&image, &bench.path(2));
    pool.check_places();
    settled(&pool);
    assert_eq!(pool.drives_with_gaps().into_iter().collect::<Vec<_>>(), [(DriveId(2), 10)]);
    assert_eq!(health(&pool, DriveId(2)), DriveHealth::Up);
    assert_eq!(pool.lacking(&blob, &[DriveId(2)].into()).unwrap().bad.len(), 1);
}

/// A superblock of another place is not written over; the drive is still read.
#[test]
fn a_superblock_that_cannot_be_told_is_not_written_over() {
    let mut bench = Bench::new(6);
    let pool = bench.open(small_cells(), &[]);
    let value = bytes(30_000, 1);
    let blob = put(&pool, &value).unwrap();
    // As an old copy of the drive would, and the superblock damaged besides.
    let (extents, image) = (bench.path(2).join("extents"), bench.path(100));
    copy(&extents, &image);
    fs::remove_dir_all(&extents).unwrap();
    fs::rename(&image, &extents).unwrap();
    for page in ["drive.kist", "drive.copy"] {
        flip(&bench.path(2).join(page), 20, 1);
    }
    let damaged = pool.scrub_superblocks();
    assert!(damaged.len() == 1 && damaged[0].failure.is_some(), "{damaged:?}");
    assert!(damaged[0].to_string().contains("not written anew: drive 2: the superblock"), "{damaged:?}");
    assert!(matches!(health(&pool, DriveId(2)), DriveHealth::Suspect { .. }));
    assert!(get(&pool, &blob).unwrap() == value);
    assert!(pool.scrub_blob(&blob, &[], &mut |_| true).unwrap().is_clean());
}

/// Waits until all drives have done what was asked of them before.
fn settled(pool: &Pool) {
    pool.scrub_superblocks();
}

/// Does what needs the lock of a drive once the pool has let go of it: a read that nobody waited for may be
/// in it for a moment.
fn when_left<T>(attempt: impl Fn() -> Result<T, DriveOpenError>) -> T {
    loop {
        match attempt() {
            Err(DriveOpenError::Locked(_)) => std::thread::yield_now(),
            done => return done.unwrap(),
        }
    }
}

fn open_when_left(path: &Path, id: DriveId) -> DirectoryDrive {
    when_left(|| DirectoryDrive::open(path, INSTANCE, id, DirectIo::Auto))
}

/// Story: a drive that did not answer was emptied. Nobody looked at it but its probes, which failed: it
/// counted as away, and nothing was rebuilt before its time was over.
#[test]
fn a_drive_that_is_emptied_while_it_is_away_is_lost_too() {
    let mut bench = Bench::new(8);
    let pool = bench.open(small_cells(), &[]);
    pool.stamp(7).unwrap();
    let (path, aside) = (bench.path(2), bench.path(100));
    fs::rename(&path, &aside).unwrap();
    pool.check_places();
    settled(&pool);
    assert!(matches!(pool.probe_drive(DriveId(2)), DriveHealth::Away { .. }), "it may be put back");
    // Another directory in its place is not the drive: a disk that is not mounted looks like that.
    fs::create_dir(&path).unwrap();
    assert!(matches!(pool.probe_drive(DriveId(2)), DriveHealth::Away { .. }));
    fs::remove_dir(&path).unwrap();
    fs::rename(&aside, &path).unwrap();
    empty(&path);
    assert!(matches!(pool.probe_drive(DriveId(2)), DriveHealth::Wiped { .. }));
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
}

/// Story: a drive came back without its extents, with its superblock and the directory of the extents. Each
/// probe failed, and it counted as away, until it was given up after half a day; a start would have taken it,
/// and filled it.
#[test]
fn a_drive_that_comes_back_with_emptied_extents_is_filled() {
    let mut bench = Bench::new(6);
    let pool = bench.open(small_cells(), &[]);
    pool.stamp(7).unwrap();
    let blob = put(&pool, &bytes(100_000, 1)).unwrap();
    let (path, aside) = (bench.path(2), bench.path(100));
    fs::rename(&path, &aside).unwrap();
    pool.check_places();
    settled(&pool);
    assert!(matches!(health(&pool, DriveId(2)), DriveHealth::Away { .. }));
    empty(&aside.join("extents"));
    fs::rename(&aside, &path).unwrap();
    assert_eq!(pool.probe_drive(DriveId(2)), DriveHealth::Up);
    assert_eq!(pool.drives_with_gaps().into_iter().collect::<Vec<_>>(), [(DriveId(2), 0)]);
    assert_eq!(pool.lacking(&blob, &[DriveId(2)].into()).unwrap().bad.len(), 1);
    // It takes part again.
    let other = put(&pool, &bytes(100_000, 2)).unwrap();
    assert!(get(&pool, &other).unwrap() == bytes(100_000, 2));
    assert!(bench.path(2).join("extents/00").is_dir());
}

/// Story: a drive was emptied while the server ran; it went on as `up`, and the next stamp made it a drive
/// again that counted as filled.
#[test]
fn a_drive_that_is_emptied_is_lost_until_it_is_put_in_again() {
    let mut bench = Bench::new(8);
    let pool = bench.open(small_cells(), &[]);
    pool.stamp(7).unwrap();
    let value = bytes(150_000, 1);
    let blob = put(&pool, &value).unwrap();
    let victim = blob.stripes[0].drives[0];
    empty(&bench.path(victim.0));
    pool.check_places();
    settled(&pool);
    let DriveHealth::Wiped { reason } = health(&pool, victim) else { panic!("{:?}", pool.drive_health()) };
    assert!(reason.contains("superblock is gone") && reason.contains("pool drive replace"), "{reason}");
    assert!(pool.silent_drives().contains(&victim));
    // No stamp, no probe and no scrub of superblocks makes it a drive again.
    pool.stamp(8).unwrap();
    assert!(pool.scrub_superblocks().is_empty());
    assert!(matches!(pool.probe_drive(victim), DriveHealth::Wiped { .. }));
    assert_eq!(fs::read_dir(bench.path(victim.0)).unwrap().count(), 0);
    assert!(get(&pool, &blob).unwrap() == value);
    let other = put(&pool, &value).unwrap();
    assert!(other.stripes.iter().all(|set| !set.drives.contains(&victim)));
    // Its shards are rebuilt elsewhere.
    let report = pool.scrub_blob(&blob, &[], &mut |_| true).unwrap();
    let repaired = pool.repair(&blob, &report.bad, &mut |_| true).unwrap();
    assert!(!repaired.moved.is_empty() && repaired.failed.is_empty(), "{repaired:?}");
    // An operator puts in a new one.
    pool.declare_lost(victim).unwrap();
    when_left(|| DirectoryDrive::format(&bench.path(victim.0), INSTANCE, victim));
    let new = open_when_left(&bench.path(victim.0), victim);
    pool.attach(Arc::new(new), 8).unwrap();
    assert_eq!((health(&pool, victim), gaps(&pool)), (DriveHealth::Up, vec![victim.0]));
}

/// A stamp or a read finds it too, without a look of its own.
#[test]
fn a_stamp_and_a_read_find_a_drive_that_was_emptied() {
    for by_reading in [false, true] {
        let mut bench = Bench::new(8);
        let pool = bench.open(small_cells(), &[]);
        let value = bytes(30_000, 1);
        let blob = put(&pool, &value).unwrap();
        let victim = blob.stripes[0].drives[0];
        empty(&bench.path(victim.0));
        if by_reading {
            assert!(get(&pool, &blob).unwrap() == value);
        } else {
            assert!(pool.stamp(9).is_err());
        }
        settled(&pool);
        assert!(matches!(health(&pool, victim), DriveHealth::Wiped { .. }), "{by_reading}");
    }
}

/// Story: a drive was put back from an hour-old copy and counted as `up`; that it lacked what was written
/// since was found by reads, one by one, or by a scrub weeks later.
#[test]
fn a_drive_from_an_old_copy_is_known_at_the_start_and_what_it_lacks_is_found() {
    let mut bench = Bench::new(8);
    let pool = bench.open(small_cells(), &[]);
    pool.stamp(10).unwrap();
    let old = put(&pool, &bytes(150_000, 1)).unwrap();
    let victim = old.stripes[0].drives[0];
    let (segment, first) = pool.put_small(&bytes(9000, 3)).unwrap();
    let copies = segment.stripes[0].drives.clone();
    // One drive with both: a blob's shard and a segment's copy.
    let image = bench.path(100);
    copy(&bench.path(victim.0), &image);
    let segment_image = bench.path(101);
    copy(&bench.path(copies[1].0), &segment_image);
    let value = bytes(400_000, 2);
    let blob = put(&pool, &value).unwrap();
    let (again, second) = pool.put_small(&bytes(9000, 4)).unwrap();
    assert_eq!(again.id, segment.id);
    pool.stamp(20).unwrap();
    pool.close();
    drop(pool);
    for (drive, image) in [(victim, image), (copies[1], segment_image)] {
        empty(&bench.path(drive.0));
        copy(&image, &bench.path(drive.0));
    }
    let concerned: BTreeSet<DriveId> = [victim, copies[1]].into();
    let pool = bench.open(small_cells(), &[]);
    assert_eq!(gaps(&pool), concerned.iter().map(|drive| drive.0).collect::<Vec<_>>());
    assert_eq!(pool.drives_with_gaps()[&victim], 10);
    // The next start knows it as well, although the drives are stamped by now.
    pool.close();
    drop(pool);
    let pool = bench.open(small_cells(), &[]);
    assert_eq!(pool.drives_with_gaps()[&victim], 10);
    assert!(pool.lacking(&old, &[victim].into()).unwrap().bad.is_empty(), "the copy has it");
    let expected: BTreeSet<BadShard> = bad_on(&blob, &concerned);
    let lacking = pool.lacking(&blob, &concerned).unwrap();
    assert_eq!((&lacking.bad, lacking.unknown), (&expected, 0));
    assert!(!expected.is_empty());
    let short = pool.lacking(&segment, &concerned).unwrap();
    assert!(short.bad.iter().any(|bad| bad.drive == copies[1]), "{short:?}");
    for (blob, bad) in [(&blob, &lacking.bad), (&segment, &short.bad)] {
        let repaired = pool.repair(blob, bad, &mut |_| true).unwrap();
        assert_eq!(repaired.in_place.len(), bad.len(), "{repaired:?}");
        assert!(pool.lacking(blob, &concerned).unwrap().bad.is_empty());
    }
    assert!(pool.scrub_blob(&blob, &[], &mut |_| true).unwrap().is_clean());
    assert!(pool.scrub_blob(&segment, &[first, second], &mut |_| true).unwrap().is_clean());
    concerned.iter().for_each(|drive| pool.has_no_gaps(*drive).unwrap());
    assert!(gaps(&pool).is_empty());
    pool.close();
    drop(pool);
    assert!(gaps(&bench.open(small_cells(), &[])).is_empty());
}

/// Story: a drive that was added knew of a later commit than the others; the server was killed before they
/// were told. At the next start all others seemed to have been away, and a segment that stood on them alone
/// could be compared with no other copy: the pool was degraded for good.
#[test]
fn a_crash_after_a_drive_was_added_leaves_no_others_behind() {
    let mut bench = Bench::new(6);
    let pool = bench.open(small_cells(), &[]);
    pool.stamp(7).unwrap();
    DirectoryDrive::format(&bench.path(100), INSTANCE, DriveId(100)).unwrap();
    let added = DirectoryDrive::open(&bench.path(100), INSTANCE, DriveId(100), DirectIo::Auto).unwrap();
    pool.stamp_new(&added, 9).unwrap();
    assert_eq!(added.stamp().age(), pool.stamps()[0].age());
    let (segment, _) = pool.put_small(&bytes(9000, 4)).unwrap();
    pool.close();
    drop(pool);
    // However that came about: all copies are to be looked at, and compared with each other.
    let pool = bench.open(small_cells(), &[]);
    let all: BTreeSet<DriveId> = (0..6).map(DriveId).collect();
    let lacking = pool.lacking(&segment, &all).unwrap();
    assert_eq!((lacking.bad.len(), lacking.unknown, lacking.looked_at), (0, 0, 3));
    let short = segment.stripes[0].drives[1];
    let at = bench.extent(&segment, 0, 1);
    let length = std::fs::metadata(&at).unwrap().len();
    std::fs::File::options().write(true).open(&at).unwrap().set_len(length - 4096).unwrap();
    let lacking = pool.lacking(&segment, &all).unwrap();
    assert_eq!(lacking.bad.iter().map(|bad| bad.drive).collect::<Vec<_>>(), [short]);
    // Where another copy is not there nothing can be said of those that are.
    pool.declare_lost(short).unwrap();
    let others: BTreeSet<DriveId> =
        segment.stripes[0].drives.iter().copied().filter(|it| *it != short).collect();
    assert_eq!(pool.lacking(&segment, &others).unwrap().unknown, 2);
}

fn bad_on(blob: &BlobDescription, drives: &BTreeSet<DriveId>) -> BTreeSet<BadShard> {
    let mut bad = BTreeSet::new();
    for (stripe, set) in (0..).zip(&blob.stripes) {
        for (shard, drive) in (0..).zip(&set.drives).filter(|(_, drive)| drives.contains(drive)) {
            bad.insert(BadShard { stripe, shard, drive: *drive });
        }
    }
    bad
}

/// All drives from one old copy agree with one another; the epoch, which the catalogue knows, tells.
#[test]
fn drives_that_are_all_old_are_known_by_the_epoch() {
    let mut bench = Bench::new(6);
    drop(bench.open(small_cells(), &[]));
    (0..6).for_each(|n| copy(&bench.path(n), &bench.path(n + 100)));
    drop(bench.open(small_cells(), &[]));
    for n in 0..6 {
        empty(&bench.path(n));
        copy(&bench.path(n + 100), &bench.path(n));
    }
    assert_eq!(gaps(&bench.open(small_cells(), &[])), [0, 1, 2, 3, 4, 5]);
}

/// A drive that was away for some starts is gone through as well, and one that is new to the pool.
#[test]
fn a_drive_that_was_away_is_gone_through() {
    let mut bench = Bench::new(7);
    assert!(gaps(&bench.open(small_cells(), &[])).is_empty(), "all are new");
    drop(bench.open(small_cells(), &[3]));
    let pool = bench.open(small_cells(), &[]);
    assert_eq!(gaps(&pool), [3]);
    pool.has_no_gaps(DriveId(3)).unwrap();
    assert!(gaps(&pool).is_empty());
    drop(pool);
    assert!(gaps(&bench.open(small_cells(), &[])).is_empty());
}

/// Put in again while the server runs.
#[test]
fn a_drive_that_is_put_in_again_is_gone_through() {
    let mut bench = Bench::new(7);
    let pool = bench.open(small_cells(), &[]);
    pool.declare_lost(DriveId(2)).unwrap();
    pool.stamp(5).unwrap();
    settled(&pool);
    let opened = loop {
        // Its threads let it go.
        match DirectoryDrive::open(&bench.path(2), INSTANCE, DriveId(2), DirectIo::Auto) {
            Ok(opened) => break opened,
            Err(_) => std::thread::yield_now(),
        }
    };
    pool.attach(Arc::new(opened), 5).unwrap();
    assert_eq!(gaps(&pool), [2]);
}

/// Whole, with a shard or copy less, with drives that are away, and gone.
#[test]
fn the_state_of_a_piece_is_what_a_read_would_find() {
    let mut bench = Bench::new(8);
    let pool = bench.open(small_cells(), &[]);
    let blob = put(&pool, &bytes(200_000, 1)).unwrap();
    let all = BlobPiece { blob: blob.id, offset: ByteCount(0), length: blob.length };
    let state = |pool: &Arc<Pool>, piece: &BlobPiece, depth| pool.verify_piece(&blob, piece, depth).unwrap();
    for depth in [Depth::Headers, Depth::Bytes] {
        assert_eq!(state(&pool, &all, depth), PieceState::Readable);
    }
    // An extent that exists and is too short, and one with a damaged last header: two are borne.
    let whole = fs::read(bench.extent(&blob, 0, 0)).unwrap();
    fs::write(bench.extent(&blob, 0, 0), &whole[..whole.len() - 4096]).unwrap();
    flip(&bench.extent(&blob, 0, 1), 3 * 12_288 + 20, 1);
    assert_eq!(state(&pool, &all, Depth::Headers), PieceState::Readable);
    fs::remove_file(bench.extent(&blob, 0, 2)).unwrap();
    assert_eq!(state(&pool, &all, Depth::Headers), PieceState::Gone);
    // A part that needs none of these.
    let part = BlobPiece { offset: ByteCount(3 * 8192), length: ByteCount(100), ..all };
    assert_eq!(state(&pool, &part, Depth::Headers), PieceState::Readable);
    fs::write(bench.extent(&blob, 0, 0), &whole).unwrap();
    // Bytes tell what headers do not.
    flip(&bench.extent(&blob, 0, 3), 3 * 12_288 + 4096 + 17, 1);
    assert_eq!(state(&pool, &all, Depth::Headers), PieceState::Readable);
    assert_eq!(state(&pool, &all, Depth::Bytes), PieceState::Gone);
    pool.close();
    drop(pool);
    // The same without a drive that may come back.
    let pool = bench.open(small_cells(), &[blob.stripes[0].drives[0].0]);
    assert_eq!(state(&pool, &all, Depth::Headers), PieceState::Waits);
    pool.declare_lost(blob.stripes[0].drives[0]).unwrap();
    assert_eq!(state(&pool, &all, Depth::Headers), PieceState::Gone);
}

/// Story: a value was deleted and its pages were given back, in a segment that other values keep alive. After
/// a restore of the catalogue the extent was there, so the value counted as there.
#[test]
fn a_value_that_was_punched_is_gone_although_its_extent_exists() {
    let mut bench = Bench::new(8);
    let pool = bench.open(small_cells(), &[]);
    let stored: Vec<_> = (0..3).map(|n| pool.put_small(&bytes(20_000, n)).unwrap()).collect();
    let (segment, victim) = stored[1].clone();
    let state = |piece: &BlobPiece| pool.verify_piece(&segment, piece, Depth::Headers).unwrap();
    assert_eq!(state(&victim), PieceState::Readable);
    pool.punch(&segment, &victim).unwrap();
    assert_eq!(state(&victim), PieceState::Gone);
    assert_eq!((state(&stored[0].1), state(&stored[2].1)), (PieceState::Readable, PieceState::Readable));
}

/// Story: the directory of a drive was moved away. The drive counted as up until somebody read from it, and
/// the room of the file system that it had stood on as its own.
#[test]
fn who_asks_for_the_state_of_drives_sees_that_one_is_gone() {
    let mut bench = Bench::new(6);
    let pool = bench.open(small_cells(), &[]);
    let there = bench.path(102);
    fs::rename(bench.path(2), &there).unwrap();
    let status = pool.status();
    // And is not told twice which one it is.
    let DriveHealth::Away { reason } = &status.drives[2].health else { panic!("{:?}", status.drives[2]) };
    assert!(reason.starts_with(bench.path(2).to_str().unwrap()), "{reason}");
    assert!(status.drives.iter().filter(|drive| drive.health == DriveHealth::Up).count() == 5);
    fs::rename(there, bench.path(2)).unwrap();
    assert_eq!(pool.probe_drive(DriveId(2)), DriveHealth::Up);
}

/// Story: a new drive in the place of another one was read before it was filled. Each shard that it had not
/// got yet was counted as its error.
#[test]
fn what_a_drive_that_is_filled_lacks_is_no_error_of_it() {
    let mut bench = Bench::new(6);
    let value = bytes(30_000, 1);
    let pool = bench.open(small_cells(), &[]);
    let blob = put(&pool, &value).unwrap();
    let first = blob.stripes[0].drives[0];
    drop(pool);
    for is_filling in [true, false] {
        fs::remove_dir_all(bench.path(first.0)).unwrap();
        DirectoryDrive::format(&bench.path(first.0), INSTANCE, first).unwrap();
        let pool = bench.open(small_cells(), &[]);
        pool.set_filling(first, is_filling);
        assert!(get(&pool, &blob).unwrap() == value);
        let errors = pool.status().drives[usize::from(first.0)].errors;
        assert_eq!(errors == 0, is_filling, "{errors}");
        drop(pool);
    }
}
