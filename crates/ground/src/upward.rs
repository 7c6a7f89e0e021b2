//! What the rooms below ask of the tape room, which stands on them.

use std::collections::BTreeSet;

use base::{ClassId, FileId, TapeKey, Timestamp};
use scheduler::Reason;

use crate::ArchiveError;

/// The tape room, as the rooms below know it.
pub trait Upward: Send + Sync {
    /// Why a file that was asked for is not back from tape yet; `None` if nobody has asked for it.
    fn recall_of(&self, file: FileId) -> Option<Reason>;

    /// Files of a class wait to be sealed once more, the oldest since then.
    fn wait_again(&self, class: ClassId, since: Timestamp) -> Result<(), ArchiveError>;

    /// Asks again for keys of tapes, but for those that were given a moment ago. Afterwards the catalogue
    /// says of each whether it is at hand.
    ///
    /// # Errors
    /// If that cannot be recorded: nothing may be given up then.
    fn ask_for_keys(&self, keys: &BTreeSet<TapeKey>) -> Result<(), ArchiveError>;
}
