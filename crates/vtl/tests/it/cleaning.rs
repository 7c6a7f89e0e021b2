//! Drives get dirty, ask to be cleaned, and are, with a cartridge that the robot puts in: in commands, and by
//! the library's own driver.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use base::ByteCount;
use iscsi::login::Name;
use iscsi::target::{Server, TargetConfig};
use library::scsi::changer::{
    ChangerTimes, DriveSeat, LoadableDrive, ScsiLibrary, ScsiLibraryConfig, SeatedDrive, Unreached,
};
use library::scsi::{DeviceChoice, FoundDevices, ScsiDrive, ScsiDriveOptions, Sources, Ways, discover};
use library::{
    Condition, DriveCommand, DriveName, Library, LibraryError, Place, SleepingWaiter, Slot, TapeAlert,
    TapeError, VirtualLibrary, Waiter,
};
use scsi::command::{ElementType, Primary};
use scsi::element::Element;
use scsi::{Data, DeviceType, Transport};

use vtl::{Options, Target};

use crate::common::*;

/// The slot of the first cleaning cartridge, behind the three tapes.
const CLEANER: u16 = SLOT + 3;
/// What a drive may pass until it asks.
const ASKS_AFTER: ByteCount = ByteCount(64 << 10);

/// A library with cleaning cartridges that clean so often.
fn bench(uses: &[u32], cleaning_time: Duration) -> Bench {
    let directory = tempfile::tempdir().unwrap();
    let library = Arc::new(VirtualLibrary::create(directory.path(), &config()).unwrap());
    for (number, uses) in (1..).zip(uses) {
        library.add_cleaning_cartridge(vid(&format!("CLN{number:03}")), *uses).unwrap();
    }
    let options = Options {
        barcode_suffix: "L8".to_owned(),
        cleaning_after: Some(ASKS_AFTER),
        cleaning_time,
        ..Options::new(Name::new("iqn.2026-01.org.kist:vtl").unwrap())
    };
    let target = Target::new(library.clone(), options).unwrap();
    Bench { directory, library, target }
}

fn left(bench: &Bench, name: &str) -> String {
    std::fs::read_to_string(bench.directory.path().join("cleaning").join(name)).unwrap()
}

fn at(host: &mut Host, kind: ElementType, address: u16) -> Element {
    host.elements(kind).into_iter().find(|element| element.address.0 == address).unwrap()
}

fn ready(host: &mut Host) -> (u8, u8, u8) {
    code(&host.fails(&Primary::TestUnitReady.into(), Data::None))
}

#[test]
fn a_cleaning_cartridge_is_an_element_that_cleans_a_drive() {
    let bench = bench(&[1], Duration::from_secs(3600));
    let (mut changer, mut drive) = (bench.host(CHANGER), bench.loaded());
    let shown = at(&mut changer, ElementType::Storage, CLEANER);
    assert_eq!((shown.medium_type, shown.full, shown.accessible), (2, true, true));
    assert_eq!(shown.primary_tag.unwrap().identifier.trimmed(), "CLN001L1");
    assert_eq!(at(&mut changer, ElementType::DataTransfer, BAY).medium_type, 1, "a tape is none");
    // The drive gets dirty. What it asks for is told once, and again after a load.
    drive.write(&pattern(1, ASKS_AFTER.0 as usize));
    // sg_logs asks for the length first: that tells no flag, and clears none.
    assert_eq!(drive.alerts(4).len(), 4);
    assert_eq!((drive.flags(), drive.flags()), (vec![21], vec![]));
    drive.write(&pattern(1, ASKS_AFTER.0 as usize));
    assert_eq!(drive.flags(), [20]);
    drive.go(&unload(), Data::None);
    drive.go(&load(), Data::None);
    assert_eq!(drive.flags(), [20]);
    drive.go(&unload(), Data::None);
    changer.go(&move_medium(BAY, SLOT), Data::None);
    // It is brought in, and not out before the drive has done with it.
    changer.go(&move_medium(CLEANER, BAY), Data::None);
    assert_eq!(ready(&mut drive), (2, 0x30, 0x03));
    assert_eq!(code(&drive.fails(&unload(), Data::None)), (2, 0x30, 0x03));
    assert_eq!(drive.flags(), [11], "it does not ask any more");
    let there = at(&mut changer, ElementType::DataTransfer, BAY);
    assert_eq!((there.medium_type, there.full, there.accessible), (2, true, false));
    assert_eq!(code(&changer.fails(&move_medium(BAY, CLEANER), Data::None)), (5, 0x53, 0x03));
    assert_eq!(left(&bench, "CLN001"), "0\n");
}

/// Used up: the drive pushes it out at once, says so, and is as dirty as before.
#[test]
fn a_cleaning_cartridge_is_used_up() {
    let bench = bench(&[1, 0], Duration::ZERO);
    let (mut changer, mut drive) = (bench.host(CHANGER), bench.loaded());
    drive.write(&pattern(1, 2 * ASKS_AFTER.0 as usize));
    assert_eq!(drive.flags(), [20]);
    drive.go(&unload(), Data::None);
    changer.go(&move_medium(BAY, SLOT), Data::None);
    let clean = |changer: &mut Host, slot| {
        changer.go(&move_medium(slot, BAY), Data::None);
        assert!(at(changer, ElementType::DataTransfer, BAY).accessible);
        changer.go(&move_medium(BAY, slot), Data::None);
    };
    clean(&mut changer, CLEANER + 1);
    assert_eq!(ready(&mut drive), (2, 0x3a, 0x00));
    assert_eq!(drive.flags(), [11, 22]);
    let asks = |changer: &mut Host, drive: &mut Host| {
        changer.go(&move_medium(SLOT, BAY), Data::None);
        assert_eq!(ready(drive), (6, 0x28, 0x00));
        let raised = drive.flags();
        drive.go(&unload(), Data::None);
        changer.go(&move_medium(BAY, SLOT), Data::None);
        raised
    };
    assert_eq!(asks(&mut changer, &mut drive), [20]);
    clean(&mut changer, CLEANER);
    assert_eq!(drive.flags(), [11]);
    assert_eq!(asks(&mut changer, &mut drive), []);
    // For an operator; one that comes is there.
    changer.go(&move_medium(CLEANER, DOOR), Data::None);
    assert!(at(&mut changer, ElementType::ImportExport, DOOR).full);
    std::fs::write(bench.directory.path().join("cleaning/CLN009"), b"").unwrap();
    assert_eq!(code(&changer.fails(&Primary::TestUnitReady.into(), Data::None)), (6, 0x28, 0x00));
    let tags: Vec<String> = changer
        .elements(ElementType::Storage)
        .into_iter()
        .filter(|element| element.medium_type == 2)
        .map(|element| element.primary_tag.unwrap().identifier.trimmed())
        .collect();
    assert_eq!(tags, ["CLN009L1", "CLN002L1"]);
}

/// Sleeps a thousandth of what it is asked to: a driver that polls every five seconds does it in as many
/// milliseconds, which are five seconds to it.
#[derive(Debug)]
struct Hurried(SleepingWaiter);

impl Waiter for Hurried {
    fn now_us(&self) -> u64 {
        self.0.now_us() * 1_000
    }

    fn wait_until(&self, time_us: u64) {
        self.0.wait_until(time_us.div_ceil(1_000));
    }
}

fn waiter() -> Arc<Hurried> {
    Arc::new(Hurried(SleepingWaiter::new()))
}

fn drive_name(text: &str) -> DriveName {
    DriveName::new(text).unwrap()
}

fn seated(name: &DriveName, way: Box<dyn Transport>) -> Result<Box<dyn LoadableDrive>, Unreached> {
    let options = ScsiDriveOptions { waiter: waiter(), ..ScsiDriveOptions::default() };
    let drive = ScsiDrive::open(name.clone(), way, None, options);
    let drive = drive.map_err(|error| Unreached(error.to_string()))?;
    Ok(Box::new(SeatedDrive::new(drive).ok_or_else(|| Unreached("it is taken".to_owned()))?))
}

/// The library as a server has it: through the initiator, found by its serial number.
fn through_iscsi(bench: &Bench) -> (ScsiLibrary, Server) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = Server::start(listener, bench.target.clone(), TargetConfig::default()).unwrap();
    let steady = || Arc::new(SleepingWaiter::new());
    let ways = || Ways { initiator: Name::new(INITIATOR).unwrap(), account: None, waiter: steady() };
    let sources = Sources { portals: vec![server.address().to_string()], generic: None, bsg: None };
    let found = discover(&ways(), &sources);
    let changer = DeviceChoice::Serial(found.of_type(DeviceType::Changer).next().unwrap().serial.clone());
    let devices = FoundDevices { ways: ways(), sources, changer, make: Box::new(seated) };
    let seat = |number: u16| (drive_name(&format!("drive{number}")), DriveSeat::Number(number));
    let config = ScsiLibraryConfig {
        slots: None,
        drives: vec![seat(0), seat(1)],
        capacity: ByteCount(0),
        times: ChangerTimes::default(),
    };
    (ScsiLibrary::new(config, Arc::new(devices), steady()).unwrap(), server)
}

/// From the flag that asks for it to the drive that asks no more, end to end.
#[test]
fn the_driver_has_a_drive_cleaned_that_asks_for_it() {
    const MOST: Duration = Duration::from_secs(900);
    // Of the driver's seconds these are two minutes.
    let bench = bench(&[1, 50], Duration::from_millis(120));
    let (library, _server) = through_iscsi(&bench);
    let drive = drive_name("drive0");
    let mut tape = library.take_drive(&drive).unwrap();
    let mut asks = |written: usize| {
        library.mount(vid("KT0001"), &drive).unwrap();
        if written > 0 {
            tape.write_block(&pattern(7, written)).unwrap();
        }
        let alerts = tape.alerts().unwrap();
        library.unmount(&drive).unwrap();
        alerts
    };
    let places =
        || library.cleaners().into_iter().map(|it| (it.vid.to_string(), it.place)).collect::<Vec<_>>();
    let slot = |number: u16| Place::Slot(Slot(u32::from(CLEANER + number)));
    let home = [("CLN001".to_owned(), slot(0)), ("CLN002".to_owned(), slot(1))];
    assert_eq!(places(), home);
    assert!(library.inventory().unwrap().iter().all(|tape| !tape.vid.as_str().starts_with("CLN")));
    assert_eq!(asks(2 * ASKS_AFTER.0 as usize), [TapeAlert::CLEAN_NOW]);
    assert_eq!(library.clean(vid("CLN001"), &drive, MOST).unwrap(), [TapeAlert::CLEANING_MEDIUM]);
    assert_eq!((asks(0), left(&bench, "CLN001")), (vec![], "0\n".to_owned()));
    assert_eq!(asks(ASKS_AFTER.0 as usize), [TapeAlert::CLEAN_PERIODIC]);
    let spent = [TapeAlert::CLEANING_MEDIUM, TapeAlert::CLEANER_USED_UP];
    assert_eq!(library.clean(vid("CLN001"), &drive, MOST).unwrap(), spent);
    assert_eq!(asks(0), [TapeAlert::CLEAN_PERIODIC], "another cartridge is needed");
    assert_eq!(library.clean(vid("CLN002"), &drive, MOST).unwrap(), [TapeAlert::CLEANING_MEDIUM]);
    assert_eq!((asks(0), left(&bench, "CLN002")), (vec![], "49\n".to_owned()));
    // It fails: the drive says so, and the cartridge comes home.
    bench.library.faults().plan_condition(&drive_name("vdrive0"), DriveCommand::Clean, Condition::Dirty, 1);
    let error = library.clean(vid("CLN002"), &drive, MOST).unwrap_err();
    let LibraryError::NotCleaned { is_home: true, source, .. } = error else { panic!("{error}") };
    assert!(matches!(*source, TapeError::CleaningNeeded { .. }), "{source}");
    assert_eq!(places(), home);
}
