//! Bugs planted on purpose, so that the tests which hunt for them prove that they can catch one.
//!
//! Only with the feature `planted`, for which tests alone ask; in every other build [`is_planted`] is `false`
//! at compile time and the wrong path is not in the program.

/// A bug that may be planted. Each is asked for where the code would be wrong with it, and nowhere else.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Bug {
    /// A put is acknowledged before its catalogue commit.
    EarlyAcknowledgement = 1,
    /// A blob's extents are not synced before the commit that names them.
    MissingPoolSync,
    /// A small value's segment is not synced before its commit.
    MissingSegmentSync,
    /// A tape run is committed without the synchronous flush.
    MissingTapeFlush,
    /// A tape copy counts as indexed before its index is written.
    EarlyIndexed,
    /// An index repeats the generation of the one before.
    WrongGeneration,
    /// A container is committed to a tape and queued once more.
    DoubleCommit,
    /// A torn session's blocks are written over instead of being left behind.
    OverwriteTorn,
    /// The block header of a cell is not compared with the place that was asked for.
    UnboundCell,
    /// A cell's checksums are not checked.
    UncheckedCell,
    /// Evict does not ask whether the tape copies are under an index.
    UnsafeEvict,
    /// Garbage is removed without waiting for readers.
    RemoveUnderReaders,
    /// The idempotency key of a put is forgotten.
    ForgottenKey,
    /// The label of a mounted tape is not compared with the catalogue.
    UncheckedLabel,
    /// A request's item is lost when its tape fails.
    LostRequest,
    /// Repack releases the source before its successor is verified.
    EarlyRelease,
    /// A failed sync is tried again and taken for success.
    RetriedSync,
    /// A start believes what it finds in the catalogue's file.
    UnwalkedCatalogue,
    /// After a restore shards are looked for only where the restored catalogue says.
    SettledByOldSets,
    /// After a restore bytes count as there if an extent of their blob is.
    BelievedExtent,
    /// Space of values that were given up is given back without a look at what shares their pages.
    PunchNeighbours,
    /// The log of changes is trimmed although no tape has a base.
    TrimWithoutBase,
    /// A base of the catalogue counts although its tape does not give it back.
    UnreadBase,
    /// What a blob was before it was written anew is removed before the commit that names what it is now.
    EarlyRemoved,
    /// The queue of a drive tells of a sync, or a seal, that it has not done.
    EarlyQueuedSync,
    /// A store of values tells of a sync that it has not done.
    MissingLogSync,
    /// The end of a batch counts although its members are not all there.
    UncheckedBatch,
    /// The table of a segment is believed without its checksum.
    UncheckedFooter,
    /// A tombstone is dropped while a put of its key is still on the disk.
    DroppedTombstone,
    /// A segment is used again before the copies of what was in it are durable.
    EarlySegmentReuse,
    /// What was not synced before a crash counts without a look at its value.
    UncheckedTail,
}

impl Bug {
    /// All bugs.
    pub const ALL: [Bug; 31] = [
        Bug::EarlyAcknowledgement,
        Bug::MissingPoolSync,
        Bug::MissingSegmentSync,
        Bug::MissingTapeFlush,
        Bug::EarlyIndexed,
        Bug::WrongGeneration,
        Bug::DoubleCommit,
        Bug::OverwriteTorn,
        Bug::UnboundCell,
        Bug::UncheckedCell,
        Bug::UnsafeEvict,
        Bug::RemoveUnderReaders,
        Bug::ForgottenKey,
        Bug::UncheckedLabel,
        Bug::LostRequest,
        Bug::EarlyRelease,
        Bug::RetriedSync,
        Bug::UnwalkedCatalogue,
        Bug::SettledByOldSets,
        Bug::BelievedExtent,
        Bug::PunchNeighbours,
        Bug::TrimWithoutBase,
        Bug::UnreadBase,
        Bug::EarlyRemoved,
        Bug::EarlyQueuedSync,
        Bug::MissingLogSync,
        Bug::UncheckedBatch,
        Bug::UncheckedFooter,
        Bug::DroppedTombstone,
        Bug::EarlySegmentReuse,
        Bug::UncheckedTail,
    ];

    /// The bug of this name, as it is written in this enum.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Bug> {
        Bug::ALL.into_iter().find(|bug| format!("{bug:?}") == name)
    }
}

/// Plants the bug of this name in the whole process. Gives whether there is such a bug; always `false` in a
/// build without them.
#[must_use]
pub fn plant_named(name: &str) -> bool {
    #[cfg(feature = "planted")]
    if let Some(bug) = Bug::by_name(name) {
        plant(Some(bug));
        return true;
    }
    let _ = name;
    false
}

/// Whether bugs can be planted in this build.
pub const CAN_PLANT: bool = cfg!(feature = "planted");

#[cfg(feature = "planted")]
mod switch {
    use super::Bug;
    use std::sync::atomic::{AtomicU8, Ordering};

    static PLANTED: AtomicU8 = AtomicU8::new(0);

    /// Plants one bug, or with `None` none, in the whole process.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.store(bug.map_or(0, |bug| bug as u8), Ordering::SeqCst);
    }

    /// Whether this bug is planted.
    #[must_use]
    pub fn is_planted(bug: Bug) -> bool {
        PLANTED.load(Ordering::Relaxed) == bug as u8
    }
}

#[cfg(feature = "planted")]
pub use switch::{is_planted, plant};

/// Whether this bug is planted: never, in this build.
#[cfg(not(feature = "planted"))]
#[must_use]
#[inline(always)]
pub const fn is_planted(_bug: Bug) -> bool {
    false
}
