//! The SCSI drive on Debian's tgt over our initiator: a drive without LOCATE, partitions and memory, whose
//! positions are zeros.

use std::sync::Arc;

use base::Partition;
use iscsi::initiator::{Initiator, InitiatorConfig};
use iscsi::login::Name;
use iscsi::pdu::Lun;
use library::scsi::{DriveIdentity, ScsiDrive, ScsiDriveOptions};
use library::{ReadBlock, TapeError};

use crate::common::{at, data, drive_name, pattern, vid};
use crate::scsi_model::Hurry;
use crate::stranger::Tgtd;

const TAPE: &str = "iqn.2026-01.org.kist:tape";
/// A tgtd with a tape drive.
struct Tgt(Tgtd);

impl Tgt {
    fn start() -> Tgt {
        let tgtd = Tgtd::start(TAPE);
        tgtd.make_tape("tape", "KST001L6", "64");
        tgtd.make_drive("1", "tape");
        tgtd.open();
        Tgt(tgtd)
    }

    fn drive(&self, expected: Option<&DriveIdentity>) -> Result<ScsiDrive, TapeError> {
        let initiator = Name::new("iqn.2026-01.org.kist:test").unwrap();
        let unit = scsi::Lun::single(1).unwrap();
        let target = Name::new(TAPE).unwrap();
        let config = InitiatorConfig::new(&self.0.portal, initiator, target, Lun(unit.0)).unwrap();
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
    assert!(matches!(drive.format_partitions(), Err(TapeError::Worm { .. })));
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
    tgt.0.kill();
    let error = drive.write_block(b"two").unwrap_err();
    assert!(matches!(error, TapeError::Path { .. }), "{error}");
    assert!(drive.write_block(b"two").is_err() && drive.write_filemarks(0).is_err());
}
