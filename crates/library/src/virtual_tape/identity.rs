//! `cartridge.kist`: which cartridge this is.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | `KISTCART` |
//! | 8 | 4 | version, 1 |
//! | 12 | 4 | flags: bit 0 write protected |
//! | 16 | 6 | VID |
//! | 22 | 2 | 0 |
//! | 24 | 8 | capacity of the index partition, bytes of records |
//! | 32 | 8 | capacity of the data partition |
//! | 40 | 8 | early warning of the index partition, bytes before its end |
//! | 48 | 8 | early warning of the data partition |
//! | 56 | 4 | 0 |
//! | 60 | 4 | CRC-32C of bytes 0 to 59 |

use std::path::{Path, PathBuf};

use base::{ByteCount, Partition, Vid};

use super::atomic;
use super::block64::{Block64, SEALED_BYTES};
use super::error::CartridgeError;

const MAGIC: [u8; 8] = *b"KISTCART";
const VERSION: u32 = 1;
const WRITE_PROTECTED: u32 = 1;
const EARLY_WARNING_MIN: u64 = 16 << 20;

/// How new cartridges are divided. Each field left `None` takes its default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VirtualCartridgeOptions {
    /// What the index partition holds. Default: a twentieth of the data partition's, at least 64 MiB.
    pub index_capacity: Option<ByteCount>,
    /// How many bytes before the end of the data partition the early warning comes. Default: 1/64 of its
    /// capacity, at least 16 MiB, at most a quarter. The index partition warns at 1/64, at least 16 MiB, at
    /// most a quarter.
    pub early_warning: Option<ByteCount>,
}

/// What a partition holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capacity {
    /// Bytes of records.
    pub total: u64,
    /// How many bytes before the end the early warning comes.
    pub early_warning: u64,
}

impl Capacity {
    fn with_default_warning(total: u64) -> Self {
        let early_warning = (total / 64).max(EARLY_WARNING_MIN).min(total / 4);
        Capacity { total, early_warning }
    }
}

/// The content of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    pub vid: Vid,
    pub write_protected: bool,
    pub index: Capacity,
    pub data: Capacity,
}

impl Identity {
    pub fn new(vid: Vid, capacity: ByteCount, options: &VirtualCartridgeOptions) -> Self {
        let index = options.index_capacity.map_or((capacity.0 / 20).max(64 << 20), |n| n.0);
        let mut data = Capacity::with_default_warning(capacity.0);
        if let Some(bytes) = options.early_warning {
            data.early_warning = bytes.0.min(capacity.0);
        }
        Identity { vid, write_protected: false, index: Capacity::with_default_warning(index), data }
    }

    pub fn capacity(&self, partition: Partition) -> Capacity {
        match partition {
            Partition::Index => self.index,
            Partition::Data => self.data,
        }
    }

    /// Replaces the file. Durable on return.
    pub fn write(&self, directory: &Path) -> Result<(), CartridgeError> {
        let path = Self::path(directory);
        let mut block = Block64::zeroed();
        block.put(0, &MAGIC);
        block.put(8, &VERSION.to_le_bytes());
        block.put(12, &(if self.write_protected { WRITE_PROTECTED } else { 0 }).to_le_bytes());
        block.put(16, self.vid.as_bytes());
        block.put(24, &self.index.total.to_le_bytes());
        block.put(32, &self.data.total.to_le_bytes());
        block.put(40, &self.index.early_warning.to_le_bytes());
        block.put(48, &self.data.early_warning.to_le_bytes());
        atomic::replace(&path, &block.seal()).map_err(CartridgeError::file(&path, "write"))
    }

    /// Reads the file of the directory of cartridge `expected`.
    pub fn read(directory: &Path, expected: Vid) -> Result<Self, CartridgeError> {
        let path = Self::path(directory);
        let bytes =
            atomic::read_bounded(&path, SEALED_BYTES as u64).map_err(CartridgeError::file(&path, "read"))?;
        let damaged = || CartridgeError::Damaged { path: path.clone() };
        let bytes: [u8; SEALED_BYTES] = bytes.try_into().map_err(|_| damaged())?;
        let block = Block64(bytes);
        if block.bytes_at(0) != MAGIC {
            return Err(damaged());
        }
        // What is damaged has any version: it is believed behind the checksum only.
        if !block.is_sealed() {
            return Err(damaged());
        }
        let version = block.u32_at(8);
        if version != VERSION {
            return Err(CartridgeError::UnknownVersion { path, version, known: VERSION });
        }
        let flags = block.u32_at(12);
        if flags & !WRITE_PROTECTED != 0 {
            return Err(damaged());
        }
        let found = block.vid_at(16).ok_or_else(damaged)?;
        if found != expected {
            return Err(CartridgeError::WrongCartridge { path, expected, found });
        }
        Ok(Identity {
            vid: found,
            write_protected: flags & WRITE_PROTECTED != 0,
            index: Capacity { total: block.u64_at(24), early_warning: block.u64_at(40) },
            data: Capacity { total: block.u64_at(32), early_warning: block.u64_at(48) },
        })
    }

    pub fn path(directory: &Path) -> PathBuf {
        directory.join("cartridge.kist")
    }
}

/// The VID that a cartridge directory is named after.
pub fn vid_of_directory(directory: &Path) -> Result<Vid, CartridgeError> {
    let name = directory.file_name().and_then(|name| name.to_str());
    name.and_then(|name| Vid::new(name).ok())
        .ok_or_else(|| CartridgeError::NotAVid { path: directory.to_owned() })
}
