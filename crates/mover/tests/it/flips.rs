//! Damage of every kind to the files of a cartridge: each byte of each container is read back, or an error
//! names the place. Nothing wrong is ever taken for right.

use std::fs;
use std::path::{Path, PathBuf};

use base::{
    BlockAddress, ByteCount, ContainerId, Generation, Partition, StreamChecksums, Timestamp, Uuid, Vid,
};
use library::{
    DriveName, Library, LibraryError, TapeDrive, VirtualCartridgeOptions, VirtualLibrary,
    VirtualLibraryConfig,
};
use ltfs::BlockSize;
use mover::{ContainerOnTape, FileOnTape, Volume, read_back};

const UUID: Uuid = Uuid([3; 16]);
const NOW: Timestamp = Timestamp(1_795_292_940_000_000_000);
const BLOCK: usize = 4096;
/// Rounds unless `KIST_FLIPS` says otherwise: a tenth of the 2,000 of a hunt.
const ROUNDS: u64 = 200;

/// A small generator: one seed is one run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

struct Written {
    what: ContainerOnTape,
    bytes: Vec<u8>,
}

struct Bench {
    directory: tempfile::TempDir,
    name: DriveName,
    vid: Vid,
    containers: Vec<Written>,
    generation: Generation,
    index_block: BlockAddress,
}

impl Bench {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (name, vid) = (DriveName::new("vdrive0").unwrap(), Vid::new("KT0001").unwrap());
        let config = VirtualLibraryConfig {
            drives: vec![name.clone()],
            robots: 1,
            cartridges: vec![(vid, ByteCount::mib(8))],
            options: VirtualCartridgeOptions::default(),
            drop_cache: false,
        };
        let library = VirtualLibrary::create(directory.path(), &config).unwrap();
        library.mount(vid, &name).unwrap();
        let mut drive = library.take_drive(&name).unwrap();
        let size = BlockSize::new(BLOCK as u32).unwrap();
        let mut volume = Volume::label(drive.as_mut(), vid, UUID, size, None, None, NOW).unwrap();
        let mut numbers = Numbers(7);
        let mut containers = Vec::new();
        for n in 0..12u64 {
            let block = drive.space_to_end_of_data(Partition::Data).unwrap().block;
            let mut bytes: Vec<u8> = (0..1 + numbers.below(20_000)).map(|_| numbers.next() as u8).collect();
            bytes.push(n as u8);
            for record in bytes.chunks(BLOCK) {
                drive.write_block(record).unwrap();
            }
            let length = ByteCount(bytes.len() as u64);
            let path = vec![format!("file{n}")];
            let file = FileOnTape { path, length, block, modified: NOW, xattrs: Vec::new() };
            volume.add(file, NOW).unwrap();
            let checksums = StreamChecksums::default().extend(&bytes);
            let what = ContainerOnTape { container: ContainerId(n), block, length, checksums };
            containers.push(Written { what, bytes });
            if n % 5 == 4 {
                volume.write_data_index(drive.as_mut(), NOW).unwrap();
            }
        }
        let (index_block, _) = volume.write_data_index(drive.as_mut(), NOW).unwrap();
        volume.write_index_partition(drive.as_mut(), NOW).unwrap();
        let generation = volume.generation();
        drop(drive);
        library.unmount(&name).unwrap();
        Bench { directory, name, vid, containers, generation, index_block }
    }

    fn library(&self) -> Result<VirtualLibrary, LibraryError> {
        let config = VirtualLibraryConfig {
            drives: vec![self.name.clone()],
            robots: 1,
            cartridges: Vec::new(),
            options: VirtualCartridgeOptions::default(),
            drop_cache: false,
        };
        VirtualLibrary::open(self.directory.path(), &config)
    }

    fn files(&self) -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> = fs::read_dir(self.directory.path().join("cartridges/KT0001"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        found.sort();
        found
    }

    /// Reads everything; how many places were told of. Panics at anything wrong that is not told.
    fn examine(&self, round: &str) -> usize {
        let library = match self.library() {
            Ok(library) => library,
            Err(error) => return usize::from(!error.to_string().is_empty()),
        };
        if let Err(error) = library.mount(self.vid, &self.name) {
            assert!(error.to_string().contains("KT0001"), "{round}: '{error}' names nothing");
            return 1;
        }
        let mut drive = library.take_drive(&self.name).unwrap();
        let mut told = self.examine_index(drive.as_mut(), round);
        let size = BlockSize::new(BLOCK as u32).unwrap();
        for Written { what, bytes } in &self.containers {
            let mut got = Vec::new();
            let back = read_back(drive.as_mut(), self.vid, size, what, &mut |bytes| {
                got.extend_from_slice(bytes);
                true
            });
            match back {
                Ok(back) if back.is_good() => {
                    assert!(got == *bytes, "{round}: container {} came back wrong", what.container);
                }
                Ok(back) => {
                    for fault in &back.faults {
                        let behind = what.block.0 + what.blocks(size);
                        assert!((what.block.0..behind).contains(&fault.block.0), "{round}: {fault:?}");
                        assert!(!fault.reason.is_empty(), "{round}: {fault:?}");
                    }
                    told += back.faults.len();
                }
                Err(error) => {
                    assert!(error.to_string().contains("KT0001"), "{round}: '{error}' names nothing");
                    told += 1;
                }
            }
        }
        told
    }

    fn examine_index(&self, drive: &mut dyn TapeDrive, round: &str) -> usize {
        match Volume::open_or_mend::<mover::VolumeError>(
            drive,
            (self.vid, UUID),
            self.generation,
            self.index_block,
            NOW,
            |_| Ok(()),
        ) {
            Ok((volume, fault)) => {
                // The index in memory is the true one, or lacks what the catalogue will enter.
                for Written { what, .. } in &self.containers {
                    let path = [format!("file{}", what.container.0)];
                    match volume.tree().lookup(&path) {
                        Some(ltfs::Entry::File(file)) => {
                            let stands = file.extents.first().map(|extent| extent.start_block);
                            assert_eq!(stands, Some(what.block), "{round}: the index is wrong");
                            assert_eq!(file.length, what.length, "{round}: the index is wrong");
                        }
                        _ => assert!(what.block >= volume.enter_from(), "{round}: a file is missing"),
                    }
                }
                usize::from(fault.is_some()) + usize::from(volume.label_fault().is_some())
            }
            Err(error) => {
                assert!(error.to_string().contains("KT0001"), "{round}: '{error}' names nothing");
                1
            }
        }
    }
}

/// One kind of damage to one file; `false` if it changes nothing.
fn damage(path: &Path, numbers: &mut Numbers) -> (bool, String) {
    let before = fs::read(path).unwrap();
    let mut bytes = before.clone();
    let length = bytes.len();
    let page = |numbers: &mut Numbers| numbers.below(length.div_ceil(512)) * 512;
    let what = match numbers.below(10) {
        0..=5 => {
            let (at, bit) = (numbers.below(length), numbers.below(8));
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << bit;
            }
            format!("bit {bit} of byte {at}")
        }
        6 => {
            let at = page(numbers);
            bytes.get_mut(at..(at + 512).min(length)).into_iter().for_each(|lost| lost.fill(0));
            format!("a lost write at {at}")
        }
        7 => {
            let (from, to) = (page(numbers), page(numbers));
            let taken = before.get(from..(from + 512).min(length)).unwrap_or_default().to_vec();
            let into = bytes.iter_mut().skip(to).zip(taken);
            into.for_each(|(byte, other)| *byte = other);
            format!("a write for {from} misdirected to {to}")
        }
        8 => {
            let at = numbers.below(length);
            bytes.truncate(at);
            format!("torn at {at}")
        }
        _ => {
            let (at, count) = (numbers.below(length), 1 + numbers.below(64));
            bytes.iter_mut().skip(at).take(count).for_each(|byte| *byte = byte.wrapping_add(0x5b));
            format!("{count} wrong bytes at {at}")
        }
    };
    fs::write(path, &bytes).unwrap();
    (bytes != before, what)
}

#[test]
fn nothing_wrong_is_taken_for_right() {
    let rounds = std::env::var("KIST_FLIPS").ok().and_then(|text| text.parse().ok()).unwrap_or(ROUNDS);
    let bench = Bench::new();
    assert_eq!(bench.examine("undamaged"), 0);
    let files: Vec<(PathBuf, Vec<u8>)> =
        bench.files().into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let (mut told, mut harmless) = (0u64, 0u64);
    for round in 0..rounds {
        // The data partition is most of a cartridge and gets half of the rounds.
        let largest =
            files.iter().enumerate().max_by_key(|(_, (_, bytes))| bytes.len()).map_or(0, |(at, _)| at);
        let chosen = if round % 2 == 0 { largest } else { numbers.below(files.len()) };
        let (path, _) = &files[chosen];
        let (changed, what) = damage(path, &mut numbers);
        let name = format!("round {round}: {} {what}", path.file_name().unwrap().to_string_lossy());
        match bench.examine(&name) {
            0 => harmless += u64::from(changed),
            _ => told += 1,
        }
        for (path, bytes) in &files {
            fs::write(path, bytes).unwrap();
        }
        for extra in bench.files() {
            if !files.iter().any(|(path, _)| *path == extra) {
                fs::remove_file(extra).unwrap();
            }
        }
    }
    println!("{rounds} rounds: {told} told of, {harmless} of no consequence, 0 silent");
    assert!(told > rounds / 4, "{told} of {rounds}: the damage must hit something");
}
