//! What can go wrong with a pool.

use std::sync::Arc;

use base::{BlobId, ByteCount, DriveId, Epoch};
use cluster::PlacementError;
use drive::DriveError;
use erasure::CodecError;

use crate::config::ConfigError;

/// Why an operation of the pool failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// The settings are no use.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A drive was given that the drive map lacks, or twice, or under another id.
    #[error("drive {0} is given twice, not in the drive map, or reports another id; check the configuration")]
    DriveList(DriveId),
    /// A drive has seen this epoch or a later one: the catalogue is older than the drives.
    #[error("drive {drive} was written in epoch {found}, this is epoch {given}; open with a later epoch")]
    EpochUsed {
        /// The drive.
        drive: DriveId,
        /// What its superblock says.
        found: Epoch,
        /// What the pool was opened with.
        given: Epoch,
    },
    /// All blob ids of this epoch are used up.
    #[error("epoch {0} is above 2^24-1 or has no blob ids left; start the next epoch")]
    IdsExhausted(Epoch),
    /// No stripe set can take the data: too few drives are up. Nothing was written.
    #[error("the write is refused: {0}")]
    Placement(#[from] PlacementError),
    /// Enough drives are up, and too few of them have room. Nothing was written.
    #[error(
        "the pool is full: {writable} of its drives have room for new data, {width} are needed; remove or \
         evict files, or add drives"
    )]
    Full {
        /// Drives that are needed.
        width: usize,
        /// Drives that take new data.
        writable: usize,
    },
    /// More drives failed under a blob being written than its parity bears.
    #[error(
        "blob {blob}, stripe {stripe}: {lost} shards failed while writing, {borne} are borne for certain; \
         write it again"
    )]
    WriteLost {
        /// The blob.
        blob: BlobId,
        /// The stripe.
        stripe: u32,
        /// Shards that failed.
        lost: usize,
        /// So many are borne, whichever they are.
        borne: usize,
    },
    /// The writer of a blob had an error before, or was told that it has all bytes, and takes no more.
    #[error("blob {0}: writing failed or ended before; write the file again")]
    WriterFailed(BlobId),
    /// The reader of a blob had an error before and gives no more.
    #[error("blob {0}: reading failed before; begin a new read")]
    ReaderFailed(BlobId),
    /// One drive refused an operation that cannot be done elsewhere.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// The erasure code refused.
    #[error("blob coding failed: {0}")]
    Code(#[from] CodecError),
    /// A small value is above the limit.
    #[error("a value of {length} is above the small limit of {limit}; store it striped")]
    TooLarge {
        /// The value.
        length: ByteCount,
        /// The limit.
        limit: ByteCount,
    },
    /// The range does not lie within the blob.
    #[error("blob {blob} has {blob_length:?}; the range at {offset:?} of {length:?} is not within")]
    OutOfRange {
        /// The blob.
        blob: BlobId,
        /// Where the range begins.
        offset: ByteCount,
        /// How long it is.
        length: ByteCount,
        /// How long the blob is.
        blob_length: ByteCount,
    },
    /// The description contradicts itself or the operation (stripes, widths, layout).
    #[error("the description of blob {0} does not fit its layout or this operation; check the catalogue")]
    Description(BlobId),
    /// Too many shards or copies are lost or damaged.
    #[error(
        "blob {blob}: bytes {offset:?} to +{length:?} are lost: what is readable, {found} shards or copies \
         where at least {needed} are needed, does not determine them; bring drives back or recall a copy"
    )]
    Unrecoverable {
        /// The blob.
        blob: BlobId,
        /// The first byte that could not be read.
        offset: ByteCount,
        /// Bytes of the row or value that are affected.
        length: ByteCount,
        /// Shards or copies that could be read.
        found: usize,
        /// How many are needed at least; in a locally repairable code it depends on which they are.
        needed: usize,
    },
    /// This machine lacks file descriptors or memory: whether the bytes are there is not known.
    #[error("blob {blob} cannot be read for the moment: {reason}: raise the limit (ulimit -n), or try again")]
    Shortage {
        /// The blob.
        blob: BlobId,
        /// What is short.
        reason: String,
    },
    /// A drive cannot be put in or taken out.
    #[error("drive {drive}: {reason}")]
    DriveState {
        /// The drive.
        drive: DriveId,
        /// Why not, and what to do.
        reason: String,
    },
    /// The segment still takes small values and cannot be removed.
    #[error("segment {0} is still being written; remove it after it was sealed")]
    SegmentOpen(BlobId),
    /// The layout of a stored blob needs more memory for a row than the arena has.
    #[error(
        "blob {blob}: a row needs {needed} cell buffers, the arena's share is {available}; enlarge the arena"
    )]
    ArenaTooSmall {
        /// The blob.
        blob: BlobId,
        /// Buffers needed at once.
        needed: usize,
        /// Buffers there are.
        available: usize,
    },
    /// The group commit that a small value took part in failed.
    #[error("small values could not be committed: {0}")]
    GroupCommit(Arc<PoolError>),
    /// An extent of the current epoch is no orphan.
    #[error("blob {0} is of the current epoch and may be in use; it is no orphan")]
    NotAnOrphan(BlobId),
    /// A blob that was written anew has other bytes than were read.
    #[error(
        "blob {0} was not written anew: what was written is not what was read. Nothing was changed; test \
         this machine's memory"
    )]
    RewrittenOtherwise(BlobId),
    /// What was written anew is not whole where it was written.
    #[error("blob {blob} was not written anew, and is as it was: {what}")]
    WrittenAnewLacks {
        /// The blob.
        blob: BlobId,
        /// Why.
        what: &'static str,
    },
    /// The pool was closed.
    #[error("the pool is closed")]
    Closed,
}

impl PoolError {
    /// Nothing failed but that drives have no room.
    #[must_use]
    pub fn is_full(&self) -> bool {
        match self {
            PoolError::Full { .. } => true,
            PoolError::Drive(error) => error.is_full(),
            PoolError::GroupCommit(error) => error.is_full(),
            _ => false,
        }
    }
}
