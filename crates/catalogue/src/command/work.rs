//! Work that is done in parts.

use base::{ContainerId, DirId, RequestId};

use super::{BULK_FILES, Command};

/// Work that is done in parts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Work {
    /// As [`Command::CancelRequest`].
    CancelRequest(RequestId),
    /// As [`Command::ForgetRequest`].
    ForgetRequest(RequestId),
    /// As [`Command::ExpirePins`].
    ExpirePins,
    /// As [`Command::ExpireIdempotency`].
    ExpireIdempotency,
    /// As [`Command::EvictCold`].
    EvictCold,
    /// As [`Command::TrimChanges`].
    TrimChanges(u64),
    /// As [`Command::DissolvePack`]; also of a pack that is sealed in pieces.
    DissolvePack(ContainerId),
    /// Has files stand in the order of their use that came into the pool before there was that order
    /// ([`Rule::OrderedByUse`](crate::Rule)).
    OrderByUse,
    /// Counts the bytes of the next paths that requests had before they were counted
    /// ([`Rule::PathsCounted`](crate::Rule)).
    CountPaths,
    /// Removes files and directories of a condemned tree, the deepest first: `Outcome::TreeRemoved`.
    RemoveTree(DirId),
}

impl Work {
    /// The command for the next [`BULK_FILES`] items.
    #[must_use]
    pub fn some(self) -> Command {
        Command::DoSome { work: self, most: u32::try_from(BULK_FILES).unwrap_or(u32::MAX) }
    }
}
