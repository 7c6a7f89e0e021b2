//! Mounting, locking, capacity.

use std::sync::Arc;

use crate::common::{Bench, VID, config, data, drive_name, vid};
use crate::conformance;
use base::{ByteCount, Partition};
use library::{
    CartridgeError, CartridgeReader, Library, LibraryError, Place, TapeError, Union, VirtualCartridgeOptions,
    VirtualLibrary, VirtualLibraryConfig,
};

/// What every library does. `Union` of one is one too.
#[test]
fn the_virtual_library_is_a_library() {
    let make = |wrap: fn(Arc<dyn Library>) -> Arc<dyn Library>| {
        move || {
            let Bench { directory, library } = Bench::new();
            conformance::Subject {
                library: wrap(Arc::new(library)),
                drives: ["vdrive0", "vdrive1"].map(drive_name),
                cartridges: [VID, "KT0002"].map(vid),
                around: Box::new(directory),
            }
        }
    };
    conformance::library(&make(|library| library));
    conformance::library(&make(|library| Arc::new(Union::new(vec![("one".to_owned(), library)]).unwrap())));
}

#[test]
fn unknown_things_are_named() {
    let bench = Bench::new();
    let drive = drive_name("vdrive0");
    let error = bench.library.add_cartridge(vid(VID), ByteCount::mib(1), &Default::default()).unwrap_err();
    assert!(matches!(error, LibraryError::CartridgeExists { .. }), "{error}");
    let twice = VirtualLibraryConfig { drives: vec![drive.clone(), drive], ..config() };
    let error = VirtualLibrary::open(bench.directory.path(), &twice).err().unwrap();
    assert!(matches!(error, LibraryError::DuplicateDrive { .. }), "{error}");
    let error = VirtualLibrary::open(&bench.directory.path().join("none"), &config()).err().unwrap();
    assert!(matches!(error, LibraryError::Directory { .. }), "{error}");
}

#[test]
fn a_loaded_cartridge_is_locked_against_others() {
    let bench = Bench::new();
    let drive = bench.load(VID);
    let other = VirtualLibrary::open(bench.directory.path(), &config()).unwrap();
    let error = other.mount(vid(VID), &drive_name("vdrive0")).unwrap_err();
    assert!(matches!(error, LibraryError::Cartridge(CartridgeError::Locked { .. })), "{error}");
    let error = CartridgeReader::open(&bench.cartridge(VID)).err().unwrap();
    assert!(matches!(error, CartridgeError::Locked { .. }), "{error}");
    drop(drive);
    bench.library.unmount(&drive_name("vdrive0")).unwrap();
    // The refused mount put the cartridge back, so that it can be had now.
    other.mount(vid(VID), &drive_name("vdrive0")).unwrap();
}

#[test]
fn early_warning_comes_before_the_end_of_the_medium() {
    let options = VirtualCartridgeOptions { index_capacity: None, early_warning: Some(ByteCount::kib(100)) };
    let cartridges = vec![(vid(VID), ByteCount::kib(1000))];
    let bench = Bench::with(&VirtualLibraryConfig { cartridges, options, ..config() });
    let mut drive = bench.load(VID);
    drive.locate(data(0)).unwrap();
    let block = vec![3; 100 << 10];
    for n in 1..=10 {
        let early_warning = drive.write_block(&block).unwrap().early_warning;
        assert_eq!(early_warning, n > 9, "after {n} blocks");
        assert_eq!(drive.remaining().unwrap(), ByteCount::kib(1000 - 100 * n));
    }
    let error = drive.write_block(&[1]).unwrap_err();
    assert!(matches!(error, TapeError::EndOfMedium { at, .. } if at == data(10)), "{error}");
    assert!(drive.write_filemarks(1).unwrap().early_warning);
    assert_eq!(drive.position().unwrap(), data(11));
    // The index partition has room of its own.
    drive.space_to_end_of_data(Partition::Index).unwrap();
    assert!(!drive.write_block(&block).unwrap().early_warning);
    // What is cut off is free again.
    drive.locate(data(4)).unwrap();
    assert!(!drive.write_block(&block).unwrap().early_warning);
    assert_eq!(drive.remaining().unwrap(), ByteCount::kib(500));
}

#[test]
fn a_write_protected_cartridge_is_only_read() {
    let bench = Bench::new();
    let mut drive = bench.load(VID);
    drive.write_block(b"kept").unwrap();
    let error = bench.library.set_write_protected(vid(VID), true).unwrap_err();
    assert!(matches!(error, LibraryError::CartridgeInUse { .. }), "{error}");
    bench.library.unmount(&drive_name("vdrive0")).unwrap();
    bench.library.set_write_protected(vid(VID), true).unwrap();
    assert!(bench.library.inventory().unwrap()[0].write_protected);
    drop(drive);
    let mut drive = bench.load(VID);
    for result in [drive.write_block(b"no"), drive.write_filemarks(0)] {
        assert!(matches!(result, Err(TapeError::WriteProtected { .. })), "{result:?}");
    }
    assert!(matches!(drive.format_partitions(), Err(TapeError::WriteProtected { .. })));
    assert!(matches!(
        drive.write_attribute(Partition::Data, 0x800, b"x"),
        Err(TapeError::WriteProtected { .. })
    ));
    assert_eq!(
        crate::common::read_at(drive.as_mut(), crate::common::at(Partition::Index, 0)).unwrap(),
        Some(b"kept".to_vec())
    );
    bench.library.unmount(&drive_name("vdrive0")).unwrap();
}

#[test]
fn exchanged_directories_are_refused_and_the_others_are_not() {
    let bench = Bench::new();
    let (a, b) = (bench.cartridge(VID), bench.cartridge("KT0002"));
    let aside = bench.directory.path().join("aside");
    std::fs::rename(&a, &aside).unwrap();
    std::fs::rename(&b, &a).unwrap();
    std::fs::rename(&aside, &b).unwrap();
    bench.library.add_cartridge(vid("KT0003"), ByteCount::mib(1), &Default::default()).unwrap();
    let library = VirtualLibrary::open(bench.directory.path(), &config()).unwrap();
    let damaged: Vec<bool> = library.inventory().unwrap().iter().map(|row| row.damaged).collect();
    assert_eq!(damaged, [true, true, false]);
    let error = library.mount(vid(VID), &drive_name("vdrive0")).unwrap_err();
    assert!(matches!(error, LibraryError::Cartridge(CartridgeError::WrongCartridge { .. })), "{error}");
    library.mount(vid("KT0003"), &drive_name("vdrive0")).unwrap();
}

#[test]
fn exchanged_record_files_are_refused() {
    for (from, to) in [
        ("KT0002/partition-b.rec", "KT0001/partition-b.rec"),
        ("KT0001/partition-a.rec", "KT0001/partition-b.rec"),
    ] {
        let bench = Bench::new();
        let cartridges = bench.directory.path().join("cartridges");
        std::fs::copy(cartridges.join(from), cartridges.join(to)).unwrap();
        let error = bench.library.mount(vid(VID), &drive_name("vdrive0")).unwrap_err();
        let LibraryError::Cartridge(error) = error else { panic!("{error}") };
        let refused =
            matches!(error, CartridgeError::WrongCartridge { .. } | CartridgeError::WrongPartition { .. });
        assert!(refused, "{error}");
    }
}

#[test]
fn dropping_the_cache_loses_nothing() {
    let bench = Bench::with(&VirtualLibraryConfig { drop_cache: true, ..config() });
    let mut drive = bench.load(VID);
    drive.locate(data(0)).unwrap();
    for n in 0..20 {
        drive.write_block(&crate::common::pattern(n, 50_000)).unwrap();
        drive.write_filemarks(0).unwrap();
    }
    for n in 0..20 {
        assert_eq!(
            crate::common::read_at(drive.as_mut(), data(n)).unwrap(),
            Some(crate::common::pattern(n, 50_000))
        );
    }
}

/// The library tells that something came or went, by whomever, but not what it did itself.
#[test]
fn changes_of_the_inventory_are_told() {
    let bench = Bench::new();
    let vids = || bench.library.inventory().unwrap().into_iter().map(|info| info.vid).collect::<Vec<_>>();
    let (drive, before) = (drive_name("vdrive0"), vids());
    let same = bench.library.changes().unwrap();
    bench.library.mount(before[0], &drive).unwrap();
    assert_eq!(bench.library.changes().unwrap(), same, "a mount is no change");
    let in_drive = bench.library.inventory().unwrap().remove(0).place;
    assert_eq!(in_drive, Place::Drive(drive.clone()));

    // One comes, copied in bit by bit: it is seen, and seen again when it is whole.
    let (new, parts) = (vid("NEW001"), bench.directory.path().join("parts"));
    let other = VirtualLibrary::create(&parts, &config()).unwrap();
    other.add_cartridge(new, ByteCount::mib(1), &VirtualCartridgeOptions::default()).unwrap();
    let (from, to) = (parts.join("cartridges/NEW001"), bench.cartridge("NEW001"));
    std::fs::create_dir(&to).unwrap();
    let half = bench.library.changes().unwrap();
    assert!(half > same);
    let seen = |library: &VirtualLibrary| {
        library.inventory().unwrap().into_iter().find(|info| info.vid == new).map(|info| info.damaged)
    };
    assert_eq!(seen(&bench.library), Some(true));
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
    // Once for its directory, which may have changed again within one step of the clock, once for it.
    let whole = (0..3).map(|_| bench.library.changes().unwrap()).max().unwrap();
    assert!(whole > half);
    assert_eq!(seen(&bench.library), Some(false));
    assert_eq!(bench.library.changes().unwrap(), whole);

    // One that is in a drive goes when it is out of it.
    std::fs::rename(bench.cartridge(before[0].as_str()), bench.directory.path().join("aside")).unwrap();
    bench.library.changes().unwrap();
    assert!(vids().contains(&before[0]));
    let _ = bench.library.unmount(&drive);
    let gone = bench.library.changes().unwrap();
    assert!(gone > whole && !vids().contains(&before[0]));
    assert!(matches!(bench.library.mount(before[0], &drive), Err(LibraryError::UnknownCartridge { .. })));
}

/// Cartridges come and go through a directory of their own.
#[test]
fn what_stands_in_the_import_export_directory_is_there_and_not_in_a_slot() {
    let bench = Bench::new();
    let (slots, elements) =
        (bench.directory.path().join("cartridges"), bench.directory.path().join("import-export"));
    let before = bench.library.changes().unwrap();
    bench.library.export(vid(VID)).unwrap();
    assert!(elements.join(VID).is_dir() && !slots.join(VID).exists());
    // An operator takes it away, and brings it back another day.
    let away = bench.directory.path().join("vault");
    std::fs::rename(elements.join(VID), &away).unwrap();
    assert_ne!(bench.library.changes().unwrap(), before);
    assert!(bench.library.inventory().unwrap().iter().all(|row| row.vid != vid(VID)));
    std::fs::rename(&away, elements.join(VID)).unwrap();
    bench.library.changes().unwrap();
    bench.library.import(vid(VID)).unwrap();
    bench.library.mount(vid(VID), &drive_name("vdrive0")).unwrap();
    // One that another process has open stays.
    let other = VirtualLibrary::open(bench.directory.path(), &config()).unwrap();
    let error = other.export(vid(VID)).unwrap_err();
    assert!(matches!(error, LibraryError::Cartridge(CartridgeError::Locked { .. })), "{error}");
    bench.library.unmount(&drive_name("vdrive0")).unwrap();
    // What stands in both directories is one cartridge, and a stray.
    std::fs::create_dir(elements.join(VID)).unwrap();
    bench.library.changes().unwrap();
    assert_eq!(bench.library.inventory().unwrap().iter().filter(|row| row.vid == vid(VID)).count(), 1);
    let strays = bench.library.without_vid();
    assert!(matches!(&strays[..], [stray] if stray.ends_with(&format!("import-export/{VID}"))), "{strays:?}");
    assert!(matches!(bench.library.import(vid(VID)), Err(LibraryError::NotInImportExport { .. })));
}

/// A robot that jams leaves the cartridge where it is.
#[cfg(feature = "faults")]
#[test]
fn an_export_that_fails_moves_nothing() {
    let bench = Bench::new();
    bench.library.faults().plan_jam(vid(VID));
    let error = bench.library.export(vid(VID)).unwrap_err();
    assert!(matches!(error, LibraryError::NotMoved { .. }), "{error}");
    bench.library.export(vid(VID)).unwrap();
    bench.library.faults().plan_jam(vid(VID));
    let error = bench.library.import(vid(VID)).unwrap_err();
    assert!(matches!(error, LibraryError::NotMoved { .. }), "{error}");
    bench.library.import(vid(VID)).unwrap();
}
