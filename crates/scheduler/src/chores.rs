//! Work on tapes that nobody waits for: it takes what drives are left over, and gives them back when somebody
//! does.

use base::{Duration, ShareId, Timestamp, Vid};

use crate::scheduler::Scheduler;
use crate::{Action, DriveName, DriveState, Purpose, SessionEnd};

/// The longest rest of a drive that fails again and again.
pub const DRIVE_REST_MAX: Duration = Duration::from_secs(6 * 3600);

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
    /// A tape has chores now, or has none any more.
    pub(crate) fn maintain(&mut self, vid: Vid, wanted: bool) {
        if wanted {
            let told = &mut self.chores_told;
            self.chores.entry(vid).or_insert_with(|| {
                *told += 1;
                *told
            });
        } else {
            self.chores.remove(&vid);
        }
    }

    /// Whether the drive of a session that nobody waits for is needed for something else: then it ends at the
    /// next good point. Also for drives that an operator takes out of use.
    #[must_use]
    pub fn must_yield(&self, drive: &DriveName, now: Timestamp) -> bool {
        if self.is_retiring(drive) {
            return true;
        }
        if self.is_wanted_itself(drive, now) {
            return true;
        }
        let waiting = self.waiting(now);
        waiting.len() > self.free_drives(&waiting) && self.serves_any(drive, &waiting)
    }

    /// Whether files wait for the very tape whose chores are being done, or its pool for a tape to write to:
    /// both count tapes in slots only, so nothing else would ask for it. Only for what could begin now: else
    /// the chores would be begun again, and give way again, without end.
    fn is_wanted_itself(&self, drive: &DriveName, now: Timestamp) -> bool {
        let Some(&DriveState::Maintaining { vid, .. }) = self.state(drive) else { return false };
        let ledger = self.ledger();
        let reads = || self.recall.tapes.is_due(vid, now) && self.recall_from(vid, &ledger).is_some();
        let writes = |pool| self.pool_due(pool, now) && self.may_write(pool, &ledger);
        reads() || self.migration_to(vid).is_some_and(writes)
    }

    /// Whether this drive is taken out of use as soon as it is empty.
    #[must_use]
    pub fn is_retiring(&self, drive: &DriveName) -> bool {
        self.retiring.contains_key(drive)
    }

    /// Whether the tape in an idle drive has chores.
    pub(crate) fn has_chores(&self, drive: &DriveName) -> bool {
        let Some(vid) = self.idle_vid(drive) else { return false };
        self.chores.contains_key(&vid) && !self.rests(drive, vid)
    }

    /// An empty drive that nothing else needs gets the tape whose chores have waited longest: of several that
    /// were told at once, the first.
    pub(crate) fn mount_for_chores(&mut self, name: &DriveName, now: Timestamp, actions: &mut Vec<Action>) {
        let library = self.library_of(name);
        let in_slot = |vid: &Vid| {
            let tape = self.tapes.get(vid).filter(|tape| tape.library() == library);
            tape.is_some_and(|tape| tape.drive.is_none() && tape.summary.is_some()) && !self.rests(name, *vid)
        };
        let oldest = self.chores.iter().filter(|(vid, _)| in_slot(vid)).min_by_key(|(_, number)| **number);
        if let Some(vid) = oldest.map(|(vid, _)| *vid) {
            self.mount(name, vid, Purpose::Maintenance, ShareId(0), None, now, actions);
        }
    }

    pub(crate) fn start_maintenance(&mut self, name: &DriveName, now: Timestamp, actions: &mut Vec<Action>) {
        let vid = self.idle_tape(name);
        self.recall.close(vid);
        self.set_state(name, DriveState::Maintaining { vid, since: now });
        actions.push(Action::Maintain { drive: name.clone(), vid });
    }

    pub(crate) fn maintenance_ended(
        &mut self,
        name: &DriveName,
        end: SessionEnd,
        now: Timestamp,
        actions: &mut Vec<Action>,
    ) {
        let Some(&DriveState::Maintaining { vid, .. }) = self.state(name) else { return };
        self.judge(name, vid, &end);
        self.set_state(name, DriveState::Idle { vid, since: now });
        let progress = end == SessionEnd::Stopped || !self.chores.contains_key(&vid);
        self.session_ended(name, vid, end, progress, now, actions);
    }

    /// A drive failed: it is down, and tried again after a rest that doubles each time.
    pub(crate) fn drive_failed(&mut self, name: DriveName, reason: String, now: Timestamp) {
        if let Some(vid) = self.state(&name).and_then(DriveState::vid) {
            self.blame_tape(&name, vid, &reason, now);
        }
        let count = self.failures.get(&name).map_or(0, |failure| failure.count);
        let rest = session::back_off(self.policy.retry_delay, count, DRIVE_REST_MAX);
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
