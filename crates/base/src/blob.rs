//! What a blob of the pool is, in words that the pool, the catalogue and the engine share.

use std::fmt;

use std::collections::BTreeSet;

use crate::{BlobId, ByteCount, DriveId, StripeSetId};

/// The code of a stripe: Reed-Solomon, or locally repairable if it has local parity.
///
/// Written as `4+2`, or `12+2+2` with local parity.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StripeCode {
    /// Data shards a row, at least 1.
    pub data: u8,
    /// Local parity shards a row, each for one of as many groups of the data; 0 for Reed-Solomon.
    pub local: u8,
    /// Parity shards a row that are computed from all data.
    pub global: u8,
}

impl StripeCode {
    /// The most shards that a stripe can have.
    pub const SHARDS_MAX: usize = 255;

    /// Reed-Solomon: any `data` shards give back all others.
    #[must_use]
    pub const fn reed_solomon(data: u8, parity: u8) -> Self {
        StripeCode { data, local: 0, global: parity }
    }

    /// Shards in a stripe.
    #[must_use]
    pub fn width(self) -> usize {
        usize::from(self.data) + self.parity()
    }

    /// Parity shards, local and global.
    #[must_use]
    pub fn parity(self) -> usize {
        usize::from(self.local) + usize::from(self.global)
    }

    /// So many lost shards, whichever they are, cost no data.
    #[must_use]
    pub fn bears(self) -> usize {
        usize::from(self.global) + usize::from(self.local > 0)
    }

    /// What so many bytes of blobs take of the drives, parity included; headers not counted.
    #[must_use]
    pub fn raw(self, bytes: ByteCount) -> ByteCount {
        scaled(bytes, self.width(), self.data.into())
    }

    /// The bytes of blobs that so many bytes of the drives hold.
    #[must_use]
    pub fn of_raw(self, raw: ByteCount) -> ByteCount {
        scaled(raw, self.data.into(), self.width())
    }

    /// Whether there is such a code: data, no more local parity than data, at most
    /// [`StripeCode::SHARDS_MAX`] shards.
    #[must_use]
    pub fn exists(self) -> bool {
        self.data > 0 && self.local <= self.data && self.width() <= Self::SHARDS_MAX
    }
}

/// So many times as much, by a part that is at least one.
fn scaled(bytes: ByteCount, times: usize, part: usize) -> ByteCount {
    let scaled = u128::from(bytes.0) * times as u128 / part.max(1) as u128;
    ByteCount(u64::try_from(scaled).unwrap_or(u64::MAX))
}

impl fmt::Display for StripeCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StripeCode { data, local, global } = self;
        match local {
            0 => f.pad(&format!("{data}+{global}")),
            _ => f.pad(&format!("{data}+{local}+{global}")),
        }
    }
}

/// How the bytes of a blob lie on drives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Layout {
    /// Rows of data cells and parity cells: for everything above the small limit.
    Striped {
        /// Which shards a row has, and what they are worth.
        code: StripeCode,
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
            Layout::Striped { code } => code.width(),
            Layout::Segment { copies } => usize::from(copies),
        }
    }

    /// So many lost shards or copies, whichever they are, cost no data.
    #[must_use]
    pub fn bears(self) -> usize {
        match self {
            Layout::Striped { code } => code.bears(),
            Layout::Segment { copies } => usize::from(copies).saturating_sub(1),
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
    /// The id that its extents have on drives, if it was written anew in another code: those of before are
    /// others. `None`: its own.
    pub stands_as: Option<BlobId>,
    /// How its bytes lie on drives.
    pub layout: Layout,
    /// Its length. 0 for a segment, which may still grow.
    pub length: ByteCount,
    /// The stripe set of each of its stripes in order; a segment has exactly one.
    pub stripes: Vec<StripeSet>,
}

impl BlobDescription {
    /// The id by which drives have its extents, and by which their cells name it.
    #[must_use]
    pub fn extents(&self) -> BlobId {
        self.stands_as.unwrap_or(self.id)
    }

    /// All drives that have something of it.
    #[must_use]
    pub fn drives(&self) -> BTreeSet<DriveId> {
        self.stripes.iter().flat_map(|set| set.drives.iter().copied()).collect()
    }
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

/// Where `length` bytes from `offset` on of the file that these pieces hold lie: pieces in their order, each
/// with where the range begins in it and how many bytes of it are meant. What is behind the last piece is
/// left out.
#[must_use]
pub fn pieces_within(
    pieces: &[BlobPiece],
    offset: ByteCount,
    length: ByteCount,
) -> Vec<(BlobPiece, ByteCount, ByteCount)> {
    let (mut at, end) = (0u64, offset.0.saturating_add(length.0));
    let mut within = Vec::new();
    for piece in pieces {
        let (first, behind) = (at, at.saturating_add(piece.length.0));
        at = behind;
        let (from, to) = (offset.0.max(first), end.min(behind));
        if from < to {
            within.push((*piece, ByteCount(from - first), ByteCount(to - from)));
        }
    }
    within
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_pieces_has_its_bytes_and_no_others() {
        let piece =
            |blob, length| BlobPiece { blob: BlobId(blob), offset: ByteCount(7), length: ByteCount(length) };
        let pieces = [piece(1, 4), piece(2, 1), piece(3, 5)];
        let bytes: Vec<(u64, u64)> =
            pieces.iter().flat_map(|piece| (0..piece.length.0).map(|at| (piece.blob.0, at))).collect();
        for from in 0..=11u64 {
            for length in 0..=11u64 {
                let found = pieces_within(&pieces, ByteCount(from), ByteCount(length));
                let found: Vec<(u64, u64)> = found
                    .into_iter()
                    .flat_map(|(piece, at, length)| (at.0..at.0 + length.0).map(move |at| (piece.blob.0, at)))
                    .collect();
                let end = (from + length).min(10) as usize;
                assert_eq!(found, bytes[(from as usize).min(end)..end], "{length} bytes from {from} on");
            }
        }
    }
}
