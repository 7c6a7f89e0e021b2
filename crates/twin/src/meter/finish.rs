//! The end of a run.

use std::collections::BTreeMap;

use super::{End, Meter};
use crate::moment::Moment;
use report::outcome::{Outcome, Series};
use report::stats::warm_up_bins;
use scenario::model::FaultKind;

impl Meter {
    /// What came of it all. Drives have done until now what they do; transfers that were told in advance
    /// end now.
    #[must_use]
    pub fn finish(mut self, now: Moment, end: End) -> Outcome {
        self.pass(now);
        for drive in &mut self.drives {
            if let Some((from, to, activity)) = drive.pass(now) {
                self.bins.spend(from, to, activity);
            }
        }
        self.totals.tapes_mounted = self.tapes.iter().map(|word| u64::from(word.count_ones())).sum();
        let series = self.bins.finish(now, &self.level);
        let warm_up = match self.warm_up {
            Some(said) => said.as_secs_f64().min(now.seconds()),
            None if self.ends_with_work || self.has_campaign => 0.0,
            None => settled(&series),
        };
        let is_warm_up_found = self.warm_up.is_none();
        let faults = FaultKind::ALL.iter().zip(self.faults).filter(|(_, count)| *count > 0);
        let faults: BTreeMap<String, u64> =
            faults.map(|(kind, count)| (kind.name().to_owned(), count)).collect();
        Outcome {
            variant: self.variant,
            seed: self.seed,
            end: now.seconds(),
            warm_up,
            is_warm_up_found,
            is_steady: !self.ends_with_work,
            is_drained: end.is_drained,
            events: end.events,
            steps: end.steps,
            totals: self.totals,
            queue_max: self.queue_max,
            queue_age_max: self.queue_age_max.as_secs_f64(),
            series,
            drives: self.drives.into_iter().map(super::DriveMeter::finish).collect(),
            campaigns: self.campaigns.into_iter().filter_map(super::CampaignMeter::finish).collect(),
            classes: self.classes.into_iter().map(|class| class.finish(now)).collect(),
            scratch_left: end.scratch_left,
            puts_waiting: end.puts_waiting,
            puts_too_large: end.puts_too_large,
            no_tape_since: end.no_tape_since.map(Moment::seconds),
            no_tape_bytes: end.no_tape_bytes,
            no_room_bytes: end.no_room_bytes,
            faults,
            checks: self.checks.into_iter().map(|(name, count)| (name.to_owned(), count)).collect(),
            violation: end.violation,
        }
    }
}

/// Seconds after which both the traffic of the tapes and the pool's filling have settled.
fn settled(series: &Series) -> f64 {
    let traffic: Vec<f64> = series
        .tape_read
        .iter()
        .zip(&series.tape_written)
        .map(|(read, written)| (read + written) as f64)
        .collect();
    let pool: Vec<f64> = series.pool_used.iter().map(|bytes| *bytes as f64).collect();
    let queue: Vec<f64> = series.queue.iter().map(|files| *files as f64).collect();
    let bins = [traffic, pool, queue].iter().map(|values| warm_up_bins(values)).max().unwrap_or(0);
    bins as f64 * series.step
}
