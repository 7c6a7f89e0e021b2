//! Extents that nothing in the catalogue names: kept for a while, then removed.

use std::sync::Arc;

use crate::common::{Instance, bytes, get, put, stop, wait_for_pool};
use crate::listed::open_listed;
use archive::WhyLeft;
use base::{BlobId, ByteCount, Clock, DriveId, Duration, ManualClock, Uuid};
use drive::{DirectIo, DirectoryDrive, DriveError, ExtentId, ObjectDrive};

const DAY: Duration = Duration::from_secs(86_400);
/// What a crashed writer has left: of the first epoch, and of no blob that was ever named.
const LEFT: ExtentId = ExtentId { blob: BlobId(1 << 40 | 9_999), stripe: 0, shard: 1 };

/// Nothing is sealed, for years: a server that is stopped while it seals leaves a skeleton that nothing
/// names.
fn instance(kept: Duration) -> (Instance, Arc<ManualClock>) {
    let instance = Instance::with(ByteCount::mib(256), |settings| {
        settings.pool.unknown_kept = kept;
        for class in &mut settings.classes {
            (class.pack_age, class.pack_bytes) = (DAY * 3_650, ByteCount::mib(4_000));
        }
    });
    let clock = instance.clock();
    (instance, clock)
}

fn drive(instance: &Instance) -> DirectoryDrive {
    drive_of(instance, 3)
}

fn drive_of(instance: &Instance, id: u16) -> DirectoryDrive {
    let path = instance.settings.pool.drives[usize::from(id)].at.directory();
    DirectoryDrive::open(path, Uuid::from_random([7; 16]), DriveId(id), DirectIo::Auto).unwrap()
}

fn leave_an_extent(instance: &Instance) {
    leave(instance, LEFT);
}

fn leave(instance: &Instance, extent: ExtentId) {
    let mut writer = drive(instance).create(extent, ByteCount::mib(8)).unwrap();
    writer.append(&[7; 4_096]).unwrap();
    writer.sync().unwrap();
}

fn is_there(instance: &Instance) -> bool {
    match drive(instance).length(LEFT) {
        Ok(_) => true,
        Err(DriveError::NotFound { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

/// A file's bytes are there before and after; the extent goes when its time is over, while the server runs.
#[test]
fn what_nothing_names_is_kept_for_its_time() {
    let (instance, clock) = instance(DAY * 3);
    let archive = instance.start(&clock);
    put(&archive, "/file", &bytes(1, 300_000));
    stop(archive);
    leave_an_extent(&instance);
    let begun = clock.now();
    for _ in 0..2 {
        let archive = instance.start(&clock);
        wait_for_pool(&archive, "it is noted", || archive.unknown_kept().unwrap().extents == 1);
        let kept = archive.unknown_kept().unwrap();
        assert_eq!(kept.blobs, 1, "{kept:?}");
        assert!(kept.bytes > ByteCount(0), "{kept:?}");
        let until = kept.until.unwrap();
        assert!(until >= begun.plus(DAY * 3) && until < begun.plus(DAY * 4), "counted from the first look");
        stop(archive);
        assert!(is_there(&instance));
        let taken = drive(&instance).allocated(LEFT).unwrap();
        assert!(taken <= ByteCount::kib(64), "what was reserved for it is kept: {taken}");
        clock.advance(DAY);
    }
    // Another one, so that the test sees when this start has looked: no drive is read while days pass.
    leave(&instance, ExtentId { stripe: LEFT.stripe + 1, ..LEFT });
    let archive = instance.start(&clock);
    wait_for_pool(&archive, "the other one is noted too", || archive.unknown_kept().unwrap().extents == 2);
    clock.advance(DAY * 2);
    wait_for_pool(&archive, "the extent is removed, and no other", || {
        archive.unknown_kept().unwrap().extents == 1
    });
    assert_eq!(get(&archive, "/file").unwrap(), bytes(1, 300_000));
    stop(archive);
    assert!(!is_there(&instance));
}

/// The operator's word ends it at once, and takes nothing that has a name.
#[test]
fn an_operator_ends_it() {
    let (instance, clock) = instance(DAY * 3);
    let archive = instance.start(&clock);
    put(&archive, "/file", &bytes(1, 300_000));
    stop(archive);
    leave_an_extent(&instance);
    let archive = instance.start(&clock);
    wait_for_pool(&archive, "it is noted", || archive.unknown_kept().unwrap().extents == 1);
    let kept = archive.unknown_kept().unwrap();
    let ended = archive.end_quarantine().unwrap();
    assert_eq!(
        (ended.was_on, ended.removed.extents, ended.removed.bytes),
        (false, 1, kept.bytes),
        "{ended:?}"
    );
    assert_eq!(ended.left, []);
    // Story: it was in quarantine still, with no bytes, until the drives were gone through again.
    assert_eq!(archive.unknown_kept().unwrap(), archive::UnknownKept::default());
    assert_eq!(get(&archive, "/file").unwrap(), bytes(1, 300_000));
    stop(archive);
    assert!(!is_there(&instance));
}

/// Story: what stood beside the place that the catalogue has for it stayed, for days, and neither the answer
/// nor the log said why.
#[test]
fn an_operator_ends_it_for_what_stands_beside_its_place_too() {
    let (instance, clock) = instance(DAY * 3);
    let archive = instance.start(&clock);
    put(&archive, "/file", &bytes(1, 300_000));
    stop(archive);
    let there = drive(&instance).list(None, 1_000).unwrap();
    let of_first = drive_of(&instance, 0).list(None, 1_000).unwrap();
    let beside = *of_first.iter().chain(&drive_of(&instance, 1).list(None, 1_000).unwrap()).next().unwrap();
    assert!(!there.contains(&beside));
    leave(&instance, beside);
    let archive = instance.start(&clock);
    wait_for_pool(&archive, "it is noted", || archive.unknown_kept().unwrap().extents == 1);
    let ended = archive.end_quarantine().unwrap();
    assert_eq!(ended.removed, archive::KeptExtents::default());
    let left: Vec<_> = ended.left.iter().map(|(why, kept)| (*why, kept.extents)).collect();
    assert_eq!(left, [(WhyLeft::Beside, 1)]);
    wait_for_pool(&archive, "nothing is kept", || archive.unknown_kept().unwrap().extents == 0);
    assert_eq!(get(&archive, "/file").unwrap(), bytes(1, 300_000));
    stop(archive);
    let gone = drive(&instance).length(beside);
    assert!(matches!(gone, Err(DriveError::NotFound { .. })), "{gone:?}");
}

/// A drive that comes back from elsewhere, or a catalogue that knows better again: the note is forgotten.
#[test]
fn what_is_gone_is_forgotten() {
    let (instance, clock) = instance(DAY * 3);
    stop(instance.start(&clock));
    leave_an_extent(&instance);
    let archive = instance.start(&clock);
    wait_for_pool(&archive, "it is noted", || archive.unknown_kept().unwrap().extents == 1);
    stop(archive);
    drive(&instance).delete(LEFT).unwrap();
    let archive = instance.start(&clock);
    wait_for_pool(&archive, "it is forgotten", || {
        archive.unknown_kept().unwrap() == archive::UnknownKept::default()
    });
    stop(archive);
}

/// Story: a server that was told to stop went on listing its drives for what nothing names, for minutes.
#[test]
fn a_stop_does_not_wait_for_lists_of_drives() {
    let (instance, clock) = instance(DAY * 3);
    stop(instance.start(&clock));
    for number in 0..20 {
        leave(&instance, ExtentId { blob: BlobId(LEFT.blob.0 + number), ..LEFT });
    }
    let (archive, lists) = open_listed(&instance, clock.clone(), 3);
    assert_eq!(lists.calls_after_stop(&archive), 0);
    drop(archive);
    let archive = instance.start(&clock);
    wait_for_pool(&archive, "all are noted", || archive.unknown_kept().unwrap().extents == 20);
    archive.close();
}
