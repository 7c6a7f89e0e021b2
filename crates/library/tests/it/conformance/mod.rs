//! What every [`Library`] does, whatever it is made of. Other crates run it over libraries of theirs
//! (`#[path]`): it names nothing of this test program.

use std::any::Any;
use std::sync::Arc;

use base::{BlockAddress, FailureCause, Partition, TapePosition, Vid};
use library::{DriveName, Library, LibraryError, Place, ReadBlock, TapeDrive, TapeError};

/// A library of two drives, with two blank cartridges in slots.
pub struct Subject {
    pub library: Arc<dyn Library>,
    pub drives: [DriveName; 2],
    pub cartridges: [Vid; 2],
    /// What lives as long as it.
    pub around: Box<dyn Any>,
}

/// Runs everything, each on a library of its own.
pub fn library(make: &dyn Fn() -> Subject) {
    for test in [
        holds_what_it_is_said_to,
        refuses_a_second_take_or_mount,
        names_what_it_does_not_know,
        keeps_what_is_written,
        counts_no_change_of_its_own,
        serves_both_drives_at_once,
        gives_a_drive_back,
        brings_cartridges_out_and_in,
        keeps_what_goes_out_from_drives,
    ] {
        test(make());
    }
}

fn place(library: &dyn Library, vid: Vid) -> Place {
    library.inventory().unwrap().into_iter().find(|info| info.vid == vid).unwrap().place
}

fn holds_what_it_is_said_to(Subject { library, drives, cartridges, .. }: Subject) {
    let inventory = library.inventory().unwrap();
    let vids: Vec<Vid> = inventory.iter().map(|info| info.vid).collect();
    assert!(vids.is_sorted() && cartridges.iter().all(|vid| vids.contains(vid)), "{inventory:?}");
    assert!(inventory.iter().all(|info| info.library == 0 && !info.damaged && !info.write_protected));
    let slots: Vec<&Place> = inventory.iter().map(|info| &info.place).collect();
    assert!(slots.iter().all(|place| matches!(place, Place::Slot(_))), "{inventory:?}");
    assert!(slots.windows(2).all(|pair| pair[0] != pair[1]), "each has a slot of its own");
    assert_eq!(library.drives(), drives);
    assert!(drives.iter().all(|drive| library.library_of(drive) == 0));
    assert_eq!((library.without_vid(), library.out_of_reach()), (Vec::new(), Vec::new()));
}

fn refuses_a_second_take_or_mount(Subject { library, drives, cartridges, around: _around }: Subject) {
    let [first, second] = &drives;
    let mut drive = library.take_drive(first).unwrap();
    assert_eq!(drive.id(), first);
    assert!(matches!(library.take_drive(first), Err(LibraryError::DriveTaken { .. })));
    assert!(matches!(drive.position(), Err(TapeError::NotLoaded { .. })));
    assert!(!drive.loaded());

    let home = place(library.as_ref(), cartridges[0]);
    library.mount(cartridges[0], first).unwrap();
    assert!(drive.loaded());
    assert_eq!(drive.position().unwrap(), at(Partition::Index, 0));
    let error = library.mount(cartridges[1], first).unwrap_err();
    assert!(
        matches!(&error, LibraryError::DriveFull { drive, vid } if drive == first && *vid == cartridges[0]),
        "{error}"
    );
    let error = library.mount(cartridges[0], second).unwrap_err();
    assert!(matches!(error, LibraryError::CartridgeInUse { .. }), "{error}");
    assert_eq!(place(library.as_ref(), cartridges[0]), Place::Drive(first.clone()));

    assert_eq!(library.unmount(first).unwrap(), cartridges[0]);
    assert_eq!(place(library.as_ref(), cartridges[0]), home);
    assert!(!drive.loaded());
    assert!(matches!(drive.position(), Err(TapeError::NotLoaded { .. })));
    assert!(matches!(library.unmount(first), Err(LibraryError::DriveEmpty { .. })));
    library.mount(cartridges[0], second).unwrap();
    library.unmount(second).unwrap();
}

fn names_what_it_does_not_know(Subject { library, drives, cartridges, .. }: Subject) {
    let (nowhere, nothing) = (DriveName::new("nowhere").unwrap(), Vid::new("NONE00").unwrap());
    let error = library.mount(nothing, &drives[0]).unwrap_err();
    assert!(matches!(error, LibraryError::UnknownCartridge { vid } if vid == nothing), "{error}");
    assert_eq!(error.cause(), Some(FailureCause::Unknown));
    for error in [library.mount(cartridges[0], &nowhere).unwrap_err(), library.unmount(&nowhere).unwrap_err()]
    {
        assert!(matches!(error, LibraryError::UnknownDrive { .. }), "{error}");
    }
    assert!(matches!(library.take_drive(&nowhere), Err(LibraryError::UnknownDrive { .. })));
}

fn at(partition: Partition, block: u64) -> TapePosition {
    TapePosition { partition, block: BlockAddress(block) }
}

fn pattern(seed: u8, length: usize) -> Vec<u8> {
    (0..length).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

fn read(drive: &mut dyn TapeDrive, block: u64) -> Vec<u8> {
    drive.locate(at(Partition::Data, block)).unwrap();
    let mut buffer = vec![0; 1 << 17];
    match drive.read_block(&mut buffer).unwrap() {
        ReadBlock::Data(length) => buffer[..length].to_vec(),
        other => panic!("block {block}: {other:?}"),
    }
}

/// Also what was not flushed before the unmount, which does it.
fn keeps_what_is_written(Subject { library, drives, cartridges, around: _around }: Subject) {
    let [first, second] = &drives;
    let mut drive = library.take_drive(first).unwrap();
    for (seed, vid) in (1..).zip(cartridges) {
        library.mount(vid, first).unwrap();
        drive.format_partitions().unwrap();
        drive.locate(at(Partition::Data, 0)).unwrap();
        for block in 0..4 {
            drive.write_block(&pattern(seed + block, 100_000)).unwrap();
        }
        drive.write_attribute(Partition::Data, 0x0806, &[seed; 32]).unwrap();
        library.unmount(first).unwrap();
    }
    let mut other = library.take_drive(second).unwrap();
    for (seed, vid) in (1..).zip(cartridges) {
        library.mount(vid, second).unwrap();
        assert_eq!(other.space_to_end_of_data(Partition::Data).unwrap(), at(Partition::Data, 4));
        for block in [3, 0, 2, 1] {
            let expected = pattern(seed + block, 100_000);
            assert!(read(other.as_mut(), u64::from(block)) == expected, "block {block}");
        }
        assert_eq!(other.read_attribute(Partition::Data, 0x0806).unwrap(), Some(vec![seed; 32]));
        library.unmount(second).unwrap();
    }
}

fn counts_no_change_of_its_own(Subject { library, drives, cartridges, .. }: Subject) {
    let before = library.changes().unwrap();
    for _ in 0..2 {
        library.mount(cartridges[0], &drives[0]).unwrap();
        assert_eq!(library.changes().unwrap(), before, "a mount is no change");
        library.unmount(&drives[0]).unwrap();
        assert_eq!(library.changes().unwrap(), before, "an unmount is none");
    }
}

fn serves_both_drives_at_once(Subject { library, drives, cartridges, around: _around }: Subject) {
    std::thread::scope(|scope| {
        for (drive, vid) in drives.iter().zip(cartridges) {
            let library = &library;
            scope.spawn(move || {
                let mut handle = library.take_drive(drive).unwrap();
                for round in 0..4 {
                    library.mount(vid, drive).unwrap();
                    handle.locate(at(Partition::Index, 0)).unwrap();
                    handle.write_block(&pattern(round, 1_000)).unwrap();
                    assert_eq!(library.unmount(drive).unwrap(), vid);
                }
            });
        }
    });
    assert!(cartridges.iter().all(|vid| matches!(place(library.as_ref(), *vid), Place::Slot(_))));
}

fn gives_a_drive_back(Subject { library, drives, cartridges, .. }: Subject) {
    let drive = library.take_drive(&drives[0]).unwrap();
    library.mount(cartridges[0], &drives[0]).unwrap();
    drop(drive);
    // The cartridge stays; whoever takes the drive has it.
    assert!(library.take_drive(&drives[0]).unwrap().loaded());
    library.unmount(&drives[0]).unwrap();
}

fn brings_cartridges_out_and_in(Subject { library, drives, cartridges, around: _around }: Subject) {
    let [vid, other] = cartridges;
    let changes = || library.changes().unwrap();
    let before = changes();
    let element = library.export(vid).unwrap();
    assert_eq!(place(library.as_ref(), vid), Place::ImportExport(element));
    let out = changes();
    assert_ne!(out, before, "what cannot be mounted any more is a change");
    let error = library.mount(vid, &drives[0]).unwrap_err();
    assert!(matches!(error, LibraryError::NotInSlot { .. }), "{error}");
    let error = library.export(vid).unwrap_err();
    assert!(matches!(error, LibraryError::NotInSlot { .. }), "{error}");
    let error = library.import(other).unwrap_err();
    assert!(matches!(error, LibraryError::NotInImportExport { .. }), "{error}");
    assert_eq!(error.cause(), None);

    let slot = library.import(vid).unwrap();
    assert_eq!(place(library.as_ref(), vid), Place::Slot(slot));
    assert_ne!(changes(), out, "what can be mounted again is a change");
    library.mount(vid, &drives[0]).unwrap();
    library.unmount(&drives[0]).unwrap();
    let error = library.export(Vid::new("NONE00").unwrap()).unwrap_err();
    assert!(matches!(error, LibraryError::UnknownCartridge { .. }), "{error}");
}

fn keeps_what_goes_out_from_drives(Subject { library, drives, cartridges, around: _around }: Subject) {
    let [vid, other] = cartridges;
    library.mount(vid, &drives[0]).unwrap();
    let error = library.export(vid).unwrap_err();
    assert!(matches!(&error, LibraryError::CartridgeInUse { drive, .. } if *drive == drives[0]), "{error}");
    assert_eq!(place(library.as_ref(), vid), Place::Drive(drives[0].clone()));
    library.export(other).unwrap();
    library.unmount(&drives[0]).unwrap();
    library.import(other).unwrap();
    let rows = library.inventory().unwrap();
    let both = rows.iter().filter(|row| cartridges.contains(&row.vid));
    assert_eq!(both.filter(|row| matches!(row.place, Place::Slot(_))).count(), 2, "{rows:?}");
}
