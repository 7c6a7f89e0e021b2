//! The two orders that every plan is measured against, for all who want to compare.

use base::BlockAddress;
use mechanics::Track;

use super::Segment;
use super::nearest;
use super::stretch::Layers;
use super::trace::Spot;

/// The segments by block.
#[must_use]
pub fn block_order(segments: &[Segment]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..segments.len()).collect();
    order.sort_unstable_by_key(|index| (segments[*index], *index));
    order
}

/// Always to the segment with the cheapest way, from where the head stands; segments that share blocks are
/// read in one go.
#[must_use]
pub fn nearest_first(track: &Track, head: BlockAddress, segments: &[Segment]) -> Vec<usize> {
    let layers = Layers::of(track, head, segments, 1);
    layers.of_atoms(nearest::order(track, Spot::of(track, head.0), &layers.atoms))
}
