//! What the rooms below ask of the tape room, which stands on them.

use base::{ClassId, FileId, Timestamp};
use scheduler::Reason;

use crate::ArchiveError;

/// The tape room, as the rooms below know it.
pub trait Upward: Send + Sync {
    /// Why a file that was asked for is not back from tape yet; `None` if nobody has asked for it.
    fn recall_of(&self, file: FileId) -> Option<Reason>;

    /// Files of a class wait to be sealed once more, the oldest since then.
    fn wait_again(&self, class: ClassId, since: Timestamp) -> Result<(), ArchiveError>;
}
