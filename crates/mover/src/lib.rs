//! One session between the pool and a tape: volumes and their indexes, writing containers, reading wanted
//! files.
//!
//! The mover streams and checks; it decides nothing and knows no catalogue. Its caller makes each intent
//! durable before [`write_containers`], commits after a flush, and says when an index is due.

mod blocks;
mod error;
mod read;
mod volume;
mod write;

pub use error::{MoverError, VolumeError};
pub use read::{RecallBatch, RecallEnd, RecallFault, RecallLimits, Recalled, WantedFile, recall};
pub use volume::{FileOnTape, Found, Volume, identify};
pub use write::{ContainerPlan, Ended, Part, WriteContext, Written, write_containers};
