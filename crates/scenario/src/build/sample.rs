//! How a larger site is sampled.

use super::finding::{Finding, limited, wrong};
use crate::form::Sample;
use crate::limits::UNITS_MAX;
use crate::sampling::{RUN_MIN, SPREAD_MAX, Sampling};

/// What `[sample]` says.
pub fn sampling(form: &Sample) -> Result<Sampling, Finding> {
    let Sample { units, run, spread, seed } = form;
    limited(&["sample", "units"], "units", units.0, UNITS_MAX, "UNITS_MAX")?;
    if units.0 < u64::from(RUN_MIN) {
        let problem =
            format!("of fewer than {RUN_MIN} units nothing is sampled: describe all, without [sample]");
        return wrong(&["sample", "units"], &problem);
    }
    if run.0 < u64::from(RUN_MIN) {
        let problem = format!("fewer than {RUN_MIN} units do not say how sure they are: run more");
        return wrong(&["sample", "run"], &problem);
    }
    if run.0 > units.0 {
        let problem = format!("there are only {} units: run no more (sample.units)", units.0);
        return wrong(&["sample", "run"], &problem);
    }
    if !(0.0..=SPREAD_MAX).contains(spread) {
        return wrong(&["sample", "spread"], &format!("it is 0 to {SPREAD_MAX}"));
    }
    Ok(Sampling { units: units.0 as u32, run: run.0 as u32, spread: *spread, seed: *seed })
}
