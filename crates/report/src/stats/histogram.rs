//! Quantiles of any number of values in bounded memory.

/// Parts of each doubling: steps of less than 0.8 %.
const PARTS: u64 = 128;
const PARTS_BITS: u32 = PARTS.ilog2();

/// How often which value occurred, in steps of less than 0.8 %: below 128 every value by itself, from there
/// on
/// 128 equal steps to each doubling. At most 7,424 counters. Integers only, so that it is the same
/// everywhere.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum: u128,
    max: u64,
}

impl Histogram {
    /// Empty.
    #[must_use]
    pub fn new() -> Histogram {
        Histogram::default()
    }

    /// One more value.
    pub fn push(&mut self, value: u64) {
        let index = index(value);
        if index >= self.counts.len() {
            self.counts.resize(index + 1, 0);
        }
        self.counts[index] += 1;
        self.count += 1;
        self.sum += u128::from(value);
        self.max = self.max.max(value);
    }

    /// How many values there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The largest, exactly; 0 if there was none.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The mean, exactly; 0 if there was none.
    #[must_use]
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// The smallest value that at least this share of all (0 to 1) does not exceed, to within 0.4 %; 0 if
    /// there was none.
    #[must_use]
    pub fn quantile(&self, share: f64) -> u64 {
        let rank = ((self.count as f64 * share).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return middle(index).min(self.max);
            }
        }
        self.max
    }
}

/// The counter of a value.
fn index(value: u64) -> usize {
    if value < PARTS {
        return value as usize;
    }
    let shift = value.ilog2() - PARTS_BITS;
    (u64::from(shift + 1) * PARTS + (value >> shift) - PARTS) as usize
}

/// The middle of a counter's values.
fn middle(index: usize) -> u64 {
    let index = index as u64;
    if index < PARTS {
        return index;
    }
    let shift = index / PARTS - 1;
    let low = (PARTS + index % PARTS) << shift;
    low + ((1u64 << shift) - 1) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_right_to_within_a_step() {
        let mut histogram = Histogram::new();
        for value in 1..=1_000_000u64 {
            histogram.push(value);
        }
        for (share, exact) in [(0.5, 500_000.0), (0.9, 900_000.0), (0.99, 990_000.0), (0.001, 1_000.0)] {
            let found = histogram.quantile(share) as f64;
            assert!((found / exact - 1.0).abs() < 0.004, "{share}: {found}");
        }
        assert_eq!(histogram.max(), 1_000_000);
        assert_eq!(histogram.quantile(1.0), histogram.max());
        assert!((histogram.mean() - 500_000.5).abs() < 1e-9);
    }

    #[test]
    fn every_value_has_its_place_and_memory_is_bounded() {
        for value in (0..64).flat_map(|bit| [1u64 << bit, (1u64 << bit) + 1, (1u64 << bit) - 1]) {
            let found = middle(index(value));
            let off = found.abs_diff(value) as f64;
            assert!(off <= value as f64 * 0.004, "{value} is found as {found}");
        }
        assert_eq!(index(u64::MAX) + 1, 7_424);
        assert_eq!(Histogram::new().quantile(0.5), 0);
    }
}
