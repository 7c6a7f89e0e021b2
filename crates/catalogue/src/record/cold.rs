//! What leaves the pool by itself, and how far lifecycle rules have come.

use base::FileId;

/// How far a rule of a bucket has come through the files, which are looked at in the order of their ids.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LifecycleCursor {
    /// A digest of the rule; one that was changed begins anew.
    pub rule: [u8; 16],
    /// The last file that was looked at.
    pub through: FileId,
}
