//! A sealed block: 64 bytes, little-endian fields, the CRC-32C of the first 60 in the last four.

use base::{Crc32c, Partition, Vid};

/// Bytes of a sealed block.
pub const SEALED_BYTES: usize = 64;
const CRC_AT: usize = 60;

/// The 64 bytes. Offsets given to the accessors are constants of the formats, never data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block64(pub [u8; SEALED_BYTES]);

impl Block64 {
    /// All zero.
    pub fn zeroed() -> Self {
        Block64([0; SEALED_BYTES])
    }

    /// Writes the checksum; call it last.
    pub fn seal(mut self) -> [u8; SEALED_BYTES] {
        let crc = self.crc();
        self.put(CRC_AT, &crc.0.to_le_bytes());
        self.0
    }

    /// Whether the checksum agrees.
    pub fn is_sealed(&self) -> bool {
        self.u32_at(CRC_AT) == self.crc().0
    }

    /// Whether all bytes from `from` up to the checksum are zero, as reserved ones must be.
    pub fn is_zero_from(&self, from: usize) -> bool {
        self.0.iter().take(CRC_AT).skip(from).all(|b| *b == 0)
    }

    pub fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub fn bytes_at<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.0[at..at + N]);
        bytes
    }

    pub fn u8_at(&self, at: usize) -> u8 {
        self.0[at]
    }

    pub fn u16_at(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.bytes_at(at))
    }

    pub fn u32_at(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.bytes_at(at))
    }

    pub fn u64_at(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.bytes_at(at))
    }

    /// The VID at `at`, if it is one.
    pub fn vid_at(&self, at: usize) -> Option<Vid> {
        let bytes: [u8; 6] = self.bytes_at(at);
        std::str::from_utf8(&bytes).ok().and_then(|text| Vid::new(text).ok())
    }

    fn crc(&self) -> Crc32c {
        Crc32c::of(&self.0[..CRC_AT])
    }
}

/// The byte that names a partition on disk: its LTFS id.
pub fn partition_byte(partition: Partition) -> u8 {
    match partition {
        Partition::Index => b'a',
        Partition::Data => b'b',
    }
}

/// The partition that a byte names.
pub fn partition_of(byte: u8) -> Option<Partition> {
    match byte {
        b'a' => Some(Partition::Index),
        b'b' => Some(Partition::Data),
        _ => None,
    }
}
