//! A store of blobs, as those see it that bring bytes into it and take bytes out of it.
//!
//! The pool is one. Whoever knows this crate alone knows blobs, pieces of them, and where their bytes go: no
//! drive, no stripe, no repair.

mod error;
mod flow;
mod store;

pub use error::{BlobError, BlobFault};
pub use flow::{TapeFlow, Unmetered, Waiting};
pub use store::{BlobSink, BlobSource, BlobStore, NewBlob, Use};
