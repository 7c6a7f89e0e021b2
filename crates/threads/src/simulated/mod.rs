//! Threads as coroutines in one thread of the system, and in virtual time.
//!
//! [`run`] runs a function as the first task of a world. Whatever it spawns through this crate becomes a task
//! as well. One task runs at a time, until it waits, or until the seed says that another one is to go on at a
//! lock or a channel. When nobody can go on, time jumps to the next deadline. The same seed gives the same
//! run, as long as nothing else is random: no other clock, no order of a hash map, no address.
//!
//! Tasks belong to processes. A killed process stops where its tasks stand: they are unwound, so that nothing
//! leaks, and whatever their destructors ask of this crate is answered at once (locks are granted, channels
//! are closed, joined threads are dead), so that nobody waits any more.

mod condvar;
mod handle;
mod lock;
pub mod mpsc;
mod panics;
mod process;
mod random;
mod runtime;
mod scope;
mod task;

pub use condvar::{Condvar, WaitTimeoutResult};
pub use handle::{Builder, JoinHandle, spawn};
pub use lock::{Mutex, MutexGuard};
pub use process::Process;
pub use runtime::{
    Failure, Outcome, chance, is_dead, is_running, now, pause, random, report, run, yield_now,
};
pub use scope::{Scope, ScopedJoinHandle, scope};

#[cfg(test)]
mod tests;
