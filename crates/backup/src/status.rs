//! What the backup is to do, and how it stands.

use std::path::PathBuf;

use base::{Duration, Timestamp};

/// What is shipped where, and how often.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BackupSettings {
    /// The directory, best on other disks than the catalogue.
    pub directory: PathBuf,
    /// New changes are shipped this often: what a lost catalogue costs at most.
    pub ship_every: Duration,
    /// A snapshot is taken this often, so that a restore has little to replay.
    pub snapshot_every: Duration,
    /// So many snapshots are kept, at least 1; the oldest one kept is the earliest point of a restore.
    pub keep_snapshots: usize,
}

/// How the backup stands.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct BackupStatus {
    /// The directory.
    pub directory: PathBuf,
    /// The line that is being written; 0 before the first.
    pub line: u32,
    /// The newest change of the catalogue.
    pub change: u64,
    /// The newest change that is in the directory.
    pub shipped: u64,
    /// When the directory last had everything.
    pub shipped_at: Option<Timestamp>,
    /// The change of the newest snapshot.
    pub snapshot: Option<u64>,
    /// When it was taken.
    pub snapshot_at: Option<Timestamp>,
    /// Snapshots asked for so far, and those of them that were tried: `failing` then says how it went.
    pub asked: u64,
    /// See `asked`.
    pub answered: u64,
    /// Why the last attempt failed; `None` if it went well.
    pub failing: Option<String>,
}
