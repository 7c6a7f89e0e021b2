//! LTFS volumes and tar packs as values and bytes. No I/O, no clock: bytes come in, values go out, and back.
//!
//! The formats are spelled out in `docs/format/tape.md`.

pub mod catalogue_base;
pub mod changes;
pub mod coherency;
pub mod index;
mod index_parse;
pub mod label;
pub mod naming;
pub mod pack;
mod seal;
mod text;
mod time;
pub mod tree;
mod xml;

pub use index::{INDEX_BYTES_MAX, INDEX_ENTRIES_MAX, Index, IndexError, VolumeLock};
pub use label::{BlockSize, LabelError, VOL1_BYTES, Vol1Error, Vol1Label, VolumeLabel};
pub use tree::{Directory, Entry, Extent, File, FileUid, InsertError, Times, Tree};
pub use xml::XmlError;

/// How Kist names itself in labels and indexes: product, version, platform, program.
pub const CREATOR: &str = concat!("Kist ", env!("CARGO_PKG_VERSION"), " - Linux - kist");
