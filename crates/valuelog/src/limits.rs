//! Limits of the format and settings of an open store, each with its name.

use base::ByteCount;
use base::Duration;
use drive::{DirectIo, PAGE};

use crate::error::FormatError;
use crate::record::{Shape, header_bytes, record_end};
use crate::segment::entry_bytes;

/// A page as places in a segment are counted.
pub(crate) const PAGE_WORD: u32 = 4096;
const _: () = assert!(PAGE_WORD as usize == PAGE);
/// Bytes of the longest key.
pub const KEY_BYTES_MAX: usize = 4096;
/// Bytes of the longest version.
pub const VERSION_BYTES_MAX: usize = 2048;
/// Bytes of the longest tag: no known digest comes near.
pub const TAG_BYTES_MAX: usize = 1024;
/// Bytes of the longest value that a store can be made for.
pub const VALUE_BYTES_LIMIT: usize = 16 << 20;
/// Bytes of a value under one CRC-32C: the least that is read.
pub const BLOCK_BYTES: usize = 64 << 10;
/// The largest segment. One is scanned in memory after a crash, and places in it are 32 bits.
pub const SEGMENT_BYTES_LIMIT: u64 = 256 << 20;
/// Segments of the largest store: 64 TiB of 64 MiB each is a sixteenth of it.
pub const SEGMENTS_LIMIT: u32 = 1 << 24;
/// Segments that puts leave alone: one for cleaning, the others for deletes.
pub const RESERVE_SEGMENTS_MIN: u32 = 3;
/// Segments that are made ready at a time, with two syncs.
pub(crate) const MADE_AT_A_TIME: u32 = 16;
/// Bytes that a batch may have, as a share of a segment: it stands in one.
pub(crate) const BATCH_SHARE: u32 = 2;
/// Changes of the largest batch.
pub const BATCH_CHANGES_MAX: usize = 1024;
/// The least that a segment must give back to be cleaned for a put, as a share of it: cleaning then copies
/// at most so many times what it gains.
pub(crate) const CLEANING_GAIN_SHARE: u64 = 32;

/// What a store is made with and keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Bytes of a segment, a multiple of 4096.
    pub segment: ByteCount,
    /// Bytes of the longest value.
    pub value_max: ByteCount,
}

impl Default for Layout {
    fn default() -> Self {
        Layout { segment: ByteCount::mib(64), value_max: ByteCount::mib(1) }
    }
}

impl Layout {
    /// Bytes of a segment.
    pub(crate) fn segment_bytes(self) -> u32 {
        u32::try_from(self.segment.0).unwrap_or(u32::MAX)
    }

    /// Whether a store can be made so: the largest record fits into a segment, with footer and all.
    pub(crate) fn check(self) -> Result<(), FormatError> {
        let refused = |why| Err(FormatError::Layout { layout: self, why });
        if self.value_max.0 > VALUE_BYTES_LIMIT as u64 {
            return refused("values have at most 16 MiB");
        }
        if !self.segment.0.is_multiple_of(PAGE as u64) || self.segment.0 > SEGMENT_BYTES_LIMIT {
            return refused("a segment is a multiple of 4 KiB and has at most 256 MiB");
        }
        let shape = Shape {
            key: KEY_BYTES_MAX + 1,
            version: VERSION_BYTES_MAX,
            tag: TAG_BYTES_MAX,
            value: usize::try_from(self.value_max.0).unwrap_or(usize::MAX),
        };
        let end = record_end(PAGE_WORD, header_bytes(shape), shape.value) as usize;
        let table = entry_bytes(shape.key, shape.version, shape.tag);
        let needed = end.next_multiple_of(PAGE) + table.next_multiple_of(PAGE) + PAGE;
        if needed as u64 > self.segment.0 {
            return refused("the longest value with the longest key does not fit into a segment");
        }
        Ok(())
    }
}

/// How an open store behaves. Nothing of it is kept on the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Bytes that the index may take in memory; puts of more keys are refused.
    pub index_bytes_max: ByteCount,
    /// Bytes that were written back and are not durable before a sync is made without being asked for.
    pub dirty_bytes_max: ByteCount,
    /// How long what was written back may stay so.
    pub dirty_time_max: Duration,
    /// Segments that only cleaning and deletes may take; at least [`RESERVE_SEGMENTS_MIN`].
    pub reserve_segments: u32,
    /// Whether a thread of its own syncs in time and cleans ahead. Without it all is done by callers.
    pub background: bool,
    /// Whether the page cache is passed by.
    pub direct: DirectIo,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            index_bytes_max: ByteCount::gib(4),
            dirty_bytes_max: ByteCount::mib(256),
            dirty_time_max: Duration::from_millis(500),
            reserve_segments: 4,
            background: true,
            direct: DirectIo::Auto,
        }
    }
}
