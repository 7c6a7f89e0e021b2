//! When the files of a class are gathered into containers.

use base::{ByteCount, ClassId, TapePoolId, Timestamp};

use crate::scheduler::{Scheduler, ripe_at};
use crate::{Action, Backlog, ClassPolicy};

/// What is known of a class.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct ClassState {
    pub(crate) backlog: Backlog,
    /// `MigrateNow` came; stays until nothing is left.
    pub(crate) now: bool,
    /// The seal that was ordered and has not ended: whether also packs that are not full.
    pub(crate) sealing: Option<bool>,
    /// Whether the backlog changed for the better since that order.
    progress: bool,
    /// A seal of this kind changed nothing; the same is not ordered again before then, or before so much
    /// waits.
    pub(crate) resting: Option<(bool, Timestamp, ByteCount)>,
}

impl ClassState {
    /// The seal that is due; `Some(true)` also takes packs that are not full.
    fn due(&self, policy: &ClassPolicy, now: Timestamp) -> Option<bool> {
        if self.sealing.is_some() || self.backlog.items == 0 {
            return None;
        }
        let ripe = ripe_at(&self.backlog, policy.pack_age).is_some_and(|at| at <= now);
        let partial = self.now || ripe;
        let due = partial || self.backlog.bytes >= policy.pack_bytes;
        let bytes = self.backlog.bytes;
        let rests =
            self.resting.is_some_and(|(kind, until, more)| kind == partial && until > now && bytes < more);
        (due && !rests).then_some(partial)
    }
}

impl Scheduler {
    pub(crate) fn todo(&mut self, class: ClassId, backlog: Backlog) {
        let state = self.classes.entry(class).or_default();
        let old = std::mem::replace(&mut state.backlog, backlog);
        state.progress |=
            backlog.items < old.items || backlog.bytes < old.bytes || backlog.oldest != old.oldest;
        self.settle_now();
    }

    pub(crate) fn seal_ended(&mut self, class: ClassId, now: Timestamp) {
        let until = now.plus(self.policy.retry_delay);
        let state = self.classes.entry(class).or_default();
        if state.now {
            // What it sealed is younger than `MigrateNow`, and goes as what was queued then.
            self.pools.values_mut().for_each(|pool| pool.asked = pool.asked.max(Some(now)));
        }
        if let Some(partial) = state.sealing.take()
            && !state.progress
        {
            // Half a pack more may be what a data set lacked.
            let pack = self.policy.classes.get(&class).map_or(0, |policy| policy.pack_bytes.0);
            let more = state.backlog.bytes.0.saturating_add((pack / 2).max(1));
            state.resting = Some((partial, until, ByteCount(more)));
        }
        self.settle_now();
    }

    /// Everything that waits is to go; with a class, its files, and what is queued for any pool, because the
    /// containers do not say which class they are of.
    pub(crate) fn migrate_now(&mut self, class: Option<ClassId>, now: Timestamp) {
        match class {
            Some(class) => {
                self.classes.entry(class).or_default();
            }
            None => self.policy.classes.keys().for_each(|class| {
                self.classes.entry(*class).or_default();
            }),
        }
        for (id, state) in &mut self.classes {
            if class.is_none_or(|class| class == *id) {
                state.now = true;
                state.resting = None;
            }
        }
        for tape_pool in self.policy.tape_pools.keys() {
            let state = self.pools.entry(*tape_pool).or_default();
            (state.now, state.asked) = (true, Some(now));
        }
        // Tried at once; the next rest is longer all the same.
        self.resting.retain(|_, rest| rest.idle_of.is_none());
        self.settle_now();
    }

    /// As [`Scheduler::migrate_now`], of these alone: no rest is cut short, since nobody has mended anything.
    pub(crate) fn migrate_for_room(
        &mut self,
        classes: &[ClassId],
        tape_pools: &[TapePoolId],
        now: Timestamp,
    ) {
        for class in classes {
            self.classes.entry(*class).or_default().now = true;
        }
        for tape_pool in tape_pools {
            let state = self.pools.entry(*tape_pool).or_default();
            (state.now, state.asked) = (true, Some(now));
        }
        self.settle_now();
    }

    /// Ends `MigrateNow` where nothing is left of it.
    pub(crate) fn settle_now(&mut self) {
        for state in self.classes.values_mut() {
            state.now &= state.backlog.items > 0 || state.sealing.is_some();
        }
        let more_to_come = self.classes.values().any(|state| state.now);
        for state in self.pools.values_mut() {
            state.now &= state.backlog.items > 0 || more_to_come;
        }
    }

    /// Orders every seal that is due.
    pub(crate) fn seal(&mut self, now: Timestamp, actions: &mut Vec<Action>) {
        for (class, policy) in &self.policy.classes {
            let Some(state) = self.classes.get_mut(class) else { continue };
            let Some(partial) = state.due(policy, now) else { continue };
            assert!(state.sealing.is_none(), "one seal of class {class} at a time");
            state.sealing = Some(partial);
            state.progress = false;
            state.resting = None;
            actions.push(Action::Seal { class: *class, partial });
        }
    }

    /// The times at which seals may become due.
    pub(crate) fn seal_times(&self) -> impl Iterator<Item = Timestamp> {
        self.policy.classes.iter().flat_map(|(class, policy)| {
            let state = self.classes.get(class).filter(|state| state.sealing.is_none());
            let ripe = state.and_then(|state| ripe_at(&state.backlog, policy.pack_age));
            ripe.into_iter().chain(state.and_then(|state| state.resting).map(|(_, until, _)| until))
        })
    }
}
