//! What a changer holds, and what changes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::world::*;
use crate::common::{drive_name, vid};
use library::scsi::changer::{DriveSeat, ScsiLibraryConfig};
use library::{ChangerAlert, Library, LibraryCondition, LibraryError, Place, Slot, Union};
use scsi::{ElementAddress, SenseKey};

fn vids(library: &dyn Library) -> Vec<String> {
    library.inventory().unwrap().into_iter().map(|info| info.vid.to_string()).collect()
}

/// Changers that lack this or that give the same inventory.
#[test]
fn an_inventory_is_read_whatever_the_changer_lacks() {
    let plain = Quirks::default();
    let all = [
        plain,
        Quirks { no_opcodes: true, ..plain },
        Quirks { no_identifiers: true, ..plain },
        Quirks { no_addresses: true, ..plain },
        Quirks { ignores_count: true, ..plain },
        Quirks { transfer_max: Some(200), ..plain },
        Quirks { allocation_max: Some((4096, SenseKey::HardwareError, 0x44)), ..plain },
        Quirks { allocation_max: Some((4096, SenseKey::IllegalRequest, 0x24)), ..plain },
        Quirks { leaves_out: 8, ..plain },
        Quirks { leaves_out: 8, no_identifiers: true, ignores_count: true, ..plain },
        Quirks { no_opcodes: true, no_identifiers: true, no_addresses: true, ignores_count: true, ..plain },
    ];
    for quirks in all {
        let mut labels = ["KS0001L8", "", "KS0002L8", "CLN001L1", UNREADABLE, "KS0003"].to_vec();
        labels.resize(60, "");
        let mut world = World::new(&labels);
        world.quirks = quirks;
        world.put(DOOR, Some("KS0009L9"));
        let bench = Bench::new(world);
        let rows = bench.library.inventory().unwrap();
        let seen: Vec<(&str, &Place)> = rows.iter().map(|row| (row.vid.as_str(), &row.place)).collect();
        let slot = |at: u16| Place::Slot(Slot(u32::from(at)));
        assert_eq!(
            seen,
            [
                ("KS0001", &slot(SLOTS)),
                ("KS0002", &slot(SLOTS + 2)),
                ("KS0003", &slot(SLOTS + 5)),
                ("KS0009", &Place::ImportExport(Slot(u32::from(DOOR)))),
            ],
            "{quirks:?}"
        );
        assert!(rows[0].capacity.0 > 11_000_000_000_000 && rows[2].capacity.0 == 0);
        assert_eq!(bench.library.cleaning_cartridges().len(), 1);
        assert_eq!(
            bench.library.without_vid(),
            ["the cartridge in slot 1004 (no label could be read)"],
            "{quirks:?}"
        );
        assert!(bench.library.out_of_reach().is_empty(), "{:?}", bench.library.out_of_reach());
    }
}

#[test]
fn without_volume_tags_nothing_is_offered() {
    let mut world = World::new(&["KS0001L8"]);
    world.quirks.no_tags = true;
    let bench = Bench::new(world);
    assert!(bench.library.inventory().unwrap().is_empty());
    assert_eq!(bench.library.without_vid().len(), 1);
}

#[test]
fn ten_thousand_slots_are_read_in_pieces() {
    let labels: Vec<String> = (0..10_000).map(|number| format!("K{number:05}L8")).collect();
    let mut world = World::new(&labels.iter().map(String::as_str).collect::<Vec<_>>());
    world.quirks.transfer_max = Some(64 << 10);
    let bench = Bench::new(world);
    assert_eq!(bench.library.inventory().unwrap().len(), 10_000);
    let reads = bench.world.lock().unwrap().heard["READ ELEMENT STATUS"];
    assert!((20..30).contains(&reads), "{reads}");
}

/// Only what somebody else does is a change, whether the changer tells of it or not.
#[test]
fn changes_are_heard_of_and_compared() {
    let bench = Bench::new(World::new(&["KS0001L8", "KS0002L8", ""]));
    let before = bench.library.changes().unwrap();
    let drive = drive_name("drive0");
    bench.library.mount(vid("KS0001"), &drive).unwrap();
    bench.clock.0.fetch_add(3_600_000_000, Ordering::Relaxed);
    assert_eq!(bench.library.changes().unwrap(), before, "a mount is no change");
    bench.library.unmount(&drive).unwrap();
    bench.clock.0.fetch_add(3_600_000_000, Ordering::Relaxed);
    assert_eq!(bench.library.changes().unwrap(), before, "nor an unmount");

    // Told by a unit attention.
    bench.change(|world| {
        world.put(SLOTS + 2, Some("KS0003L8"));
        world.attentions.push_back((0x28, 0x01));
    });
    let came = bench.library.changes().unwrap();
    assert!(came > before);
    assert_eq!(vids(&bench.library), ["KS0001", "KS0002", "KS0003"]);
    assert_eq!(bench.library.changes().unwrap(), came);
    // An attention that means nothing.
    bench.change(|world| world.attentions.push_back((0x2a, 0x01)));
    assert_eq!(bench.library.changes().unwrap(), came);

    // Told to somebody else: found when all is compared.
    bench.change(|world| world.put(SLOTS + 2, None));
    assert_eq!(bench.library.changes().unwrap(), came);
    bench.clock.0.fetch_add(3_600_000_000, Ordering::Relaxed);
    assert!(bench.library.changes().unwrap() > came);
    assert_eq!(vids(&bench.library), ["KS0001", "KS0002"]);
}

/// A changer that is not reached stops nobody: it is tried again.
#[test]
fn a_changer_may_be_away_at_the_start() {
    let mut world = World::new(&["KS0001L8"]);
    world.away = true;
    let bench = Bench::new(world);
    let library = &bench.library;
    assert_eq!((library.changes().unwrap(), library.inventory().unwrap().len()), (0, 0));
    assert!(library.out_of_reach()[0].contains("the way broke"), "{:?}", library.out_of_reach());
    assert_eq!(library.unreached(), [0], "what it holds is not known");
    let drive = drive_name("drive0");
    let handle = library.take_drive(&drive).unwrap();
    assert!(!handle.loaded());
    assert!(matches!(
        library.mount(vid("KS0001"), &drive),
        Err(LibraryError::Path { .. } | LibraryError::NotReached { .. })
    ));

    bench.change(|world| world.away = false);
    assert_eq!(library.changes().unwrap(), 0, "not before its time");
    bench.clock.0.fetch_add(60_000_000, Ordering::Relaxed);
    assert_eq!((library.changes().unwrap(), library.inventory().unwrap().len()), (1, 1));
    assert!(library.out_of_reach().is_empty() && library.unreached().is_empty());
    library.mount(vid("KS0001"), &drive).unwrap();
    assert!(handle.loaded());

    // Whoever asks is not told of what was in the way a moment ago.
    bench.change(|world| world.away = true);
    bench.clock.0.fetch_add(60_000_000, Ordering::Relaxed);
    // The way breaks, and is looked for once.
    assert!(library.changes().is_err() && library.changes().is_err());
    bench.change(|world| world.away = false);
    assert!(library.changes().is_err(), "not before its time");
    library.look_again(false).unwrap();
    assert!(library.out_of_reach().is_empty(), "{:?}", library.out_of_reach());

    // Away later: what was known is not taken for what is there.
    bench.change(|world| world.away = true);
    assert!(matches!(library.changes(), Err(LibraryError::Path { .. } | LibraryError::NotReached { .. })));
    assert!(library.inventory().is_err());
    bench.change(|world| world.away = false);
    bench.clock.0.fetch_add(60_000_000, Ordering::Relaxed);
    assert_eq!(library.changes().unwrap(), 1, "it holds what it held");
}

#[test]
fn another_changer_at_the_same_address_is_refused() {
    let bench = Bench::new(World::new(&["KS0001L8"]));
    bench.change(|world| {
        world.serial = "CH0002".to_owned();
        world.attentions.push_back((0x29, 0x01));
    });
    let error = bench.library.changes().unwrap_err().to_string();
    assert!(error.contains("another changer"), "{error}");
    bench.clock.0.fetch_add(60_000_000, Ordering::Relaxed);
    let error = bench.library.changes().unwrap_err().to_string();
    assert!(error.contains("CH0002"), "{error}");
}

#[test]
fn drives_are_found_by_serial_or_where_they_stand() {
    let seats = |seats: Vec<DriveSeat>| {
        let named = (0..).zip(seats).map(|(number, seat)| (drive_name(&format!("drive{number}")), seat));
        ScsiLibraryConfig { drives: named.collect(), ..numbered() }
    };
    let serial = |text: &str| DriveSeat::Serial(text.to_owned());
    let at = |text: &str, at: u16| DriveSeat::SerialAt(text.to_owned(), ElementAddress(at));
    let bench = Bench::with(World::new(&["KS0001L8"]), seats(vec![serial("SN257"), serial("SN256")]));
    bench.library.mount(vid("KS0001"), &drive_name("drive0")).unwrap();
    assert_eq!(bench.label(DRIVES + 1).as_deref(), Some("KS0001L8"));

    let bench = Bench::with(World::new(&["KS0001L8"]), seats(vec![serial("SN9"), serial("SN256")]));
    let missing = bench.library.mount(vid("KS0001"), &drive_name("drive0")).unwrap_err();
    assert!(matches!(missing, LibraryError::DriveMissing { .. }), "{missing}");
    assert_eq!(
        bench.library.out_of_reach(),
        ["drive drive0: the changer has no drive with serial number SN9"]
    );
    bench.library.mount(vid("KS0001"), &drive_name("drive1")).unwrap();

    let mut world = World::new(&["KS0001L8"]);
    world.quirks.no_identifiers = true;
    let blind = Bench::with(world, seats(vec![serial("SN256"), at("SN257", 257), at("SN257", 257)]));
    let told = blind.library.out_of_reach();
    assert!(told[0].contains("\"256=serial:SN256\"") && told[1].contains("already"), "{told:?}");
    blind.library.mount(vid("KS0001"), &drive_name("drive1")).unwrap();
    assert_eq!(blind.label(257).as_deref(), Some("KS0001L8"));
}

/// A partition of a library: the rest belongs to other software.
#[test]
fn elements_of_others_are_neither_seen_nor_touched() {
    let mut world = World::new(&["KS0001L8", "", "XX0001L8", "XX0002L8"]);
    world.cells.get_mut(&(SLOTS + 3)).unwrap().exception = Some((0x53, 0x08));
    let config = ScsiLibraryConfig {
        slots: Some(vec![SLOTS..=SLOTS + 1]),
        drives: numbered().drives[..1].to_vec(),
        ..numbered()
    };
    let bench = Bench::with(world, config);
    assert_eq!(vids(&bench.library), ["KS0001"]);
    assert!(bench.library.without_vid().is_empty());
    assert!(bench.world.lock().unwrap().initialized.is_empty(), "the robot looks into no slot of others");
    let error = bench.library.mount(vid("XX0001"), &drive_name("drive0")).unwrap_err();
    assert!(matches!(error, LibraryError::UnknownCartridge { .. }), "{error}");
    // Our slots are taken meanwhile: the cartridge goes to none of the others'.
    bench.library.mount(vid("KS0001"), &drive_name("drive0")).unwrap();
    bench.change(|world| {
        world.put(SLOTS, Some("KS0002L8"));
        world.put(SLOTS + 1, Some("KS0003L8"));
        world.put(SLOTS + 3, None);
        world.attentions.push_back((0x28, 0x00));
    });
    bench.library.changes().unwrap();
    let error = bench.library.unmount(&drive_name("drive0")).unwrap_err();
    assert!(matches!(error, LibraryError::NoFreeSlot { .. }), "{error}");
    assert_eq!(bench.moves(), [(SLOTS, DRIVES)]);
    // One of ours is free again, which nobody told.
    bench.change(|world| world.put(SLOTS + 1, None));
    bench.library.unmount(&drive_name("drive0")).unwrap();
    assert_eq!(bench.moves(), [(DRIVES, SLOTS + 1)]);
}

/// Several changers are several libraries.
#[test]
fn two_changers_are_two_libraries() {
    let bench = |labels: &[&str], prefix: &str| {
        let drive = |number: u16| (drive_name(&format!("{prefix}{number}")), DriveSeat::Number(number));
        Bench::with(World::new(labels), ScsiLibraryConfig { drives: vec![drive(0), drive(1)], ..numbered() })
    };
    let (near, far) = (bench(&["KS0001L8"], "drive"), bench(&["KS0002L8"], "far-drive"));
    let worlds = [near.world.clone(), far.world.clone()];
    let named = vec![
        ("near".to_owned(), Arc::new(near.library) as Arc<dyn Library>),
        ("far".to_owned(), Arc::new(far.library) as Arc<dyn Library>),
    ];
    let union = Union::new(named).unwrap();
    assert_eq!(vids(&union), ["KS0001", "KS0002"]);
    let error = union.mount(vid("KS0001"), &drive_name("far-drive0")).unwrap_err();
    assert!(matches!(error, LibraryError::OtherLibrary { .. }), "{error}");
    for (text, drive) in [("KS0001", "drive1"), ("KS0002", "far-drive1")] {
        union.mount(vid(text), &drive_name(drive)).unwrap();
        assert_eq!(union.unmount(&drive_name(drive)).unwrap(), vid(text));
    }
    assert!(worlds.iter().all(|world| world.lock().unwrap().moves.len() == 2));
    worlds[1].lock().unwrap().away = true;
    let changes = union.changes().unwrap();
    assert_eq!(union.inventory_in_reach().unwrap().len(), 2, "it is taken to hold what it held");
    assert_eq!(union.changes().unwrap(), changes);
    assert!(union.inventory().is_err(), "who needs all of them hears of it");
    assert!(union.out_of_reach()[0].starts_with("library far: "), "{:?}", union.out_of_reach());
}

#[test]
fn slots_that_the_changer_does_not_know_are_looked_into() {
    let mut world = World::new(&["KS0001L8", "KS0002L8", "KS0003L8", "KS0004L8"]);
    for at in [SLOTS + 1, SLOTS + 3] {
        world.cells.get_mut(&at).unwrap().exception = Some((0x53, 0x08));
    }
    let bench = Bench::new(world);
    assert_eq!(bench.world.lock().unwrap().initialized, [(SLOTS + 1, 1), (SLOTS + 3, 1)]);
    let mut world = World::new(&["KS0001L8"]);
    world.cells.get_mut(&SLOTS).unwrap().exception = Some((0x53, 0x08));
    world.quirks.no_initialize = true;
    assert_eq!(vids(&Bench::new(world).library), ["KS0001"]);
}

/// What a changer says of itself is told, each flag for a day after the changer has told it; one that says
/// nothing, something else or does not answer is a library all the same, and is not asked for that again.
#[test]
fn what_a_changer_says_of_itself_is_told() {
    const HOUR_US: u64 = 3_600_000_000;
    // Flags, temperature, statistics.
    const ALERTS: u8 = 0x2e;
    const HEAT: u8 = 0x0d;
    const COUNTS: u8 = 0x14;
    for (logs, is_told) in
        [(Logs::None, false), (Logs::Some, true), (Logs::Others, false), (Logs::Silent, false)]
    {
        let mut world = World::new(&["KS0001L8"]);
        world.quirks.logs = logs;
        let bench = Bench::new(world);
        for _ in 0..2 {
            bench.library.look_again(false).unwrap();
        }
        assert_eq!(vids(&bench.library), ["KS0001"], "{logs:?}");
        assert!(bench.library.out_of_reach().is_empty(), "{:?}", bench.library.out_of_reach());
        let asked = std::mem::take(&mut bench.world.lock().unwrap().logs_asked);
        let expected = match is_told {
            true => vec![ALERTS, HEAT, COUNTS, ALERTS, HEAT, ALERTS, HEAT],
            false => vec![ALERTS, HEAT, COUNTS],
        };
        assert_eq!(asked, expected, "{logs:?}");
        let condition = LibraryCondition {
            library: 0,
            alerts: vec![ChangerAlert(16)],
            celsius: Some(31),
            counts: Vec::new(),
        };
        let told = |hours: u64| {
            bench.clock.0.fetch_add(hours * HOUR_US, Ordering::Relaxed);
            bench.library.conditions()
        };
        if is_told {
            assert_eq!(told(23), *std::slice::from_ref(&condition), "also after it was told once");
            assert_eq!(told(1), [LibraryCondition { alerts: Vec::new(), ..condition }]);
        } else {
            assert_eq!(told(0), [], "{logs:?}");
        }
    }
    assert_eq!(
        ChangerAlert(16).to_string(),
        "TapeAlert 16, library door: its door is open, or was when it was to work"
    );
}
