//! How long operations took, in bounded memory. Pure.

use std::fmt;
use std::time::Duration;

/// Parts of each doubling: a value is known to within 1/32.
const PARTS_BITS: u32 = 5;
const PARTS: usize = 1 << PARTS_BITS;
/// From 1 ns to 2^64 ns: 15 KiB, however many values.
const BUCKETS: usize = (64 - PARTS_BITS as usize + 1) * PARTS;

/// Durations by how often they came; the largest one exactly.
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { counts: vec![0; BUCKETS], total: 0, max: 0 }
    }
}

fn bucket(nanos: u64) -> usize {
    let bits = 64 - nanos.leading_zeros();
    let Some(shift) = bits.checked_sub(PARTS_BITS + 1) else { return nanos as usize };
    // The highest bit is implied: 32 to 63 are the parts of each doubling.
    (shift as usize) * PARTS + (nanos >> shift) as usize
}

/// The largest value of a bucket.
fn highest(bucket: usize) -> u64 {
    let Some(shift) = (bucket / PARTS).checked_sub(1) else { return bucket as u64 };
    let part = (bucket % PARTS + PARTS) as u64;
    let low = part << shift;
    low + ((1u64 << shift) - 1)
}

impl Histogram {
    /// Adds one.
    pub fn add(&mut self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        if let Some(count) = self.counts.get_mut(bucket(nanos)) {
            *count += 1;
        }
        self.total += 1;
        self.max = self.max.max(nanos);
    }

    /// Adds all of another.
    pub fn merge(&mut self, other: &Histogram) {
        for (own, count) in self.counts.iter_mut().zip(&other.counts) {
            *own += count;
        }
        self.total += other.total;
        self.max = self.max.max(other.max);
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.total
    }

    /// The longest; zero of none.
    #[must_use]
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max)
    }

    /// What a share of them, 0 to 1, does not exceed, at most 1/32 too long; zero of none.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Duration {
        let rank = (share.clamp(0.0, 1.0) * self.total as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (at, count) in self.counts.iter().enumerate() {
            seen += count;
            if *count > 0 && seen >= rank {
                return Duration::from_nanos(highest(at).min(self.max));
            }
        }
        Duration::ZERO
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Histogram({} of up to {:?})", self.total, self.max())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_value_has_a_bucket_and_they_follow_one_another() {
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert_eq!(highest(BUCKETS - 1), u64::MAX);
        for at in 1..BUCKETS {
            assert_eq!(bucket(highest(at)), at);
            assert_eq!(bucket(highest(at - 1) + 1), at);
        }
    }

    #[test]
    fn of_none_all_is_zero() {
        let none = Histogram::default();
        assert_eq!((none.quantile(0.5), none.max(), none.count()), (Duration::ZERO, Duration::ZERO, 0));
    }

    proptest! {
        #[test]
        fn quantiles_are_those_of_the_sorted_values(
            mut values in proptest::collection::vec(0u64..10_000_000_000, 1..400), share in 0.0f64..=1.0
        ) {
            let (mut one, mut other) = (Histogram::default(), Histogram::default());
            for (at, value) in values.iter().enumerate() {
                let half = if at % 2 == 0 { &mut one } else { &mut other };
                half.add(Duration::from_nanos(*value));
            }
            one.merge(&other);
            values.sort_unstable();
            let rank = ((share * values.len() as f64).ceil() as usize).clamp(1, values.len());
            let exact = values[rank - 1];
            let found = one.quantile(share).as_nanos() as u64;
            prop_assert!(found >= exact && found - exact <= exact / 32 + 1, "{} for {}", found, exact);
            prop_assert_eq!(one.max().as_nanos() as u64, *values.last().unwrap());
            prop_assert_eq!(one.count(), values.len() as u64);
        }
    }
}
