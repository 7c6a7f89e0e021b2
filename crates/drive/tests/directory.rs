//! The directory drive against a real file system.

use std::fs;
use std::path::Path;

use base::{BlobId, ByteCount, DriveId, Epoch, Uuid};
use drive::{
    AlignedBuffer, DirectIo, DirectoryDrive, DirectoryLock, DriveError, DriveOpenError, ExtentId,
    ObjectDrive, PAGE, SECTOR, SharedPage,
};

const INSTANCE: Uuid = Uuid([1; 16]);
const ID: DriveId = DriveId(4);

fn open(path: &Path) -> Result<DirectoryDrive, DriveOpenError> {
    DirectoryDrive::open(path, INSTANCE, ID, DirectIo::Auto)
}

fn fresh() -> (tempfile::TempDir, DirectoryDrive) {
    let directory = tempfile::tempdir().unwrap();
    DirectoryDrive::format(directory.path(), INSTANCE, ID).unwrap();
    let drive = open(directory.path()).unwrap();
    (directory, drive)
}

fn extent(blob: u64, shard: u8) -> ExtentId {
    ExtentId { blob: BlobId(blob), stripe: 0, shard }
}

fn pages(count: usize, fill: u8) -> AlignedBuffer {
    let mut buffer = AlignedBuffer::new(count * PAGE);
    buffer.as_mut_slice().fill(fill);
    buffer
}

#[test]
fn what_is_written_can_be_read() {
    let (directory, drive) = fresh();
    let id = extent(7, 1);
    let mut writer = drive.create(id, ByteCount::kib(64)).unwrap();
    writer.append(pages(2, 5).as_slice()).unwrap();
    // Bytes at an odd address are copied, not refused.
    writer.append(&pages(2, 6).as_slice()[1..=PAGE]).unwrap();
    assert!(matches!(writer.append(&[0; 100]), Err(DriveError::Unaligned { length: 100, .. })));
    let mut read = pages(3, 0);
    drive.read_at(id, ByteCount(0), read.as_mut_slice()).unwrap();
    assert!(read.as_slice()[..2 * PAGE].iter().all(|b| *b == 5));
    assert!(read.as_slice()[2 * PAGE..].iter().all(|b| *b == 6));
    writer.seal().unwrap();
    let mut odd = [0u8; 10];
    drive.read_at(id, ByteCount(2 * PAGE as u64 - 5), &mut odd).unwrap();
    assert_eq!(odd, [5, 5, 5, 5, 5, 6, 6, 6, 6, 6]);
    let file = directory.path().join("extents/07").join(id.to_string());
    assert_eq!(fs::metadata(file).unwrap().len(), 3 * PAGE as u64);
    let beyond = drive.read_at(id, ByteCount(3 * PAGE as u64), &mut odd);
    assert!(matches!(beyond, Err(DriveError::Truncated { .. })));
}

#[test]
fn extents_are_never_overwritten_and_deleted_for_good() {
    let (_directory, drive) = fresh();
    let id = extent(7, 1);
    drive.create(id, ByteCount(0)).unwrap().seal().unwrap();
    assert!(matches!(drive.create(id, ByteCount(0)), Err(DriveError::Exists { .. })));
    drive.delete(id).unwrap();
    drive.delete(id).unwrap();
    assert!(matches!(drive.read_at(id, ByteCount(0), &mut [0]), Err(DriveError::NotFound { .. })));
    assert!(matches!(drive.punch(id, ByteCount(0), ByteCount(1)), Err(DriveError::NotFound { .. })));
}

#[test]
fn holes_read_as_zeros_and_neighbours_stay() {
    let (_directory, drive) = fresh();
    let id = extent(7, 1);
    let mut writer = drive.create(id, ByteCount(0)).unwrap();
    writer.append(pages(3, 9).as_slice()).unwrap();
    writer.seal().unwrap();
    let page = PAGE as u64;
    drive.punch(id, ByteCount(page), ByteCount(page)).unwrap();
    drive.punch(id, ByteCount(page), ByteCount(page)).unwrap();
    let mut read = pages(3, 1);
    drive.read_at(id, ByteCount(0), read.as_mut_slice()).unwrap();
    let sums: Vec<u32> =
        read.as_slice().chunks(PAGE).map(|page| page.iter().map(|b| u32::from(*b)).sum()).collect();
    assert_eq!((sums[0], sums[2]), (9 * PAGE as u32, 9 * PAGE as u32));
    assert!(sums[1] == 0 || sums[1] == 9 * PAGE as u32, "a hole, or left as it was");
}

#[test]
fn a_page_is_given_back_only_if_nothing_of_others_is_in_it() {
    let (_directory, drive) = fresh();
    let id = extent(7, 1);
    let mut writer = drive.create(id, ByteCount(0)).unwrap();
    let mut written = pages(400, 0);
    // Of each page the first sector is somebody's but for every third; the last two are nobody's.
    for (n, page) in written.as_mut_slice().chunks_mut(PAGE).enumerate() {
        page[6 * SECTOR..].fill(7);
        page[0] = u8::from(n % 3 != 0);
    }
    writer.append(written.as_slice()).unwrap();
    writer.seal().unwrap();
    let asked = |unneeded| -> Vec<SharedPage> {
        let numbers = (0..500).filter(|n| *n != 9);
        numbers.map(|number| SharedPage { number, unneeded }).collect()
    };
    assert_eq!(
        drive.punch_unneeded(id, &asked(0b1000_0000)).unwrap(),
        [0; 0],
        "a sector of the two is needed"
    );
    let before = drive.allocated(id).unwrap();
    let given_back = drive.punch_unneeded(id, &asked(0b1100_0000)).unwrap();
    // The run that ends behind the end of the extent is left alone.
    let expected: Vec<u32> = (0..266).filter(|n| n % 3 == 0 && *n != 9).collect();
    assert_eq!(given_back, expected);
    let mut read = pages(400, 1);
    drive.read_at(id, ByteCount(0), read.as_mut_slice()).unwrap();
    let is_hole = |n: usize| given_back.contains(&(n as u32));
    for (n, (read, was)) in read.as_slice().chunks(PAGE).zip(written.as_slice().chunks(PAGE)).enumerate() {
        assert!(if is_hole(n) { read.iter().all(|byte| *byte == 0) } else { read == was }, "page {n}");
    }
    let given = before.0 - drive.allocated(id).unwrap().0;
    // The holes of a file take a block of ext4's own.
    let own = (given_back.len() * PAGE) as u64 - given;
    assert!(own == 0 || own == PAGE as u64, "{given} bytes of {} pages", given_back.len());
    assert!(matches!(drive.punch_unneeded(extent(8, 1), &asked(255)), Err(DriveError::NotFound { .. })));
}

/// What a crash leaves of an extent that was being written.
#[test]
fn what_is_reserved_behind_the_end_is_given_back() {
    let (directory, drive) = fresh();
    let id = extent(7, 1);
    let mut writer = drive.create(id, ByteCount::mib(8)).unwrap();
    writer.append(pages(3, 9).as_slice()).unwrap();
    writer.sync().unwrap();
    drop(writer);
    drop(drive);
    let drive = open(directory.path()).unwrap();
    assert!(drive.allocated(id).unwrap() >= ByteCount::mib(8), "this file system reserves");
    drive.trim(id).unwrap();
    drive.trim(id).unwrap();
    assert!(drive.allocated(id).unwrap() <= ByteCount::kib(64));
    assert_eq!(drive.length(id).unwrap(), ByteCount(3 * PAGE as u64));
    let mut read = pages(3, 0);
    drive.read_at(id, ByteCount(0), read.as_mut_slice()).unwrap();
    assert!(read.as_slice().iter().all(|byte| *byte == 9));
    assert!(matches!(drive.trim(extent(8, 1)), Err(DriveError::NotFound { .. })));
}

#[test]
fn listing_goes_through_all_extents_once() {
    let (directory, drive) = fresh();
    let mut all: Vec<ExtentId> = (0..600u64).map(|n| extent(n * 77, (n % 3) as u8)).collect();
    for id in &all {
        drop(drive.create(*id, ByteCount(0)).unwrap());
    }
    fs::write(directory.path().join("extents/00/foreign"), b"x").unwrap();
    all.sort_unstable();
    let mut listed = Vec::new();
    loop {
        let page = drive.list(listed.last().copied(), 7).unwrap();
        assert!(page.len() <= 7);
        if page.is_empty() {
            break;
        }
        listed.extend(page);
    }
    assert_eq!(listed, all);
}

#[test]
fn a_drive_is_opened_once() {
    let (directory, drive) = fresh();
    assert!(matches!(open(directory.path()), Err(DriveOpenError::Locked(_))));
    drop(drive);
    assert!(open(directory.path()).is_ok());
}

#[test]
fn the_stamp_survives() {
    let (directory, drive) = fresh();
    assert_eq!((drive.stamp().epoch, drive.stamp().commit), (Epoch(0), 0));
    drive.set_stamp(Epoch(3), 99).unwrap();
    drop(drive);
    let stamp = open(directory.path()).unwrap().stamp();
    assert_eq!((stamp.instance, stamp.drive, stamp.epoch, stamp.commit), (INSTANCE, ID, Epoch(3), 99));
}

/// Story: a server was killed while it made a drive; the directory was "not empty" from then on.
#[test]
fn what_a_kill_has_left_of_a_new_drive_is_made_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let format = || DirectoryDrive::format(path, INSTANCE, ID);
    fs::create_dir_all(path.join("extents/00")).unwrap();
    fs::create_dir(path.join("extents/01")).unwrap();
    fs::write(path.join("drive.copy.new"), "half").unwrap();
    for foreign in ["extents/00/file", "extents/file", "mine", "drive.copy", "unfilled.kist"] {
        fs::write(path.join(foreign), "x").unwrap();
        assert!(matches!(format(), Err(DriveOpenError::NotEmpty(_))), "{foreign}");
        fs::remove_file(path.join(foreign)).unwrap();
    }
    // One that takes the place of another stays one that is not filled.
    fs::write(path.join("unfilled.kist"), "").unwrap();
    DirectoryDrive::format_unfilled(path, INSTANCE, ID).unwrap();
    assert!(DirectoryDrive::is_unfilled(path));
    fs::remove_file(path.join("drive.kist")).unwrap();
    fs::remove_file(path.join("drive.copy")).unwrap();
    DirectoryDrive::set_filled(path).unwrap();
    format().unwrap();
    assert!(!DirectoryDrive::is_unfilled(path));
    drop(open(path).unwrap());
}

/// Story: a directory became a drive while its disk was burnt in.
#[test]
fn no_drive_is_made_of_a_directory_that_somebody_has() {
    let directory = tempfile::tempdir().unwrap();
    let format = || DirectoryDrive::format(directory.path(), INSTANCE, ID);
    let lock = DirectoryLock::take(directory.path()).unwrap();
    assert!(matches!(format(), Err(DriveOpenError::Locked(_))));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is there of it");
    drop(lock);
    format().unwrap();
}

#[test]
fn wrong_drives_are_refused() {
    let (directory, drive) = fresh();
    drop(drive);
    let path = directory.path();
    let other = DirectoryDrive::open(path, Uuid([2; 16]), ID, DirectIo::Off);
    assert!(matches!(other, Err(DriveOpenError::OtherInstance { .. })));
    let other = DirectoryDrive::open(path, INSTANCE, DriveId(5), DirectIo::Off);
    assert!(matches!(other, Err(DriveOpenError::OtherDrive { .. })));
    let again = DirectoryDrive::format(path, INSTANCE, ID);
    assert!(matches!(again, Err(DriveOpenError::NotEmpty(_))));
    let pages = [path.join("drive.kist"), path.join("drive.copy")];
    let whole = fs::read(&pages[0]).unwrap();
    let mut bytes = whole.clone();
    bytes[40] ^= 1;
    let write = |first: &[u8], copy: &[u8]| {
        fs::write(&pages[0], first).unwrap();
        fs::write(&pages[1], copy).unwrap();
    };
    // One damaged page of two costs nothing.
    write(&bytes, &whole);
    open(path).unwrap();
    write(&whole, &bytes);
    open(path).unwrap();
    write(&bytes, &bytes);
    assert!(matches!(open(path), Err(DriveOpenError::Damaged(_))));
    write(&bytes[..100], &bytes);
    assert!(matches!(open(path), Err(DriveOpenError::Damaged(_))));
    pages.iter().for_each(|page| fs::remove_file(page).unwrap());
    assert!(matches!(open(path), Err(DriveOpenError::NotADrive(_))));
}

#[test]
fn damaged_and_old_superblocks_are_found_and_written_anew() {
    let (directory, drive) = fresh();
    let old = fs::read(directory.path().join("drive.kist")).unwrap();
    drive.set_stamp(Epoch(3), 99).unwrap();
    drive.check_stamp().unwrap();
    for page in ["drive.kist", "drive.copy"] {
        fs::write(directory.path().join(page), &old).unwrap();
        assert!(matches!(drive.check_stamp(), Err(DriveError::StampDamaged { .. })), "{page}");
        drive.set_stamp(Epoch(3), 99).unwrap();
        drive.check_stamp().unwrap();
    }
    // Both at once, where the extents are the same as ever; not where they are others.
    let damage = || {
        for page in ["drive.kist", "drive.copy"] {
            let mut bytes = fs::read(directory.path().join(page)).unwrap();
            bytes[40] ^= 1;
            fs::write(directory.path().join(page), bytes).unwrap();
        }
    };
    damage();
    drive.set_stamp(Epoch(3), 99).unwrap();
    drive.check_stamp().unwrap();
    assert_eq!(drive.stamp().gaps_after, None);
    damage();
    fs::rename(directory.path().join("extents"), directory.path().join("others")).unwrap();
    fs::create_dir(directory.path().join("extents")).unwrap();
    assert!(matches!(drive.set_stamp(Epoch(3), 99), Err(DriveError::Stamp { .. })));
}

fn superblocks(path: &Path) -> Vec<bool> {
    ["drive.kist", "drive.copy", "drive.kist.new"].iter().map(|page| path.join(page).exists()).collect()
}

/// Story: a drive was emptied while the server ran. The next stamp wrote its superblock anew, into an empty
/// directory, and at the next start it counted as a drive that held all it should.
#[test]
fn a_drive_that_was_emptied_is_not_stamped() {
    let (directory, drive) = fresh();
    let path = directory.path();
    drive.set_stamp(Epoch(3), 99).unwrap();
    drive.check_place().unwrap();
    let is_wiped = |found: Result<(), DriveError>| matches!(found, Err(DriveError::Wiped { .. }));
    // The extents alone are gone.
    fs::rename(path.join("extents"), path.join("elsewhere")).unwrap();
    assert!(is_wiped(drive.check_place()) && is_wiped(drive.set_stamp(Epoch(3), 100)));
    fs::rename(path.join("elsewhere"), path.join("extents")).unwrap();
    drive.set_stamp(Epoch(3), 100).unwrap();
    // All of it.
    for entry in fs::read_dir(path).unwrap() {
        let entry = entry.unwrap().path();
        if entry.is_dir() { fs::remove_dir_all(entry).unwrap() } else { fs::remove_file(entry).unwrap() }
    }
    assert!(is_wiped(drive.check_place()) && is_wiped(drive.set_stamp(Epoch(3), 101)));
    assert!(is_wiped(drive.set_gaps(Some(1))) && drive.probe().is_err());
    assert_eq!(superblocks(path), [false; 3], "nothing was written");
    assert_eq!(drive.stamp().commit, 100);
    // Another drive's superblock is not written over.
    let other = tempfile::tempdir().unwrap();
    DirectoryDrive::format(other.path(), INSTANCE, DriveId(5)).unwrap();
    for page in ["drive.kist", "drive.copy"] {
        fs::copy(other.path().join(page), path.join(page)).unwrap();
    }
    fs::create_dir(path.join("extents")).unwrap();
    assert!(is_wiped(drive.set_stamp(Epoch(3), 101)));
    assert_eq!(DirectoryDrive::read_stamp(path).unwrap().drive, DriveId(5));
}

/// Another directory at the path may be a disk that is not mounted: the drive is not there, and not gone.
#[test]
fn a_stamp_goes_nowhere_else() {
    let (directory, drive) = fresh();
    let outer = tempfile::tempdir().unwrap();
    let (path, kept) = (directory.path(), outer.path().join("kept"));
    fs::rename(path, &kept).unwrap();
    let is_away = |found: Result<(), DriveError>| matches!(found, Err(DriveError::NotThere { .. }));
    assert!(is_away(drive.check_place()) && is_away(drive.set_stamp(Epoch(3), 1)));
    // Even a drive of the same number, that another process made there.
    DirectoryDrive::format(path, INSTANCE, ID).unwrap();
    assert!(is_away(drive.check_place()) && is_away(drive.set_stamp(Epoch(3), 1)));
    assert_eq!(DirectoryDrive::read_stamp(path).unwrap().commit, 0);
    fs::remove_dir_all(path).unwrap();
    fs::rename(&kept, path).unwrap();
    drive.set_stamp(Epoch(3), 1).unwrap();
    assert_eq!(drive.stamp().gaps_after, None);
    // A directory that was removed is like one whose disk is not mounted.
    fs::remove_dir_all(path).unwrap();
    assert!(is_away(drive.set_stamp(Epoch(3), 2)));
    fs::create_dir(path).unwrap();
    assert!(is_away(drive.set_stamp(Epoch(3), 2)));
}

/// Story: a disk was pulled, and put into another slot. XFS did not mount it again as long as the server held
/// the directory of the former mount open: "Filesystem has duplicate UUID".
#[test]
fn what_is_on_another_file_system_now_is_let_go_and_locked_again_when_it_is_back() {
    let directory = tempfile::tempdir().unwrap();
    let (disk, place) = (directory.path().join("disk"), directory.path().join("place"));
    DirectoryDrive::format(&disk, INSTANCE, ID).unwrap();
    // A link is moved for want of a mount.
    let mount = |target: &Path| {
        let _ = fs::remove_file(&place);
        std::os::unix::fs::symlink(target, &place).unwrap();
    };
    mount(&disk);
    let drive = open(&place).unwrap();
    let is_locked = || matches!(DirectoryLock::take(&disk), Err(DriveOpenError::Locked(_)));
    let looks: [fn(&DirectoryDrive) -> bool; 2] =
        [|drive| drive.check_place().is_err(), |drive| drive.status().is_err()];
    for look in looks {
        mount(Path::new("/proc"));
        assert!(is_locked(), "nobody has looked yet");
        assert!(look(&drive));
        assert!(!is_locked(), "nothing of it is held");
        mount(&disk);
        assert!(!is_locked() && look(&drive), "only a probe takes it back");
        drive.probe().unwrap();
        assert!(is_locked() && !look(&drive));
    }
    // Of one whose directory opens, the superblock alone may be damaged; one that was moved may be put back.
    let pages = ["drive.kist", "drive.copy"];
    pages.iter().for_each(|page| fs::write(disk.join(page), b"damaged").unwrap());
    assert!(drive.probe().is_err() && is_locked());
    fs::rename(&disk, directory.path().join("moved")).unwrap();
    assert!(drive.check_place().is_err());
    fs::rename(directory.path().join("moved"), &disk).unwrap();
    assert!(is_locked());
}

/// Story: a drive was put back from an hour-old copy while in use. The next stamp made it as new as the
/// others.
#[test]
fn an_older_superblock_is_noticed_and_remembered() {
    let (directory, drive) = fresh();
    let path = directory.path();
    let pages = ["drive.kist", "drive.copy"];
    // Of two pages one may be another drive's.
    let other = tempfile::tempdir().unwrap();
    DirectoryDrive::format(other.path(), INSTANCE, DriveId(9)).unwrap();
    fs::copy(other.path().join(pages[0]), path.join(pages[0])).unwrap();
    drive.check_place().unwrap();
    drive.set_stamp(Epoch(3), 50).unwrap();
    let old = pages.map(|page| fs::read(path.join(page)).unwrap());
    let put_back = || pages.iter().zip(&old).for_each(|(page, old)| fs::write(path.join(page), old).unwrap());
    drive.set_stamp(Epoch(3), 99).unwrap();
    put_back();
    drive.set_stamp(Epoch(3), 120).unwrap();
    assert_eq!((drive.stamp().commit, drive.stamp().gaps_after), (120, Some(50)));
    drop(drive);
    let drive = open(path).unwrap();
    assert_eq!(drive.stamp().gaps_after, Some(50), "the next start knows it too");
    drive.set_stamp(Epoch(4), 130).unwrap();
    assert_eq!(drive.stamp().gaps_after, Some(50));
    drive.set_gaps(None).unwrap();
    assert_eq!((drive.stamp().commit, drive.stamp().gaps_after), (130, None));
    // A probe notices it as well.
    put_back();
    drive.probe().unwrap();
    assert_eq!((drive.stamp().commit, drive.stamp().gaps_after), (130, Some(50)));
}

/// Story: an extent was removed with its directory while it was written, synced by its open file, and
/// acknowledged.
#[test]
fn an_extent_that_lost_its_name_is_not_acknowledged() {
    let (directory, drive) = fresh();
    let id = extent(7, 1);
    let mut writer = drive.create(id, ByteCount(0)).unwrap();
    writer.append(pages(1, 1).as_slice()).unwrap();
    writer.sync().unwrap();
    fs::remove_file(directory.path().join("extents/07").join(id.to_string())).unwrap();
    writer.append(pages(1, 1).as_slice()).unwrap();
    assert!(matches!(writer.sync(), Err(DriveError::Io { operation: "sync", .. })));
    assert!(writer.seal().is_err());
}

#[test]
fn the_length_of_an_extent_is_what_was_appended() {
    let (_directory, drive) = fresh();
    let id = extent(7, 1);
    assert!(matches!(drive.length(id), Err(DriveError::NotFound { .. })));
    let mut writer = drive.create(id, ByteCount::mib(1)).unwrap();
    writer.append(pages(3, 1).as_slice()).unwrap();
    assert_eq!(drive.length(id).unwrap(), ByteCount(3 * PAGE as u64));
}

#[test]
fn a_replacement_takes_the_place_when_it_is_sealed_and_not_before() {
    let (directory, drive) = fresh();
    let id = ExtentId { blob: BlobId(7), stripe: 0, shard: 1 };
    let put = |fill: u8, seal: bool| {
        let mut writer = drive.replace(id, ByteCount(8192)).unwrap();
        writer.append(&[fill; 4096]).unwrap();
        if seal {
            writer.seal().unwrap();
        }
    };
    let get = || {
        let mut page = [0; 4096];
        drive.read_at(id, ByteCount(0), &mut page).map(|()| page[0])
    };
    put(1, false);
    assert!(matches!(get(), Err(DriveError::NotFound { .. })));
    put(2, true);
    assert_eq!(get().unwrap(), 2);
    put(3, false);
    assert_eq!(get().unwrap(), 2);
    put(4, true);
    assert_eq!(get().unwrap(), 4);
    assert_eq!(drive.list(None, 10).unwrap(), [id]);
    // What a crash leaves behind goes when the drive is opened.
    let left = directory.path().join("replacements/0000000000000007.0.1");
    fs::write(&left, [0; 10]).unwrap();
    drop(drive);
    let drive = open(directory.path()).unwrap();
    assert!(!left.exists());
    assert_eq!(drive.list(None, 10).unwrap(), [id]);
}

#[test]
fn a_probe_tells_whether_this_drive_works() {
    let (directory, drive) = fresh();
    drive.probe().unwrap();
    let moved = directory.path().join("../moved-away");
    let _ = fs::remove_dir_all(&moved);
    fs::create_dir(&moved).unwrap();
    for page in ["drive.kist", "drive.copy"] {
        fs::rename(directory.path().join(page), moved.join(page)).unwrap();
    }
    assert!(matches!(drive.probe(), Err(DriveError::Probe { .. })));
    for page in ["drive.kist", "drive.copy"] {
        fs::rename(moved.join(page), directory.path().join(page)).unwrap();
    }
    fs::remove_dir(&moved).unwrap();
    drive.probe().unwrap();
}

#[test]
fn space_is_told() {
    let (_directory, drive) = fresh();
    let status = drive.status().unwrap();
    assert!(status.capacity >= status.used && status.capacity >= status.free && status.capacity.0 > 0);
    assert!(!status.suspect);
}
