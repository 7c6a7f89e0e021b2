//! The library's own driver for changers and drives, on this target: the virtual library through SCSI does
//! what it does without, in this process and over iSCSI.

use std::net::TcpListener;
use std::sync::Arc;

use base::ByteCount;
use iscsi::login::Name;
use iscsi::target::{Server, TargetConfig};
use library::scsi::changer::{
    ChangerTimes, Devices, DriveSeat, LoadableDrive, ScsiLibrary, ScsiLibraryConfig, SeatedDrive, Unreached,
    WantedDrive,
};
use library::scsi::{DeviceChoice, FoundDevices, ScsiDrive, ScsiDriveOptions, Sources, Ways, discover};
use library::{DriveName, Library, LibraryError, Place, SleepingWaiter, Slot};
use scsi::{Data, DeviceType, Transport};
use vtl::Target;

use crate::common::{Bench, CHANGER, DOOR, INITIATOR, SLOT, config, move_medium, vid};
use crate::conformance;

fn drive_name(text: &str) -> DriveName {
    DriveName::new(text).unwrap()
}

fn options() -> ScsiLibraryConfig {
    let drive = |number: u16| (drive_name(&format!("drive{number}")), DriveSeat::Number(number));
    ScsiLibraryConfig {
        slots: None,
        drives: vec![drive(0), drive(1)],
        capacity: ByteCount(0),
        times: ChangerTimes::default(),
    }
}

fn seated(name: &DriveName, way: Box<dyn Transport>) -> Result<Box<dyn LoadableDrive>, Unreached> {
    let drive = ScsiDrive::open(name.clone(), way, None, ScsiDriveOptions::default());
    let drive = drive.map_err(|error| Unreached(error.to_string()))?;
    Ok(Box::new(SeatedDrive::new(drive).ok_or_else(|| Unreached("it is taken".to_owned()))?))
}

/// Units of a target of this process.
struct Local(Arc<Target>);

impl Devices for Local {
    fn changer(&self) -> Result<Box<dyn Transport>, Unreached> {
        Ok(Box::new(self.0.transport(0, INITIATOR).unwrap()))
    }

    fn drive(&self, wanted: &WantedDrive) -> Result<Box<dyn LoadableDrive>, Unreached> {
        let unit = wanted.element.0 - crate::common::BAY + 1;
        seated(&wanted.name, Box::new(self.0.transport(unit, INITIATOR).unwrap()))
    }
}

fn subject(bench: Bench, library: ScsiLibrary, around: Box<dyn std::any::Any>) -> conformance::Subject {
    conformance::Subject {
        library: Arc::new(library),
        drives: ["drive0", "drive1"].map(drive_name),
        cartridges: ["KT0001", "KT0002"].map(vid),
        around: Box::new((bench, around)),
    }
}

#[test]
fn a_library_in_this_process_is_a_library() {
    for suffix in ["", "L8"] {
        conformance::library(&|| {
            let bench = Bench::with(&config(), |options| options.barcode_suffix = suffix.to_owned());
            let devices = Arc::new(Local(bench.target.clone()));
            let library = ScsiLibrary::new(options(), devices, Arc::new(SleepingWaiter::new())).unwrap();
            subject(bench, library, Box::new(()))
        });
    }
}

fn ways() -> Ways {
    let initiator = Name::new(INITIATOR).unwrap();
    Ways { initiator, account: None, waiter: Arc::new(SleepingWaiter::new()) }
}

fn serve(bench: &Bench) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    Server::start(listener, bench.target.clone(), TargetConfig::default()).unwrap()
}

#[test]
fn a_library_behind_iscsi_is_a_library() {
    conformance::library(&|| {
        let bench = Bench::new();
        let server = serve(&bench);
        let sources = Sources { portals: vec![server.address().to_string()], generic: None, bsg: None };
        let found = discover(&ways(), &sources);
        assert_eq!((found.failed.len(), found.devices.len()), (0, 3), "{found:?}");
        let changer = found.of_type(DeviceType::Changer).next().unwrap();
        let changer = DeviceChoice::Serial(changer.serial.clone());
        let devices = FoundDevices { ways: ways(), sources, changer, make: Box::new(seated) };
        let library =
            ScsiLibrary::new(options(), Arc::new(devices), Arc::new(SleepingWaiter::new())).unwrap();
        subject(bench, library, Box::new(server))
    });
}

/// What others do to a library is found: what an operator does by a unit attention, what another initiator
/// does by the comparison of now and then, or when somebody asks.
#[test]
fn what_others_change_is_found() {
    let bench = Bench::new();
    let devices = Arc::new(Local(bench.target.clone()));
    let library = ScsiLibrary::new(options(), devices, Arc::new(SleepingWaiter::new())).unwrap();
    let place = |text: &str| {
        let rows = library.inventory().unwrap();
        rows.into_iter().find(|row| row.vid == vid(text)).map(|row| row.place)
    };
    let door = Place::ImportExport(Slot(u32::from(DOOR)));
    let seen = library.changes().unwrap();
    let mut other = bench.host_of(CHANGER, "iqn.2026-01.org.kist:other");
    other.go(&move_medium(SLOT, DOOR), Data::None);
    // A target tells nobody of moves (SMC-3): nothing was heard yet.
    assert_eq!(library.changes().unwrap(), seen);
    assert_ne!(place("KT0001"), Some(door.clone()));
    library.look_again(false).unwrap();
    let looked = library.changes().unwrap();
    assert_ne!(looked, seen);
    assert_eq!(place("KT0001"), Some(door.clone()));

    let elements = bench.directory.path().join("import-export");
    std::fs::rename(elements.join("KT0001"), bench.directory.path().join("vault")).unwrap();
    let heard = library.changes().unwrap();
    assert_ne!((heard, place("KT0001")), (looked, Some(door)));
    assert_eq!(place("KT0001"), None);
    std::fs::rename(bench.directory.path().join("vault"), elements.join("KT0001")).unwrap();
    assert_ne!(library.changes().unwrap(), heard);
    library.import(vid("KT0001")).unwrap();
    library.mount(vid("KT0001"), &drive_name("drive0")).unwrap();
    library.unmount(&drive_name("drive0")).unwrap();
    // A robot that looks with its own eyes finds the same.
    library.look_again(true).unwrap();
    assert_eq!(library.inventory().unwrap().len(), 3);
}

/// An open door keeps the robot from what comes and goes, and is told as that.
#[test]
fn an_open_door_is_told() {
    let bench = Bench::new();
    let devices = Arc::new(Local(bench.target.clone()));
    let library = ScsiLibrary::new(options(), devices, Arc::new(SleepingWaiter::new())).unwrap();
    bench.target.set_door_open(true);
    let error = library.export(vid("KT0001")).unwrap_err();
    assert!(matches!(error, LibraryError::ImportExportOpen), "{error}");
    bench.target.set_door_open(false);
    library.export(vid("KT0001")).unwrap();
    bench.target.set_door_open(true);
    let error = library.import(vid("KT0001")).unwrap_err();
    assert!(matches!(error, LibraryError::ImportExportOpen), "{error}");
}

#[cfg(feature = "faults")]
mod faults {
    use std::sync::atomic::{AtomicU64, Ordering};

    use base::Vid;
    use library::Waiter;
    use scsi::{Sense, SenseKey};
    use vtl::Fault;

    use super::*;

    /// Time that goes by only when somebody waits.
    #[derive(Debug, Default)]
    struct Clock(AtomicU64);

    impl Waiter for Clock {
        fn now_us(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }

        fn wait_until(&self, until_us: u64) {
            self.0.fetch_max(until_us, Ordering::Relaxed);
        }
    }

    fn places(library: &dyn Library) -> Vec<(Vid, bool)> {
        let rows = library.inventory().unwrap().into_iter();
        rows.map(|row| (row.vid, matches!(row.place, Place::Slot(_)))).collect()
    }

    /// Goes on until the fault has not been met any more: each place in the way of a mount and an unmount was
    /// struck then.
    fn each_place(operation: u8, fault: &Fault) {
        for skip in 0.. {
            assert!(skip < 100, "it does not end");
            let bench = Bench::new();
            let devices = Arc::new(Local(bench.target.clone()));
            let clock = Arc::new(Clock::default());
            let library =
                ScsiLibrary::new(options(), devices, Arc::clone(&clock) as Arc<dyn Waiter>).unwrap();
            let before = places(&library);
            let faults = bench.target.faults();
            faults.plan_at(crate::common::CHANGER, operation, skip, 1, fault.clone());
            let (drive, other, vid) = (drive_name("drive0"), drive_name("drive1"), vid("KT0001"));

            let what = || format!("{fault:?} at {operation:02x}h, {skip}");
            let mounted = library.mount(vid, &drive);
            let unmounted = mounted.is_ok().then(|| library.unmount(&drive));
            if faults.fired() == 0 {
                assert!(matches!(unmounted, Some(Ok(_))), "{}", what());
                return;
            }
            // Whatever came of it, the library itself has each cartridge once, and a later try succeeds.
            for _ in 0..3 {
                clock.0.fetch_add(3_600_000_000, Ordering::Relaxed);
                if library.changes().is_ok() {
                    break;
                }
            }
            match library.unmount(&drive) {
                Ok(found) => assert_eq!(found, vid, "{}", what()),
                Err(error) => {
                    assert!(matches!(error, library::LibraryError::DriveEmpty { .. }), "{}: {error}", what());
                }
            }
            assert_eq!(places(&library), before, "{}", what());
            library.mount(vid, &other).unwrap_or_else(|error| panic!("{}: {error}", what()));
            assert_eq!(library.unmount(&other).unwrap(), vid, "{}", what());
            assert_eq!(places(&library), before, "{}", what());
            let really = bench.library.inventory().unwrap();
            assert!(really.iter().all(|row| matches!(row.place, Place::Slot(_))), "{}: {really:?}", what());
        }
    }

    #[test]
    fn a_fault_at_any_command_loses_no_cartridge() {
        let jam = Sense::new(SenseKey::HardwareError, 0x15, 0x01);
        let attention = Sense::new(SenseKey::UnitAttention, 0x28, 0x00);
        for fault in [
            Fault::NoAnswer,
            Fault::LostAnswer,
            Fault::ResetBefore,
            Fault::ResetAfter,
            Fault::ReservationConflict,
            Fault::Sense(jam),
            Fault::Sense(attention),
            Fault::Sense(Sense::new(SenseKey::NotReady, 0x04, 0x01)),
            Fault::Sense(Sense::new(SenseKey::NotReady, 0x04, 0x03)),
            Fault::Sense(Sense::new(SenseKey::IllegalRequest, 0x24, 0x00)),
        ] {
            // MOVE MEDIUM and READ ELEMENT STATUS.
            for operation in [0xa5, 0xb8] {
                each_place(operation, &fault);
            }
        }
        // TEST UNIT READY and INQUIRY.
        for fault in [Fault::NoAnswer, Fault::ReservationConflict] {
            for operation in [0x00, 0x12] {
                each_place(operation, &fault);
            }
        }
    }
}

/// The changer's own log pages, through the driver: the robot counts, flags that it raises are told, and a
/// thermometer shows where there is one. Of several libraries it is known which one says it.
#[cfg(feature = "faults")]
#[test]
fn what_a_changer_says_of_itself_comes_through() {
    let bench = Bench::new();
    // Before it is looked for: a page that was not there is not asked for again.
    bench.target.heat_changer(41);
    let devices = Arc::new(Local(bench.target.clone()));
    let library = ScsiLibrary::new(options(), devices, Arc::new(SleepingWaiter::new())).unwrap();
    let library = Arc::new(library);
    let counts = |moves| {
        use library::RobotCount::{Moves, PickRetries, Picks, PlaceRetries, Places};
        vec![(Moves, moves), (Picks, moves), (PickRetries, 0), (Places, moves), (PlaceRetries, 0)]
    };
    let none = library::LibraryCondition { celsius: Some(41), counts: counts(0), ..Default::default() };
    assert_eq!(library.conditions(), std::slice::from_ref(&none));
    library.mount(vid("KT0001"), &drive_name("drive0")).unwrap();
    library.unmount(&drive_name("drive0")).unwrap();
    bench.target.raise_changer_alert(24);
    assert_eq!(library.conditions(), [none], "nothing is asked for by this");
    library.look_again(false).unwrap();
    let alerts = vec![library::ChangerAlert(24)];
    let told = library::LibraryCondition { library: 0, alerts, celsius: Some(41), counts: counts(2) };
    assert_eq!(library.conditions(), std::slice::from_ref(&told));
    let mut empty = config();
    empty.cartridges.clear();
    empty.drives = vec![DriveName::new("other").unwrap()];
    let virtual_one = Bench::with(&empty, |_| {}).library.clone();
    let members = [("virtual", virtual_one as Arc<dyn Library>), ("scsi", library as Arc<dyn Library>)];
    let union = library::Union::new(members.map(|(name, one)| (name.to_owned(), one)).to_vec()).unwrap();
    assert_eq!(union.conditions(), [library::LibraryCondition { library: 1, ..told }]);
}
