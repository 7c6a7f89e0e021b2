#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::indexing_slicing, clippy::unwrap_used))]
//! The files of a cluster that libkineticio, the client of EOS, has left on Kinetic drives.
//!
//! [`Cluster`] lists them and reads one as a stream ([`FileStream`]), with several blocks ahead in bounded
//! memory. It writes nothing to the drives. What it asks goes through the trait [`Drives`]; [`LinkedDrives`]
//! asks real ones. What the bytes mean is decided in `kineticio`.

mod cluster;
mod drives;
mod first;
mod linked;
mod list;
mod stream;

pub use cluster::{Attribute, Cluster, FileInfo, ImportError};
pub use drives::{Drives, KEYS_PER_ANSWER, Query};
pub use linked::LinkedDrives;
pub use list::DrivesAway;
pub use stream::{AHEAD_BLOCKS_MAX, AHEAD_BYTES_MAX, FileStream, ReadReport};
