//! Statistics of runs: quantiles from a bounded histogram, steady state, means with intervals, comparison.

mod histogram;
mod steady;

pub use histogram::Histogram;
pub use steady::warm_up_bins;
