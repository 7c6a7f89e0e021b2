//! What the ways on the mounted tape cost.

use library::TapeDrive;
use mechanics::{TapeMap, Track};

/// The model of drives that say nothing of themselves.
const USUAL: &str = "LTO-8";

/// What the drive says of itself and the tape in it; else the usual model, with the ends of the wraps that
/// the drive reports, if it does.
pub(crate) fn track(drive: &mut dyn TapeDrive, block_size: u32) -> Track {
    match drive.track(block_size) {
        Ok(Some(track)) => return track,
        Ok(None) => {}
        Err(error) => tracing::warn!(%error, "the drive does not tell what its ways cost"),
    }
    let (Ok(model), Ok(medium)) = (mechanics::drive(USUAL), mechanics::medium(USUAL)) else {
        unreachable!("the usual model is one of the built-in ones");
    };
    // What it says is of another drive.
    Track { error: None, ..medium.track(model, block_size, measured(drive, medium, block_size)) }
}

/// Where the wraps of this very tape end.
fn measured(drive: &mut dyn TapeDrive, medium: &mechanics::MediumModel, block_size: u32) -> Option<TapeMap> {
    let mut ends: Vec<u64> = drive.end_of_wrap_positions().ok()??.iter().map(|end| end.0).collect();
    // The last one is where the data end, unless all wraps are full.
    if ends.len() < usize::from(medium.data_wraps()) {
        ends.pop();
    }
    match medium.measured_map(&ends, block_size) {
        Ok(map) => Some(map),
        Err(error) => {
            tracing::warn!(%error, "what the drive says of its wraps does not fit its medium");
            None
        }
    }
}
