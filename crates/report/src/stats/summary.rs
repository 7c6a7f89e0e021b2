//! Many outcomes in one table.

use serde::Serialize;

use super::estimate::{Comparison, Estimate, batch_means, compare, estimate};
use super::figures::{ASKED, COMPLETED, Figure, Measured, SERVED, figures};
use crate::outcome::Outcome;

/// All variants of a scenario.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Summary {
    /// In the order of the scenario.
    pub variants: Vec<VariantSummary>,
}

/// One variant over all its seeds.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct VariantSummary {
    /// Its name.
    pub name: String,
    /// The seeds of its runs.
    pub seeds: Vec<u64>,
    /// Runs in which everything that was asked for was done.
    pub drained: usize,
    /// The first invariant that did not hold in any of the runs, in words.
    pub violation: Option<String>,
    /// All figures.
    pub figures: Vec<FigureSummary>,
}

/// One figure of a variant.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FigureSummary {
    /// What it is.
    #[serde(flatten)]
    pub figure: Figure,
    /// Its mean over seeds, with its interval; for a single long run the interval comes from batches of it.
    pub estimate: Estimate,
    /// Against the first variant, seed by seed; nothing for that one itself.
    pub against_first: Option<Comparison>,
    /// One for each seed.
    #[serde(skip)]
    pub values: Vec<f64>,
}

/// Puts the outcomes of each variant together.
#[must_use]
pub fn summary(variants: &[Vec<Outcome>]) -> Summary {
    let mut summed: Vec<VariantSummary> = Vec::new();
    let seeds_of = |outcomes: &[Outcome]| outcomes.iter().map(|one| one.seed).collect::<Vec<u64>>();
    let first_seeds = variants.first().map(|outcomes| seeds_of(outcomes)).unwrap_or_default();
    for outcomes in variants {
        let mut variant = one(outcomes);
        let is_same = seeds_of(outcomes) == first_seeds;
        if let Some(first) = summed.first() {
            for figure in &mut variant.figures {
                let other = first.figures.iter().find(|other| other.figure == figure.figure);
                // Seed by seed: other seeds, or a figure that some runs do not have, cannot be paired.
                let is_paired = |other: &&FigureSummary| {
                    is_same
                        && figure.values.len() == first_seeds.len()
                        && other.values.len() == first_seeds.len()
                };
                figure.against_first =
                    other.filter(is_paired).map(|other| compare(&figure.values, &other.values));
            }
        }
        summed.push(variant);
    }
    Summary { variants: summed }
}

fn one(outcomes: &[Outcome]) -> VariantSummary {
    let all: Vec<Vec<Measured>> = outcomes.iter().map(figures).collect();
    let mut order: Vec<&Measured> = Vec::new();
    for measured in all.iter().flatten() {
        if !order.iter().any(|seen| seen.figure == measured.figure) {
            order.push(measured);
        }
    }
    let figure = |measured: &&Measured| {
        let same =
            |run: &Vec<Measured>| run.iter().find(|other| other.figure == measured.figure).map(|m| m.value);
        let mut values: Vec<f64> = all.iter().filter_map(same).collect();
        // Where one run has no value, a mean of the others would be one of those that went well.
        if values.iter().any(|value| value.is_nan()) {
            values.clear();
        }
        let mut mean = estimate(&values);
        if values.is_empty() {
            mean.mean = f64::NAN;
        }
        if let [outcome] = outcomes
            && outcome.is_steady
        {
            let batches = batch_means(&measured.bins);
            mean = Estimate { half_width: batches.half_width, count: batches.count.max(1), ..mean };
        }
        FigureSummary { figure: measured.figure.clone(), estimate: mean, against_first: None, values }
    };
    VariantSummary {
        name: outcomes.first().map(|outcome| outcome.variant.clone()).unwrap_or_default(),
        seeds: outcomes.iter().map(|outcome| outcome.seed).collect(),
        drained: outcomes.iter().filter(|outcome| outcome.is_drained).count(),
        violation: outcomes.iter().find_map(|outcome| outcome.violation.clone()),
        figures: order.iter().map(figure).collect(),
    }
}

impl VariantSummary {
    /// The mean of a figure of the whole site; 0 if there is none of this name.
    #[must_use]
    pub fn site(&self, name: &str) -> Estimate {
        self.of("", name).map(|found| found.estimate).unwrap_or_default()
    }

    /// A figure of this variant as people read it: with its interval, of two seeds both values; of what was
    /// not done, how far it came.
    #[must_use]
    pub fn says(&self, found: &FigureSummary) -> String {
        let unit = found.figure.unit;
        if !found.estimate.mean.is_nan() {
            return match found.values.as_slice() {
                [one, other] => crate::text::with_range(found.estimate.mean, [*one, *other], unit),
                _ => crate::text::with_interval(&found.estimate, unit),
            };
        }
        let files = |name| {
            let files = self.of(&found.figure.of, name)?;
            Some(crate::text::whole(files.estimate.mean))
        };
        match (found.figure.name, files(SERVED), files(ASKED)) {
            (COMPLETED, Some(served), Some(asked)) => format!("not completed: {served} of {asked} files"),
            _ => "–".to_owned(),
        }
    }

    /// A figure by its subject and name.
    #[must_use]
    pub fn of(&self, of: &str, name: &str) -> Option<&FigureSummary> {
        self.figures.iter().find(|found| found.figure.of == of && found.figure.name == name)
    }
}

impl Summary {
    /// Every figure that any variant has, in order.
    #[must_use]
    pub fn figures(&self) -> Vec<&Figure> {
        let mut found: Vec<&Figure> = Vec::new();
        for figure in self.variants.iter().flat_map(|variant| &variant.figures) {
            if !found.contains(&&figure.figure) {
                found.push(&figure.figure);
            }
        }
        // Figures of one subject stay together, in the order in which the subjects came.
        let mut subjects: Vec<&str> = Vec::new();
        for figure in &found {
            if !subjects.contains(&figure.of.as_str()) {
                subjects.push(&figure.of);
            }
        }
        found.sort_by_key(|figure| subjects.iter().position(|of| *of == figure.of));
        found
    }

    /// A table as text: first a row of headings, then a row for each figure with a cell for each variant
    /// (`612 ± 8 MB/s`). Short: the main figures only, and none that is 0 in all variants. The figure
    /// `leading` stands in the first row.
    #[must_use]
    pub fn rows(&self, is_short: bool, leading: Option<&Figure>) -> Vec<Vec<String>> {
        let mut rows = vec![vec![String::new()]];
        rows[0].extend(self.variants.iter().map(|variant| variant.name.clone()));
        let mut figures = self.figures();
        figures.sort_by_key(|figure| Some(*figure) != leading);
        for figure in figures {
            let found: Vec<Option<&FigureSummary>> =
                self.variants.iter().map(|variant| variant.of(&figure.of, figure.name)).collect();
            let is_nothing = found.iter().flatten().all(|found| found.estimate.mean == 0.0);
            if is_short && (!figure.is_main || is_nothing) {
                continue;
            }
            let name = if figure.of.is_empty() {
                figure.name.to_owned()
            } else {
                format!("{}: {}", figure.of, figure.name)
            };
            let cell = |found: (usize, Option<&FigureSummary>)| {
                let (at, found) = found;
                found.map_or_else(|| "–".to_owned(), |found| self.variants[at].says(found))
            };
            rows.push([name].into_iter().chain(found.into_iter().enumerate().map(cell)).collect());
        }
        rows
    }
}
