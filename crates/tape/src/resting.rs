//! Containers that could not be written, and are left alone for a while.

use std::collections::{BTreeSet, HashMap};
use std::sync::PoisonError;

use base::{ContainerId, Duration, Timestamp};
use ground::truncated;
use threads::{Mutex, MutexGuard};

/// Resting containers that are counted; more of them count as work, which costs a mount at worst.
const RESTING_COUNTED_MAX: usize = 1_000;
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
pub(crate) struct Resting(Mutex<HashMap<ContainerId, Rest>>);

impl Resting {
    fn lock(&self) -> MutexGuard<'_, HashMap<ContainerId, Rest>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A container failed: it rests for `shortest`, and twice as long after each failure.
    pub(crate) fn begin(&self, container: ContainerId, now: Timestamp, shortest: Duration, why: &str) {
        let mut resting = self.lock();
        let failures = resting.get(&container).map_or(0, |rest| rest.failures);
        let until = now.plus(session::back_off(shortest, failures, session::BACK_OFF_MAX));
        resting.insert(container, Rest { until, why: truncated(why, REASON_MAX), failures: failures + 1 });
    }

    /// Why it failed is known better now, if it is remembered.
    pub(crate) fn explain(&self, container: ContainerId, why: &str) {
        if let Some(rest) = self.lock().get_mut(&container) {
            rest.why = truncated(why, REASON_MAX);
        }
    }

    /// Its rest is over now. It rests longer if it fails again.
    pub(crate) fn cut_short(&self, containers: impl IntoIterator<Item = ContainerId>, now: Timestamp) {
        let mut resting = self.lock();
        for container in containers {
            resting.entry(container).and_modify(|rest| rest.until = now.min(rest.until));
        }
    }

    /// Their failures are forgotten: they are on tape, nobody needs them, or their bytes can be had.
    pub(crate) fn forget<'a>(&self, containers: impl IntoIterator<Item = &'a ContainerId>) {
        let mut resting = self.lock();
        if !resting.is_empty() {
            containers.into_iter().for_each(|container| drop(resting.remove(container)));
        }
    }

    /// Until when a container is left alone, and why.
    pub(crate) fn rest_of(&self, container: ContainerId, now: Timestamp) -> Option<Rest> {
        self.lock().get(&container).filter(|rest| rest.until > now).cloned()
    }

    /// Whether a container is left alone now.
    pub(crate) fn rests(&self, container: ContainerId, now: Timestamp) -> bool {
        self.lock().get(&container).is_some_and(|rest| rest.until > now)
    }

    /// Whether a container failed before.
    pub(crate) fn has_failed(&self, container: ContainerId) -> bool {
        self.lock().contains_key(&container)
    }

    /// Those that are left alone now, as many as are counted.
    pub(crate) fn all(&self, now: Timestamp) -> BTreeSet<ContainerId> {
        let resting = self.lock();
        let left_alone = resting.iter().filter(|(_, rest)| rest.until > now).map(|(id, _)| *id);
        left_alone.take(RESTING_COUNTED_MAX).collect()
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
}
