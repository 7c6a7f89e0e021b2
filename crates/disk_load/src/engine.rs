//! A load on one file or device, by one of two engines.

use std::fmt;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::measured::{FAULTS_MAX, Fault, Measured};
use crate::stamp::{self, Stamp};
use crate::workload::{Operation, Workload};
use crate::{blocking, uring};

/// Operations under way at once, on one file or device.
pub const DEPTH_MAX: u32 = 256;

/// How reads and writes are ordered from the system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Engine {
    /// One thread and a queue of the kernel's, `io_uring`.
    IoUring,
    /// As many threads as operations under way, each with `pread` and `pwrite`.
    Threads,
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Engine::IoUring => "io_uring",
            Engine::Threads => "threads",
        })
    }
}

/// Why an engine does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The kernel has no io_uring, or does not let this process use it.
    #[error("the kernel refuses io_uring: {0}; take the engine of threads")]
    NoIoUring(io::Error),
    /// The queue broke while operations were under way.
    #[error("the queue of io_uring failed: {0}; take the engine of threads")]
    Queue(io::Error),
    /// A thread could not be started.
    #[error("a thread for I/O cannot be started: {0}; ask for fewer operations at once")]
    Thread(io::Error),
    /// Too many, or none, at once.
    #[error("{0} operations at once cannot be: from 1 to {DEPTH_MAX} can")]
    Depth(u32),
}

/// Until when a load goes on.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// So long.
    Time(Duration),
    /// So many operations.
    Operations(u64),
}

/// What a load writes and expects to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Contents {
    /// Nothing is known of what is there: reads are not checked. What is written has the stamp of this run.
    Unverified(Stamp),
    /// Every page has the stamp of this run.
    Stamped(Stamp),
    /// Every byte follows from the stamp of this run and its place.
    Painted(Stamp),
}

impl Contents {
    /// Makes a block ready to be written there, or to be read into.
    pub(crate) fn prepare(self, operation: Operation, block: &mut [u8]) {
        match self {
            Contents::Unverified(_) if !operation.is_write => {}
            _ if !operation.is_write => stamp::clear(block),
            Contents::Unverified(stamp) | Contents::Stamped(stamp) => stamp.put(block, operation.offset),
            Contents::Painted(stamp) => stamp.paint(block, operation.offset),
        }
    }

    /// What is wrong with a block that was read.
    pub(crate) fn check(self, operation: Operation, block: &[u8]) -> Result<(), Fault> {
        let checked = match self {
            _ if operation.is_write => Ok(()),
            Contents::Unverified(_) => Ok(()),
            Contents::Stamped(stamp) => stamp.check(block, operation.offset),
            Contents::Painted(stamp) => stamp.check_painted(block, operation.offset),
        };
        checked.map_err(Fault::Data)
    }
}

/// A load on one file or device.
#[derive(Debug)]
pub struct Load<'a> {
    /// The file, opened for direct I/O or not, for writing if the workload writes.
    pub file: &'a File,
    /// What is read and written.
    pub workload: Workload,
    /// What stands in it.
    pub contents: Contents,
    /// Operations under way at once.
    pub depth: u32,
    /// When it ends.
    pub until: Until,
    /// Ends it early.
    pub stop: &'a AtomicBool,
}

/// Whether an engine can be used here.
///
/// # Errors
/// [`EngineError::NoIoUring`].
pub fn is_usable(engine: Engine) -> Result<(), EngineError> {
    match engine {
        Engine::IoUring => uring::probe(),
        Engine::Threads => Ok(()),
    }
}

/// Carries a load out. Operations that fail are counted among its faults and do not end it, unless there are
/// [`FAULTS_MAX`] of them.
///
/// # Errors
/// If the engine cannot run; never because of the file.
pub fn run(engine: Engine, load: Load<'_>) -> Result<Measured, EngineError> {
    if !(1..=DEPTH_MAX).contains(&load.depth) {
        return Err(EngineError::Depth(load.depth));
    }
    match engine {
        Engine::IoUring => uring::run(load),
        Engine::Threads => blocking::run(&load),
    }
}

/// Whether more is to be ordered.
#[derive(Debug)]
pub(crate) struct Budget<'a> {
    left: Option<u64>,
    end: Option<Instant>,
    stop: &'a AtomicBool,
}

impl<'a> Budget<'a> {
    pub(crate) fn new(until: Until, begun: Instant, stop: &'a AtomicBool) -> Budget<'a> {
        let (left, end) = match until {
            Until::Time(span) => (None, begun.checked_add(span)),
            Until::Operations(count) => (Some(count), None),
        };
        Budget { left, end, stop }
    }

    /// Takes an operation, if one more is to be ordered.
    pub(crate) fn take(&mut self, now: Instant, faults: u64) -> bool {
        let is_over = self.stop.load(Ordering::Relaxed)
            || faults >= FAULTS_MAX
            || self.end.is_some_and(|end| now >= end)
            || self.left == Some(0);
        if !is_over && let Some(left) = &mut self.left {
            *left -= 1;
        }
        !is_over
    }
}
