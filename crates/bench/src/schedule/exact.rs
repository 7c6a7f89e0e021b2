//! The exact dynamic programme against a search through all orders.

use durability::SplitMix;
use session::order::{LinearFile, LinearTrack, exact_dp, linear_cost, simple_dp};

use super::figures::{Exact, Spread};

/// Random cases.
const CASES: u64 = 2_000;
/// Files of a case at most: 720 orders.
const FILES: usize = 6;
/// More than the largest case takes.
const STEPS: u64 = 1_000_000;

/// Compares them on random small cases.
pub fn compare() -> Exact {
    let (mut equal, mut ratios) = (0, Vec::new());
    for seed in 0..CASES {
        let (files, track) = case(&mut SplitMix::new(seed));
        let best = best(&files, track, &mut Vec::new());
        let (Some(exact), Some(simple)) = (exact_dp(&files, track, STEPS), simple_dp(&files, track, STEPS))
        else {
            continue;
        };
        let costs = [Some(exact.cost), linear_cost(&files, track, &exact.order)];
        equal += usize::from(costs == [Some(best); 2]);
        ratios.push(if best == 0 { 1.0 } else { simple.cost as f64 / best as f64 });
    }
    Exact { cases: CASES as usize, equal, simple: Spread::of(ratios) }
}

fn case(random: &mut SplitMix) -> (Vec<LinearFile>, LinearTrack) {
    let mut below = |bound: usize| random.below(bound) as u64;
    let (mut at, mut files) = (0, Vec::new());
    for _ in 0..1 + below(FILES) {
        let begin = at + below(40);
        at = begin + below(30);
        files.push(LinearFile { begin, end: at, weight: 1 + below(3) });
    }
    (files, LinearTrack { head: at + below(40), turn: below(25) })
}

/// The least cost of all orders that begin with `order`.
fn best(files: &[LinearFile], track: LinearTrack, order: &mut Vec<usize>) -> u64 {
    if order.len() == files.len() {
        return linear_cost(files, track, order).unwrap_or(u64::MAX);
    }
    let mut least = u64::MAX;
    for next in 0..files.len() {
        if !order.contains(&next) {
            order.push(next);
            least = least.min(best(files, track, order));
            order.pop();
        }
    }
    least
}
