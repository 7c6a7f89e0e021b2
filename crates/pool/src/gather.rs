//! Waiting for the results of several drives.

use std::sync::{Arc, PoisonError};
use threads::{Condvar, Mutex, MutexGuard};

/// Locks even after a panic elsewhere: every state here is whole between statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Collects one result for each ticket given out.
pub(crate) struct Gather<T> {
    state: Mutex<State<T>>,
    all_in: Condvar,
}

struct State<T> {
    results: Vec<T>,
    pending: usize,
}

/// The duty to report one result; dropping it unreported (a worker died) counts as no result.
pub(crate) struct Ticket<T> {
    gather: Arc<Gather<T>>,
}

impl<T> Gather<T> {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Gather {
            state: Mutex::new(State { results: Vec::new(), pending: 0 }),
            all_in: Condvar::new(),
        })
    }

    pub(crate) fn ticket(self: &Arc<Self>) -> Ticket<T> {
        lock(&self.state).pending += 1;
        Ticket { gather: Arc::clone(self) }
    }

    /// Waits for all tickets and takes their results, in no particular order.
    pub(crate) fn wait(&self) -> Vec<T> {
        let mut state = lock(&self.state);
        while state.pending > 0 {
            state = self.all_in.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::take(&mut state.results)
    }
}

impl<T> Ticket<T> {
    pub(crate) fn done(self, result: T) {
        lock(&self.gather.state).results.push(result);
    }
}

impl<T> Drop for Ticket<T> {
    fn drop(&mut self) {
        let mut state = lock(&self.gather.state);
        state.pending -= 1;
        if state.pending == 0 {
            self.gather.all_in.notify_all();
        }
    }
}
