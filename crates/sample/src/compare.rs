//! Samples beside runs of all units.

use serde::Serialize;

use super::estimate::{Estimated, estimates};
use super::observe::Observation;
use report::stats::{Estimate, Figure};

/// A figure of all units, and how far samples were off it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Compared {
    /// Which.
    #[serde(flatten)]
    pub figure: Figure,
    /// From runs of all units.
    pub whole: Estimate,
    /// One for each size of sample, in the order given.
    pub samples: Vec<Deviation>,
}

/// How far samples of one size were off.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Deviation {
    /// Units of a sample.
    pub run: u32,
    /// What each sample said, in the order given.
    pub estimates: Vec<Estimate>,
    /// Mean of the samples less the whole, part of the whole.
    pub bias: f64,
    /// Mean of how far each was off, part of the whole.
    pub off: f64,
    /// The most that one was off, part of the whole.
    pub off_most: f64,
    /// Samples that stated an interval: all but those that saw nothing of it.
    pub intervals: usize,
    /// Mean of the stated half intervals, part of the whole.
    pub stated: f64,
    /// Samples whose interval held the whole's figure.
    pub covered: usize,
}

/// Compares samples of several sizes, one run each, with the mean of runs of all units. Figures that are 0
/// in the whole are left out.
#[must_use]
pub fn compare(whole: &[Observation], samples: &[Vec<Observation>]) -> Vec<Compared> {
    let of_samples: Vec<(u32, Vec<Vec<Estimated>>)> = samples
        .iter()
        .map(|runs| {
            let run = runs.first().map_or(0, |run| run.run);
            (run, runs.iter().map(|run| estimates(std::slice::from_ref(run))).collect())
        })
        .collect();
    let compared = |truth: Estimated| Compared {
        samples: of_samples.iter().map(|(run, found)| deviation(*run, &truth, found)).collect(),
        figure: truth.figure,
        whole: truth.estimate,
    };
    estimates(whole).into_iter().filter(|truth| truth.estimate.mean != 0.0).map(compared).collect()
}

fn deviation(run: u32, truth: &Estimated, found: &[Vec<Estimated>]) -> Deviation {
    // A sample that knows nothing of a figure says that there is none of it.
    let of = |sample: &Vec<Estimated>| {
        let same = sample.iter().find(|estimated| estimated.figure == truth.figure);
        same.map_or(Estimate::default(), |estimated| estimated.estimate)
    };
    let found: Vec<Estimate> = found.iter().map(of).collect();
    let whole = truth.estimate.mean;
    let offs: Vec<f64> = found.iter().map(|it| (it.mean - whole) / whole).collect();
    let halves: Vec<f64> = found.iter().filter_map(|it| it.half_width).collect();
    let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / found.len().max(1) as f64;
    let covers =
        |it: &&Estimate| it.half_width.is_some_and(|half| (it.mean - whole).abs() <= half * (1.0 + 1e-9));
    Deviation {
        run,
        bias: mean(&mut offs.iter().copied()),
        off: mean(&mut offs.iter().map(|off| off.abs())),
        off_most: offs.iter().map(|off| off.abs()).fold(0.0, f64::max),
        intervals: halves.len(),
        stated: halves.iter().sum::<f64>() / halves.len().max(1) as f64 / whole.abs(),
        covered: found.iter().filter(covers).count(),
        estimates: found,
    }
}
