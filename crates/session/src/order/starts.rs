//! Orders that follow the tape.

use mechanics::{Place, Track};

use super::stretch::Stretch;
use super::trace::Spot;

/// Bands of a tape.
const BANDS: u32 = 4;

/// By block from the head on, then what lies in front of it.
pub(super) fn sweep(head: Spot, stretches: &[Stretch]) -> Vec<usize> {
    let ahead = stretches.partition_point(|stretch| stretch.entry.block < head.block);
    (ahead..stretches.len()).chain(0..ahead).collect()
}

/// Band after band, beginning with that of the head: what runs in the head's direction and lies in front of
/// it, then all that runs the other way, then the rest.
pub(super) fn elevator(track: &Track, head: Spot, stretches: &[Stretch]) -> Vec<usize> {
    let band = |place: Place| u32::from(place.wrap) * BANDS / u32::from(track.map.wraps()).max(1);
    let mut bands: Vec<Vec<usize>> = vec![Vec::new(); BANDS as usize];
    for (at, stretch) in stretches.iter().enumerate() {
        bands[band(stretch.entry.place).min(BANDS - 1) as usize].push(at);
    }
    let home = band(head.place);
    let mut turns: Vec<u32> = (0..BANDS).collect();
    turns.sort_by_key(|turn| (turn.abs_diff(home), *turn));
    let (mut at, mut order) = (head.place, Vec::with_capacity(stretches.len()));
    for turn in turns {
        let part = pass(at, track.map.middle(), turn == home, &bands[turn as usize], stretches);
        if let Some(last) = part.last() {
            at = stretches[*last].exit.place;
        }
        order.extend(part);
    }
    order
}

fn pass(from: Place, middle: u32, is_home: bool, band: &[usize], stretches: &[Stretch]) -> Vec<usize> {
    let place = |at: &usize| stretches[*at].entry.place;
    let outward = if is_home { from.is_forward() } else { from.lpos < middle };
    let mut out: Vec<usize> = band.iter().copied().filter(|at| place(at).is_forward()).collect();
    let mut back: Vec<usize> = band.iter().copied().filter(|at| !place(at).is_forward()).collect();
    out.sort_by_key(|at| (place(at).lpos, *at));
    back.sort_by_key(|at| (std::cmp::Reverse(place(at).lpos), *at));
    let (first, second) = if outward { (out, back) } else { (back, out) };
    let is_behind = |at: &usize| {
        let lpos = place(at).lpos;
        is_home && if outward { lpos < from.lpos } else { lpos > from.lpos }
    };
    let (behind, ahead): (Vec<usize>, Vec<usize>) = first.into_iter().partition(is_behind);
    [ahead, second, behind].concat()
}
