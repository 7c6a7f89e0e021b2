//! What every tape drive does, for any maker of one: the virtual drive, and the SCSI drive on whatever
//! target. The tests of crate `vtl` take this file too.
#![allow(dead_code, reason = "each test program uses a part")]

use base::{BlockAddress, Partition, TapePosition};
use library::{FILE_MARKS_MAX, MEMORY_ATTRIBUTES_MAX, MEMORY_VALUE_BYTES_MAX};
use library::{ReadBlock, TapeDrive, TapeError};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

/// A drive with an empty cartridge of two partitions in it, at the begin of the index partition.
pub trait Rig {
    fn drive(&mut self) -> &mut dyn TapeDrive;

    /// Unloads the cartridge and loads it again.
    fn reload(&mut self);

    /// The same, and what can be made anew of the cartridge's files is lost in between.
    fn lose_index_and_reload(&mut self);

    /// Whatever drives the drive dies, and comes again. What the kernel had taken is all there.
    fn crash(&mut self);

    /// The longest block that the drive takes.
    fn block_bytes_max(&self) -> usize;
}

/// A rig whose drive encrypts all that is written, whenever it was loaded: else it is as the other.
pub struct Encrypting<R>(pub R);

impl<R: Rig> Rig for Encrypting<R> {
    fn drive(&mut self) -> &mut dyn TapeDrive {
        let identity = library::KeyIdentity::new(b"suite", b"").unwrap();
        let key = library::EncryptionKey::new([0x5a; 32]);
        let drive = self.0.drive();
        drive.set_encryption(Some(&library::TapeEncryption::of(key, identity))).unwrap();
        drive
    }

    fn reload(&mut self) {
        self.0.reload();
    }

    fn lose_index_and_reload(&mut self) {
        self.0.lose_index_and_reload();
    }

    fn crash(&mut self) {
        self.0.crash();
    }

    fn block_bytes_max(&self) -> usize {
        self.0.block_bytes_max()
    }
}

fn at(partition: Partition, block: u64) -> TapePosition {
    TapePosition { partition, block: BlockAddress(block) }
}

/// Bytes that differ from block to block.
fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..length).map(|_| next()).collect()
}

#[derive(Clone, Debug)]
enum Step {
    Write(u16),
    FileMarks(u8),
    Read,
    Locate(bool, u8),
    End(bool),
    Rewind,
    Format,
    ReadReference,
    Reload,
    LoseIndexAndReload,
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (1u16..600).prop_map(Step::Write),
        2 => (0u8..3).prop_map(Step::FileMarks),
        8 => Just(Step::Read),
        4 => (any::<bool>(), 0u8..30).prop_map(|(p, b)| Step::Locate(p, b)),
        3 => any::<bool>().prop_map(Step::End),
        1 => Just(Step::Rewind),
        1 => (0u8..8).prop_map(|n| if n == 0 { Step::Format } else { Step::Read }),
        1 => Just(Step::ReadReference),
        1 => Just(Step::Reload),
        1 => Just(Step::LoseIndexAndReload),
        1 => Just(Step::Crash),
    ]
}

/// A tape: objects of both partitions, `None` for a file mark.
#[derive(Default)]
struct Model {
    partitions: [Vec<Option<Vec<u8>>>; 2],
    partition: usize,
    block: usize,
    change_reference: u32,
    changed: bool,
}

impl Model {
    fn write(&mut self, object: Option<Vec<u8>>) {
        self.note_change(self.block < self.partitions[self.partition].len());
        let objects = &mut self.partitions[self.partition];
        objects.truncate(self.block);
        objects.push(object);
        self.block += 1;
    }

    fn note_change(&mut self, lost: bool) {
        if lost || !self.changed {
            self.change_reference += 1;
            self.changed = true;
        }
    }

    fn load(&mut self) {
        (self.partition, self.block, self.changed) = (0, 0, false);
    }
}

fn partition(data: usize) -> Partition {
    if data == 1 { Partition::Data } else { Partition::Index }
}

/// A drive beside a model of it.
struct Pair<R> {
    rig: R,
    model: Model,
    written: u64,
}

impl<R: Rig> Pair<R> {
    fn new(rig: R) -> Self {
        Pair { rig, model: Model { change_reference: 1, ..Model::default() }, written: 0 }
    }

    fn run(&mut self, step: &Step) {
        match step {
            Step::Write(length) => {
                self.written += 1;
                let block = pattern(self.written, usize::from(*length));
                self.rig.drive().write_block(&block).unwrap();
                self.model.write(Some(block));
            }
            Step::FileMarks(count) => {
                self.rig.drive().write_filemarks(u32::from(*count)).unwrap();
                (0..*count).for_each(|_| self.model.write(None));
            }
            Step::Read => self.read(),
            Step::Locate(data, block) => self.locate(usize::from(*data), u64::from(*block)),
            Step::End(data) => {
                let index = usize::from(*data);
                let end = self.rig.drive().space_to_end_of_data(partition(index)).unwrap();
                (self.model.partition, self.model.block) = (index, self.model.partitions[index].len());
                assert_eq!(end, self.position());
            }
            Step::Rewind => {
                self.rig.drive().rewind().unwrap();
                self.model.block = 0;
            }
            Step::Format => {
                self.rig.drive().format_partitions().unwrap();
                self.model.note_change(true);
                self.model.partitions = Default::default();
                (self.model.partition, self.model.block) = (0, 0);
            }
            Step::ReadReference => self.read_reference(),
            Step::Reload => {
                self.rig.reload();
                self.model.load();
            }
            Step::LoseIndexAndReload => {
                self.rig.lose_index_and_reload();
                self.model.load();
            }
            Step::Crash => {
                self.rig.crash();
                self.model.load();
            }
        }
        let expected = self.position();
        assert_eq!(self.rig.drive().position().unwrap(), expected);
    }

    fn position(&self) -> TapePosition {
        at(partition(self.model.partition), self.model.block as u64)
    }

    fn read(&mut self) {
        let mut buffer = vec![0; 1024];
        let found = self.rig.drive().read_block(&mut buffer).unwrap();
        let expected = self.model.partitions[self.model.partition].get(self.model.block);
        match (found, expected) {
            (ReadBlock::Data(length), Some(Some(block))) => assert_eq!(&buffer[..length], block),
            (ReadBlock::FileMark, Some(None)) => {}
            (ReadBlock::EndOfData, None) => return,
            other => panic!("{other:?}"),
        }
        self.model.block += 1;
    }

    fn locate(&mut self, index: usize, block: u64) {
        let objects = self.model.partitions[index].len() as u64;
        let result = self.rig.drive().locate(at(partition(index), block));
        if block <= objects {
            result.unwrap();
            (self.model.partition, self.model.block) = (index, block as usize);
        } else {
            assert!(matches!(result, Err(TapeError::BeyondEndOfData { .. })), "{result:?}");
        }
    }

    fn read_reference(&mut self) {
        let reference = self.rig.drive().read_attribute(Partition::Index, 0x0009).unwrap();
        assert_eq!(reference, Some(self.model.change_reference.to_be_bytes().to_vec()));
        self.model.changed = false;
    }

    fn check_all(&mut self) {
        self.read_reference();
        for index in 0..2 {
            self.locate(index, 0);
            for _ in 0..=self.model.partitions[index].len() {
                self.read();
            }
        }
    }
}

/// Commands in any order do what they do on a model of a tape in memory.
pub fn behaves_as_a_tape<R: Rig>(cases: u32, make: impl Fn() -> R) {
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let steps = proptest::collection::vec(step(), 1..60);
    let result = TestRunner::new(config).run(&steps, |steps| {
        let mut pair = Pair::new(make());
        for step in &steps {
            pair.run(step);
        }
        pair.check_all();
        pair.run(&Step::LoseIndexAndReload);
        pair.check_all();
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

/// A record that is longer than the buffer is refused, and the tape stays.
pub fn reads_refuse_small_buffers_and_stay(rig: &mut impl Rig) {
    let drive = rig.drive();
    drive.write_block(&[7; 100]).unwrap();
    drive.rewind().unwrap();
    let error = drive.read_block(&mut [0; 99]).unwrap_err();
    assert!(matches!(error, TapeError::BufferTooSmall { record: 100, buffer: 99 }), "{error}");
    assert_eq!(drive.read_block(&mut [0; 100]).unwrap(), ReadBlock::Data(100));
}

/// What is longer or more than a drive takes is refused; what is just at the limit is not.
pub fn limits_of_blocks_and_file_marks(rig: &mut impl Rig) {
    let max = rig.block_bytes_max();
    let drive = rig.drive();
    assert!(matches!(drive.write_block(&[]), Err(TapeError::BlockLength { .. })));
    let mut block = vec![1; max + 1];
    let error = drive.write_block(&block).unwrap_err();
    assert!(matches!(error, TapeError::BlockLength { max: told, .. } if told == max), "{error}");
    block.pop();
    drive.write_block(&block).unwrap();
    drive.write_filemarks(FILE_MARKS_MAX).unwrap();
    let error = drive.write_filemarks(FILE_MARKS_MAX + 1).unwrap_err();
    assert!(matches!(error, TapeError::FileMarkCount { .. }), "{error}");
    assert_eq!(drive.position().unwrap(), at(Partition::Index, 1 + u64::from(FILE_MARKS_MAX)));
    drive.rewind().unwrap();
    let mut buffer = vec![0; max];
    assert_eq!(drive.read_block(&mut buffer).unwrap(), ReadBlock::Data(max));
    assert!(buffer == block, "another block is read than was written");
}

/// Attributes of the host are kept over a reload, each in its partition.
pub fn attributes_are_kept_and_the_drives_own_refused(rig: &mut impl Rig) {
    let drive = rig.drive();
    assert_eq!(drive.read_attribute(Partition::Data, 0x080c).unwrap(), None);
    drive.write_attribute(Partition::Data, 0x080c, b"coherent").unwrap();
    drive.write_attribute(Partition::Index, 0x0800, b"KIST").unwrap();
    drive.write_attribute(Partition::Index, 0x0800, b"").unwrap();
    let error = drive.write_attribute(Partition::Index, 0x0009, &[0, 0, 0, 1]).unwrap_err();
    assert!(matches!(error, TapeError::AttributeReadOnly { id: 9 }), "{error}");
    let long = vec![0; MEMORY_VALUE_BYTES_MAX + 1];
    let error = drive.write_attribute(Partition::Index, 0x0800, &long).unwrap_err();
    assert!(matches!(error, TapeError::AttributeLength { .. }), "{error}");
    rig.reload();
    let drive = rig.drive();
    assert_eq!(drive.read_attribute(Partition::Data, 0x080c).unwrap(), Some(b"coherent".to_vec()));
    assert_eq!(drive.read_attribute(Partition::Index, 0x080c).unwrap(), None);
    assert_eq!(drive.read_attribute(Partition::Index, 0x0800).unwrap(), None);
    // Attributes are not the medium.
    assert_eq!(drive.read_attribute(Partition::Index, 0x0009).unwrap(), Some(vec![0, 0, 0, 1]));
}

/// A memory without room says so, and what is in it can still be changed. With attributes that have no length
/// of their own.
pub fn a_full_memory_is_refused(rig: &mut impl Rig) {
    let drive = rig.drive();
    let limit = MEMORY_ATTRIBUTES_MAX as u16;
    for id in 0..limit {
        drive.write_attribute(Partition::Data, 0x0900 + id, b"x").unwrap();
    }
    let error = drive.write_attribute(Partition::Data, 0x0900 + limit, b"x").unwrap_err();
    assert!(matches!(error, TapeError::AttributesFull { .. }), "{error}");
    drive.write_attribute(Partition::Data, 0x0900, b"y").unwrap();
}

/// A cut: what stands behind a write is gone, in the one partition only.
pub fn a_write_cuts_off_what_is_behind_it(rig: &mut impl Rig) {
    let drive = rig.drive();
    for partition in [Partition::Index, Partition::Data] {
        drive.locate(at(partition, 0)).unwrap();
        for n in 0..5 {
            drive.write_block(&[n; 20]).unwrap();
        }
        drive.write_filemarks(1).unwrap();
    }
    drive.locate(at(Partition::Data, 2)).unwrap();
    drive.write_block(b"two").unwrap();
    drive.write_filemarks(0).unwrap();
    assert_eq!(drive.space_to_end_of_data(Partition::Index).unwrap(), at(Partition::Index, 6));
    assert_eq!(drive.space_to_end_of_data(Partition::Data).unwrap(), at(Partition::Data, 3));
    assert_eq!(drive.read_block(&mut [0; 20]).unwrap(), ReadBlock::EndOfData);
    let error = drive.locate(at(Partition::Data, 4)).unwrap_err();
    let end = at(Partition::Data, 3);
    assert!(matches!(error, TapeError::BeyondEndOfData { end: told, .. } if told == end), "{error}");
    assert_eq!(drive.position().unwrap(), end, "the tape did not move");
}

/// All of it but the model, on a fresh rig each.
pub fn single_tests<R: Rig>(make: impl Fn() -> R) {
    reads_refuse_small_buffers_and_stay(&mut make());
    limits_of_blocks_and_file_marks(&mut make());
    attributes_are_kept_and_the_drives_own_refused(&mut make());
    a_full_memory_is_refused(&mut make());
    a_write_cuts_off_what_is_behind_it(&mut make());
}
