//! What a case is, and all of them.

use serde::Serialize;

use scenario::Kind;

use super::measure::{Measure, Of};
use super::{gridka, kisti, kit, sdsc};

/// A published measurement that the twin is to predict.
#[derive(Clone, Copy, Debug)]
pub struct Expectation {
    /// What was measured.
    pub what: &'static str,
    /// Which statistic the published value is: a mean, a maximum, a count.
    pub statistic: &'static str,
    /// The published value.
    pub published: f64,
    /// Its unit.
    pub unit: &'static str,
    /// How the twin gets the same.
    pub prediction: Prediction,
    /// What still counts as agreement.
    pub tolerance: Tolerance,
    /// What the agreement is worth.
    pub basis: Basis,
    /// What the site or its publication says about the value beyond that.
    pub note: &'static str,
}

/// What an agreement is worth.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// The value was published, and nothing was fitted to it: a prediction.
    Predicted,
    /// Published, and an input of the site's file was fitted to it once.
    Fitted,
    /// Not published: the reference derives it from what is.
    Derived,
}

impl Basis {
    /// In one word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Basis::Predicted => "predicted",
            Basis::Fitted => "fitted",
            Basis::Derived => "derived",
        }
    }
}

/// How the twin gets a value.
#[derive(Clone, Copy, Debug)]
pub enum Prediction {
    /// Measured in the runs of the case's scenario, mean over seeds.
    Simulated(Measure, Of),
    /// Computed by the planner.
    Computed(fn() -> f64),
}

/// What still counts as agreement.
#[derive(Clone, Copy, Debug)]
pub enum Tolerance {
    /// So much of the published value, more or less, in percent.
    Percent(f64),
    /// Between these, both included: where the reference gives a range.
    Range(f64, f64),
    /// So much more or less.
    Absolute(f64),
    /// At least this.
    AtLeast(f64),
}

/// The tolerance where the reference gives no other.
pub const USUAL: Tolerance = Tolerance::Percent(10.0);

/// A published case.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Its name in the reference: `GK-tape10`.
    pub name: &'static str,
    /// What was done.
    pub text: &'static str,
    /// The publication.
    pub source: &'static str,
    /// The frozen site file, by name.
    pub site: &'static str,
    /// What of its inputs is not the site's, and how each came to be known.
    pub inputs: &'static [(Kind, &'static str)],
    /// The scenario that is run; nothing where the planner computes everything.
    pub scenario: Option<&'static str>,
    /// What was published of it.
    pub expectations: &'static [Expectation],
}

/// All cases, in the order of the reference.
#[must_use]
pub fn cases() -> Vec<&'static Case> {
    gridka::CASES.iter().chain(sdsc::CASES).chain(kit::CASES).chain(kisti::CASES).collect()
}
