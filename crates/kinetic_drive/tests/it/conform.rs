//! What `drive/tests/directory.rs` demands of a directory holds here, too.

use base::{BlobId, ByteCount, DriveId, Epoch, Uuid};
use drive::{DriveError, DriveOpenError, ExtentId, ObjectDrive, PAGE, SECTOR, SharedPage};
use kinetic_drive::KineticDrive;

use crate::serving::Served;
use crate::{ID, INSTANCE, count_at_rest, extent, fresh, open, place};

fn pages(count: usize, fill: u8) -> Vec<u8> {
    vec![fill; count * PAGE]
}

#[test]
fn what_is_written_can_be_read() {
    let (served, drive) = fresh();
    let id = extent(7, 1);
    let mut writer = drive.create(id, ByteCount::kib(64)).unwrap();
    writer.append(&pages(2, 5)).unwrap();
    writer.append(&pages(300, 6)).unwrap();
    assert!(matches!(writer.append(&[0; 100]), Err(DriveError::Unaligned { length: 100, .. })));
    let mut read = pages(302, 0);
    drive.read_at(id, ByteCount(0), &mut read).unwrap();
    assert!(read[..2 * PAGE].iter().all(|b| *b == 5) && read[2 * PAGE..].iter().all(|b| *b == 6));
    assert_eq!(drive.length(id).unwrap(), ByteCount(302 * PAGE as u64));
    writer.seal().unwrap();
    let (mut odd, page) = ([0u8; 10], PAGE as u64);
    drive.read_at(id, ByteCount(2 * page - 5), &mut odd).unwrap();
    assert_eq!(odd, [5, 5, 5, 5, 5, 6, 6, 6, 6, 6]);
    let beyond = drive.read_at(id, ByteCount(302 * page), &mut odd);
    assert!(matches!(beyond, Err(DriveError::Truncated { .. })));
    // Another process, which knows nothing of it, reads the same.
    let other = open(&served);
    other.read_at(id, ByteCount(2 * page - 5), &mut odd).unwrap();
    assert_eq!(odd, [5, 5, 5, 5, 5, 6, 6, 6, 6, 6]);
    assert_eq!(other.length(id).unwrap(), ByteCount(302 * page));
}

#[test]
fn extents_are_never_overwritten_and_deleted_for_good() {
    let (served, drive) = fresh();
    let id = extent(7, 1);
    let before = served.drive(|drive| drive.count());
    let mut writer = drive.create(id, ByteCount(0)).unwrap();
    writer.append(&pages(600, 1)).unwrap();
    writer.seal().unwrap();
    assert!(matches!(drive.create(id, ByteCount(0)), Err(DriveError::Exists { .. })));
    assert!(matches!(open(&served).create(id, ByteCount(0)), Err(DriveError::Exists { .. })));
    drive.delete(id).unwrap();
    drive.delete(id).unwrap();
    assert!(matches!(drive.read_at(id, ByteCount(0), &mut [0]), Err(DriveError::NotFound { .. })));
    assert!(matches!(drive.punch(id, ByteCount(0), ByteCount(1)), Err(DriveError::NotFound { .. })));
    assert_eq!(served.drive(|drive| drive.count()), before, "nothing is left of it");
}

#[test]
fn holes_read_as_zeros_and_neighbours_stay() {
    let (_served, drive) = fresh();
    let id = extent(7, 1);
    let mut writer = drive.create(id, ByteCount(0)).unwrap();
    writer.append(&pages(600, 9)).unwrap();
    writer.seal().unwrap();
    let page = PAGE as u64;
    // Over the border of two pieces, and twice.
    for _ in 0..2 {
        drive.punch(id, ByteCount(80 * page), ByteCount(20 * page)).unwrap();
    }
    let mut read = pages(600, 1);
    drive.read_at(id, ByteCount(0), &mut read).unwrap();
    for (number, bytes) in read.chunks(PAGE).enumerate() {
        let expected = if (80..100).contains(&number) { 0 } else { 9 };
        assert!(bytes.iter().all(|byte| *byte == expected), "page {number}");
    }
    assert_eq!(drive.allocated(id).unwrap(), ByteCount(580 * page));
    assert_eq!(drive.length(id).unwrap(), ByteCount(600 * page));
    drive.punch(id, ByteCount(0), ByteCount(600 * page)).unwrap();
    assert_eq!(drive.allocated(id).unwrap(), ByteCount(0));
    drive.read_at(id, ByteCount(0), &mut read).unwrap();
    assert!(read.iter().all(|byte| *byte == 0));
}

#[test]
fn a_page_is_given_back_only_if_nothing_of_others_is_in_it() {
    let (_served, drive) = fresh();
    let id = extent(7, 1);
    let mut writer = drive.create(id, ByteCount(0)).unwrap();
    let mut written = pages(400, 0);
    for (n, page) in written.chunks_mut(PAGE).enumerate() {
        page[6 * SECTOR..].fill(7);
        page[0] = u8::from(n % 3 != 0);
    }
    writer.append(&written).unwrap();
    writer.seal().unwrap();
    let asked = |unneeded| -> Vec<SharedPage> {
        let numbers = (0..500).filter(|n| *n != 9);
        numbers.map(|number| SharedPage { number, unneeded }).collect()
    };
    assert_eq!(drive.punch_unneeded(id, &asked(0b1000_0000)).unwrap(), [0; 0]);
    let before = drive.allocated(id).unwrap();
    let given_back = drive.punch_unneeded(id, &asked(0b1100_0000)).unwrap();
    let expected: Vec<u32> = (0..400).filter(|n| n % 3 == 0 && *n != 9).collect();
    assert_eq!(given_back, expected);
    let mut read = pages(400, 1);
    drive.read_at(id, ByteCount(0), &mut read).unwrap();
    for (n, (read, was)) in read.chunks(PAGE).zip(written.chunks(PAGE)).enumerate() {
        let is_hole = given_back.contains(&(n as u32));
        assert!(if is_hole { read.iter().all(|byte| *byte == 0) } else { read == was }, "page {n}");
    }
    let given = before.0 - drive.allocated(id).unwrap().0;
    assert_eq!(given, (given_back.len() * PAGE) as u64);
    assert!(matches!(drive.punch_unneeded(extent(8, 1), &asked(255)), Err(DriveError::NotFound { .. })));
}

#[test]
fn listing_goes_through_all_extents_once() {
    let (_served, drive) = fresh();
    let mut all: Vec<ExtentId> = (0..40u64)
        .map(|n| ExtentId { blob: BlobId(n * 0x51), stripe: n as u32 % 3, shard: n as u8 % 2 })
        .collect();
    for (n, id) in all.iter().enumerate() {
        let mut writer = drive.create(*id, ByteCount(0)).unwrap();
        for _ in 0..n * 11 % 300 {
            writer.append(&pages(1, 1)).unwrap();
        }
        writer.seal().unwrap();
    }
    all.sort_unstable();
    for limit in [1, 3, 7, 100] {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let some = drive.list(after, limit).unwrap();
            assert!(some.len() <= limit);
            after = some.last().copied().or(after);
            if some.is_empty() {
                break;
            }
            found.extend(some);
        }
        assert_eq!(found, all, "in steps of {limit}");
    }
}

#[test]
fn the_stamp_survives_and_wrong_drives_are_refused() {
    let (served, drive) = fresh();
    drive.set_stamp(Epoch(3), 77).unwrap();
    drive.set_gaps(Some(5)).unwrap();
    drive.check_stamp().unwrap();
    drive.check_place().unwrap();
    drop(drive);
    let drive = open(&served);
    let stamp = drive.stamp();
    assert_eq!((stamp.epoch, stamp.commit, stamp.gaps_after), (Epoch(3), 77, Some(5)));
    assert_eq!(place(&served).read_stamp().unwrap(), stamp);
    let other = KineticDrive::open(&place(&served), Uuid([2; 16]), ID).err().unwrap();
    assert!(matches!(other, DriveOpenError::OtherInstance { .. }));
    let other = KineticDrive::open(&place(&served), INSTANCE, DriveId(5)).err().unwrap();
    assert!(matches!(other, DriveOpenError::OtherDrive { .. }));
    let again = place(&served).format(INSTANCE, ID, false).err().unwrap();
    assert!(matches!(again, DriveOpenError::NotEmpty(_)));
    let empty = Served::new("empty");
    let none = KineticDrive::open(&place(&empty), INSTANCE, ID).err().unwrap();
    assert!(matches!(none, DriveOpenError::NotADrive(_)));
    assert!(place(&empty).is_vacant().unwrap() && !place(&served).is_vacant().unwrap());
}

#[test]
fn damaged_and_lost_superblocks_are_found() {
    let (served, drive) = fresh();
    drive.set_stamp(Epoch(1), 1).unwrap();
    served.drive(|drive| drive.spoil(b"kist/drive"));
    assert!(matches!(drive.check_stamp(), Err(DriveError::StampDamaged { .. })));
    drive.check_place().unwrap();
    drive.set_stamp(Epoch(1), 2).unwrap();
    drive.check_stamp().unwrap();
    assert_eq!(open(&served).stamp().commit, 2);
    // The device is erased by somebody.
    served.erase();
    assert!(matches!(drive.check_place(), Err(DriveError::Wiped { .. })));
    assert!(matches!(drive.set_stamp(Epoch(1), 3), Err(DriveError::Wiped { .. })));
    assert!(drive.probe().is_err());
    assert_eq!(served.drive(|drive| drive.count()), 0, "nothing is written to what is not this drive");
}

#[test]
fn a_drive_that_takes_a_place_is_unfilled_until_that_is_said() {
    let served = Served::new("drive");
    place(&served).format(INSTANCE, ID, true).unwrap();
    assert!(place(&served).is_unfilled());
    place(&served).set_filled().unwrap();
    assert!(!place(&served).is_unfilled());
    open(&served);
}

#[test]
fn a_server_of_an_earlier_epoch_is_fenced() {
    let (served, old) = fresh();
    old.set_stamp(Epoch(1), 1).unwrap();
    let id = extent(1, 0);
    let mut writer = old.create(id, ByteCount(0)).unwrap();
    writer.append(&pages(1, 1)).unwrap();
    let new = open(&served);
    new.set_stamp(Epoch(2), 1).unwrap();
    for error in [
        writer.append(&pages(1, 1)).err(),
        old.create(extent(2, 0), ByteCount(0)).err(),
        old.read_at(id, ByteCount(0), &mut [0]).err(),
        old.delete(id).err(),
        old.list(None, 1).err(),
        old.set_stamp(Epoch(1), 2).err(),
        old.check_place().err(),
    ] {
        assert!(matches!(error, Some(DriveError::Fenced { epoch: 2, .. })), "{error:?}");
    }
    assert!(writer.seal().is_err());
    // It may not take the drive back, nor find its way in by a new connection.
    served.cut_now();
    assert!(matches!(old.set_stamp(Epoch(1), 3), Err(DriveError::Fenced { .. })));
    assert!(old.probe().is_err());
    assert_eq!(new.list(None, 9).unwrap(), [id]);
    new.read_at(id, ByteCount(0), &mut [0]).unwrap();
    assert_eq!(new.stamp().epoch, Epoch(2));
}

#[test]
fn a_replacement_takes_the_place_when_it_is_sealed_and_not_before() {
    let (served, drive) = fresh();
    let id = extent(7, 1);
    let count = || served.drive(|drive| drive.count());
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
    let before = count();
    put(1, false);
    assert!(matches!(get(), Err(DriveError::NotFound { .. })));
    put(2, true);
    assert_eq!(get().unwrap(), 2);
    put(3, false);
    assert_eq!(get().unwrap(), 2);
    put(4, true);
    assert_eq!(get().unwrap(), 4);
    assert_eq!(drive.list(None, 10).unwrap(), [id]);
    assert_eq!(count_at_rest(&served, &drive, before + 2), before + 2, "a head and a piece");
    // What a kill leaves behind goes when the drive is opened.
    let mut writer = drive.replace(id, ByteCount(0)).unwrap();
    writer.append(&pages(300, 5)).unwrap();
    served.refuse(true);
    drop(writer);
    drop(drive);
    served.refuse(false);
    assert!(count() > before + 2, "something is left");
    let drive = open(&served);
    assert_eq!(count(), before + 2);
    let mut page = [0; 4096];
    drive.read_at(id, ByteCount(0), &mut page).unwrap();
    assert_eq!(page[0], 4);
}

#[test]
fn a_probe_tells_whether_this_drive_works_and_space_is_told() {
    let (served, drive) = fresh();
    drive.probe().unwrap();
    served.drive(|drive| drive.capacity_bytes = 1 << 26);
    let status = drive.status().unwrap();
    assert_eq!((status.capacity, status.suspect), (ByteCount(1 << 26), false));
    assert_eq!(status.used.0 + status.free.0, status.capacity.0);
    drive.probe_room(status.free).unwrap();
    let full = drive.probe_room(ByteCount(status.free.0 + 1)).unwrap_err();
    assert!(full.is_full(), "{full}");
    let more = drive.create(extent(1, 1), ByteCount(1 << 27));
    assert!(matches!(more, Err(DriveError::Full { .. })));
    let mut writer = drive.create(extent(2, 1), ByteCount(0)).unwrap();
    let full = (0..70).find_map(|_| writer.append(&pages(256, 1)).err()).unwrap();
    assert!(matches!(full, DriveError::Full { .. }), "{full}");
    assert!(matches!(writer.append(&pages(1, 1)), Err(DriveError::Poisoned { .. })));
    assert!(!drive.status().unwrap().suspect, "a full drive is not suspect");
}

#[test]
fn an_extent_that_was_removed_is_not_acknowledged() {
    let (served, drive) = fresh();
    let id = extent(7, 1);
    let before = served.drive(|drive| drive.count());
    let mut writer = drive.create(id, ByteCount(0)).unwrap();
    writer.append(&pages(1, 1)).unwrap();
    drive.delete(id).unwrap();
    writer.append(&pages(1, 1)).unwrap();
    assert!(writer.seal().is_err());
    assert_eq!(count_at_rest(&served, &drive, before), before, "nothing of it is left");
}

/// A reader of parts in order fetches each value once.
#[test]
fn parts_in_order_cost_one_value() {
    let (served, drive) = fresh();
    let id = extent(7, 1);
    let mut writer = drive.create(id, ByteCount(0)).unwrap();
    writer.append(&pages(257, 3)).unwrap();
    writer.seal().unwrap();
    let before = served.frames();
    let mut part = vec![0; 16 * PAGE];
    for number in 0..16u64 {
        drive.read_at(id, ByteCount((1 + number * 16) * PAGE as u64), &mut part).unwrap();
        assert!(part.iter().all(|byte| *byte == 3));
    }
    assert_eq!(served.frames() - before, 1);
}
