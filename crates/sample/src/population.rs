//! All units of a site, and which of them are run.

use durability::SplitMix;

use super::error::SampleError;
use scenario::laws::normal;
use scenario::model::scatter;
use scenario::{RUN_MIN, Sampling};

/// What weights are drawn with.
const WEIGHTS: u64 = 0x7361_6d70_6c65_0001;
/// What units are chosen with.
const CHOICE: u64 = 0x7361_6d70_6c65_0002;

/// How busy each unit is.
#[derive(Clone, PartialEq, Debug)]
pub struct Population {
    weights: Vec<f64>,
}

impl Population {
    /// Draws each unit's weight from a lognormal law, and scales all so that their mean is exactly 1.
    #[must_use]
    pub fn new(sampling: &Sampling) -> Population {
        let mut random = SplitMix::new(scatter(sampling.seed ^ WEIGHTS));
        let mut part = || random.unit().min(1.0 - f64::EPSILON);
        let weights = (0..sampling.units).map(|_| (sampling.spread * normal(part())).exp());
        let mut weights: Vec<f64> = weights.collect();
        let mean = weights.iter().sum::<f64>() / weights.len().max(1) as f64;
        weights.iter_mut().for_each(|weight| *weight /= mean);
        Population { weights }
    }

    /// Each unit's load against the mean.
    #[must_use]
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// How many units there are.
    #[must_use]
    pub fn units(&self) -> u32 {
        u32::try_from(self.weights.len()).unwrap_or(u32::MAX)
    }

    /// Which units are run, ascending: all are put in order of their weight and cut into as many equal parts,
    /// and of each part one unit is taken at random. Other seeds choose others.
    ///
    /// # Errors
    /// If so many cannot be run.
    pub fn choose(&self, run: u32, seed: u64) -> Result<Vec<usize>, SampleError> {
        let units = self.units();
        if run < RUN_MIN || run > units {
            return Err(SampleError::Run { run, units, least: RUN_MIN });
        }
        let mut order: Vec<usize> = (0..self.weights.len()).collect();
        order.sort_by(|one, other| self.weights[*one].total_cmp(&self.weights[*other]).then(one.cmp(other)));
        let mut random = SplitMix::new(scatter(seed ^ CHOICE));
        let mut chosen: Vec<usize> = Vec::new();
        for part in 0..u128::from(run) {
            // A unit on the border of two parts belongs to both in part, and is taken by one of them.
            loop {
                let at =
                    (((part << 64) | u128::from(random.bits())) * u128::from(units) / u128::from(run)) >> 64;
                let Some(unit) = order.get(at as usize).copied() else { continue };
                if chosen.last() != Some(&unit) {
                    chosen.push(unit);
                    break;
                }
            }
        }
        chosen.sort_unstable();
        Ok(chosen)
    }
}
