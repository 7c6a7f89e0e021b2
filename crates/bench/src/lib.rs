//! `kist bench`: each figure beside the limit of the machine, measured in the same run.

//!
//! The parts below the server are measured here as libraries, the server over its doors; what else a
//! measurement needs of the program comes through [`Subject`].

// Both panic when nobody reads; see `terminal::output`.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod budgets;
mod cpu;
mod disk;
mod doors;
mod engine;
mod erasure;
mod http;
mod limits;
mod measure;
mod page;
mod raw;
mod rows;
mod s3;
mod schedule;
mod subject;
mod tape;

pub use measure::{Args, run};

/// What other commands that load disks share with `kist bench disk`: which engine, what may be written over,
/// what is said of faults and figures.
pub mod disks {
    pub use crate::disk::{FaultShown, brief, engine, failed, faults, mb, names, warning};
}

pub use subject::{Call, Coded, Subject};
