//! One session between a store of blobs and a tape: volumes and their indexes, writing containers, reading
//! wanted files.
//!
//! The mover streams and checks; it decides nothing, and knows no catalogue and no pool. Its caller makes
//! each intent durable before [`write_containers`], commits after a flush, and says when an index is due.

// Casts that lose something are no way to take what comes from outside; tests may.
#![cfg_attr(not(test), warn(clippy::cast_possible_truncation))]

mod blocks;
mod check;
mod error;
mod label;
mod mend;
mod read;
mod survey;
mod unlock;
mod volume;
mod write;

pub use check::{BlockFault, ContainerOnTape, FAULTS_MAX, ReadBack, read_back, read_piece_of};
pub use error::{MoverError, VolumeError};
pub use label::{Found, check_may_be_labelled, identify};
pub use mend::newest_of_index_partition;
pub use read::{NextBatch, RecallBatch, RecallEnd, RecallFault, Recalled, WantedFile, recall};
pub use survey::{Stray, Stretch, survey};
pub use unlock::{LabelKeys, Shown, check_encrypted_may_be_labelled, shown_key, unlock, unlock_as_shown};
pub use volume::{FileOnTape, Volume};
pub use write::{ContainerPlan, Ended, Part, WriteContext, Written, check_source, write_containers};
