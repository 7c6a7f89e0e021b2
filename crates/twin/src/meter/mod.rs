//! What happened in a run becomes an outcome: sums, bins over time, drives, campaigns, classes.
//!
//! Everything is bounded, whatever the run's length: bins are joined in pairs when there are too many, waits
//! go into a histogram of equal ratios, and of a campaign's progress every so many-th file is kept. Sums are
//! integers (bytes, microseconds), so that a drive's seconds add up to the run's length.

mod bins;
mod campaign;
mod class;
mod drive;
mod finish;
mod progress;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use base::Duration;

use self::bins::Bins;
use self::campaign::CampaignMeter;
use self::class::ClassMeter;
use self::drive::DriveMeter;
use crate::moment::Moment;
use report::outcome::{DriveActivity, Totals};
use scenario::model::{ClassIndex, FaultKind, Model, Workload, WorkloadKind};

/// Queues as they stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Level {
    /// Files that wait for a recall.
    pub queue: u64,
    /// When the oldest of them was asked for; nothing if none waits.
    pub oldest: Option<Moment>,
    /// Bytes that wait to be written to tape.
    pub backlog: u64,
    /// Bytes in the pool.
    pub pool_used: u64,
}

/// How a run ended.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct End {
    /// Everything that was asked for is done or refused.
    pub is_drained: bool,
    /// The first invariant that did not hold, in words.
    pub violation: Option<String>,
    /// Things that happened.
    pub events: u64,
    /// Calls of the scheduler's `step`.
    pub steps: u64,
    /// Tapes of no pool.
    pub scratch_left: u64,
    /// Puts that wait for room.
    pub puts_waiting: u64,
    /// Puts that were refused because no cartridge takes the file.
    pub puts_too_large: u64,
    /// When a tape pool first had something to write and no tape.
    pub no_tape_since: Option<Moment>,
    /// Bytes in the queues of such pools.
    pub no_tape_bytes: u64,
    /// Bytes of wanted files for which the pool has no room.
    pub no_room_bytes: u64,
}

/// Takes down what happens. Times must not go back, but for transfers, which may be told late or early.
#[derive(Debug)]
pub struct Meter {
    variant: String,
    seed: u64,
    warm_up: Option<Duration>,
    /// A run that ends when its work is done has no steady state: all of it counts.
    ends_with_work: bool,
    /// A campaign at the beginning is what is asked about, and nothing to settle from.
    has_campaign: bool,
    totals: Totals,
    bins: Bins,
    drives: Vec<DriveMeter>,
    campaigns: Vec<CampaignMeter>,
    classes: Vec<ClassMeter>,
    /// The class of each workload.
    workloads: Vec<usize>,
    /// Tapes that were mounted, one bit each.
    tapes: Vec<u64>,
    level: Level,
    queue_max: u64,
    queue_age_max: Duration,
    faults: [u64; FaultKind::ALL.len()],
    checks: BTreeMap<&'static str, u64>,
}

/// Adds bytes; a sum of what a million clients move stops at the most that a number holds.
fn add(sum: &mut u64, bytes: u64) {
    *sum = sum.saturating_add(bytes);
}

impl Meter {
    /// Nothing has happened yet. `drives` are the names of all drives of the site, library by library and
    /// group by group; all are idle.
    #[must_use]
    pub fn new(model: &Model, seed: u64, drives: Vec<String>) -> Meter {
        let groups = model.site.libraries.iter().flat_map(|library| &library.drives);
        let mut rates = groups.flat_map(|group| (0..group.count).map(|_| group.timing.native_rate));
        let drives =
            drives.into_iter().map(|name| DriveMeter::new(name, rates.next().unwrap_or(0))).collect();
        Meter {
            variant: model.name.clone(),
            seed,
            warm_up: model.warm_up,
            ends_with_work: model.until_done,
            has_campaign: model.workloads.iter().any(|workload| asks(workload) && ends(workload)),
            totals: Totals::default(),
            bins: Bins::new(model.step),
            drives,
            campaigns: model
                .workloads
                .iter()
                .map(|w| CampaignMeter::new(&w.name, asks(w), ends(w)))
                .collect(),
            classes: model.site.classes.iter().map(|class| ClassMeter::new(&class.name)).collect(),
            workloads: model.workloads.iter().map(|workload| usize::from(workload.class.0)).collect(),
            tapes: Vec::new(),
            level: Level::default(),
            queue_max: 0,
            queue_age_max: Duration::ZERO,
            faults: [0; FaultKind::ALL.len()],
            checks: BTreeMap::new(),
        }
    }

    /// From now on the drive does this.
    pub fn drive(&mut self, now: Moment, drive: usize, activity: DriveActivity) {
        if let Some((from, to, before)) = self.drives[drive].change(now, activity) {
            self.bins.spend(from, to, before);
        }
    }

    /// A mount is ordered.
    pub fn mount(&mut self, now: Moment, drive: usize, tape: u32) {
        self.totals.mounts += 1;
        self.drives[drive].mounts += 1;
        self.bins.at(now).mounts += 1;
        let word = tape as usize / 64;
        if word >= self.tapes.len() {
            self.tapes.resize(word + 1, 0);
        }
        self.tapes[word] |= 1 << (tape % 64);
    }

    /// Bytes of so many files are read from tape.
    pub fn tape_read(&mut self, from: Moment, to: Moment, drive: usize, bytes: u64, files: u64) {
        add(&mut self.totals.tape_read, bytes);
        self.totals.files_read += files;
        add(&mut self.drives[drive].read, bytes);
        self.bins.spread(from, to, bytes, |bin| &mut bin.tape_read);
    }

    /// Bytes of so many copies of files are written to tape.
    pub fn tape_written(&mut self, from: Moment, to: Moment, drive: usize, bytes: u64, files: u64) {
        add(&mut self.totals.tape_written, bytes);
        self.totals.files_written += files;
        add(&mut self.drives[drive].written, bytes);
        self.bins.spread(from, to, bytes, |bin| &mut bin.tape_written);
    }

    /// Clients read these bytes.
    pub fn client_read(&mut self, from: Moment, to: Moment, bytes: u64) {
        add(&mut self.totals.client_read, bytes);
        self.bins.spread(from, to, bytes, |bin| &mut bin.client_read);
    }

    /// Clients write these bytes.
    pub fn client_written(&mut self, from: Moment, to: Moment, bytes: u64) {
        add(&mut self.totals.client_written, bytes);
        self.bins.spread(from, to, bytes, |bin| &mut bin.client_written);
    }

    /// A workload puts a file. Its bytes are counted by [`Meter::client_written`].
    pub fn put(&mut self, _now: Moment, workload: usize, bytes: u64) {
        self.totals.files_put += 1;
        let class = &mut self.classes[self.workloads[workload]];
        class.put += 1;
        add(&mut class.put_bytes, bytes);
    }

    /// A workload wants a file, which is in the pool, or is not.
    pub fn wanted(&mut self, now: Moment, workload: usize, bytes: u64, hit: bool) {
        let hits = u64::from(hit);
        self.totals.files_wanted += 1;
        self.totals.hits += hits;
        let bin = self.bins.at(now);
        bin.wanted += 1;
        bin.hits += hits;
        self.campaigns[workload].wanted(now, bytes);
        let class = &mut self.classes[self.workloads[workload]];
        class.wanted += 1;
        class.hits += hits;
    }

    /// A wanted file is there, so long after it was wanted.
    pub fn served(&mut self, now: Moment, workload: usize, wait: Duration) {
        self.totals.files_served += 1;
        self.campaigns[workload].served(now, wait);
    }

    /// A wanted file will never be there, or is not wanted any more.
    pub fn refused(&mut self, _now: Moment, workload: usize) {
        self.totals.files_refused += 1;
        self.campaigns[workload].refused += 1;
    }

    /// A file is evicted, so long after it was last touched; nothing if it never was in this run.
    pub fn evicted(&mut self, _now: Moment, class: ClassIndex, bytes: u64, untouched: Option<Duration>) {
        add(&mut self.totals.evicted, bytes);
        self.classes[usize::from(class.0)].evicted(untouched);
    }

    /// The last copy of a file is on tape, so long after it was put.
    pub fn migrated(&mut self, class: ClassIndex, wait: Duration) {
        self.classes[usize::from(class.0)].migrated(wait);
    }

    /// Queues as they stand from now on.
    pub fn level(&mut self, now: Moment, level: Level) {
        self.pass(now);
        self.queue_max = self.queue_max.max(level.queue);
        self.level = level;
    }

    /// Bytes of a class in the pool from now on.
    pub fn pool_of(&mut self, now: Moment, class: ClassIndex, bytes: u64) {
        self.classes[usize::from(class.0)].pool(now, bytes);
    }

    /// Bytes read from and written to the pool's disks since the run's beginning.
    pub fn pool_io(&mut self, read: u64, written: u64) {
        self.totals.pool_read = read;
        self.totals.pool_written = written;
    }

    /// Something went wrong.
    pub fn fault(&mut self, kind: FaultKind) {
        self.faults[kind as usize] += 1;
    }

    /// An invariant was checked.
    pub fn check(&mut self, name: &'static str) {
        *self.checks.entry(name).or_default() += 1;
    }

    /// An invariant was checked so many times.
    pub fn checks(&mut self, name: &'static str, times: u64) {
        *self.checks.entry(name).or_default() += times;
    }

    /// The level has been what it is until now.
    fn pass(&mut self, now: Moment) {
        let age = self.level.oldest.map_or(Duration::ZERO, |oldest| now.since(oldest));
        self.queue_age_max = self.queue_age_max.max(age);
        self.bins.level(now, &self.level);
    }
}

/// Whether a workload asks for files at all.
fn asks(workload: &Workload) -> bool {
    match &workload.kind {
        WorkloadKind::Campaign { .. } | WorkloadKind::Carousel { .. } | WorkloadKind::Users { .. } => true,
        WorkloadKind::Ingest { .. } | WorkloadKind::Saturate { .. } => false,
        WorkloadKind::Backup { restore_at, .. } => restore_at.is_some(),
        WorkloadKind::Recorded { stages, .. } => !stages.is_empty(),
    }
}

/// Whether a workload's requests are done at some time.
fn ends(workload: &Workload) -> bool {
    use WorkloadKind::{Backup, Campaign, Carousel};
    matches!(workload.kind, Campaign { .. } | Carousel { .. } | Backup { .. })
}
