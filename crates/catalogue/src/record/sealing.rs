//! Packs that are sealed, or given up, in pieces.

use base::ByteCount;

/// How far the sealing of a pack is. Its container has no copies yet, so that nobody waits for tapes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SealingRecord {
    /// How many members it will have; 0: it is being given up.
    pub members: u32,
    /// How many it has got.
    pub added: u32,
    /// Where the last one ends.
    pub end: ByteCount,
}
