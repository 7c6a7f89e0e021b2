//! The medium changer.

use library::{Library, VirtualLibraryConfig};
use scsi::command::{Changer, ElementType, Prevention, Primary};
use scsi::element::{ElementStatus, PageElementType};
use scsi::mode::{ElementAddressAssignment, ModeContent, ModeDirection, ModeForm, ModeParameters};
use scsi::{Command, Data, ElementAddress};

use crate::common::*;

/// The volume in each element of a type that has one.
fn volumes(changer: &mut Host, kind: ElementType) -> Vec<(u16, String)> {
    let full = changer.elements(kind).into_iter().filter(|element| element.full);
    full.map(|element| (element.address.0, element.volume().unwrap())).collect()
}

fn exchange(from: u16, first_to: u16, second_to: u16) -> Command {
    Changer::ExchangeMedium {
        transport: ElementAddress(1),
        from: ElementAddress(from),
        first_to: ElementAddress(first_to),
        second_to: ElementAddress(second_to),
        invert_first: false,
        invert_second: false,
    }
    .into()
}

fn status(kind: ElementType, first: u16, count: u16, allocation_length: u32) -> Changer {
    Changer::ReadElementStatus {
        volume_tags: true,
        kind,
        first: ElementAddress(first),
        count,
        mixed: false,
        current: false,
        identifiers: false,
        allocation_length,
    }
}

#[test]
fn elements_lie_where_the_mode_page_says() {
    let bench = Bench::new();
    let mut changer = bench.host(CHANGER);
    let command = Primary::ModeSense6 {
        no_descriptors: false,
        control: scsi::command::PageControl::Current,
        page: 0x1d,
        subpage: 0,
        allocation_length: 255,
    };
    let mode =
        ModeParameters::decode(&changer.ask(command, 255), ModeForm::Six, ModeDirection::Sense).unwrap();
    let expected = ElementAddressAssignment {
        transport: (ElementAddress(1), 1),
        storage: (ElementAddress(SLOT), 19),
        import_export: (ElementAddress(DOOR), 4),
        data_transfer: (ElementAddress(BAY), 2),
    };
    assert_eq!(mode.pages[0].content, ModeContent::ElementAddressAssignment(expected.clone()));
    for kind in
        [ElementType::Transport, ElementType::Storage, ElementType::ImportExport, ElementType::DataTransfer]
    {
        let (first, count) = expected.range(kind);
        let found: Vec<_> = changer.elements(kind).iter().map(|element| element.address.0).collect();
        assert_eq!(found, (first.0..first.0 + count).collect::<Vec<_>>());
    }
    let shelf: Vec<_> = (SLOT..).zip(["KT0001", "KT0002", "KT0003"].map(String::from)).collect();
    assert_eq!(volumes(&mut changer, ElementType::Storage), shelf);
}

#[test]
fn the_status_of_all_elements_has_a_page_for_each_type_and_counts_from_the_lowest_address() {
    let bench = Bench::new();
    let mut changer = bench.host(CHANGER);
    let all = ElementStatus::decode(&changer.ask(status(ElementType::All, 0, 1000, 65_536), 65_536)).unwrap();
    let kinds: Vec<_> = all.pages.iter().map(|page| page.kind).collect();
    use PageElementType::{DataTransfer, ImportExport, Storage, Transport};
    assert_eq!(kinds, [Transport, ImportExport, DataTransfer, Storage]);
    assert_eq!((all.first, all.count), (ElementAddress(1), 1 + 4 + 2 + 19));
    let some = ElementStatus::decode(&changer.ask(status(ElementType::All, 18, 3, 65_536), 65_536)).unwrap();
    let addresses: Vec<_> = some.elements().map(|(_, element)| element.address.0).collect();
    assert_eq!(addresses, [18, 19, 256]);
    // A header alone tells how much there is.
    let head = changer.ask(status(ElementType::Storage, 0, 1000, 8), 8);
    assert_eq!(
        (head.len(), head[3], u32::from_be_bytes([0, head[5], head[6], head[7]])),
        (8, 19, 8 + 19 * 52)
    );
    let beyond = status(ElementType::Storage, 5000, 1, 65_536).into();
    assert_eq!(code(&changer.fails(&beyond, Data::In(&mut [0; 64]))), (5, 0x21, 1));
}

#[test]
fn a_cartridge_goes_to_any_free_element_and_keeps_where_it_came_from() {
    let bench = Bench::new();
    let (mut changer, mut drive) = (bench.host(CHANGER), bench.host(DRIVE));
    changer.go(&move_medium(SLOT, SLOT + 10), Data::None);
    changer.go(&move_medium(SLOT + 1, DOOR), Data::None);
    changer.go(&move_medium(SLOT + 10, BAY), Data::None);
    assert_eq!(volumes(&mut changer, ElementType::DataTransfer), [(BAY, "KT0001".into())]);
    assert_eq!(volumes(&mut changer, ElementType::ImportExport), [(DOOR, "KT0002".into())]);
    let bay = &changer.elements(ElementType::DataTransfer)[0];
    assert_eq!((bay.source, bay.accessible), (Some(ElementAddress(SLOT + 10)), false));
    // What refuses to move: an empty source, a full destination, no such element, the picker.
    for (from, to, expected) in [
        (SLOT, SLOT + 3, (5, 0x3b, 0x0e)),
        (DOOR, BAY, (5, 0x3b, 0x0d)),
        (DOOR, SLOT + 2, (5, 0x3b, 0x0d)),
        (DOOR, 5000, (5, 0x21, 1)),
        (DOOR, 1, (5, 0x21, 1)),
        (BAY, SLOT, (5, 0x53, 3)),
    ] {
        assert_eq!(code(&changer.fails(&move_medium(from, to), Data::None)), expected, "{from} to {to}");
    }
    drive.fails(&Primary::TestUnitReady.into(), Data::None);
    drive.go(&unload(), Data::None);
    assert!(changer.elements(ElementType::DataTransfer)[0].accessible);
    changer.go(&move_medium(BAY, BAY + 1), Data::None);
    let bay = &changer.elements(ElementType::DataTransfer)[1];
    assert_eq!((bay.volume(), bay.source), (Some("KT0001".into()), Some(ElementAddress(SLOT + 10))));
    assert_eq!(bench.library.inventory().unwrap()[0].place, library::Place::Drive("vdrive1".parse_name()));
    let mut second = bench.host(2);
    second.go(&unload(), Data::None);
    changer.go(&move_medium(BAY + 1, SLOT), Data::None);
    assert_eq!(volumes(&mut changer, ElementType::DataTransfer), []);
}

trait ParseName {
    fn parse_name(&self) -> library::DriveName;
}

impl ParseName for str {
    fn parse_name(&self) -> library::DriveName {
        library::DriveName::new(self).unwrap()
    }
}

#[test]
fn an_exchange_takes_the_place_of_a_cartridge() {
    let bench = Bench::new();
    let (mut changer, mut drive) = (bench.host(CHANGER), bench.loaded());
    changer.send(&Primary::TestUnitReady.into(), Data::None);
    assert_eq!(code(&changer.fails(&exchange(SLOT + 1, BAY, SLOT), Data::None)), (5, 0x53, 3));
    drive.go(&unload(), Data::None);
    changer.go(&exchange(SLOT + 1, BAY, SLOT), Data::None);
    assert_eq!(volumes(&mut changer, ElementType::DataTransfer), [(BAY, "KT0002".into())]);
    assert_eq!(code(&drive.fails(&Primary::TestUnitReady.into(), Data::None)), (6, 0x28, 0));
    drive.go(&Primary::TestUnitReady.into(), Data::None);
    // Each in the other's place.
    changer.go(&exchange(SLOT, SLOT + 2, SLOT), Data::None);
    let shelf = volumes(&mut changer, ElementType::Storage);
    assert_eq!(shelf, [(SLOT, "KT0003".into()), (SLOT + 2, "KT0001".into())]);
    assert_eq!(code(&changer.fails(&exchange(SLOT, SLOT + 2, BAY + 1), Data::None)), (5, 0x21, 1));
    assert_eq!(code(&changer.fails(&exchange(SLOT, SLOT + 5, SLOT + 6), Data::None)), (5, 0x3b, 0x0e));
}

#[test]
fn a_door_or_a_drive_that_is_locked_gives_nothing_out() {
    let bench = Bench::with(&config(), |options| options.unload_on_move = true);
    let (mut changer, mut drive) = (bench.host(CHANGER), bench.loaded());
    let prevent = |prevention| Primary::PreventAllowMediumRemoval { prevention }.into();
    changer.go(&prevent(Prevention::Prevent), Data::None);
    drive.go(&prevent(Prevention::Prevent), Data::None);
    assert_eq!(code(&changer.fails(&move_medium(SLOT + 1, DOOR), Data::None)), (5, 0x53, 2));
    assert_eq!(code(&changer.fails(&move_medium(BAY, SLOT), Data::None)), (5, 0x53, 3));
    assert_eq!(code(&drive.fails(&unload(), Data::None)), (5, 0x53, 2));
    changer.go(&prevent(Prevention::Allow), Data::None);
    changer.go(&move_medium(SLOT + 1, DOOR), Data::None);
    // Whoever is gone prevents nothing, and this library unloads a drive by itself.
    drop(drive);
    changer.go(&move_medium(BAY, SLOT), Data::None);
}

#[test]
fn cartridges_that_come_are_told_and_get_a_free_slot() {
    let bench = Bench::new();
    let mut changer = bench.host(CHANGER);
    let options = library::VirtualCartridgeOptions::default();
    bench.library.add_cartridge(vid("KT0000"), base::ByteCount::mib(64), &options).unwrap();
    assert_eq!(code(&changer.fails(&Primary::TestUnitReady.into(), Data::None)), (6, 0x28, 0));
    let shelf = volumes(&mut changer, ElementType::Storage);
    assert_eq!(shelf[0], (SLOT, "KT0001".into()), "nobody else was moved");
    assert_eq!(shelf[3], (SLOT + 3, "KT0000".into()));
    let cartridges = bench.directory.path().join("cartridges");
    std::fs::remove_dir_all(cartridges.join("KT0002")).unwrap();
    // The file system's clock may have stood still since it was looked at.
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(10);
    std::fs::File::open(&cartridges).unwrap().set_modified(later).unwrap();
    assert_eq!(code(&changer.fails(&Primary::TestUnitReady.into(), Data::None)), (6, 0x28, 0));
    assert_eq!(volumes(&mut changer, ElementType::Storage).len(), 3);
}

/// What goes out by the door is in the directory from which an operator takes it, and the other way round.
#[test]
fn operators_take_out_and_put_in_by_the_door() {
    let bench = Bench::new();
    let mut changer = bench.host(CHANGER);
    let elements = bench.directory.path().join("import-export");
    let door = |changer: &mut Host| {
        let all = changer.elements(ElementType::ImportExport);
        all.into_iter()
            .map(|it| (it.full, it.by_operator, it.accessible, it.exports, it.imports))
            .collect::<Vec<_>>()
    };
    let free = (false, false, true, true, true);
    assert_eq!(door(&mut changer), vec![free; 4]);
    changer.go(&move_medium(SLOT, DOOR + 1), Data::None);
    assert_eq!(door(&mut changer)[1], (true, false, true, true, true), "the robot has put it there");
    assert!(elements.join("KT0001").is_dir());

    assert!(bench.target.set_door_open(true));
    assert!(door(&mut changer).iter().all(|it| !it.2));
    for (from, to) in [(SLOT + 1, DOOR), (DOOR + 1, SLOT)] {
        assert_eq!(code(&changer.fails(&move_medium(from, to), Data::None)), (5, 0x3b, 0x11));
    }
    let away = bench.directory.path().join("vault");
    std::fs::rename(elements.join("KT0001"), &away).unwrap();
    assert!(!bench.target.set_door_open(false));
    let mut heard: Vec<_> =
        (0..2).map(|_| code(&changer.fails(&Primary::TestUnitReady.into(), Data::None))).collect();
    heard.sort_unstable();
    assert_eq!(heard, [(6, 0x28, 0), (6, 0x28, 1)]);
    changer.go(&Primary::TestUnitReady.into(), Data::None);
    assert_eq!(door(&mut changer), vec![free; 4]);

    std::fs::rename(&away, elements.join("KT0001")).unwrap();
    assert_eq!(code(&changer.fails(&Primary::TestUnitReady.into(), Data::None)).0, 6);
    changer.send(&Primary::TestUnitReady.into(), Data::None);
    assert_eq!(door(&mut changer)[0], (true, true, true, true, true), "an operator has put it there");
    // Straight into a drive, as backup programs do.
    changer.go(&move_medium(DOOR, BAY), Data::None);
    assert!(!elements.join("KT0001").exists());
    let prevent = Primary::PreventAllowMediumRemoval { prevention: Prevention::Prevent };
    changer.go(&prevent.into(), Data::None);
    assert!(!bench.target.set_door_open(true), "an initiator prevents it");
}

#[test]
fn initialize_and_position_look_at_their_elements() {
    let bench = Bench::new();
    let mut changer = bench.host(CHANGER);
    changer.go(&Changer::InitializeElementStatus.into(), Data::None);
    let range = |first| {
        let first = ElementAddress(first);
        Changer::InitializeElementStatusWithRange { fast: false, range: true, first, count: 2 }.into()
    };
    changer.go(&range(SLOT), Data::None);
    assert_eq!(code(&changer.fails(&range(9), Data::None)), (5, 0x21, 1));
    let position = |transport, to| {
        let (transport, to) = (ElementAddress(transport), ElementAddress(to));
        Changer::PositionToElement { transport, to, invert: false }.into()
    };
    changer.go(&position(1, SLOT), Data::None);
    assert_eq!(code(&changer.fails(&position(2, SLOT), Data::None)), (5, 0x21, 1));
    assert_eq!(code(&changer.fails(&position(1, 5000), Data::None)), (5, 0x21, 1));
}

#[test]
fn a_library_with_more_cartridges_than_slots_is_no_target() {
    let directory = tempfile::tempdir().unwrap();
    let config: VirtualLibraryConfig = config();
    let library = std::sync::Arc::new(library::VirtualLibrary::create(directory.path(), &config).unwrap());
    let options = |change: fn(&mut vtl::Options)| {
        let mut options = vtl::Options::new(iscsi::login::Name::new("iqn.2026-01.org.kist:x").unwrap());
        change(&mut options);
        options
    };
    let refused =
        |change| vtl::Target::new(library.clone(), options(change)).err().map(|error| error.to_string());
    assert_eq!(
        refused(|options| options.slots = Some(2)).unwrap(),
        "3 cartridges do not fit 2 slots: give the library more slots"
    );
    assert!(refused(|options| options.serial = "x".repeat(21)).is_some());
    assert!(refused(|options| options.import_export = 129).is_some());
    assert!(refused(|options| options.barcode_suffix = "é".into()).is_some());
    let target = vtl::Target::new(library.clone(), options(|options| options.slots = Some(3))).unwrap();
    assert!(refused(|_| {}).unwrap().contains("in use"), "its drives are taken");
    drop(target);
    assert_eq!(refused(|_| {}), None);
}
