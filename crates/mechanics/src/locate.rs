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
        let terms = [
            (true, self.base_us),
            (from.wrap != to.wrap, self.wrap_change_us),
            (band(from) != band(to), self.band_change_us),
            (near(from) != near(to), self.landing_zone_change_us),
            (from.is_forward() != to.is_forward(), self.direction_change_us),
            (from.wrap == to.wrap && behind, self.step_back_us),
        ];
        let fixed: f64 = terms.iter().filter(|(applies, _)| *applies).map(|(_, cost)| cost).sum();
        let way = self.lpos_us * f64::from(from.lpos.abs_diff(to.lpos));
        (fixed + way).max(self.least_us).round() as u64
    }
}
