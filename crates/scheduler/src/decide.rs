//! What is done next: sessions on mounted tapes, mounts, unmounts, and the next tick.

use base::{TapePoolId, Timestamp, Vid};

use crate::scheduler::{Scheduler, Side};
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
        self.retire_drives(actions);
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
        self.ask_for_tick(now, actions);
    }

    /// The first session of a mounted tape, and the first of the other kind if that is due by itself.
    fn start_fresh(&mut self, now: Timestamp, actions: &mut Vec<Action>) {
        for name in self.drives_that(|state| matches!(state, DriveState::Idle { .. })) {
            let Some(drive) = self.drives.get(&name) else { continue };
            let Some(vid) = drive.state.vid() else { continue };
            let fresh = |side: Side| match side {
                Side::Migration => !drive.migrated,
                Side::Recall => !drive.recalled,
            };
            let due = |side: Side| match side {
                Side::Migration => self.own_migration(&name).is_some_and(|pool| self.pool_due(pool, now)),
                Side::Recall => self.recall.is_due(vid, now, &self.policy),
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
        let idle = self.drives_that(|state| matches!(state, DriveState::Idle { .. }));
        if idle.is_empty() {
            return;
        }
        let waiting = self.waiting(now);
        let free = |state: &DriveState| matches!(state, DriveState::Empty | DriveState::Unmounting { .. });
        let free = self.drives_that(free).iter().filter(|name| self.serves_any(name, &waiting)).count();
        let mut missing = waiting.len().saturating_sub(free);
        let has_work = |name: &DriveName| self.own_work(name).is_some();
        let (busy, unneeded): (Vec<_>, Vec<_>) = idle.into_iter().partition(has_work);
        for name in unneeded.into_iter().chain(busy) {
            if missing > 0 && self.serves_any(&name, &waiting) {
                self.unmount(&name, actions);
                missing -= 1;
            } else if let Some(side) = self.own_work(&name) {
                self.start(&name, side, now, actions);
            } else if self.has_chores(&name) {
                self.start_maintenance(&name, now, actions);
            }
        }
    }

    /// Empty drives: migration and recall in turn.
    fn mount_waiting(&mut self, now: Timestamp, actions: &mut Vec<Action>) {
        for name in self.drives_that(|state| *state == DriveState::Empty) {
            let before = actions.len();
            for side in [self.turn, self.turn.other()] {
                let mounted = match side {
                    Side::Migration => self.mount_for_migration(&name, now, actions),
                    Side::Recall => self.mount_for_recall(&name, now, actions),
                };
                if mounted {
                    self.turn = side.other();
                    break;
                }
            }
            if actions.len() == before {
                self.mount_for_chores(&name, actions);
            }
        }
    }

    fn mount_for_migration(&mut self, name: &DriveName, now: Timestamp, actions: &mut Vec<Action>) -> bool {
        let pools = self.waiting_pools(now).into_iter();
        let mut choices = pools.filter_map(|pool| self.choose_tape(pool, name).map(|choice| (pool, choice)));
        let Some((tape_pool, choice)) = choices.next() else { return false };
        self.mount(name, choice.vid, Purpose::Migration(tape_pool), choice.assign, actions);
        true
    }

    fn mount_for_recall(&mut self, name: &DriveName, now: Timestamp, actions: &mut Vec<Action>) -> bool {
        let due = self.recall.due(now, &self.policy, 1, |vid| !self.rests(name, vid));
        let Some(vid) = due.first().copied() else { return false };
        self.mount(name, vid, Purpose::Recall, None, actions);
        assert!(self.recall.has_assigned(vid), "a tape is mounted for what is wanted from it");
        true
    }

    fn start(&mut self, name: &DriveName, side: Side, now: Timestamp, actions: &mut Vec<Action>) {
        match (side, self.own_migration(name)) {
            (Side::Migration, Some(tape_pool)) => self.start_migration(name, tape_pool, now, actions),
            (Side::Migration, None) => {}
            (Side::Recall, _) => self.start_recall(name, now, actions),
        }
    }

    fn has_own(&self, name: &DriveName, side: Side) -> bool {
        match side {
            Side::Migration => self.own_migration(name).is_some(),
            Side::Recall => self.state(name).and_then(DriveState::vid).is_some_and(|vid| {
                let readable = self.tapes.get(&vid).is_some_and(|tape| tape.is_readable());
                readable && (self.recall.has_assigned(vid) || self.recall.waiting(vid).is_some())
            }),
        }
    }

    /// The next session of the tape in an idle drive: the kind that was not the last one, if it has both.
    fn own_work(&self, name: &DriveName) -> Option<Side> {
        let last = self.drives.get(name).and_then(|drive| drive.last);
        let first = last.map_or(Side::Recall, Side::other);
        [first, first.other()].into_iter().find(|side| self.has_own(name, *side))
    }

    /// What waits for a drive and could be given one, at most one a drive of each kind.
    pub(crate) fn waiting(&self, now: Timestamp) -> Vec<Waiting> {
        let up = self.drives_that(|state| !matches!(state, DriveState::Down { .. }));
        let placeable = |vid: Vid| up.iter().any(|name| !self.rests(name, vid));
        let recalls = self.recall.due(now, &self.policy, up.len(), placeable);
        let pools = self.waiting_pools(now);
        let pools =
            pools.into_iter().filter(|pool| up.iter().any(|name| self.choose_tape(*pool, name).is_some()));
        let recalls = recalls.into_iter().map(Waiting::Recall);
        recalls.chain(pools.map(Waiting::Migration)).collect()
    }

    pub(crate) fn serves_any(&self, name: &DriveName, waiting: &[Waiting]) -> bool {
        waiting.iter().any(|waiting| match waiting {
            Waiting::Recall(vid) => !self.rests(name, *vid),
            Waiting::Migration(tape_pool) => self.choose_tape(*tape_pool, name).is_some(),
        })
    }

    pub(crate) fn drives_that(&self, holds: impl Fn(&DriveState) -> bool) -> Vec<DriveName> {
        self.drives.iter().filter(|(_, drive)| holds(&drive.state)).map(|(name, _)| name.clone()).collect()
    }

    /// Unmounts what was idle for long enough.
    fn dismount(&mut self, now: Timestamp, actions: &mut Vec<Action>) {
        let delay = self.policy.dismount_delay;
        let bored =
            |state: &DriveState| matches!(state, DriveState::Idle { since, .. } if since.plus(delay) <= now);
        for name in self.drives_that(bored) {
            self.unmount(&name, actions);
        }
    }

    /// Asks for a tick at the next time at which something may change by itself.
    fn ask_for_tick(&mut self, now: Timestamp, actions: &mut Vec<Action>) {
        let delay = self.policy.dismount_delay;
        let idle = self.drives.values().filter_map(|drive| match drive.state {
            DriveState::Idle { since, .. } => Some(since.plus(delay)),
            _ => None,
        });
        let times = self.seal_times().chain(self.migration_times()).chain(idle);
        let times = times.chain(self.resting.values().map(|rest| rest.until));
        let times = times.chain(self.failures.values().filter_map(|failure| failure.retry));
        let times = times.chain(self.recall.next_time(now, &self.policy));
        let Some(next) = times.filter(|time| *time > now).min() else { return };
        if self.wake.is_none_or(|wake| wake <= now || next < wake) {
            self.wake = Some(next);
            actions.push(Action::WakeAt(next));
        }
    }
}
