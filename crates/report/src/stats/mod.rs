//! Statistics of runs: quantiles from a bounded histogram, steady state, means with intervals, comparison.

mod estimate;
mod figures;
mod histogram;
mod steady;
mod summary;

pub use estimate::{Comparison, Estimate, batch_means, compare, estimate, t_975};
pub(crate) use figures::{COMPLETED, WAIT_99, is_completed};
pub use figures::{Figure, Measured, completion, figures};
pub use histogram::Histogram;
pub use steady::warm_up_bins;
pub use summary::{FigureSummary, Summary, VariantSummary, summary};
