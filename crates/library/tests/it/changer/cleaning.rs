//! Drives are cleaned by a cleaning cartridge.

use std::time::Duration;

use super::world::*;
use crate::common::{drive_name, vid};
use library::{Library, LibraryError, Place, Slot, TapeAlert, TapeError};
use scsi::SenseKey;

const LABELS: [&str; 4] = ["KS0001L8", "CLN001L1", "CLNU02CU", ""];
const MOST: Duration = Duration::from_secs(600);

fn places(bench: &Bench) -> Vec<(String, Place)> {
    bench.library.cleaners().into_iter().map(|it| (it.vid.to_string(), it.place)).collect()
}

fn slot(number: u16) -> Place {
    Place::Slot(Slot(u32::from(SLOTS + number)))
}

#[test]
fn a_cleaning_cartridge_goes_into_a_drive_and_home() {
    for no_tags_in_drives in [false, true] {
        let mut world = World::new(&LABELS);
        world.quirks.no_tags_in_drives = no_tags_in_drives;
        world.alerts = vec![TapeAlert::CLEANER_USED_UP];
        let bench = Bench::new(world);
        bench.library.changes().unwrap();
        let both = [("CLN001".to_owned(), slot(1)), ("CLNU02".to_owned(), slot(2))];
        assert_eq!(places(&bench), both);
        let drive = drive_name("drive0");
        let alerts = bench.library.clean(vid("CLN001"), &drive, MOST).unwrap();
        assert_eq!(alerts, [TapeAlert::CLEANER_USED_UP]);
        assert_eq!(bench.moves(), [(SLOTS + 1, DRIVES), (DRIVES, SLOTS + 1)]);
        bench.change(|world| assert_eq!(world.cleanings, 1));
        assert_eq!(places(&bench), both);
        let tapes: Vec<_> = bench.library.inventory().unwrap().iter().map(|tape| tape.vid).collect();
        assert_eq!(tapes, [vid("KS0001")], "they are no tapes");
        let error = bench.library.mount(vid("CLN001"), &drive).unwrap_err();
        assert!(matches!(error, LibraryError::UnknownCartridge { .. }), "never mounted: {error}");
        let error = bench.library.clean(vid("KS0001"), &drive, MOST).unwrap_err();
        assert!(matches!(error, LibraryError::UnknownCartridge { .. }), "a tape does not clean: {error}");
        bench.library.mount(vid("KS0001"), &drive).unwrap();
        let error = bench.library.clean(vid("CLN001"), &drive, MOST).unwrap_err();
        assert!(matches!(error, LibraryError::DriveFull { .. }), "{error}");
        bench.change(|world| assert_eq!(world.cleanings, 1));
    }
}

/// Story: a cartridge that was used up could not be brought to the door: it is no tape.
#[test]
fn one_that_is_used_up_goes_out_by_the_door_and_another_comes_in() {
    let bench = Bench::new(World::new(&LABELS));
    bench.library.changes().unwrap();
    let door = Slot(u32::from(DOOR));
    assert_eq!(bench.library.export(vid("CLN001")).unwrap(), door);
    assert_eq!(bench.moves(), [(SLOTS + 1, DOOR)]);
    assert_eq!(places(&bench)[0], ("CLN001".to_owned(), Place::ImportExport(door)));
    let error = bench.library.export(vid("CLN001")).unwrap_err();
    assert!(matches!(error, LibraryError::NotInSlot { .. }), "{error}");
    bench.change(|world| world.put(DOOR, Some("CLN009L1")));
    let error = bench.library.import(vid("CLN001")).unwrap_err();
    assert!(matches!(error, LibraryError::NotInImportExport { .. }), "{error}");
    let to = bench.library.import(vid("CLN009")).unwrap();
    assert!(places(&bench).contains(&("CLN009".to_owned(), Place::Slot(to))));
}

/// A server that was killed while a drive was cleaned leaves the cartridge in it: the next one finds it, and
/// takes it for no tape.
#[test]
fn one_that_was_left_in_a_drive_is_brought_home() {
    let mut world = World::new(&["KS0001L8", "", "CLN002L1"]);
    world.put(DRIVES, Some("CLN001L1"));
    let bench = Bench::new(world);
    let (drive, other) = (drive_name("drive0"), drive_name("drive1"));
    bench.library.changes().unwrap();
    assert_eq!(places(&bench)[0], ("CLN001".to_owned(), Place::Drive(drive.clone())));
    assert_eq!(bench.library.inventory().unwrap().len(), 1);
    let error = bench.library.mount(vid("KS0001"), &drive).unwrap_err();
    assert!(matches!(error, LibraryError::DriveFull { vid: held, .. } if held == vid("CLN001")), "{error}");
    assert_eq!(bench.library.unmount(&drive).unwrap(), vid("CLN001"));
    assert_eq!(places(&bench)[0], ("CLN001".to_owned(), slot(1)));
    // One that is in another drive is brought home first.
    bench.change(|world| {
        world.put(SLOTS + 1, None);
        world.put(DRIVES, Some("CLN001L1"));
    });
    bench.library.look_again(false).unwrap();
    bench.library.clean(vid("CLN001"), &other, MOST).unwrap();
    assert_eq!(places(&bench)[0].1, slot(1));
}

#[test]
fn what_fails_of_a_cleaning_is_told_and_the_cartridge_comes_home() {
    let mut world = World::new(&LABELS);
    world.cleaning_fails = true;
    let bench = Bench::new(world);
    let drive = drive_name("drive0");
    let error = bench.library.clean(vid("CLN001"), &drive, MOST).unwrap_err();
    let LibraryError::NotCleaned { is_home: true, source, .. } = error else { panic!("{error}") };
    assert!(matches!(*source, TapeError::CleaningNeeded { .. }), "{source}");
    assert_eq!(places(&bench)[0].1, slot(1));
    // The robot jams on the way in: it stays in its slot.
    let jam = Script::Sense(SenseKey::HardwareError, 0x15, 0x01, Effect::None);
    bench.change(|world| world.script.push_back(jam));
    let error = bench.library.clean(vid("CLN001"), &drive, MOST).unwrap_err();
    assert!(matches!(error, LibraryError::RobotJam { .. }), "{error}");
    assert_eq!(places(&bench)[0].1, slot(1));
    // The drive keeps it: it is not lost, and not cleaned again.
    bench.change(|world| world.unload_fails = true);
    let error = bench.library.clean(vid("CLN001"), &drive, MOST).unwrap_err();
    assert!(matches!(error, LibraryError::NotCleaned { is_home: false, .. }), "{error}");
    assert_eq!(places(&bench)[0].1, Place::Drive(drive));
}

/// A drive was clean, and its cartridge did not come home: it counted as not cleaned, and as empty.
#[test]
fn a_drive_that_has_done_with_a_cartridge_which_stays_in_it_says_both() {
    let mut world = World::new(&LABELS);
    (world.cleaner_stays, world.alerts) = (true, vec![TapeAlert::CLEANER_USED_UP]);
    let bench = Bench::new(world);
    let drive = drive_name("drive0");
    let error = bench.library.clean(vid("CLN001"), &drive, MOST).unwrap_err();
    assert!(error.is_of_the_drive() && error.was_in_drive(), "{error}");
    let LibraryError::CleanerStays { alerts, source, .. } = error else { panic!("{error}") };
    assert_eq!(alerts, [TapeAlert::CLEANER_USED_UP]);
    assert!(matches!(*source, LibraryError::UnloadFailed { .. }), "{source}");
    assert_eq!(places(&bench)[0].1, Place::Drive(drive));
    // The robot has it in its hand.
    let bench = Bench::new(World::new(&LABELS));
    let hand = Script::Sense(SenseKey::HardwareError, 0x15, 0x01, Effect::Hand);
    bench.change(|world| world.script.extend([Script::Good(Effect::Done), hand, hand]));
    let error = bench.library.clean(vid("CLN001"), &drive_name("drive1"), MOST).unwrap_err();
    assert!(matches!(error, LibraryError::CleanerStays { .. }), "{error}");
}

/// Of two cartridges with one label one stayed in a drive: the other was not found.
#[test]
fn of_two_with_one_label_the_one_in_a_slot_is_used() {
    let mut world = World::new(&["CLN001L1", "KS0001L8"]);
    world.put(DRIVES, Some("CLN001L1"));
    let bench = Bench::new(world);
    bench.library.clean(vid("CLN001"), &drive_name("drive1"), MOST).unwrap();
    assert_eq!(bench.moves(), [(SLOTS, DRIVES + 1), (DRIVES + 1, SLOTS)], "the other stays where it is");
}

/// A server was killed while a drive was cleaned, in a library that reads no labels in drives: the drive was
/// of no use before somebody had taken the cartridge out by hand.
#[test]
fn one_without_a_label_in_a_drive_goes_back_to_the_slot_it_came_from() {
    for with_source in [true, false] {
        let mut world = World::new(&["KS0001L8", "", "CLN002L1"]);
        world.quirks.no_tags_in_drives = true;
        world.put(DRIVES, Some("CLN001L1"));
        world.cells.get_mut(&DRIVES).unwrap().source = with_source.then_some(SLOTS + 1);
        let bench = Bench::new(world);
        let mounted = bench.library.mount(vid("KS0001"), &drive_name("drive0"));
        if with_source {
            mounted.unwrap();
            assert_eq!(bench.moves(), [(DRIVES, SLOTS + 1), (SLOTS, DRIVES)]);
            assert_eq!(places(&bench)[0], ("CLN001".to_owned(), slot(1)));
        } else {
            assert!(matches!(mounted, Err(LibraryError::DriveOccupied { .. })), "{mounted:?}");
            assert_eq!(bench.moves(), [], "nothing is moved by guess");
        }
    }
    // Its slot was given to another one meanwhile.
    let mut world = World::new(&["KS0001L8", "CLN002L1"]);
    world.quirks.no_tags_in_drives = true;
    world.put(DRIVES, Some("CLN001L1"));
    world.cells.get_mut(&DRIVES).unwrap().source = Some(SLOTS + 1);
    let bench = Bench::new(world);
    let error = bench.library.clean(vid("CLN002"), &drive_name("drive0"), MOST).unwrap_err();
    assert!(matches!(error, LibraryError::DriveOccupied { .. }), "{error}");
    assert_eq!(bench.moves(), []);
}
