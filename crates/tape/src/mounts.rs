//! What the log of mounts is told, and reports from it.

use base::{Duration, Vid};
use journal::ReportBy;
use mounts::{MountCause, TapeReport};
use scheduler::DriveState;

use crate::room::Tape;
use ground::ArchiveError;

impl Tape {
    /// How drives and tapes ran in the last `window`, and how long what waits now has waited. Reads the mount
    /// log: some ten thousand mounts a second.
    ///
    /// # Errors
    /// If the catalogue cannot be read. A log that cannot be read is [`TapeReport::trouble`].
    pub fn tape_report(&self, window: Duration, by: ReportBy) -> Result<TapeReport, ArchiveError> {
        mounts::report(self, &self.mounts, window, by)
    }

    /// Why a tape is being mounted into a drive.
    pub(crate) fn mount_cause(&self, drive: &str, vid: Vid) -> MountCause {
        let state = self.scheduler().drives().find(|(name, _)| *name == drive).map(|(_, s)| s.clone());
        let purpose = match state {
            Some(DriveState::Mounting { purpose, .. }) => Some(purpose),
            _ => None,
        };
        let is_torn = self.maintenance().tapes.get(&vid).is_some_and(|tasks| tasks.recover);
        MountCause { purpose, is_torn }
    }
}
