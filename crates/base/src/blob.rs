//! What a blob of the pool is, in words that the pool, the catalogue and the engine share.

use crate::{BlobId, ByteCount, DriveId, StripeSetId};

/// How the bytes of a blob lie on drives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Layout {
    /// Rows of `data` cells and `parity` cells (Reed-Solomon): for everything above the small limit.
    Striped {
        /// Data shards a row, at least 1.
        data: u8,
        /// Parity shards a row.
        parity: u8,
    },
    /// A shared log segment of small values, the same bytes on `copies` drives.
    Segment {
        /// Drives that hold the segment; one more than the losses it survives.
        copies: u8,
    },
}

impl Layout {
    /// Drives in each stripe set of this layout.
    #[must_use]
    pub fn width(self) -> usize {
        match self {
            Layout::Striped { data, parity } => usize::from(data) + usize::from(parity),
            Layout::Segment { copies } => usize::from(copies),
        }
    }
}

/// An ordered list of distinct drives; shard `i` of a stripe lies on drive `i`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct StripeSet {
    /// The set's id; one id always means the same drives.
    pub id: StripeSetId,
    /// The drives, data shards first.
    pub drives: Vec<DriveId>,
}

/// All that is needed to read a blob.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct BlobDescription {
    /// The blob.
    pub id: BlobId,
    /// How its bytes lie on drives.
    pub layout: Layout,
    /// Its length. 0 for a segment, which may still grow.
    pub length: ByteCount,
    /// The stripe set of each of its stripes in order; a segment has exactly one.
    pub stripes: Vec<StripeSet>,
}

/// A range of a blob that holds (a part of) a file's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BlobPiece {
    /// The blob.
    pub blob: BlobId,
    /// The first byte within the blob. For a segment: the offset of the value's record, header included.
    pub offset: ByteCount,
    /// Bytes of the file in this piece.
    pub length: ByteCount,
}
