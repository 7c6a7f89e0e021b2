//! What all threads of a soak share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Length, Settings};
use crate::oracle::{Oracle, Ticket, Verdict};
use crate::server::Instance;

/// Violations kept with their text.
const VIOLATIONS_KEPT: usize = 100;

/// The server's present life.
#[derive(Clone, Debug)]
pub struct Place {
    /// Which life it is.
    pub life: u64,
    /// Where it listens.
    pub url: String,
}

/// How often operations of one kind ended how.
#[derive(Clone, Copy, Default, Debug)]
pub struct Tally {
    /// Done.
    pub done: u64,
    /// Refused with an answer that was to be expected.
    pub refused: u64,
    /// Broken by a kill, or the server did not know.
    pub unknown: u64,
}

/// All of it.
pub struct World {
    pub settings: Settings,
    pub instance: Instance,
    pub oracle: Oracle,
    pub began: Instant,
    /// Clients shall end.
    pub stop: AtomicBool,
    /// The sampler shall end.
    pub over: AtomicBool,
    pub operations: AtomicU64,
    pub versions: AtomicU64,
    pub in_flight: AtomicU64,
    pub put_bytes: AtomicU64,
    pub pid: AtomicU64,
    pub life: AtomicU64,
    /// Writes that will be sent again with their key if the server dies.
    pub again: Mutex<Vec<Ticket>>,
    place: Mutex<Option<Place>>,
    changed: Condvar,
    tallies: Mutex<BTreeMap<&'static str, Tally>>,
    /// Remarkable but permitted, by text.
    pub notes: Mutex<BTreeMap<String, u64>>,
    violations: Mutex<(u64, Vec<String>)>,
    /// Stage requests that were acknowledged.
    pub staged: Mutex<Vec<u64>>,
}

/// Locks, whatever happened to another thread.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    pub fn new(settings: Settings, instance: Instance) -> Self {
        World {
            settings,
            instance,
            oracle: Oracle::default(),
            began: Instant::now(),
            stop: AtomicBool::new(false),
            over: AtomicBool::new(false),
            operations: AtomicU64::new(0),
            versions: AtomicU64::new(1),
            in_flight: AtomicU64::new(0),
            put_bytes: AtomicU64::new(0),
            pid: AtomicU64::new(0),
            life: AtomicU64::new(0),
            again: Mutex::default(),
            place: Mutex::default(),
            changed: Condvar::new(),
            tallies: Mutex::default(),
            notes: Mutex::default(),
            violations: Mutex::default(),
            staged: Mutex::default(),
        }
    }

    /// The part of the run that is over, from 0 to 1.
    pub fn progress(&self) -> f64 {
        match self.settings.length {
            Length::Time(length) => self.began.elapsed().as_secs_f64() / length.as_secs_f64(),
            Length::Operations(count) => self.operations.load(Ordering::SeqCst) as f64 / count as f64,
        }
    }

    /// Whether another `bytes` may be put by now.
    pub fn may_put(&self, bytes: u64) -> bool {
        let due = match self.settings.length {
            Length::Time(_) => self.settings.put_rate as f64 * (self.began.elapsed().as_secs_f64() + 30.0),
            Length::Operations(count) => {
                self.settings.put_rate as f64 * (self.progress() + 0.1) * count as f64
            }
        };
        let before = self.put_bytes.fetch_add(bytes, Ordering::SeqCst);
        if before as f64 + bytes as f64 <= due {
            return true;
        }
        self.put_bytes.fetch_sub(bytes, Ordering::SeqCst);
        false
    }

    /// The server has another life, or none.
    pub fn set_place(&self, place: Option<Place>) {
        *lock(&self.place) = place;
        self.changed.notify_all();
    }

    /// Waits for a server; `None` when the run ends.
    pub fn place(&self) -> Option<Place> {
        let mut place = lock(&self.place);
        loop {
            if let Some(place) = &*place {
                return Some(place.clone());
            }
            if self.over.load(Ordering::SeqCst) {
                return None;
            }
            let waited = self.changed.wait_timeout(place, Duration::from_millis(200));
            place = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Whether this life has ended, now or soon: a broken connection may be noticed before the kill is noted.
    pub fn has_died(&self, life: u64) -> bool {
        let until = Instant::now() + Duration::from_secs(5);
        let mut place = lock(&self.place);
        loop {
            if place.as_ref().is_none_or(|place| place.life != life) {
                return true;
            }
            let Some(left) = until.checked_duration_since(Instant::now()) else { return false };
            place = self.changed.wait_timeout(place, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub fn tally(&self, kind: &'static str, count: impl FnOnce(&mut Tally)) {
        count(lock(&self.tallies).entry(kind).or_default());
    }

    pub fn tallies(&self) -> BTreeMap<&'static str, Tally> {
        lock(&self.tallies).clone()
    }

    pub fn note(&self, text: &str) {
        *lock(&self.notes).entry(text.to_owned()).or_default() += 1;
    }

    pub fn violation(&self, text: String) {
        let mut violations = lock(&self.violations);
        violations.0 += 1;
        if violations.1.len() < VIOLATIONS_KEPT {
            let at = self.began.elapsed().as_secs_f64();
            eprintln!("violation after {at:.1} s: {text}");
            violations.1.push(format!("after {at:.1} s: {text}"));
        }
    }

    pub fn violations(&self) -> (u64, Vec<String>) {
        lock(&self.violations).clone()
    }

    pub fn judge(&self, verdict: Verdict) {
        match verdict {
            Verdict::Good => {}
            Verdict::Lost(text) => self.violation(format!("LOST {text}")),
            Verdict::Wrong(text) => self.violation(format!("WRONG {text}")),
        }
    }

    pub fn say(&self, text: &str) {
        if self.settings.verbose {
            eprintln!("{:8.1} s  {text}", self.began.elapsed().as_secs_f64());
        }
    }
}
