//! Pages of segments that hold values which were given up beside others.

use base::BlobId;

/// Pages of a segment that one record of `unneeded` is about.
pub(crate) const PAGES: u32 = 64;

/// A page of a segment, and which of its sectors nobody needs any more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct UnneededSectors {
    /// The segment.
    pub blob: BlobId,
    /// The number of the page of 4096 bytes.
    pub page: u32,
    /// A bit for each sector of 512 bytes, the lowest for the first. None: the page was given back.
    pub sectors: u8,
}

/// The sectors of so many pages.
pub(crate) type Sectors = [u8; PAGES as usize];
