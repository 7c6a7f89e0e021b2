//! Better orders where users wait for each file: Or-opt on the sum of waits.
//!
//! One to three stretches move elsewhere in the order. What follows them is shifted in time as a whole, so
//! that with running sums over the order the change of the sum of waits takes a few steps.

use super::neighbours::{HEAD, Nodes};
use super::stretch::Stretch;
use super::tour::{Exchange, order_of, tour_of};

/// Stretches that move together at most.
const TOGETHER: usize = 3;
/// Gains below a microsecond of one file are rounding.
const LEAST_GAIN: f64 = 1.0;

/// Improves an order of stretches until no move helps or the work is done. Gives the new order.
pub(super) fn improve(nodes: &Nodes, stretches: &[Stretch], order: &[usize], work: u64) -> Vec<usize> {
    let mut search = Search::new(nodes, stretches, order, work);
    while search.work > 0 && search.pass() {}
    order_of(&search.tour)
}

/// Sums up to a place in the order, which is counted in.
#[derive(Clone, Copy, Default)]
struct Sums {
    /// When the head is at the first block.
    starts: f64,
    /// When all is read.
    ends: f64,
    /// Segments so far.
    weight: f64,
}

struct Search<'s> {
    nodes: &'s Nodes<'s>,
    stretches: &'s [Stretch],
    tour: Vec<u32>,
    positions: Vec<usize>,
    sums: Vec<Sums>,
    work: u64,
}

impl<'s> Search<'s> {
    fn new(nodes: &'s Nodes<'s>, stretches: &'s [Stretch], order: &[usize], work: u64) -> Self {
        let tour = tour_of(order);
        let (positions, sums) = (vec![0; tour.len()], vec![Sums::default(); tour.len()]);
        let mut search = Search { nodes, stretches, tour, positions, sums, work };
        search.sum(0);
        search
    }

    fn sum(&mut self, from: usize) {
        for at in from..self.tour.len() {
            let node = self.tour[at];
            self.positions[node as usize] = at;
            let Some(before) = at.checked_sub(1) else { continue };
            let stretch = &self.stretches[node as usize - 1];
            let Sums { ends, weight, .. } = self.sums[before];
            let starts = ends + self.nodes.cost(self.tour[before], node) as f64;
            let ends = starts + stretch.takes_us as f64;
            self.sums[at] = Sums { starts, ends, weight: weight + stretch.weight as f64 };
        }
    }

    /// Tries every node once. Gives whether anything moved.
    fn pass(&mut self) -> bool {
        let mut moved = false;
        for node in 0..self.nodes.len() as u32 {
            while self.work > 0 {
                let Some(exchange) = self.better(node) else { break };
                exchange.apply(&mut self.tour);
                self.sum(exchange.begin);
                moved = true;
            }
        }
        moved
    }

    /// The best exchange after which one of the neighbours of `a` follows it.
    fn better(&mut self, a: u32) -> Option<Exchange> {
        let (mut best, at, length) = (None, self.positions[a as usize], self.tour.len());
        let nodes = self.nodes;
        for next in nodes.out[a as usize].iter().filter(|next| **next != HEAD) {
            let to = self.positions[*next as usize];
            for together in 1..=TOGETHER {
                let tries = match to > at {
                    // What begins with the neighbour comes here, or what ends with this node goes there.
                    true => [(at + 1, to, to + together), ((at + 1).saturating_sub(together), at + 1, to)],
                    false => [(to, (at + 1).saturating_sub(together), at + 1), (to, to + together, at + 1)],
                };
                for (begin, middle, end) in tries {
                    if begin == 0 || begin >= middle || middle >= end || end > length {
                        continue;
                    }
                    let exchange = Exchange { begin, middle, end };
                    let gain = self.gain(exchange);
                    if gain > LEAST_GAIN && best.is_none_or(|(most, _)| gain > most) {
                        best = Some((gain, exchange));
                    }
                }
            }
        }
        best.map(|(_, exchange)| exchange)
    }

    fn gain(&mut self, Exchange { begin, middle, end }: Exchange) -> f64 {
        self.work = self.work.saturating_sub(1);
        let cost = |from: usize, to: usize| self.nodes.cost(self.tour[from], self.tour[to]) as f64;
        let [before, first, second] = [begin - 1, middle - 1, end - 1].map(|at| self.sums[at]);
        let (first_starts, second_starts) = (self.sums[begin].starts, self.sums[middle].starts);
        let first_weight = first.weight - before.weight;
        let second_weight = second.weight - first.weight;
        let second_now = before.ends + cost(begin - 1, middle);
        let first_now = second_now + (second.ends - second_starts) + cost(end - 1, begin);
        let shifted =
            first_weight * (first_now - first_starts) + second_weight * (second_now - second_starts);
        if end == self.tour.len() {
            return -shifted;
        }
        let rest_now = first_now + (first.ends - first_starts) + cost(middle - 1, end);
        let rest_weight = self.sums[self.tour.len() - 1].weight - second.weight;
        -(shifted + rest_weight * (rest_now - self.sums[end].starts))
    }
}
