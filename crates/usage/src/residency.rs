//! What a pool serves, and how large it has to be, if each file leaves it so long after its last use.
//!
//! The working set of a page replacement policy (Denning, 1968), with files for pages: a use is a put or a
//! read; a file stands in the pool from each use to the next one, or for the residency if that is shorter.

use base::{ByteCount, Duration};

use crate::histogram::Histogram;

/// The residencies that are told.
const KEPT_SECONDS: [u64; 8] =
    [3_600, 6 * 3_600, 86_400, 2 * 86_400, 7 * 86_400, 14 * 86_400, 30 * 86_400, 90 * 86_400];
/// The hit rates of which is told what they take.
const WANTED: [f64; 5] = [0.5, 0.8, 0.9, 0.95, 0.99];

/// A residency, and what comes of it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Residency {
    /// How long a file stays after its last put or read. Of what a hit rate takes at most an eighth too long.
    pub kept: Duration,
    /// Of the reads with a known use before them, the share that came within so long.
    pub within: f64,
    /// Of all reads, the share that the pool serves; a read without a known use before it is none of them.
    pub hit_rate: f64,
    /// What stands in the pool on the mean, without what is deleted before: an upper bound.
    pub space: ByteCount,
}

/// What the figures follow from.
pub(crate) struct Uses<'a> {
    /// From each use to the read after it, in milliseconds.
    pub(crate) intervals: &'a Histogram,
    pub(crate) puts: u64,
    pub(crate) reads: u64,
    /// The mean size of files that were put or read.
    pub(crate) mean: f64,
    /// The time in which all this was.
    pub(crate) days: f64,
}

impl Uses<'_> {
    /// The residencies of the table; empty if nothing was read again.
    pub(crate) fn residencies(&self) -> Vec<Residency> {
        if self.intervals.whole.count == 0 {
            return Vec::new();
        }
        KEPT_SECONDS.iter().map(|seconds| self.keeping(seconds * 1_000)).collect()
    }

    /// The shortest residency with each of the wanted hit rates; `None` if not even to keep all gives it.
    pub(crate) fn for_hit_rates(&self) -> Vec<(f64, Option<Residency>)> {
        let ends: Vec<u64> = self.intervals.ends().collect();
        let shortest = |wanted: f64| {
            let first = ends.partition_point(|end| self.keeping(*end).hit_rate < wanted);
            ends.get(first).map(|end| self.keeping(*end))
        };
        WANTED.iter().map(|wanted| (*wanted, shortest(*wanted))).collect()
    }

    fn keeping(&self, kept_ms: u64) -> Residency {
        let (all, short) = (self.intervals.whole.count as f64, self.intervals.below(kept_ms));
        let served = short.count as f64;
        let share = |of: f64| if of > 0.0 { (served / of).min(1.0) } else { 0.0 };
        // A use that no read follows keeps its file for the whole residency, as one that a late read follows.
        let uses = (self.puts as f64 + self.reads as f64).max(all);
        let stands_ms = short.sum as f64 + (uses - served) * kept_ms as f64;
        let covered_ms = self.days * 86_400_000.0;
        Residency {
            kept: Duration::from_millis(kept_ms),
            within: share(all),
            hit_rate: share(self.reads as f64),
            space: ByteCount((self.mean * stands_ms / covered_ms) as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: u64 = 3_600_000;

    /// One file of 1000 bytes, put and read 40 times, every five hours.
    fn steady(intervals: &Histogram) -> Uses<'_> {
        Uses { intervals, puts: 1, reads: 40, mean: 1_000.0, days: 205.0 / 24.0 }
    }

    #[test]
    fn one_file_that_is_read_again_and_again_stands_in_the_pool_once() {
        let mut intervals = Histogram::default();
        (0..40).for_each(|_| intervals.add(5 * HOUR_MS, 1));
        let told = steady(&intervals).residencies();
        let [hour, six, day, ..] = told[..] else { panic!("{told:?}") };
        assert_eq!((hour.hit_rate, six.hit_rate, day.hit_rate), (0.0, 1.0, 1.0));
        // An hour of each five; and then all of the time, the last stay included.
        let expected = [41.0, 206.0, 224.0].map(|hours| (1_000.0 * hours / 205.0) as u64);
        assert_eq!([hour.space.0, six.space.0, day.space.0], expected);
        assert!(told.is_sorted_by(|a, b| a.space <= b.space && a.hit_rate <= b.hit_rate), "{told:?}");
    }

    #[test]
    fn a_hit_rate_takes_the_shortest_residency_that_has_it() {
        let mut intervals = Histogram::default();
        (0..80).for_each(|_| intervals.add(HOUR_MS, 1));
        (0..15).for_each(|_| intervals.add(100 * HOUR_MS, 1));
        // Of 100 reads five have no use before them: nothing would have served these.
        let uses = Uses { intervals: &intervals, puts: 50, reads: 100, mean: 1e6, days: 30.0 };
        let told = uses.for_hit_rates();
        let kept = |at: usize| told[at].1.map(|residency| residency.kept.as_secs_f64() / 3_600.0);
        assert!((1.0..1.2).contains(&kept(0).unwrap()) && kept(0) == kept(1), "{told:?}");
        assert!((100.0..115.0).contains(&kept(2).unwrap()) && kept(2) == kept(3), "{told:?}");
        assert_eq!(told[4], (0.99, None));
        assert!(told[2].1.unwrap().space > told[1].1.unwrap().space);
    }

    #[test]
    fn of_what_is_never_read_again_nothing_is_told() {
        let uses = Uses { intervals: &Histogram::default(), puts: 7, reads: 0, mean: 1e6, days: 1.0 };
        assert!(uses.residencies().is_empty());
        assert!(uses.for_hit_rates().iter().all(|(_, residency)| residency.is_none()));
    }

    /// Sampled intervals stand for several: more than there were uses.
    #[test]
    fn no_share_is_above_one() {
        let mut intervals = Histogram::default();
        intervals.add(HOUR_MS, 64);
        let uses = Uses { intervals: &intervals, puts: 0, reads: 3, mean: 1e6, days: 1.0 };
        assert!(uses.residencies().iter().all(|residency| residency.hit_rate <= 1.0));
    }
}
