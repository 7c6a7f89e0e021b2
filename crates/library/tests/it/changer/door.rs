//! Cartridges that go out and come in by the door.

use super::world::*;
use crate::common::{drive_name, vid};
use library::{Library, LibraryError, Place, Slot};
use scsi::SenseKey;

const LABELS: [&str; 3] = ["KS0001L8", "KS0002L8", ""];

fn place_of(bench: &Bench, text: &str) -> Option<Place> {
    let inventory = bench.library.inventory().unwrap();
    inventory.into_iter().find(|info| info.vid == vid(text)).map(|info| info.place)
}

fn door() -> Place {
    Place::ImportExport(Slot(u32::from(DOOR)))
}

#[test]
fn one_goes_out_and_comes_in() {
    let bench = Bench::new(World::new(&LABELS));
    assert_eq!(bench.library.export(vid("KS0001")).unwrap(), Slot(u32::from(DOOR)));
    assert_eq!((bench.moves(), place_of(&bench, "KS0001")), (vec![(SLOTS, DOOR)], Some(door())));
    let error = bench.library.export(vid("KS0002")).unwrap_err();
    assert!(matches!(error, LibraryError::ImportExportFull), "{error}");
    // An operator takes it and puts another one in, of which the changer says nothing.
    bench.change(|world| world.put(DOOR, None));
    assert_eq!(bench.library.export(vid("KS0002")).unwrap(), Slot(u32::from(DOOR)));
    bench.change(|world| world.put(DOOR, Some("KS0007L8")));
    let error = bench.library.import(vid("KS0002")).unwrap_err();
    assert!(matches!(error, LibraryError::NotInImportExport { .. }), "{error}");
    let slot = bench.library.import(vid("KS0007")).unwrap();
    assert_eq!(place_of(&bench, "KS0007"), Some(Place::Slot(slot)));
    bench.library.mount(vid("KS0007"), &drive_name("drive0")).unwrap();
}

/// Nothing is moved where the changer says that it cannot be.
#[test]
fn a_door_that_is_open_or_only_for_what_comes_is_told() {
    let bench = Bench::new(World::new(&LABELS));
    bench.change(|world| world.quirks.door_open = true);
    let error = bench.library.export(vid("KS0001")).unwrap_err();
    assert!(matches!(error, LibraryError::ImportExportOpen), "{error}");
    bench.change(|world| world.put(DOOR, Some("KS0007L8")));
    let error = bench.library.import(vid("KS0007")).unwrap_err();
    assert!(matches!(error, LibraryError::ImportExportOpen), "{error}");
    bench.change(|world| (world.quirks.door_open, world.quirks.no_export) = (false, true));
    let error = bench.library.export(vid("KS0001")).unwrap_err();
    assert!(matches!(error, LibraryError::NoImportExport), "{error}");
    assert_eq!(bench.moves(), []);
    bench.library.import(vid("KS0007")).unwrap();
    // A full library.
    bench.change(|world| world.put(DOOR, Some("KS0008L8")));
    let error = bench.library.import(vid("KS0008")).unwrap_err();
    assert!(matches!(error, LibraryError::NoSlotToImport { .. }), "{error}");
    assert_eq!(bench.label(DOOR).as_deref(), Some("KS0008L8"));
}

/// The door of another instance is none of ours.
#[test]
fn elements_of_others_are_left_alone() {
    let mut config = numbered();
    config.slots = Some(vec![SLOTS..=SLOTS + 2]);
    let bench = Bench::with(World::new(&LABELS), config);
    let error = bench.library.export(vid("KS0001")).unwrap_err();
    assert!(matches!(error, LibraryError::NoImportExport), "{error}");
    bench.change(|world| world.put(DOOR, Some("KS0007L8")));
    let error = bench.library.import(vid("KS0007")).unwrap_err();
    assert!(matches!(error, LibraryError::NotInImportExport { .. }), "{error}");
    assert_eq!(bench.moves(), []);
}

/// Of a movement that fails halfway the elements tell what became of it.
#[test]
fn the_elements_tell_what_became_of_an_export() {
    let jam = |effect| Script::Sense(SenseKey::HardwareError, 0x15, 0x01, effect);
    for (script, is_out) in [
        (jam(Effect::None), false),
        (jam(Effect::Done), true),
        (jam(Effect::Hand), false),
        (Script::Lost(Effect::None), false),
        (Script::Lost(Effect::Done), true),
        (Script::Lost(Effect::Later(3)), true),
        (Script::Good(Effect::Later(3)), true),
        (Script::Sense(SenseKey::IllegalRequest, 0x53, 0x02, Effect::None), false),
    ] {
        let bench = Bench::new(World::new(&LABELS));
        bench.change(|world| world.script.push_back(script));
        let result = bench.library.export(vid("KS0001"));
        if !is_out {
            let error = result.unwrap_err();
            assert!(matches!(error, LibraryError::NotMoved { .. }), "{script:?}: {error}");
            assert_eq!(bench.label(SLOTS).as_deref(), Some("KS0001L8"), "{script:?}");
            assert_eq!(place_of(&bench, "KS0001"), Some(Place::Slot(Slot(u32::from(SLOTS)))), "{script:?}");
            continue;
        }
        assert_eq!(result.unwrap(), Slot(u32::from(DOOR)), "{script:?}");
        assert_eq!(bench.label(DOOR).as_deref(), Some("KS0001L8"), "{script:?}");
        assert_eq!(place_of(&bench, "KS0001"), Some(door()), "{script:?}");
        assert_eq!(bench.moves(), [(SLOTS, DOOR)], "{script:?}: it was told once");
    }
}
