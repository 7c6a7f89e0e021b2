//! Figures over time, in bins.

use base::Duration;

use super::Level;
use crate::moment::Moment;
use report::outcome::{DriveActivity, Series};

/// Most bins of a series: an hour each of a year. Where a run needs more, bins are joined in pairs.
pub const BINS_MAX: usize = 10_000;

/// What happened in a bin.
#[derive(Clone, Debug, Default)]
pub struct Bin {
    pub tape_read: u64,
    pub tape_written: u64,
    pub client_written: u64,
    pub client_read: u64,
    pub wanted: u64,
    pub hits: u64,
    pub mounts: u64,
    /// Microseconds of all drives.
    activity: [u64; DriveActivity::COUNT],
    /// At its end: files, microseconds, bytes, bytes.
    queue: u64,
    queue_age: u64,
    backlog: u64,
    pool_used: u64,
}

impl Bin {
    /// Sums add up.
    fn add(&mut self, other: &Bin) {
        self.tape_read += other.tape_read;
        self.tape_written += other.tape_written;
        self.client_written += other.client_written;
        self.client_read += other.client_read;
        self.wanted += other.wanted;
        self.hits += other.hits;
        self.mounts += other.mounts;
        for (mine, others) in self.activity.iter_mut().zip(other.activity) {
            *mine += others;
        }
    }

    /// Levels are those of the later one.
    fn take_level(&mut self, other: &Bin) {
        self.queue = other.queue;
        self.queue_age = other.queue_age;
        self.backlog = other.backlog;
        self.pool_used = other.pool_used;
    }

    /// Levels at a bin's end.
    fn set_level(&mut self, end: u64, level: &Level) {
        self.queue = level.queue;
        self.queue_age = level.oldest.map_or(0, |oldest| end.saturating_sub(oldest.0));
        self.backlog = level.backlog;
        self.pool_used = level.pool_used;
    }
}

/// All bins so far.
#[derive(Debug)]
pub struct Bins {
    /// The width of a bin, microseconds.
    step: u64,
    bins: Vec<Bin>,
    /// So many bins have their levels.
    levelled: usize,
}

impl Bins {
    /// None, each as wide as this, at least a microsecond.
    pub fn new(step: Duration) -> Bins {
        let step = u64::try_from(step.as_micros()).unwrap_or(u64::MAX).max(1);
        Bins { step, bins: Vec::new(), levelled: 0 }
    }

    /// The bin of a moment.
    pub fn at(&mut self, moment: Moment) -> &mut Bin {
        let index = self.index(moment.0);
        &mut self.bins[index]
    }

    /// Spreads bytes evenly over the time between two moments; all of them arrive.
    pub fn spread(&mut self, from: Moment, to: Moment, bytes: u64, figure: impl Fn(&mut Bin) -> &mut u64) {
        let (from, to) = (from.0, to.0);
        if to <= from {
            *figure(self.at(Moment(from))) += bytes;
            return;
        }
        let last = self.index(to - 1);
        let first = (from / self.step) as usize;
        if first == last {
            *figure(&mut self.bins[first]) += bytes;
            return;
        }
        let mut done = 0;
        for index in first..=last {
            let until = ((index as u64 + 1).saturating_mul(self.step)).min(to) - from;
            let so_far = (u128::from(bytes) * u128::from(until) / u128::from(to - from)) as u64;
            *figure(&mut self.bins[index]) += so_far - done;
            done = so_far;
        }
        assert_eq!(done, bytes, "a transfer's bytes all arrive");
    }

    /// A drive did this between two moments.
    pub fn spend(&mut self, from: Moment, to: Moment, activity: DriveActivity) {
        self.spread(from, to, to.since(from).as_micros() as u64, |bin| &mut bin.activity[activity as usize]);
    }

    /// The level has been this since it was last told, until now.
    pub fn level(&mut self, now: Moment, level: &Level) {
        if now.0 / self.step <= self.levelled as u64 {
            return;
        }
        self.index(now.0);
        let ended = (now.0 / self.step) as usize;
        for index in self.levelled..ended {
            let end = (index as u64 + 1) * self.step;
            self.bins[index].set_level(end, level);
        }
        self.levelled = self.levelled.max(ended);
    }

    /// The series of a run that ended at this moment with this level.
    pub fn finish(mut self, end: Moment, level: &Level) -> Series {
        self.level(end, level);
        self.index(end.0.saturating_sub(1));
        let count = (end.0.div_ceil(self.step) as usize).max(1);
        for late in self.bins.split_off(count.min(self.bins.len())) {
            // Transfers that were told of in advance end with the run.
            self.bins[count - 1].add(&late);
        }
        for index in self.levelled..count {
            self.bins[index].set_level(end.0, level);
        }
        self.series()
    }

    fn series(&self) -> Series {
        let all = |figure: fn(&Bin) -> u64| self.bins.iter().map(figure).collect::<Vec<u64>>();
        Series {
            step: self.step as f64 / 1e6,
            tape_read: all(|bin| bin.tape_read),
            tape_written: all(|bin| bin.tape_written),
            client_written: all(|bin| bin.client_written),
            client_read: all(|bin| bin.client_read),
            queue: all(|bin| bin.queue),
            queue_age: self.bins.iter().map(|bin| bin.queue_age as f64 / 1e6).collect(),
            backlog: all(|bin| bin.backlog),
            pool_used: all(|bin| bin.pool_used),
            wanted: all(|bin| bin.wanted),
            hits: all(|bin| bin.hits),
            mounts: all(|bin| bin.mounts),
            activity: self.bins.iter().map(|bin| bin.activity.map(|micros| micros as f64 / 1e6)).collect(),
        }
    }

    /// The index of a moment's bin, which is there afterwards.
    fn index(&mut self, micros: u64) -> usize {
        while micros / self.step >= BINS_MAX as u64 {
            self.join();
        }
        let index = (micros / self.step) as usize;
        if index >= self.bins.len() {
            self.bins.resize(index + 1, Bin::default());
        }
        index
    }

    /// Joins bins in pairs.
    fn join(&mut self) {
        self.step = self.step.saturating_mul(2);
        self.levelled /= 2;
        let half = self.bins.len().div_ceil(2);
        for index in 0..half {
            let mut bin = self.bins[2 * index].clone();
            if let Some(second) = self.bins.get(2 * index + 1) {
                bin.add(second);
                bin.take_level(second);
            }
            self.bins[index] = bin;
        }
        self.bins.truncate(half);
    }
}
