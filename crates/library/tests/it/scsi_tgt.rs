//! The SCSI drive on Debian's tgt over our initiator: a drive without LOCATE, partitions and memory, whose
//! positions are zeros.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::Partition;
use iscsi::initiator::{Initiator, InitiatorConfig};
use iscsi::login::Name;
use iscsi::pdu::Lun;
use library::scsi::{DriveIdentity, ScsiDrive, ScsiDriveOptions};
use library::{ReadBlock, TapeError};

use crate::common::{at, data, drive_name, pattern, vid};
use crate::scsi_model::Hurry;

const TAPE: &str = "iqn.2026-01.org.kist:tape";
const PATIENCE: Duration = Duration::from_secs(30);

/// A program of the system, or what to install.
fn program(name: &str) -> Command {
    let directories = ["/usr/bin", "/usr/sbin", "/bin", "/sbin"];
    let found =
        directories.iter().map(|directory| Path::new(directory).join(name)).find(|path| path.exists());
    let path =
        found.unwrap_or_else(|| panic!("{name} is not there: apt-get install tgt (make needs-test does it)"));
    let mut command = Command::new(path);
    command.stdin(Stdio::null());
    command
}

/// A tgtd of its own with a tape drive; ended when dropped.
struct Tgt {
    child: Child,
    control: PathBuf,
    portal: String,
    directory: tempfile::TempDir,
}

impl Drop for Tgt {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Tgt {
    fn start() -> Tgt {
        let directory = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let portal = listener.local_addr().unwrap().to_string();
        drop(listener);
        // Its socket for tgtadm lies among files of the whole machine, unless it is told.
        let control = directory.path().join("control");
        let child = program("tgtd")
            .env("TGT_IPC_SOCKET", &control)
            .args(["-f", "--iscsi", &format!("portal={portal}")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let tgt = Tgt { child, control, portal, directory };
        tgt.make();
        tgt
    }

    fn run(&self, name: &str, arguments: &str) -> bool {
        let mut command = program(name);
        command.env("TGT_IPC_SOCKET", &self.control).args(arguments.split(' '));
        command.output().unwrap().status.success()
    }

    fn make(&self) {
        let image = self.directory.path().join("tape");
        let image = image.to_str().unwrap();
        let made = "--op new --device-type tape --barcode KST001L6 --size 64 --type data --file";
        assert!(self.run("tgtimg", &format!("{made} {image}")));
        let begun = Instant::now();
        while !self.run("tgtadm", &format!("--lld iscsi --op new --mode target --tid 1 -T {TAPE}")) {
            assert!(begun.elapsed() < PATIENCE, "tgtd does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        let unit = "--lld iscsi --op new --mode logicalunit --tid 1 --lun 1 --device-type tape";
        assert!(self.run("tgtadm", &format!("{unit} -b {image}")));
        assert!(self.run("tgtadm", "--lld iscsi --op bind --mode target --tid 1 -I ALL"));
    }

    fn drive(&self, expected: Option<&DriveIdentity>) -> Result<ScsiDrive, TapeError> {
        let initiator = Name::new("iqn.2026-01.org.kist:test").unwrap();
        let unit = scsi::Lun::single(1).unwrap();
        let target = Name::new(TAPE).unwrap();
        let config = InitiatorConfig::new(&self.portal, initiator, target, Lun(unit.0)).unwrap();
        let options = ScsiDriveOptions {
            reservation_key: Some(1.into()),
            waiter: Arc::new(Hurry::default()),
            ..ScsiDriveOptions::default()
        };
        let transport = Box::new(Initiator::new(config).unwrap());
        ScsiDrive::open(drive_name("tgt"), transport, expected, options)
    }
}

/// Every wrong answer of tape.md 3.3 is survived.
#[test]
fn a_drive_of_tgt_is_written_and_read() {
    let tgt = Tgt::start();
    let scsi = tgt.drive(None).unwrap();
    let identity = scsi.identity();
    assert!(!identity.serial.is_empty());
    scsi.load(vid("KST001")).unwrap();
    assert!(!scsi.is_protected());
    let index = |block| at(Partition::Index, block);
    let mut drive = scsi.take().unwrap();
    assert_eq!(drive.position().unwrap(), index(0));
    assert_eq!(drive.read_block(&mut [0; 10]).unwrap(), ReadBlock::EndOfData);

    // It has one partition: the other is empty, and full.
    drive.locate(data(0)).unwrap();
    assert_eq!(drive.read_block(&mut [0; 10]).unwrap(), ReadBlock::EndOfData);
    assert!(matches!(drive.write_block(b"x"), Err(TapeError::EndOfMedium { .. })));
    // Its page of the medium's configuration says WORM of every tape.
    assert!(scsi.medium().unwrap().worm);
    assert!(matches!(drive.format_partitions(), Err(TapeError::WriteProtected { .. })));
    drive.locate(index(0)).unwrap();

    // Records and marks; odd lengths, and the longest that it takes.
    let lengths = [1000, 512, 8193, 4, 900_001, scsi.block_bytes_max().min(1 << 20)];
    let blocks: Vec<_> = (1..).zip(lengths).map(|(seed, length)| pattern(seed, length)).collect();
    for (n, block) in blocks.iter().enumerate() {
        drive.write_block(block).unwrap();
        if n % 2 == 1 {
            drive.write_filemarks(1).unwrap();
        }
    }
    // block block mark block block mark block block mark
    assert_eq!(drive.position().unwrap(), index(9));
    let mut buffer = vec![0; 1 << 20];
    for to in [7, 2, 0, 8, 3, 4, 1, 6, 5] {
        drive.locate(index(to)).unwrap();
        let found = drive.read_block(&mut buffer).unwrap();
        if to % 3 == 2 {
            assert_eq!(found, ReadBlock::FileMark, "object {to}");
        } else {
            let block = &blocks[(to / 3 * 2 + to % 3) as usize];
            assert_eq!(found, ReadBlock::Data(block.len()), "object {to}");
            assert!(buffer[..block.len()] == block[..], "object {to} has other bytes");
        }
        assert_eq!(drive.position().unwrap(), index(to + 1));
    }
    drive.locate(index(9)).unwrap();
    // A record longer than the buffer, and what is behind the end.
    drive.locate(index(3)).unwrap();
    let error = drive.read_block(&mut [0; 100]).unwrap_err();
    assert!(matches!(error, TapeError::BufferTooSmall { record: 8193, buffer: 100 }), "{error}");
    assert_eq!(drive.read_block(&mut buffer).unwrap(), ReadBlock::Data(8193));
    assert_eq!(drive.space_to_end_of_data(Partition::Index).unwrap(), index(9));
    assert_eq!(drive.read_block(&mut buffer).unwrap(), ReadBlock::EndOfData);
    let error = drive.locate(index(10)).unwrap_err();
    assert!(matches!(error, TapeError::BeyondEndOfData { end, .. } if end == index(9)), "{error}");
    // What is behind a write is gone.
    drive.locate(index(4)).unwrap();
    drive.write_block(b"over").unwrap();
    drive.write_filemarks(0).unwrap();
    assert_eq!(drive.space_to_end_of_data(Partition::Index).unwrap(), index(5));

    // What it does not have.
    assert_eq!(drive.read_attribute(Partition::Index, 0x0009).unwrap(), None);
    assert_eq!(drive.end_of_wrap_positions().unwrap(), Some(Vec::new()), "of a partition that is not there");
    assert_eq!(drive.recommended_order(&[]).unwrap(), None);
    assert_eq!(drive.alerts().unwrap(), []);

    // TEST UNIT READY stays GOOD after UNLOAD.
    scsi.unload().unwrap().flushed.unwrap();
    assert!(!drive.loaded());
    assert!(matches!(drive.read_block(&mut buffer), Err(TapeError::NotLoaded { .. })));
    scsi.load(vid("KST001")).unwrap();
    assert_eq!(drive.space_to_end_of_data(Partition::Index).unwrap(), index(5));

    // Found again by its serial number, and not taken for another.
    drop((drive, scsi));
    assert_eq!(tgt.drive(Some(&identity)).unwrap().identity(), identity);
    let error = tgt.drive(Some(&DriveIdentity::of_serial("ANOTHER"))).unwrap_err();
    assert!(matches!(error, TapeError::Path { .. }), "{error}");
}

/// A drive that goes away in the midst of writing: the error says that it is not reached, and nothing more is
/// written.
#[test]
fn a_tgt_that_goes_away_is_told_as_one() {
    let mut tgt = Tgt::start();
    let scsi = tgt.drive(None).unwrap();
    scsi.load(vid("KST001")).unwrap();
    let mut drive = scsi.take().unwrap();
    drive.write_block(b"one").unwrap();
    tgt.child.kill().unwrap();
    tgt.child.wait().unwrap();
    let error = drive.write_block(b"two").unwrap_err();
    assert!(matches!(error, TapeError::Path { .. }), "{error}");
    assert!(drive.write_block(b"two").is_err() && drive.write_filemarks(0).is_err());
}
