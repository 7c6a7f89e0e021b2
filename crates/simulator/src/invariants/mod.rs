//! What must hold of catalogue, disks and cartridges when nobody works on them.
//!
//! Everything is read from the machines themselves, not through the engine, so that an engine which is
//! mistaken about its own work does not judge itself.

mod catalogue;
mod pool;
mod tapes;
#[cfg(test)]
mod tests;

use std::fmt;

use ::catalogue::{ReadError, View};
use base::ByteCount;

use crate::machines::SimMachines;

pub use self::catalogue::{Descriptor, check_tree};

/// What is broken. The numbers are those of `reliability.md`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Rule {
    /// I1: nothing acknowledged is lost or altered.
    Kept,
    /// I3: each file on a tape belongs to exactly one container and copy.
    TapeEntries,
    /// A tape that nobody is writing to is mounted by any LTFS program.
    IndexPartition,
    /// I4: the copies of a file equal its class.
    Copies,
    /// I6: the change log gives the catalogue anew.
    Replay,
    /// The catalogue's tables and counters agree.
    Catalogue,
    /// Every blob that the catalogue names is in the pool.
    Pool,
    /// Nothing is in the pool that the catalogue does not name.
    Orphans,
    /// No block of a data partition is written over.
    Overwritten,
}

/// One violation: which rule, of which object, where and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// The object and its place.
    pub object: String,
    /// What is wrong with it.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}: {}", self.rule, self.object, self.what)
    }
}

/// Violations found so far.
#[derive(Default)]
pub(crate) struct Found(Vec<Violation>);

impl Found {
    fn add(&mut self, rule: Rule, object: impl fmt::Display, what: impl fmt::Display) {
        self.0.push(Violation { rule, object: object.to_string(), what: what.to_string() });
    }

    fn all_of(&mut self, parts: &[(&str, &Part<'_>)]) {
        for (name, part) in parts {
            if let Err(error) = part(self) {
                self.add(Rule::Catalogue, name, error);
            }
        }
    }

    fn expect(&mut self, holds: bool, rule: Rule, object: impl fmt::Display, what: impl fmt::Display) {
        if !holds {
            self.add(rule, object, what);
        }
    }
}

/// One part of the check.
type Part<'a> = dyn Fn(&mut Found) -> Result<(), ReadError> + 'a;

/// What may be expected of a world.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quiet {
    /// All work is done: everything is sealed, on all its tapes, and under indexes.
    pub is_migrated: bool,
    /// All garbage is swept, and orphans of earlier epochs are removed.
    pub is_swept: bool,
    /// Every shard of every blob is there: nothing was lost, or repair is done.
    pub is_whole: bool,
    /// No block of a tape was damaged by a fault, so that each copy must read back as it was sealed.
    pub has_good_tapes: bool,
    /// No session was given up because drive or tape failed: that leaves a tape for reading, whose index
    /// partition may be old, and an operator may give it back.
    pub has_whole_runs: bool,
    /// Containers may have moved to other tapes, so that old indexes may name what is no copy any more.
    pub may_have_moved: bool,
    /// Bytes of a cell of the pool.
    pub cell_size: ByteCount,
}

impl Quiet {
    /// After a crash and a start: whatever was not acknowledged may be anywhere.
    #[must_use]
    pub fn after_crash(cell_size: ByteCount) -> Self {
        Quiet {
            is_migrated: false,
            is_swept: false,
            is_whole: false,
            has_good_tapes: true,
            has_whole_runs: true,
            may_have_moved: false,
            cell_size,
        }
    }

    /// When everything is done and nothing went wrong with the machines.
    #[must_use]
    pub fn done(cell_size: ByteCount) -> Self {
        Quiet { is_migrated: true, is_swept: true, is_whole: true, ..Quiet::after_crash(cell_size) }
    }
}

/// Checks all rules that need no knowledge of what clients did. Empty if all is well.
#[must_use]
pub fn check_quiet(machines: &SimMachines, quiet: &Quiet) -> Vec<Violation> {
    let snapshot = machines.catalogue().tables().snapshot();
    let view = View::new(&snapshot);
    let mut found = Found::default();
    let parts: [(&str, &Part<'_>); 3] = [
        ("the catalogue", &|found| catalogue::check(&view, found)),
        ("the change log", &|found| catalogue::replay(&snapshot, &view, found)),
        ("the copies", &|found| catalogue::copies(&snapshot, &view, quiet, found)),
    ];
    found.all_of(&parts);
    found.0.extend(check_machines(machines, quiet));
    found.0
}

/// Those of the rules that compare disks and cartridges with the catalogue.
#[must_use]
pub fn check_machines(machines: &SimMachines, quiet: &Quiet) -> Vec<Violation> {
    let snapshot = machines.catalogue().tables().snapshot();
    let view = View::new(&snapshot);
    let mut found = Found::default();
    for overwrite in machines.library().overwrites() {
        let object = format!("cartridge {}, data partition, block {}", overwrite.vid, overwrite.at);
        found.add(Rule::Overwritten, object, format!("written though data ended at {}", overwrite.end));
    }
    let parts: [(&str, &Part<'_>); 2] = [
        ("the tapes", &|found| tapes::check(&snapshot, &view, machines.library(), quiet, found)),
        ("the pool", &|found| pool::check(&snapshot, &view, machines.disks(), quiet, found)),
    ];
    found.all_of(&parts);
    found.0
}

/// The id in a key that is nothing else.
fn id_of(key: &[u8]) -> u64 {
    key.iter().take(8).fold(0, |id, byte| (id << 8) | u64::from(*byte))
}
