//! The engine: ingest, migrate, recall, evict. It knows no HTTP and no JSON.

mod api;
mod error;
mod settings;

pub use api::*;
pub use error::ArchiveError;
pub use settings::{
    ClassSettings, LibrarySettings, PoolDriveSettings, PoolSettings, Settings, TapePoolSettings, TapeSettings,
};
