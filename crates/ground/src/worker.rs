//! The engine's threads: one shape for all of them, and one place that stops and joins them.

use std::fmt::Display;
use std::sync::{Arc, PoisonError};

use base::{Clock, Timestamp};
use threads::{JoinHandle, Mutex, MutexGuard};

use crate::OpenError;

/// When a thread ends while the engine stops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ends {
    /// At once, with all others.
    First,
    /// When those have ended: they, and clients, wait for what it does.
    BehindOthers,
    /// When nothing more is done: it writes down what was.
    Last,
}

/// What a thread is to be: its name, when it ends, and how it is woken to do so.
pub struct Duty {
    name: String,
    ends: Ends,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl Duty {
    /// A thread that looks at the stop flag when `wake` was called, and ends at once. What is woken is not
    /// held: it may hold the list of threads itself.
    pub fn new<T: Send + Sync + 'static>(
        name: impl Into<String>,
        woken: &Arc<T>,
        wake: impl Fn(&T) + Send + Sync + 'static,
    ) -> Self {
        let woken = Arc::downgrade(woken);
        let wake = move || {
            if let Some(woken) = woken.upgrade() {
                wake(&woken);
            }
        };
        Duty { name: name.into(), ends: Ends::First, wake: Box::new(wake) }
    }

    /// The same, ending then.
    #[must_use]
    pub fn ending(self, ends: Ends) -> Self {
        Duty { ends, ..self }
    }
}

/// What a thread does, for displays.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkerInfo {
    /// The thread's name.
    pub name: String,
    /// What it does now, in a word or two; `waiting` if it waits for work, `ended` if it has ended.
    pub doing: &'static str,
    /// Since when.
    pub since: Timestamp,
    /// When something failed for the last time, and what it was.
    pub failed: Option<(Timestamp, String)>,
}

/// A thread of the engine, as it tells of itself.
pub struct Worker {
    duty: Duty,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

struct State {
    doing: &'static str,
    since: Timestamp,
    failed: Option<(Timestamp, String)>,
}

/// What a thread does that waits for work.
const RESTS: &str = "waiting";
/// What a thread does that has ended.
const ENDED: &str = "ended";

impl Worker {
    /// Says what it does from now on.
    pub fn does(&self, what: &'static str) {
        let mut state = self.state();
        if state.doing != what {
            (state.doing, state.since) = (what, self.clock.now());
        }
    }

    /// Says that it waits for work.
    pub fn rests(&self) {
        self.does(RESTS);
    }

    /// Keeps what failed, for displays: telling it in the log is the thread's.
    pub fn failed(&self, error: &dyn Display) {
        self.state().failed = Some((self.clock.now(), error.to_string()));
    }

    fn info(&self) -> WorkerInfo {
        let state = self.state();
        let (doing, since, failed) = (state.doing, state.since, state.failed.clone());
        WorkerInfo { name: self.duty.name.clone(), doing, since, failed }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All threads of the engine.
#[derive(Default)]
pub struct Workers(Mutex<Vec<Running>>);

struct Running {
    worker: Arc<Worker>,
    thread: JoinHandle<()>,
}

impl Workers {
    /// Starts a thread. One that panics ends the process: it has left its work in an unknown state, and the
    /// others wait for it for ever. A restart is a tested path.
    ///
    /// # Errors
    /// If the system has no thread for it.
    pub fn start(
        &self,
        clock: &Arc<dyn Clock>,
        duty: Duty,
        run: impl FnOnce(&Arc<Worker>) + Send + 'static,
    ) -> Result<(), OpenError> {
        let state = State { doing: RESTS, since: clock.now(), failed: None };
        let worker = Arc::new(Worker { duty, clock: Arc::clone(clock), state: Mutex::new(state) });
        let dying = || tracing::error!("a thread of the engine panicked: the server ends, start it again");
        let me = Arc::clone(&worker);
        let run = move || {
            run(&me);
            me.does(ENDED);
        };
        // Held meanwhile: whoever wakes or joins threads finds each one that runs.
        let mut running = self.running();
        let thread = threads::spawn_guarded(&worker.duty.name, run, dying).map_err(OpenError::Thread)?;
        running.push(Running { worker, thread });
        Ok(())
    }

    /// Wakes those that end so, to see that they are to.
    pub fn wake(&self, ends: Ends) {
        let ending: Vec<Arc<Worker>> = {
            let running = self.running();
            let ending = running.iter().filter(|one| one.worker.duty.ends == ends);
            ending.map(|one| Arc::clone(&one.worker)).collect()
        };
        ending.iter().for_each(|worker| (worker.duty.wake)());
    }

    /// Waits until those that end so have ended, and forgets them.
    pub fn join(&self, ends: Ends) {
        let ending: Vec<Running> =
            self.running().extract_if(.., |one| one.worker.duty.ends == ends).collect();
        for one in ending {
            if one.thread.join().is_err() {
                tracing::error!("a thread of the engine ended with a panic");
            }
        }
    }

    /// What each of them does now.
    pub fn info(&self) -> Vec<WorkerInfo> {
        self.running().iter().map(|one| one.worker.info()).collect()
    }

    fn running(&self) -> MutexGuard<'_, Vec<Running>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use base::ManualClock;
    use threads::mpsc::sync_channel;

    use super::*;

    /// What a display would show of the only thread: its name, what it does, and what failed.
    fn shown(workers: &Workers) -> (String, &'static str, Option<String>) {
        let info = workers.info().pop().expect("a thread");
        (info.name, info.doing, info.failed.map(|(_, what)| what))
    }

    #[test]
    fn a_thread_tells_what_it_does_and_ends_when_it_is_woken() {
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
        let workers = Workers::default();
        let ((wake, woken), (tell, told)) = (sync_channel(1), sync_channel(1));
        let waker = Arc::new((wake, AtomicUsize::new(0)));
        let duty = Duty::new("sweeper", &waker, |(wake, wakes)| {
            wakes.fetch_add(1, Ordering::SeqCst);
            wake.send(()).expect("it listens");
        });
        let duty = duty.ending(Ends::Last);
        let run = move |me: &Arc<Worker>| {
            me.does("sweeping");
            me.failed(&"no room");
            tell.send(()).expect("somebody listens");
            woken.recv().expect("it is woken");
        };
        workers.start(&clock, duty, run).expect("a thread");
        told.recv().expect("it runs");
        assert_eq!(shown(&workers), ("sweeper".to_owned(), "sweeping", Some("no room".to_owned())));
        // Those that end otherwise are neither woken nor waited for.
        workers.wake(Ends::First);
        workers.join(Ends::First);
        assert_eq!((shown(&workers).1, waker.1.load(Ordering::SeqCst)), ("sweeping", 0));
        workers.wake(Ends::Last);
        workers.join(Ends::Last);
        assert!(workers.info().is_empty());
    }

    #[test]
    fn one_that_ended_by_itself_is_shown_as_such() {
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
        let workers = Workers::default();
        workers
            .start(&clock, Duty::new("resume", &Arc::new(()), |()| ()), |me| me.does("reading"))
            .expect("a thread");
        while shown(&workers).1 != ENDED {
            std::thread::yield_now();
        }
        assert_eq!(shown(&workers), ("resume".to_owned(), "ended", None));
    }

    /// Story: an engine that died stayed in memory, since the list of its threads held what they work for.
    #[test]
    fn what_a_thread_works_for_is_not_held_by_the_list_of_threads() {
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
        let workers = Workers::default();
        let room = Arc::new(());
        workers.start(&clock, Duty::new("resume", &room, |()| ()), |_| ()).expect("a thread");
        assert_eq!(Arc::strong_count(&room), 1);
    }
}
