//! How much of the server one caller may take: requests at once, and requests over time.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use base::Duration;
use threads::{Mutex, MutexGuard};

/// Callers that are remembered at most. Those who run nothing and have their whole allowance are forgotten
/// first; if all of them run something, a new one is told to wait.
const CALLERS_MAX: usize = 1 << 16;

/// Requests over time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// Requests that become free each second; at least 1.
    pub per_second: u32,
    /// The most that can be saved up; at least 1.
    pub burst: u32,
}

/// How much each caller may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllowanceSettings {
    /// Requests at once.
    pub at_once: usize,
    /// Requests over time; `None`: any number.
    pub rate: Option<Rate>,
}

/// A request too many. Its text is for the caller.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Exceeded {
    /// Too many at once.
    #[error("{limit} requests of this caller are running: wait for one to end")]
    AtOnce {
        /// The limit.
        limit: usize,
    },
    /// Too many in a short time.
    #[error("{per_second} requests a second are allowed to this caller: send the next one in {wait:?}")]
    Rate {
        /// The limit.
        per_second: u32,
        /// When the next one is allowed.
        wait: Duration,
    },
    /// So many callers are there at once that no other can be counted.
    #[error("the server is busy with too many callers: try again later")]
    Callers,
}

impl Exceeded {
    /// After how many seconds to try again, for `Retry-After`; at least 1.
    #[must_use]
    pub fn retry_after(&self) -> u64 {
        match self {
            Exceeded::Rate { wait, .. } => wait.as_secs() + u64::from(wait.subsec_nanos() > 0),
            Exceeded::AtOnce { .. } | Exceeded::Callers => 5,
        }
        .max(1)
    }
}

/// The allowances of all callers, by name and over all doors. Clones are the same allowances; the listener
/// puts one into the extensions of each request.
#[derive(Clone)]
pub struct Allowances(Arc<Inner>);

struct Inner {
    settings: AllowanceSettings,
    now: Box<dyn Fn() -> Duration + Send + Sync>,
    callers: Mutex<BTreeMap<String, Taken>>,
}

/// What one caller has taken.
#[derive(Clone, Copy, Debug)]
struct Taken {
    running: usize,
    /// Time that has to pass until all of the burst is free again, as of `at`.
    debt: Duration,
    at: Duration,
}

/// One request; its place is free again when it is dropped.
#[must_use]
pub struct Allowance {
    of: Allowances,
    name: String,
}

impl std::fmt::Debug for Allowance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Allowance").field("name", &self.name).finish()
    }
}

impl Allowances {
    /// Nothing is taken yet. `now` is a clock that never goes back.
    #[must_use]
    pub fn new(settings: AllowanceSettings, now: Box<dyn Fn() -> Duration + Send + Sync>) -> Self {
        Allowances(Arc::new(Inner { settings, now, callers: Mutex::new(BTreeMap::new()) }))
    }

    /// A request of this caller begins.
    ///
    /// # Errors
    /// If it is one too many.
    pub fn begin(&self, name: &str) -> Result<Allowance, Exceeded> {
        let Inner { settings, now, callers } = &*self.0;
        let now = now();
        let mut callers = callers.lock().unwrap_or_else(PoisonError::into_inner);
        if callers.len() >= CALLERS_MAX && !callers.contains_key(name) {
            callers.retain(|_, taken| taken.running > 0 || taken.debt_at(now) > Duration::ZERO);
            if callers.len() >= CALLERS_MAX {
                return Err(Exceeded::Callers);
            }
        }
        let mut taken =
            callers.get(name).copied().unwrap_or(Taken { running: 0, debt: Duration::ZERO, at: now });
        if taken.running >= settings.at_once {
            return Err(Exceeded::AtOnce { limit: settings.at_once });
        }
        (taken.debt, taken.at) = (taken.debt_at(now), now);
        if let Some(Rate { per_second, burst }) = settings.rate {
            let one = Duration::from_secs(1) / per_second.max(1);
            let allowed = one * (burst.max(1) - 1);
            if taken.debt > allowed {
                return Err(Exceeded::Rate { per_second, wait: taken.debt - allowed });
            }
            taken.debt += one;
        }
        taken.running += 1;
        callers.insert(name.to_owned(), taken);
        Ok(Allowance { of: self.clone(), name: name.to_owned() })
    }

    fn callers(&self) -> MutexGuard<'_, BTreeMap<String, Taken>> {
        self.0.callers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests of this caller that run now.
    #[must_use]
    pub fn running(&self, name: &str) -> usize {
        self.callers().get(name).map_or(0, |taken| taken.running)
    }
}

impl Taken {
    fn debt_at(&self, now: Duration) -> Duration {
        self.debt.saturating_sub(now.saturating_sub(self.at))
    }
}

impl Drop for Allowance {
    fn drop(&mut self) {
        let now = (self.of.0.now)();
        let mut callers = self.of.callers();
        let Some(taken) = callers.get_mut(&self.name) else { return };
        taken.running = taken.running.saturating_sub(1);
        if taken.running == 0 && taken.debt_at(now) == Duration::ZERO {
            callers.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn allowances(at_once: usize, rate: Option<Rate>) -> (Allowances, Arc<AtomicU64>) {
        let clock = Arc::new(AtomicU64::new(0));
        let shown = clock.clone();
        let now = move || Duration::from_millis(shown.load(Ordering::Relaxed));
        (Allowances::new(AllowanceSettings { at_once, rate }, Box::new(now)), clock)
    }

    #[test]
    fn each_caller_has_places_of_its_own() {
        let (all, _) = allowances(2, None);
        let first = all.begin("anna").unwrap();
        let _second = all.begin("anna").unwrap();
        assert_eq!(all.begin("anna").unwrap_err(), Exceeded::AtOnce { limit: 2 });
        let _other = all.begin("bert").unwrap();
        drop(first);
        assert_eq!(all.running("anna"), 1);
        let _third = all.begin("anna").unwrap();
        assert!(all.begin("anna").is_err());
    }

    #[test]
    fn a_burst_is_allowed_and_then_the_rate() {
        let (all, clock) = allowances(100, Some(Rate { per_second: 10, burst: 3 }));
        for _ in 0..3 {
            drop(all.begin("anna").unwrap());
        }
        let refused = all.begin("anna").unwrap_err();
        assert_eq!(refused, Exceeded::Rate { per_second: 10, wait: Duration::from_millis(100) });
        assert_eq!(refused.retry_after(), 1);
        drop(all.begin("bert").unwrap());
        clock.store(99, Ordering::Relaxed);
        assert!(all.begin("anna").is_err());
        // What is refused is not counted, or a client that insists would never get in.
        clock.store(100, Ordering::Relaxed);
        drop(all.begin("anna").unwrap());
        assert!(all.begin("anna").is_err());
        clock.store(1_000_000, Ordering::Relaxed);
        let served = (0..5).filter(|_| all.begin("anna").is_ok()).count();
        assert_eq!(served, 3, "no more than the burst is saved up");
    }

    #[test]
    fn callers_who_are_gone_are_forgotten() {
        let (all, clock) = allowances(1, Some(Rate { per_second: 1, burst: 1 }));
        for number in 0..CALLERS_MAX {
            drop(all.begin(&number.to_string()).unwrap());
        }
        assert_eq!(all.begin("one more").unwrap_err(), Exceeded::Callers);
        clock.store(1000, Ordering::Relaxed);
        let _one = all.begin("one more").unwrap();
        assert_eq!(all.callers().len(), 1);
    }
}
