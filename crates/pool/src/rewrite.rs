//! Writing a striped blob anew, in the code of today, to the same group of drives or another.

use std::sync::Arc;

use base::{BlobDescription, ByteCount, DriveGroup, StreamChecksums};
use blob::Use;

use crate::error::PoolError;
use crate::pool::Pool;
use crate::write::BlobWriter;

/// About what is read and written in one step.
const STEP_BYTES: u64 = 16 << 20;

/// A blob that is read and written anew, in steps between which it holds no memory of the pool. Whoever has
/// it sees to it that what it reads stays where it was. Dropping it before [`BlobRewrite::finish`] removes
/// what was written.
pub struct BlobRewrite {
    pool: Arc<Pool>,
    blob: BlobDescription,
    writer: BlobWriter,
    /// Of what was read, as it was verified.
    read: StreamChecksums,
}

impl Pool {
    /// Begins to write a striped blob anew, to a group of drives in its code of today, and under another id
    /// on drives; to the catalogue it stays the same blob.
    ///
    /// # Errors
    /// As [`Pool::create`].
    pub fn rewrite(
        self: &Arc<Self>,
        blob: &BlobDescription,
        group: DriveGroup,
    ) -> Result<BlobRewrite, PoolError> {
        let writer = self.create_anew(blob, group)?.with_checksums().used_by(Use::Upkeep);
        let (pool, blob, read) = (Arc::clone(self), blob.clone(), StreamChecksums::default());
        Ok(BlobRewrite { pool, blob, writer, read })
    }
}

impl BlobRewrite {
    /// The blob as it was at the beginning.
    #[must_use]
    pub fn blob(&self) -> &BlobDescription {
        &self.blob
    }

    /// Writes some whole rows, or the rest; how many bytes, `None` at the end.
    ///
    /// # Errors
    /// As [`Pool::read`], [`crate::BlobReader::next`] and [`BlobWriter::write`].
    pub fn step(&mut self) -> Result<Option<ByteCount>, PoolError> {
        let from = self.writer.length();
        let left = self.blob.length.0 - from.0;
        let row = self.writer.row_bytes();
        let step = ByteCount(left.min((STEP_BYTES / row).max(1) * row));
        if step.0 == 0 {
            return Ok(None);
        }
        let reader = self.pool.read(&self.blob, from, step)?.with_checksums();
        let mut reader = reader.used_by(Use::Upkeep);
        while let Some(piece) = reader.next()? {
            let sums = piece.checksums().unwrap_or_else(|| StreamChecksums::of(&piece));
            self.read = self.read.combine(sums, piece.len() as u64);
            self.writer.write(&piece)?;
        }
        assert_eq!(self.writer.length().0, from.0 + step.0, "all that was asked for was read");
        Ok(Some(step))
    }

    /// Ends it when all is written. On return all shards are synced; the blob stands there once the catalogue
    /// has committed the description.
    ///
    /// # Errors
    /// [`PoolError::RewrittenOtherwise`] if other bytes were written than were read; what was written is
    /// removed then, as after all errors of [`BlobWriter::finish`].
    pub fn finish(mut self) -> Result<BlobDescription, PoolError> {
        // Both were computed from the bytes where they were checked against those of the drives, and where
        // they were coded: what lies between is this machine's memory.
        if self.writer.end()? != Some(self.read) {
            return Err(PoolError::RewrittenOtherwise(self.blob.id));
        }
        let anew = self.writer.finish()?;
        assert_eq!((anew.id, anew.length), (self.blob.id, self.blob.length), "it is the same blob");
        assert_ne!(anew.extents(), self.blob.extents(), "what it was stays whole beside it");
        Ok(anew)
    }
}
