//! `memory.kist`: the cartridge memory (MAM), attributes of each partition.
//!
//! `KISTTMAM`, version u32 = 1, attributes u32, volume change reference u32, VID 6, 2 of 0; then for each
//! attribute, ordered by partition and id: partition 1 (`a`, `b`), 0, id u16, length u32, value; at the end
//! the CRC-32C of all before. All integers little-endian, the values as the host gave them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base::{Crc32c, Partition, Vid};

use super::atomic;
use super::block64::{partition_byte, partition_of};
use super::error::CartridgeError;
use crate::drive::is_host_attribute;

/// The attribute that counts the changes of the medium: 4 bytes, big-endian, of the drive.
pub const VOLUME_CHANGE_REFERENCE: u16 = 0x0009;
/// The longest attribute value in bytes.
pub const MEMORY_VALUE_BYTES_MAX: usize = 4096;
/// The most attributes of one cartridge, both partitions together.
pub const MEMORY_ATTRIBUTES_MAX: usize = 256;

const MAGIC: [u8; 8] = *b"KISTTMAM";
const VERSION: u32 = 1;
const HEAD_BYTES: usize = 28;
const FILE_BYTES_MAX: u64 = (HEAD_BYTES + MEMORY_ATTRIBUTES_MAX * (8 + MEMORY_VALUE_BYTES_MAX) + 4) as u64;

/// The cartridge memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Memory {
    pub vid: Vid,
    pub change_reference: u32,
    pub attributes: BTreeMap<(u8, u16), Vec<u8>>,
}

impl Memory {
    pub fn new(vid: Vid) -> Self {
        Memory { vid, change_reference: 1, attributes: BTreeMap::new() }
    }

    pub fn get(&self, partition: Partition, id: u16) -> Option<Vec<u8>> {
        if id == VOLUME_CHANGE_REFERENCE {
            return Some(self.change_reference.to_be_bytes().to_vec());
        }
        self.attributes.get(&(partition_byte(partition), id)).cloned()
    }

    /// This memory with one attribute set, or removed if `value` is empty.
    pub fn with(&self, partition: Partition, id: u16, value: &[u8]) -> Memory {
        let mut memory = self.clone();
        let key = (partition_byte(partition), id);
        if value.is_empty() {
            memory.attributes.remove(&key);
        } else {
            memory.attributes.insert(key, value.to_vec());
        }
        memory
    }

    /// Whether the host may set this attribute.
    pub fn is_writable(id: u16) -> bool {
        is_host_attribute(id)
    }

    pub fn write(&self, directory: &Path) -> std::io::Result<()> {
        let mut bytes = Vec::with_capacity(HEAD_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(self.attributes.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&self.change_reference.to_le_bytes());
        bytes.extend_from_slice(self.vid.as_bytes());
        bytes.extend_from_slice(&[0, 0]);
        for ((partition, id), value) in &self.attributes {
            bytes.extend_from_slice(&[*partition, 0]);
            bytes.extend_from_slice(&id.to_le_bytes());
            bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
            bytes.extend_from_slice(value);
        }
        let crc = Crc32c::of(&bytes);
        bytes.extend_from_slice(&crc.0.to_le_bytes());
        atomic::replace(&Self::path(directory), &bytes)
    }

    pub fn read(directory: &Path, expected: Vid) -> Result<Self, CartridgeError> {
        let path = Self::path(directory);
        let bytes =
            atomic::read_bounded(&path, FILE_BYTES_MAX).map_err(CartridgeError::file(&path, "read"))?;
        let damaged = || CartridgeError::Damaged { path: path.clone() };
        let (body, crc) = bytes.split_last_chunk::<4>().ok_or_else(damaged)?;
        let mut reader = Fields(body);
        if reader.take::<8>() != Some(MAGIC) {
            return Err(damaged());
        }
        if Crc32c::of(body).0 != u32::from_le_bytes(*crc) {
            return Err(damaged());
        }
        let version = reader.u32().ok_or_else(damaged)?;
        if version != VERSION {
            return Err(CartridgeError::UnknownVersion { path, version, known: VERSION });
        }
        let memory = decode_body(reader).ok_or_else(damaged)?;
        if memory.vid != expected {
            return Err(CartridgeError::WrongCartridge { path, expected, found: memory.vid });
        }
        Ok(memory)
    }

    pub fn path(directory: &Path) -> PathBuf {
        directory.join("memory.kist")
    }
}

/// For the fuzz targets: what stands behind magic and version.
pub fn check(body: &[u8]) {
    let _ = decode_body(Fields(body));
}

fn decode_body(mut reader: Fields<'_>) -> Option<Memory> {
    let count = reader.u32()?;
    let change_reference = reader.u32()?;
    let vid = reader.take::<6>()?;
    let vid = Vid::new(std::str::from_utf8(&vid).ok()?).ok()?;
    reader.take::<2>()?;
    let mut attributes = BTreeMap::new();
    if count as usize > MEMORY_ATTRIBUTES_MAX {
        return None;
    }
    for _ in 0..count {
        let [partition, _] = reader.take::<2>()?;
        partition_of(partition)?;
        let id = u16::from_le_bytes(reader.take::<2>()?);
        let length = reader.u32()? as usize;
        let value = reader.slice(length).filter(|value| value.len() <= MEMORY_VALUE_BYTES_MAX)?;
        attributes.insert((partition, id), value.to_vec());
    }
    reader.0.is_empty().then_some(Memory { vid, change_reference, attributes })
}

struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn slice(&mut self, length: usize) -> Option<&'a [u8]> {
        let (first, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(first)
    }
}
