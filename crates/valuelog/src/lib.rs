//! A log-structured store of keys and values on one disk: on a block device, in a file of fixed size or in a
//! directory. The bytes are in docs/format/value-log.md.

// What comes from the disk is not cast without a look.
#![cfg_attr(not(test), warn(clippy::cast_possible_truncation))]

mod background;
mod buffers;
mod bytes;
mod change;
mod clean;
mod directory;
mod erase;
mod error;
mod figures;
#[doc(hidden)]
pub mod fuzz;
mod index;
mod limits;
mod log;
mod make;
#[doc(hidden)]
pub mod medium;
mod place;
mod raw;
mod read;
mod record;
mod recover;
mod recover_segment;
mod scan;
mod segment;
mod state;
mod superblock;
mod sync;
mod walk;
mod write;

pub use buffers::Value;
pub use change::{Change, Delete, Durability, Expected, Put};
pub use erase::Erase;
pub use error::{Damage, DamageKind, FormatError, LogError, OpenError};
pub use figures::Figures;
pub use limits::{
    BATCH_CHANGES_MAX, BLOCK_BYTES, KEY_BYTES_MAX, Layout, RESERVE_SEGMENTS_MIN, SEGMENT_BYTES_LIMIT,
    SEGMENTS_LIMIT, Settings, TAG_BYTES_MAX, VALUE_BYTES_LIMIT, VERSION_BYTES_MAX,
};
pub use log::ValueLog;
pub use place::Place;
pub use read::{Entry, Metadata};
pub use recover::Recovery;
pub use scan::ScanStep;
pub use walk::{Found, KeyRange};
