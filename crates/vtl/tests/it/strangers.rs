//! Initiators that share no code with ours: the tools and the test suite of libiscsi.

use std::net::TcpListener;
use std::process::{Command, Output};
use std::sync::Arc;

use iscsi::login::Name;
use iscsi::pdu::Lun;
use iscsi::target::{LogicalUnits, Nexus, Server, TargetConfig};
use scsi::command::Stream;
use scsi::{Cdb, Completion, Status};
use vtl::Target;

use crate::common::*;
use crate::stranger::program;

/// The suite asks every device for its capacity before it does anything, and reads and writes to see what a
/// reservation stops: here READ(10) and WRITE(10) rewind the tape, which reservations stop too.
struct AsDisk(Arc<Target>);

const READ_CAPACITY: u8 = 0x25;
const READ: u8 = 0x28;
const WRITE: u8 = 0x2a;

impl LogicalUnits for AsDisk {
    fn targets(&self) -> Vec<Name> {
        self.0.targets()
    }

    fn luns(&self, target: &Name) -> Vec<Lun> {
        self.0.luns(target)
    }

    fn execute(&self, nexus: &Nexus, lun: Lun, cdb: &Cdb, out: &[u8], into: &mut [u8]) -> Completion {
        let data = match cdb.operation_code() {
            READ_CAPACITY => {
                let capacity = [0, 0, 3, 0xff, 0, 0, 2, 0];
                into.iter_mut().zip(capacity).for_each(|(to, from)| *to = from);
                return Completion { status: Status::Good, sense: Vec::new(), transferred: 8 };
            }
            READ => into.len(),
            WRITE => out.len(),
            _ => return self.0.execute(nexus, lun, cdb, out, into),
        };
        let rewind = scsi::Command::from(Stream::Rewind { immediate: false }).encode().unwrap();
        let end = self.0.execute(nexus, lun, &rewind, &[], &mut []);
        let transferred = if end.status == Status::Good { data } else { 0 };
        Completion { transferred, ..end }
    }

    fn begun(&self, nexus: &Nexus) {
        self.0.begun(nexus);
    }

    fn ended(&self, nexus: &Nexus) {
        self.0.ended(nexus);
    }

    fn abort(&self, nexus: &Nexus, lun: Lun) {
        self.0.abort(nexus, lun);
    }

    fn reset(&self, nexus: &Nexus, lun: Lun) {
        self.0.reset(nexus, lun);
    }
}

fn said(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{out}{err}");
    out.into_owned()
}

fn serve(units: Arc<dyn LogicalUnits>) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    Server::start(listener, units, TargetConfig::default()).unwrap()
}

#[test]
fn tools_of_libiscsi_see_a_library() {
    let bench = Bench::new();
    bench.loaded();
    let server = serve(bench.target.clone());
    let portal = format!("iscsi://{}", server.address());
    let list = said(program("iscsi-ls", "libiscsi-bin").args(["-s", &portal]));
    for line in [
        "Target:iqn.2026-01.org.kist:vtl",
        "Lun:0    Type:MEDIA_CHANGER",
        "Lun:1    Type:SEQUENTIAL_ACCESS\n",
        "Lun:2    Type:SEQUENTIAL_ACCESS (No media loaded)",
    ] {
        assert!(list.contains(line), "{line}: {list}");
    }
    let unit = |lun: u16| format!("{portal}/iqn.2026-01.org.kist:vtl/{lun}");
    let inquiry = said(program("iscsi-inq", "libiscsi-bin").arg(unit(1)));
    assert!(inquiry.contains("VIRTUAL DRIVE") && inquiry.contains("SEQUENTIAL_ACCESS"), "{inquiry}");
    let serial = said(program("iscsi-inq", "libiscsi-bin").args(["-e", "1", "-c", "128", &unit(2)]));
    assert!(serial.contains("KISTVTL0D01"), "{serial}");
}

/// Of libiscsi's suite what is not about disks. Of reservations not those that keep others from writing only:
/// of a tape, others cannot read then either. Of RESERVE(6) what does not sleep for seconds.
const SUITES: [&str; 21] = [
    "SCSI.Inquiry.*",
    "SCSI.ModeSense6.*",
    "SCSI.ReportSupportedOpcodes.*",
    "SCSI.TestUnitReady.*",
    "SCSI.PrinReadKeys.*",
    "SCSI.PrinServiceactionRange.*",
    "SCSI.PrinReportCapabilities.*",
    "SCSI.ProutRegister.*",
    "SCSI.ProutReserve.Simple",
    "SCSI.ProutReserve.AccessEA",
    "SCSI.ProutReserve.AccessEARO",
    "SCSI.ProutReserve.AccessEAAR",
    "SCSI.ProutReserve.OwnershipEA",
    "SCSI.ProutReserve.OwnershipWERO",
    "SCSI.ProutReserve.OwnershipWEAR",
    "SCSI.ProutClear.*",
    "SCSI.ProutPreempt.*",
    "SCSI.Reserve6.Simple",
    "SCSI.Reserve6.2Initiators",
    "SCSI.Reserve6.Logout",
    "iSCSI.iSCSITMF.*",
];

#[test]
fn units_pass_libiscsis_tests_that_are_not_about_disks() {
    let bench = Bench::new();
    bench.loaded();
    let server = serve(Arc::new(AsDisk(bench.target.clone())));
    let url = |lun: u16| format!("iscsi://{}/iqn.2026-01.org.kist:vtl/{lun}", server.address());
    for (lun, suite) in
        SUITES.iter().map(|suite| (DRIVE, *suite)).chain(SUITES[..4].iter().map(|s| (CHANGER, *s)))
    {
        let out = said(program("iscsi-test-cu", "libiscsi-bin").args(["-d", "-n", "-t", suite, &url(lun)]));
        // The table at the end: how many ran, passed and failed.
        let asserts = out.lines().find(|line| line.trim_start().starts_with("asserts")).unwrap_or_default();
        let counts: Vec<u32> = asserts.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [total, ran, passed, failed] = counts[..] else { panic!("{suite}: {out}") };
        assert!(total > 0 && ran == passed && failed == 0, "{suite} of unit {lun}: {out}");
    }
}
