//! Sites that are too large for one world: some of their units are run, and the whole is concluded from them.
//!
//! A model describes one unit: a library or two with tape pools, classes, holdings and workloads. A
//! [`Population`] says how busy each of all units is. [`draw()`] makes one model of a few of them, or of all,
//! under one scheduler, behind one pool and network that are as large as their part of the load;
//! [`observe()`] takes an outcome apart by unit, and [`estimates`] concludes from the units that were run
//! what all of them do, with an interval. [`compare()`] puts this beside runs of all units, which is possible
//! where a unit is small: [`shrunk`] makes one that is.

mod compare;
mod draw;
mod error;
mod estimate;
#[cfg(test)]
#[path = "../../twin/src/fixture.rs"]
mod fixture;
mod observe;
mod population;
mod shrink;
#[cfg(test)]
mod tests;
mod weigh;

pub use compare::{Compared, Deviation, compare};
pub use draw::{Draw, draw};
pub use error::SampleError;
pub use estimate::{Estimated, estimates};
pub use observe::{Amount, Observation, Observed, observe};
pub use population::Population;
pub use shrink::{Shrinking, Shrunk, shrunk};
