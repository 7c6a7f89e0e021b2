//! How values are spread, in a bounded number of buckets.

use crate::stored::{Input, Stored};

/// Buckets of each power of two: a quantile is at most an eighth off.
const PER_POWER: u64 = 8;
/// Buckets in all: eight single values, then eight of each power of two up to 2^63.
const BUCKETS: usize = 8 + 61 * 8;

/// Counts values by their size; of each bucket it knows how many they are and their sum.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Histogram {
    buckets: Vec<Bucket>,
    pub(crate) whole: Bucket,
    pub(crate) least: u64,
    pub(crate) most: u64,
}

/// Only buckets with values are written, each with its number, in order.
impl Stored for Histogram {
    fn put(&self, out: &mut Vec<u8>) {
        let filled = self.buckets.iter().enumerate().filter(|(_, bucket)| bucket.count > 0);
        let filled: Vec<(u64, Bucket)> = filled.map(|(at, bucket)| (at as u64, *bucket)).collect();
        filled.put(out);
        (self.least, self.most).put(out);
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        let filled = Vec::<(u64, Bucket)>::take(input)?;
        let (least, most) = <(u64, u64)>::take(input)?;
        let mut histogram = Histogram { least, most, ..Histogram::default() };
        if !filled.is_empty() {
            histogram.buckets = vec![Bucket::default(); BUCKETS];
        }
        for (at, bucket) in filled {
            histogram.buckets.get_mut(usize::try_from(at).ok()?)?.merge(bucket);
            histogram.whole.merge(bucket);
        }
        Some(histogram)
    }
}

crate::stored::stored!(Bucket { count, sum });

#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Bucket {
    pub(crate) count: u64,
    pub(crate) sum: u128,
}

impl Bucket {
    fn add(&mut self, value: u64, weight: u64) {
        self.count = self.count.saturating_add(weight);
        self.sum = self.sum.saturating_add(u128::from(value) * u128::from(weight));
    }

    fn merge(&mut self, other: Bucket) {
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// The mean of its values, rounded down; 0 of none.
    pub(crate) fn mean(&self) -> u64 {
        let mean = self.sum.checked_div(u128::from(self.count)).unwrap_or(0);
        u64::try_from(mean).unwrap_or(u64::MAX)
    }
}

impl Histogram {
    /// Adds a value that stands for `weight` values.
    pub(crate) fn add(&mut self, value: u64, weight: u64) {
        if self.buckets.is_empty() {
            self.buckets = vec![Bucket::default(); BUCKETS];
            self.least = u64::MAX;
        }
        if let Some(bucket) = self.buckets.get_mut(index(value)) {
            bucket.add(value, weight);
        }
        self.whole.add(value, weight);
        self.least = self.least.min(value);
        self.most = self.most.max(value);
    }

    /// Adds all values of another one.
    pub(crate) fn merge(&mut self, other: &Histogram) {
        if other.buckets.is_empty() {
            return;
        }
        if self.buckets.is_empty() {
            self.clone_from(other);
            return;
        }
        for (mine, more) in self.buckets.iter_mut().zip(&other.buckets) {
            mine.merge(*more);
        }
        self.whole.merge(other.whole);
        self.least = self.least.min(other.least);
        self.most = self.most.max(other.most);
    }

    /// The value that `share` of all values do not exceed, but for an eighth. 0 of none.
    pub(crate) fn quantile(&self, share: f64) -> u64 {
        self.reaching(share * self.whole.count as f64, |bucket| bucket.count as f64)
    }

    /// The value up to which values make up `share` of the sum, but for an eighth. 0 of none.
    pub(crate) fn quantile_of_sum(&self, share: f64) -> u64 {
        self.reaching(share * self.whole.sum as f64, |bucket| bucket.sum as f64)
    }

    fn reaching(&self, wanted: f64, of: impl Fn(&Bucket) -> f64) -> u64 {
        let mut before = 0.0;
        let filled = self.buckets.iter().filter(|bucket| bucket.count > 0);
        for bucket in filled {
            before += of(bucket);
            if before >= wanted {
                return bucket.mean();
            }
        }
        self.most
    }

    /// How many values are below `limit`, but for an eighth of it, and their sum.
    pub(crate) fn below(&self, limit: u64) -> Bucket {
        let mut below = Bucket::default();
        self.buckets.iter().take(index(limit)).for_each(|bucket| below.merge(*bucket));
        below
    }

    /// For each bucket with values, the least value above all of them, in order.
    pub(crate) fn ends(&self) -> impl Iterator<Item = u64> + '_ {
        let filled = self.buckets.iter().enumerate().filter(|(_, bucket)| bucket.count > 0);
        filled.map(|(at, _)| least(at + 1))
    }

    /// What is from 2^n on and below 2^(n+1), for each n with any; `(n, bucket)`. Zeros count with 2^0.
    pub(crate) fn powers(&self) -> Vec<(u32, Bucket)> {
        let mut powers: Vec<(u32, Bucket)> = Vec::new();
        for (at, bucket) in self.buckets.iter().enumerate().filter(|(_, bucket)| bucket.count > 0) {
            let power = power(at);
            match powers.last_mut() {
                Some((last, whole)) if *last == power => whole.merge(*bucket),
                _ => powers.push((power, *bucket)),
            }
        }
        powers
    }
}

fn index(value: u64) -> usize {
    if value < PER_POWER {
        return value as usize;
    }
    let power = value.ilog2();
    let within = (value >> (power - 3)) & (PER_POWER - 1);
    8 + (power as usize - 3) * 8 + within as usize
}

/// The least value of a bucket; of that behind the last one the greatest value.
fn least(index: usize) -> u64 {
    if index < PER_POWER as usize {
        return index as u64;
    }
    let (power, within) = ((index - 8) / 8, (index - 8) % 8);
    let least = (u128::from(PER_POWER) + within as u128) << power;
    u64::try_from(least).unwrap_or(u64::MAX)
}

/// The power of two that values of a bucket reach.
fn power(index: usize) -> u32 {
    match index {
        0 => 0,
        1..8 => (index as u32).ilog2(),
        _ => (index as u32 - 8) / 8 + 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_are_in_order_and_cover_everything() {
        for value in (0..100_000).chain((0..64).map(|n| 1 << n)).chain([u64::MAX]) {
            let at = index(value);
            assert!(at < BUCKETS, "{value}");
            assert!(index(value.saturating_add(1)) >= at, "{value}");
            assert_eq!(power(at), value.max(1).ilog2(), "{value}");
            assert!(least(at) <= value && (value < least(at + 1) || value == u64::MAX), "{value}");
        }
        assert_eq!(index(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn few_values_are_exact() {
        let mut histogram = Histogram::default();
        assert_eq!((histogram.quantile(0.5), histogram.below(10).count, histogram.powers().len()), (0, 0, 0));
        for value in [10, 1_000, 100_000] {
            histogram.add(value, 1);
        }
        assert_eq!(histogram.quantile(0.5), 1_000);
        assert_eq!(histogram.quantile_of_sum(0.5), 100_000);
        assert_eq!((histogram.least, histogram.most, histogram.whole.mean()), (10, 100_000, 33_670));
        assert_eq!((histogram.below(500).count, histogram.below(2_000).sum), (1, 1_010));
        assert_eq!(histogram.ends().map(|end| histogram.below(end).count).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(histogram.powers().iter().map(|(n, _)| *n).collect::<Vec<_>>(), [3, 9, 16]);
    }

    proptest! {
        #[test]
        fn a_quantile_is_an_eighth_off_at_most(
            mut values in proptest::collection::vec(1u64..1_000_000_000, 1..200),
            share in 0.01f64..1.0,
        ) {
            let mut histogram = Histogram::default();
            values.iter().for_each(|value| histogram.add(*value, 3));
            values.sort_unstable();
            let at = ((share * values.len() as f64).ceil() as usize).clamp(1, values.len()) - 1;
            let (exact, found) = (values[at] as f64, histogram.quantile(share) as f64);
            prop_assert!((found - exact).abs() <= exact / 8.0 + 1.0, "{} for {}", found, exact);
        }
    }
}
