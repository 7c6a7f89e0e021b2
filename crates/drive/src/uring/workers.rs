//! Threads of a drive for what blocks: as many as there is to do at one time, up to a limit.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// One that has nothing to do for so long ends, but for the last.
const IDLE_MAX: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

pub(crate) struct Workers {
    name: String,
    most: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    closed: bool,
}

impl Workers {
    /// Starts the first of at most so many.
    pub(crate) fn start(name: &str, most: usize) -> io::Result<Arc<Self>> {
        assert!(most > 0, "somebody works");
        let name = name.to_owned();
        let workers = Arc::new(Workers { name, most, state: Mutex::default(), changed: Condvar::new() });
        let mut state = workers.state();
        workers.start_one(&mut state)?;
        drop(state);
        Ok(workers)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a job done as soon as a thread is free; what is closed already drops it.
    pub(crate) fn run(self: &Arc<Self>, job: impl FnOnce() + Send + 'static) {
        let mut state = self.state();
        if state.closed {
            drop(state);
            return drop(job);
        }
        state.jobs.push_back(Box::new(job));
        let is_short = state.jobs.len() > state.idle && state.threads < self.most;
        // If the system has no thread left those that are there do it, one behind the other.
        let is_alone = is_short && self.start_one(&mut state).is_err() && state.threads == 0;
        let own = if is_alone { state.jobs.pop_back() } else { None };
        drop(state);
        self.changed.notify_one();
        if let Some(job) = own {
            job();
        }
    }

    /// What was handed over is done; then the threads end.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }

    fn start_one(self: &Arc<Self>, state: &mut State) -> io::Result<()> {
        let workers = Arc::clone(self);
        thread::Builder::new().name(self.name.clone()).spawn(move || {
            let present = Present(Arc::clone(&workers));
            while let Some(job) = workers.next() {
                job();
            }
            drop(present);
        })?;
        state.threads += 1;
        Ok(())
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.state();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.closed {
                return None;
            }
            state.idle += 1;
            let (woken, waited) =
                self.changed.wait_timeout(state, IDLE_MAX).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if waited.timed_out() && state.jobs.is_empty() && state.threads > 1 {
                return None;
            }
        }
    }
}

/// Counts a thread until it has ended, maybe with a panic.
struct Present(Arc<Workers>);

impl Drop for Present {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.threads -= 1;
        // After a panic, what waits is for another one.
        if state.threads == 0 && !state.jobs.is_empty() {
            let _ = self.0.start_one(&mut state);
        }
    }
}
