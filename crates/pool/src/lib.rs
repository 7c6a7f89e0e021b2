//! Blobs over object drives: striped large values and replicated small ones, verified on every read.

// Casts that lose something are no way to take what comes from outside; tests may.
#![cfg_attr(not(test), warn(clippy::cast_possible_truncation))]

mod arena;
mod blobs;
mod cell;
mod code;
mod config;
mod drives;
mod error;
mod fetch;
#[doc(hidden)]
pub mod fuzz;
mod gather;
mod gathering;
mod geometry;
mod groups;
mod hedge;
mod holes;
mod lane;
mod level;
mod look;
mod mend;
mod order;
mod orphan;
mod pacer;
mod piece;
mod places;
mod pool;
mod queue;
mod read;
mod reading;
mod record;
mod repair;
mod repair_room;
mod repair_rows;
mod rewrite;
mod scrub;
mod segment;
mod segment_repair;
mod shard;
mod slow;
mod small;
mod small_read;
mod small_runs;
mod space;
mod status;
mod stripe;
mod traffic;
mod upkeep;
mod watch;
mod write;

pub use arena::PoolBuffer;
pub use blob::Use;
pub use blobs::PoolBlobs;
pub use cell::CellDamage;
pub use code::{survives, survives_one_more};
pub use config::{ConfigError, GROUPS_MAX, PoolConfig};
pub use error::PoolError;
pub use gathering::GatheringReport;
pub use groups::GroupRoom;
pub use holes::{GivenBack, Unneeded, sectors_of};
pub use look::{Depth, Lacking, PieceState};
pub use orphan::{OrphanCandidate, OrphanCursor, OrphanPage, is_written_anew};
pub use pacer::{CLIENT_FLOOR, CLIENT_FLOOR_PART, Observation, PACE_STEP, Pacer, StreamSample, UNDERFED};
pub use piece::PieceReader;
pub use pool::Pool;
pub use read::BlobReader;
pub use repair::{LostRow, MovedStripe, Repaired};
pub use rewrite::BlobRewrite;
pub use scrub::{BadShard, Fault, Finding, ScrubReport};
pub use status::{DriveHealth, DriveReport, DriveSpace, PoolStatus};
pub use traffic::{Feeding, TapeStream};
pub use upkeep::BadSuperblock;
pub use write::BlobWriter;
