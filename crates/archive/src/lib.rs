//! The engine: ingest, migrate, recall, evict. It knows no HTTP and no JSON.

mod api;
mod archive;
mod bell;
mod classes;
mod conductor;
mod download;
mod engine;
mod error;
mod gate;
mod ingest;
mod machines;
mod namespace;
mod operate;
mod requests;
mod seal;
mod select;
mod session;
mod settings;
mod small;
mod sweep;
mod why;

pub use api::*;
pub use archive::Archive;
pub use download::Download;
pub use error::{ArchiveError, OpenError};
pub use ingest::{PutCallback, SMALL_BYTES_MAX, Upload};
pub use machines::{Machines, PoolDrive, create_catalogue};
pub use namespace::LIST_PAGE_MAX;
pub use operate::TAPE_PAGE_MAX;
pub use requests::{REFUSALS_SHOWN_MAX, REQUEST_PAGE_MAX};
pub use seal::PACK_MEMBERS_MAX;
pub use select::SELECTION_PATHS_MAX;
pub use settings::{
    ClassSettings, LibrarySettings, PoolDriveSettings, PoolSettings, Settings, TapePoolSettings, TapeSettings,
};
pub use why::refusal_text;
