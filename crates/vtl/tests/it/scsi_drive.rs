//! The SCSI drive on this target: what every tape drive does, and faults by operation code.

use std::sync::Arc;

use iscsi::initiator::{Initiator, InitiatorConfig};
use iscsi::login::Name;
use iscsi::target::{Server, TargetConfig};
use library::scsi::{ProtectionWish, ScsiDrive, ScsiDriveOptions};
use library::{DriveName, TapeDrive, VirtualLibrary};
use scsi::{Data, Lun, Transport};
use vtl::{Options, Target};

use crate::common::*;
use crate::drive_suite::{self, Rig};

const KEY: u64 = 0x4b49_5354;

/// How the drive is reached.
#[derive(Clone, Copy)]
pub enum Way {
    /// In this process.
    Local,
    /// Over a socket.
    Iscsi,
}

/// A drive behind the target.
pub struct ScsiRig {
    pub bench: Option<Bench>,
    pub way: Way,
    pub protection: ProtectionWish,
    server: Option<Server>,
    pub scsi: Option<ScsiDrive>,
    pub handle: Option<Box<dyn TapeDrive>>,
}

impl ScsiRig {
    pub fn new(way: Way, protection: ProtectionWish) -> ScsiRig {
        let bench = Some(Bench::new());
        let mut rig = ScsiRig { bench, way, protection, server: None, scsi: None, handle: None };
        rig.open();
        rig
    }

    pub fn bench(&self) -> &Bench {
        self.bench.as_ref().unwrap()
    }

    fn transport(&mut self) -> Box<dyn Transport> {
        let target = Arc::clone(&self.bench().target);
        match self.way {
            Way::Local => Box::new(target.transport(DRIVE, INITIATOR).unwrap()),
            Way::Iscsi => {
                let name = target.options().target.clone();
                let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
                let server = Server::start(listener, target, TargetConfig::default()).unwrap();
                let portal = server.address().to_string();
                self.server = Some(server);
                let lun = iscsi::pdu::Lun(Lun::single(DRIVE).unwrap().0);
                let config = InitiatorConfig::new(&portal, Name::new(INITIATOR).unwrap(), name, lun).unwrap();
                Box::new(Initiator::new(config).unwrap())
            }
        }
    }

    /// The robot brings the cartridge, and the driver takes it.
    fn open(&mut self) {
        self.bench().host(CHANGER).go(&move_medium(SLOT, BAY), Data::None);
        let options = ScsiDriveOptions {
            reservation_key: Some(KEY.into()),
            protection: self.protection,
            ..ScsiDriveOptions::default()
        };
        let transport = self.transport();
        let scsi = ScsiDrive::open(DriveName::new("drive1").unwrap(), transport, None, options).unwrap();
        scsi.load(vid(VID)).unwrap();
        self.handle = Some(scsi.take().unwrap());
        self.scsi = Some(scsi);
    }

    fn unload(&mut self) {
        self.handle = None;
        let scsi = self.scsi.as_ref().unwrap();
        let unloaded = scsi.unload().unwrap();
        assert_eq!(unloaded.vid, vid(VID));
        unloaded.flushed.unwrap();
        self.bench().host(CHANGER).go(&move_medium(BAY, SLOT), Data::None);
    }

    fn load(&mut self) {
        self.bench().host(CHANGER).go(&move_medium(SLOT, BAY), Data::None);
        let scsi = self.scsi.as_ref().unwrap();
        scsi.load(vid(VID)).unwrap();
        self.handle = Some(scsi.take().unwrap());
    }
}

impl Rig for ScsiRig {
    fn drive(&mut self) -> &mut dyn TapeDrive {
        self.handle.as_deref_mut().unwrap()
    }

    fn reload(&mut self) {
        self.unload();
        self.load();
    }

    fn lose_index_and_reload(&mut self) {
        self.unload();
        for file in ["partition-a.idx", "partition-b.idx"] {
            let _ =
                std::fs::remove_file(self.bench().directory.path().join("cartridges").join(VID).join(file));
        }
        self.load();
    }

    fn crash(&mut self) {
        (self.handle, self.scsi, self.server) = (None, None, None);
        let Bench { directory, library, target } = self.bench.take().unwrap();
        drop(target);
        drop(library);
        let library = Arc::new(VirtualLibrary::open(directory.path(), &config()).unwrap());
        let options = Options::new(Name::new("iqn.2026-01.org.kist:vtl").unwrap());
        let target = Target::new(library.clone(), options).unwrap();
        self.bench = Some(Bench { directory, library, target });
        self.open();
    }

    fn block_bytes_max(&self) -> usize {
        self.scsi.as_ref().unwrap().block_bytes_max()
    }
}

#[test]
fn the_scsi_drive_behaves_as_a_tape() {
    drive_suite::behaves_as_a_tape(24, || ScsiRig::new(Way::Local, ProtectionWish::Required));
    drive_suite::behaves_as_a_tape(8, || ScsiRig::new(Way::Local, ProtectionWish::Off));
}

#[test]
fn the_scsi_drive_passes_the_suite() {
    for protection in [ProtectionWish::Off, ProtectionWish::Required] {
        drive_suite::single_tests(|| ScsiRig::new(Way::Local, protection));
    }
}

#[test]
fn the_scsi_drive_passes_the_suite_over_a_socket() {
    drive_suite::single_tests(|| ScsiRig::new(Way::Iscsi, ProtectionWish::Required));
    drive_suite::behaves_as_a_tape(4, || ScsiRig::new(Way::Iscsi, ProtectionWish::Required));
}

#[test]
fn debugging() {
    let mut rig = ScsiRig::new(Way::Local, ProtectionWish::Required);
    eprintln!("after load {:?}", rig.scsi.as_ref().unwrap().seen());
    eprintln!("{:?}", rig.drive().read_attribute(base::Partition::Index, 9));
    eprintln!("after attr {:?}", rig.scsi.as_ref().unwrap().seen());
    eprintln!(
        "{:?}",
        rig.drive()
            .locate(base::TapePosition { partition: base::Partition::Index, block: base::BlockAddress(0) })
    );
    eprintln!("after locate {:?}", rig.scsi.as_ref().unwrap().seen());
    let mut buf = [0; 100];
    eprintln!("{:?}", rig.drive().read_block(&mut buf));
    eprintln!("after read {:?}", rig.scsi.as_ref().unwrap().seen());
    eprintln!("{:?}", rig.scsi.as_ref().unwrap().medium());
    eprintln!(
        "{:?}",
        rig.drive()
            .locate(base::TapePosition { partition: base::Partition::Data, block: base::BlockAddress(0) })
    );
    eprintln!("{:?}", rig.drive().read_block(&mut buf));
    eprintln!("after read {:?}", rig.scsi.as_ref().unwrap().seen());
    eprintln!("{:?}", rig.scsi.as_ref().unwrap().unload());
    eprintln!("after unload {:?}", rig.scsi.as_ref().unwrap().seen());
}
