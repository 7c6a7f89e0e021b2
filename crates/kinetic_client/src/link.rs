//! The way to one drive.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use base::Timestamp;
use kinetic::client::{Greeting, Options};
use kinetic::{Change, ClusterVersion, Request};
use threads::{Condvar, Mutex, MutexGuard};

use crate::desk::{Answered, CallError, Desk, Result, Work};
use crate::run;
use crate::settings::LinkSettings;
use crate::stream::Stream;

/// The way to one drive. Dropped, it closes the connection; what was not answered yet is told so.
pub struct Link(Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) settings: LinkSettings,
    began: Instant,
    state: Mutex<State>,
    /// Something is to be written, or the connection is another one.
    pub(crate) to_write: Condvar,
    /// The connection was made, or ended, or another attempt failed.
    pub(crate) changed: Condvar,
}

pub(crate) struct State {
    pub(crate) desk: Desk,
    pub(crate) stream: Option<Stream>,
    /// Rounds of attempts to connect that failed.
    pub(crate) rounds_failed: u64,
    /// Somebody asks for an attempt at once.
    pub(crate) is_hurried: bool,
}

impl Link {
    /// A way to a drive, which is looked for from now on by threads of its own.
    ///
    /// # Errors
    /// If the system has no threads for it.
    pub fn new(name: &str, settings: LinkSettings) -> std::io::Result<Self> {
        assert!(!settings.addresses.is_empty(), "a drive has an address");
        let desk = Desk::new(&settings, Timestamp(0));
        let state = State { desk, stream: None, rounds_failed: 0, is_hurried: false };
        let shared = Arc::new(Shared {
            settings,
            began: Instant::now(),
            state: Mutex::new(state),
            to_write: Condvar::new(),
            changed: Condvar::new(),
        });
        let link = Link(Arc::clone(&shared));
        let reader = Arc::clone(&shared);
        threads::spawn_guarded(&format!("{name} in"), move || run::link(&reader), || ())?;
        threads::spawn_guarded(&format!("{name} out"), move || run::write(&shared), || ())?;
        Ok(link)
    }

    /// Gives it something to do. `then` is told what came of it, exactly once, on a thread of the link or
    /// within this call: it must not wait for anything that the link does.
    pub fn submit(&self, work: Work, options: Options, then: impl FnOnce(Result<Answered>) + Send + 'static) {
        let mut state = self.0.state();
        state.desk.submit(self.0.now(), work, options, Box::new(then));
        let told = state.desk.told();
        self.0.to_write.notify_all();
        drop(state);
        for (then, result) in told {
            then(result);
        }
    }

    /// Asks, and waits for the outcome.
    ///
    /// # Errors
    /// As the variants of the error say.
    pub fn call(&self, request: Request) -> Result<Answered> {
        self.wait_for(Work::Request(request))
    }

    /// Makes all changes or none, and waits for the outcome.
    ///
    /// # Errors
    /// As the variants of the error say.
    pub fn batch(&self, changes: Vec<Change>) -> Result<Answered> {
        self.wait_for(Work::Batch(changes))
    }

    fn wait_for(&self, work: Work) -> Result<Answered> {
        let (send, receive) = threads::mpsc::channel();
        self.submit(work, Options::default(), move |result| {
            let _ = send.send(result);
        });
        receive.recv().unwrap_or(Err(CallError::Closed))
    }

    /// Waits until the drive has greeted, and gives what it said.
    ///
    /// # Errors
    /// [`CallError::Unreachable`] if it has not within this time, and if a first round of attempts failed.
    pub fn open(&self, within: Duration) -> Result<Greeting> {
        let until = Instant::now() + within;
        let mut state = self.0.state();
        let failed_before = state.rounds_failed;
        state.is_hurried = true;
        self.0.changed.notify_all();
        loop {
            if let Some(greeting) = state.desk.greeting() {
                return Ok(greeting.clone());
            }
            let left = until.saturating_duration_since(Instant::now());
            // Two: one may have been under way when this began.
            if left.is_zero() || state.rounds_failed > failed_before + 1 || state.desk.is_closed() {
                return Err(CallError::Unreachable(state.desk.reason().to_owned()));
            }
            let waited = self.0.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// What the drive said when it was reached; `None` while it is not.
    #[must_use]
    pub fn greeting(&self) -> Option<Greeting> {
        self.0.state().desk.greeting().cloned()
    }

    /// The connection there is, or was last, counted from 1.
    #[must_use]
    pub fn connection(&self) -> u64 {
        self.0.state().desk.connection()
    }

    /// Belongs to another generation of the cluster from the next request on, on later connections too. Until
    /// this is said, it is the one of which the drive said that it is.
    pub fn set_cluster_version(&self, version: ClusterVersion) {
        self.0.state().desk.set_cluster_version(version);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.desk.close(self.0.now());
        let told = state.desk.told();
        if let Some(stream) = state.stream.take() {
            stream.shut();
        }
        self.0.to_write.notify_all();
        self.0.changed.notify_all();
        drop(state);
        for (then, result) in told {
            then(result);
        }
    }
}

impl Shared {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp(1).plus(self.began.elapsed())
    }
}
