//! Threads, locks, channels and waiting, as all of Kist below the doors uses them.
//!
//! In a released program these are std's own. Nothing below the doors may name `std::sync::Mutex`, `Condvar`,
//! `mpsc` or `std::thread` itself, so that the simulator can run the very same engine in one thread and in
//! virtual time.

pub use std::sync::mpsc;
pub use std::sync::{Condvar, Mutex, MutexGuard};
pub use std::thread::{Builder, JoinHandle, scope, spawn};
