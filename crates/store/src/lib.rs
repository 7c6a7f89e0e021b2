//! The catalogue's embedded engine and its single writer.

mod error;
mod store;

pub use error::{ExecuteError, OpenError};
pub use store::{BATCH_MAX, CatalogueStore, QUEUE_MAX, StoreOptions};
