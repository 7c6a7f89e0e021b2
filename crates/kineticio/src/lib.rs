#![cfg_attr(
    not(test),
    warn(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_possible_wrap,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]
//! Clusters of Kinetic drives as libkineticio, the client of EOS, has left them.
//!
//! Pure: no I/O, no clock, no threads. [`read_documents`] reads the three configuration documents, [`Shape`]
//! and [`Placement`] say where the chunks of a key stand, [`BlockRead`] says which entries to ask for and
//! makes the value from what came, or says why it cannot. What is known of these clusters and what is not
//! stands in `docs/reference/kineticio.md`.

mod block;
mod checksum;
mod document;
mod hash;
mod key;
mod shape;
mod version;

pub use block::{Ask, Block, BlockRead, Checked, Damage, Detail, Entry, Found, Outcome, Step, VersionCount};
pub use document::{ClusterDefinition, Document, DocumentError, DriveLogin, read_documents};
pub use hash::murmur3_x86_32;
pub use key::{
    BLOCKS_MAX, BlockNumber, attribute_key, attribute_name, attribute_range, block_number, data_key,
    data_range, handoff_block, handoff_chunk, handoff_data_range, handoff_key, handoff_range, indicator_key,
    metadata_key, metadata_path, metadata_range,
};
pub use shape::{CHUNK_KIB_MAX, DriveIndex, FirstDrive, Placement, Redundancy, Shape, ShapeError};
pub use version::{Version, VersionError};
