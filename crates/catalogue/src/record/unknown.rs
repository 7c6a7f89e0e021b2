//! Extents on the pool's drives that nothing in the catalogue names.

use base::{BlobId, DriveId};

/// One extent on one drive. A crashed writer left it, or the catalogue does not know what it should: it is
/// kept for a while.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct UnknownExtent {
    /// The drive that holds it.
    pub drive: DriveId,
    /// Its blob, which the catalogue does not know.
    pub blob: BlobId,
    /// The number of the stripe in the blob.
    pub stripe: u32,
    /// The number of the shard in the stripe.
    pub shard: u8,
}
