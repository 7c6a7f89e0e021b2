//! What the tests of the virtual library share.
#![allow(dead_code, reason = "each test program uses a part")]

use std::fs;
use std::path::{Path, PathBuf};

use base::{BlockAddress, ByteCount, Partition, TapePosition, Vid};
use library::{
    DriveName, Library, ReadBlock, TapeDrive, TapeError, VirtualCartridgeOptions, VirtualLibrary,
    VirtualLibraryConfig,
};

pub const VID: &str = "KT0001";

pub fn vid(text: &str) -> Vid {
    Vid::new(text).unwrap()
}

pub fn drive_name(text: &str) -> DriveName {
    DriveName::new(text).unwrap()
}

pub fn at(partition: Partition, block: u64) -> TapePosition {
    TapePosition { partition, block: BlockAddress(block) }
}

pub fn data(block: u64) -> TapePosition {
    at(Partition::Data, block)
}

pub fn config() -> VirtualLibraryConfig {
    VirtualLibraryConfig {
        drives: vec![drive_name("vdrive0"), drive_name("vdrive1")],
        robots: 1,
        cartridges: vec![(vid(VID), ByteCount::mib(64)), (vid("KT0002"), ByteCount::mib(64))],
        options: VirtualCartridgeOptions::default(),
        drop_cache: false,
    }
}

/// A library of two drives and two cartridges in a directory of its own.
pub struct Bench {
    pub directory: tempfile::TempDir,
    pub library: VirtualLibrary,
}

impl Bench {
    pub fn new() -> Self {
        Self::with(&config())
    }

    pub fn with(config: &VirtualLibraryConfig) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let library = VirtualLibrary::create(directory.path(), config).unwrap();
        Bench { directory, library }
    }

    /// The library as a crash of the process at this moment would leave it, opened anew. What the page cache
    /// holds is there: tests tear the files themselves.
    pub fn crashed(&self) -> Crashed {
        let directory = tempfile::tempdir().unwrap();
        copy_tree(self.directory.path(), directory.path());
        Crashed { directory }
    }

    pub fn load(&self, text: &str) -> Box<dyn TapeDrive> {
        let name = drive_name("vdrive0");
        self.library.mount(vid(text), &name).unwrap();
        self.library.take_drive(&name).unwrap()
    }

    pub fn cartridge(&self, text: &str) -> PathBuf {
        self.directory.path().join("cartridges").join(text)
    }
}

pub struct Crashed {
    pub directory: tempfile::TempDir,
}

impl Crashed {
    pub fn copy(&self) -> Crashed {
        let directory = tempfile::tempdir().unwrap();
        copy_tree(self.directory.path(), directory.path());
        Crashed { directory }
    }

    pub fn cartridge(&self, text: &str) -> PathBuf {
        self.directory.path().join("cartridges").join(text)
    }

    pub fn open(self) -> Bench {
        let library = VirtualLibrary::open(self.directory.path(), &config()).unwrap();
        Bench { directory: self.directory, library }
    }
}

pub fn copy_tree(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            fs::create_dir_all(&target).unwrap();
            copy_tree(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

/// Bytes that differ from block to block.
pub fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .collect()
}

/// What stands at a block: its bytes, `None` for a file mark.
pub fn read_at(drive: &mut dyn TapeDrive, to: TapePosition) -> Result<Option<Vec<u8>>, TapeError> {
    drive.locate(to)?;
    let mut buffer = vec![0; 1 << 16];
    match drive.read_block(&mut buffer)? {
        ReadBlock::Data(length) => Ok(Some(buffer[..length].to_vec())),
        ReadBlock::FileMark => Ok(None),
        ReadBlock::EndOfData => panic!("end of data at {to:?}"),
    }
}

pub fn flip(path: &Path, offset: u64, mask: u8) {
    let mut bytes = fs::read(path).unwrap();
    bytes[offset as usize] ^= mask;
    fs::write(path, bytes).unwrap();
}
