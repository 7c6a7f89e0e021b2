//! The program that is measured, as far as its doors do not give it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base::Clock;
use client::Client;
use terminal::{Outcome, Progress, Style};

/// Who asks for a measurement, and of what.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// For whom it is written.
    pub style: Style,
    /// What is measured.
    pub subject: &'a dyn Subject,
}

/// How the pool of an instance is coded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Coded {
    /// Drives.
    pub drives: u16,
    /// Data shards.
    pub data: u8,
    /// Parity shards.
    pub parity: u8,
}

/// The program: it makes instances and does as a client what its commands do.
pub trait Subject {
    /// Makes an instance as for a demonstration, whose server takes any port, with the key of its admin
    /// beside it. Coded as usual, if nothing else is said.
    fn make(&self, directory: &Path, coded: Option<Coded>) -> Outcome;

    /// The clock that a server has.
    fn clock(&self) -> Arc<dyn Clock>;

    /// Waits until nothing waits for tape; a failure after `at_most`.
    fn wait(&self, client: &Client, progress: &Progress, at_most: Duration) -> Outcome;

    /// Evicts all files below a path; one that stays is a failure.
    fn evict(&self, client: &Client, path: &str) -> Outcome;

    /// Brings all files below a path back, pinned for a while, and gives their bytes; one that does not come
    /// is a failure.
    fn stage(&self, client: &Client, path: &str, pin: Duration, progress: &Progress) -> Outcome<u64>;
}
