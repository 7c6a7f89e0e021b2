//! What is done next: sessions on mounted tapes, mounts, unmounts, and the next tick.

use std::collections::{BTreeMap, BTreeSet};

use base::{LibraryId, ShareId, TapePoolId, Timestamp, Vid};

use crate::pick::Pick;
use crate::scheduler::{Scheduler, Side};
use crate::share::Ledger;
use crate::{Action, DriveName, DriveState, Purpose};

/// What waits for a drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waiting {
    Recall(Vid),
    Migration(TapePoolId),
}

impl Scheduler {
    /// Orders everything that can be done now.
    pub(crate) fn decide(&mut self, now: Timestamp, actions: &mut Vec<Action>) {
        self.seal(now, actions);
        self.take_census();
        if !self.is_settled(now) {
            self.order_drives(now, actions);
        }
        self.ask_for_tick(now, actions);
    }

    /// Orders everything that drives can do now.
    pub(crate) fn order_drives(&mut self, now: Timestamp, actions: &mut Vec<Action>) {
        self.retire_drives(actions);
        self.let_leave(actions);
        self.clean_first(now, actions);
        // Each round but the last orders something for a drive, and no drive takes more than three orders: a
        // mount or a session or an unmount, after each of which it is busy.
        for _ in 0..=3 * self.drives.len() {
            let before = actions.len();
            self.start_fresh(now, actions);
            self.resume_or_yield(now, actions);
            self.mount_waiting(now, actions);
            if actions.len() == before {
                break;
            }
        }
        self.dismount(now, actions);
    }

    /// Unmounts for which there was no robot.
    fn let_leave(&mut self, actions: &mut Vec<Action>) {
        let leaving =
            |drive: &crate::drive::Drive| drive.leaves && matches!(drive.state, DriveState::Idle { .. });
        let leaving = self.drives.iter().filter(|(_, drive)| leaving(drive));
        let leaving: Vec<DriveName> = leaving.map(|(name, _)| name.clone()).collect();
        for name in leaving {
            if self.has_robot(&name) {
                self.unmount(&name, actions);
            }
        }
    }

    /// The first session of a mounted tape, and the first of the other kind if that is due by itself.
    fn start_fresh(&mut self, now: Timestamp, actions: &mut Vec<Action>) {
        for name in self.idle_drives() {
            self.take_census();
            let Some(drive) = self.drives.get(&name) else { continue };
            let Some(vid) = drive.state.vid() else { continue };
            let fresh = |side: Side| match side {
                Side::Migration => !drive.migrated,
                Side::Recall => !drive.recalled,
            };
            let due = |side: Side| match side {
                Side::Migration => self.own_migration(&name).is_some_and(|pool| self.pool_due(pool, now)),
                Side::Recall => self.recall.tapes.is_due(vid, now),
            };
            let first = drive.mounted_for;
            if fresh(first) && self.has_own(&name, first) {
                self.start(&name, first, now, actions);
            } else if fresh(first.other()) && self.has_own(&name, first.other()) && due(first.other()) {
                self.start(&name, first.other(), now, actions);
            }
        }
    }

    /// Idle tapes: if others wait for more drives than are free, the drive is given up; else the tape's own
    /// work goes on, whatever the thresholds.
    fn resume_or_yield(&mut self, now: Timestamp, actions: &mut Vec<Action>) {
        let idle = self.idle_drives();
        if idle.is_empty() {
            return;
        }
        self.take_census();
        let waiting = self.waiting(now);
        let mut missing = waiting.len().saturating_sub(self.free_drives(&waiting, now));
        let has_work = |name: &DriveName| self.own_work(name).is_some();
        let (busy, unneeded): (Vec<_>, Vec<_>) = idle.into_iter().partition(has_work);
        for name in unneeded.into_iter().chain(busy) {
            self.take_census();
            if missing > 0 && self.serves_any(&name, &waiting) {
                self.unmount(&name, actions);
                missing -= 1;
            } else if let Some(side) = self.own_work(&name) {
                self.start(&name, side, now, actions);
            } else if self.needs_maintenance(&name) {
                self.start_maintenance(&name, now, actions);
            }
        }
    }

    /// Empty drives: those for whom drives are kept, then migration and recall in turn.
    fn mount_waiting(&mut self, now: Timestamp, actions: &mut Vec<Action>) {
        // What is in use, and what could be written, is the same for all empty drives until one of them is
        // given something.
        let mut same: Option<(Ledger, Vec<Pick<TapePoolId>>)> = None;
        for name in self.drives_that(|state| *state == DriveState::Empty) {
            self.take_census();
            if !self.has_robot(&name) || self.waits_for_cleaning(&name, now) {
                continue;
            }
            let (ledger, due) = same.get_or_insert_with(|| {
                let ledger = self.ledger();
                let due = self.waiting_pools(now, &ledger);
                (ledger, due)
            });
            let fits = |vid: Vid| !self.rests(&name, vid) && !self.no_room.contains_key(&vid);
            let libraries = BTreeSet::from([self.library_of(&name)]);
            let recall = self.next_recall(now, ledger, &libraries, &fits);
            let migration = self.next_migration(&name, due);
            let before = actions.len();
            let (recall_short, migration_short) =
                (recall.is_some_and(|pick| pick.short), migration.is_some_and(|pick| pick.short));
            let first = self.first_side(recall_short, migration_short, ledger);
            match (recall, migration) {
                (Some(pick), migration) if first == Side::Recall || migration.is_none() => {
                    self.mount(&name, pick.what, Purpose::Recall, pick.share, None, now, actions);
                    assert!(
                        self.recall.has_assigned(pick.what),
                        "a tape is mounted for what is wanted from it"
                    );
                    self.turn = Side::Migration;
                }
                (_, Some(pick)) => {
                    let (tape_pool, choice) = pick.what;
                    let purpose = Purpose::Migration(tape_pool);
                    self.mount(&name, choice.vid, purpose, pick.share, choice.assign, now, actions);
                    self.turn = Side::Recall;
                }
                // Nobody waits for it: time to clean it, if it asks for that.
                _ if self.clean(&name, now, actions) => {}
                _ => self.mount_for_maintenance(&name, now, actions),
            }
            if actions.len() > before {
                same = None;
            }
        }
    }

    fn start(&mut self, name: &DriveName, side: Side, now: Timestamp, actions: &mut Vec<Action>) {
        match side {
            Side::Migration => {
                if let Some(tape_pool) = self.own_migration(name) {
                    self.start_migration(name, tape_pool, now, actions);
                }
            }
            Side::Recall => {
                if let Some(share) = self.own_recall(name, &self.ledger()) {
                    self.start_recall(name, share, now, actions);
                }
            }
        }
    }

    fn has_own(&self, name: &DriveName, side: Side) -> bool {
        let ledger = self.ledger();
        match side {
            Side::Recall => self.own_recall(name, &ledger).is_some(),
            Side::Migration => {
                self.own_migration(name).is_some_and(|tape_pool| self.may_write(tape_pool, &ledger))
            }
        }
    }

    /// Whether one more drive may be used to write to a pool.
    pub(crate) fn may_write(&self, tape_pool: TapePoolId, ledger: &Ledger) -> bool {
        let policy = self.policy.tape_pools.get(&tape_pool);
        policy.is_some_and(|policy| self.may_use(policy.share, Side::Migration, ledger))
    }

    /// On whose behalf the tape in an idle drive could be read now.
    fn own_recall(&self, name: &DriveName, ledger: &Ledger) -> Option<ShareId> {
        self.recall_from(self.idle_vid(name)?, ledger)
    }

    /// On whose behalf a mounted tape could be read now.
    pub(crate) fn recall_from(&self, vid: Vid, ledger: &Ledger) -> Option<ShareId> {
        let readable = self.tapes.get(&vid).is_some_and(|tape| tape.is_readable());
        if !readable || self.asides.contains_key(&vid) || self.no_room.contains_key(&vid) {
            return None;
        }
        let may = |share| self.may_use(share, Side::Recall, ledger) && self.has_space(share, true);
        self.lead(vid, ledger, &may)
    }

    /// The next session of the tape in an idle drive: the kind that was not the last one, if it has both.
    fn own_work(&self, name: &DriveName) -> Option<Side> {
        let last = self.drives.get(name).and_then(|drive| drive.last);
        let first = last.map_or(Side::Recall, Side::other);
        [first, first.other()].into_iter().find(|side| self.has_own(name, *side))
    }

    /// What waits for a drive and could be given one, at most one a drive of each kind.
    pub(crate) fn waiting(&self, now: Timestamp) -> Vec<Waiting> {
        let up = self.drives.iter().filter(|(_, drive)| !matches!(drive.state, DriveState::Down { .. }));
        let up: Vec<&DriveName> = up.map(|(name, _)| name).collect();
        // By library: a tape is looked at for the drives that can take it, not for each drive of the site.
        let mut near: BTreeMap<LibraryId, Vec<&DriveName>> = BTreeMap::new();
        up.iter().for_each(|name| near.entry(self.library_of(name)).or_default().push(name));
        let libraries: BTreeSet<LibraryId> = near.keys().copied().collect();
        let mut ledger = self.ledger();
        let mut waiting = Vec::new();
        let mut picked: BTreeSet<Vid> = BTreeSet::new();
        while waiting.len() < up.len() {
            let fits = |vid: Vid| {
                let library = self.tapes.get(&vid).map(|tape| tape.library());
                let drives = library.and_then(|library| near.get(&library));
                let takes = |drives: &Vec<&DriveName>| drives.iter().any(|name| !self.rests(name, vid));
                !picked.contains(&vid) && !self.no_room.contains_key(&vid) && drives.is_some_and(takes)
            };
            let Some(pick) = self.next_recall(now, &ledger, &libraries, &fits) else { break };
            ledger.add(pick.share, Side::Recall);
            waiting.push(Waiting::Recall(pick.what));
            picked.insert(pick.what);
        }
        let pools = self.waiting_pools(now, &self.ledger()).into_iter();
        let pools = pools.filter(|pick| !self.is_tape_leaving(pick.what));
        let pools = pools.filter(|pick| up.iter().any(|name| self.choose_tape(pick.what, name).is_some()));
        waiting.extend(pools.map(|pick| Waiting::Migration(pick.what)));
        waiting
    }

    /// Whether a drive of the library `near` could take a tape to read it.
    pub(crate) fn takes(&self, name: &DriveName, near: LibraryId, vid: Vid) -> bool {
        let library = self.tapes.get(&vid).map(|tape| tape.library());
        let rests = || self.rests(name, vid) || self.no_room.contains_key(&vid);
        library == Some(near) && !rests()
    }

    pub(crate) fn serves_any(&self, name: &DriveName, waiting: &[Waiting]) -> bool {
        let near = self.library_of(name);
        waiting.iter().any(|waiting| match waiting {
            Waiting::Recall(vid) => self.takes(name, near, *vid),
            Waiting::Migration(tape_pool) => self.choose_tape(*tape_pool, name).is_some(),
        })
    }

    /// Drives that are free, or will be soon, and could serve some of this.
    pub(crate) fn free_drives(&self, waiting: &[Waiting], now: Timestamp) -> usize {
        if waiting.is_empty() {
            return 0;
        }
        let free = |drive: &crate::drive::Drive| match drive.state {
            DriveState::Empty | DriveState::Unmounting { .. } => true,
            DriveState::Idle { .. } => drive.leaves,
            _ => false,
        };
        let free = self.drives.iter().filter(|(_, drive)| free(drive));
        let may = |name: &DriveName| !self.is_retiring(name) && !self.waits_for_cleaning(name, now);
        free.filter(|(name, _)| may(name) && self.serves_any(name, waiting)).count()
    }

    /// Drives with a tape that is not about to be unmounted, and nothing to do.
    fn idle_drives(&self) -> Vec<DriveName> {
        let idle = self
            .drives
            .iter()
            .filter(|(_, drive)| matches!(drive.state, DriveState::Idle { .. }) && !drive.leaves);
        idle.map(|(name, _)| name.clone()).collect()
    }

    pub(crate) fn drives_that(&self, holds: impl Fn(&DriveState) -> bool) -> Vec<DriveName> {
        self.drives.iter().filter(|(_, drive)| holds(&drive.state)).map(|(name, _)| name.clone()).collect()
    }

    /// Unmounts what was idle for long enough, and at once what nothing may be done with, as a tape that is
    /// to be exported.
    fn dismount(&mut self, now: Timestamp, actions: &mut Vec<Action>) {
        let delay = self.policy.dismount_delay;
        let is_over = |state: &DriveState| match state {
            DriveState::Idle { vid, since } => since.plus(delay) <= now || self.leaves_at_once(*vid),
            _ => false,
        };
        for name in self.drives_that(is_over) {
            if self.idle_vid(&name).is_some() {
                self.unmount(&name, actions);
            }
        }
    }

    /// Whether a drive that has this tape gives it back at once.
    pub(crate) fn leaves_at_once(&self, vid: Vid) -> bool {
        self.tapes.get(&vid).and_then(|tape| tape.summary.as_ref()).is_some_and(|summary| summary.leaves)
    }

    /// Asks for a tick at the next time at which something may change by itself.
    pub(crate) fn ask_for_tick(&mut self, now: Timestamp, actions: &mut Vec<Action>) {
        let delay = self.policy.dismount_delay;
        self.take_census();
        let idle = self.drives.census().into_iter().flat_map(|census| &census.idle_since);
        let idle = idle.map(|since| since.plus(delay));
        let times = self.seal_times().chain(self.migration_times()).chain(self.waits_for_tapes()).chain(idle);
        let times = times.chain(self.resting.values().map(|rest| rest.until));
        let times = times.chain(self.cleaning_times());
        let times = times.chain(self.failures.values().filter_map(|failure| failure.retry));
        let times = times.chain(self.recall.next_time());
        let times = times.chain(self.asides.values().map(|rest| rest.until));
        let times = times.chain(self.host_rests.values().map(|rest| rest.until));
        let times = times.chain(self.maintenance_rests.values().map(|rest| rest.until));
        let times = times.chain(self.cooling.values().chain(self.no_room.values()).copied());
        let Some(next) = times.filter(|time| *time > now).min() else { return };
        if self.wake.is_none_or(|wake| wake <= now || next < wake) {
            self.wake = Some(next);
            actions.push(Action::WakeAt(next));
        }
    }
}
