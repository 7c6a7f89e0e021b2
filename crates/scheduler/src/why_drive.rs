//! Why a drive does what it does, or does nothing.

use base::Timestamp;

use crate::scheduler::Scheduler;
use crate::{DriveName, DriveState, Reason};

impl Scheduler {
    /// What a drive does, or why it does nothing although something may wait; `None` if there is no such
    /// drive.
    #[must_use]
    pub fn why_drive(&self, name: &DriveName, now: Timestamp) -> Option<Reason> {
        let drive = name.clone();
        let reason = match self.state(name)? {
            DriveState::Down { reason } => {
                let retry = self.failures.get(name).and_then(|failure| failure.retry);
                Reason::DriveDown { drive, reason: reason.clone(), retry }
            }
            _ if self.retiring.contains_key(name) => {
                let reason = self.retiring.get(name).map(|why| why.reason.clone()).unwrap_or_default();
                Reason::DriveRetiring { drive, reason }
            }
            DriveState::Mounting { vid, .. } => Reason::Mounting { drive, vid: *vid },
            DriveState::Migrating { vid, .. } => Reason::Writing { drive, vid: *vid },
            DriveState::Recalling { vid, .. } => Reason::Reading { drive, vid: *vid, position: 0 },
            DriveState::Maintaining { vid, .. } => Reason::Checking { drive, vid: *vid },
            DriveState::Unmounting { vid } => Reason::Unmounting { drive, vid: *vid },
            DriveState::Cleaning { vid, .. } => Reason::Cleaning { drive, vid: *vid },
            DriveState::Idle { vid, since } => {
                Reason::KeptMounted { drive, vid: *vid, until: since.plus(self.policy.dismount_delay) }
            }
            DriveState::Empty => self.why_empty(name, now),
        };
        Some(reason)
    }

    /// Nothing is worth a mount yet, or what is must not be tried in this drive again so soon.
    fn why_empty(&self, name: &DriveName, now: Timestamp) -> Reason {
        if let Some(reason) = self.why_not_cleaned(name, now) {
            return reason;
        }
        let rests = self.resting.iter().filter(|((_, drive), _)| drive == name);
        let rests = rests.filter(|((vid, _), _)| self.recall.tapes.is_due(*vid, now));
        if let Some((_, rest)) = rests.min_by_key(|(_, rest)| rest.until) {
            return Reason::Resting { until: rest.until, cause: rest.cause.clone() };
        }
        let recalls = self.recall.tapes_wanted().map(|vid| self.why_tape(vid));
        let pools = self.policy.tape_pools.keys().map(|pool| self.why_migrating(*pool, now));
        let waits_without_it = |reason: &Reason| {
            matches!(reason, Reason::WaitingForBytes { .. } | Reason::ReadElsewhere { .. })
                || reason.needs_an_operator()
        };
        let waits = pools.chain(recalls).find(waits_without_it);
        waits.unwrap_or(Reason::NothingWaits)
    }
}
