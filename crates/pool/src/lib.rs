//! Blobs over object drives: striped large values and replicated small ones, verified on every read.

mod arena;
mod cell;
mod config;
mod drives;
mod error;
mod fetch;
mod gather;
mod geometry;
mod mend;
mod orphan;
mod piece;
mod pool;
mod read;
mod record;
mod segment;
mod shard;
mod small;
mod status;
mod stripe;
mod write;

pub use arena::PoolBuffer;
pub use config::{ConfigError, PoolConfig};
pub use error::PoolError;
pub use orphan::{OrphanCandidate, OrphanCursor, OrphanPage};
pub use piece::PieceReader;
pub use pool::Pool;
pub use read::BlobReader;
pub use status::{DriveHealth, DriveReport, PoolStatus};
pub use write::BlobWriter;
