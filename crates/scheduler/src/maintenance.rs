//! Work on tapes that nobody waits for: it takes what drives are left over, and gives them back when somebody
//! does.

use base::{ShareId, Timestamp, Vid};

use crate::scheduler::Scheduler;
use crate::{Action, DriveName, DriveState, Purpose, SessionEnd};

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
        may && self.maintenance_due.contains_key(&vid) && !self.rests(drive, vid)
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
        let oldest =
            self.maintenance_due.iter().filter(|(vid, _)| in_slot(vid)).min_by_key(|(_, number)| **number);
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
        self.judge(name, vid, &end, now);
        self.set_state(name, DriveState::Idle { vid, since: now });
        let progress = end == SessionEnd::Stopped || !self.maintenance_due.contains_key(&vid);
        self.session_ended(name, vid, end, progress, now, actions);
    }
}
