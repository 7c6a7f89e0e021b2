//! The changer of Debian's `tgt`, over our initiator: a peer that shares no code with ours, and answers
//! wrongly in more than one place.

use std::fs;
use std::sync::Arc;

use super::world::{FakeDrive, numbered};
use crate::common::{drive_name, vid};
use crate::stranger::{Tgtd, run};
use iscsi::login::Name;
use library::scsi::changer::{DriveSeat, ScsiLibrary, ScsiLibraryConfig};
use library::scsi::{DeviceAddress, DeviceChoice, FoundDevices, Sources, Ways, discover};
use library::{Library, LibraryError, Place, SleepingWaiter, Slot};
use scsi::{DeviceType, ElementAddress};

const TARGET: &str = "iqn.2026-01.org.kist:library";
const DRIVES: usize = 2;
const CHANGER: usize = DRIVES + 1;

/// A tgtd with two drives and a changer.
struct Tgt(Tgtd);

impl Tgt {
    fn start(slots: usize, barcodes: &[&str]) -> Tgt {
        let tgt = Tgt(Tgtd::start(TARGET));
        tgt.make(slots, barcodes);
        tgt
    }

    fn unit(&self, lun: usize, parameters: &str) {
        run(&mut self.0.admin("update", "logicalunit", &["--lun", &lun.to_string(), "--params", parameters]));
    }

    fn make(&self, slots: usize, barcodes: &[&str]) {
        let Tgt(tgtd) = self;
        for barcode in barcodes.iter().copied().chain(["drive1", "drive2"]) {
            tgtd.make_tape(barcode, barcode, "4");
        }
        fs::write(tgtd.path("changer"), [0; 1024]).unwrap();
        for lun in 1..=DRIVES {
            tgtd.make_drive(&lun.to_string(), &format!("drive{lun}"));
            self.unit(lun, &format!("online=0,scsi_sn=SN0000000{lun}"));
        }
        let (lun, file) = (CHANGER.to_string(), tgtd.path("changer"));
        let changer = ["--lun", &lun, "-b", &file, "--device-type", "changer"];
        run(&mut tgtd.admin("new", "logicalunit", &changer));
        self.unit(CHANGER, &format!("media_home={},scsi_sn=CH000001", tgtd.path("")));
        self.unit(CHANGER, &format!("element_type=4,start_address=500,quantity={DRIVES}"));
        for drive in 1..=DRIVES {
            self.unit(CHANGER, &format!("element_type=4,address={},tid=1,lun={drive}", 499 + drive));
        }
        self.unit(CHANGER, "element_type=1,start_address=1,quantity=1");
        self.unit(CHANGER, &format!("element_type=2,start_address=1000,quantity={slots}"));
        for (slot, barcode) in (1000..).zip(barcodes) {
            self.unit(CHANGER, &format!("element_type=2,address={slot},barcode={barcode},sides=1"));
        }
        tgtd.open();
    }

    fn ways() -> Ways {
        let initiator = Name::new("iqn.2026-01.org.kist:test").unwrap();
        Ways { initiator, account: None, waiter: Arc::new(SleepingWaiter::new()) }
    }

    fn sources(&self) -> Sources {
        Sources { portals: vec![self.0.portal.clone()], generic: None, bsg: None }
    }

    /// Drives are fakes: what is in them is told by the changer.
    fn library(&self, changer: DeviceChoice, config: ScsiLibraryConfig) -> ScsiLibrary {
        let make = |name: &library::DriveName, _: Box<dyn scsi::Transport>| {
            Ok(Box::new(FakeDrive::indifferent(name.clone())) as _)
        };
        let devices =
            FoundDevices { ways: Tgt::ways(), sources: self.sources(), changer, make: Box::new(make) };
        ScsiLibrary::new(config, Arc::new(devices), Arc::new(SleepingWaiter::new())).unwrap()
    }
}

#[test]
fn the_changer_of_tgt_is_found_read_and_told_to_move() {
    let tgt = Tgt::start(6, &["KST001L6", "KST002L6", "CLN001L1", "short"]);
    let found = discover(&Tgt::ways(), &tgt.sources());
    assert_eq!(found.failed, Vec::<String>::new());
    let serials = |device_type| found.of_type(device_type).map(|one| one.serial.as_str()).collect::<Vec<_>>();
    assert_eq!(serials(DeviceType::Changer), ["CH000001"], "{found:?}");
    assert_eq!(serials(DeviceType::Tape), ["SN00000001", "SN00000002"]);

    let at = format!("iscsi://{}/{TARGET}/{CHANGER}", tgt.0.portal).parse::<DeviceAddress>().unwrap();
    assert_eq!(found.of_type(DeviceType::Changer).next().unwrap().address, at);
    let serial = |serial: &str| DriveSeat::Serial(serial.to_owned());
    // What tgt tells of its last drive is cut off.
    let last = DriveSeat::SerialAt("SN00000002".to_owned(), ElementAddress(501));
    let drives = vec![(drive_name("drive0"), serial("SN00000001")), (drive_name("drive1"), last)];
    let config = ScsiLibraryConfig { drives, ..numbered() };
    for choice in [DeviceChoice::Serial("CH000001".to_owned()), DeviceChoice::At(at)] {
        let library = tgt.library(choice, config.clone());
        assert_eq!(library.out_of_reach(), Vec::<String>::new());
        let report = library.report().unwrap();
        assert_eq!(report.identity.serial, "CH000001");
        assert!(!report.abilities.exchange, "tgt's page says so, and it is not so");
        let rows = library.inventory().unwrap();
        let places: Vec<(&str, &Place)> = rows.iter().map(|row| (row.vid.as_str(), &row.place)).collect();
        assert_eq!(places, [("KST001", &Place::Slot(Slot(1000))), ("KST002", &Place::Slot(Slot(1001)))]);
        assert_eq!(library.cleaning_cartridges().len(), 1);
        assert_eq!(library.without_vid(), ["the cartridge in slot 1003 (its label 'short' is no VID)"]);

        for (text, drive) in [("KST001", "drive0"), ("KST002", "drive1")] {
            let (vid, drive) = (vid(text), drive_name(drive));
            let before = library.changes().unwrap();
            library.mount(vid, &drive).unwrap();
            let error = library.mount(vid, &drive).unwrap_err();
            assert!(matches!(error, LibraryError::DriveFull { .. }), "{error}");
            assert_eq!(library.unmount(&drive).unwrap(), vid);
            assert_eq!(library.changes().unwrap(), before);
        }
    }
}

/// tgt gives all elements of a type from an address on, in at most 4 KiB, and leaves out the last 8 bytes.
#[test]
fn many_slots_of_tgt_are_read_in_pieces() {
    let labels: Vec<String> = (1..=70).map(|number| format!("KS{number:04}L6")).collect();
    let tgt = Tgt::start(70, &labels.iter().map(String::as_str).collect::<Vec<_>>());
    let library = tgt.library(DeviceChoice::Serial("CH000001".to_owned()), numbered());
    let vids: Vec<String> = library.inventory().unwrap().iter().map(|row| row.vid.to_string()).collect();
    assert_eq!(vids, labels.iter().map(|label| label[..6].to_owned()).collect::<Vec<_>>());
}

/// Where tgt goes away and another one comes, the library is read again.
#[test]
fn a_changer_that_goes_away_is_told() {
    let mut tgt = Tgt::start(2, &["KST001L6"]);
    let library = tgt.library(DeviceChoice::Serial("CH000001".to_owned()), numbered());
    tgt.0.kill();
    assert!(matches!(library.changes(), Err(LibraryError::Path { .. } | LibraryError::NotReached { .. })));
    assert!(!library.out_of_reach().is_empty());
    let away = tgt.library(DeviceChoice::Serial("CH000001".to_owned()), numbered());
    assert!(away.inventory().unwrap().is_empty());
    assert!(away.out_of_reach()[0].contains("CH000001 is not found"), "{:?}", away.out_of_reach());
}
