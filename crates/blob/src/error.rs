//! What can go wrong with a store of blobs.

use std::error::Error;

use base::BlobId;

/// What a failure means to whoever reads and writes blobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlobFault {
    /// There is no room, and nothing else is wrong.
    Full,
    /// Too few places took the bytes: for want of room, or since they fail.
    NoPlace,
    /// The bytes of this blob cannot be had now, as far as the store knows.
    Unreadable(BlobId),
    /// The machine lacks something: nothing is known of the bytes.
    Shortage,
    /// Something else.
    Other,
}

/// A failure, in the words of the store.
#[derive(Debug, thiserror::Error)]
#[error("{source}")]
pub struct BlobError {
    /// What it means.
    pub fault: BlobFault,
    source: Box<dyn Error + Send + Sync>,
}

impl BlobError {
    /// The store's own error, and what it means.
    pub fn new(fault: BlobFault, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        BlobError { fault, source: source.into() }
    }
}
