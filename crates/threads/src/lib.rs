//! Threads, locks, channels and waiting, as all of Kist below the doors uses them.
//!
//! In a released program these are std's own. Nothing below the doors may name `std::sync::Mutex`, `Condvar`,
//! `mpsc` or `std::thread` itself, so that the simulator can run the very same engine in one thread and in
//! virtual time. That takes the feature `simulated`, for which the simulator alone asks; with it, the types
//! here still behave like std's wherever no simulation is running.

mod doorbell;
mod guarded;

pub use doorbell::Doorbell;
pub use guarded::spawn_guarded;

#[cfg(not(feature = "simulated"))]
pub use std::sync::mpsc;
#[cfg(not(feature = "simulated"))]
pub use std::sync::{Condvar, Mutex, MutexGuard};
#[cfg(not(feature = "simulated"))]
pub use std::thread::{Builder, JoinHandle, scope, spawn};

#[cfg(feature = "simulated")]
pub mod simulated;
#[cfg(feature = "simulated")]
pub use simulated::{Builder, Condvar, JoinHandle, Mutex, MutexGuard, mpsc, scope, spawn};
