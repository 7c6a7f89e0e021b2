//! What the backup is to do, and how it stands.

use std::path::PathBuf;

use base::{Duration, Timestamp};
use catalogue::changes_behind;

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

impl BackupStatus {
    /// Changes of the catalogue that the directory has not; `None` before the backup was first looked at.
    #[must_use]
    pub fn behind(&self) -> Option<u64> {
        not_shipped(self.line, self.shipped, self.change)
    }
}

/// The same of a backup whose line is `line`, and that has the changes up to `shipped` of those up to
/// `change`. Numbers jump when a catalogue is restored; what a restore begins with came from the backup or
/// from tapes, so that only what came since counts.
#[must_use]
pub fn not_shipped(line: u32, shipped: u64, change: u64) -> Option<u64> {
    (line > 0).then(|| changes_behind(shipped, change))
}

#[cfg(test)]
mod tests {
    use catalogue::RESTORE_JUMP;

    use super::*;

    /// Story: after a restore `kist status` said that the backup was 4,294,893,255 changes behind.
    #[test]
    fn the_jump_of_a_restore_is_no_change() {
        assert_eq!(not_shipped(0, 0, 74_041), None, "it was not looked at");
        assert_eq!(not_shipped(0, 0, 2 * RESTORE_JUMP + 2), None);
        assert_eq!(not_shipped(1, 74_041, RESTORE_JUMP), Some(0));
        assert_eq!(not_shipped(1, 74_041, 2 * RESTORE_JUMP + 2), Some(2));
        assert_eq!(not_shipped(2, RESTORE_JUMP + 3, RESTORE_JUMP + 10), Some(7));
        assert_eq!(not_shipped(1, 10, 74_041), Some(74_031));
    }
}
