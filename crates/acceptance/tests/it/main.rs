//! The test of a library on the virtual one, in this process: what is right passes, and each fault is found
//! by the step that looks at it.

use std::cell::RefCell;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use acceptance::{AcceptanceReport, Plan, Progress, Step, Subject, Verdict, run};
use base::{ByteCount, Vid};
use iscsi::login::Name;
use library::scsi::changer::{
    ChangerTimes, Devices, DriveSeat, LoadableDrive, ScsiLibrary, ScsiLibraryConfig, SeatedDrive, Unreached,
    WantedDrive,
};
use library::scsi::{DriveIdentity, EarlyWarning, ProtectionWish, ScsiDrive, ScsiDriveOptions, Transport};
use library::{
    DriveName, Library, SleepingWaiter, VirtualCartridgeOptions, VirtualLibrary, VirtualLibraryConfig,
};
use scsi::{Cdb, Completion, Data, Sense, SenseKey, TransportError};
use vtl::{Fault, Options, Target};

const US: &str = "iqn.2026-01.org.kist:test";
const OTHER: &str = "iqn.2026-01.org.kist:other";
/// Element of the first drive.
const BAY: u16 = 256;
const TAPE: &str = "KT0001";

fn vid() -> Vid {
    Vid::new(TAPE).unwrap()
}

/// How the drive differs from a good one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quirk {
    None,
    /// It corrects the checksum of each block that it is sent.
    TakesAnyChecksum,
    Unprotected,
}

/// The drives of a target, and the driver of the one that was opened.
struct Drives {
    target: Arc<Target>,
    opened: Mutex<Option<ScsiDrive>>,
    quirk: Quirk,
}

impl Devices for Drives {
    fn changer(&self) -> Result<Box<dyn Transport>, Unreached> {
        Ok(Box::new(self.target.transport(0, US).unwrap()))
    }

    fn drive(&self, wanted: &WantedDrive) -> Result<Box<dyn LoadableDrive>, Unreached> {
        let way = Box::new(self.target.transport(wanted.element.0 - BAY + 1, US).unwrap());
        let way: Box<dyn Transport> =
            if self.quirk == Quirk::TakesAnyChecksum { Box::new(Correcting(way)) } else { way };
        let protection = match self.quirk {
            Quirk::Unprotected => ProtectionWish::Off,
            _ => ProtectionWish::IfOffered,
        };
        let early_warning = match self.quirk {
            // Of which the part is too little.
            Quirk::Unprotected => EarlyWarning::Part { part: 48, least: ByteCount::mib(3) },
            // 2 MiB of 96, in whole megabytes: 3 MB.
            _ => EarlyWarning::Part { part: 48, least: ByteCount(0) },
        };
        let reservation_key = Some(7.into());
        let options =
            ScsiDriveOptions { reservation_key, protection, early_warning, ..ScsiDriveOptions::default() };
        let drive = ScsiDrive::open(wanted.name.clone(), way, None, options).unwrap();
        *self.opened.lock().unwrap() = Some(drive.clone());
        Ok(Box::new(SeatedDrive::new(drive).unwrap()))
    }
}

/// Makes the checksum of each block right.
struct Correcting(Box<dyn Transport>);

impl Transport for Correcting {
    fn execute(&mut self, cdb: &Cdb, data: Data<'_>, limit: Duration) -> Result<Completion, TransportError> {
        if let (0x0a, Data::Out(bytes)) = (cdb.operation_code(), &data) {
            let mut block = bytes[..bytes.len() - 4].to_vec();
            scsi::lbp::BlockProtection::Crc32c.append(&mut block);
            return self.0.execute(cdb, Data::Out(&block), limit);
        }
        self.0.execute(cdb, data, limit)
    }

    fn transfer_max(&self) -> usize {
        self.0.transfer_max()
    }

    fn address(&self) -> &str {
        self.0.address()
    }
}

struct Bench {
    _directory: tempfile::TempDir,
    target: Arc<Target>,
    drives: Arc<Drives>,
    library: ScsiLibrary,
    drive: DriveName,
}

impl Bench {
    fn new(geometry: bool, quirk: Quirk) -> Bench {
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let config = VirtualLibraryConfig {
            drives: ["bay0", "bay1"].map(|name| DriveName::new(name).unwrap()).to_vec(),
            robots: 1,
            cartridges: vec![(vid(), ByteCount::mib(96))],
            options: VirtualCartridgeOptions { early_warning: Some(ByteCount::mib(8)), ..Default::default() },
            drop_cache: false,
        };
        drop(VirtualLibrary::create(directory.path(), &config).unwrap());
        let files = Arc::new(match geometry {
            false => VirtualLibrary::open(directory.path(), &config).unwrap(),
            true => VirtualLibrary::open_timed(directory.path(), &config, timing()).unwrap(),
        });
        let mut options = Options::new(Name::new("iqn.2026-01.org.kist:vtl").unwrap());
        options.geometry = geometry;
        let target = Target::new(files, options).unwrap();
        let drives = Arc::new(Drives { target: target.clone(), opened: Mutex::default(), quirk });
        let drive = DriveName::new("drive0").unwrap();
        let config = ScsiLibraryConfig {
            slots: None,
            drives: vec![(drive.clone(), DriveSeat::Number(0))],
            capacity: ByteCount(0),
            times: ChangerTimes::default(),
        };
        let library = ScsiLibrary::new(config, drives.clone(), Arc::new(SleepingWaiter::new())).unwrap();
        Bench { _directory: directory, target, drives, library, drive }
    }

    fn run(&self, plan: &Plan, told: &dyn Fn(Progress)) -> AcceptanceReport {
        self.run_beside(1, plan, told)
    }

    /// `other`: the unit that the other host's way leads to.
    fn run_beside(&self, other: u16, plan: &Plan, told: &dyn Fn(Progress)) -> AcceptanceReport {
        let scsi = || self.drives.opened.lock().unwrap().clone();
        let second = |_: &DriveIdentity| -> Result<Box<dyn Transport>, String> {
            Ok(Box::new(self.target.transport(other, OTHER).unwrap()))
        };
        let subject =
            Subject { library: &self.library, drive: self.drive.clone(), scsi: &scsi, second: &second };
        run(&subject, plan, told)
    }
}

/// A drive of LTO-8 a hundred thousand times as fast, on tapes whose wraps hold 2 MiB.
fn timing() -> library::VirtualTiming {
    library::VirtualTiming {
        drive: mechanics::timing("LTO-8").unwrap(),
        geometry: mechanics::Geometry {
            wrap_bytes: ByteCount::mib(2),
            ..mechanics::Geometry::of(mechanics::medium("LTO-8").unwrap())
        },
        robot: mechanics::RobotTiming { robots: 1, move_us: 1 },
        scale: 100_000.0,
        waiter: Arc::new(SleepingWaiter::new()),
    }
}

fn plan() -> Plan {
    Plan { vid: vid(), overwrite: false, bytes: ByteCount::mib(16), to_end: false }
}

fn step<'a>(report: &'a AcceptanceReport, name: &str) -> &'a Step {
    report.step(name).unwrap_or_else(|| panic!("no step '{name}'"))
}

fn is_not_offered(step: &Step) -> bool {
    matches!(step.verdict, Verdict::NotOffered { .. })
}

/// Steps that did not pass.
fn others(report: &AcceptanceReport) -> Vec<(&'static str, String)> {
    let other = |step: &Step| match &step.verdict {
        Verdict::Passed => None,
        Verdict::Failed { why, .. } => Some((step.name, format!("failed: {why}"))),
        Verdict::NotOffered { why } => Some((step.name, format!("not offered: {why}"))),
        Verdict::NotRun { why } => Some((step.name, format!("not run: {why}"))),
    };
    report.steps.iter().filter_map(other).collect()
}

/// Whether nothing is on the tape.
fn is_blank(bench: &Bench) -> bool {
    bench.library.mount(vid(), &bench.drive).unwrap();
    let mut drive = bench.library.take_drive(&bench.drive).unwrap();
    let blank = [base::Partition::Index, base::Partition::Data]
        .into_iter()
        .all(|partition| drive.space_to_end_of_data(partition).unwrap().block.0 == 0);
    drop(drive);
    bench.library.unmount(&bench.drive).unwrap();
    blank
}

#[test]
fn a_good_drive_passes_and_the_tape_is_blank_afterwards() {
    let bench = Bench::new(false, Quirk::None);
    let told = RefCell::new(Vec::new());
    let report = bench.run(&plan(), &|progress| told.borrow_mut().push(progress));
    let names: Vec<_> = others(&report).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["ends of wraps", "recommended access order", "to the end"], "{:#?}", others(&report));
    assert!(report.is_passed());
    let drive = report.drive.as_ref().unwrap();
    assert_eq!((drive.vendor.as_str(), drive.generation.as_deref()), ("KIST", Some("LTO-8")));
    assert!(drive.abilities.contains(&"cartridge memory") && !drive.serial.is_empty(), "{drive:?}");
    let rates = step(&report, "rates by block size");
    for size in [64, 512, 1024, 4096] {
        assert!(rates.figure(&format!("write {size} KiB")).unwrap() > 0.0, "{rates:?}");
        assert!(rates.figure(&format!("read {size} KiB")).unwrap() > 0.0, "{rates:?}");
    }
    assert_eq!(step(&report, "locate times").figure("locates").map(|count| count > 20.0), Some(true));
    assert!(told.borrow().iter().any(|progress| progress.bytes > 0 && progress.of.is_some()));
    assert!(is_blank(&bench));
}

#[test]
fn a_drive_that_knows_its_geometry_orders_and_is_fitted() {
    let bench = Bench::new(true, Quirk::None);
    let report = bench.run(&plan(), &|_| {});
    let names: Vec<_> = others(&report).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["to the end"], "{:#?}", others(&report));
    let order = step(&report, "recommended access order");
    for whose in ["the drive's order", "Kist's order"] {
        assert!(order.figure(whose).unwrap() > 0.0, "{order:?}");
        assert!(order.figure(&format!("{whose} by the model")).unwrap() > 0.0, "{order:?}");
    }
    // A hundred thousand times as fast as the model: as small as a factor may be.
    let times = step(&report, "locate times");
    assert_eq!(times.figure("fixed part beside the model"), Some(0.3), "{times:?}");
    assert!(times.figure("median by the model").unwrap() > 1.0, "{times:?}");
    assert!(step(&report, "ends of wraps").figure("wraps with data").unwrap() > 3.0);
}

#[test]
fn the_end_of_the_tape_is_warned_of_and_found() {
    let bench = Bench::new(false, Quirk::None);
    let report = bench.run(&Plan { to_end: true, ..plan() }, &|_| {});
    assert!(report.is_passed(), "{:#?}", others(&report));
    let end = step(&report, "to the end");
    assert_eq!(end.verdict, Verdict::Passed);
    let warned = end.figure("from the warning to the end").unwrap();
    // 3 MB before its own warning, which comes 8 MiB before the end.
    assert!((11e6..12e6).contains(&warned), "{warned}");
    assert_eq!(step(&report, "programmable early warning").figure("before its own"), Some(3e6));
    assert!(is_blank(&bench));
}

#[test]
fn what_is_not_offered_is_not_failed() {
    let report = Bench::new(false, Quirk::Unprotected).run(&plan(), &|_| {});
    assert!(is_not_offered(step(&report, "block protection")), "{:#?}", others(&report));
    // The cartridge is too small for one: the drive was not asked, so it is not said that it cannot.
    let warning = &step(&report, "programmable early warning").verdict;
    assert!(matches!(warning, Verdict::NotRun { .. }), "{warning:?}");
    assert!(report.is_passed());
}

#[test]
fn a_drive_that_takes_wrong_checksums_fails() {
    let report = Bench::new(false, Quirk::TakesAnyChecksum).run(&plan(), &|_| {});
    let Verdict::Failed { why, .. } = &step(&report, "block protection").verdict else {
        panic!("{:#?}", others(&report));
    };
    assert!(why.contains("took a block with a wrong checksum"), "{why}");
    assert!(!report.is_passed());
    assert_eq!(step(&report, "unload").verdict, Verdict::Passed);
}

#[test]
fn a_drive_that_does_another_hosts_command_fails() {
    // Its way leads to a drive that nobody has reserved.
    let report = Bench::new(false, Quirk::None).run_beside(2, &plan(), &|_| {});
    // An empty drive says that it is not ready, and does not say that it is reserved.
    let failed = &step(&report, "reservations").verdict;
    assert!(matches!(failed, Verdict::Failed { why, .. } if why.contains("carried out")), "{failed:?}");
}

/// What is written on a tape that has something on it stays.
#[test]
fn a_tape_with_something_on_it_is_left_as_it_is() {
    let bench = Bench::new(false, Quirk::None);
    let mut label = b"VOL1KT0001L             LTFS".to_vec();
    label.resize(80, b' ');
    bench.library.mount(vid(), &bench.drive).unwrap();
    let mut drive = bench.library.take_drive(&bench.drive).unwrap();
    drive.write_block(&label).unwrap();
    drive.write_filemarks(1).unwrap();
    drop(drive);
    bench.library.unmount(&bench.drive).unwrap();

    let report = bench.run(&plan(), &|_| {});
    let Verdict::Failed { why, .. } = &step(&report, "what is on the tape").verdict else {
        panic!("{:#?}", others(&report));
    };
    assert!(why.contains("an LTFS volume of \"KT0001\" at partition a block 0"), "{why}");
    assert!(matches!(step(&report, "format").verdict, Verdict::NotRun { .. }));
    bench.library.mount(vid(), &bench.drive).unwrap();
    let mut drive = bench.library.take_drive(&bench.drive).unwrap();
    let mut read = [0; 100];
    assert_eq!(drive.read_block(&mut read).unwrap(), library::ReadBlock::Data(80));
    assert_eq!(read[..80], label);
    drop(drive);
    bench.library.unmount(&bench.drive).unwrap();
    let report = bench.run(&Plan { overwrite: true, ..plan() }, &|_| {});
    assert!(report.is_passed(), "{:#?}", others(&report));
}

/// The memory alone says whose a tape is.
#[test]
fn a_tape_whose_memory_names_a_program_is_left_as_it_is() {
    let bench = Bench::new(false, Quirk::None);
    bench.library.mount(vid(), &bench.drive).unwrap();
    let mut drive = bench.library.take_drive(&bench.drive).unwrap();
    drive.write_attribute(base::Partition::Index, 0x0800, b"KIST    ").unwrap();
    drop(drive);
    bench.library.unmount(&bench.drive).unwrap();
    let report = bench.run(&plan(), &|_| {});
    let failed = &step(&report, "what is on the tape").verdict;
    assert!(matches!(failed, Verdict::Failed { why, .. } if why.contains("0800h): \"KIST\"")), "{failed:?}");
}

/// A fault that is planted when a step begins: by operation code, after so many commands.
#[test]
fn each_fault_is_found_by_the_step_that_looks_at_it() {
    let hardware = || Fault::Sense(Sense::new(SenseKey::HardwareError, 0x44, 0x00));
    let medium = || Fault::Sense(Sense::new(SenseKey::MediumError, 0x11, 0x00));
    let no_write = || Fault::Sense(Sense::new(SenseKey::MediumError, 0x0c, 0x00));
    // Step, operation code, commands that go well first, the fault, what is told, and the sense data.
    let table: [(&str, u8, u32, Fault, &str, bool); 8] = [
        ("positions", 0x0a, 3, no_write(), "write failed", true),
        ("read back", 0x08, 2, medium(), "is unreadable", false),
        ("read back", 0x08, 2, Fault::WrongPosition(1), "came what was written at", false),
        (
            "locate",
            0x92,
            5,
            hardware(),
            "failed at locate (sense 4/44/00, hardware error: internal target failure)",
            true,
        ),
        ("rates by block size", 0x0a, 7, no_write(), "sense 3/0C/00", true),
        ("flush", 0x10, 2, no_write(), "flush failed", true),
        ("cartridge memory", 0x8d, 0, hardware(), "sense 4/44/00", true),
        ("format", 0x04, 0, hardware(), "sense 4/44/00", true),
    ];
    for (name, operation, skip, fault, told, has_sense) in table {
        let bench = Bench::new(false, Quirk::None);
        let faults = bench.target.faults().clone();
        let armed = RefCell::new(false);
        let report = bench.run(&plan(), &|progress| {
            if progress.step == name && !armed.replace(true) {
                faults.plan_at(1, operation, skip, 1, fault.clone());
            }
        });
        assert_eq!(faults.fired(), 1, "{name} {operation:02x}: the fault has happened");
        let Verdict::Failed { why, sense } = &step(&report, name).verdict else {
            panic!("{name} {operation:02x}: {:#?}", others(&report));
        };
        assert!(why.contains(told), "{name} {operation:02x}: {why}");
        assert_eq!(sense.is_some(), has_sense, "{name} {operation:02x}: {why}");
        assert!(!report.is_passed());
        let failed = report.steps.iter().filter(|step| matches!(step.verdict, Verdict::Failed { .. }));
        let last = step(&report, "unload");
        match name {
            "format" => assert!(matches!(last.verdict, Verdict::NotRun { .. })),
            _ => assert_eq!(last.verdict, Verdict::Passed, "{name}: {:#?}", others(&report)),
        }
        // What follows does not fail for it, but for what it should have written.
        assert!(failed.count() <= 4, "{name}: {:#?}", others(&report));
        assert!(
            bench.library.inventory().unwrap().iter().all(|one| matches!(one.place, library::Place::Slot(_))),
            "{name}"
        );
    }
}

/// Story: a drive that could not be had ended the whole command, and what others had shown before was lost.
#[test]
fn a_drive_that_cannot_be_had_fails_and_each_other_step_says_why_it_was_not_run() {
    let bench = Bench::new(false, Quirk::None);
    let _taken = bench.library.take_drive(&bench.drive).unwrap();
    let report = bench.run(&plan(), &|_| {});
    let load = &step(&report, "load").verdict;
    assert!(
        matches!(load, Verdict::Failed { why, sense: None } if why.contains("in use already")),
        "{load:?}"
    );
    assert_eq!(report.steps.len(), 19);
    for step in &report.steps[1..] {
        assert_eq!(step.verdict, Verdict::NotRun { why: "'load' failed".to_owned() }, "{}", step.name);
    }
    assert!(!report.is_passed());
}
