//! From the units that were run to all of them.

use serde::Serialize;

use super::observe::{Amount, Observation, Observed};
use report::stats::{Estimate, Figure, estimate, t_975};

/// A figure of the whole site.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Estimated {
    /// Which.
    #[serde(flatten)]
    pub figure: Figure,
    /// For all units, and half of the interval that holds what a run of all units gives in 95 of 100 cases.
    pub estimate: Estimate,
}

/// What all units do, concluded from runs of some of them with different seeds; all runs count alike.
///
/// An amount is taken to grow in a line with the weight of its unit, fitted to the units that were run; what
/// all do is what the line says at the mean weight, 1, times the units that there are (the regression
/// estimator; W. G. Cochran, "Sampling Techniques", 3rd ed., 1977, ch. 7). A ratio is that of two such
/// amounts. The interval is that of Student's t from how far units are off the line. It grows by what a run
/// of all units is itself uncertain, and does not shrink by the part of the units that was run: a unit has
/// other luck in another run. Where all units were run the interval is that of the runs among each other.
#[must_use]
pub fn estimates(runs: &[Observation]) -> Vec<Estimated> {
    let Some(first) = runs.first() else { return Vec::new() };
    let mut found: Vec<&Figure> = Vec::new();
    for observed in runs.iter().flat_map(|run| &run.figures) {
        if !found.contains(&&observed.figure) {
            found.push(&observed.figure);
        }
    }
    let is_whole = runs.iter().all(|run| run.run == run.units);
    let of = |figure: &&Figure| {
        let same: Vec<&Observed> = runs
            .iter()
            .filter_map(|run| run.figures.iter().find(|observed| observed.figure == **figure))
            .collect();
        let estimate = if is_whole { over_runs(&same, first.units) } else { pooled(&same, first.units) };
        Estimated { figure: (*figure).clone(), estimate }
    };
    found.iter().map(of).collect()
}

/// Each run by itself, and the mean of them.
fn over_runs(runs: &[&Observed], units: u32) -> Estimate {
    let values: Vec<f64> = runs.iter().map(|run| pooled(&[run], units).mean).collect();
    estimate(&values)
}

/// All units of all runs together.
fn pooled(runs: &[&Observed], units: u32) -> Estimate {
    let amounts: Vec<Amount> = runs.iter().flat_map(|run| run.amounts.iter().copied()).collect();
    let is_total = runs.iter().any(|run| run.is_total);
    let weights: Vec<f64> = amounts.iter().map(|amount| amount.weight).collect();
    let line = |values: Vec<f64>| Line::through(&weights, &values, f64::from(units));
    let much = line(amounts.iter().map(|amount| amount.much).collect());
    let count = amounts.len();
    if is_total {
        let all = f64::from(units);
        return Estimate { mean: much.at_mean * all, half_width: much.half_width.map(|it| it * all), count };
    }
    let of = line(amounts.iter().map(|amount| amount.of).collect()).at_mean;
    if of == 0.0 {
        return Estimate { mean: 0.0, half_width: None, count };
    }
    if amounts.iter().all(|amount| amount.much == 0.0) {
        // What did not happen in any unit that was run may happen in others.
        return Estimate { mean: 0.0, half_width: None, count };
    }
    let mean = much.at_mean / of;
    // What of an amount the ratio does not explain has the ratio's uncertainty.
    let rest = line(amounts.iter().map(|amount| amount.much - mean * amount.of).collect());
    Estimate { mean, half_width: rest.half_width.map(|it| (it / of).abs()), count }
}

/// A line through points.
struct Line {
    /// Its value where the weight is 1.
    at_mean: f64,
    /// Half of the 95 % interval of it; nothing if the points do not say.
    half_width: Option<f64>,
}

impl Line {
    fn through(weights: &[f64], values: &[f64], units: f64) -> Line {
        let count = weights.len() as f64;
        let mean = |values: &[f64]| values.iter().sum::<f64>() / count.max(1.0);
        let (weight, value) = (mean(weights), mean(values));
        let squares: f64 = weights.iter().map(|it| (it - weight) * (it - weight)).sum();
        let products: f64 = weights.iter().zip(values).map(|(at, much)| (at - weight) * (much - value)).sum();
        // Units that are all alike have no line, only a mean.
        let is_flat = squares < 1e-9;
        let slope = if is_flat { 0.0 } else { products / squares };
        let off = 1.0 - weight;
        let rest: f64 = weights
            .iter()
            .zip(values)
            .map(|(at, much)| {
                let rest = much - value - slope * (at - weight);
                rest * rest
            })
            .sum();
        let used = if is_flat { 1 } else { 2 };
        let freedom = weights.len().saturating_sub(used);
        let lever = if is_flat { 0.0 } else { off * off / squares };
        let half_width = (freedom > 0).then(|| {
            let variance = rest / freedom as f64 * (1.0 / count + 1.0 / units + lever);
            t_975(freedom) * variance.sqrt()
        });
        Line { at_mean: value + slope * off, half_width }
    }
}
