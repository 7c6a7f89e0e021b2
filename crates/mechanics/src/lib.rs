//! Geometry and timing of tape drives, media and robots: where a block stands on a tape, and how long the
//! way to it takes.
//!
//! Pure: no I/O, no clock. All times are what the model says a machine takes, in whole microseconds so that
//! the same inputs give the same plan everywhere.

mod locate;
mod map;
mod timing;
mod track;

pub use locate::LocateCost;
pub use map::{Place, TapeMap};
pub use timing::{DriveTiming, RobotTiming};
pub use track::Track;
