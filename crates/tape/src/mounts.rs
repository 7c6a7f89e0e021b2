//! What the log of mounts is told, and reports from it.

use std::sync::Arc;

use base::{Duration, Vid};
use journal::ReportBy;
use mounts::{HealthReport, MountCause, MountSample, TapeReport};
use scheduler::DriveState;

use crate::room::Tape;
use ground::ArchiveError;

/// Mounts of a drive in one answer.
pub const DRIVE_MOUNTS_MAX: usize = 20;

impl Tape {
    /// How drives and tapes ran in the last `window`, and how long what waits now has waited. Reads the mount
    /// log: some ten thousand mounts a second.
    ///
    /// # Errors
    /// If the catalogue cannot be read. A log that cannot be read is [`TapeReport::trouble`].
    pub fn tape_report(&self, window: Duration, by: ReportBy) -> Result<TapeReport, ArchiveError> {
        mounts::report(self, &self.mounts, window, by)
    }

    /// What the mounts of the last 90 days say of drives and tapes. The first time it reads the mount log.
    #[must_use]
    pub fn machine_health(&self) -> Arc<HealthReport> {
        self.mounts.health(self.now())
    }

    /// The last mounts of a drive, at most [`DRIVE_MOUNTS_MAX`], the newest first.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchDrive`].
    pub fn drive_mounts(&self, drive: &str) -> Result<Vec<MountSample>, ArchiveError> {
        self.known_drive(drive)?;
        Ok(self.mounts.last_mounts(self.now(), drive, DRIVE_MOUNTS_MAX))
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
