//! The SCSI drive on this target: what every tape drive does, and faults by operation code.

use std::sync::Arc;

use base::{ByteCount, Partition};
use iscsi::initiator::{Initiator, InitiatorConfig};
use iscsi::login::Name;
use iscsi::target::{Server, TargetConfig};
use library::scsi::{EarlyWarning, ProtectionWish, ScsiDrive, ScsiDriveOptions};
use library::{DriveName, TapeDrive, TapeError, VirtualLibrary};
use scsi::mode::{DeviceConfigurationExtension, ModeContent};
use scsi::{Data, Lun, Transport};
use vtl::{Options, Target};

use crate::common::*;
use crate::drive_suite::{self, Encrypting, Rig};

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
    drive_suite::behaves_as_a_tape(12, || ScsiRig::new(Way::Local, ProtectionWish::Required));
    drive_suite::behaves_as_a_tape(4, || ScsiRig::new(Way::Local, ProtectionWish::Off));
    drive_suite::behaves_as_a_tape(4, || Encrypting(ScsiRig::new(Way::Local, ProtectionWish::Required)));
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
    drive_suite::behaves_as_a_tape(2, || ScsiRig::new(Way::Iscsi, ProtectionWish::Required));
}

#[cfg(feature = "faults")]
mod faults {
    use base::{BlockAddress, Partition, TapePosition};
    use library::{ReadBlock, TapeError};
    use scsi::{Sense, SenseKey};
    use vtl::Fault;

    use super::*;

    /// What the drive behind the target really did comes through the log pages to the driver.
    #[test]
    fn counters_are_those_of_what_was_done() {
        for way in [Way::Local, Way::Iscsi] {
            let mut rig = ScsiRig::new(way, ProtectionWish::Required);
            let faults = rig.bench().library.faults();
            let drive = rig.drive();
            drive.locate(data(0)).unwrap();
            let begin = drive.counters().unwrap();
            drive.write_block(&[1; 1000]).unwrap();
            faults.plan_retries_in(&DriveName::new("vdrive0").unwrap(), 3);
            drive.write_block(&[2; 500]).unwrap();
            faults.plan_retries_of(vid(VID), 2);
            drive.write_filemarks(0).unwrap();
            drive.locate(data(0)).unwrap();
            let mut buffer = [0; 4096];
            drive.read_block(&mut buffer).unwrap();
            faults.plan_unreadable(vid(VID), data(1));
            drive.read_block(&mut buffer).unwrap_err();
            let mount = drive.counters().unwrap().since(&begin);
            assert_eq!((mount.written.unwrap().0, mount.read.unwrap().0), (1500, 1000));
            let errors = |all: library::ErrorCounters| [all.corrected, all.retries, all.uncorrected];
            assert_eq!(errors(mount.writing), [Some(1), Some(3), Some(0)]);
            assert_eq!(errors(mount.reading), [Some(1), Some(5), Some(1)]);
            assert!(faults.fired() > 0);
            let product = mount.product.unwrap();
            assert_eq!((product.vendor.as_str(), product.serial.is_empty()), ("KIST", false));
            // A load begins anew.
            rig.reload();
            assert_eq!(rig.drive().counters().unwrap().reading.retries, Some(0));
        }
    }

    const READY: u8 = 0x00;
    const READ: u8 = 0x08;
    const WRITE: u8 = 0x0a;
    const MARKS: u8 = 0x10;
    const MODE_SELECT: u8 = 0x15;
    const POSITION: u8 = 0x34;
    const LOCATE: u8 = 0x92;

    fn data(block: u64) -> TapePosition {
        TapePosition { partition: Partition::Data, block: BlockAddress(block) }
    }

    /// `Ok`: a record of such bytes; `Err`: so many file marks, which flush.
    const OPS: [Result<u8, u32>; 10] =
        [Ok(1), Ok(2), Err(0), Ok(3), Err(2), Ok(4), Ok(5), Err(1), Ok(6), Err(0)];

    fn objects(ops: &[Result<u8, u32>]) -> Vec<Option<u8>> {
        let of = |op: &Result<u8, u32>| match op {
            Ok(n) => vec![Some(*n)],
            Err(count) => vec![None; *count as usize],
        };
        ops.iter().flat_map(of).collect()
    }

    impl ScsiRig {
        /// Carries the operations out up to the first error: how many were, and how many were flushed.
        fn write_all(&mut self) -> (usize, usize) {
            let mut flushed = 0;
            for (index, op) in OPS.iter().enumerate() {
                let done = match op {
                    Ok(n) => self.drive().write_block(&[*n; 77]),
                    Err(count) => self.drive().write_filemarks(*count),
                };
                match (done, op) {
                    (Err(_), _) => return (index, flushed),
                    (Ok(_), Err(_)) => flushed = index + 1,
                    (Ok(_), Ok(_)) => {}
                }
            }
            (OPS.len(), flushed)
        }

        /// All objects of the data partition.
        fn content(&mut self) -> Result<Vec<Option<u8>>, TapeError> {
            self.drive().locate(data(0))?;
            let (mut all, mut buffer) = (Vec::new(), [0; 100]);
            loop {
                all.push(match self.drive().read_block(&mut buffer)? {
                    ReadBlock::Data(length) => {
                        assert!(length == 77 && buffer[..77].iter().all(|byte| *byte == buffer[0]));
                        Some(buffer[0])
                    }
                    ReadBlock::FileMark => None,
                    ReadBlock::EndOfData => return Ok(all),
                });
            }
        }

        /// Without faults: unloads whatever state the session is in, and loads again.
        fn anew(&mut self) {
            self.bench().target.faults().clear();
            self.handle = None;
            let scsi = self.scsi.clone().unwrap();
            scsi.unload().unwrap();
            scsi.load(vid(VID)).unwrap();
            self.handle = Some(scsi.take().unwrap());
        }
    }

    fn every_fault() -> Vec<Fault> {
        let sense = |key, asc, ascq| Fault::Sense(Sense::new(key, asc, ascq));
        vec![
            Fault::NoAnswer,
            Fault::LostAnswer,
            Fault::ResetBefore,
            Fault::ResetAfter,
            Fault::ReservationConflict,
            Fault::WrongPosition(-1),
            Fault::WrongPosition(-4),
            sense(SenseKey::UnitAttention, 0x28, 0x00),
            sense(SenseKey::UnitAttention, 0x29, 0x07),
            sense(SenseKey::NotReady, 0x04, 0x01),
            sense(SenseKey::MediumError, 0x0c, 0x00),
            sense(SenseKey::AbortedCommand, 0x47, 0x00),
        ]
    }

    /// A fault at each command that matters to a write: what was flushed stays, nothing is written over, and
    /// nothing stands twice.
    #[test]
    fn no_fault_of_the_target_writes_over_a_block_or_writes_one_twice() {
        let mut rig = ScsiRig::new(Way::Local, ProtectionWish::Required);
        let faults = rig.bench().target.faults();
        let (mut planned, mut refused) = (0, 0);
        for operation in [WRITE, MARKS, POSITION, READY, MODE_SELECT] {
            for skip in 0..4 {
                for fault in every_fault() {
                    rig.drive().format_partitions().unwrap();
                    rig.drive().locate(data(0)).unwrap();
                    let is_odd = operation == POSITION && matches!(fault, Fault::WrongPosition(_));
                    if is_odd {
                        // A tape that moves while it is asked where it stands: nobody can tell.
                        continue;
                    }
                    let name = format!("{operation:02x} after {skip}: {fault:?}");
                    faults.plan_at(DRIVE, operation, skip, 1, fault);
                    planned += 1;
                    let (done, flushed) = rig.write_all();
                    rig.anew();
                    let found = rig.content().unwrap();
                    let (all, kept) = (objects(&OPS), objects(&OPS[..flushed]));
                    assert!(found.starts_with(&kept), "{name}: {found:?} lacks what was flushed, {kept:?}");
                    assert!(
                        all.starts_with(&found),
                        "{name}: {found:?} is not the begin of what was written"
                    );
                    assert!(done < OPS.len() || found == all, "{name}: all was acknowledged: {found:?}");
                    refused += usize::from(done < OPS.len());
                }
            }
        }
        // Commands that a run without doubts does not send meet nothing: READY and MODE SELECT.
        let fired = faults.fired();
        assert!(fired > 120 && fired < planned, "{fired} of {planned} fired");
        assert!(refused > 20, "{refused}");
    }

    /// A fault at each command that matters to a read: what is read is what stands there, or an error.
    #[test]
    fn no_fault_of_the_target_reads_another_block() {
        let mut rig = ScsiRig::new(Way::Local, ProtectionWish::Required);
        rig.drive().locate(data(0)).unwrap();
        assert_eq!(rig.write_all().0, OPS.len());
        let faults = rig.bench().target.faults();
        let all = objects(&OPS);
        for operation in [READ, LOCATE, POSITION] {
            for skip in 0..4 {
                for fault in every_fault() {
                    // A tape that moves by itself between two reads: nobody can tell.
                    if operation != LOCATE && matches!(fault, Fault::WrongPosition(_)) {
                        continue;
                    }
                    let name = format!("{operation:02x} after {skip}: {fault:?}");
                    faults.plan_at(DRIVE, operation, skip, 1, fault);
                    for block in [3, 0, 5, 6] {
                        if rig.drive().locate(data(block)).is_err() {
                            break;
                        }
                        let mut buffer = [0; 100];
                        let found = match rig.drive().read_block(&mut buffer) {
                            Ok(ReadBlock::Data(_)) => Some(buffer[0]),
                            Ok(ReadBlock::FileMark) => None,
                            Ok(ReadBlock::EndOfData) => panic!("{name}: end of data at {block}"),
                            Err(_) => break,
                        };
                        assert_eq!(found, all[block as usize], "{name}: object {block}");
                    }
                    rig.anew();
                    assert_eq!(rig.content().unwrap(), all, "{name}");
                }
            }
        }
        assert!(faults.fired() > 100, "{}", faults.fired());
    }

    /// The target resets its settings with a reset, as drives do: blocks still carry their checksums after
    /// it.
    #[test]
    fn answers_lost_and_resets_in_the_middle_are_made_good() {
        let mut rig = ScsiRig::new(Way::Local, ProtectionWish::Required);
        rig.drive().locate(data(0)).unwrap();
        let faults = rig.bench().target.faults();
        for fault in [Fault::NoAnswer, Fault::LostAnswer, Fault::ResetBefore, Fault::ResetAfter] {
            faults.plan(DRIVE, WRITE, fault.clone());
            rig.drive().write_block(&[1; 77]).unwrap();
            faults.plan(DRIVE, MARKS, fault.clone());
            let marked = rig.drive().write_filemarks(1);
            assert!(marked.is_ok(), "{fault:?}: {marked:?}, {:?}", rig.scsi.as_ref().unwrap().seen());
            faults.plan(DRIVE, READ, fault.clone());
            faults.plan(DRIVE, LOCATE, fault);
            let end = rig.drive().position().unwrap();
            rig.drive().locate(data(0)).unwrap();
            assert_eq!(rig.drive().read_block(&mut [0; 100]).unwrap(), ReadBlock::Data(77));
            rig.drive().locate(end).unwrap();
        }
        assert_eq!(faults.fired(), 16);
        let expected: Vec<_> = (0..4).flat_map(|_| [Some(1), None]).collect();
        assert_eq!(rig.content().unwrap(), expected);
        let seen = rig.scsi.as_ref().unwrap().seen();
        assert_eq!((seen.answers_lost, seen.poisoned), (16, 0), "{seen:?}");
    }
}

/// The drive as a process sees it that comes by this port and reserves with this key.
fn reserving(bench: &Bench, initiator: &str, key: u64) -> ScsiDrive {
    let transport = Box::new(bench.target.transport(DRIVE, initiator).unwrap());
    let options = ScsiDriveOptions { reservation_key: Some(key.into()), ..ScsiDriveOptions::default() };
    ScsiDrive::open(DriveName::new("drive1").unwrap(), transport, None, options).unwrap()
}

/// Story: the next process of a host that was killed came with its own key, from another port, and found the
/// drive reserved.
#[test]
fn the_next_process_of_a_host_takes_its_drive_back_and_another_host_does_not() {
    let bench = Bench::new();
    bench.host(CHANGER).go(&move_medium(SLOT, BAY), Data::None);
    let open = |initiator: &str, key: u64| reserving(&bench, initiator, key);
    let killed = open(INITIATOR, KEY);
    killed.load(vid(VID)).unwrap();
    let other = open("iqn.2026-01.org.kist:other", KEY + 1);
    let error = other.load(vid(VID)).unwrap_err();
    assert!(matches!(error, TapeError::Reserved { .. }), "{error}");
    // Of the same host, by another port: the target knows nothing of hosts.
    let next = open("iqn.2026-01.org.kist:test-again", KEY);
    next.load(vid(VID)).unwrap();
    let mut drive = next.take().unwrap();
    drive.write_block(b"of the next").unwrap();
    drive.write_filemarks(0).unwrap();
    // Were the first alive after all, it would write no more.
    let mut old = killed.take().unwrap();
    let error = old.write_block(b"of the first").unwrap_err();
    assert!(matches!(error, TapeError::Reserved { .. } | TapeError::Interrupted { .. }), "{error}");
    let error = other.load(vid(VID)).unwrap_err();
    assert!(matches!(error, TapeError::Reserved { .. }), "{error}");
}

/// Story: what a killed process had left in a drive stayed there, since nobody else's UNLOAD is taken.
#[test]
fn what_a_killed_process_left_in_a_drive_comes_out() {
    let bench = Bench::new();
    bench.host(CHANGER).go(&move_medium(SLOT, BAY), Data::None);
    let open = |initiator: &str, key: u64| reserving(&bench, initiator, key);
    let killed = open(INITIATOR, KEY);
    killed.load(vid(VID)).unwrap();
    let error = open("iqn.2026-01.org.kist:other", KEY + 1).let_out().unwrap_err();
    assert!(matches!(error, TapeError::Reserved { .. }), "{error}");
    // Its session ends with it, its reservation does not.
    drop(killed);
    open("iqn.2026-01.org.kist:test-again", KEY).let_out().unwrap();
    bench.host(CHANGER).go(&move_medium(BAY, SLOT), Data::None);
}

/// Writes a plain block, as a program does that knows nothing of checksums, and reads it back.
fn writes_plainly(bench: &Bench) {
    let mut host = bench.host_of(DRIVE, "iqn.2026-01.org.kist:other");
    bench.host(CHANGER).go(&move_medium(SLOT, BAY), Data::None);
    host.fails(&scsi::command::Primary::TestUnitReady.into(), Data::None);
    host.write(b"plain");
    host.locate(0, 0);
    assert_eq!(host.read(5).unwrap(), b"plain");
    host.go(&unload(), Data::None);
    bench.host(CHANGER).go(&move_medium(BAY, SLOT), Data::None);
}

/// A page as another host sees it.
fn mode_page(bench: &Bench, page: u8, subpage: u8) -> ModeContent {
    let command = scsi::command::Primary::ModeSense6 {
        no_descriptors: true,
        control: scsi::command::PageControl::Current,
        page,
        subpage,
        allocation_length: 255,
    };
    let answer = bench.host(DRIVE).ask(command, 255);
    let (form, direction) = (scsi::mode::ModeForm::Six, scsi::mode::ModeDirection::Sense);
    let all = scsi::mode::ModeParameters::decode(&answer, form, direction).unwrap();
    all.pages.into_iter().next().unwrap().content
}

fn protection(bench: &Bench) -> scsi::mode::ControlDataProtection {
    let page = mode_page(bench, 0x0a, 0xf0);
    let ModeContent::ControlDataProtection(page) = page else { panic!("{page:?}") };
    page
}

/// Story: after Kist had used a drive, the plain write of another program was refused (0B/10/01).
#[test]
fn checksums_of_blocks_are_set_after_the_unload_as_they_were_before_the_load() {
    use scsi::mode::{ControlDataProtection, ProtectionMethod};
    let (bench, put) = (Bench::new(), |from, to| move_medium(from, to));
    let open = || reserving(&bench, INITIATOR, KEY);
    let other = ControlDataProtection {
        method: ProtectionMethod::ReedSolomon,
        information_length: 4,
        on_write: true,
        on_read: false,
        on_recover: false,
    };
    for found in [ControlDataProtection::default(), other] {
        let page = ModeContent::ControlDataProtection(found.clone());
        bench.host_of(DRIVE, "iqn.2026-01.org.kist:sets").select(page).unwrap();
        bench.host(CHANGER).go(&put(SLOT, BAY), Data::None);
        let drive = open();
        drive.load(vid(VID)).unwrap();
        assert_eq!(protection(&bench).method, ProtectionMethod::Crc32c);
        drive.unload().unwrap().flushed.unwrap();
        assert_eq!(protection(&bench), found);
        bench.host(CHANGER).go(&put(BAY, SLOT), Data::None);
    }
    let page = ModeContent::ControlDataProtection(ControlDataProtection::default());
    bench.host_of(DRIVE, "iqn.2026-01.org.kist:sets").select(page).unwrap();
    writes_plainly(&bench);
    // What a killed process has left on is turned off by the next, whether it uses the cartridge or not.
    for uses in [true, false] {
        bench.host(CHANGER).go(&put(SLOT, BAY), Data::None);
        let killed = open();
        killed.load(vid(VID)).unwrap();
        drop(killed);
        assert_eq!(protection(&bench).method, ProtectionMethod::Crc32c);
        let next = open();
        if uses {
            next.load(vid(VID)).unwrap();
            next.unload().unwrap().flushed.unwrap();
        } else {
            next.let_out().unwrap();
        }
        drop(next);
        assert_eq!(protection(&bench), ControlDataProtection::default());
        bench.host(CHANGER).go(&put(BAY, SLOT), Data::None);
        writes_plainly(&bench);
    }
}

/// A drive that does not take it has let the cartridge go nevertheless.
#[cfg(feature = "faults")]
#[test]
fn an_unload_does_not_fail_for_settings_that_are_not_put_back() {
    let bench = Bench::new();
    let faults = bench.target.faults();
    for operation in [0x15, 0x1a] {
        bench.host(CHANGER).go(&move_medium(SLOT, BAY), Data::None);
        let drive = reserving(&bench, INITIATOR, KEY);
        drive.load(vid(VID)).unwrap();
        let refused = scsi::Sense::new(scsi::SenseKey::IllegalRequest, 0x26, 0);
        faults.plan(DRIVE, operation, vtl::Fault::Sense(refused));
        drive.unload().unwrap().flushed.unwrap();
        bench.host(CHANGER).go(&move_medium(BAY, SLOT), Data::None);
    }
    assert_eq!(faults.fired(), 2);
}

/// How early the drive is told to warn, as others see it.
fn early_warning_of(bench: &Bench) -> u16 {
    match mode_page(bench, 0x10, 0x01) {
        ModeContent::DeviceConfigurationExtension(page) => page.early_warning_size,
        other => panic!("{other:?}"),
    }
}

/// The driver tells a drive to warn by a part of what the cartridge holds, also of one that was blank, sees
/// the warning come there, and leaves the drive as it was.
#[test]
fn the_driver_has_a_drive_warn_in_time() {
    const BLOCK: usize = 256 << 10;
    let mut config = config();
    // 48 MiB, of which a twelfth are 4 MiB or 5 MB; behind them come the 2 MiB of the drive's own warning.
    config.cartridges = vec![(vid(VID), ByteCount::mib(48))];
    config.options.early_warning = Some(ByteCount::mib(2));
    for blank in [vtl::Blank::TwoPartitions, vtl::Blank::OnePartition] {
        let bench = Bench::with(&config, |options| options.blank = blank);
        bench.host(CHANGER).go(&move_medium(SLOT, BAY), Data::None);
        let open = |early_warning| {
            let transport = Box::new(bench.target.transport(DRIVE, INITIATOR).unwrap());
            let options = ScsiDriveOptions { early_warning, ..ScsiDriveOptions::default() };
            ScsiDrive::open(DriveName::new("drive1").unwrap(), transport, None, options).unwrap()
        };
        let scsi = open(EarlyWarning::Part { part: 12, least: ByteCount(0) });
        scsi.load(vid(VID)).unwrap();
        let mut drive = scsi.take().unwrap();
        let is_blank = blank == vtl::Blank::OnePartition;
        assert_eq!(scsi.programmed_early_warning().is_none(), is_blank, "it has no data partition yet");
        if is_blank {
            drive.format_partitions().unwrap();
        }
        assert_eq!(early_warning_of(&bench), 5);
        assert_eq!(drive.early_warning_room(), Some(ByteCount(5_000_000)));
        drive.space_to_end_of_data(Partition::Data).unwrap();
        let mut written = 0;
        while !drive.write_block(&vec![7; BLOCK]).unwrap().early_warning {
            written += BLOCK as u64;
        }
        // The first block behind which no more than both are left.
        let left = (48 << 20) - written - BLOCK as u64;
        let zone = 5_000_000 + (2 << 20);
        assert!(left <= zone && left + BLOCK as u64 > zone, "{left} are left");
        assert!(drive.write_block(&vec![7; BLOCK]).unwrap().early_warning, "as long as it stands there");
        drive.write_filemarks(0).unwrap();
        // Another host sets it as it likes: the drive is told anew, and still known to be near the end.
        let other = DeviceConfigurationExtension::default();
        bench.host(DRIVE).select(ModeContent::DeviceConfigurationExtension(other)).unwrap();
        assert_eq!(early_warning_of(&bench), 0);
        assert!(drive.write_block(&vec![7; BLOCK]).unwrap().early_warning);
        assert_eq!(early_warning_of(&bench), 5);
        drop(drive);
        scsi.unload().unwrap().flushed.unwrap();
        assert_eq!(early_warning_of(&bench), 0, "the next program did not ask for it");
    }
}
