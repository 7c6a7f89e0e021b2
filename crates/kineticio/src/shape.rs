//! How a value is cut into chunks, and on which drives they stand.

use crate::hash::murmur3_x86_32;

/// The largest chunk, in KiB: a value of Kinetic has at most 1 MiB.
pub const CHUNK_KIB_MAX: u32 = 1024;
const KIB: u64 = 1024;

/// The place of a drive in the list of its cluster, which never changes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DriveIndex(pub usize);

/// A shape that no cluster can have.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// `numData`.
    #[error("it is at least 1")]
    NoData,
    /// Together.
    #[error("{chunks} chunks of a stripe need as many drives, and the cluster has {drives}")]
    TooFewDrives {
        /// Data and parity.
        chunks: usize,
        /// In the list.
        drives: usize,
    },
    /// A code over GF(2^8) has at most 255.
    #[error("a stripe has at most {} chunks", erasure::MAX_SHARDS)]
    TooManyChunks,
    /// `chunkSizeKB`.
    #[error("it is 1 to {CHUNK_KIB_MAX}")]
    ChunkSize,
}

/// How the chunks of a key make its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Redundancy {
    /// Blocks of files: stripes of data and parity.
    Coded,
    /// Metadata and attributes: the same value on one drive and as many more as there are parities.
    Replicated,
}

/// `numData`, `numParity` and `chunkSizeKB` of a cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    data: usize,
    parity: usize,
    chunk_bytes: u64,
}

impl Shape {
    /// Checks it.
    ///
    /// # Errors
    /// If no cluster can have it.
    pub fn new(data: usize, parity: usize, chunk_kib: u32, drives: usize) -> Result<Self, ShapeError> {
        if data == 0 {
            return Err(ShapeError::NoData);
        }
        let chunks = data.saturating_add(parity);
        if chunks > erasure::MAX_SHARDS {
            return Err(ShapeError::TooManyChunks);
        }
        if chunks > drives {
            return Err(ShapeError::TooFewDrives { chunks, drives });
        }
        if !(1..=CHUNK_KIB_MAX).contains(&chunk_kib) {
            return Err(ShapeError::ChunkSize);
        }
        Ok(Shape { data, parity, chunk_bytes: u64::from(chunk_kib) * KIB })
    }

    /// Data chunks of a value.
    #[must_use]
    pub fn data(&self, redundancy: Redundancy) -> usize {
        match redundancy {
            Redundancy::Coded => self.data,
            Redundancy::Replicated => 1,
        }
    }

    /// Parity chunks, or further copies.
    #[must_use]
    pub fn parity(&self) -> usize {
        self.parity
    }

    /// All chunks of a value.
    #[must_use]
    pub fn chunks(&self, redundancy: Redundancy) -> usize {
        self.data(redundancy) + self.parity
    }

    /// Most bytes of a chunk.
    #[must_use]
    pub fn chunk_bytes(&self) -> u64 {
        self.chunk_bytes
    }

    /// Bytes of every block of a file but the last.
    #[must_use]
    pub fn block_bytes(&self) -> u64 {
        self.chunk_bytes * self.data as u64
    }
}

/// Which drive has the first chunk of a key. libkineticio's source counts one up before it takes the first
/// drive; what was published about it says that it does not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FirstDrive {
    /// The one that the hash says.
    Hash,
    /// The one behind it.
    AfterHash,
}

impl FirstDrive {
    fn offset(self) -> usize {
        match self {
            FirstDrive::Hash => 0,
            FirstDrive::AfterHash => 1,
        }
    }
}

/// Where the chunks of keys stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placement {
    /// Drives of the cluster.
    pub drives: usize,
    /// See there.
    pub first: FirstDrive,
}

impl Placement {
    /// The drive of a chunk.
    #[must_use]
    pub fn drive(&self, key: &[u8], chunk: usize) -> DriveIndex {
        let hash = murmur3_x86_32(key, 0) as usize;
        DriveIndex((hash % self.drives + self.first.offset() + chunk) % self.drives)
    }

    /// How far behind the drive of the key's hash a drive is.
    #[must_use]
    pub fn distance(drives: usize, key: &[u8], drive: DriveIndex) -> usize {
        let hash = murmur3_x86_32(key, 0) as usize % drives;
        (drive.0 % drives + drives - hash) % drives
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_at_their_limits() {
        let new = Shape::new;
        assert_eq!(new(0, 1, 1, 9).unwrap_err(), ShapeError::NoData);
        assert_eq!(new(4, 2, 1, 5).unwrap_err(), ShapeError::TooFewDrives { chunks: 6, drives: 5 });
        assert_eq!(new(250, 6, 1, 999).unwrap_err(), ShapeError::TooManyChunks);
        assert_eq!(new(4, 2, 0, 6).unwrap_err(), ShapeError::ChunkSize);
        assert_eq!(new(4, 2, 1025, 6).unwrap_err(), ShapeError::ChunkSize);
        let shape = new(16, 4, 1024, 20).unwrap();
        assert_eq!(shape.block_bytes(), 16 << 20);
        assert_eq!((shape.chunks(Redundancy::Coded), shape.chunks(Redundancy::Replicated)), (20, 5));
    }

    #[test]
    fn chunks_stand_on_consecutive_drives() {
        let key = b"C:data:a_0000000000";
        for first in [FirstDrive::Hash, FirstDrive::AfterHash] {
            let placement = Placement { drives: 7, first };
            for chunk in 0..7 {
                let drive = placement.drive(key, chunk);
                assert_eq!(Placement::distance(7, key, drive), (chunk + first.offset()) % 7);
            }
        }
    }
}
