//! Drives of the pool that are given up and come back all the same, while no tape can give what they hold.

use std::fs;
use std::time::Duration;

use archive::{Archive, ArchiveError, Locality, LossForeseen, PutOptions, ReplacedDrive, TapeUse};
use archive::{UpkeepSettings, refusal_text};
use base::{ByteCount, Vid};
use catalogue::EvictRefusal;

use crate::common::{Instance, all, bytes, get, migrate_all, path, put, stop, wait_until};
use crate::faulty::place;
use crate::restoring::at_rest;
use crate::settling::locality;

const FILES: u64 = 4;
/// Every stripe of 4+2 over 8 drives has at least 3 of these.
const AWAY: u16 = 5;

fn name(n: u64) -> String {
    format!("/t/file{n}")
}

/// Each is too large for a segment, whose copies may all stand on other drives.
fn content(n: u64) -> Vec<u8> {
    bytes(n + 1, 300_000)
}

fn check(archive: &Archive) {
    for n in 0..FILES {
        assert!(get(archive, &name(n)).unwrap() == content(n), "{n}");
    }
    assert_eq!(archive.verify_catalogue().unwrap(), []);
}

fn are(archive: &Archive, wanted: Locality) -> bool {
    (0..FILES).all(|n| locality(archive, &name(n)) == wanted)
}

fn instance() -> Instance {
    Instance::with(ByteCount::mib(256), at_rest)
}

/// The tapes of the files, which are in the pool and on tape.
fn on_tape(instance: &Instance) -> (Archive, Vec<Vid>) {
    let archive = instance.open();
    (0..FILES).for_each(|n| drop(put(&archive, &name(n), &content(n))));
    migrate_all(&archive);
    let used = archive.tapes().unwrap().into_iter().filter(|tape| tape.containers > 0);
    (archive, used.map(|tape| tape.vid).collect())
}

fn take_away(instance: &Instance) {
    for drive in &instance.settings.pool.drives[..usize::from(AWAY)] {
        fs::rename(drive.at.directory(), drive.at.directory().with_extension("away")).unwrap();
    }
}

fn bring_back(instance: &Instance, archive: &Archive) {
    for drive in &instance.settings.pool.drives[..usize::from(AWAY)] {
        fs::rename(drive.at.directory().with_extension("away"), drive.at.directory()).unwrap();
        let replaced = archive.pool_drive_replace(drive.id, false, false).unwrap();
        assert_eq!(replaced, ReplacedDrive::Returned);
    }
}

fn without_drives(instance: &Instance, archive: Archive) -> Archive {
    stop(archive);
    take_away(instance);
    instance.open()
}

/// Gives the drives up one by one, and accepts what that costs; gives what was foreseen first.
fn give_up(archive: &Archive) -> Option<LossForeseen> {
    let mut first = None;
    for drive in 0..AWAY {
        match archive.pool_drive_lost(drive, false) {
            Ok(()) => {}
            Err(ArchiveError::WouldLose(loss)) => {
                first.get_or_insert(loss);
                archive.pool_drive_lost(drive, true).unwrap();
            }
            Err(error) => panic!("{error}"),
        }
    }
    first
}

/// The files are LOST, and nothing else, until the drives are put in again.
fn lost_until_they_come_back(instance: &Instance, archive: Archive) {
    wait_until("they are LOST", || are(&archive, Locality::Lost));
    bring_back(instance, &archive);
    wait_until("they are found again", || are(&archive, Locality::OnlineAndNearline));
    check(&archive);
    stop(archive);
}

fn set(archive: &Archive, vids: &[Vid], as_what: TapeUse) {
    vids.iter().for_each(|vid| archive.set_tape(*vid, as_what, "for the test").unwrap());
}

/// Story: both tapes of some files were disabled, and three drives of a 4+2 pool were given up. Nobody was
/// asked, the files were NEARLINE at once, and when the drives were put in again, whole, the pool had removed
/// what they held: no copy could be read.
#[test]
fn drives_that_come_back_bring_what_only_disabled_tapes_had() {
    let instance = instance();
    let (archive, vids) = on_tape(&instance);
    assert!(vids.len() >= 2);
    set(&archive, &vids, TapeUse::Disabled);
    let archive = without_drives(&instance, archive);
    let loss = give_up(&archive).expect("it asks");
    assert!(loss.files > 0 && loss.named.iter().all(|path| path.starts_with("/t/file")), "{loss:?}");
    lost_until_they_come_back(&instance, archive);
}

/// The same by a rebuild, and by the time after which a missing drive is given up without anybody asking.
#[test]
fn nor_are_they_dropped_by_a_rebuild_or_after_a_while() {
    for waits in [false, true] {
        let instance = instance();
        let (archive, vids) = on_tape(&instance);
        set(&archive, &vids, TapeUse::Disabled);
        let archive = without_drives(&instance, archive);
        if waits {
            archive.set_upkeep(UpkeepSettings { rebuild_after: Duration::ZERO, ..Default::default() });
        } else {
            let refused = archive.pool_rebuild(None, false);
            let Err(ArchiveError::WouldLose(loss)) = refused else { panic!("{refused:?}") };
            assert_eq!((loss.files, loss.uploads), (FILES, 0));
            archive.pool_rebuild(None, true).unwrap();
        }
        lost_until_they_come_back(&instance, archive);
    }
}

/// Files that are LOST with tapes out of use come from tape as soon as one of those is in use again.
#[test]
fn a_tape_that_is_in_use_again_takes_the_place_of_lost_drives() {
    let instance = instance();
    let (archive, vids) = on_tape(&instance);
    set(&archive, &vids, TapeUse::Disabled);
    let archive = without_drives(&instance, archive);
    give_up(&archive).expect("it asks");
    wait_until("they are LOST", || are(&archive, Locality::Lost));
    set(&archive, &vids[..1], TapeUse::ReadOnly);
    wait_until("they are on tape", || are(&archive, Locality::Nearline));
    // Behind the change that says that they are on tape.
    let is_asked =
        || archive.requests(None, 100).unwrap().iter().any(|request| request.record.owner == "kist");
    wait_until("they are asked for", is_asked);
    bring_back(&instance, &archive);
    wait_until("they are recalled", || are(&archive, Locality::OnlineAndNearline));
    check(&archive);
    stop(archive);
}

/// With tapes in use nobody is asked.
#[test]
fn what_tapes_in_use_have_is_no_loss() {
    let instance = instance();
    let (archive, vids) = on_tape(&instance);
    set(&archive, &vids[1..], TapeUse::Disabled);
    let archive = without_drives(&instance, archive);
    assert_eq!(give_up(&archive), None);
    wait_until("they are on tape", || are(&archive, Locality::Nearline));
    stop(archive);
}

/// Story: acknowledged parts of an upload were given up with drives, and nobody was asked.
#[test]
fn parts_of_open_uploads_are_a_loss_too() {
    let instance = instance();
    let archive = instance.open();
    archive.make_directory(&path("/bucket"), Default::default(), None, true).unwrap();
    let open = |key: &str| archive.open_multipart(&path(key), PutOptions::default()).unwrap();
    let (upload, empty) = (open("/bucket/object"), open("/bucket/empty"));
    for number in [1, 2] {
        let mut part = archive.begin_part(upload, number, None).unwrap();
        part.write(&bytes(number.into(), 300_000)).unwrap();
        part.finish(Vec::new()).unwrap();
    }
    let archive = without_drives(&instance, archive);
    let refused = archive.pool_rebuild(None, false);
    let Err(ArchiveError::WouldLose(loss)) = refused else { panic!("{empty}: {refused:?}") };
    assert_eq!((loss.files, loss.uploads, loss.bytes), (0, 1, ByteCount(600_000)));
    assert_eq!(loss.named, [format!("upload {upload} of /bucket/object")]);
    let told = ArchiveError::WouldLose(loss).to_string();
    assert!(told.contains("1 open upload (") && told.contains("--accept-loss"), "{told}");
    assert_eq!(give_up(&archive).unwrap().uploads, 1);
    stop(archive);
}

/// Story: both cartridges of a file were out of the library, and an evict gave up what the pool had.
#[test]
fn an_evict_gives_up_no_pool_copy_while_no_library_holds_a_tape_of_it() {
    let instance = instance();
    let (archive, vids) = on_tape(&instance);
    put(&archive, "/t/unsealed", &bytes(9, 1_000));
    wait_until("the drives are empty", || archive.tape_drives().iter().all(|drive| drive.vid.is_none()));
    let aside = tempfile::tempdir().unwrap();
    for vid in &vids {
        fs::rename(instance.cartridge(*vid), aside.path().join(vid.as_str())).unwrap();
    }
    archive.take_inventory().unwrap();
    let done = archive.evict(&all(&["/t"])).unwrap();
    assert_eq!((done.evicted, done.refused_count), (0, FILES + 1));
    let counted: u64 = done.reasons.iter().map(|(_, files)| files).sum();
    assert_eq!(counted, FILES + 1, "{:?}", done.reasons);
    let of = |at: &str| &done.refused.iter().find(|(path, _)| path == at).unwrap().1;
    assert_eq!(*of("/t/unsealed"), EvictRefusal::NotSafeOnTape);
    let refusal = of(&name(0));
    let mut on: Vec<Vid> = place(&archive, &name(0)).into_iter().map(|(vid, _)| vid).collect();
    let EvictRefusal::NotInLibrary(mut told) = refusal.clone() else { panic!("{refusal:?}") };
    on.sort();
    told.sort();
    assert_eq!(told, on);
    assert!(refusal_text(refusal).contains("no library holds"));
    check(&archive);
    fs::rename(aside.path().join(vids[0].as_str()), instance.cartridge(vids[0])).unwrap();
    archive.take_inventory().unwrap();
    let done = archive.evict(&all(&["/t"])).unwrap();
    assert_eq!((done.evicted, done.refused_count), (FILES, 1), "one of them is enough");
    stop(archive);
}
