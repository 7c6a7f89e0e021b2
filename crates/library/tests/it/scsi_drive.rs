//! The SCSI drive on a model of one: quirks, doubts and what becomes of them.

use std::sync::Arc;
use std::time::Duration;

use base::{BlockAddress, ByteCount, Partition};
use library::Waiter;
use library::scsi::{
    CartridgeAccess, DriveIdentity, EarlyWarning, ProtectionWish, ScsiDrive, ScsiDriveOptions,
};
use library::{DriveCounters, ErrorCounters, ReadBlock, TapeAlert, TapeDrive, TapeError};
use mechanics::{LocateFit, Track};
use scsi::lbp::BlockProtection;
use scsi::log::{LogPage, LogParameter, TapeAlerts};
use scsi::mode::ProtectionMethod;
use scsi::sense::SenseFormat;
use scsi::{Cdb, Completion, Data, Sense, SenseKey, Transport, TransportError};

use crate::common::{at, data, drive_name, pattern, vid};
use crate::scsi_model::{Fault, Hurry, Object, Quirks, Shared};

pub const READ: u8 = 0x08;
pub const WRITE: u8 = 0x0a;
pub const MARKS: u8 = 0x10;
const LOCATE_10: u8 = 0x2b;
pub const LOCATE_16: u8 = 0x92;
pub const POSITION: u8 = 0x34;
pub const READY: u8 = 0x00;
const LIST: u8 = 0xa3;
pub const MODE_SELECT: u8 = 0x15;
const FORMAT: u8 = 0x04;
const KEY: u64 = 0x4b49_5354;

pub struct Bench {
    pub model: Shared,
    pub scsi: ScsiDrive,
    pub drive: Box<dyn TapeDrive>,
}

pub fn options() -> ScsiDriveOptions {
    ScsiDriveOptions { waiter: Arc::new(Hurry::default()), ..ScsiDriveOptions::default() }
}

pub fn reserving() -> ScsiDriveOptions {
    ScsiDriveOptions { reservation_key: Some(KEY.into()), ..options() }
}

pub fn opened(model: &Shared, options: ScsiDriveOptions) -> ScsiDrive {
    ScsiDrive::open(drive_name("drive1"), Box::new(model.clone()), None, options).unwrap()
}

impl Bench {
    fn with(quirks: Quirks, options: ScsiDriveOptions) -> Bench {
        let model = Shared::new(quirks);
        let scsi = opened(&model, options);
        scsi.load(vid("KT0001")).unwrap();
        let drive = scsi.take().unwrap();
        Bench { model, scsi, drive }
    }

    fn new(quirks: Quirks) -> Bench {
        Bench::with(quirks, options())
    }

    /// In the data partition, where there is one.
    pub fn begun(quirks: Quirks, options: ScsiDriveOptions) -> Bench {
        let mut bench = Bench::with(quirks, options);
        bench.drive.locate(data(0)).unwrap();
        bench
    }

    pub fn read(&mut self) -> Result<Option<Vec<u8>>, TapeError> {
        let mut buffer = vec![0; 4096];
        Ok(match self.drive.read_block(&mut buffer)? {
            ReadBlock::Data(length) => Some(buffer[..length].to_vec()),
            ReadBlock::FileMark => None,
            ReadBlock::EndOfData => panic!("end of data"),
        })
    }
}

fn lacking(lacks: &[u8]) -> Quirks {
    Quirks { lacks: lacks.to_vec(), ..Quirks::default() }
}

#[test]
fn a_load_sets_the_drive_and_keeps_it() {
    let bench = Bench::with(Quirks::default(), reserving());
    let model = bench.model.lock();
    assert_eq!(model.protection.method, ProtectionMethod::Crc32c);
    assert!(model.protection.on_write && model.protection.on_read && model.prevented);
    assert_eq!(model.holder, Some(KEY));
    drop(model);
    assert!(bench.scsi.is_protected());
    let medium = bench.scsi.medium().unwrap();
    assert_eq!(medium.cartridge.map(|one| one.to_string()).as_deref(), Some("LTO-9"));
    assert_eq!(medium.access, Some(CartridgeAccess { read: true, write: true, format: true }));
    assert_eq!((medium.partitions, medium.worm), (2, false));
    assert!(bench.scsi.take().is_none(), "one user at a time");

    let unloaded = bench.scsi.unload().unwrap();
    assert_eq!(unloaded.vid, vid("KT0001"));
    unloaded.flushed.unwrap();
    let model = bench.model.lock();
    assert_eq!((model.holder, model.keys.len()), (None, 0));
    assert!(!model.prevented && !model.loaded && !bench.drive.loaded());
}

/// What is written is read, whatever the drive lacks and however it says things.
#[test]
fn every_quirk_is_survived() {
    let descriptor = Quirks { format: SenseFormat::Descriptor, ..Quirks::default() };
    let quirks = [
        ("none", Quirks::default()),
        ("end of data without an error", Quirks { end_key: SenseKey::NoSense, ..descriptor.clone() }),
        ("descriptors", descriptor),
        ("no list of commands", lacking(&[LIST])),
        ("no LOCATE(16)", lacking(&[LOCATE_16])),
        ("neither, found out by trying", lacking(&[LIST, LOCATE_16])),
        ("no memory, log, density, reservations", lacking(&[0x8c, 0x8d, 0x4d, 0x44, 0x5e, 0x5f, 0x1e])),
        ("no block limits, no mode pages", lacking(&[0x05, 0x1a, 0x15])),
        ("slow", Quirks { becomes_ready_after: 300, ..Quirks::default() }),
        ("short transfers", Quirks { transfer_max: 1500, ..Quirks::default() }),
    ];
    for (name, quirks) in quirks {
        let mut bench = Bench::with(quirks.clone(), reserving());
        let partition =
            if bench.scsi.medium().unwrap().partitions > 1 { Partition::Data } else { Partition::Index };
        bench.drive.locate(at(partition, 0)).unwrap();
        let blocks: Vec<_> = (0..6).map(|n| pattern(n, 1 + 190 * n as usize)).collect();
        for block in &blocks {
            bench.drive.write_block(block).unwrap();
        }
        bench.drive.write_filemarks(2).unwrap();
        bench.drive.write_block(b"behind").unwrap();
        bench.drive.write_filemarks(0).unwrap();
        assert_eq!(bench.drive.position().unwrap(), at(partition, 9), "{name}");
        for to in [3, 0, 8, 6] {
            bench.drive.locate(at(partition, to)).unwrap();
            match blocks.get(to as usize) {
                Some(block) => assert_eq!(bench.read().unwrap().as_ref(), Some(block), "{name}"),
                None if to == 8 => assert_eq!(bench.read().unwrap().unwrap(), b"behind", "{name}"),
                None => assert_eq!(bench.read().unwrap(), None, "{name}"),
            }
            assert_eq!(bench.drive.position().unwrap(), at(partition, to + 1), "{name}");
        }
        assert_eq!(bench.drive.space_to_end_of_data(partition).unwrap(), at(partition, 9), "{name}");
        assert_eq!(bench.drive.read_block(&mut [0; 10]).unwrap(), ReadBlock::EndOfData, "{name}");
        let error = bench.drive.locate(at(partition, 10)).unwrap_err();
        assert!(
            matches!(error, TapeError::BeyondEndOfData { end, .. } if end == at(partition, 9)),
            "{name}: {error}"
        );
        assert_eq!(bench.drive.position().unwrap(), at(partition, 9), "{name}: it did not move");
        bench.drive.rewind().unwrap();
        assert_eq!(bench.drive.position().unwrap(), at(partition, 0), "{name}");
    }
}

/// tgt's drive: no LOCATE, positions of zeros, one partition; and the worst of others: residuals that are
/// wrong. Objects are counted.
#[test]
fn a_drive_that_does_not_know_where_it_stands_is_counted_for() {
    for (zero_positions, wrong_residual, lacks_list) in
        [(true, false, false), (true, true, true), (false, true, false)]
    {
        let mut lacks = vec![LOCATE_10, LOCATE_16, 0x8c, 0x8d, 0x4d, 0x44, 0x5e, 0x5f, 0x16];
        lacks.extend(lacks_list.then_some(LIST));
        let partitions_made = false;
        let quirks = Quirks { lacks, zero_positions, wrong_residual, partitions_made, ..Quirks::default() };
        let mut bench = Bench::with(quirks, reserving());
        let index = |block| at(Partition::Index, block);
        for round in 0..3_u8 {
            for n in 0..4 {
                bench.drive.write_block(&[round * 4 + n; 100]).unwrap();
            }
            bench.drive.write_filemarks(1).unwrap();
        }
        assert_eq!(bench.drive.position().unwrap(), index(15));
        for to in [13, 4, 5, 2] {
            bench.drive.locate(index(to)).unwrap();
            let expected = (to % 5 < 4).then(|| vec![(to / 5 * 4 + to % 5) as u8; 100]);
            assert_eq!(bench.read().unwrap(), expected, "object {to}");
        }
        // A record longer than the buffer: the tape stays.
        bench.drive.locate(index(7)).unwrap();
        let error = bench.drive.read_block(&mut [0; 99]).unwrap_err();
        assert!(matches!(error, TapeError::BufferTooSmall { record: 100, buffer: 99 }), "{error}");
        assert_eq!(bench.read().unwrap().unwrap(), [6; 100]);
        assert_eq!(bench.drive.space_to_end_of_data(Partition::Index).unwrap(), index(15));
        let error = bench.drive.locate(index(16)).unwrap_err();
        assert!(matches!(error, TapeError::BeyondEndOfData { end, .. } if end == index(15)), "{error}");
    }
}

#[test]
fn a_lost_write_of_a_counted_drive_closes_the_cartridge() {
    for fault in [Fault::Lost, Fault::LostAfter] {
        let lacks = vec![LOCATE_10, LOCATE_16];
        let quirks = Quirks { lacks, zero_positions: true, partitions_made: false, ..Quirks::default() };
        let mut bench = Bench::new(quirks);
        bench.drive.write_block(b"one").unwrap();
        bench.model.lock().plan(WRITE, fault);
        let error = bench.drive.write_block(b"two").unwrap_err();
        assert!(matches!(error, TapeError::Path { .. }), "{error}");
        assert!(matches!(bench.drive.write_block(b"three"), Err(TapeError::Poisoned { .. })));
        assert!(matches!(bench.drive.write_filemarks(0), Err(TapeError::Poisoned { .. })));
        assert_eq!(bench.model.lock().fired, 1);
        assert!(bench.model.lock().written_over.is_empty());
    }
}

/// A cartridge of one partition: the other is empty, and full.
#[test]
fn a_missing_partition_is_empty_and_full() {
    let mut bench = Bench::new(Quirks { partitions_made: false, ..Quirks::default() });
    bench.drive.locate(data(0)).unwrap();
    assert_eq!(bench.drive.position().unwrap(), data(0));
    assert_eq!(bench.drive.read_block(&mut [0; 10]).unwrap(), ReadBlock::EndOfData);
    assert_eq!(bench.drive.space_to_end_of_data(Partition::Data).unwrap(), data(0));
    let error = bench.drive.locate(data(1)).unwrap_err();
    assert!(matches!(error, TapeError::BeyondEndOfData { end, .. } if end == data(0)));
    assert!(matches!(bench.drive.write_block(b"x"), Err(TapeError::EndOfMedium { .. })));
    assert_eq!(bench.drive.read_attribute(Partition::Data, 0x080c).unwrap(), None);
    assert_eq!(bench.drive.remaining().unwrap(), ByteCount(0));

    bench.drive.format_partitions().unwrap();
    assert_eq!(bench.drive.position().unwrap(), at(Partition::Index, 0));
    bench.drive.locate(data(0)).unwrap();
    bench.drive.write_block(b"x").unwrap();
    bench.drive.write_filemarks(0).unwrap();
    let model = bench.model.lock();
    assert_eq!(model.content(1), [Some(b"x".to_vec())]);
    assert_eq!(model.partitions.len(), 2);
}

#[test]
fn records_of_other_lengths_than_the_buffer() {
    for protection in [ProtectionWish::Off, ProtectionWish::IfOffered] {
        for format in [SenseFormat::Fixed, SenseFormat::Descriptor] {
            let quirks = Quirks { format, ..Quirks::default() };
            let mut bench = Bench::with(quirks, ScsiDriveOptions { protection, ..options() });
            assert_eq!(bench.scsi.is_protected(), protection == ProtectionWish::IfOffered);
            bench.drive.write_block(&[5; 100]).unwrap();
            bench.drive.write_filemarks(1).unwrap();
            bench.drive.rewind().unwrap();
            for length in [0, 1, 99] {
                let error = bench.drive.read_block(&mut vec![0; length]).unwrap_err();
                assert!(
                    matches!(error, TapeError::BufferTooSmall { record: 100, buffer } if buffer == length),
                    "{error}"
                );
                assert_eq!(bench.drive.position().unwrap(), at(Partition::Index, 0));
            }
            for length in [100, 101, 1000] {
                let mut buffer = vec![0; length];
                assert_eq!(bench.drive.read_block(&mut buffer).unwrap(), ReadBlock::Data(100));
                assert_eq!(buffer[..100], [5; 100]);
                bench.drive.rewind().unwrap();
            }
            bench.drive.locate(at(Partition::Index, 1)).unwrap();
            assert_eq!(bench.drive.read_block(&mut []).unwrap(), ReadBlock::FileMark);
        }
    }
}

#[test]
fn blocks_are_held_to_what_the_way_takes() {
    let mut bench = Bench::new(Quirks { transfer_max: 1000, ..Quirks::default() });
    assert_eq!(bench.scsi.block_bytes_max(), 1000 - BlockProtection::LENGTH);
    let error = bench.drive.write_block(&[0; 997]).unwrap_err();
    assert!(matches!(error, TapeError::BlockLength { length: 997, max: 996 }), "{error}");
    bench.drive.write_block(&[1; 996]).unwrap();
    assert!(matches!(bench.drive.write_block(&[]), Err(TapeError::BlockLength { .. })));
    bench.drive.write_filemarks(library::FILE_MARKS_MAX).unwrap();
    let error = bench.drive.write_filemarks(library::FILE_MARKS_MAX + 1).unwrap_err();
    assert!(matches!(error, TapeError::FileMarkCount { .. }), "{error}");
    // A record from an adapter that took more: not this host's to read.
    bench.model.lock().partitions[0] = vec![Object::Record(vec![3; 2000])];
    bench.drive.rewind().unwrap();
    let error = bench.drive.read_block(&mut [0; 4000]).unwrap_err();
    assert!(matches!(error, TapeError::Host { .. }), "{error}");
}

#[test]
fn early_warning_stays_and_the_end_leaves_all_in_place() {
    for (warns_once, warns_from) in [(false, 3), (true, 3)] {
        let quirks = Quirks { warns_from, warns_once, objects_max: 6, ..Quirks::default() };
        let mut bench = Bench::begun(quirks, reserving());
        for n in 0..6_u8 {
            let warned = bench.drive.write_block(&[n]).unwrap().early_warning;
            assert_eq!(warned, n >= 3, "object {n}, once: {warns_once}");
        }
        let error = bench.drive.write_block(&[6]).unwrap_err();
        assert!(matches!(error, TapeError::EndOfMedium { at, .. } if at == data(6)), "{error}");
        assert_eq!(bench.drive.position().unwrap(), data(6));
        assert!(bench.drive.write_filemarks(0).unwrap().early_warning);
        assert!(matches!(bench.drive.write_filemarks(1), Err(TapeError::EndOfMedium { .. })));
        assert_eq!(bench.model.lock().content(1).len(), 6);
        // It is known again where it stands after a locate, and gone before it.
        bench.drive.locate(data(5)).unwrap();
        assert!(bench.drive.write_block(b"over").unwrap().early_warning);
    }
}

/// What is written in the campaign: records and marks, with flushes in between.
#[derive(Clone, Copy)]
pub enum Op {
    Write(u8),
    Marks(u32),
}

pub const OPS: [Op; 12] = [
    Op::Write(1),
    Op::Write(2),
    Op::Marks(0),
    Op::Write(3),
    Op::Marks(2),
    Op::Write(4),
    Op::Write(5),
    Op::Marks(1),
    Op::Write(6),
    Op::Marks(0),
    Op::Write(7),
    Op::Marks(0),
];

pub fn objects(ops: &[Op]) -> Vec<Option<Vec<u8>>> {
    let mut all = Vec::new();
    for op in ops {
        match op {
            Op::Write(n) => all.push(Some(vec![*n; 50])),
            Op::Marks(count) => all.extend((0..*count).map(|_| None)),
        }
    }
    all
}

/// Carries the operations out up to the first error: how many were, and how many were flushed.
pub fn run(bench: &mut Bench) -> (usize, usize) {
    let mut flushed = 0;
    for (index, op) in OPS.iter().enumerate() {
        let result = match op {
            Op::Write(n) => bench.drive.write_block(&[*n; 50]),
            Op::Marks(count) => bench.drive.write_filemarks(*count),
        };
        if result.is_err() {
            return (index, flushed);
        }
        if matches!(op, Op::Marks(_)) {
            flushed = index + 1;
        }
    }
    (OPS.len(), flushed)
}

#[test]
fn an_answer_that_was_lost_is_made_good_without_a_second_write() {
    let mut bench = Bench::begun(Quirks::default(), reserving());
    bench.drive.write_block(b"one").unwrap();
    for (operation, fault) in [(WRITE, Fault::LostAfter), (WRITE, Fault::Lost), (MARKS, Fault::LostAfter)] {
        bench.model.lock().plan(operation, fault);
    }
    bench.drive.write_block(b"two").unwrap();
    bench.drive.write_block(b"three").unwrap();
    bench.drive.write_filemarks(1).unwrap();
    let model = bench.model.lock();
    assert_eq!(model.fired, 3);
    let expected = [Some(b"one".to_vec()), Some(b"two".to_vec()), Some(b"three".to_vec()), None];
    assert_eq!(model.content(1), expected);
    assert_eq!(model.durable[1], 4, "flushed once more, since nobody said that it was");
    drop(model);
    assert_eq!(bench.scsi.seen().answers_lost, 3);
}

/// After a write that failed nothing more is written until the cartridge was loaded anew, which shows what is
/// there.
#[test]
fn a_failed_write_closes_the_cartridge() {
    let deferred = Sense { deferred: true, ..Sense::new(SenseKey::MediumError, 0x0c, 0) };
    type Ends = (u8, Fault, fn(&TapeError) -> bool);
    let ends: [Ends; 7] = [
        (WRITE, Fault::Says(deferred.clone()), |e| matches!(e, TapeError::Medium { operation: "write", .. })),
        (MARKS, Fault::Says(deferred.clone()), |e| matches!(e, TapeError::Medium { operation: "write", .. })),
        (POSITION, Fault::Says(deferred), |e| matches!(e, TapeError::Medium { operation: "write", .. })),
        (WRITE, Fault::Says(Sense::new(SenseKey::MediumError, 0x0c, 0)), |e| {
            matches!(e, TapeError::Medium { operation: "write", .. })
        }),
        (MARKS, Fault::Says(Sense::new(SenseKey::MediumError, 0x0c, 0)), |e| {
            matches!(e, TapeError::Medium { operation: "flush", .. })
        }),
        (WRITE, Fault::Says(Sense::new(SenseKey::HardwareError, 0x44, 0)), |e| {
            matches!(e, TapeError::DriveFailed { .. })
        }),
        (MARKS, Fault::Says(Sense::new(SenseKey::VolumeOverflow, 0x00, 0x02)), |e| {
            matches!(e, TapeError::Medium { operation: "flush", .. })
        }),
    ];
    for (operation, fault, is_right) in ends {
        let mut bench = Bench::begun(Quirks::default(), reserving());
        bench.drive.write_block(b"one").unwrap();
        bench.model.lock().plan(operation, fault.clone());
        let error = bench.drive.write_block(b"two").and_then(|_| bench.drive.write_filemarks(0)).unwrap_err();
        assert!(is_right(&error), "{fault:?}: {error}");
        let written = bench.model.lock().content(1).len();
        for _ in 0..2 {
            assert!(
                matches!(bench.drive.write_block(b"three"), Err(TapeError::Poisoned { .. })),
                "{fault:?}"
            );
            assert!(matches!(bench.drive.write_filemarks(0), Err(TapeError::Poisoned { .. })), "{fault:?}");
            // A look elsewhere does not make it good.
            bench.drive.locate(data(0)).unwrap();
            assert_eq!(bench.read().unwrap().unwrap(), b"one");
        }
        assert!(bench.scsi.unload().unwrap().flushed.is_err());
        bench.model.lock().loaded = true;
        bench.scsi.load(vid("KT0001")).unwrap();
        assert_eq!(bench.drive.space_to_end_of_data(Partition::Data).unwrap(), data(written as u64));
        bench.drive.write_block(b"three").unwrap();
        bench.drive.write_filemarks(0).unwrap();
    }
}

/// What is wished is set at the load, and again after a reset: other hosts and resets set it back.
#[test]
fn settings_are_set_and_set_again() {
    let wishes = ScsiDriveOptions {
        early_warning: EarlyWarning::Bytes(ByteCount(10_000_000_001)),
        compression: Some(false),
        ..reserving()
    };
    let model = Shared::new(Quirks::default());
    model.lock().block_length = 512;
    let scsi = opened(&model, wishes);
    scsi.load(vid("KT0001")).unwrap();
    let mut drive = scsi.take().unwrap();
    for round in 0..2 {
        let set = model.lock();
        assert_eq!((set.block_length, set.early_warning, set.compresses), (0, 10_001, false), "{round}");
        assert!(set.protection.on_write && set.prevented);
        drop(set);
        model.lock().plan(WRITE, Fault::Reset { keeps_buffer: true });
        drive.write_block(b"x").unwrap();
    }
    // Another host has changed them.
    model.lock().protection.on_read = false;
    model.lock().attentions.push(Sense::new(SenseKey::UnitAttention, 0x2a, 0x01));
    drive.write_block(b"x").unwrap();
    assert!(model.lock().protection.on_read);
}

/// A locate that fails, or goes elsewhere, while not all is flushed: nothing says that anything is lost.
#[test]
fn a_locate_that_fails_leaves_the_cartridge_writable() {
    let mut bench = Bench::begun(Quirks::default(), reserving());
    bench.drive.write_block(b"one").unwrap();
    let error = bench.drive.locate(data(5)).unwrap_err();
    assert!(matches!(error, TapeError::BeyondEndOfData { end, .. } if end == data(1)), "{error}");
    bench.drive.locate(data(0)).unwrap();
    assert!(bench.drive.locate(data(5)).is_err());
    assert_eq!(bench.drive.position().unwrap(), data(0), "the tape did not move");
    for fault in [Fault::Lost, Fault::LostAfter, Fault::Shifts(-1)] {
        bench.model.lock().plan(LOCATE_16, fault);
        bench.drive.locate(data(1)).unwrap();
    }
    bench.drive.write_block(b"two").unwrap();
    bench.drive.write_filemarks(0).unwrap();
    assert_eq!(bench.model.lock().content(1), [Some(b"one".to_vec()), Some(b"two".to_vec())]);
    assert_eq!(bench.model.lock().fired, 3);
}

/// A reset turns checksums off: had they not been turned on again, four bytes of them would be data.
#[test]
fn a_reset_between_two_writes_is_made_good() {
    let mut bench = Bench::begun(Quirks::default(), reserving());
    bench.drive.write_block(b"one").unwrap();
    bench.model.lock().plan(WRITE, Fault::Reset { keeps_buffer: true });
    bench.drive.write_block(b"two").unwrap();
    bench.drive.write_filemarks(0).unwrap();
    let model = bench.model.lock();
    assert_eq!(model.fired, 1);
    assert_eq!(model.content(1), [Some(b"one".to_vec()), Some(b"two".to_vec())]);
    assert!(model.protection.on_write && model.prevented);
    drop(model);

    // What the drive lost from its buffer shows before anything else is written.
    bench.drive.write_block(b"three").unwrap();
    bench.model.lock().plan(WRITE, Fault::Reset { keeps_buffer: false });
    let error = bench.drive.write_block(b"four").unwrap_err();
    assert!(matches!(error, TapeError::Poisoned { .. }), "{error}");
    assert_eq!(bench.model.lock().content(1).len(), 2);
}

#[test]
fn attentions_that_mean_nothing_are_swallowed_and_others_obeyed() {
    let attention = |asc, ascq| Sense::new(SenseKey::UnitAttention, asc, ascq);
    for (sense, obeyed) in [
        (attention(0x2a, 0x02), false),
        (attention(0x2a, 0x10), false),
        (attention(0x5a, 0x01), false),
        (attention(0x29, 0x00), false),
        (attention(0x29, 0x07), false),
        (attention(0x2a, 0x01), false),
        (attention(0x3f, 0x01), false),
        (attention(0x28, 0x00), true),
        (attention(0x2a, 0x03), true),
        (attention(0x2a, 0x05), true),
    ] {
        let mut bench = Bench::begun(Quirks::default(), reserving());
        bench.drive.write_block(b"one").unwrap();
        bench.drive.write_filemarks(0).unwrap();
        bench.model.lock().attentions.push(sense.clone());
        let result = bench.drive.write_block(b"two");
        let name = format!("{sense}: {result:?}");
        assert_eq!(result.is_err(), obeyed, "{name}");
        if !obeyed {
            continue;
        }
        let taken = sense.additional.asc == 0x2a;
        let expected = |error: &TapeError| match error {
            TapeError::Interrupted { .. } => !taken,
            TapeError::Reserved { .. } => taken,
            _ => false,
        };
        assert!(expected(&result.unwrap_err()), "{name}");
        // It stays so, for reads too, until the cartridge is loaded anew.
        assert!(expected(&bench.drive.read_block(&mut [0; 10]).unwrap_err()), "{name}");
        assert!(expected(&bench.drive.locate(data(0)).unwrap_err()), "{name}");
        bench.scsi.load(vid("KT0001")).unwrap();
        bench.drive.locate(data(1)).unwrap();
        bench.drive.write_block(b"two").unwrap();
        assert_eq!(bench.model.lock().content(1).len(), 2, "{name}");
    }
}

#[test]
fn another_drive_on_the_same_way_is_not_used() {
    let model = Shared::new(Quirks::default());
    let expected = DriveIdentity::of_serial("ANOTHER");
    let open = |expected: &DriveIdentity| {
        ScsiDrive::open(drive_name("drive1"), Box::new(model.clone()), Some(expected), options())
    };
    let error = open(&expected).unwrap_err();
    assert!(matches!(error, TapeError::Path { operation: "inquiry", .. }), "{error}");
    let found = open(&DriveIdentity::of_serial("KISTDRIVE1")).unwrap().identity();
    assert_eq!(found.designators.len(), 1);

    let mut bench = Bench::begun(Quirks::default(), options());
    bench.model.lock().plan(WRITE, Fault::Exchanged);
    let error = bench.drive.write_block(b"one").unwrap_err();
    assert!(matches!(error, TapeError::Path { .. }), "{error}");
    assert!(bench.drive.write_block(b"one").is_err() && bench.drive.rewind().is_err());
    assert!(bench.model.lock().content(1).is_empty());
}

#[test]
fn a_drive_is_held_for_a_session_and_taken_over_only_on_purpose() {
    let model = Shared::new(Quirks::default());
    let (first, second) = (opened(&model, reserving()), {
        let other = ScsiDriveOptions { reservation_key: Some(7.into()), ..options() };
        opened(&model, other)
    });
    first.load(vid("KT0001")).unwrap();
    let error = second.load(vid("KT0001")).unwrap_err();
    assert!(matches!(error, TapeError::Reserved { .. }), "{error}");
    assert_eq!(model.lock().holder, Some(KEY));
    assert_eq!(model.lock().keys, [KEY], "nothing is left of the other");
    second.take_over().unwrap();
    second.load(vid("KT0001")).unwrap();
    assert_eq!(model.lock().holder, Some(7));
    // The first hears of it at its next command.
    model.lock().attentions.push(Sense::new(SenseKey::UnitAttention, 0x2a, 0x03));
    let mut drive = first.take().unwrap();
    assert!(matches!(drive.write_block(b"x"), Err(TapeError::Reserved { .. })));
    assert!(matches!(drive.write_block(b"x"), Err(TapeError::Reserved { .. })));
    assert_eq!(model.lock().count(WRITE), 0, "it was heard before anything was sent");
    assert!(model.lock().content(0).is_empty());
}

/// A reservation that is gone after a reset: somebody else may have had the tape.
#[test]
fn a_reservation_that_is_gone_ends_the_session() {
    for holder in [None, Some(9)] {
        let mut bench = Bench::begun(Quirks::default(), reserving());
        let mut model = bench.model.lock();
        model.holder = holder;
        model.attentions.push(Sense::new(SenseKey::UnitAttention, 0x29, 0x01));
        drop(model);
        let error = bench.drive.write_block(b"x").unwrap_err();
        match holder {
            None => assert!(matches!(error, TapeError::Interrupted { .. }), "{error}"),
            Some(_) => assert!(matches!(error, TapeError::Reserved { .. }), "{error}"),
        }
        assert!(bench.model.lock().content(1).is_empty());
    }
}

#[test]
fn checksums_tell_the_way_from_the_medium() {
    let mut bench = Bench::begun(Quirks::default(), options());
    bench.drive.write_block(&[1; 100]).unwrap();
    bench.drive.write_block(&[2; 100]).unwrap();
    bench.drive.write_filemarks(0).unwrap();
    // Damaged on the way once: read again.
    bench.drive.locate(data(0)).unwrap();
    bench.model.lock().plan(READ, Fault::Damages);
    assert_eq!(bench.read().unwrap().unwrap(), [1; 100]);
    // Each time: the way is at fault, and the tape stands where it stood.
    (0..8).for_each(|_| bench.model.lock().plan(READ, Fault::Damages));
    let error = bench.read().unwrap_err();
    assert!(matches!(error, TapeError::Path { .. }), "{error}");
    assert_eq!(bench.drive.position().unwrap(), data(1));
    // The drive itself finds it damaged: the medium is.
    let mut bench = Bench::begun(Quirks::default(), options());
    bench.drive.write_block(&[1; 100]).unwrap();
    bench.drive.write_filemarks(0).unwrap();
    bench.drive.locate(data(0)).unwrap();
    bench.model.lock().plan(READ, Fault::DoesAndSays(Sense::new(SenseKey::MediumError, 0x10, 0x01)));
    let error = bench.read().unwrap_err();
    assert!(matches!(error, TapeError::Unreadable { at, .. } if at == data(0)), "{error}");
    assert_eq!(bench.drive.position().unwrap(), data(0));
    // A block that does not arrive as it was sent is not written, and sent again.
    bench.drive.locate(data(1)).unwrap();
    bench.model.lock().plan(WRITE, Fault::Says(Sense::new(SenseKey::AbortedCommand, 0x10, 0x01)));
    bench.drive.write_block(&[2; 100]).unwrap();
    assert_eq!(bench.model.lock().content(1).len(), 2);
}

/// Less came over than was sent: a checksum tells that the block is whole, without one nobody knows.
#[test]
fn a_write_of_which_less_came_over_is_an_error_without_a_checksum() {
    for (protection, is_whole) in [(ProtectionWish::Required, true), (ProtectionWish::Off, false)] {
        let mut bench = Bench::begun(Quirks::default(), ScsiDriveOptions { protection, ..options() });
        bench.model.lock().plan(WRITE, Fault::TakesLess);
        let result = bench.drive.write_block(b"block");
        assert_eq!(result.is_ok(), is_whole, "{result:?}");
        assert_eq!(bench.drive.write_filemarks(0).is_ok(), is_whole);
    }
}

#[test]
fn a_drive_without_checksums_is_used_or_not_as_is_wished() {
    let quirks = lacking(&[0x1a, 0x15]);
    let bench = Bench::new(quirks.clone());
    assert!(!bench.scsi.is_protected());
    let wish = ScsiDriveOptions { protection: ProtectionWish::Required, ..options() };
    let error = opened(&Shared::new(quirks), wish).load(vid("KT0001")).unwrap_err();
    assert!(matches!(error, TapeError::DriveFailed { .. }), "{error}");
    // One that another program has left on is turned off.
    let model = Shared::new(Quirks::default());
    model.lock().protection.method = ProtectionMethod::ReedSolomon;
    model.lock().protection.on_write = true;
    model.lock().protection.on_read = true;
    let scsi = opened(&model, ScsiDriveOptions { protection: ProtectionWish::Off, ..options() });
    scsi.load(vid("KT0001")).unwrap();
    assert_eq!(model.lock().protection.method, ProtectionMethod::None);
}

#[test]
fn an_unreadable_record_leaves_its_neighbours_readable() {
    let mut bench = Bench::begun(Quirks::default(), options());
    run(&mut bench);
    bench.drive.locate(data(1)).unwrap();
    bench.model.lock().plan(READ, Fault::DoesAndSays(Sense::new(SenseKey::MediumError, 0x11, 0x00)));
    let error = bench.read().unwrap_err();
    assert!(matches!(error, TapeError::Unreadable { at, .. } if at == data(1)), "{error}");
    assert_eq!(bench.drive.position().unwrap(), data(1), "the tape did not move");
    bench.drive.locate(data(2)).unwrap();
    assert_eq!(bench.read().unwrap().unwrap(), [3; 50]);
    for (sense, is_cleaning) in [((0x00, 0x17), true), ((0x44, 0x00), false)] {
        let sense = Sense::new(SenseKey::HardwareError, sense.0, sense.1);
        bench.model.lock().plan(READ, Fault::Says(sense));
        let error = bench.read().unwrap_err();
        assert_eq!(matches!(error, TapeError::CleaningNeeded { .. }), is_cleaning, "{error}");
        assert!(error.is_of_the_drive(), "{error}");
    }
}

#[test]
fn a_write_protected_cartridge_is_read_only() {
    let model = Shared::new(Quirks::default());
    model.lock().write_protected = true;
    let scsi = opened(&model, options());
    scsi.load(vid("KT0001")).unwrap();
    let mut drive = scsi.take().unwrap();
    assert!(matches!(drive.write_block(b"x"), Err(TapeError::WriteProtected { .. })));
    assert!(matches!(drive.write_filemarks(0), Err(TapeError::WriteProtected { .. })));
    assert!(matches!(drive.format_partitions(), Err(TapeError::WriteProtected { .. })));
    assert!(matches!(
        drive.write_attribute(Partition::Index, 0x0800, b"x"),
        Err(TapeError::WriteProtected { .. })
    ));
    for never in [WRITE, FORMAT] {
        assert_eq!(model.lock().count(never), 0);
    }
    // A reset does not make it flush.
    model.lock().attentions.push(Sense::new(SenseKey::UnitAttention, 0x29, 0));
    assert_eq!(drive.read_block(&mut [0; 10]).unwrap(), ReadBlock::EndOfData);
    assert_eq!(model.lock().count(MARKS), 0);
}

#[test]
fn a_cartridge_that_becomes_ready_is_waited_for_and_one_that_does_not_is_told() {
    // A poll a second: nearly two hours, as a new LTO-9 cartridge.
    let bench = Bench::new(Quirks { becomes_ready_after: 7000, ..Quirks::default() });
    assert!(bench.drive.loaded());
    // An open waits for nothing, a load not for ever.
    let model = Shared::new(Quirks { becomes_ready_after: u32::MAX, ..Quirks::default() });
    let scsi = opened(&model, options());
    let error = scsi.load(vid("KT0001")).unwrap_err();
    assert!(matches!(error, TapeError::NotReady { .. }), "{error}");
    assert!(model.lock().count(READY) < 10_000);

    let model = Shared::new(Quirks::default());
    let scsi = opened(&model, options());
    model.lock().loaded = false;
    let error = scsi.load(vid("KT0001")).unwrap_err();
    assert!(matches!(error, TapeError::NotLoaded { .. }), "{error}");
    assert!(scsi.loaded().is_none());
    assert_eq!(model.lock().count(0x1b), 1, "LOAD was tried");
    let mut drive = scsi.take().unwrap();
    assert!(matches!(drive.read_block(&mut [0; 10]), Err(TapeError::NotLoaded { .. })));
}

/// tgt says GOOD to TEST UNIT READY after UNLOAD: the driver goes by what it did.
#[test]
fn an_unloaded_drive_is_empty_whatever_it_says() {
    let mut bench = Bench::new(Quirks { always_ready: true, ..Quirks::default() });
    bench.drive.write_block(b"x").unwrap();
    let flushes = bench.model.lock().count(MARKS);
    bench.scsi.unload().unwrap().flushed.unwrap();
    assert_eq!(bench.model.lock().count(MARKS), flushes + 1, "what was written is flushed first");
    assert!(!bench.drive.loaded());
    assert!(matches!(bench.drive.read_block(&mut [0; 10]), Err(TapeError::NotLoaded { .. })));
}

#[test]
fn an_unload_says_what_was_not_flushed_and_unloads() {
    let mut bench = Bench::begun(Quirks::default(), reserving());
    bench.drive.write_block(b"x").unwrap();
    bench.model.lock().plan(MARKS, Fault::Says(Sense::new(SenseKey::MediumError, 0x0c, 0)));
    let unloaded = bench.scsi.unload().unwrap();
    let error = unloaded.flushed.unwrap_err();
    assert!(matches!(error, TapeError::Medium { operation: "flush", .. }), "{error}");
    let model = bench.model.lock();
    assert!(!model.loaded && model.holder.is_none());
}

/// UNLOAD was carried out and its answer lost: the drive is empty, which is what was asked for.
#[test]
fn an_unload_whose_answer_was_lost_is_one() {
    const UNLOAD: u8 = 0x1b;
    for fault in [Fault::Lost, Fault::LostAfter, Fault::LostAfterReset { keeps_buffer: true }] {
        let mut bench = Bench::begun(Quirks::default(), reserving());
        bench.drive.write_block(b"x").unwrap();
        bench.model.lock().plan(UNLOAD, fault);
        bench.scsi.unload().unwrap().flushed.unwrap();
        let model = bench.model.lock();
        assert!(!model.loaded && model.holder.is_none());
        assert_eq!(model.fired, 1);
    }
}

/// Two partitions, and nobody who knows in which of them the tape stands.
#[test]
fn a_drive_that_knows_no_positions_takes_no_partitions() {
    let model = Shared::new(Quirks { zero_positions: true, ..Quirks::default() });
    let error = opened(&model, options()).load(vid("KT0001")).unwrap_err();
    assert!(matches!(error, TapeError::DriveFailed { operation: "read position", .. }), "{error}");
}

#[test]
fn memory_capacity_geometry_and_alerts() {
    let mut bench = Bench::begun(Quirks::default(), options());
    for n in 0..8 {
        bench.drive.write_block(&[n; 10]).unwrap();
    }
    bench.drive.write_filemarks(0).unwrap();
    let drive = &mut bench.drive;
    assert_eq!(drive.read_attribute(Partition::Data, 0x080c).unwrap(), None);
    drive.write_attribute(Partition::Data, 0x080c, b"coherent").unwrap();
    assert_eq!(drive.read_attribute(Partition::Data, 0x080c).unwrap().unwrap(), b"coherent");
    assert_eq!(drive.read_attribute(Partition::Index, 0x080c).unwrap(), None);
    // A text has its width.
    drive.write_attribute(Partition::Index, 0x0800, b"KIST").unwrap();
    assert_eq!(drive.read_attribute(Partition::Index, 0x0800).unwrap().unwrap(), b"KIST    ");
    drive.write_attribute(Partition::Index, 0x0800, b"").unwrap();
    assert_eq!(drive.read_attribute(Partition::Index, 0x0800).unwrap(), None);
    let error = drive.write_attribute(Partition::Index, 0x0009, &[1]).unwrap_err();
    assert!(matches!(error, TapeError::AttributeReadOnly { id: 9 }));
    let error = drive.write_attribute(Partition::Index, 0x0800, &[0; 9]).unwrap_err();
    assert!(matches!(error, TapeError::AttributeLength { max: 8, .. }));

    assert_eq!(drive.remaining().unwrap(), ByteCount::mib(700));
    let ends: Vec<_> = drive.end_of_wrap_positions().unwrap().unwrap().iter().map(|end| end.0).collect();
    assert_eq!(ends, [4, 8], "wraps without data are left out");
    let block = base::BlockAddress;
    let segments = [(block(6), block(8)), (block(1), block(2)), (block(3), block(4))];
    assert_eq!(drive.recommended_order(&segments).unwrap(), Some(vec![1, 2, 0]));
    let error = drive.recommended_order(&[(block(0), block(1)); 5]).unwrap_err();
    assert!(matches!(error, TapeError::SegmentCount { count: 5, max: 4 }), "{error}");
    // The last end is that of the data: what lies behind is laid out by the wrap before it.
    let track = drive.track(1 << 18).unwrap().unwrap();
    assert_eq!(track.map.ends(), [4]);
    assert_eq!(track.locate, mechanics::timing("LTO-9").unwrap().locate, "nothing was measured");
    assert_eq!(drive.motion_report().unwrap().bytes_written, 80);

    assert_eq!(drive.alerts().unwrap(), []);
    bench.model.lock().alerts = TapeAlerts::default().with(4).with(20);
    assert_eq!(bench.drive.alerts().unwrap(), [TapeAlert(4), TapeAlert::CLEAN_NOW]);

    // Drives without any of it.
    let mut bench = Bench::new(lacking(&[LIST, 0xa4, 0x4d, 0x8c]));
    assert_eq!(bench.drive.recommended_order(&segments).unwrap(), None);
    assert_eq!(bench.drive.end_of_wrap_positions().unwrap(), None);
    assert_eq!(bench.drive.alerts().unwrap(), []);
    assert!(bench.drive.remaining().is_err());
}

fn counter_page(code: u8, parameters: &[(u16, u64)]) -> LogPage {
    let parameters = parameters.iter().map(|(code, value)| LogParameter::of_number(*code, 0, 8, *value));
    LogPage { code, parameters: parameters.collect(), ..LogPage::default() }
}

/// Each counter comes from the first page that has it; a page that the drive refuses is not asked for again.
#[test]
fn a_drive_tells_what_it_counts() {
    use scsi::log::page;
    let mut bench = Bench::begun(Quirks::default(), reserving());
    let bare = bench.drive.counters().unwrap();
    let product = bare.product.clone().unwrap();
    assert_eq!((product.serial.as_str(), product.vendor.is_empty()), ("KISTDRIVE1", false));
    assert_eq!(bare, DriveCounters { product: Some(product.clone()), ..DriveCounters::default() });
    let asked = bench.model.lock().count(0x4d);
    bench.drive.counters().unwrap();
    assert_eq!(bench.model.lock().count(0x4d), asked, "refused pages are asked for again");

    let model = Shared::new(Quirks::default());
    {
        let mut model = model.lock();
        let mut page = |code, parameters: &[(u16, u64)]| {
            model.pages.insert(code, counter_page(code, parameters));
        };
        page(page::WRITE_ERRORS, &[(2, 40), (3, 30), (5, 7_000), (6, 1)]);
        page(page::READ_ERRORS, &[(3, 5), (5, 8_000)]);
        page(page::SEQUENTIAL_ACCESS, &[(0, 1), (1, 9_000), (3, 2)]);
        page(page::DEVICE_STATISTICS, &[(0x0e, 77), (0x0f, 2)]);
        page(page::VOLUME_STATISTICS, &[(0, 1), (3, 66), (8, 6), (9, 99)]);
        let now = LogParameter { code: 0, control: 3, value: vec![0, 41] };
        let page = LogPage { code: page::TEMPERATURE, parameters: vec![now], ..LogPage::default() };
        model.pages.insert(page.code, page);
    }
    let scsi = opened(&model, options());
    scsi.load(vid("KT0001")).unwrap();
    let counters = scsi.take().unwrap().counters().unwrap();
    let errors = |corrected, retries, uncorrected| ErrorCounters {
        corrected: Some(corrected),
        retries: Some(retries),
        uncorrected: Some(uncorrected),
    };
    assert_eq!(counters.writing, errors(30, 40, 1));
    assert_eq!(
        counters.reading,
        errors(5, 6, 2),
        "of the volume's and the drive's pages what page 03h lacks"
    );
    assert_eq!((counters.written, counters.read), (Some(ByteCount(9_000)), Some(ByteCount(8_000))));
    assert_eq!((counters.celsius, counters.product), (Some(41), Some(product)));
}

/// A drive that says nothing when it is asked for its counters is waited for once, and used afterwards as
/// before.
#[test]
fn a_drive_that_does_not_tell_its_counters_is_asked_once() {
    let mut bench = Bench::begun(Quirks::default(), reserving());
    bench.drive.write_block(b"one").unwrap();
    bench.model.lock().pages.insert(2, counter_page(2, &[(3, 30)]));
    bench.model.lock().plan(0x4d, Fault::Lost);
    let before = bench.model.lock().count(0x4d);
    assert!(matches!(bench.drive.counters(), Err(TapeError::Path { .. })));
    assert_eq!(bench.model.lock().count(0x4d), before + 1, "asked again after a lost answer");
    // Now something is in doubt, and a question for counters does not settle it.
    let sent = bench.model.lock().log.len();
    assert!(bench.drive.counters().is_err());
    assert_eq!(bench.model.lock().log.len(), sent, "nothing was sent");
    bench.drive.write_block(b"two").unwrap();
    bench.drive.write_filemarks(0).unwrap();
    assert_eq!(bench.model.lock().content(1), [Some(b"one".to_vec()), Some(b"two".to_vec())]);
    // What came before a failure counts.
    bench.model.lock().plan_after(0x4d, 1, Fault::Lost);
    assert_eq!(bench.drive.counters().unwrap().writing.corrected, Some(30));
    bench.scsi.unload().unwrap().flushed.unwrap();
    assert!(matches!(bench.drive.counters(), Err(TapeError::NotLoaded { .. })));
}

#[test]
fn a_format_that_failed_can_be_done_again() {
    let mut bench = Bench::begun(Quirks::default(), reserving());
    bench.drive.write_block(b"x").unwrap();
    bench.model.lock().plan(FORMAT, Fault::Lost);
    assert!(bench.drive.format_partitions().is_err());
    bench.drive.format_partitions().unwrap();
    assert_eq!(bench.drive.position().unwrap(), at(Partition::Index, 0));
    assert_eq!(bench.model.lock().content(1), []);
    let worm = Shared::new(Quirks::default());
    worm.lock().memory.insert((0, 0x0408), vec![0x80]);
    let scsi = opened(&worm, options());
    assert!(scsi.load(vid("KT0001")).unwrap().worm);
    let mut drive = scsi.take().unwrap();
    let error = drive.format_partitions().unwrap_err();
    assert!(matches!(error, TapeError::Worm { .. }) && error.to_string().contains("LTFS"), "{error}");
    // What is on it is read, and nothing is written behind it.
    assert!(matches!(drive.write_block(b"x"), Err(TapeError::Worm { .. })));
    assert!(matches!(drive.read_block(&mut [0; 10]), Ok(ReadBlock::EndOfData)));
    let worm = worm.lock();
    assert_eq!((worm.count(FORMAT), worm.count(WRITE)), (0, 0));
}

/// Each write is preceded by the question where the tape stands, unless a reservation is trusted.
#[test]
fn positions_are_asked_as_often_as_somebody_else_could_move_the_tape() {
    let trusting = ScsiDriveOptions { trusts_reservation: true, ..reserving() };
    let alone = ScsiDriveOptions { trusts_reservation: true, ..options() };
    for (options, each) in [(options(), true), (reserving(), true), (alone, true), (trusting, false)] {
        let mut bench = Bench::begun(Quirks::default(), options);
        let before = bench.model.lock().count(POSITION);
        for n in 0..10 {
            bench.drive.write_block(&[n]).unwrap();
        }
        let asked = bench.model.lock().count(POSITION) - before;
        assert_eq!(asked, if each { 10 } else { 1 });
        // Another host rewinds.
        bench.model.lock().at = (1, 0);
        let result = bench.drive.write_block(b"over").and_then(|_| bench.drive.write_filemarks(0));
        let model = bench.model.lock();
        if each {
            // It is found, and the end of data shows that nothing is gone.
            assert!(result.is_ok(), "{result:?}");
            assert_eq!((model.content(1).len(), model.written_over.len()), (11, 0));
        } else {
            // Only the flush can tell, and it does.
            assert!(matches!(result, Err(TapeError::PositionUnknown { .. })), "{result:?}");
        }
    }
    // After anything but a write, the next one asks.
    let trusting = ScsiDriveOptions { trusts_reservation: true, ..reserving() };
    let mut bench = Bench::begun(Quirks::default(), trusting);
    run(&mut bench);
    assert_eq!(bench.drive.read_block(&mut [0; 10]).unwrap(), ReadBlock::EndOfData);
    bench.model.lock().at = (1, 2);
    bench.drive.write_block(b"next").unwrap();
    assert_eq!(bench.model.lock().written_over, []);
    assert_eq!(bench.model.lock().content(1).len(), objects(&OPS).len() + 1);
}

/// A model whose locates take what a drive takes that differs from the LTO-9 of the data files by a fit.
struct Slow {
    model: Shared,
    clock: Arc<Hurry>,
    track: Track,
    stands: u64,
}

impl Transport for Slow {
    fn execute(&mut self, cdb: &Cdb, data: Data<'_>, limit: Duration) -> Result<Completion, TransportError> {
        if cdb.operation_code() == LOCATE_16 && cdb.bytes()[3] == 1 {
            let to = u64::from_be_bytes(cdb.bytes()[4..12].try_into().unwrap());
            let place = |block| self.track.place(BlockAddress(block));
            let took = self.track.locate_us(place(self.stands), place(to));
            self.clock.wait_until(self.clock.now_us() + took);
            self.stands = to;
        }
        self.model.execute(cdb, data, limit)
    }

    fn transfer_max(&self) -> usize {
        self.model.transfer_max()
    }

    fn address(&self) -> &str {
        self.model.address()
    }
}

/// What the drive takes is counted, and its track goes by it.
#[test]
fn a_track_is_fitted_to_what_locates_took() {
    let fit = LocateFit { fixed: 1.6, way: 0.7, samples: 0 };
    let medium = mechanics::medium("LTO-9").unwrap();
    // The model says that its data end a wrap in their middle.
    let map = medium.measured_map(&[200], 1 << 18).unwrap();
    let model_track = medium.track(mechanics::drive("LTO-9").unwrap(), 1 << 18, Some(map));
    let track = Track { locate: model_track.locate.fitted(&fit), ..model_track.clone() };
    let (model, clock) = (Shared::new(Quirks::default()), Arc::new(Hurry::default()));
    let way = Slow { model: model.clone(), clock: clock.clone(), track, stands: 0 };
    let options = ScsiDriveOptions { waiter: clock, ..ScsiDriveOptions::default() };
    let scsi = ScsiDrive::open(drive_name("drive1"), Box::new(way), None, options).unwrap();
    assert_eq!(scsi.take().unwrap().motion_report(), None, "before the first mount");
    scsi.load(vid("KT0001")).unwrap();
    let mut drive = scsi.take().unwrap();
    drive.locate(data(0)).unwrap();
    for _ in 0..400 {
        drive.write_block(b"record").unwrap();
    }
    drive.write_filemarks(0).unwrap();
    let before = drive.motion_report().unwrap();
    assert_eq!((before.bytes_written, before.flushes), (2_400, 1));
    assert_eq!(drive.track(1 << 18).unwrap().unwrap().locate, model_track.locate, "nothing is known yet");
    for number in 0..120_u64 {
        drive.locate(data(number * 161 % 400)).unwrap();
    }
    let report = drive.motion_report().unwrap().since(&before);
    assert_eq!(report.locates, 120);
    assert!(report.locate_seconds > 120.0, "{report:?}");
    assert_eq!(scsi.recent_locates().len(), 120);
    let fitted = drive.track(1 << 18).unwrap().unwrap().locate;
    let (fixed, way) =
        (fitted.base_us / model_track.locate.base_us, fitted.lpos_us / model_track.locate.lpos_us);
    assert!((fixed / fit.fixed - 1.0).abs() < 0.05 && (way / fit.way - 1.0).abs() < 0.05, "{fixed} {way}");
    // The fit outlives the mount, the report does not.
    scsi.unload().unwrap();
    assert!(drive.motion_report().unwrap().unload_seconds >= 0.0);
    model.lock().loaded = true;
    scsi.load(vid("KT0001")).unwrap();
    assert_eq!(drive.motion_report().unwrap().locates, 0);
    assert_eq!(drive.track(1 << 18).unwrap().unwrap().locate, fitted);
    assert_eq!(scsi.recent_loads().len(), 2);
}
