//! Why a site cannot be sampled.

/// Why a site cannot be sampled.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SampleError {
    /// Too few units, or more than there are.
    #[error(
        "{run} of {units} units cannot be run: run {least} of them at least and all at most (sample.run)"
    )]
    Run {
        /// What was asked for.
        run: u32,
        /// Units that there are.
        units: u32,
        /// The fewest.
        least: u32,
    },
    /// What was recorded cannot be made more or less.
    #[error(
        "workload '{workload}' is a recorded one, and cannot be {times} times as much: describe it in \
         another way, or sample with spread = 0 and without a smaller scale"
    )]
    Recorded {
        /// Its name.
        workload: String,
        /// How much it should have been, for people.
        times: String,
    },
    /// A scale of 0.
    #[error("a unit cannot be divided by 0: give a scale of 1 or more")]
    Scale,
    /// Too much for one world.
    #[error("{found} {what} in one world, but {most} at most can be simulated ({limit}): run fewer units")]
    Limit {
        /// Of what.
        what: &'static str,
        /// How many.
        found: u64,
        /// The limit.
        most: u64,
        /// Its name in the documentation.
        limit: &'static str,
    },
}
