//! What the ways on the mounted tape cost.

use library::TapeDrive;
use mechanics::{LocateCost, TapeMap, Track};

/// The model of the drive and the tape in it.
pub(crate) fn track(_drive: &mut dyn TapeDrive, block_size: u32) -> Track {
    let blocks = 57_700_000_000 / u64::from(block_size);
    Track {
        map: TapeMap::even(blocks, 204, 4, 208, 2_696..171_097),
        locate: LocateCost {
            base_us: 4_290_000.0,
            wrap_change_us: 6_690_000.0,
            band_change_us: 3_200_000.0,
            landing_zone_change_us: -6_040_000.0,
            direction_change_us: 5_220_000.0,
            step_back_us: 11_320_000.0,
            lpos_us: 619.2,
            least_us: 1_000_000.0,
        },
        block_us: f64::from(block_size) / 360.0,
    }
}
