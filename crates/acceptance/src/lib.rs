//! An acceptance test of a tape library: what a drive does with a scratch tape, step by step.
//!
//! [`run`] has the robot bring a tape, formats it, writes, reads and moves it, and says of each step whether
//! the drive did what it must, or does not offer it, with figures. *Everything on the tape is destroyed.* The
//! driver is the one that the archive uses, so that what passes here is what it needs. What was written is
//! made of the number of each block, so that a block that comes from somewhere else is told from a damaged
//! one.

mod content;
mod report;
mod run;
mod steps;

pub use report::{AcceptanceReport, DriveFacts, Figure, Step, Unit, Verdict};
pub use run::{Plan, Progress, SecondPath, Subject, run};
