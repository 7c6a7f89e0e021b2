//! Which drives hold which shards: the drive map, failure domains and stripe sets. No I/O, no clock, no
//! threads.

mod map;
mod owed;
mod rank;
mod sets;

pub use map::{DriveEntry, DriveMap, DriveState, FailureDomain, MapError};
pub use sets::{PlacementError, SETS_PER_DRIVE, StripeSets};
