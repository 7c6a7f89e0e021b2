//! Work on tapes that nobody waits for: it takes what drives are left over, and gives them back when somebody
//! does.

use base::{FailureCause, ShareId, Timestamp, Vid};
use session::{BACK_OFF_MAX, back_off};

use crate::scheduler::Scheduler;
use crate::{Action, DriveName, DriveState, Failure, Purpose, SessionEnd};

/// Why a session is not begun again at once that failed in nothing.
pub(crate) const NOTHING_DONE: &str = "the last session ended without getting anything done";
/// How often the rest after a session that failed in nothing doubles: what it waits for may come from another
/// drive at any time, and nobody tells of that.
const FRUITLESS_DOUBLINGS_MAX: u32 = 5;

/// The maintenance of a tape failed, or got nothing done: no drive takes the tape for it until it has rested.
/// That it was another drive each time is no reason to mount it more often: nobody waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct MaintenanceRest {
    /// How often in a row: the next rest is twice as long.
    failures: u32,
    pub(crate) until: Timestamp,
    /// It has rested for long enough.
    is_over: bool,
    pub(crate) cause: String,
}

impl Scheduler {
    /// A tape needs maintenance now, or does not any more.
    pub(crate) fn maintain(&mut self, vid: Vid, wanted: bool) {
        if wanted {
            let told = &mut self.maintenance_told;
            self.maintenance_due.entry(vid).or_insert_with(|| {
                *told += 1;
                *told
            });
        } else {
            self.maintenance_due.remove(&vid);
            // Whatever is asked for next is something else.
            self.maintenance_rests.remove(&vid);
        }
    }

    /// The maintenance of a tape rests, each time for twice as long; `before`: its last rest, if nothing good
    /// came after it.
    pub(crate) fn rest_maintenance(
        &mut self,
        vid: Vid,
        before: Option<MaintenanceRest>,
        cause: &str,
        now: Timestamp,
    ) {
        let failures = before.map_or(0, |before| before.failures);
        let until = now.plus(back_off(self.policy.retry_delay, failures, BACK_OFF_MAX));
        let rest = MaintenanceRest {
            failures: failures.saturating_add(1),
            until,
            is_over: false,
            cause: cause.to_owned(),
        };
        self.maintenance_rests.insert(vid, rest);
    }

    /// A tape could not be mounted for its maintenance. What fails for this host rests as a whole: see
    /// `failures/host.rs`.
    pub(crate) fn maintenance_mount_failed(&mut self, vid: Vid, failure: &Failure, now: Timestamp) {
        if failure.cause != Some(FailureCause::Host) {
            let before = self.maintenance_rests.remove(&vid);
            self.rest_maintenance(vid, before, &failure.reason, now);
        }
    }

    /// Time has passed: what has rested for long enough is tried.
    pub(crate) fn end_maintenance_rests(&mut self, now: Timestamp) {
        self.maintenance_rests.values_mut().for_each(|rest| rest.is_over |= rest.until <= now);
    }

    /// The rest of a tape's maintenance that is not over.
    pub(crate) fn maintenance_rest(&self, vid: Vid) -> Option<&MaintenanceRest> {
        self.maintenance_rests.get(&vid).filter(|rest| !rest.is_over)
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
        waiting.len() > self.free_drives(&waiting, now) && self.serves_any(drive, &waiting)
    }

    /// Whether files wait for the very tape whose maintenance is being done, or its pool for a tape to write
    /// to: both count tapes in slots only, so nothing else would ask for it. Only for what could begin now:
    /// else the maintenance would be begun again, and give way again, without end.
    fn is_wanted_itself(&self, drive: &DriveName, now: Timestamp) -> bool {
        let Some(&DriveState::Maintaining { vid, .. }) = self.state(drive) else { return false };
        let ledger = self.ledger();
        let reads = || self.recall.tapes.is_due(vid, now) && self.recall_from(vid, &ledger).is_some();
        let writes = |pool| self.pool_due(pool, now) && self.may_write(pool, &ledger);
        reads() || self.migration_to(vid).is_some_and(writes)
    }

    /// Whether the tape in an idle drive needs maintenance.
    pub(crate) fn needs_maintenance(&self, drive: &DriveName) -> bool {
        let Some(vid) = self.idle_vid(drive) else { return false };
        let may = self.host_lets_maintain(self.library_of(drive));
        may && self.may_be_maintained(vid) && !self.rests(drive, vid)
    }

    fn may_be_maintained(&self, vid: Vid) -> bool {
        self.maintenance_due.contains_key(&vid) && self.maintenance_rest(vid).is_none()
    }

    /// An empty drive that nothing else needs gets the tape whose maintenance has waited longest: of several
    /// that were told at once, the first.
    pub(crate) fn mount_for_maintenance(
        &mut self,
        name: &DriveName,
        now: Timestamp,
        actions: &mut Vec<Action>,
    ) {
        let library = self.library_of(name);
        if !self.host_lets_maintain(library) {
            return;
        }
        let in_slot = |vid: &Vid| {
            let tape = self.tapes.get(vid).filter(|tape| tape.library() == library);
            tape.is_some_and(|tape| tape.drive.is_none() && tape.summary.is_some()) && !self.rests(name, *vid)
        };
        let may = |vid: &Vid| in_slot(vid) && self.maintenance_rest(*vid).is_none();
        let oldest =
            self.maintenance_due.iter().filter(|(vid, _)| may(vid)).min_by_key(|(_, number)| **number);
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
        let before = self.maintenance_rests.remove(&vid);
        self.judge(name, vid, &end, now);
        self.set_state(name, DriveState::Idle { vid, since: now });
        let progress = end == SessionEnd::Stopped || !self.maintenance_due.contains_key(&vid);
        match &end {
            SessionEnd::Failed(failure) if failure.cause == Some(FailureCause::Host) => {}
            SessionEnd::Failed(failure) => self.rest_maintenance(vid, before, &failure.reason, now),
            _ if !progress => {
                let before = before.map(|before| MaintenanceRest {
                    failures: before.failures.min(FRUITLESS_DOUBLINGS_MAX),
                    ..before
                });
                self.rest_maintenance(vid, before, NOTHING_DONE, now);
            }
            _ => {}
        }
        self.session_ended(name, vid, end, progress, now, actions);
    }
}
