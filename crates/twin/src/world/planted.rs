//! Bugs that are planted on purpose, to see that they are found.

use super::World;

/// A bug.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Planted {
    /// After a restart the scheduler is not told of one file that is wanted.
    ForgetAtRestart,
    /// A file counts as having its copies as soon as it is put.
    EvictUnsafe,
    /// A container that was written stays in its queue.
    WriteTwice,
    /// The scheduler is not told that a file was read.
    LoseNotWanted,
    /// Somebody who waits is told twice.
    ServeTwice,
    /// A wanted file whose session ends with a broken drive is forgotten.
    ForgetAtDriveLoss,
    /// The scheduler is not told of drives that ask to be cleaned.
    ForgetDirtyDrives,
}

impl World<'_> {
    /// Whether the bug is to strike now: once in a run.
    pub(super) fn is_planted(&mut self, bug: Planted, _object: usize) -> bool {
        let strikes = self.planted == Some(bug) && !self.has_struck;
        self.has_struck |= strikes;
        strikes
    }
}
