//! What an order costs. Every candidate is costed here, and nowhere else.

use base::BlockAddress;
use mechanics::{Place, Track};

use super::{Approach, Segment, Visit};

/// An order walked through.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Trace {
    /// Each segment's turn.
    pub visits: Vec<Visit>,
    /// Locates and gaps that are read through, in microseconds.
    pub cost_us: u64,
    /// From the beginning until the last segment is read, in microseconds.
    pub last_us: u64,
    /// The sum over all segments of the times at which each is read, in microseconds.
    pub waits_us: u64,
}

/// Walks through the segments in this order, with the head at `head` when it begins. Indices that lead to no
/// segment are left out.
#[must_use]
pub fn trace(
    track: &Track,
    head: BlockAddress,
    segments: &[Segment],
    order: impl IntoIterator<Item = usize>,
) -> Trace {
    let mut trace = Trace::default();
    let (mut at, mut pass) = (Spot::of(track, head.0), None);
    for index in order {
        let Some(segment) = segments.get(index) else { continue };
        let begin = segment.begin.0;
        let passes = pass.is_some_and(|pass| (pass..=at.block).contains(&begin));
        let mut approach = Approach::Stream;
        if !passes {
            let to = Spot::of(track, begin);
            let (how, cost) = way(track, at, to);
            approach = how;
            trace.cost_us = trace.cost_us.saturating_add(cost);
            trace.last_us = trace.last_us.saturating_add(cost);
            at = to;
        }
        if segment.end.0 > at.block {
            trace.last_us = trace.last_us.saturating_add(track.read_us(segment.end.0 - at.block));
            at = Spot::of(track, segment.end.0);
        }
        pass = Some(begin);
        trace.waits_us = trace.waits_us.saturating_add(trace.last_us);
        trace.visits.push(Visit { segment: index, approach });
    }
    trace
}

/// How the head comes from one block to another, and what it costs in microseconds: nothing where it stands;
/// else the cheaper of a locate and, forward, of reading all blocks in between, over the ends of wraps too.
#[must_use]
pub fn approach(track: &Track, from: BlockAddress, to: BlockAddress) -> (Approach, u64) {
    way(track, Spot::of(track, from.0), Spot::of(track, to.0))
}

/// A block and where it stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    pub block: u64,
    pub place: Place,
}

impl Spot {
    pub fn of(track: &Track, block: u64) -> Self {
        Spot { block, place: track.place(BlockAddress(block)) }
    }
}

pub(super) fn way(track: &Track, from: Spot, to: Spot) -> (Approach, u64) {
    if from.block == to.block {
        return (Approach::Stream, 0);
    }
    let locate = locate_us(track, from, to);
    // Rounding is dear; most gaps are far too wide.
    let gap = to.block.saturating_sub(from.block);
    if gap > 0 && gap as f64 * track.block_us < locate as f64 + 1.0 {
        let read = track.read_us(gap);
        if read <= locate {
            return (Approach::ReadThrough, read);
        }
    }
    (Approach::Locate, locate)
}

/// Blocks can be shorter than a unit of the position. A step back by less than one is a step back all the
/// same.
fn locate_us(track: &Track, mut from: Spot, mut to: Spot) -> u64 {
    if from.place == to.place && to.block < from.block {
        let ahead = if from.place.is_forward() { &mut from.place.lpos } else { &mut to.place.lpos };
        *ahead = ahead.saturating_add(1);
    }
    track.locate.between(&track.map, from.place, to.place)
}
