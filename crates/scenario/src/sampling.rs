//! How a site that is too large for one world is sampled.

/// The fewest units that are run: a line through fewer points than these leaves nothing to judge it by.
pub const RUN_MIN: u32 = 4;
/// The largest spread: the busiest units of a hundred do some hundred times what the median does.
pub const SPREAD_MAX: f64 = 2.0;

/// How a site is sampled.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sampling {
    /// Units that there are.
    pub units: u32,
    /// Units that are run: at least [`RUN_MIN`], at most all.
    pub run: u32,
    /// Standard deviation of the logarithm of the units' load, 0 to [`SPREAD_MAX`].
    pub spread: f64,
    /// Decides which units are busier.
    pub seed: u64,
}
