//! The figures of one outcome, by name and unit.

use serde::Serialize;

use crate::outcome::{Campaign, ClassUse, DriveActivity, Outcome};

/// Names of figures of campaigns that others look for.
pub(crate) const COMPLETED: &str = "completed after";
/// See [`COMPLETED`].
pub(crate) const ASKED: &str = "files asked for";
/// See [`COMPLETED`].
pub(crate) const SERVED: &str = "files served";
/// See [`COMPLETED`].
pub(crate) const WAIT_99: &str = "wait, 99 %";

/// What is measured. Two outcomes' figures belong together if name and subject are the same.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub struct Figure {
    /// What it is about: nothing for the whole site, else `campaign NAME`, `users NAME` or `class NAME`.
    pub of: String,
    /// Its name, for people.
    pub name: &'static str,
    /// Its unit: `MB/s`, `%`, `s`, `bytes`, `files`, `/TB` or nothing for plain numbers.
    pub unit: &'static str,
    /// Whether it belongs into a short table.
    pub is_main: bool,
}

/// A figure of one run.
#[derive(Clone, PartialEq, Debug)]
pub struct Measured {
    /// What it is.
    pub figure: Figure,
    /// Its value; not a number where it has none, as the time of a campaign that was not completed.
    pub value: f64,
    /// Where it is a mean over time: the values of all bins that count, by which its certainty within a long
    /// run is known.
    pub bins: Vec<f64>,
}

/// Sums of the bins that count: those that begin at or after the warm-up.
struct Settled {
    first: usize,
    seconds: f64,
}

impl Settled {
    fn of(outcome: &Outcome) -> Settled {
        let bins = outcome.series.tape_read.len();
        let step = outcome.series.step;
        let after = if step > 0.0 { (outcome.warm_up / step).ceil() as usize } else { 0 };
        let first = if after < bins { after } else { 0 };
        Settled { first, seconds: (outcome.end - first as f64 * step).max(0.0) }
    }

    fn sum(&self, values: &[u64]) -> f64 {
        values.iter().skip(self.first).map(|value| *value as f64).sum()
    }

    /// Seconds of all drives by activity.
    fn activity(&self, outcome: &Outcome) -> [f64; DriveActivity::COUNT] {
        let mut sums = [0.0; DriveActivity::COUNT];
        for bin in outcome.series.activity.iter().skip(self.first) {
            sums.iter_mut().zip(bin).for_each(|(sum, seconds)| *sum += seconds);
        }
        sums
    }
}

/// A share of a whole in percent; 0 of nothing.
fn percent(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { 100.0 * part / whole } else { 0.0 }
}

fn over(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// All figures of an outcome, in the order in which they are shown. Rates, shares and means over time leave
/// out the warm-up; waits, campaigns and classes do not. The queue's age is that of its oldest file.
#[must_use]
pub fn figures(outcome: &Outcome) -> Vec<Measured> {
    let settled = Settled::of(outcome);
    let mut found = rates(outcome, &settled);
    found.extend(drives(outcome, &settled));
    found.extend(queue_and_pool(outcome, &settled));
    found.extend(outcome.campaigns.iter().flat_map(campaign));
    found.extend(outcome.classes.iter().flat_map(class));
    found
}

fn site(name: &'static str, unit: &'static str, is_main: bool, value: f64) -> Measured {
    let figure = Figure { of: String::new(), name, unit, is_main };
    Measured { figure, value, bins: Vec::new() }
}

fn rates(outcome: &Outcome, settled: &Settled) -> Vec<Measured> {
    let series = &outcome.series;
    let all = [
        ("read from tape", &series.tape_read),
        ("written to tape", &series.tape_written),
        ("read by clients", &series.client_read),
        ("written by clients", &series.client_written),
    ];
    let rate = |(name, bytes): (&'static str, &Vec<u64>)| {
        let mut rate = site(name, "MB/s", true, over(settled.sum(bytes), settled.seconds) / 1e6);
        // The last bin may be a part of one; it would count as much as a whole one.
        let whole = bytes.len().saturating_sub(1).max(settled.first);
        let per_second = |bytes: &u64| over(*bytes as f64, series.step) / 1e6;
        rate.bins = bytes[settled.first.min(whole)..whole].iter().map(per_second).collect();
        rate
    };
    all.into_iter().map(rate).collect()
}

fn drives(outcome: &Outcome, settled: &Settled) -> Vec<Measured> {
    let (series, totals) = (&outcome.series, &outcome.totals);
    let bytes = settled.sum(&series.tape_read) + settled.sum(&series.tape_written);
    let mounts = settled.sum(&series.mounts);
    let activity = settled.activity(outcome);
    let time =
        |activities: &[DriveActivity]| activities.iter().map(|one| activity[*one as usize]).sum::<f64>();
    let all: f64 = activity.iter().sum();
    let busy = all - time(&[DriveActivity::Idle, DriveActivity::Down]);
    let moving = time(&[DriveActivity::Read, DriveActivity::Write]);
    let files = totals.files_read + totals.files_written;
    vec![
        site("mounts", "", true, totals.mounts as f64),
        site("mounts per TB", "/TB", true, over(mounts, bytes / 1e12)),
        site("files per mount", "", true, over(files as f64, totals.mounts as f64)),
        site("different tapes mounted", "", false, totals.tapes_mounted as f64),
        site("drives in use", "%", true, percent(busy, all)),
        site("of that, moving data", "%", true, percent(moving, busy)),
        site("efficiency", "%", true, percent(bytes, native_rate(outcome) * busy)),
    ]
}

/// The native rate of the drives that were in use, bytes a second, weighted by how long they were.
fn native_rate(outcome: &Outcome) -> f64 {
    let idle = [DriveActivity::Idle as usize, DriveActivity::Down as usize];
    let (mut bytes, mut busy) = (0.0, 0.0);
    for drive in &outcome.drives {
        let seconds =
            drive.seconds.iter().sum::<f64>() - idle.iter().map(|at| drive.seconds[*at]).sum::<f64>();
        bytes += drive.native_rate as f64 * seconds;
        busy += seconds;
    }
    over(bytes, busy)
}

fn queue_and_pool(outcome: &Outcome, settled: &Settled) -> Vec<Measured> {
    let series = &outcome.series;
    let bins = (series.queue.len() - settled.first.min(series.queue.len())) as f64;
    let ages: f64 = series.queue_age.iter().skip(settled.first).sum();
    let hits = percent(settled.sum(&series.hits), settled.sum(&series.wanted));
    vec![
        site("hit rate", "%", true, hits),
        site("longest queue", "files", true, outcome.queue_max as f64),
        site("age of the oldest request, mean", "s", true, over(ages, bins)),
        site("age of the oldest request, most", "s", true, outcome.queue_age_max),
        site("in the pool, mean", "bytes", false, over(settled.sum(&series.pool_used), bins)),
        site("waiting for tape, mean", "bytes", false, over(settled.sum(&series.backlog), bins)),
        site("waiting for a scratch tape at the end", "bytes", true, outcome.no_tape_bytes as f64),
        site("puts waiting for room at the end", "files", true, outcome.puts_waiting as f64),
        site("recalls waiting for room at the end", "bytes", true, outcome.no_room_bytes as f64),
        site("evicted", "bytes", false, outcome.totals.evicted as f64),
        site("read from pool disks", "bytes", false, outcome.totals.pool_read as f64),
        site("written to pool disks", "bytes", false, outcome.totals.pool_written as f64),
        site("files refused or cancelled", "files", false, outcome.totals.files_refused as f64),
    ]
}

/// Whether every file that a campaign asked for was there, or refused, before the end.
pub(crate) fn is_completed(campaign: &Campaign) -> bool {
    campaign.files > 0 && campaign.served + campaign.refused >= campaign.files
}

/// Seconds from the first request to the last file, and what of it the last twentieth of the files took.
#[must_use]
pub fn completion(campaign: &Campaign) -> Option<(f64, f64)> {
    let (ninety_five, last) = (campaign.progress.get(95)?, campaign.progress.get(100)?);
    Some((last - campaign.begin, last - ninety_five))
}

fn campaign(campaign: &Campaign) -> Vec<Measured> {
    let of = format!("{} {}", if campaign.ends { "campaign" } else { "users" }, campaign.name);
    // What is not done has no time: the figure stands there without a value, and says so.
    let (whole, tail) =
        completion(campaign).filter(|_| is_completed(campaign)).unwrap_or((f64::NAN, f64::NAN));
    let mut figures = vec![];
    // Users are never done.
    if campaign.ends {
        figures.push((COMPLETED, "s", true, whole));
        figures.push(("of that, the last 5 %", "s", true, tail));
    }
    figures.push((ASKED, "files", false, campaign.files as f64));
    figures.push((SERVED, "files", false, campaign.served as f64));
    // Nobody's wait has no figure.
    if campaign.served > 0 {
        figures.extend([
            ("wait, mean", "s", false, campaign.wait_mean),
            ("wait, median", "s", true, campaign.waits[0]),
            ("wait, 90 %", "s", false, campaign.waits[1]),
            (WAIT_99, "s", true, campaign.waits[2]),
            ("wait, longest", "s", false, campaign.waits[3]),
        ]);
    }
    about(&of, &figures)
}

fn class(class: &ClassUse) -> Vec<Measured> {
    let of = format!("class {}", class.name);
    let figures: [(&'static str, &'static str, bool, f64); 5] = [
        ("hit rate", "%", false, percent(class.hits as f64, class.wanted as f64)),
        ("in the pool, mean", "bytes", false, class.pool_mean),
        ("untouched when evicted, mean", "s", false, class.residency_mean),
        ("on tape after, mean", "s", false, class.migration_wait[0]),
        ("on tape after, longest", "s", false, class.migration_wait[1]),
    ];
    // What never happened in a class has no figure.
    let has = [
        class.wanted > 0,
        class.pool_mean > 0.0,
        class.residency_mean > 0.0,
        class.migrated > 0,
        class.migrated > 0,
    ];
    let there: Vec<_> =
        figures.into_iter().zip(has).filter(|(_, has)| *has).map(|(figure, _)| figure).collect();
    about(&of, &there)
}

fn about(of: &str, figures: &[(&'static str, &'static str, bool, f64)]) -> Vec<Measured> {
    let measured = |(name, unit, is_main, value): &(&'static str, &'static str, bool, f64)| Measured {
        figure: Figure { of: of.to_owned(), name, unit, is_main: *is_main },
        value: *value,
        bins: Vec::new(),
    };
    figures.iter().map(measured).collect()
}
