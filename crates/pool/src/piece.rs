//! Reading a piece, whatever its blob's layout.

use std::sync::Arc;

use base::{BlobDescription, BlobPiece, ByteCount, Layout};

use crate::{BlobReader, Pool, PoolBuffer, PoolError, Use};

/// Reads a range of a piece: of a striped blob row by row, of a segment the one value.
pub enum PieceReader {
    /// Of a striped blob.
    Striped(BlobReader),
    /// A small value, already read; `None` once it was given out.
    Small(Option<PoolBuffer>),
}

impl PieceReader {
    /// Says for whom it reads, before the first bytes. A small value has been read already.
    #[must_use]
    pub fn used_by(self, whose: Use) -> Self {
        match self {
            PieceReader::Striped(reader) => PieceReader::Striped(reader.used_by(whose)),
            small @ PieceReader::Small(_) => small,
        }
    }

    /// Has the checksums of large pieces computed where they are verified, for [`PoolBuffer::checksums`].
    #[must_use]
    pub fn with_checksums(self) -> Self {
        match self {
            PieceReader::Striped(reader) => PieceReader::Striped(reader.with_checksums()),
            small @ PieceReader::Small(_) => small,
        }
    }

    /// The next verified bytes; `None` at the end.
    ///
    /// # Errors
    /// As [`BlobReader::next`].
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<PoolBuffer>, PoolError> {
        match self {
            PieceReader::Striped(reader) => reader.next(),
            PieceReader::Small(value) => Ok(value.take()),
        }
    }
}

impl Pool {
    /// Reads all bytes of a piece.
    ///
    /// # Errors
    /// As [`Pool::read`] and [`Pool::read_small`].
    pub fn read_piece(
        self: &Arc<Self>,
        blob: &BlobDescription,
        piece: &BlobPiece,
    ) -> Result<PieceReader, PoolError> {
        self.read_piece_range(blob, piece, ByteCount(0), piece.length)
    }

    /// Reads `length` bytes from `offset` on within a piece.
    ///
    /// # Errors
    /// As [`Pool::read`] and [`Pool::read_small`]; [`PoolError::OutOfRange`] if the range leaves the piece.
    pub fn read_piece_range(
        self: &Arc<Self>,
        blob: &BlobDescription,
        piece: &BlobPiece,
        offset: ByteCount,
        length: ByteCount,
    ) -> Result<PieceReader, PoolError> {
        let end = offset.0.checked_add(length.0).filter(|end| *end <= piece.length.0);
        let Some(end) = end else {
            return Err(PoolError::OutOfRange { blob: blob.id, offset, length, blob_length: piece.length });
        };
        match blob.layout {
            Layout::Striped { .. } => {
                let from = ByteCount(piece.offset.0.saturating_add(offset.0));
                self.read(blob, from, length).map(PieceReader::Striped)
            }
            Layout::Segment { .. } => {
                let value = self.read_small(blob, piece)?;
                let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
                let (from, to) = (index(offset.0), index(end));
                Ok(PieceReader::Small(Some(value.slice(from..to))))
            }
        }
    }
}
