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
use library::{DriveName, SleepingWaiter};
use scsi::{DeviceType, Transport};
use vtl::Target;

use crate::common::{Bench, INITIATOR, config, vid};
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
        let sources = Sources { portals: vec![server.address().to_string()], generic: None };
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
