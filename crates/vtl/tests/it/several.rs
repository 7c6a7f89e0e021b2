//! Several initiators at once, and what was there before the target.

use std::collections::BTreeSet;

use library::Library;
use scsi::command::{ElementType, Primary};
use scsi::{Data, Sense, Status};

use crate::common::*;

const KINDS: [ElementType; 3] = [ElementType::Storage, ElementType::ImportExport, ElementType::DataTransfer];

/// A cartridge that was in a drive already is there, and goes to a slot that is kept for it.
#[test]
fn a_target_takes_over_what_is_in_a_drive() {
    let directory = tempfile::tempdir().unwrap();
    let library = std::sync::Arc::new(library::VirtualLibrary::create(directory.path(), &config()).unwrap());
    let names = library.drives();
    library.mount(vid("KT0002"), &names[1]).unwrap();
    let options = vtl::Options::new(iscsi::login::Name::new("iqn.2026-01.org.kist:vtl").unwrap());
    let target = vtl::Target::new(library.clone(), options).unwrap();
    let bench = Bench { directory, library, target };
    let (mut changer, mut drive) = (bench.host(CHANGER), bench.host(2));
    let bay = &changer.elements(ElementType::DataTransfer)[1];
    assert_eq!((bay.volume(), bay.accessible), (Some("KT0002".into()), false));
    let home = bay.source.unwrap().0;
    drive.write(&pattern(1, 10));
    drive.go(&unload(), Data::None);
    changer.go(&move_medium(BAY + 1, home), Data::None);
    assert_eq!(changer.elements(ElementType::Storage).iter().filter(|slot| slot.full).count(), 3);
    // The end of the program unloads what initiators have left in drives, prevented or not.
    changer.go(&move_medium(home, BAY + 1), Data::None);
    drive.fails(&Primary::TestUnitReady.into(), Data::None);
    let prevention = scsi::command::Prevention::Prevent;
    drive.go(&Primary::PreventAllowMediumRemoval { prevention }.into(), Data::None);
    assert!(bench.target.close().is_empty());
    assert!(
        bench.library.inventory().unwrap().iter().all(|info| matches!(info.place, library::Place::Slot(_)))
    );
}

/// Whatever two initiators do with robot and drives at the same time: each command ends as it may, each
/// cartridge is in one element, and the library agrees about the drives.
#[test]
fn two_initiators_lose_no_cartridge() {
    let bench = Bench::new();
    let places: Vec<u16> = vec![SLOT, SLOT + 1, SLOT + 2, SLOT + 3, DOOR, BAY, BAY + 1];
    std::thread::scope(|scope| {
        for seed in 1..=4u64 {
            let (bench, places) = (&bench, &places);
            scope.spawn(move || {
                let initiator = format!("iqn.2026-01.org.kist:host{seed}");
                let mut changer = bench.host_of(CHANGER, &initiator);
                let mut drives = [1, 2].map(|lun| bench.host_of(lun, &initiator));
                let choices = pattern(seed, 400);
                for [what, from, to, drive] in choices.as_chunks::<4>().0 {
                    let drive = &mut drives[usize::from(drive % 2)];
                    let at = |choice: &u8| places[usize::from(*choice) % places.len()];
                    let end = match what % 4 {
                        0 | 1 => changer.send(&move_medium(at(from), at(to)), Data::None),
                        2 => drive.send(&unload(), Data::None),
                        _ => drive.send(&load(), Data::None),
                    };
                    let allowed = match end.status {
                        Status::Good => true,
                        _ => {
                            let sense = Sense::decode(&end.sense).unwrap();
                            matches!(
                                code(&sense),
                                (5, 0x3b, 0x0d | 0x0e)
                                    | (5, 0x53, 3)
                                    | (6, 0x28 | 0x29, _)
                                    | (2, 0x3a | 0x04, _)
                            )
                        }
                    };
                    assert!(allowed, "{end:?}");
                }
            });
        }
    });
    let mut changer = bench.host(CHANGER);
    let found: Vec<String> = KINDS
        .iter()
        .flat_map(|kind| changer.elements(*kind))
        .filter_map(|element| element.volume())
        .collect();
    let distinct: BTreeSet<&str> = found.iter().map(String::as_str).collect();
    assert_eq!((found.len(), distinct), (3, BTreeSet::from(["KT0001", "KT0002", "KT0003"])));
    let bays = changer.elements(ElementType::DataTransfer);
    for (bay, name) in bays.iter().zip(bench.library.drives()) {
        let inventory = bench.library.inventory().unwrap();
        let there = inventory.iter().find(|info| info.place == library::Place::Drive(name.clone()));
        // What was unloaded is in the drive still, but not in the library's hands.
        let loaded = bay.volume().filter(|_| !bay.accessible);
        assert_eq!(there.map(|info| info.vid.to_string()), loaded, "{name}");
    }
}
