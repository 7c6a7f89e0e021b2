//! `[sample]`.

use serde::{Deserialize, Serialize};

use quantity::Count;

/// `[sample]`.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// How many units there are.
    pub units: Count,
    /// How many of them are run.
    #[serde(default = "five")]
    pub run: Count,
    /// How much busier some units are than others.
    #[serde(default)]
    pub spread: f64,
    /// Which are busier.
    #[serde(default = "one")]
    pub seed: u64,
}

fn five() -> Count {
    Count(5)
}

fn one() -> u64 {
    1
}
