//! The pool as a store of blobs.

use std::sync::Arc;

use base::{BlobDescription, BlobPiece, ByteCount};
use blob::{BlobError, BlobFault, BlobSink, BlobSource, BlobStore, NewBlob, TapeFlow, Use};

use crate::{BlobWriter, PieceReader, Pool, PoolBuffer, PoolError, TapeStream};

impl From<PoolError> for BlobError {
    fn from(error: PoolError) -> Self {
        let fault = match &error {
            error if error.is_full() => BlobFault::Full,
            PoolError::Placement(_) | PoolError::WriteLost { .. } => BlobFault::NoPlace,
            PoolError::Unrecoverable { blob, .. } => BlobFault::Unreadable(*blob),
            PoolError::Shortage { .. } => BlobFault::Shortage,
            _ => BlobFault::Other,
        };
        BlobError::new(fault, error)
    }
}

/// A pool, to be handed to those that know a store of blobs.
#[derive(Clone)]
pub struct PoolBlobs(Arc<Pool>);

impl Pool {
    /// This pool as a store of blobs.
    #[must_use]
    pub fn blobs(self: &Arc<Self>) -> PoolBlobs {
        PoolBlobs(Arc::clone(self))
    }
}

impl BlobStore for PoolBlobs {
    fn create(&self, new: NewBlob) -> Result<Box<dyn BlobSink>, BlobError> {
        let NewBlob { length, whose, group } = new;
        Ok(Box::new(self.0.create_on(group, length)?.used_by(whose)))
    }

    fn read(
        &self,
        blob: &BlobDescription,
        piece: &BlobPiece,
        (offset, length): (ByteCount, ByteCount),
        whose: Use,
    ) -> Result<Box<dyn BlobSource>, BlobError> {
        let reader = self.0.read_piece_range(blob, piece, offset, length)?.used_by(whose);
        Ok(Box::new(Source { reader, given: None }))
    }

    fn remove(&self, blob: &BlobDescription) -> Result<(), BlobError> {
        Ok(self.0.remove(blob)?)
    }
}

impl BlobSink for BlobWriter {
    fn write(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        Ok(BlobWriter::write(self, bytes)?)
    }

    fn finish(self: Box<Self>) -> Result<BlobDescription, BlobError> {
        Ok(BlobWriter::finish(*self)?)
    }
}

struct Source {
    reader: PieceReader,
    /// The memory of what was given last.
    given: Option<PoolBuffer>,
}

impl BlobSource for Source {
    fn next(&mut self) -> Result<Option<&[u8]>, BlobError> {
        // Nobody waits for memory of the pool with some in hand.
        self.given = None;
        self.given = self.reader.next()?;
        Ok(self.given.as_ref().map(AsRef::as_ref))
    }
}

impl TapeFlow for TapeStream {
    fn moved(&self, bytes: u64) {
        TapeStream::moved(self, bytes);
    }

    fn set_waiting(&self, waits: bool) {
        TapeStream::set_waiting(self, waits);
    }
}
