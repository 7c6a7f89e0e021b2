//! Geometry and timing of tape drives, media and robots: where a block stands on a tape, and how long the
//! way to it takes.
//!
//! Pure: no I/O, no clock. All times are what the model says a machine takes, in whole microseconds so that
//! the same inputs give the same plan everywhere.

mod geometry;
mod locate;
mod map;
mod motion;
mod report;
mod robot;
mod timing;
mod track;

pub use geometry::{Geometry, TapeByte};
pub use locate::LocateCost;
pub use map::{Place, TapeMap};
pub use motion::Motion;
pub use report::MotionReport;
pub use robot::{RobotMove, Robots};
pub use timing::{DriveTiming, RobotTiming};
pub use track::Track;
