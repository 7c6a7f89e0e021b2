//! Geometry and timing of tape drives, media and robots: where a block stands on a tape, and how long the
//! way to it takes.
//!
//! Pure: no I/O, no clock. All times are what the model says a machine takes, in whole microseconds so that
//! the same inputs give the same plan everywhere. The models are data files, each number with its source:
//! [`drive()`], [`medium()`], [`robot()`].

mod cost;
mod faster;
mod figure;
mod file;
mod fit;
mod geometry;
mod known;
mod listing;
mod locate;
mod map;
mod model;
mod motion;
mod report;
mod robot;
mod tables;
mod timing;
mod track;

pub use cost::IndexWrite;
pub use figure::{Figure, Statement, Unit};
pub use file::{ModelError, Models};
pub use fit::{DriveFit, FittedDrive, LocateFit, LocateSample};
pub use geometry::{Geometry, TapeByte};
pub use known::{UnknownModel, drive, drives, locates, media, medium, robot, robots, same_name, timing};
pub use listing::{NamedFigure, NamedStatement};
pub use locate::LocateCost;
pub use map::{Place, TapeMap};
pub use model::{
    DriveMedium, DriveModel, LocateFigures, MediumModel, RobotModel, UnloadRewind, WrapEndsError,
};
pub use motion::Motion;
pub use report::MotionReport;
pub use robot::{RobotMove, Robots};
pub use tables::reference_tables;
pub use timing::{DriveTiming, RobotTiming};
pub use track::Track;
