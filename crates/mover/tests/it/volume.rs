//! A volume's labels and indexes, and containers written to it, against the virtual library.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use base::{
    BlobPiece, BlockAddress, ByteCount, ContainerId, DriveGroup, FileId, Generation, Partition,
    StreamChecksums, TapePosition, Timestamp, Uuid, Vid,
};
use blob::{BlobFault, BlobStore, Unmetered, Use};
use library::{
    DriveName, Library, MotionReport, ReadBlock, TapeAlert, TapeDrive, TapeError, Track,
    VirtualCartridgeOptions, VirtualLibrary, VirtualLibraryConfig, WriteResult,
};
use ltfs::BlockSize;
use ltfs::coherency::{VOLUME_CHANGE_REFERENCE, VOLUME_COHERENCY, VolumeCoherency};
use mover::{
    ContainerPlan, Ended, FileOnTape, Found, Part, RecallBatch, RecallEnd, Stray, Stretch, Volume,
    VolumeError, WantedFile, WriteContext, Written, identify, recall, survey, write_containers,
};

use crate::memory::MemoryStore;

const UUID: Uuid = Uuid([3; 16]);
const NOW: Timestamp = Timestamp(1_795_292_940_000_000_000);

struct Bench {
    _directory: tempfile::TempDir,
    library: VirtualLibrary,
    name: DriveName,
    vid: Vid,
}

impl Bench {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let name = DriveName::new("vdrive0").unwrap();
        let vid = Vid::new("KT0001").unwrap();
        let config = VirtualLibraryConfig {
            drives: vec![name.clone()],
            robots: 1,
            cartridges: vec![(vid, ByteCount::mib(64))],
            options: VirtualCartridgeOptions::default(),
            drop_cache: false,
        };
        let library = VirtualLibrary::create(&directory.path().join("library"), &config).unwrap();
        library.mount(vid, &name).unwrap();
        Bench { _directory: directory, library, name, vid }
    }

    fn drive(&self) -> Box<dyn TapeDrive> {
        self.library.take_drive(&self.name).unwrap()
    }
}

/// Files that each planned container has.
const FILES_OF_A_PLAN: u64 = 3;

fn label(bench: &Bench, drive: &mut dyn TapeDrive) -> Result<Volume, VolumeError> {
    Volume::label(drive, bench.vid, UUID, BlockSize::new(4096).unwrap(), None, None, NOW)
}

fn write(store: &dyn BlobStore, drive: &mut dyn TapeDrive, vid: Vid, plans: Vec<ContainerPlan>) -> Written {
    write_and_keep(store, drive, vid, plans, ByteCount(0))
}

fn write_and_keep(
    store: &dyn BlobStore,
    drive: &mut dyn TapeDrive,
    vid: Vid,
    plans: Vec<ContainerPlan>,
    keep: ByteCount,
) -> Written {
    let (containers, files) = (AtomicU64::new(0), AtomicU64::new(0));
    let context = WriteContext {
        store,
        buffer: ByteCount::kib(64),
        progress: &AtomicU64::new(0),
        containers: &containers,
        files: &files,
        stop: &AtomicBool::new(false),
        flush_due: &|| false,
        stream: &Unmetered,
        keep,
    };
    let written = write_containers(drive, vid, BlockSize::new(4096).unwrap(), plans, context);
    // Displays count them while they are written: until 2026-11 a session of hours showed 0 files.
    assert_eq!(containers.into_inner(), written.containers as u64);
    // Those of a container that did not become whole are taken back.
    assert_eq!(files.into_inner(), written.containers as u64 * FILES_OF_A_PLAN);
    written
}

fn take_back(
    store: &MemoryStore,
    drive: &mut dyn TapeDrive,
    vid: Vid,
    wanted: Vec<WantedFile>,
) -> (Vec<RecallBatch>, Result<(), RecallEnd>) {
    let (mut batches, mut come) = (vec![wanted], Vec::new());
    let result = recall(
        drive,
        vid,
        BlockSize::new(4096).unwrap(),
        store,
        ByteCount::kib(64),
        &AtomicU64::new(0),
        &AtomicBool::new(false),
        &mut |_| batches.pop().unwrap_or_default(),
        &mut |batch| {
            come.push(batch);
            true
        },
        &Unmetered,
    );
    (come, result)
}

fn plan(container: u64, block: u64, bytes: &[u8], sums: StreamChecksums) -> ContainerPlan {
    let part = Part::Bytes(Arc::from(bytes), 0..bytes.len());
    ContainerPlan {
        container: ContainerId(container),
        block: BlockAddress(block),
        length: ByteCount(bytes.len() as u64),
        checksums: sums,
        parts: VecDeque::from([part, Part::FilesEnd(FILES_OF_A_PLAN)]),
    }
}

#[test]
fn a_volume_is_labelled_written_and_opened_again() {
    let bench = Bench::new();
    let mut drive = bench.drive();
    assert_eq!(identify(drive.as_mut()).unwrap(), Found::Blank);
    let mut volume = label(&bench, drive.as_mut()).unwrap();
    assert_eq!((volume.generation(), volume.index_block()), (Generation(1), BlockAddress(5)));
    // What docs/format says of the cartridge memory; nothing wrote the name until 2026-11.
    let attribute = |drive: &mut dyn TapeDrive, id| drive.read_attribute(Partition::Index, id).unwrap();
    let name = attribute(drive.as_mut(), 0x0803).unwrap();
    assert_eq!((name.len(), name.trim_ascii_end().strip_prefix(bench.vid.as_bytes()).is_some()), (160, true));
    assert_eq!(attribute(drive.as_mut(), 0x0805), Some(vec![0x81]));
    let file = FileOnTape {
        path: vec!["a".to_owned(), "b".to_owned()],
        length: ByteCount(9),
        block: BlockAddress(7),
        modified: NOW,
        xattrs: vec![("kist.file_id".to_owned(), b"5".to_vec())],
    };
    volume.go_to_end(drive.as_mut(), BlockAddress(7)).unwrap();
    drive.write_block(b"some text").unwrap();
    volume.add(file, NOW).unwrap();
    let (index_block, end) = volume.write_data_index(drive.as_mut(), NOW).unwrap();
    assert_eq!((index_block, volume.generation()), (BlockAddress(9), Generation(2)));
    volume.write_index_partition(drive.as_mut(), NOW).unwrap();
    drop(drive);
    bench.library.unmount(&bench.name).unwrap();
    bench.library.mount(bench.vid, &bench.name).unwrap();
    let mut drive = bench.drive();
    let again = Volume::open(drive.as_mut(), bench.vid, UUID, Generation(2), index_block).unwrap();
    assert_eq!(again.tree().files_len(), 1);
    again.go_to_end(drive.as_mut(), end).unwrap();
    let wrong_end = again.go_to_end(drive.as_mut(), BlockAddress(end.0 - 1));
    assert!(matches!(wrong_end, Err(VolumeError::EndOfData { .. })));
}

/// Story: a power cut left an index without its second mark, and the session that took over wrote one right
/// behind it. The mark with which that begins was taken for the end of the first: nobody saw the second, and
/// the next index had its number once more.
#[test]
fn an_index_right_behind_one_that_was_cut_short_is_seen() {
    let bench = Bench::new();
    let mut drive = bench.drive();
    let mut volume = label(&bench, drive.as_mut()).unwrap();
    volume.go_to_end(drive.as_mut(), BlockAddress(7)).unwrap();
    drive.write_filemarks(1).unwrap();
    let torn = b"<?xml version=\"1.0\"?><ltfsindex><generationnumber>2</generationnumber>";
    drive.write_block(torn).unwrap();
    volume.skip_generations(Generation(2));
    volume.mark_changed();
    let (_, end) = volume.write_data_index(drive.as_mut(), NOW).unwrap();
    let stretch = Stretch { partition: Partition::Data, from: BlockAddress(7), to: end };
    let mut seen = Vec::new();
    survey(drive.as_mut(), UUID, volume.block_size(), stretch, &mut |stray| {
        seen.push(match stray {
            Stray::Index(_, index) => (true, Some(index.generation)),
            Stray::BadIndex(_, generation, _) => (false, generation),
            other => panic!("{other:?}"),
        });
        true
    })
    .unwrap();
    assert_eq!(seen, [(false, Some(Generation(2))), (true, Some(Generation(3)))]);
}

const COHERENCY: u16 = VOLUME_COHERENCY.id;
const REFERENCE: u16 = VOLUME_CHANGE_REFERENCE;

/// The generations that the cartridge memory tells of both partitions, of each whether it still holds.
fn told(drive: &mut dyn TapeDrive) -> Vec<(u64, bool)> {
    let now = drive.read_attribute(Partition::Index, REFERENCE).unwrap().unwrap();
    let now = now.iter().fold(0, |number, byte| (number << 8) | u64::from(*byte));
    let mut told = Vec::new();
    for partition in [Partition::Index, Partition::Data] {
        let value = drive.read_attribute(partition, COHERENCY).unwrap().unwrap();
        let value = VolumeCoherency::parse(&value).unwrap();
        told.push((value.generation.0, value.change_reference.0 == now));
    }
    told
}

/// A tape that was written in the mount in which it was labelled, and not unmounted well, was an empty volume
/// by its cartridge memory: the drive had counted the labels and all that followed as one change.
#[test]
fn the_memory_of_a_labelling_does_not_hold_for_what_is_written_behind_it() {
    let bench = Bench::new();
    let mut drive = bench.drive();
    let volume = label(&bench, drive.as_mut()).unwrap();
    assert_eq!(told(drive.as_mut()), [(1, true), (1, true)]);
    volume.go_to_end(drive.as_mut(), BlockAddress(7)).unwrap();
    drive.write_block(b"some text").unwrap();
    assert_eq!(told(drive.as_mut()), [(1, false), (1, false)]);
}

/// The server died between the two values of the cartridge memory: the index partition was thought to be up
/// to date since its own value was, and the other one stayed as old as it was.
#[test]
fn a_memory_of_which_one_value_is_old_is_written_again() {
    let bench = Bench::new();
    let mut drive = bench.drive();
    let mut volume = label(&bench, drive.as_mut()).unwrap();
    let old = drive.read_attribute(Partition::Data, COHERENCY).unwrap().unwrap();
    let (block, _) = volume.write_data_index(drive.as_mut(), NOW).unwrap();
    volume.write_index_partition(drive.as_mut(), NOW).unwrap();
    assert_eq!(told(drive.as_mut()), [(2, true), (2, true)]);
    drive.write_attribute(Partition::Data, COHERENCY, &old).unwrap();
    let mut volume = Volume::open(drive.as_mut(), bench.vid, UUID, Generation(2), block).unwrap();
    volume.write_index_partition(drive.as_mut(), NOW).unwrap();
    assert_eq!(told(drive.as_mut()), [(2, true), (2, true)]);
    // What is up to date is left alone.
    let end = drive.space_to_end_of_data(Partition::Index).unwrap();
    let mut volume = Volume::open(drive.as_mut(), bench.vid, UUID, Generation(2), block).unwrap();
    volume.write_index_partition(drive.as_mut(), NOW).unwrap();
    assert_eq!(drive.space_to_end_of_data(Partition::Index).unwrap(), end);
}

#[test]
fn another_volume_or_index_is_refused() {
    let bench = Bench::new();
    let mut drive = bench.drive();
    label(&bench, drive.as_mut()).unwrap();
    let open = |drive: &mut dyn TapeDrive, vid: &str, uuid, generation, block| {
        Volume::open(drive, Vid::new(vid).unwrap(), uuid, Generation(generation), BlockAddress(block))
    };
    assert!(open(drive.as_mut(), "KT0001", UUID, 1, 5).is_ok());
    let wrong = open(drive.as_mut(), "KT0001", Uuid([4; 16]), 1, 5);
    assert!(matches!(wrong, Err(VolumeError::WrongLabel { .. })), "{wrong:?}");
    let wrong = open(drive.as_mut(), "KT0002", UUID, 1, 5);
    assert!(matches!(wrong, Err(VolumeError::WrongLabel { .. })), "{wrong:?}");
    for (generation, block) in [(2, 5), (1, 4), (1, 6)] {
        let wrong = open(drive.as_mut(), "KT0001", UUID, generation, block);
        assert!(matches!(wrong, Err(VolumeError::Index { .. })), "{generation} {block}: {wrong:?}");
    }
}

/// A cartridge that another program has encrypted is not blank, although nothing of it can be read.
#[test]
fn an_encrypted_cartridge_is_not_labelled() {
    let bench = Bench::new();
    let mut drive = bench.drive();
    let identity = library::KeyIdentity::new(b"somebody's", b"").unwrap();
    let key = library::TapeEncryption::of(library::EncryptionKey::new([9; 32]), identity);
    for partition in [Partition::Index, Partition::Data] {
        drive.locate(TapePosition { partition, block: BlockAddress(0) }).unwrap();
        drive.set_encryption(Some(&key)).unwrap();
        drive.write_block(b"somebody's data").unwrap();
        drive.write_filemarks(0).unwrap();
        drive.set_encryption(None).unwrap();
        let refused = label(&bench, drive.as_mut()).unwrap_err();
        assert!(matches!(refused, VolumeError::NotBlank { .. }), "{refused}");
        assert!(refused.to_string().contains("is encrypted and the drive has no key"), "{refused}");
        // It is still there.
        drive.set_encryption(Some(&key)).unwrap();
        drive.locate(TapePosition { partition, block: BlockAddress(0) }).unwrap();
        assert_eq!(drive.read_block(&mut [0; 64]).unwrap(), library::ReadBlock::Data(15));
        drive.format_partitions().unwrap();
    }
    // Its own labels it does not take for blank or for another's: that the key is missing is all that it
    // knows.
    drive.set_encryption(None).unwrap();
    label(&bench, drive.as_mut()).unwrap();
    drive.locate(TapePosition { partition: Partition::Index, block: BlockAddress(0) }).unwrap();
    drive.set_encryption(Some(&key)).unwrap();
    drive.write_block(b"written over").unwrap();
    drive.set_encryption(None).unwrap();
    let opened = Volume::open(drive.as_mut(), bench.vid, UUID, Generation(1), BlockAddress(5));
    assert!(matches!(opened, Err(VolumeError::Tape(TapeError::KeyMissing { .. }))), "{opened:?}");
}

#[test]
fn only_blank_cartridges_are_labelled_and_a_labelling_cut_short_is_done_again() {
    let bench = Bench::new();
    let mut drive = bench.drive();
    drive.write_block(b"somebody's data").unwrap();
    let refused = label(&bench, drive.as_mut());
    assert!(matches!(refused, Err(VolumeError::NotBlank { .. })), "{refused:?}");
    drive.locate(TapePosition { partition: Partition::Index, block: BlockAddress(0) }).unwrap();
    let mut first = [0u8; 64];
    assert_eq!(drive.read_block(&mut first).unwrap(), library::ReadBlock::Data(15), "it is still there");
    drive.format_partitions().unwrap();
    label(&bench, drive.as_mut()).unwrap();
    // As if the power had failed when only the index partition had its labels.
    drive.locate(TapePosition { partition: Partition::Data, block: BlockAddress(0) }).unwrap();
    drive.write_filemarks(1).unwrap();
    let foreign = label(&bench, drive.as_mut());
    assert!(matches!(foreign, Err(VolumeError::NotBlank { .. })), "a file mark is not blank: {foreign:?}");
    drive.format_partitions().unwrap();
    label(&bench, drive.as_mut()).unwrap();
    let again = label(&bench, drive.as_mut());
    assert!(again.is_ok(), "the same UUID: {again:?}");
}

/// Story: a write that failed in the middle of labelling left a block that could not be read. The tape was
/// neither blank nor a volume, and no operator's word brought it back into use.
#[test]
fn labels_that_cannot_be_read_are_written_again_if_nothing_stands_behind_them() {
    let bench = Bench::new();
    let mut drive = bench.drive();
    let at = |block| TapePosition { partition: Partition::Data, block: BlockAddress(block) };
    let faults = bench.library.faults();
    for torn in [0, 2] {
        // The label is written up to a block that cannot be read afterwards.
        drive.format_partitions().unwrap();
        label(&bench, drive.as_mut()).unwrap();
        let mut kept = vec![0u8; 4096];
        let length = match drive.locate(at(torn)).and_then(|()| drive.read_block(&mut kept)) {
            Ok(library::ReadBlock::Data(length)) => length,
            other => panic!("a label block: {other:?}"),
        };
        drive.locate(at(torn)).unwrap();
        drive.write_block(&kept[..length]).unwrap();
        drive.write_filemarks(0).unwrap();
        faults.plan_unreadable(bench.vid, at(torn));
        let before = faults.fired();
        let again = label(&bench, drive.as_mut());
        assert!(again.is_ok(), "nothing is behind block {torn}: {again:?}");
        assert!(faults.fired() > before, "the block could be read");
        // A whole label with an index behind is more than a torn one, unreadable or not.
        let refused = label(&bench, drive.as_mut());
        assert!(matches!(refused, Err(VolumeError::Tape(TapeError::Unreadable { .. }))), "{refused:?}");
        faults.clear();
    }
}

/// Story: a catalogue was restored to a point between the choice of a UUID for a tape and the end of its
/// labelling. The tape, filled since with the only copies of files, was labelled again: the same UUID was
/// leave enough.
#[test]
fn a_volume_with_data_is_never_labelled_again_by_its_own_uuid() {
    let bench = Bench::new();
    let mut drive = bench.drive();
    let volume = label(&bench, drive.as_mut()).unwrap();
    let store = MemoryStore::default();
    let bytes = b"<?xml only copy".repeat(600);
    let end = drive.space_to_end_of_data(Partition::Data).unwrap().block;
    let plans = vec![plan(1, end.0, &bytes, StreamChecksums::of(&bytes))];
    let written = write(&store, drive.as_mut(), volume.vid(), plans);
    assert!(matches!(written.ended, Ended::All));
    // Under no index yet, and on the data partition only.
    let refused = label(&bench, drive.as_mut());
    assert!(matches!(refused, Err(VolumeError::NotBlank { .. })), "{refused:?}");
    let mut buffer = [0u8; 4096];
    drive.locate(TapePosition { partition: Partition::Data, block: end }).unwrap();
    assert_eq!(drive.read_block(&mut buffer).unwrap(), library::ReadBlock::Data(4096));
    assert_eq!(buffer[..], bytes[..4096], "it is still there");
    // Behind it stands an index of its own, as after any session.
    drive.space_to_end_of_data(Partition::Data).unwrap();
    drive.write_filemarks(1).unwrap();
    let refused = label(&bench, drive.as_mut());
    assert!(matches!(refused, Err(VolumeError::NotBlank { .. })), "{refused:?}");
}

#[test]
fn a_container_with_other_bytes_than_sealed_is_never_counted() {
    let bench = Bench::new();
    let mut drive = bench.drive();
    let volume = label(&bench, drive.as_mut()).unwrap();
    volume.go_to_end(drive.as_mut(), BlockAddress(7)).unwrap();
    let store = MemoryStore::default();
    let good = vec![7u8; 10_000];
    let sums = StreamChecksums::of(&good);
    let plans = vec![plan(1, 7, &good, sums), plan(2, 10, &[8u8; 10_000], sums), plan(3, 13, &good, sums)];
    let written = write(&store, drive.as_mut(), bench.vid, plans);
    assert_eq!((written.containers, written.bytes), (1, 10_000));
    assert!(written.torn <= 10_000);
    assert!(matches!(written.ended, Ended::Source(ContainerId(2), _)), "{:?}", written.ended);
}

/// Story: a tape that was shorter than its drive had said took a large container up to its last block. The
/// container was torn, and no index fitted behind those that were whole. Of a drive that says how much it
/// takes from its warning on, what is to be kept is kept; of one that does not, the end is where it comes.
#[test]
fn a_container_that_meets_the_warning_leaves_room_for_an_index() {
    const KEPT: ByteCount = ByteCount::mib(4);
    let store = MemoryStore::default();
    // Of 64 MiB the last 16 are behind the warning.
    let bytes = vec![7_u8; 63 << 20];
    let sums = StreamChecksums::of(&bytes);
    for (keep, says, is_whole) in [(ByteCount(0), true, true), (KEPT, true, false), (KEPT, false, true)] {
        let bench = Bench::new();
        let mut drive = bench.drive();
        if !says {
            drive = Box::new(Counting { drive, read: 0 });
        }
        let volume = label(&bench, drive.as_mut()).unwrap();
        volume.go_to_end(drive.as_mut(), BlockAddress(7)).unwrap();
        let written = write_and_keep(&store, drive.as_mut(), bench.vid, vec![plan(1, 7, &bytes, sums)], keep);
        let left = drive.remaining().unwrap();
        if is_whole {
            assert!(matches!(written.ended, Ended::EarlyWarning), "{:?}", written.ended);
            assert_eq!((written.containers, written.torn), (1, 0));
            assert!(left < KEPT, "it would have fitted: {left}");
        } else {
            assert!(matches!(written.ended, Ended::EndOfMedium), "{:?}", written.ended);
            assert_eq!(written.containers, 0);
            // To the block, with which the warning came.
            assert!(left.0.abs_diff(KEPT.0) <= 4096, "{left}");
        }
    }
}

#[test]
fn nothing_is_written_where_the_plan_does_not_stand() {
    let bench = Bench::new();
    let mut drive = bench.drive();
    let volume = label(&bench, drive.as_mut()).unwrap();
    volume.go_to_end(drive.as_mut(), BlockAddress(7)).unwrap();
    let store = MemoryStore::default();
    let bytes = vec![7u8; 10_000];
    let plans = vec![plan(1, 6, &bytes, StreamChecksums::of(&bytes))];
    let written = write(&store, drive.as_mut(), bench.vid, plans);
    assert_eq!((written.containers, written.torn), (0, 0));
    assert!(matches!(written.ended, Ended::Tape(VolumeError::Position { .. })), "{:?}", written.ended);
    volume.go_to_end(drive.as_mut(), BlockAddress(7)).unwrap();
}

/// A drive that counts what is read.
struct Counting {
    drive: Box<dyn TapeDrive>,
    read: u64,
}

impl TapeDrive for Counting {
    fn id(&self) -> &DriveName {
        self.drive.id()
    }
    fn read_block(&mut self, buffer: &mut [u8]) -> Result<ReadBlock, TapeError> {
        self.read += 1;
        self.drive.read_block(buffer)
    }
    fn write_block(&mut self, block: &[u8]) -> Result<WriteResult, TapeError> {
        self.drive.write_block(block)
    }
    fn write_filemarks(&mut self, count: u32) -> Result<WriteResult, TapeError> {
        self.drive.write_filemarks(count)
    }
    fn locate(&mut self, to: TapePosition) -> Result<(), TapeError> {
        self.drive.locate(to)
    }
    fn space_to_end_of_data(&mut self, partition: Partition) -> Result<TapePosition, TapeError> {
        self.drive.space_to_end_of_data(partition)
    }
    fn position(&mut self) -> Result<TapePosition, TapeError> {
        self.drive.position()
    }
    fn rewind(&mut self) -> Result<(), TapeError> {
        self.drive.rewind()
    }
    fn loaded(&self) -> bool {
        self.drive.loaded()
    }
    fn format_partitions(&mut self) -> Result<(), TapeError> {
        self.drive.format_partitions()
    }
    fn read_attribute(&mut self, partition: Partition, id: u16) -> Result<Option<Vec<u8>>, TapeError> {
        self.drive.read_attribute(partition, id)
    }
    fn write_attribute(&mut self, partition: Partition, id: u16, value: &[u8]) -> Result<(), TapeError> {
        self.drive.write_attribute(partition, id, value)
    }
    fn remaining(&mut self) -> Result<ByteCount, TapeError> {
        self.drive.remaining()
    }
    fn end_of_wrap_positions(&mut self) -> Result<Option<Vec<BlockAddress>>, TapeError> {
        self.drive.end_of_wrap_positions()
    }
    fn recommended_order(
        &mut self,
        segments: &[(BlockAddress, BlockAddress)],
    ) -> Result<Option<Vec<usize>>, TapeError> {
        self.drive.recommended_order(segments)
    }
    fn track(&mut self, block_size: u32) -> Result<Option<Track>, TapeError> {
        self.drive.track(block_size)
    }
    fn motion_report(&mut self) -> Option<MotionReport> {
        self.drive.motion_report()
    }
    fn set_encryption(&mut self, encryption: Option<&library::TapeEncryption>) -> Result<(), TapeError> {
        self.drive.set_encryption(encryption)
    }

    fn block_encryption(&mut self) -> Result<library::BlockEncryption, TapeError> {
        self.drive.block_encryption()
    }

    fn alerts(&mut self) -> Result<Vec<TapeAlert>, TapeError> {
        self.drive.alerts()
    }

    fn counters(&mut self) -> Result<library::DriveCounters, TapeError> {
        self.drive.counters()
    }
}

/// What was to be read in front of a file may have been cancelled, or found no room: the way to the file is
/// then not read through block by block, whatever was planned.
#[test]
fn no_more_is_read_through_than_was_planned() {
    let bench = Bench::new();
    let store = MemoryStore::default();
    let mut drive = bench.drive();
    let volume = label(&bench, drive.as_mut()).unwrap();
    volume.go_to_end(drive.as_mut(), BlockAddress(7)).unwrap();
    let bytes: Vec<u8> = (0..500 * 4096u32).map(|n| (n / 4096 + n) as u8).collect();
    let sums = StreamChecksums::of(&bytes);
    let written = write(&store, drive.as_mut(), bench.vid, vec![plan(1, 7, &bytes, sums)]);
    assert_eq!(written.containers, 1);
    let wanted = |file: u64, block: usize, read_through: u64| {
        let offset = block * 4096;
        WantedFile {
            file: FileId(file),
            part: None,
            block: BlockAddress(7),
            header_offset: ByteCount(offset as u64),
            data_offset: ByteCount(offset as u64),
            length: ByteCount(4096),
            checksums: StreamChecksums::of(&bytes[offset..offset + 4096]),
            group: DriveGroup::MAIN,
            read_through,
        }
    };
    for (through, reads) in [(0, 3), (10, 13), (400, 402)] {
        let mut counting = Counting { drive, read: 0 };
        // The one in the middle is 10 blocks behind the first; the last is 390 behind that.
        let wanted = vec![wanted(1, 0, 0), wanted(2, 11, through), wanted(3, 401, through)];
        let (come, result) = take_back(&store, &mut counting, bench.vid, wanted);
        result.unwrap();
        let come: Vec<_> = come.into_iter().flat_map(|batch| batch.files).collect();
        assert_eq!(come.len(), 3);
        assert!(come.iter().all(|file| file.result.is_ok()), "{come:?}");
        assert_eq!(counting.read, reads, "with {through} blocks to be read through");
        drive = counting.drive;
    }
}

/// Bytes of a store that is no pool go to tape and come back into it, and its failures are told as what they
/// are.
#[test]
fn any_store_of_blobs_is_written_and_filled() {
    let bench = Bench::new();
    let mut drive = bench.drive();
    let volume = label(&bench, drive.as_mut()).unwrap();
    volume.go_to_end(drive.as_mut(), BlockAddress(7)).unwrap();
    let store = MemoryStore::default();
    let bytes: Vec<u8> = (0..300_000u32).map(|n| (n % 251 + n / 4096) as u8).collect();
    let (blob, whole) = store.put(&bytes);
    let blob = Arc::new(blob);
    // Two pieces of one blob, with a header between them, as a pack has.
    let middle = 123_457;
    let piece = |offset: usize, length: usize| BlobPiece {
        offset: ByteCount(offset as u64),
        length: ByteCount(length as u64),
        ..whole
    };
    let parts = VecDeque::from([
        Part::Blob(Arc::clone(&blob), piece(0, middle)),
        Part::Zeros(512),
        Part::Blob(Arc::clone(&blob), piece(middle, bytes.len() - middle)),
        Part::FilesEnd(FILES_OF_A_PLAN),
    ]);
    let on_tape = [&bytes[..middle], &[0; 512], &bytes[middle..]].concat();
    let sums = StreamChecksums::of(&on_tape);
    let first = ContainerPlan { parts, ..plan(1, 7, &on_tape, sums) };
    let written = write(&store, drive.as_mut(), bench.vid, vec![first]);
    assert!(matches!(written.ended, Ended::All), "{:?}", written.ended);
    assert_eq!((written.containers, written.bytes), (1, on_tape.len() as u64));
    let wanted = || WantedFile {
        file: FileId(9),
        part: None,
        block: BlockAddress(7),
        header_offset: ByteCount(0),
        data_offset: ByteCount(0),
        length: ByteCount(on_tape.len() as u64),
        checksums: sums,
        group: DriveGroup::MAIN,
        read_through: 0,
    };
    let (come, result) = take_back(&store, drive.as_mut(), bench.vid, vec![wanted()]);
    result.unwrap();
    let back = come[0].blob.as_ref().expect("its bytes are in a blob");
    let piece_of = come[0].files[0].result.as_ref().unwrap();
    let mut source = store.read(back, piece_of, (ByteCount(0), piece_of.length), Use::Client).unwrap();
    let mut read = Vec::new();
    while let Some(chunk) = source.next().unwrap() {
        read.extend_from_slice(chunk);
    }
    assert!(read == on_tape, "what came back is what was written");
    let streams = store.uses.lock().unwrap().iter().filter(|whose| **whose == Use::Stream).count();
    assert_eq!(streams, 3, "two pieces were read and one blob was written by tape streams");
    // A store without room ends the recall, and nothing of it stays.
    let full = MemoryStore::with_room(1_000);
    let (come, result) = take_back(&full, drive.as_mut(), bench.vid, vec![wanted()]);
    assert!(come.is_empty() && full.len() == 0);
    assert!(matches!(&result, Err(RecallEnd::Store(error)) if error.fault == BlobFault::Full), "{result:?}");
    // A blob that is gone is named.
    store.remove(&blob).unwrap();
    let end = drive.space_to_end_of_data(Partition::Data).unwrap().block;
    let gone = ContainerPlan {
        parts: VecDeque::from([Part::Blob(Arc::clone(&blob), whole)]),
        ..plan(2, end.0, &bytes, StreamChecksums::of(&bytes))
    };
    let written = write(&store, drive.as_mut(), bench.vid, vec![gone]);
    let Ended::Source(ContainerId(2), error) = written.ended else { panic!("{:?}", written.ended) };
    assert_eq!((error.blob(), error.is_shortage()), (Some(blob.id), false), "{error}");
    assert_eq!(error.to_string(), "container 2: it is gone");
}
