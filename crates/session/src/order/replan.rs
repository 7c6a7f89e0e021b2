//! What becomes of an order when more is wanted from the mounted tape.

use base::BlockAddress;
use mechanics::Track;

use super::plan::{Plan, Planner};
use super::stretch::{Layers, Stretch};
use super::trace::{Spot, way};
use super::{Aim, Candidate, OrderLimits, Segment};

/// How a new plan was made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Replan {
    /// New segments were put where they cost least; the order of the others stayed.
    Inserted,
    /// Everything was planned anew.
    Anew,
}

/// A plan for `segments`, of which those in `remaining` were planned before, in that order; all others are
/// new.
///
/// New segments are put, one by one in block order, where they cost least; up to
/// [`OrderLimits::replan_segments`] everything is planned anew as well, and the cheaper wins. Where inserting
/// would take more than [`OrderLimits::insert_evaluations`], everything is planned anew and nothing inserted.
/// So the work is bounded by that of one plan and one insertion.
#[must_use]
pub fn replan(
    track: &Track,
    head: BlockAddress,
    segments: &[Segment],
    remaining: &[usize],
    aim: Aim,
    limits: &OrderLimits,
) -> (Plan, Replan) {
    let inserted = inserted(track, head, segments, remaining, limits);
    let mut planner = Planner::new(track, head, segments, aim, limits);
    let plan = match inserted {
        Some(order) if segments.len() > limits.replan_segments => {
            planner.offer_loose(Candidate::Inserted, &order);
            planner.cheapest()
        }
        Some(order) => {
            planner.offer_loose(Candidate::Inserted, &order);
            planner.plan()
        }
        None => planner.plan(),
    };
    let method = if plan.chosen == Candidate::Inserted { Replan::Inserted } else { Replan::Anew };
    (plan, method)
}

fn inserted(
    track: &Track,
    head: BlockAddress,
    segments: &[Segment],
    remaining: &[usize],
    limits: &OrderLimits,
) -> Option<Vec<usize>> {
    let layers = Layers::of(track, head, segments, 1);
    let mut planned = vec![false; layers.atoms.len()];
    let (known, new) = {
        let order = layers.atoms_of(remaining, segments);
        let mut wanted = vec![false; segments.len()];
        remaining.iter().filter(|index| **index < segments.len()).for_each(|index| wanted[*index] = true);
        for (at, atom) in layers.atoms.iter().enumerate() {
            planned[at] = layers.segments[atom.parts.clone()].iter().any(|index| wanted[*index]);
        }
        order.into_iter().partition::<Vec<usize>, _>(|at| planned[*at])
    };
    let work = (new.len() as u64).saturating_mul((known.len() + new.len()) as u64).saturating_mul(2);
    if work > limits.insert_evaluations {
        return None;
    }
    let mut order = known;
    for atom in new {
        let at = best_place(track, Spot::of(track, head.0), &layers.atoms, &order, atom);
        order.insert(at, atom);
    }
    Some(layers.of_atoms(order))
}

fn best_place(track: &Track, head: Spot, atoms: &[Stretch], order: &[usize], atom: usize) -> usize {
    let (entry, exit) = (atoms[atom].entry, atoms[atom].exit);
    let mut best = (i128::MAX, order.len());
    let mut from = head;
    for at in 0..=order.len() {
        let next = order.get(at).map(|next| &atoms[*next]);
        let old = next.map_or(0, |next| way(track, from, next.entry).1);
        let new = next.map_or(0, |next| way(track, exit, next.entry).1);
        let more = i128::from(way(track, from, entry).1) + i128::from(new) - i128::from(old);
        best = best.min((more, at));
        if let Some(next) = next {
            from = next.exit;
        }
    }
    best.1
}
