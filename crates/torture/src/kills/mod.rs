//! Kills and errors at chosen system calls of the real server, and a comparison with what it acknowledged
//! after each.

mod load;
mod run;

use std::collections::BTreeMap;
use std::path::PathBuf;

pub use run::run;

/// What a run of kills is made of.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The program.
    pub kist: PathBuf,
    /// A directory for instances; must exist.
    pub dir: PathBuf,
    /// Points at which faults shall fire.
    pub points: u64,
    /// All choices follow from it; which thread comes first does not.
    pub seed: u64,
    /// A bug to plant in the server.
    pub planted: Option<String>,
    /// Whether calls fail, instead of the server being killed.
    pub errors: bool,
    /// Instances that are hit at the same time.
    pub workers: u64,
    /// Points on one instance, whose tapes only fill; they are read without Kist when all have fired.
    pub points_per_instance: u64,
    /// What is hit.
    pub only: Only,
}

/// What is hit; all that is not said.
#[derive(Clone, Default, Debug)]
pub struct Only {
    /// One workload, by its name.
    pub load: Option<String>,
    /// Threads whose names begin so.
    pub threads: Option<String>,
}

/// Points on one instance unless something else is said.
pub const POINTS_PER_INSTANCE: u64 = 40;

/// What came of it.
#[derive(Clone, Default, Debug)]
pub struct Report {
    /// Points tried.
    pub tried: u64,
    /// Points at which the fault fired.
    pub fired: u64,
    /// How often, by thread and call.
    pub by_call: BTreeMap<String, u64>,
    /// By workload.
    pub by_load: BTreeMap<&'static str, u64>,
    /// Changes that the server acknowledged.
    pub acknowledged: u64,
    /// Changes of unknown fate.
    pub unknown: u64,
    /// Files read back after faults.
    pub read: u64,
    /// Live files of which each tape pool was found to have exactly one copy.
    pub on_tape: u64,
    /// What was wrong.
    pub violations: Vec<String>,
}

impl Report {
    fn add(&mut self, other: Report) {
        self.tried += other.tried;
        self.fired += other.fired;
        for (call, count) in other.by_call {
            *self.by_call.entry(call).or_default() += count;
        }
        for (load, count) in other.by_load {
            *self.by_load.entry(load).or_default() += count;
        }
        self.acknowledged += other.acknowledged;
        self.unknown += other.unknown;
        self.read += other.read;
        self.on_tape += other.on_tape;
        self.violations.extend(other.violations);
    }
}
