//! Which drives hold which shards: the drive map, failure domains and stripe sets. No I/O, no clock, no
//! threads.

mod level;
mod map;
mod owed;
mod rank;
mod sets;

pub use level::{DriveFill, Fills, LevellingMove, Share};
pub use map::{DriveEntry, DriveMap, DriveState, FailureDomain, MapError};
pub use sets::{PlacementError, SETS_PER_DRIVE, SetKind, StripeSets};
