//! The cost of a locate, fitted to what a drive really took.
//!
//! The terms of [`LocateCost`] were measured on one kind of drive. Of another one, or an old one, two things
//! differ: how long it takes to stop, change the wrap and start, and how fast it winds. So there are two
//! factors, each the median of what the locates say that tell of it: a median does not follow the one locate
//! in ten that waited for something else.

use crate::locate::LocateCost;
use crate::map::{Place, TapeMap};
use crate::model::{DriveModel, MediumModel};
use crate::timing::DriveTiming;

/// Locates of a kind that are needed before their factor is believed: the median of fewer is one of them.
const SAMPLES_MIN: usize = LocateFit::SAMPLES_MIN;
/// Rounds in which one factor is fitted with the other one given. The locates of a kind have less than half
/// of their time from the other part, so each round leaves less than half of what the factors are wrong by.
const ROUNDS: usize = 24;

/// A locate and how long it took.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocateSample {
    /// Where the head stood.
    pub from: Place,
    /// Where it was sent.
    pub to: Place,
    /// What it took, in microseconds.
    pub took_us: u64,
}

/// By how much a drive is slower than its model.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LocateFit {
    /// Of the part that does not depend on the way.
    pub fixed: f64,
    /// Of the part that does.
    pub way: f64,
    /// Locates that it was made of.
    pub samples: usize,
}

impl Default for LocateFit {
    fn default() -> LocateFit {
        LocateFit { fixed: 1.0, way: 1.0, samples: 0 }
    }
}

/// A fit, and how well it fits.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DriveFit {
    /// The factors, and of how many locates they were made.
    pub locate: LocateFit,
    /// [`Track::error`](crate::Track::error) with them.
    pub error: f64,
}

impl DriveFit {
    /// No error is larger: by a model that is off by half nothing can be compared, and all more is the same.
    pub const ERROR_MAX: f64 = 0.5;
}

/// A drive and medium by their models, and by what the model was fitted to this very drive.
#[derive(Clone, PartialEq, Debug)]
pub struct FittedDrive {
    /// The drive's serial number; empty if it has none.
    pub serial: String,
    /// Its model.
    pub drive: &'static DriveModel,
    /// The medium in it.
    pub medium: &'static MediumModel,
    /// What its locates say of it; `None`: too few do.
    pub fit: Option<DriveFit>,
}

/// The two parts of a locate by the model, and what it took, in microseconds.
struct Parts {
    /// Less than nothing where the way goes over the middle of the tape.
    fixed: f64,
    way: f64,
    took: f64,
}

impl LocateFit {
    /// No fit is made of fewer locates.
    pub const SAMPLES_MIN: usize = 8;
    /// No factor is smaller: a drive that is faster still does not move a tape.
    pub const FACTOR_MIN: f64 = 0.3;
    /// No factor is larger: what takes longer is something else, or the model is of another drive.
    pub const FACTOR_MAX: f64 = 3.0;

    /// Fits the model's cost to locates of this drive on tapes of this kind; 1 for what too few tell of.
    #[must_use]
    pub fn of(cost: &LocateCost, map: &TapeMap, samples: &[LocateSample]) -> LocateFit {
        let parts: Vec<Parts> = samples.iter().filter_map(|sample| parts_of(cost, map, sample)).collect();
        let far: Vec<&Parts> = parts.iter().filter(|part| part.way > part.fixed.abs()).collect();
        let near: Vec<&Parts> = parts.iter().filter(|part| part.fixed > part.way).collect();
        let mut fit = LocateFit { samples: parts.len(), ..LocateFit::default() };
        // One kind alone says nothing of the other part: one factor for both.
        let overall = || {
            let ratios = parts.iter().map(|part| part.took / (part.fixed + part.way));
            bounded(median(ratios.collect()))
        };
        match (near.len() >= SAMPLES_MIN, far.len() >= SAMPLES_MIN) {
            (true, true) => {
                for _ in 0..ROUNDS {
                    let ratio = |part: &&Parts| (part.took - fit.way * part.way) / part.fixed;
                    fit.fixed = bounded(median(near.iter().map(ratio).collect()));
                    let ratio = |part: &&Parts| (part.took - fit.fixed * part.fixed) / part.way;
                    fit.way = bounded(median(far.iter().map(ratio).collect()));
                }
            }
            _ if parts.len() >= SAMPLES_MIN => (fit.fixed, fit.way) = (overall(), overall()),
            _ => {}
        }
        fit
    }

    /// [`Track::error`](crate::Track::error) of a cost with this fit: the part of what it took by which
    /// one in two of the locates is off at most. `None` if too few tell of it.
    #[must_use]
    pub fn error(&self, cost: &LocateCost, map: &TapeMap, samples: &[LocateSample]) -> Option<f64> {
        let fitted = cost.fitted(self);
        let off = |sample: &LocateSample| {
            let took = sample.took_us as f64;
            let model = fitted.between(map, sample.from, sample.to) as f64;
            (sample.from != sample.to && took > 0.0).then(|| (took - model).abs() / took)
        };
        let off: Vec<f64> = samples.iter().filter_map(off).collect();
        (off.len() >= SAMPLES_MIN).then(|| median(off).min(DriveFit::ERROR_MAX))
    }
}

/// `None` of what the model has no cost for: the way to where the head stands.
fn parts_of(cost: &LocateCost, map: &TapeMap, sample: &LocateSample) -> Option<Parts> {
    if sample.from == sample.to {
        return None;
    }
    let took = sample.took_us as f64;
    let whole = cost.between(map, sample.from, sample.to) as f64;
    let way = cost.way_us(sample.from, sample.to);
    // Where the terms come to less than the least, that is what the model says: a fixed part.
    let is_least = whole <= cost.least_us.round();
    let parts = if is_least {
        Parts { fixed: whole, way: 0.0, took }
    } else {
        Parts { fixed: whole - way, way, took }
    };
    (whole > 0.0).then_some(parts)
}

fn bounded(factor: f64) -> f64 {
    if factor.is_finite() { factor.clamp(LocateFit::FACTOR_MIN, LocateFit::FACTOR_MAX) } else { 1.0 }
}

/// The middle one, of an even number the mean of the two in the middle; 1 of none.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let at = |index: usize| values.get(index).copied();
    match (at(middle), middle.checked_sub(1).and_then(at)) {
        (Some(upper), Some(lower)) if values.len().is_multiple_of(2) => f64::midpoint(lower, upper),
        (Some(middle), _) => middle,
        (None, _) => 1.0,
    }
}

impl LocateCost {
    /// The cost for a drive that differs from the model by these factors.
    #[must_use]
    pub fn fitted(&self, fit: &LocateFit) -> LocateCost {
        // Taken apart completely, so that a new term cannot be forgotten here.
        let LocateCost {
            base_us,
            wrap_change_us,
            band_change_us,
            landing_zone_change_us,
            direction_change_us,
            step_back_us,
            lpos_us,
            least_us,
        } = *self;
        LocateCost {
            base_us: base_us * fit.fixed,
            wrap_change_us: wrap_change_us * fit.fixed,
            band_change_us: band_change_us * fit.fixed,
            landing_zone_change_us: landing_zone_change_us * fit.fixed,
            direction_change_us: direction_change_us * fit.fixed,
            step_back_us: step_back_us * fit.fixed,
            lpos_us: lpos_us * fit.way,
            least_us: least_us * fit.fixed,
        }
    }
}

impl DriveTiming {
    /// The timing of a drive that differs from the model by these factors: in its locates and its rewinds,
    /// which are the same movement.
    #[must_use]
    pub fn fitted(&self, fit: &LocateFit) -> DriveTiming {
        DriveTiming {
            locate: self.locate.fitted(fit),
            lpos_per_second: self.lpos_per_second / fit.way,
            rewind_us: (self.rewind_us as f64 * fit.fixed).round() as u64,
            ..self.clone()
        }
    }
}
