//! Threads that borrow, as std's.

use std::io;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::handle::{Builder, Joined, finally};
use super::runtime::runtime;
use super::task::TaskId;

/// A scope whose threads have all ended when it ends.
pub struct Scope<'scope, 'env: 'scope> {
    /// Null within a simulation.
    outside: AtomicPtr<()>,
    tasks: Mutex<Vec<TaskId>>,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// A thread of a scope.
pub struct ScopedJoinHandle<'scope, T>(Inner<'scope, T>);

enum Inner<'scope, T> {
    Outside(thread::ScopedJoinHandle<'scope, T>),
    Inside(Joined<T>),
}

/// Runs `f` with a scope whose threads may borrow, and waits for all of them.
///
/// # Panics
/// If a thread that nobody joined panicked, as std's.
#[track_caller]
pub fn scope<'env, F, T>(f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    let scope = Scope {
        outside: AtomicPtr::new(std::ptr::null_mut()),
        tasks: Mutex::default(),
        scope: PhantomData,
        env: PhantomData,
    };
    let at = Location::caller();
    if runtime().is_none() {
        return thread::scope(|outside| {
            scope.outside.store(std::ptr::from_ref(outside).cast_mut().cast(), Ordering::SeqCst);
            f(&scope)
        });
    }
    finally(|| f(&scope), |unwound| scope.end(unwound, at))
}

impl<'scope> Scope<'scope, '_> {
    fn end(&self, unwound: bool, at: &'static Location<'static>) {
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        let runtime = runtime().expect("a scope ends where it began");
        // The threads borrow from frames that are about to go.
        let wait = || {
            for task in &tasks {
                while runtime.is_alive(*task) && !runtime.is_dead() {
                    runtime.block(Some(runtime.join_key(*task)), None, "the end of a scope", at);
                }
            }
        };
        if unwound {
            tasks.iter().rev().for_each(|task| runtime.end_borrower(*task));
        } else {
            finally(wait, |_| tasks.iter().rev().for_each(|task| runtime.end_borrower(*task)));
        }
    }

    /// Starts a thread.
    #[track_caller]
    pub fn spawn<F, T>(&'scope self, run: F) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        Builder::new().spawn_scoped(self, run).expect("a thread can be started")
    }
}

impl Builder {
    /// Starts a thread of a scope.
    ///
    /// # Errors
    /// If the system has no thread for it.
    #[track_caller]
    pub fn spawn_scoped<'scope, 'env, F, T>(
        self,
        scope: &'scope Scope<'scope, 'env>,
        run: F,
    ) -> io::Result<ScopedJoinHandle<'scope, T>>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let outside = scope.outside.load(Ordering::SeqCst);
        if !outside.is_null() {
            // SAFETY: it was stored by `scope`, from a reference that lives as long as this scope's threads.
            let outside = unsafe { &*outside.cast::<thread::Scope<'scope, 'env>>() };
            return Ok(ScopedJoinHandle(Inner::Outside(self.outside().spawn_scoped(outside, run)?)));
        }
        let runtime = runtime().expect("a scope is used where it began");
        let name = self.name.unwrap_or_else(|| Location::caller().to_string());
        // SAFETY: the scope does not end before its tasks have, however it ends.
        let task = unsafe { Joined::start(&runtime, runtime.current_process(), name, run) };
        scope.tasks.lock().unwrap_or_else(PoisonError::into_inner).extend(task.task);
        Ok(ScopedJoinHandle(Inner::Inside(task)))
    }
}

impl<T> ScopedJoinHandle<'_, T> {
    /// Waits for its end and gives its result.
    ///
    /// # Errors
    /// If it panicked, or was killed.
    #[track_caller]
    pub fn join(self) -> thread::Result<T> {
        match self.0 {
            Inner::Outside(thread) => thread.join(),
            Inner::Inside(task) => task.join(),
        }
    }

    /// Whether it has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        match &self.0 {
            Inner::Outside(thread) => thread.is_finished(),
            Inner::Inside(task) => task.is_finished(),
        }
    }
}
