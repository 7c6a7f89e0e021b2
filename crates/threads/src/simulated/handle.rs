//! Starting threads and waiting for their end.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::runtime::{Runtime, runtime};
use super::task::{Killed, TaskId};

/// Where a task leaves its result.
pub(super) type Packet<T> = Arc<Mutex<Option<T>>>;

/// A task that is joined.
pub(super) struct Joined<T> {
    /// `None` if its process was dead before it could begin.
    pub(super) task: Option<TaskId>,
    pub(super) packet: Packet<T>,
}

impl<T> Joined<T> {
    /// Starts a task.
    ///
    /// # Safety
    /// What `run` borrows must live until the task has ended.
    pub(super) unsafe fn start<'a>(
        runtime: &Rc<Runtime>,
        process: usize,
        name: String,
        run: impl FnOnce() -> T + 'a,
    ) -> Self
    where
        T: 'a,
    {
        let packet: Packet<T> = Arc::default();
        let body = {
            let packet = Arc::clone(&packet);
            Box::new(move || {
                // A task that is killed or panics leaves nothing.
                let value = run();
                *packet.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
            })
        };
        let joined = Arc::as_ptr(&packet).cast::<u8>() as usize;
        // SAFETY: the caller promises what `add` asks for.
        let task = unsafe { runtime.add(name, process, joined, body) };
        Joined { task, packet }
    }

    pub(super) fn is_finished(&self) -> bool {
        let alive = |task| runtime().is_some_and(|runtime| runtime.is_alive(task));
        !self.task.is_some_and(alive)
    }

    #[track_caller]
    pub(super) fn join(self) -> thread::Result<T> {
        let at = Location::caller();
        let key = Arc::as_ptr(&self.packet).cast::<u8>() as usize;
        while !self.is_finished() {
            let Some(runtime) = runtime() else { break };
            if runtime.is_dead() {
                break;
            }
            runtime.block(Some(key), None, "the end of a thread", at);
        }
        let value = self.packet.lock().unwrap_or_else(PoisonError::into_inner).take();
        value.ok_or_else(|| Box::new(Killed) as Box<dyn Any + Send>)
    }
}

/// A thread that can be waited for, as std's.
pub struct JoinHandle<T>(Inner<T>);

enum Inner<T> {
    Outside(thread::JoinHandle<T>),
    Inside(Joined<T>),
}

impl<T> JoinHandle<T> {
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

impl<T> std::fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JoinHandle").finish_non_exhaustive()
    }
}

/// How to start a thread, as std's.
#[derive(Debug, Default)]
pub struct Builder {
    pub(super) name: Option<String>,
}

impl Builder {
    /// A thread without a name.
    #[must_use]
    pub fn new() -> Self {
        Builder::default()
    }

    /// Names it.
    #[must_use]
    pub fn name(mut self, name: String) -> Self {
        self.name = Some(name);
        self
    }

    pub(super) fn outside(&self) -> thread::Builder {
        let builder = thread::Builder::new();
        match &self.name {
            Some(name) => builder.name(name.clone()),
            None => builder,
        }
    }

    /// Starts it.
    ///
    /// # Errors
    /// If the system has no thread for it.
    #[track_caller]
    pub fn spawn<T: Send + 'static>(
        self,
        run: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        let Some(runtime) = runtime() else {
            return Ok(JoinHandle(Inner::Outside(self.outside().spawn(run)?)));
        };
        let name = self.name.unwrap_or_else(|| Location::caller().to_string());
        Ok(spawn_in(runtime.current_process(), name, run))
    }
}

/// Starts a thread, as std's.
#[track_caller]
pub fn spawn<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    Builder::new().spawn(run).expect("a thread can be started")
}

pub(super) fn spawn_in<T: Send + 'static>(
    process: usize,
    name: String,
    run: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    let runtime = runtime().expect("only within a simulation");
    // SAFETY: nothing is borrowed.
    let task = unsafe { Joined::start(&runtime, process, name, run) };
    runtime.maybe_give_way();
    JoinHandle(Inner::Inside(task))
}

/// Goes on after `f`, then unwinds if `f` did.
pub(super) fn finally<T>(f: impl FnOnce() -> T, after: impl FnOnce(bool)) -> T {
    let result = catch_unwind(AssertUnwindSafe(f));
    after(result.is_err());
    result.unwrap_or_else(|panic| resume_unwind(panic))
}
