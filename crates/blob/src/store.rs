//! The store.

use base::{BlobDescription, BlobPiece, ByteCount, DriveGroup};

use crate::BlobError;

/// For whom a blob is read or written.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Use {
    /// The engine itself: neither held back nor preferred.
    #[default]
    Engine,
    /// A client: held back while a tape stream starves.
    Client,
    /// A tape stream: its memory is had before that of others.
    Stream,
    /// What keeps the pool whole and level, such as a rebuild: at each drive clients go before it, but for a
    /// share.
    Upkeep,
}

/// A blob that is to be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewBlob {
    /// The most bytes that it will have, for which room is kept; `None` if nobody knows.
    pub length: Option<ByteCount>,
    /// For whom.
    pub whose: Use,
    /// The drives to which it goes, if they have room for it.
    pub group: DriveGroup,
}

/// A store of immutable blobs. Calls block, and may be made from many threads.
pub trait BlobStore: Send + Sync {
    /// Begins a blob.
    ///
    /// # Errors
    /// [`BlobError`], of any kind but [`crate::BlobFault::Unreadable`].
    fn create(&self, new: NewBlob) -> Result<Box<dyn BlobSink>, BlobError>;

    /// Reads a range, as offset and length, within a piece; reads ahead of what is asked for as it sees fit.
    ///
    /// # Errors
    /// [`BlobError`]: [`crate::BlobFault::Shortage`], [`crate::BlobFault::Unreadable`]; another if blob,
    /// piece and range contradict each other.
    fn read(
        &self,
        blob: &BlobDescription,
        piece: &BlobPiece,
        range: (ByteCount, ByteCount),
        whose: Use,
    ) -> Result<Box<dyn BlobSource>, BlobError>;

    /// Removes a blob that the catalogue names no more. May be repeated.
    ///
    /// # Errors
    /// [`BlobError`]; then it is to be removed again.
    fn remove(&self, blob: &BlobDescription) -> Result<(), BlobError>;
}

/// Takes the bytes of a blob in order. Dropped before [`BlobSink::finish`] it leaves nothing.
pub trait BlobSink: Send {
    /// Takes bytes; nothing is durable yet.
    ///
    /// # Errors
    /// As [`BlobStore::create`]; the sink is of no use then.
    fn write(&mut self, bytes: &[u8]) -> Result<(), BlobError>;

    /// Ends the blob. On return its bytes are durable, and it is once the catalogue has committed the
    /// description.
    ///
    /// # Errors
    /// As [`BlobSink::write`]; what was written is removed then.
    fn finish(self: Box<Self>) -> Result<BlobDescription, BlobError>;
}

/// Gives the bytes of a piece in order, each verified before it is given.
pub trait BlobSource: Send {
    /// The next bytes, which stay until the next call; `None` at the end. What was given before is given back
    /// first, so that nothing is held while more is waited for.
    ///
    /// # Errors
    /// As [`BlobStore::read`]; the source is of no use then.
    fn next(&mut self) -> Result<Option<&[u8]>, BlobError>;
}
