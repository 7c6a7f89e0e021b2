//! Drives that failed are tried again by themselves; those that are taken out of use go when they are empty.

use base::Timestamp;
use session::back_off;

use super::DRIVE_REST_MAX;
use crate::scheduler::Scheduler;
use crate::{Action, DriveName, DriveState};

/// A drive that failed and is tried again by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DriveFailures {
    /// How often it failed with nothing that went well between.
    pub(crate) count: u32,
    /// When it is tried again; `None` while it is.
    pub(crate) retry: Option<Timestamp>,
}

/// A drive that is to be taken out of use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Retiring {
    pub(crate) reason: String,
    /// When it is tried again by itself; `None`: an operator has decided, and decides.
    pub(crate) retry: Option<Timestamp>,
}

impl Scheduler {
    /// Whether this drive is taken out of use as soon as it is empty.
    #[must_use]
    pub fn is_retiring(&self, drive: &DriveName) -> bool {
        self.retiring.contains_key(drive)
    }

    /// A drive failed: it is down, and tried again after a rest that doubles each time.
    pub(crate) fn drive_failed(&mut self, name: DriveName, reason: String, now: Timestamp) {
        self.cleaning_failed(&name, &reason, now);
        if let Some(vid) = self.state(&name).and_then(DriveState::vid) {
            self.blame_tape(&name, vid, &reason, now);
        }
        let count = self.failures.get(&name).map_or(0, |failure| failure.count);
        let rest = back_off(self.policy.retry_delay, count, DRIVE_REST_MAX);
        let retry = now.plus(rest);
        let times = count.saturating_add(1);
        let told = format!("{reason} (failure {times} in a row; tried again at {retry})");
        self.failures.insert(name.clone(), DriveFailures { count: times, retry: Some(retry) });
        self.drive_down(name, told);
    }

    /// Drives that have rested long enough are tried again.
    pub(crate) fn revive(&mut self, now: Timestamp) {
        let due = |failure: &DriveFailures| failure.retry.is_some_and(|retry| retry <= now);
        let names: Vec<DriveName> =
            self.failures.iter().filter(|(_, failure)| due(failure)).map(|(name, _)| name.clone()).collect();
        for name in names {
            if let Some(failure) = self.failures.get_mut(&name) {
                failure.retry = None;
            }
            self.drive_up(name);
        }
    }

    /// A session in this drive went well.
    pub(crate) fn drive_proved(&mut self, name: &DriveName) {
        self.failures.remove(name);
    }

    /// An operator takes a drive out of use: at once if it is empty, else when its session has ended and the
    /// tape is in its slot.
    pub(crate) fn retire(&mut self, name: DriveName, reason: String) {
        self.retire_until(name, reason, None);
    }

    /// The same until a time, unless an operator has said so already.
    pub(crate) fn retire_until(&mut self, name: DriveName, reason: String, retry: Option<Timestamp>) {
        let by_operator = self.retiring.get(&name).is_some_and(|retiring| retiring.retry.is_none());
        if self.drives.contains_key(&name) && !(by_operator && retry.is_some()) {
            self.failures.remove(&name);
            self.retiring.insert(name, Retiring { reason, retry });
        }
    }

    /// Brings drives that are taken out of use nearer to it.
    pub(crate) fn retire_drives(&mut self, actions: &mut Vec<Action>) {
        let names: Vec<DriveName> = self.retiring.keys().cloned().collect();
        for name in names {
            match self.state(&name) {
                Some(DriveState::Idle { .. }) => {
                    if self.idle_vid(&name).is_some() {
                        self.unmount(&name, actions);
                    }
                }
                Some(DriveState::Empty | DriveState::Down { .. }) | None => {
                    if let Some(Retiring { reason, retry }) = self.retiring.remove(&name) {
                        // Its last session may have failed: it must not come up by itself for that.
                        self.failures.remove(&name);
                        if retry.is_some() {
                            self.failures.insert(name.clone(), DriveFailures { count: 1, retry });
                        }
                        self.drive_down(name, reason);
                    }
                }
                Some(_) => {}
            }
        }
    }
}
