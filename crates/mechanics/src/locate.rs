//! How long a drive takes from one place on the tape to another.

use crate::map::{Place, TapeMap};

/// The cost of a locate in microseconds, as CTA's heuristic has it: a sum of terms for what changes between
/// the two places. Fitted on LTO-7 type M.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LocateCost {
    /// Any locate.
    pub base_us: f64,
    /// Another wrap.
    pub wrap_change_us: f64,
    /// Another band: a quarter of the wraps.
    pub band_change_us: f64,
    /// The other half of the tape's length; negative.
    pub landing_zone_change_us: f64,
    /// A wrap of the other direction.
    pub direction_change_us: f64,
    /// The same wrap, behind the head.
    pub step_back_us: f64,
    /// A unit of longitudinal position.
    pub lpos_us: f64,
    /// No locate takes less.
    pub least_us: f64,
}

impl LocateCost {
    /// From `from` to `to`, in microseconds.
    #[must_use]
    pub fn between(&self, map: &TapeMap, from: Place, to: Place) -> u64 {
        let band = |place: Place| u32::from(place.wrap) * 4 / u32::from(map.wraps());
        let near = |place: Place| place.lpos < map.middle();
        let behind = if from.is_forward() { to.lpos < from.lpos } else { to.lpos > from.lpos };
        // Added in this order whatever applies: the sum is the same everywhere to the last bit.
        let mut fixed = self.base_us;
        if from.wrap != to.wrap {
            fixed += self.wrap_change_us;
            if band(from) != band(to) {
                fixed += self.band_change_us;
            }
        }
        if near(from) != near(to) {
            fixed += self.landing_zone_change_us;
        }
        if from.is_forward() != to.is_forward() {
            fixed += self.direction_change_us;
        }
        if from.wrap == to.wrap && behind {
            fixed += self.step_back_us;
        }
        rounded((fixed + self.way_us(from, to)).max(self.least_us))
    }

    /// The part of it that is the way along the tape, in microseconds.
    #[must_use]
    pub fn way_us(&self, from: Place, to: Place) -> f64 {
        self.lpos_us * f64::from(from.lpos.abs_diff(to.lpos))
    }
}

/// What `round` gives of a number that is not negative, without a call: plans are made of millions of these.
fn rounded(number: f64) -> u64 {
    let whole = number as u64;
    // Exact below 2^53; above there are no halves.
    whole.saturating_add(u64::from(number - whole as f64 >= 0.5))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounded_is_round() {
        let below_half = f64::from_bits(0.5_f64.to_bits() - 1);
        let numbers =
            [0.0, below_half, 0.5, 1.0, 1.5, 2.5, 4_503_599_627_370_495.5, 9_007_199_254_740_993.0, 1e18];
        for number in numbers {
            assert_eq!(rounded(number), number.round() as u64, "{number}");
        }
        let mut bits = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..100_000 {
            bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let number = (bits >> 20) as f64 / 1024.0;
            assert_eq!(rounded(number), number.round() as u64, "{number}");
        }
        // What is negative or no number is 0, as it was.
        for number in [-3.7, -0.5, f64::NAN] {
            assert_eq!(rounded(number), number.round() as u64, "{number}");
        }
        assert_eq!(rounded(f64::INFINITY), u64::MAX);
    }
}
