//! A lock like std's.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{self, LockResult, PoisonError, TryLockError, TryLockResult};

use super::runtime::runtime;

/// `std::sync::Mutex`, or within a simulation a lock among tasks, which never poisons.
#[derive(Default)]
pub struct Mutex<T: ?Sized> {
    outside: sync::Mutex<()>,
    held: AtomicBool,
    contended: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached through a guard only, and there is one guard at a time: outside of a
// simulation by the std lock, within one by `held`, all tasks being in one thread. The one exception is a
// dying task, which is given a lock that another dying task holds: that one stands still and is only ever
// unwound.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

/// The right to the value; ends when dropped.
pub struct MutexGuard<'a, T: ?Sized> {
    pub(super) mutex: &'a Mutex<T>,
    outside: Option<sync::MutexGuard<'a, ()>>,
    /// Whether `held` is ours.
    holds: bool,
    /// Like std's, it stays in its thread.
    stays: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives shared access to the value only.
unsafe impl<T: ?Sized + Sync> Sync for MutexGuard<'_, T> {}

impl<T> Mutex<T> {
    /// An open lock.
    pub const fn new(value: T) -> Self {
        Mutex {
            outside: sync::Mutex::new(()),
            held: AtomicBool::new(false),
            contended: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// The value.
    ///
    /// # Errors
    /// If a holder panicked.
    pub fn into_inner(self) -> LockResult<T> {
        let poisoned = self.outside.is_poisoned();
        let value = self.value.into_inner();
        if poisoned { Err(PoisonError::new(value)) } else { Ok(value) }
    }
}

impl<T: ?Sized> Mutex<T> {
    pub(super) fn key(&self) -> usize {
        std::ptr::from_ref(&self.held) as usize
    }

    /// Waits for the lock.
    ///
    /// # Errors
    /// If a holder panicked, as std's.
    #[track_caller]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        let Some(runtime) = runtime() else {
            return match self.outside.lock() {
                Ok(guard) => Ok(self.guard(Some(guard))),
                Err(poisoned) => Err(PoisonError::new(self.guard(Some(poisoned.into_inner())))),
            };
        };
        runtime.maybe_give_way();
        while self.held.load(Ordering::Relaxed) {
            if runtime.is_dead() {
                return Ok(MutexGuard { mutex: self, outside: None, holds: false, stays: PhantomData });
            }
            self.contended.store(true, Ordering::Relaxed);
            runtime.block(Some(self.key()), None, "a lock", Location::caller());
        }
        self.held.store(true, Ordering::Relaxed);
        Ok(self.guard(None))
    }

    /// Takes the lock if it is open.
    ///
    /// # Errors
    /// If it is held, or a holder panicked, as std's.
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        if runtime().is_none() {
            return match self.outside.try_lock() {
                Ok(guard) => Ok(self.guard(Some(guard))),
                Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
                Err(TryLockError::Poisoned(poisoned)) => {
                    Err(TryLockError::Poisoned(PoisonError::new(self.guard(Some(poisoned.into_inner())))))
                }
            };
        }
        if self.held.swap(true, Ordering::Relaxed) {
            return Err(TryLockError::WouldBlock);
        }
        Ok(self.guard(None))
    }

    /// The value, which nobody else can reach.
    ///
    /// # Errors
    /// If a holder panicked.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        let poisoned = self.outside.is_poisoned();
        let value = self.value.get_mut();
        if poisoned { Err(PoisonError::new(value)) } else { Ok(value) }
    }

    fn guard<'a>(&'a self, outside: Option<sync::MutexGuard<'a, ()>>) -> MutexGuard<'a, T> {
        let holds = outside.is_none();
        MutexGuard { mutex: self, outside, holds, stays: PhantomData }
    }
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// Opens the lock and gives what std's condition needs.
    pub(super) fn take_outside(mut self) -> Option<sync::MutexGuard<'a, ()>> {
        self.outside.take()
    }

    pub(super) fn again(mutex: &'a Mutex<T>, outside: sync::MutexGuard<'a, ()>) -> Self {
        mutex.guard(Some(outside))
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one; see the lock.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard is the only one; see the lock.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        if !self.holds {
            return;
        }
        self.mutex.held.store(false, Ordering::Relaxed);
        if self.mutex.contended.swap(false, Ordering::Relaxed)
            && let Some(runtime) = runtime()
        {
            runtime.wake_all(self.mutex.key());
        }
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Self {
        Mutex::new(value)
    }
}

impl<T: ?Sized> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").finish_non_exhaustive()
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
