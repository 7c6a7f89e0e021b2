//! Disks as a power failure leaves them: an engine on real files is recorded at its system calls, a model
//! says what of them a disk may have lost, torn or reordered at a random moment, and the engine is opened
//! on that.

mod check;
mod disk;
mod engine;
mod record;
mod run;
mod trace;
mod work;

use std::path::PathBuf;

pub use run::run;
pub use work::record_here;

/// What a run over crash images is made of.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The program `recorded`, which carries out a workload.
    pub recorded: PathBuf,
    /// An empty directory, best in memory.
    pub dir: PathBuf,
    /// Histories, each with another seed.
    pub histories: u64,
    /// Images of each.
    pub images: u64,
    /// Of so many images one is also migrated, evicted, staged and read from tape.
    pub full_every: u64,
    /// All choices follow from it, but not the order of the recorded threads.
    pub seed: u64,
    /// A bug to plant in what is recorded.
    pub planted: Option<String>,
    /// Threads that build and check.
    pub workers: u64,
}

/// What came of it.
#[derive(Clone, Default, Debug)]
pub struct Report {
    /// Histories recorded.
    pub histories: u64,
    /// Of them with another sequence of calls than all others.
    pub distinct: u64,
    /// System calls recorded, and syncs among them.
    pub calls: u64,
    /// See above.
    pub syncs: u64,
    /// Images judged.
    pub images: u64,
    /// Of them with the same files as an earlier one of their history, which were not opened once more.
    pub repeated: u64,
    /// Images in which something that was not synced was lost or torn.
    pub lossy: u64,
    /// Of them brought to tape and back.
    pub full: u64,
    /// Files read.
    pub read: u64,
    /// Acknowledged changes before the cuts, summed.
    pub acknowledged: u64,
    /// Seconds of all workers together spent recording, and with images.
    pub recording: f64,
    /// See above.
    pub checking: f64,
    /// What was wrong.
    pub violations: Vec<String>,
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rows = [
            ("histories", self.histories),
            ("distinct histories", self.distinct),
            ("system calls recorded", self.calls),
            ("syncs among them", self.syncs),
            ("images judged", self.images),
            ("the same as an earlier one", self.repeated),
            ("with something lost or torn", self.lossy),
            ("brought to tape and back", self.full),
            ("files read", self.read),
            ("changes acknowledged before the cuts", self.acknowledged),
            ("violations", self.violations.len() as u64),
        ];
        rows.iter().try_for_each(|(what, count)| writeln!(f, "{what:<36} {count:>12}"))?;
        writeln!(f, "{:<36} {:>12.1}", "seconds of workers, recording", self.recording)?;
        writeln!(f, "{:<36} {:>12.1}", "seconds of workers, checking", self.checking)?;
        self.violations.iter().try_for_each(|text| writeln!(f, "VIOLATION {text}"))
    }
}

impl Report {
    fn add(&mut self, other: Report) {
        self.histories += other.histories;
        self.calls += other.calls;
        self.syncs += other.syncs;
        self.images += other.images;
        self.repeated += other.repeated;
        self.lossy += other.lossy;
        self.full += other.full;
        self.read += other.read;
        self.acknowledged += other.acknowledged;
        self.recording += other.recording;
        self.checking += other.checking;
        self.violations.extend(other.violations);
    }
}
