//! Devices of this machine, from a directory as Linux lists them.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use iscsi::login::Name;
use library::SleepingWaiter;
use library::scsi::changer::{Devices, WantedDrive};
use library::scsi::{DeviceChoice, FoundDevices, Sources, Ways, discover};
use scsi::vpd::{Association, CodeSet, Designator, DesignatorType, Vpd, VpdPage};
use scsi::{DeviceType, ElementAddress};

use crate::common::drive_name;

/// What the kernel shows of a device: a disk has no place here, but is there.
fn device(directory: &Path, name: &str, kind: DeviceType, serial: &str) {
    let at = directory.join(name).join("device");
    fs::create_dir_all(&at).unwrap();
    let page = |page| Vpd { qualifier: 0, device_type: kind, page }.encode();
    let identifier = Designator {
        protocol: None,
        code_set: CodeSet::Ascii,
        association: Association::Unit,
        kind: DesignatorType::T10,
        value: format!("IBM     ULT3580-TD8     {serial}").into_bytes(),
    };
    fs::write(at.join("type"), format!("{}\n", kind.byte())).unwrap();
    fs::write(at.join("vendor"), "IBM     \n").unwrap();
    fs::write(at.join("model"), "ULT3580-TD8     \n").unwrap();
    fs::write(at.join("rev"), "LBL0\n").unwrap();
    fs::write(at.join("vpd_pg80"), page(VpdPage::SerialNumber(serial.as_bytes().to_vec()))).unwrap();
    fs::write(at.join("vpd_pg83"), page(VpdPage::Identification(vec![identifier]))).unwrap();
}

fn machine() -> (tempfile::TempDir, Sources) {
    let directory = tempfile::tempdir().unwrap();
    for (name, kind, serial) in [
        ("sg0", DeviceType::Disk, "DISK"),
        ("sg10", DeviceType::Tape, "1068000074"),
        ("sg2", DeviceType::Tape, "1068000073"),
        ("sg3", DeviceType::Changer, "00L4U78R1234"),
        ("sg4", DeviceType::Enclosure, "SES"),
    ] {
        device(directory.path(), name, kind, serial);
    }
    // One of which the kernel knows nothing, and what is no device.
    fs::create_dir_all(directory.path().join("sg9")).unwrap();
    fs::write(directory.path().join("uevent"), "").unwrap();
    let sources = Sources { portals: Vec::new(), generic: Some(directory.path().to_owned()), bsg: None };
    (directory, sources)
}

fn ways() -> Ways {
    let initiator = Name::new("iqn.2026-01.org.kist:test").unwrap();
    Ways { initiator, account: None, waiter: Arc::new(SleepingWaiter::new()) }
}

#[test]
fn devices_are_known_by_serial_without_opening_one() {
    let (_directory, sources) = machine();
    let found = discover(&ways(), &sources);
    assert!(found.failed.is_empty(), "{found:?}");
    let seen: Vec<(String, &str)> =
        found.devices.iter().map(|device| (device.address.to_string(), device.serial.as_str())).collect();
    let all = [("/dev/sg2", "1068000073"), ("/dev/sg3", "00L4U78R1234"), ("/dev/sg10", "1068000074")];
    assert_eq!(seen, all.map(|(at, serial)| (at.to_owned(), serial)));
    let drive = &found.devices[0];
    assert_eq!(
        (drive.vendor.as_str(), drive.product.as_str(), drive.revision.as_str()),
        ("IBM", "ULT3580-TD8", "LBL0")
    );
    assert!(drive.is_named_by(&drive.identifiers[0]) && !found.devices[2].is_named_by(&drive.identifiers[0]));
    let nowhere = Sources {
        portals: Vec::new(),
        generic: Some("/nonexistent".into()),
        bsg: Some("/nonexistent".into()),
    };
    assert_eq!(discover(&ways(), &nowhere), library::scsi::Found::default());
}

#[test]
fn a_drive_is_never_another_one() {
    let (directory, sources) = machine();
    let changer = DeviceChoice::Serial("00L4U78R1234".to_owned());
    let make = Box::new(|_: &library::DriveName, _| -> Result<_, _> { panic!("none can be opened here") });
    let devices = FoundDevices { ways: ways(), sources, changer, make };
    let wanted = |serial: Option<&str>| WantedDrive {
        name: drive_name("drive0"),
        serial: serial.map(str::to_owned),
        identifier: None,
        element: ElementAddress(256),
    };
    let why = |serial| devices.drive(&wanted(serial)).err().unwrap().0;
    assert!(why(Some("1068000099")).contains("1068000099 is not found"));
    assert!(why(None).contains("\"256=serial:NUMBER\""));
    // Found: what fails is that no such device file is there.
    assert!(why(Some("1068000073")).contains("/dev/sg2"), "{}", why(Some("1068000073")));
    // Two devices that differ and claim one serial number.
    device(directory.path(), "sg11", DeviceType::Tape, "1068000073");
    let other =
        Vpd { qualifier: 0, device_type: DeviceType::Tape, page: VpdPage::Identification(Vec::new()) };
    fs::write(directory.path().join("sg11/device/vpd_pg83"), other.encode()).unwrap();
    assert!(why(Some("1068000073")).contains("is two devices: /dev/sg2 and /dev/sg11"));
}

/// A machine without sg shows the same devices by bsg; of one that both show, the node of sg is taken.
#[test]
fn a_device_is_listed_once_and_by_sg_where_that_is() {
    let (directory, sources) = machine();
    let bsg = tempfile::tempdir().unwrap();
    for (unit, name) in [("3:0:0:0", Some("sg2")), ("3:0:0:1", Some("sg3")), ("4:0:0:0", None)] {
        let at = bsg.path().join(unit);
        match name {
            // The kernel's link leads to the one directory of the device.
            Some(name) => {
                fs::create_dir_all(&at).unwrap();
                let device = directory.path().join(name).join("device");
                std::os::unix::fs::symlink(device, at.join("device")).unwrap();
            }
            None => device(bsg.path(), unit, DeviceType::Tape, "1068000099"),
        }
    }
    // A host adapter, which is no unit.
    device(bsg.path(), "sas_host3", DeviceType::Tape, "NONE");
    let addresses = |sources: &Sources| -> Vec<(String, String)> {
        let found = discover(&ways(), sources);
        assert!(found.failed.is_empty(), "{found:?}");
        found.devices.into_iter().map(|device| (device.address.to_string(), device.serial)).collect()
    };
    let both = Sources { bsg: Some(bsg.path().to_owned()), ..sources.clone() };
    let mut all = addresses(&sources);
    all.push(("/dev/bsg/4:0:0:0".to_owned(), "1068000099".to_owned()));
    assert_eq!(addresses(&both), all);
    let alone = Sources { generic: None, ..both };
    let expected = [("3:0:0:0", "1068000073"), ("3:0:0:1", "00L4U78R1234"), ("4:0:0:0", "1068000099")];
    let named = |(unit, serial): (&str, &str)| (format!("/dev/bsg/{unit}"), serial.to_owned());
    assert_eq!(addresses(&alone), expected.map(named));
    for (address, _) in addresses(&alone) {
        assert!(address.parse::<DeviceChoice>().is_ok(), "what is shown can be configured: {address}");
    }
}
