//! Directory trees that were condemned with one command and are removed behind.

use base::{ByteCount, Timestamp};

/// A condemned tree: its directory has no name any more, and what is in it is removed in batches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreeRecord {
    /// Who removed it; at most 64 bytes.
    pub owner: String,
    /// The path that it had.
    pub path: String,
    /// When its name went.
    pub condemned: Timestamp,
    /// When its last directory was removed; `None`: there is more to do.
    pub ended: Option<Timestamp>,
    /// Files removed so far.
    pub files: u64,
    /// Their bytes.
    pub bytes: ByteCount,
    /// Directories removed so far.
    pub directories: u64,
}
