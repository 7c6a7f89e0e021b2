//! What a store counts.

use std::sync::atomic::{AtomicU64, Ordering};

use base::{ByteCount, Count};

/// What a store holds and has done since it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Figures {
    /// Bytes of all segments, but for those that only cleaning and deletes may take.
    pub capacity: ByteCount,
    /// Bytes of the segments in which something stands, needed or not.
    pub used: ByteCount,
    /// Bytes of records that are needed.
    pub needed: ByteCount,
    /// Keys that have a value.
    pub keys: Count,
    /// Keys of which only a tombstone is left.
    pub tombstones: Count,
    /// What the index takes in memory.
    pub index: ByteCount,
    /// Values, or parts of them, that were read.
    pub reads: Count,
    /// Bytes of them.
    pub read: ByteCount,
    /// Appends.
    pub writes: Count,
    /// Bytes that were written, with headers, tables and all.
    pub written: ByteCount,
    /// Syncs that the disk was asked for.
    pub syncs: Count,
    /// Segments that were cleaned.
    pub cleaned: Count,
    /// Bytes of records that cleaning has copied.
    pub copied: ByteCount,
    /// Records that were found damaged.
    pub damaged: Count,
}

/// Counters that nobody waits for.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) reads: Counter,
    pub(crate) read: Counter,
    pub(crate) writes: Counter,
    pub(crate) written: Counter,
    pub(crate) syncs: Counter,
    pub(crate) cleaned: Counter,
    pub(crate) copied: Counter,
    pub(crate) damaged: Counter,
}

#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn count(&self) -> Count {
        Count(self.0.load(Ordering::Relaxed))
    }

    pub(crate) fn bytes(&self) -> ByteCount {
        ByteCount(self.0.load(Ordering::Relaxed))
    }
}
