//! Mounts and unmounts, and movements that fail.

use super::world::*;
use crate::common::{drive_name, vid};
use library::scsi::changer::ScsiLibraryConfig;
use library::{Library, LibraryError, Place, TapeError};
use scsi::SenseKey;

const LABELS: [&str; 4] = ["KS0001L8", "KS0002L8", "", ""];

fn place_of(bench: &Bench, text: &str) -> Option<Place> {
    bench.library.changes().unwrap();
    let inventory = bench.library.inventory().unwrap();
    inventory.into_iter().find(|info| info.vid == vid(text)).map(|info| info.place)
}

#[test]
fn a_cartridge_goes_into_a_drive_and_home() {
    let bench = Bench::new(World::new(&LABELS));
    let (drive, other) = (drive_name("drive0"), drive_name("drive1"));
    let handle = bench.library.take_drive(&drive).unwrap();
    assert!(matches!(bench.library.take_drive(&drive), Err(LibraryError::DriveTaken { .. })));
    bench.library.mount(vid("KS0002"), &drive).unwrap();
    assert!(handle.loaded());
    assert_eq!(place_of(&bench, "KS0002"), Some(Place::Drive(drive.clone())));
    let error = bench.library.mount(vid("KS0001"), &drive).unwrap_err();
    assert!(matches!(error, LibraryError::DriveFull { vid: held, .. } if held == vid("KS0002")), "{error}");
    let error = bench.library.mount(vid("KS0002"), &other).unwrap_err();
    assert!(matches!(error, LibraryError::CartridgeInUse { .. }), "{error}");
    assert_eq!(bench.library.unmount(&drive).unwrap(), vid("KS0002"));
    assert!(!handle.loaded());
    assert!(matches!(bench.library.unmount(&drive), Err(LibraryError::DriveEmpty { .. })));
    assert_eq!(bench.moves(), [(SLOTS + 1, DRIVES), (DRIVES, SLOTS + 1)]);
}

/// Where no labels are read in drives, what was mounted is known all the same.
#[test]
fn a_drive_without_labels_gives_its_cartridge_back() {
    let mut world = World::new(&LABELS);
    world.quirks.no_tags_in_drives = true;
    let bench = Bench::new(world);
    let drive = drive_name("drive0");
    bench.library.mount(vid("KS0001"), &drive).unwrap();
    assert_eq!(place_of(&bench, "KS0001"), Some(Place::Drive(drive.clone())));
    assert_eq!(bench.library.unmount(&drive).unwrap(), vid("KS0001"));
    // What stands there since before and has no label is none of ours.
    bench.change(|world| world.put(DRIVES, Some("KS0009L8")));
    let error = bench.library.unmount(&drive).unwrap_err();
    assert!(matches!(error, LibraryError::DriveOccupied { .. }), "{error}");
    let error = bench.library.mount(vid("KS0001"), &drive).unwrap_err();
    assert!(matches!(error, LibraryError::DriveOccupied { .. }), "{error}");
    assert_eq!(bench.moves().len(), 2, "nothing is moved by guess");
}

/// Each way in which a movement can fail or seem to, and where the cartridge is afterwards.
#[test]
fn the_elements_tell_what_became_of_a_movement() {
    use Effect::{Done, Hand, Later, None as Nothing};
    let jam = |effect| Script::Sense(SenseKey::HardwareError, 0x15, 0x01, effect);
    let cases: &[(Script, bool)] = &[
        (jam(Nothing), false),
        (jam(Done), true),
        (jam(Hand), false),
        (Script::Lost(Nothing), false),
        (Script::Lost(Done), true),
        (Script::Lost(Hand), false),
        // The robot was still on its way when it was asked: its elements show the cartridge in its slot.
        (Script::Lost(Later(5)), true),
        (Script::Good(Nothing), false),
        (Script::Good(Later(7)), true),
        (Script::Sense(SenseKey::IllegalRequest, 0x53, 0x02, Nothing), false),
        (Script::Sense(SenseKey::AbortedCommand, 0x4e, 0x00, Done), true),
        // It says that it refuses, and has done it.
        (Script::Sense(SenseKey::IllegalRequest, 0x3b, 0x0e, Done), true),
    ];
    for (script, arrives) in cases {
        let mut world = World::new(&LABELS);
        world.script.push_back(*script);
        let bench = Bench::new(world);
        let drive = drive_name("drive0");
        let result = bench.library.mount(vid("KS0001"), &drive);
        assert_eq!(result.is_ok(), *arrives, "{script:?}: {result:?}");
        let expected = if *arrives { DRIVES } else { SLOTS };
        assert_eq!(bench.label(expected).as_deref(), Some("KS0001L8"), "{script:?}");
        if let Err(error) = result {
            assert!(matches!(error, LibraryError::RobotJam { .. }), "{script:?}: {error}");
            let moves = bench.moves();
            assert!(moves.iter().filter(|(from, _)| *from == SLOTS).count() == 1, "told twice: {moves:?}");
            // And it can be tried again.
            bench.library.mount(vid("KS0001"), &drive).unwrap();
        }
        assert_eq!(bench.library.unmount(&drive).unwrap(), vid("KS0001"), "{script:?}");
        assert_eq!(bench.label(SLOTS).as_deref(), Some("KS0001L8"), "{script:?}");
    }
}

#[test]
fn what_stays_in_the_hand_is_told() {
    let mut world = World::new(&LABELS);
    let jam = |effect| Script::Sense(SenseKey::HardwareError, 0x15, 0x01, effect);
    world.script.extend([jam(Effect::Hand), jam(Effect::None)]);
    let bench = Bench::new(world);
    let drive = drive_name("drive0");
    let error = bench.library.mount(vid("KS0001"), &drive).unwrap_err();
    assert!(matches!(error, LibraryError::Misplaced { .. }), "{error}");
    assert_eq!(place_of(&bench, "KS0001"), Some(Place::Unknown));
    let error = bench.library.mount(vid("KS0001"), &drive).unwrap_err();
    assert!(matches!(error, LibraryError::NotInSlot { .. }), "{error}");
    assert_eq!(bench.moves(), [(SLOTS, DRIVES), (PICKER, SLOTS)]);
    // Somebody puts it back.
    bench.change(|world| {
        world.put(PICKER, None);
        world.put(SLOTS, Some("KS0001L8"));
        world.attentions.push_back((0x28, 0x00));
    });
    bench.library.mount(vid("KS0001"), &drive).unwrap();
}

/// A unit attention at the movement: it was not begun, and what it was decided by may have changed.
#[test]
fn what_was_exchanged_meanwhile_is_not_taken() {
    let bench = Bench::new(World::new(&LABELS));
    let drive = drive_name("drive0");
    bench.change(|world| {
        world.meanwhile = Some(|world: &mut World| {
            world.put(SLOTS, Some("KS0008L8"));
            world.attentions.push_back((0x28, 0x00));
        });
    });
    let error = bench.library.mount(vid("KS0001"), &drive).unwrap_err();
    assert!(matches!(error, LibraryError::RobotJam { .. }), "{error}");
    assert_eq!((bench.label(SLOTS).as_deref(), bench.label(DRIVES)), (Some("KS0008L8"), None));
    assert!(bench.moves().is_empty());
    let error = bench.library.mount(vid("KS0001"), &drive).unwrap_err();
    assert!(matches!(error, LibraryError::UnknownCartridge { .. }), "{error}");
    // An attention without a change: it is told again.
    bench.change(|world| {
        world.meanwhile = Some(|world: &mut World| world.attentions.push_back((0x29, 0x00)));
    });
    bench.library.mount(vid("KS0008"), &drive).unwrap();
    assert_eq!(bench.moves(), [(SLOTS, DRIVES)]);
}

/// The inventory is old: the slot is looked at before the robot goes there.
#[test]
fn a_cartridge_that_was_moved_by_hand_is_found() {
    let bench = Bench::new(World::new(&LABELS));
    bench.change(|world| {
        world.put(SLOTS, Some("KS0009L8"));
        world.put(SLOTS + 3, Some("KS0001L8"));
    });
    bench.library.mount(vid("KS0001"), &drive_name("drive0")).unwrap();
    assert_eq!(bench.moves(), [(SLOTS + 3, DRIVES)]);
}

#[test]
fn a_home_that_is_taken_is_another_ones_now() {
    let bench = Bench::new(World::new(&LABELS));
    let (drive, other) = (drive_name("drive0"), drive_name("drive1"));
    bench.library.mount(vid("KS0001"), &drive).unwrap();
    bench.library.mount(vid("KS0002"), &other).unwrap();
    bench.change(|world| world.put(SLOTS, Some("KS0007L8")));
    // Not into the slot of the one that is in the other drive.
    bench.library.unmount(&drive).unwrap();
    bench.library.unmount(&other).unwrap();
    assert_eq!(bench.moves()[2..], [(DRIVES, SLOTS + 2), (DRIVES + 1, SLOTS + 1)]);
}

#[test]
fn a_drive_that_does_not_load_gives_it_back() {
    let mut world = World::new(&LABELS);
    world.load_fails = true;
    let bench = Bench::new(world);
    let drive = drive_name("drive0");
    let error = bench.library.mount(vid("KS0001"), &drive).unwrap_err();
    assert!(matches!(error, LibraryError::LoadFailed { is_home: true, .. }), "{error}");
    assert_eq!(error.cause(), Some(base::FailureCause::Drive));
    assert_eq!(bench.moves(), [(SLOTS, DRIVES), (DRIVES, SLOTS)]);
    bench.change(|world| world.unload_fails = true);
    let error = bench.library.mount(vid("KS0001"), &drive).unwrap_err();
    assert!(matches!(error, LibraryError::LoadFailed { is_home: false, .. }), "{error}");
    bench.change(|world| (world.load_fails, world.unload_fails) = (false, false));
    let error = bench.library.mount(vid("KS0001"), &drive).unwrap_err();
    assert!(matches!(error, LibraryError::DriveFull { .. }), "{error}");
    bench.library.unmount(&drive).unwrap();
    bench.library.mount(vid("KS0001"), &drive).unwrap();
}

#[test]
fn a_drive_that_keeps_its_cartridge_is_not_robbed() {
    let bench = Bench::new(World::new(&LABELS));
    let drive = drive_name("drive0");
    bench.library.mount(vid("KS0001"), &drive).unwrap();
    bench.change(|world| world.unload_fails = true);
    let error = bench.library.unmount(&drive).unwrap_err();
    assert!(matches!(error, LibraryError::UnloadFailed { .. }), "{error}");
    assert_eq!(bench.moves().len(), 1);
    bench.change(|world| (world.unload_fails, world.flush_fails) = (false, true));
    let error = bench.library.unmount(&drive).unwrap_err();
    let LibraryError::UnmountFlush { source, .. } = error else { panic!("{error}") };
    assert!(matches!(*source, TapeError::Poisoned { .. }));
    assert_eq!(bench.label(SLOTS).as_deref(), Some("KS0001L8"));
}

/// A drive that is not reached gets no cartridge.
#[test]
fn a_drive_that_is_away_is_told_before_the_robot_goes() {
    let mut world = World::new(&LABELS);
    world.drive_away = true;
    let bench = Bench::new(world);
    let error = bench.library.mount(vid("KS0001"), &drive_name("drive0")).unwrap_err();
    assert!(matches!(error, LibraryError::DriveMissing { .. }), "{error}");
    assert!(bench.moves().is_empty());
}

/// After a crash cartridges stand in drives: each is had from where it is.
#[test]
fn what_an_earlier_process_left_in_a_drive_is_brought_home_first() {
    let bench = Bench::new(World::new(&LABELS));
    bench.library.mount(vid("KS0001"), &drive_name("drive0")).unwrap();
    let config = ScsiLibraryConfig { slots: None, ..numbered() };
    let next = bench.again(config);
    next.mount(vid("KS0001"), &drive_name("drive1")).unwrap();
    assert_eq!(bench.moves(), [(SLOTS, DRIVES), (DRIVES, SLOTS), (SLOTS, DRIVES + 1)]);
}

/// What the library says of a cartridge that is at its door.
#[test]
fn a_cartridge_at_the_door_is_not_mounted() {
    let mut world = World::new(&LABELS);
    world.put(DOOR, Some("KS0005L8"));
    let bench = Bench::new(world);
    let error = bench.library.mount(vid("KS0005"), &drive_name("drive0")).unwrap_err();
    assert!(matches!(error, LibraryError::NotInSlot { .. }), "{error}");
}

/// Elements that show what was before for a while.
#[test]
fn a_changer_whose_status_lags_is_waited_for() {
    for lag in [1, 3, 9] {
        let mut world = World::new(&LABELS);
        world.quirks.lag = lag;
        let bench = Bench::new(world);
        let drive = drive_name("drive0");
        bench.library.mount(vid("KS0001"), &drive).unwrap();
        assert_eq!(bench.library.unmount(&drive).unwrap(), vid("KS0001"));
        assert_eq!(bench.moves(), [(SLOTS, DRIVES), (DRIVES, SLOTS)], "lag {lag}");
    }
}

/// A changer that becomes ready is waited for by nobody at the start.
#[test]
fn a_changer_that_starts_is_asked_again() {
    let mut world = World::new(&LABELS);
    world.becoming = 2;
    let bench = Bench::new(world);
    assert_eq!(bench.library.inventory().unwrap().len(), 0);
    assert!(bench.library.out_of_reach()[0].contains("2/04/01"), "{:?}", bench.library.out_of_reach());
    assert_eq!(bench.library.changes().unwrap(), 0);
    assert_eq!(bench.library.changes().unwrap(), 1);
    assert_eq!(bench.library.inventory().unwrap().len(), 2);
}
