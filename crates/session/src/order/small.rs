//! The best of all orders of few stretches.

use super::Aim;
use super::neighbours::Nodes;
use super::stretch::Stretch;

/// Held and Karp: for each set of stretches that are read and each last one, the cheapest way there.
///
/// The sum of waits is as easy: while the head is on its way, all that is not yet read waits, and how much
/// that is depends on the set alone.
pub(super) fn optimum(nodes: &Nodes, stretches: &[Stretch], aim: Aim) -> Vec<usize> {
    let count = stretches.len();
    if count == 0 {
        return Vec::new();
    }
    let full = (1usize << count) - 1;
    let weights: Vec<f64> = (0..=full)
        .map(|set| match aim {
            Aim::LastFile => 1.0,
            Aim::MeanWait => {
                let left = (0..count).filter(|at| set >> at & 1 == 0);
                left.map(|at| stretches[at].weight as f64).sum()
            }
        })
        .collect();
    let takes = |at: usize| match aim {
        Aim::LastFile => 0.0,
        Aim::MeanWait => stretches[at].takes_us as f64,
    };
    let ways: Vec<f64> = (0..=count)
        .flat_map(|from| (0..count).map(move |to| (from, to)))
        .map(|(from, to)| nodes.cost(from as u32, to as u32 + 1) as f64)
        .collect();
    let mut best = vec![(f64::INFINITY, usize::MAX); (full + 1) * count];
    for last in 0..count {
        best[(1 << last) * count + last] = (ways[last] * weights[0] + takes(last) * weights[1 << last], last);
    }
    for set in 1..=full {
        for last in (0..count).filter(|last| set >> last & 1 == 1) {
            let (cost, _) = best[set * count + last];
            for next in (0..count).filter(|next| set >> next & 1 == 0) {
                let with = set | 1 << next;
                let more = ways[(last + 1) * count + next] * weights[set] + takes(next) * weights[with];
                let entry = &mut best[with * count + next];
                if cost + more < entry.0 {
                    *entry = (cost + more, last);
                }
            }
        }
    }
    walk_back(&best, full, count)
}

fn walk_back(best: &[(f64, usize)], full: usize, count: usize) -> Vec<usize> {
    let (mut set, mut order) = (full, Vec::with_capacity(count));
    let ends = (0..count).min_by(|a, b| best[full * count + a].0.total_cmp(&best[full * count + b].0));
    let mut last = ends.unwrap_or(0);
    while order.len() < count {
        order.push(last);
        let (_, before) = best[set * count + last];
        set &= !(1 << last);
        last = before.min(count - 1);
    }
    order.reverse();
    order
}
