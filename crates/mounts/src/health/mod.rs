//! Whether drives and tapes get worse, and whose fault it is: from what is remembered of mounts.
//!
//! [`sample`] takes from each mount what counts, [`pairs`] adds it up for each drive and tape and says what
//! is conspicuous, [`verdict`] says who it speaks against. All of it is computed from values alone.
//! [`book`] keeps the mounts of the last months.

mod book;
mod pairs;
mod sample;
mod verdict;

#[cfg(test)]
mod tests;

pub(crate) use book::HealthBook;
pub use pairs::{PairHealth, Symptom};
pub use sample::MountSample;
pub use verdict::{Badly, HealthReport, HealthRules, Judgement, Partner, Verdict, VerdictReason};
