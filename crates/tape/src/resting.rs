//! Containers that could not be written, and are left alone for a while.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, PoisonError};

use base::{ContainerId, Duration, Timestamp};
use ground::truncated;
use threads::{Mutex, MutexGuard};

/// Resting containers that are told apart from work, the oldest. Each costs a look at the queues whenever
/// these have changed. More of them count as work: a session that finds nothing else to write ends as idle,
/// after which its tape rests, each time for twice as long.
const RESTING_COUNTED_MAX: usize = 10_000;
/// Most bytes of a reason that are kept.
const REASON_MAX: usize = 512;

/// A container that is left alone for a while.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Rest {
    pub(crate) until: Timestamp,
    pub(crate) why: String,
    /// How often it failed; each time it rests twice as long.
    failures: u32,
}

/// Containers whose bytes could not be had, until when they are left alone, and why. One that does not rest
/// any more is remembered until it is on tape, for the length of its next rest.
#[derive(Default)]
pub(crate) struct Resting(Mutex<State>);

#[derive(Default)]
struct State {
    rests: HashMap<ContainerId, Rest>,
    /// Those that are left alone, as last counted, until which time that holds; `None` if it does not any
    /// more. They are asked for whenever anything happens.
    counted: Option<(Arc<BTreeSet<ContainerId>>, Timestamp)>,
}

impl State {
    fn count(&self, now: Timestamp) -> (Arc<BTreeSet<ContainerId>>, Timestamp) {
        let left_alone = || self.rests.iter().filter(|(_, rest)| rest.until > now);
        let until = left_alone().map(|(_, rest)| rest.until).min().unwrap_or(Timestamp(i64::MAX));
        let mut all: BTreeSet<ContainerId> = left_alone().map(|(id, _)| *id).collect();
        while all.len() > RESTING_COUNTED_MAX {
            all.pop_last();
        }
        (Arc::new(all), until)
    }
}

impl Resting {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To change who rests.
    fn change(&self) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        state.counted = None;
        state
    }

    /// A container failed: it rests for `shortest`, and twice as long after each failure.
    pub(crate) fn begin(&self, container: ContainerId, now: Timestamp, shortest: Duration, why: &str) {
        let resting = &mut self.change().rests;
        let failures = resting.get(&container).map_or(0, |rest| rest.failures);
        let until = now.plus(session::back_off(shortest, failures, session::BACK_OFF_MAX));
        resting.insert(container, Rest { until, why: truncated(why, REASON_MAX), failures: failures + 1 });
    }

    /// Why it failed is known better now, if it is remembered.
    pub(crate) fn explain(&self, container: ContainerId, why: &str) {
        if let Some(rest) = self.lock().rests.get_mut(&container) {
            rest.why = truncated(why, REASON_MAX);
        }
    }

    /// Its rest is over now. It rests longer if it fails again.
    pub(crate) fn cut_short(&self, containers: impl IntoIterator<Item = ContainerId>, now: Timestamp) {
        let resting = &mut self.change().rests;
        for container in containers {
            resting.entry(container).and_modify(|rest| rest.until = now.min(rest.until));
        }
    }

    /// Their failures are forgotten: they are on tape, nobody needs them, or their bytes can be had.
    pub(crate) fn forget<'a>(&self, containers: impl IntoIterator<Item = &'a ContainerId>) {
        let mut state = self.lock();
        if !state.rests.is_empty() {
            for container in containers {
                if state.rests.remove(container).is_some() {
                    state.counted = None;
                }
            }
        }
    }

    /// Until when a container is left alone, and why.
    pub(crate) fn rest_of(&self, container: ContainerId, now: Timestamp) -> Option<Rest> {
        self.lock().rests.get(&container).filter(|rest| rest.until > now).cloned()
    }

    /// Whether a container is left alone now.
    pub(crate) fn rests(&self, container: ContainerId, now: Timestamp) -> bool {
        self.lock().rests.get(&container).is_some_and(|rest| rest.until > now)
    }

    /// Whether a container failed before.
    pub(crate) fn has_failed(&self, container: ContainerId) -> bool {
        self.lock().rests.contains_key(&container)
    }

    /// Those that are left alone now, as many as are counted. The same set as before if nothing has changed.
    pub(crate) fn all(&self, now: Timestamp) -> Arc<BTreeSet<ContainerId>> {
        let mut state = self.lock();
        match &state.counted {
            Some((counted, until)) if *until > now => Arc::clone(counted),
            _ => {
                let counted = state.count(now);
                Arc::clone(&state.counted.insert(counted).0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp(0).plus(Duration::from_secs(seconds))
    }

    #[test]
    fn a_rest_doubles_until_the_failures_are_forgotten() {
        let resting = Resting::default();
        let (one, minute) = (ContainerId(1), Duration::from_secs(60));
        resting.begin(one, at(0), minute, "it failed");
        assert_eq!(resting.rest_of(one, at(59)).map(|rest| rest.until), Some(at(60)));
        assert!(!resting.rests(one, at(60)) && resting.has_failed(one) && resting.all(at(60)).is_empty());
        resting.begin(one, at(100), minute, "it failed again");
        assert_eq!(resting.rest_of(one, at(100)).map(|rest| rest.until), Some(at(220)));
        resting.cut_short([one, ContainerId(2)], at(110));
        assert!(!resting.rests(one, at(110)) && !resting.has_failed(ContainerId(2)));
        resting.begin(one, at(110), minute, "and again");
        assert_eq!(resting.rest_of(one, at(110)).map(|rest| rest.until), Some(at(350)));
        resting.explain(one, "known better");
        assert_eq!(resting.rest_of(one, at(110)).map(|rest| rest.why), Some("known better".to_owned()));
        resting.forget(&[one]);
        resting.begin(one, at(400), minute, "it failed");
        assert_eq!(resting.rest_of(one, at(400)).map(|rest| rest.until), Some(at(460)));
    }

    #[test]
    fn those_that_rest_are_counted_anew_when_they_have_changed() {
        let resting = Resting::default();
        let begin =
            |id, now, seconds| resting.begin(ContainerId(id), at(now), Duration::from_secs(seconds), "");
        let all = |now| resting.all(at(now)).iter().map(|id| id.0).collect::<Vec<_>>();
        assert!(all(0).is_empty());
        begin(1, 0, 10);
        begin(2, 0, 20);
        assert_eq!(all(5), [1, 2]);
        assert!(Arc::ptr_eq(&resting.all(at(5)), &resting.all(at(9))), "nothing has changed");
        assert_eq!(all(10), [2]);
        resting.cut_short([ContainerId(2)], at(11));
        assert!(all(11).is_empty());
        begin(3, 11, 10);
        resting.forget(&[ContainerId(3)]);
        assert!(all(12).is_empty());
        let most = RESTING_COUNTED_MAX as u64;
        (0..=most).for_each(|id| begin(id, 12, 10));
        assert_eq!(resting.all(at(12)).len(), RESTING_COUNTED_MAX);
        assert!(
            !resting.all(at(12)).contains(&ContainerId(most)) && resting.rests(ContainerId(most), at(12))
        );
    }
}
