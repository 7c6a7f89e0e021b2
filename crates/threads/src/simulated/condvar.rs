//! A condition like std's.

use std::panic::Location;
use std::sync::{self, LockResult, PoisonError};
use std::time::{Duration, Instant};

use super::lock::{Mutex, MutexGuard};
use super::runtime::runtime;

/// `std::sync::Condvar`, or within a simulation a condition among tasks.
#[derive(Debug, Default)]
pub struct Condvar {
    outside: sync::Condvar,
    /// Its address is what tasks wait for; a type of no size has none of its own.
    here: u8,
}

/// Whether a wait ended by its deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Whether the deadline came first.
    #[must_use]
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    /// A condition nobody waits for.
    #[must_use]
    pub const fn new() -> Self {
        Condvar { outside: sync::Condvar::new(), here: 0 }
    }

    fn key(&self) -> usize {
        std::ptr::from_ref(&self.here) as usize
    }

    /// Opens the lock, waits to be notified, and takes the lock again.
    ///
    /// # Errors
    /// If a holder panicked, as std's.
    #[track_caller]
    pub fn wait<'a, T: ?Sized>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let mutex: &'a Mutex<T> = guard.mutex;
        let Some(runtime) = runtime() else {
            let raw = guard.take_outside().expect("a guard from outside of a simulation");
            return match self.outside.wait(raw) {
                Ok(raw) => Ok(MutexGuard::again(mutex, raw)),
                Err(poisoned) => Err(PoisonError::new(MutexGuard::again(mutex, poisoned.into_inner()))),
            };
        };
        drop(guard);
        runtime.block(Some(self.key()), None, "a condition", Location::caller());
        mutex.lock()
    }

    /// As [`Condvar::wait`], but no longer than `patience`.
    ///
    /// # Errors
    /// If a holder panicked, as std's.
    #[track_caller]
    pub fn wait_timeout<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        patience: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let mutex: &'a Mutex<T> = guard.mutex;
        let Some(runtime) = runtime() else {
            let raw = guard.take_outside().expect("a guard from outside of a simulation");
            return match self.outside.wait_timeout(raw, patience) {
                Ok((raw, end)) => Ok((MutexGuard::again(mutex, raw), WaitTimeoutResult(end.timed_out()))),
                Err(poisoned) => {
                    let (raw, end) = poisoned.into_inner();
                    let guard = MutexGuard::again(mutex, raw);
                    Err(PoisonError::new((guard, WaitTimeoutResult(end.timed_out()))))
                }
            };
        };
        drop(guard);
        let deadline = runtime.deadline(patience);
        let late = runtime.block(Some(self.key()), Some(deadline), "a condition", Location::caller());
        mutex
            .lock()
            .map(|guard| (guard, WaitTimeoutResult(late)))
            .map_err(|poisoned| PoisonError::new((poisoned.into_inner(), WaitTimeoutResult(late))))
    }

    /// Waits while `condition` holds.
    ///
    /// # Errors
    /// If a holder panicked, as std's.
    #[track_caller]
    pub fn wait_while<'a, T: ?Sized>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<MutexGuard<'a, T>> {
        while condition(&mut *guard) {
            guard = self.wait(guard)?;
        }
        Ok(guard)
    }

    /// Waits while `condition` holds, but no longer than `patience`.
    ///
    /// # Errors
    /// If a holder panicked, as std's.
    #[track_caller]
    pub fn wait_timeout_while<'a, T: ?Sized>(
        &self,
        mut guard: MutexGuard<'a, T>,
        patience: Duration,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let started = moment();
        loop {
            if !condition(&mut *guard) {
                return Ok((guard, WaitTimeoutResult(false)));
            }
            let Some(left) = patience.checked_sub(moment().saturating_sub(started)) else {
                return Ok((guard, WaitTimeoutResult(true)));
            };
            guard = self.wait_timeout(guard, left)?.0;
        }
    }

    /// Wakes one who waits.
    pub fn notify_one(&self) {
        match runtime() {
            Some(runtime) => runtime.wake_one(self.key()),
            None => self.outside.notify_one(),
        }
    }

    /// Wakes all who wait.
    pub fn notify_all(&self) {
        match runtime() {
            Some(runtime) => runtime.wake_all(self.key()),
            None => self.outside.notify_all(),
        }
    }
}

/// Time since some fixed moment, virtual within a simulation.
fn moment() -> Duration {
    static START: sync::OnceLock<Instant> = sync::OnceLock::new();
    if super::is_running() {
        return Duration::from_nanos(super::now());
    }
    START.get_or_init(Instant::now).elapsed()
}
