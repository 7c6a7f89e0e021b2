//! Published against predicted.

use serde::Serialize;

use super::{Basis, Case, Expectation, Of, Prediction, Tolerance};
use report::outcome::Outcome;
use report::stats;
use scenario::Kind;

/// One published value and what the twin predicts.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// The case.
    pub case: &'static str,
    /// What was measured.
    pub what: &'static str,
    /// Which statistic the published value is.
    pub statistic: &'static str,
    /// The unit of both values.
    pub unit: &'static str,
    /// The published value.
    pub published: f64,
    /// The predicted one, mean over seeds; nothing if the run gave none.
    pub predicted: Option<f64>,
    /// Half the width of the 95 % interval of the prediction's mean over seeds; nothing if it was computed.
    pub interval: Option<f64>,
    /// How far the prediction is from the published value, percent.
    pub deviation_percent: Option<f64>,
    /// What still counts as agreement, in words.
    pub tolerance: String,
    /// Whether it agrees.
    pub pass: bool,
    /// What the agreement is worth.
    pub basis: Basis,
    /// A remark of the reference.
    pub note: &'static str,
}

/// What came of a case.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CaseResult {
    /// Its name.
    pub name: &'static str,
    /// What was done.
    pub text: &'static str,
    /// The publication.
    pub source: &'static str,
    /// The site file.
    pub site: &'static str,
    /// What of its inputs is not the site's, and how each came to be known.
    pub inputs: &'static [(Kind, &'static str)],
    /// One for each published value.
    pub rows: Vec<Row>,
    /// What went wrong in the runs, if anything did; the case then fails.
    pub trouble: Option<String>,
}

/// All cases.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Validation {
    /// In the order of the reference.
    pub cases: Vec<CaseResult>,
    /// Whether all agree.
    pub pass: bool,
}

impl Validation {
    /// Of these results.
    #[must_use]
    pub fn of(cases: Vec<CaseResult>) -> Self {
        let pass = cases.iter().all(CaseResult::pass);
        Validation { cases, pass }
    }
}

impl CaseResult {
    /// Whether all its values agree, and there are any.
    #[must_use]
    pub fn pass(&self) -> bool {
        self.trouble.is_none() && !self.rows.is_empty() && self.rows.iter().all(|row| row.pass)
    }
}

/// Compares what was published of a case with its runs: of each variant of its scenario, by name, an outcome
/// for each seed. A case that the planner computes needs none.
#[must_use]
pub fn judge(case: &Case, runs: &[(String, Vec<Outcome>)]) -> CaseResult {
    let mut violations =
        runs.iter().flat_map(|(_, outcomes)| outcomes).filter_map(|one| one.violation.clone());
    let trouble = violations.next();
    CaseResult {
        name: case.name,
        text: case.text,
        source: case.source,
        site: case.site,
        inputs: case.inputs,
        rows: case.expectations.iter().map(|expectation| row(case, expectation, runs)).collect(),
        trouble,
    }
}

fn row(case: &Case, expectation: &Expectation, runs: &[(String, Vec<Outcome>)]) -> Row {
    let (predicted, interval) = match expectation.prediction {
        Prediction::Computed(compute) => (Some(compute()).filter(|value| value.is_finite()), None),
        Prediction::Simulated(measure, of) => {
            let values = |name: Option<&str>| {
                let variant = match name {
                    Some(name) => runs.iter().find(|(variant, _)| variant == name),
                    None => runs.first(),
                };
                let outcomes = variant.map(|(_, outcomes)| outcomes.as_slice()).unwrap_or_default();
                outcomes.iter().map(|outcome| measure.of(outcome)).collect::<Option<Vec<f64>>>()
            };
            let values = match of {
                Of::First => values(None),
                Of::Variant(name) => values(Some(name)),
                Of::Ratio(one, other) => values(Some(one))
                    .zip(values(Some(other)))
                    .map(|(ones, others)| ones.iter().zip(&others).map(|(one, other)| one / other).collect()),
            };
            let estimate = values.filter(|values| !values.is_empty()).map(|values| stats::estimate(&values));
            (estimate.map(|estimate| estimate.mean), estimate.and_then(|estimate| estimate.half_width))
        }
    };
    let published = expectation.published;
    let pass = predicted.is_some_and(|predicted| expectation.tolerance.admits(published, predicted));
    Row {
        case: case.name,
        what: expectation.what,
        statistic: expectation.statistic,
        unit: expectation.unit,
        published,
        predicted,
        interval,
        deviation_percent: predicted.map(|predicted| 100.0 * (predicted / published - 1.0)),
        tolerance: expectation.tolerance.words(),
        pass,
        basis: expectation.basis,
        note: expectation.note,
    }
}

impl Tolerance {
    /// Whether a prediction agrees with what was published.
    #[must_use]
    pub fn admits(self, published: f64, predicted: f64) -> bool {
        match self {
            Tolerance::Percent(percent) => (predicted - published).abs() <= published.abs() * percent / 100.0,
            Tolerance::Range(low, high) => (low..=high).contains(&predicted),
            Tolerance::Absolute(more) => (predicted - published).abs() <= more,
            Tolerance::AtLeast(least) => predicted >= least,
        }
    }

    /// For people.
    #[must_use]
    pub fn words(self) -> String {
        match self {
            Tolerance::Percent(percent) => format!("± {percent} %"),
            Tolerance::Range(low, high) => format!("{low} to {high}"),
            Tolerance::Absolute(more) => format!("± {more}"),
            Tolerance::AtLeast(least) => format!("at least {least}"),
        }
    }
}
