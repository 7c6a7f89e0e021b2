//! Groups of tasks that die together.

use std::rc::Rc;

use super::handle::{JoinHandle, spawn_in};
use super::runtime::{WORLD, runtime};

/// A simulated process. Tasks that its tasks spawn belong to it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Process(usize);

impl Process {
    /// A new process without tasks.
    ///
    /// # Panics
    /// Outside of a simulation, like all that follow.
    #[must_use]
    pub fn new() -> Self {
        Process(runtime().expect("only within a simulation").new_process())
    }

    /// The process of the caller.
    #[must_use]
    pub fn current() -> Self {
        Process(runtime().expect("only within a simulation").current_process())
    }

    /// Starts a task in this process, whatever the process of the caller. In a dead process it never runs,
    /// and joining it fails.
    pub fn spawn<T: Send + 'static>(
        self,
        name: &str,
        run: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        spawn_in(self.0, name.to_owned(), run)
    }

    /// Ends all its tasks where they stand. If the caller is one of them this does not return.
    ///
    /// # Panics
    /// If it is the world's own process.
    pub fn kill(self) {
        runtime().expect("only within a simulation").kill(self.0);
    }

    /// Whether it was killed.
    #[must_use]
    pub fn is_dead(self) -> bool {
        runtime().is_none_or(|runtime| runtime.is_process_dead(self.0))
    }

    /// Drops what is left of this dead process in the hands of others, so that its destructors find nobody to
    /// wait for and nothing to change.
    pub fn bury<T>(self, what: T) {
        let runtime = runtime().expect("only within a simulation");
        assert!(self.0 != WORLD && self.is_dead(), "only the dead are buried");
        let runtime = Rc::clone(&runtime);
        runtime.within(self.0, || {
            // Whatever would wait is unwound.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(what)));
        });
    }
}

impl Default for Process {
    fn default() -> Self {
        Process::new()
    }
}
