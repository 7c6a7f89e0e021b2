//! Bases: the catalogue's rows on tape, from which a rebuild can begin.

use base::{ByteCount, Timestamp};

/// A base that is whole on a tape, under an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BaseRecord {
    /// In how many files.
    pub parts: u32,
    /// How long they are together.
    pub bytes: ByteCount,
    /// When that was recorded.
    pub written: Timestamp,
}
