//! The virtual drive against a model of a tape in memory.

use crate::common::{Bench, VID, at, config, drive_name, pattern, vid};
use base::{Partition, TapePosition};
use library::{Library, ReadBlock, TapeDrive, TapeError, VirtualLibrary};
use proptest::prelude::*;

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

struct Pair {
    bench: Bench,
    drive: Option<Box<dyn TapeDrive>>,
    model: Model,
    written: u64,
}

impl Pair {
    fn new() -> Self {
        let bench = Bench::new();
        let drive = Some(bench.load(VID));
        Pair { bench, drive, model: Model { change_reference: 1, ..Model::default() }, written: 0 }
    }

    fn drive(&mut self) -> &mut dyn TapeDrive {
        self.drive.as_deref_mut().unwrap()
    }

    fn run(&mut self, step: &Step) {
        match step {
            Step::Write(length) => {
                self.written += 1;
                let block = pattern(self.written, usize::from(*length));
                self.drive().write_block(&block).unwrap();
                self.model.write(Some(block));
            }
            Step::FileMarks(count) => {
                self.drive().write_filemarks(u32::from(*count)).unwrap();
                (0..*count).for_each(|_| self.model.write(None));
            }
            Step::Read => self.read(),
            Step::Locate(data, block) => self.locate(usize::from(*data), u64::from(*block)),
            Step::End(data) => {
                let index = usize::from(*data);
                let end = self.drive().space_to_end_of_data(partition(index)).unwrap();
                (self.model.partition, self.model.block) = (index, self.model.partitions[index].len());
                assert_eq!(end, self.position());
            }
            Step::Rewind => {
                self.drive().rewind().unwrap();
                self.model.block = 0;
            }
            Step::Format => {
                self.drive().format_partitions().unwrap();
                self.model.note_change(true);
                self.model.partitions = Default::default();
                (self.model.partition, self.model.block) = (0, 0);
            }
            Step::ReadReference => self.read_reference(),
            Step::Reload => self.reload(false),
            Step::LoseIndexAndReload => self.reload(true),
            Step::Crash => self.crash(),
        }
        let expected = self.position();
        assert_eq!(self.drive().position().unwrap(), expected);
    }

    fn position(&self) -> TapePosition {
        at(partition(self.model.partition), self.model.block as u64)
    }

    fn read(&mut self) {
        let mut buffer = vec![0; 1024];
        let found = self.drive().read_block(&mut buffer).unwrap();
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
        let result = self.drive().locate(at(partition(index), block));
        if block <= objects {
            result.unwrap();
            (self.model.partition, self.model.block) = (index, block as usize);
        } else {
            assert!(matches!(result, Err(TapeError::BeyondEndOfData { .. })), "{result:?}");
        }
    }

    fn reload(&mut self, lose_index: bool) {
        let name = drive_name("vdrive0");
        self.drive = None;
        assert_eq!(self.bench.library.unmount(&name).unwrap(), vid(VID));
        if lose_index {
            for file in ["partition-a.idx", "partition-b.idx"] {
                let _ = std::fs::remove_file(self.bench.cartridge(VID).join(file));
            }
        }
        self.drive = Some(self.bench.load(VID));
        self.model.load();
    }

    /// The process dies: what the kernel had taken is all there.
    fn crash(&mut self) {
        self.drive = None;
        let directory = std::mem::replace(&mut self.bench.directory, tempfile::tempdir().unwrap());
        let nothing = VirtualLibrary::create(self.bench.directory.path(), &config()).unwrap();
        drop(std::mem::replace(&mut self.bench.library, nothing));
        let library = VirtualLibrary::open(directory.path(), &config()).unwrap();
        self.bench = Bench { directory, library };
        self.drive = Some(self.bench.load(VID));
        self.model.load();
    }

    fn read_reference(&mut self) {
        let reference = self.drive().read_attribute(Partition::Index, 0x0009).unwrap();
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn drive_behaves_as_a_tape(steps in proptest::collection::vec(step(), 1..60)) {
        let mut pair = Pair::new();
        for step in &steps {
            pair.run(step);
        }
        pair.check_all();
        pair.run(&Step::LoseIndexAndReload);
        pair.check_all();
    }
}

#[test]
fn reads_refuse_small_buffers_and_stay() {
    let bench = Bench::new();
    let mut drive = bench.load(VID);
    drive.write_block(&[7; 100]).unwrap();
    drive.rewind().unwrap();
    let error = drive.read_block(&mut [0; 99]).unwrap_err();
    assert!(matches!(error, TapeError::BufferTooSmall { record: 100, buffer: 99 }), "{error}");
    assert_eq!(drive.read_block(&mut [0; 100]).unwrap(), ReadBlock::Data(100));
}

#[test]
fn limits_of_blocks_and_file_marks() {
    let bench = Bench::new();
    let mut drive = bench.load(VID);
    assert!(matches!(drive.write_block(&[]), Err(TapeError::BlockLength { .. })));
    let mut block = vec![1; library::BLOCK_BYTES_MAX + 1];
    assert!(matches!(drive.write_block(&block), Err(TapeError::BlockLength { .. })));
    block.pop();
    drive.write_block(&block).unwrap();
    drive.write_filemarks(library::FILE_MARKS_MAX).unwrap();
    let error = drive.write_filemarks(library::FILE_MARKS_MAX + 1).unwrap_err();
    assert!(matches!(error, TapeError::FileMarkCount { .. }), "{error}");
    assert_eq!(drive.position().unwrap(), at(Partition::Index, 1 + u64::from(library::FILE_MARKS_MAX)));
}

#[test]
fn attributes_are_kept_and_the_drives_own_refused() {
    let bench = Bench::new();
    let mut drive = bench.load(VID);
    assert_eq!(drive.read_attribute(Partition::Data, 0x080c).unwrap(), None);
    drive.write_attribute(Partition::Data, 0x080c, b"coherent").unwrap();
    drive.write_attribute(Partition::Index, 0x0800, b"KIST").unwrap();
    drive.write_attribute(Partition::Index, 0x0800, b"").unwrap();
    let error = drive.write_attribute(Partition::Index, 0x0009, &[0, 0, 0, 1]).unwrap_err();
    assert!(matches!(error, TapeError::AttributeReadOnly { id: 9 }), "{error}");
    let long = vec![0; library::MEMORY_VALUE_BYTES_MAX + 1];
    let error = drive.write_attribute(Partition::Index, 0x0800, &long).unwrap_err();
    assert!(matches!(error, TapeError::AttributeLength { .. }), "{error}");
    drop(drive);
    bench.library.unmount(&drive_name("vdrive0")).unwrap();
    let mut drive = bench.load(VID);
    assert_eq!(drive.read_attribute(Partition::Data, 0x080c).unwrap(), Some(b"coherent".to_vec()));
    assert_eq!(drive.read_attribute(Partition::Index, 0x080c).unwrap(), None);
    assert_eq!(drive.read_attribute(Partition::Index, 0x0800).unwrap(), None);
    // Attributes are not the medium.
    assert_eq!(drive.read_attribute(Partition::Index, 0x0009).unwrap(), Some(vec![0, 0, 0, 1]));
}

#[test]
fn a_full_memory_is_refused() {
    let bench = Bench::new();
    let mut drive = bench.load(VID);
    let limit = library::MEMORY_ATTRIBUTES_MAX as u16;
    for id in 0..limit {
        drive.write_attribute(Partition::Data, 0x0800 + id, b"x").unwrap();
    }
    let error = drive.write_attribute(Partition::Data, 0x0800 + limit, b"x").unwrap_err();
    assert!(matches!(error, TapeError::AttributesFull { .. }), "{error}");
    drive.write_attribute(Partition::Data, 0x0800, b"y").unwrap();
}
