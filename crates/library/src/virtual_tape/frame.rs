//! The frame of one object: a header of 64 bytes, the payload, zeros up to a multiple of 8.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | `KREC` |
//! | 4 | 2 | version: 1, of an encrypted record 2 |
//! | 6 | 1 | kind: 1 record, 2 file mark, 4 encrypted record |
//! | 7 | 1 | flags, 0 |
//! | 8 | 4 | payload bytes; of an encrypted record those of the record itself |
//! | 12 | 4 | CRC-32C of the payload as it stands here |
//! | 16 | 8 | object number within the partition |
//! | 24 | 8 | byte offset of this frame in its file |
//! | 32 | 8 | payload bytes of all objects before this one |
//! | 40 | 6 | VID |
//! | 46 | 1 | partition, `a` or `b` |
//! | 47 | 13 | 0 |
//! | 60 | 4 | CRC-32C of bytes 0 to 59 |

use base::{Crc32c, Partition, Vid};

use super::block64::{Block64, SEALED_BYTES, partition_byte};
use super::cipher::OVERHEAD_BYTES;

/// The longest record in bytes, as of LTO drives.
pub const BLOCK_BYTES_MAX: usize = 8 << 20;
/// Bytes of a frame's header.
pub const HEADER_BYTES: u64 = SEALED_BYTES as u64;
/// Frames start at multiples of this.
pub const FRAME_ALIGNMENT: u64 = 8;
/// The latest version that is written and read: that of encrypted records, which a reader of version 1 must
/// refuse. All else is version 1.
pub const FRAME_VERSION: u16 = 2;

const MAGIC: [u8; 4] = *b"KREC";

/// What an object is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameKind {
    /// A record of 1 to [`BLOCK_BYTES_MAX`] bytes.
    Record,
    /// A file mark, without payload.
    FileMark,
    /// A record of 1 to [`BLOCK_BYTES_MAX`] bytes, encrypted (`cipher`).
    Encrypted,
}

impl FrameKind {
    pub fn to_byte(self) -> u8 {
        match self {
            FrameKind::Record => 1,
            FrameKind::FileMark => 2,
            // 3 stands for damage in the index file.
            FrameKind::Encrypted => 4,
        }
    }

    pub fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(FrameKind::Record),
            2 => Some(FrameKind::FileMark),
            4 => Some(FrameKind::Encrypted),
            _ => None,
        }
    }

    /// Whether an object of this kind may have so many bytes.
    pub fn allows(self, length: u32) -> bool {
        match self {
            FrameKind::Record | FrameKind::Encrypted => length >= 1 && length as usize <= BLOCK_BYTES_MAX,
            FrameKind::FileMark => length == 0,
        }
    }

    /// The version of its frame.
    fn version(self) -> u16 {
        match self {
            FrameKind::Record | FrameKind::FileMark => 1,
            FrameKind::Encrypted => 2,
        }
    }

    /// Bytes that stand in the frame beside those of the record.
    pub fn overhead(self) -> usize {
        match self {
            FrameKind::Record | FrameKind::FileMark => 0,
            FrameKind::Encrypted => OVERHEAD_BYTES,
        }
    }

    /// Bytes of the payload as it stands in the frame of a record of so many bytes.
    pub fn stored_bytes(self, length: u32) -> usize {
        length as usize + self.overhead()
    }
}

/// Which partition of which cartridge a file holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Home {
    pub vid: Vid,
    pub partition: Partition,
}

/// A decoded header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameHeader {
    pub kind: FrameKind,
    pub length: u32,
    pub payload_crc: Crc32c,
    pub object: u64,
    pub offset: u64,
    pub payload_before: u64,
}

/// Why 64 bytes are no header of the partition at hand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeaderFault {
    /// Torn, damaged, or of another place.
    Damaged,
    /// Whole, but of an unknown version.
    Version(u16),
}

/// Bytes that the frame of a record of so many bytes takes in the file.
pub fn frame_bytes(kind: FrameKind, length: u32) -> u64 {
    HEADER_BYTES + (kind.stored_bytes(length) as u64).next_multiple_of(FRAME_ALIGNMENT)
}

/// Zeros behind its payload.
pub fn padding_bytes(kind: FrameKind, length: u32) -> usize {
    let stored = kind.stored_bytes(length);
    stored.next_multiple_of(FRAME_ALIGNMENT as usize) - stored
}

impl FrameHeader {
    pub fn encode(&self, home: Home) -> [u8; SEALED_BYTES] {
        assert!(self.kind.allows(self.length), "an object of this kind has no such length");
        let mut block = Block64::zeroed();
        block.put(0, &MAGIC);
        block.put(4, &self.kind.version().to_le_bytes());
        block.put(6, &[self.kind.to_byte(), 0]);
        block.put(8, &self.length.to_le_bytes());
        block.put(12, &self.payload_crc.0.to_le_bytes());
        block.put(16, &self.object.to_le_bytes());
        block.put(24, &self.offset.to_le_bytes());
        block.put(32, &self.payload_before.to_le_bytes());
        block.put(40, home.vid.as_bytes());
        block.put(46, &[partition_byte(home.partition)]);
        block.seal()
    }

    /// Decodes a header that stands at `offset` of the file of `home`.
    pub fn decode(bytes: [u8; SEALED_BYTES], home: Home, offset: u64) -> Result<Self, HeaderFault> {
        let block = Block64(bytes);
        if block.bytes_at(0) != MAGIC || !block.is_sealed() {
            return Err(HeaderFault::Damaged);
        }
        let version = block.u16_at(4);
        if !(1..=FRAME_VERSION).contains(&version) {
            return Err(HeaderFault::Version(version));
        }
        let kind = FrameKind::from_byte(block.u8_at(6)).filter(|kind| kind.version() == version);
        let kind = kind.ok_or(HeaderFault::Damaged)?;
        let header = FrameHeader {
            kind,
            length: block.u32_at(8),
            payload_crc: Crc32c(block.u32_at(12)),
            object: block.u64_at(16),
            offset: block.u64_at(24),
            payload_before: block.u64_at(32),
        };
        let at_home = block.bytes_at::<6>(40) == *home.vid.as_bytes()
            && block.u8_at(46) == partition_byte(home.partition)
            && header.offset == offset;
        let plain = block.u8_at(7) == 0 && block.is_zero_from(47);
        let possible =
            header.payload_before < 1 << 63 && header.object < 1 << 63 && kind.allows(header.length);
        if at_home && plain && possible { Ok(header) } else { Err(HeaderFault::Damaged) }
    }
}
