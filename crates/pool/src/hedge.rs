//! How much may be read because others are late: the decision alone.
//!
//! Where one drive is slow it is right to read around it. Where all are, since more is asked of them than
//! they can give, it makes them slower still: each cell that is late has others read in its place, and then
//! those are late. So what is read around a drive that is no slower than the others is a small part of what
//! is read.

use std::sync::atomic::{AtomicI64, Ordering};

/// Of so many cells that were asked for, one may be read in the place of others that are late.
const ONE_OF: i64 = 20;
/// As many may be at once, if for long none was late.
const AT_ONCE: i64 = 256;

/// What may still be read in the place of what is late, in cells times [`ONE_OF`].
pub(crate) struct HedgeBudget(AtomicI64);

impl Default for HedgeBudget {
    fn default() -> Self {
        HedgeBudget(AtomicI64::new(AT_ONCE * ONE_OF))
    }
}

impl HedgeBudget {
    /// So many cells were asked for.
    pub(crate) fn asked(&self, cells: usize) {
        let cells = i64::try_from(cells).unwrap_or(i64::MAX);
        let more = |has: i64| Some(has.saturating_add(cells).min(AT_ONCE * ONE_OF));
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }

    /// Whether so many more cells may be read; they are, then.
    pub(crate) fn take(&self, cells: usize) -> bool {
        let cost = i64::try_from(cells).unwrap_or(i64::MAX).saturating_mul(ONE_OF);
        assert!(cost >= 0, "what is read beside others costs something");
        let less = |has: i64| (has >= cost).then_some(has.saturating_sub(cost));
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_beside_is_a_twentieth_and_some_at_once() {
        let budget = HedgeBudget::default();
        assert!((0..32).all(|_| budget.take(8)), "for long nothing was late");
        assert!(!budget.take(1));
        let mut taken = 0;
        for _ in 0..1_000 {
            budget.asked(8);
            taken += usize::from(budget.take(8)) * 8;
        }
        assert_eq!(taken, 8_000 / 20);
        budget.asked(usize::MAX);
        assert!(budget.take(256) && !budget.take(1), "no more is saved up");
        assert!(!budget.take(usize::MAX));
    }
}
