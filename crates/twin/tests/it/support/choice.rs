//! Which tape is mounted next, against the oldest first: sites under load, run in pairs with the same seeds.

use base::{ByteCount, Duration};
use report::outcome::Outcome;
use report::stats::{Comparison, compare};
use scenario::laws::Law;
use scenario::model::{Choice, ClassIndex, Model, Workload, WorkloadKind};

use super::{GB, TB, arrivals, hold, hours, model, secs};

/// Files of the mean size that a tape holds.
const TAPE_FILES: u64 = 20;

/// A site under load: single files at random of many tapes, as M/M/1 (or M/M/n), and whole tapes at once.
#[derive(Clone, Copy)]
pub struct Load {
    pub name: &'static str,
    pub drives: u32,
    /// Mounts and unmounts that the library can do at once.
    pub mounts: usize,
    /// Part of the drives' time that single files take; 0: there are none.
    pub load: f64,
    /// Mean size of a file; sizes are exponential.
    pub mean: u64,
    /// Seconds of a drive for a single file of the mean size: mount, locate, read, unmount.
    pub service: f64,
    pub tapes: u64,
    pub copies: u16,
    /// Files of a thousand that have one more copy, on 50 tapes of their own.
    pub duplicates: u16,
    /// Whole tapes that are wanted at the beginning.
    pub campaign: u32,
    /// Hours for which single files are wanted.
    pub hours: u64,
}

/// One drive at a load of 0.9, 30 days of single files of 100 GB.
pub const SINGLE: Load = Load {
    name: "one drive",
    drives: 1,
    mounts: usize::MAX,
    load: 0.9,
    mean: 100 * GB,
    service: 450.0,
    tapes: 1000,
    copies: 1,
    duplicates: 0,
    campaign: 0,
    hours: 24 * 30,
};

impl Load {
    fn model(&self, is_oldest_first: bool) -> Model {
        let most = TAPE_FILES * self.mean;
        let mut site = model(self.drives, self.copies, most);
        let sizes = Law::Exponential { mean: self.mean as f64, least: GB / 100, most };
        site.site.classes[0].sizes = sizes.table().expect("the law is one");
        site.site.classes[0].large = ByteCount(1);
        site.site.pool.capacity = ByteCount(50_000 * TB);
        site.policy.recall_age = secs(0);
        site.policy.mounts_at_once_max = self.mounts;
        if is_oldest_first {
            // What starves goes first, oldest first: everything does.
            site.policy.starvation = secs(0);
        }
        hold(&mut site, self.tapes * TAPE_FILES);
        let holding = &mut site.site.holdings[0];
        (holding.run_files, holding.duplicates_per_mille) = (1, self.duplicates);
        holding.duplicate_tapes = if self.duplicates > 0 { 50 } else { 0 };
        self.users(&mut site);
        self.campaign(&mut site);
        site.span = hours(24 * 365);
        site.warm_up = Some(Duration::ZERO);
        site
    }

    fn users(&self, site: &mut Model) {
        if self.load > 0.0 {
            let per_day = self.load * f64::from(self.drives) * 86_400.0 / self.service;
            let arrivals = arrivals(per_day);
            let kind = WorkloadKind::Users { arrivals, files: 1, popularity: 0.0, repeat_per_mille: 0 };
            site.workloads.push(workload("users", kind, Some(hours(self.hours))));
        }
    }

    fn campaign(&self, site: &mut Model) {
        if self.campaign > 0 {
            let (tapes, share_per_mille) = (self.campaign, 1000);
            let choice = Choice { files: None, data_sets: false, share_per_mille, shuffled: false, tapes };
            site.workloads.push(workload("campaign", WorkloadKind::Campaign { choice, window: 0 }, None));
        }
    }

    /// The scheduler's order beside the oldest first.
    pub fn compare(&self, seeds: u64) -> Pair {
        let runs = |is_oldest_first| -> Vec<Figures> {
            let model = self.model(is_oldest_first);
            (1..=seeds).map(|seed| Figures::of(&twin::run(&model, seed))).collect()
        };
        Pair { turns: runs(false), oldest: runs(true) }
    }
}

fn workload(name: &str, kind: WorkloadKind, end: Option<Duration>) -> Workload {
    Workload { name: name.to_owned(), class: ClassIndex(0), kind, begin: secs(0), end, priority: 4 }
}

/// What one run says.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// Mean wait of all requests, each for a file, seconds.
    pub all: f64,
    /// The same of single files alone.
    pub users: f64,
    /// The longest wait of a single file, seconds.
    pub longest: f64,
    /// From the first to the last file of the campaign, seconds.
    pub campaign: f64,
    pub mounts: f64,
}

impl Figures {
    fn of(outcome: &Outcome) -> Self {
        assert_eq!(outcome.violation, None);
        assert!(outcome.is_drained, "{:?}", outcome.totals);
        let of = |name: &str| outcome.campaigns.iter().find(|of| of.name == name);
        let files: u64 = outcome.campaigns.iter().map(|of| of.served).sum();
        let waits = outcome.campaigns.iter().map(|of| of.wait_mean * of.served as f64);
        Figures {
            all: waits.sum::<f64>() / files as f64,
            users: of("users").map_or(0.0, |of| of.wait_mean),
            longest: of("users").map_or(0.0, |of| of.waits[3]),
            campaign: of("campaign").map_or(0.0, |of| of.end - of.begin),
            mounts: outcome.totals.mounts as f64,
        }
    }
}

/// The same seeds in both orders.
pub struct Pair {
    pub turns: Vec<Figures>,
    pub oldest: Vec<Figures>,
}

impl Pair {
    pub fn of(&self, what: impl Fn(&Figures) -> f64) -> Comparison {
        let values = |runs: &[Figures]| -> Vec<f64> { runs.iter().map(&what).collect() };
        compare(&values(&self.turns), &values(&self.oldest))
    }

    /// Mean with the oldest first.
    pub fn oldest(&self, what: impl Fn(&Figures) -> f64) -> f64 {
        self.oldest.iter().map(what).sum::<f64>() / self.oldest.len() as f64
    }
}
