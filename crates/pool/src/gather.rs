//! Waiting for the results of several drives.

use std::sync::{Arc, PoisonError};
use std::time::Duration;
use threads::{Condvar, Mutex, MutexGuard};

use crate::config::LOOK_EVERY;

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

    /// Whether all tickets are in.
    pub(crate) fn is_complete(&self) -> bool {
        lock(&self.state).pending == 0
    }

    /// Waits for all tickets, at most for about `patience`; whether all are in.
    pub(crate) fn wait_for(&self, patience: Duration) -> (Vec<T>, bool) {
        let mut state = lock(&self.state);
        while state.pending > 0 {
            let (back, waited) =
                self.all_in.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner);
            state = back;
            if waited.timed_out() {
                break;
            }
        }
        let all = state.pending == 0;
        (std::mem::take(&mut state.results), all)
    }

    /// Waits for all tickets, looking now and then whether it is worth while: `give_up` is told what is in.
    pub(crate) fn wait_unless(&self, give_up: impl Fn(&[T]) -> bool) -> Vec<T> {
        let mut state = lock(&self.state);
        while state.pending > 0 {
            let (back, waited) =
                self.all_in.wait_timeout(state, LOOK_EVERY).unwrap_or_else(PoisonError::into_inner);
            state = back;
            if state.pending > 0 && waited.timed_out() && give_up(&state.results) {
                break;
            }
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
        assert!(state.pending > 0, "a ticket ends once");
        state.pending -= 1;
        if state.pending == 0 {
            self.gather.all_in.notify_all();
        }
    }
}
