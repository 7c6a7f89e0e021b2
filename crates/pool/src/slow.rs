//! Whether a drive is slow beside the others. Pure.
//!
//! What a drive does takes so many times as long as the like of it usually takes on all drives of the pool.
//! The median of that is estimated, in steps of an eighth: about 18 operations that are slow show a drive
//! that was well to be slow, and half as many that are not show that it is well again. A few slow ones among
//! many, as a disk has them that moves a sector, change nothing.

use std::time::Duration;

use base::Timestamp;

use crate::config::{HEDGE_FACTOR, HEDGE_MIN};

/// A drive that takes this many times as long is slow: as long as a read may take before others stand in.
const SLOW_FROM: u64 = HEDGE_FACTOR * USUAL;
/// One that is slow is well again when it takes no more than this.
const WELL_TO: u64 = 3 * USUAL;
/// As long as usual; what is counted are thousandths of that.
const USUAL: u64 = 1_000;
/// The longest that one operation counts for, so that the estimate stays in bounds.
const RATIO_MAX: u64 = 1_000 * USUAL;
/// An estimate moves by this part of itself.
const STEP: u64 = 8;
/// For how long a drive counts as slow of which nothing more was asked: then it is tried again.
const KEPT: Duration = Duration::from_secs(60);

/// What an operation is compared with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Read,
    Append,
    Sync,
}

/// How slow one drive is.
#[derive(Clone, Debug)]
pub(crate) struct Slowness {
    /// The median of how long its operations take, in thousandths of what is usual.
    ratio: u64,
    is_slow: bool,
    /// When it last did anything.
    last: Timestamp,
}

impl Default for Slowness {
    fn default() -> Self {
        Slowness { ratio: USUAL, is_slow: false, last: Timestamp(0) }
    }
}

impl Slowness {
    /// Takes note of an operation that ended now, and of what is usual for its like. `Some`: whether it is
    /// slow has changed to that.
    pub(crate) fn took(&mut self, now: Timestamp, span: Duration, usual: Duration) -> Option<bool> {
        self.last = now;
        let ratio = span.as_nanos().saturating_mul(u128::from(USUAL)) / usual.as_nanos().max(1);
        let ratio = u64::try_from(ratio).unwrap_or(u64::MAX).clamp(1, RATIO_MAX);
        // What takes no longer than a read may take in any case makes no drive slow.
        let ratio = if span < HEDGE_MIN { ratio.min(USUAL) } else { ratio };
        let step = (self.ratio / STEP).max(1);
        self.ratio = if ratio > self.ratio { self.ratio + step } else { (self.ratio - step).max(1) };
        assert!(self.ratio <= 2 * RATIO_MAX, "an estimate is bounded by what it is made of");
        let before = self.is_slow;
        self.is_slow = if before { self.ratio > WELL_TO } else { self.ratio >= SLOW_FROM };
        (before != self.is_slow).then_some(self.is_slow)
    }

    /// How many times as long as usual its operations take, if it is slow.
    pub(crate) fn factor(&self, now: Timestamp) -> Option<u64> {
        (self.is_slow && now.since(self.last) < KEPT).then_some(self.ratio / USUAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL_SPAN: Duration = Duration::from_millis(10);

    /// Operations in a row, one a second, each so many times as long as usual; gives after how many of them
    /// it was slow, or was so no more.
    fn run(one: &mut Slowness, from: i64, spans: &[f64]) -> Option<usize> {
        (0..spans.len()).find(|at| {
            let now = Timestamp((from + *at as i64) * 1_000_000_000);
            one.took(now, USUAL_SPAN.mul_f64(spans[*at]), USUAL_SPAN).is_some()
        })
    }

    #[test]
    fn one_that_takes_ten_times_as_long_is_slow_soon_and_well_again_sooner() {
        let mut one = Slowness::default();
        let slow = run(&mut one, 0, &[20.0; 100]).unwrap();
        assert!((10..20).contains(&slow), "{slow}");
        assert_eq!(one.factor(Timestamp(20_000_000_000)), Some(8));
        let well = run(&mut one, 20, &[1.0; 100]).unwrap();
        assert!(well < slow, "{well}");
        assert_eq!(one.factor(Timestamp(40_000_000_000)), None);
    }

    #[test]
    fn it_is_not_slow_and_well_in_turn() {
        let mut one = Slowness::default();
        assert!(run(&mut one, 0, &[20.0; 40]).is_some());
        // Between both limits it stays what it is.
        assert_eq!(run(&mut one, 40, &[5.0; 100]), None);
        let mut other = Slowness::default();
        assert_eq!(run(&mut other, 0, &[5.0; 100]), None);
    }

    #[test]
    fn some_slow_operations_make_no_slow_drive() {
        let mut one = Slowness::default();
        let spans: Vec<f64> = (0..3_000).map(|at| if at % 3 == 0 { 500.0 } else { 1.0 }).collect();
        assert_eq!(run(&mut one, 0, &spans), None);
    }

    #[test]
    fn what_is_quick_is_not_slow_however_quick_the_others_are() {
        let mut one = Slowness::default();
        for at in 0..1_000 {
            let (span, usual) = (Duration::from_millis(19), Duration::from_micros(50));
            assert_eq!(one.took(Timestamp(at), span, usual), None);
        }
    }

    #[test]
    fn one_that_nothing_is_asked_of_is_tried_again() {
        let mut one = Slowness::default();
        let last = i64::try_from(run(&mut one, 0, &[20.0; 40]).unwrap()).unwrap();
        assert!(one.factor(Timestamp((last + 59) * 1_000_000_000)).is_some());
        assert_eq!(one.factor(Timestamp((last + 60) * 1_000_000_000)), None);
        // It has not become any faster by that.
        assert_eq!(run(&mut one, 100, &[20.0]), None);
        assert!(one.factor(Timestamp(101 * 1_000_000_000)).is_some());
    }
}
