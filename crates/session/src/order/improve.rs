//! Better orders by moving stretches: Or-opt with segments of any length.
//!
//! A move takes two neighbouring parts of the order and exchanges them; no part is reversed, for a tape is
//! read in one direction. Moving one to three stretches elsewhere (Or-opt) is the smallest such move.
//! Candidates come from lists of near neighbours; nodes around which nothing was found rest until something
//! near them moves. When no move helps, a small part is shaken, improved again, and left as it was if that
//! did not help.

use std::collections::VecDeque;

use super::neighbours::{HEAD, Nodes};
use super::tour::{Exchange, order_of, tour_of};

/// Shaken parts are at most so long.
const SHAKEN_MAX: usize = 50;
/// Shorter orders are not shaken: there are no four parts.
const SHAKEN_MIN: usize = 8;
/// The same numbers in every run.
const SEED: u64 = 0x6b69_7374;

/// Moves until no move helps or the work is done. Gives the new order.
pub(super) fn settle(nodes: &Nodes, order: &[usize], work: u64) -> Vec<usize> {
    searched(nodes, order, work, |search| {
        (0..nodes.len() as u32).for_each(|node| search.wake(node));
        search.settle();
    })
}

/// Shakes an order on which no move helps until the work is done. Gives the new order.
pub(super) fn shake(nodes: &Nodes, order: &[usize], work: u64) -> Vec<usize> {
    searched(nodes, order, work, |search| search.shake())
}

/// What an order costs.
pub(super) fn length(nodes: &Nodes, order: &[usize]) -> i64 {
    let mut at = HEAD;
    let step = |stretch: &usize| {
        let to = *stretch as u32 + 1;
        nodes.cost(std::mem::replace(&mut at, to), to)
    };
    order.iter().map(step).sum()
}

fn searched(nodes: &Nodes, order: &[usize], work: u64, how: impl FnOnce(&mut Search)) -> Vec<usize> {
    let tour = tour_of(order);
    if tour.len() < 4 {
        return order.to_vec();
    }
    let mut search = Search::new(nodes, tour, work);
    how(&mut search);
    order_of(&search.tour)
}

struct Search<'s> {
    nodes: &'s Nodes<'s>,
    /// The head is always the first.
    tour: Vec<u32>,
    /// Where each node is in the tour.
    positions: Vec<u32>,
    queue: VecDeque<u32>,
    queued: Vec<bool>,
    log: Vec<Exchange>,
    work: u64,
    random: u64,
}

impl<'s> Search<'s> {
    fn new(nodes: &'s Nodes<'s>, tour: Vec<u32>, work: u64) -> Self {
        let mut positions = vec![0; tour.len()];
        for (at, node) in tour.iter().enumerate() {
            positions[*node as usize] = at as u32;
        }
        let queued = vec![false; tour.len()];
        let (queue, log) = (VecDeque::new(), Vec::new());
        Search { nodes, tour, positions, queue, queued, log, work, random: SEED }
    }

    fn wake(&mut self, node: u32) {
        if !std::mem::replace(&mut self.queued[node as usize], true) {
            self.queue.push_back(node);
        }
    }

    /// Moves until nothing helps or the work is done. Gives what was gained.
    fn settle(&mut self) -> i64 {
        let mut gained = 0;
        while let Some(node) = self.queue.pop_front() {
            self.queued[node as usize] = false;
            while self.work > 0 {
                let Some((gain, exchange)) = self.better(node) else { break };
                gained += gain;
                self.exchange(exchange);
            }
        }
        gained
    }

    fn cost(&mut self, from: u32, to: u32) -> i64 {
        self.work = self.work.saturating_sub(1);
        self.nodes.cost(from, to)
    }

    fn at(&self, node: u32) -> usize {
        self.positions[node as usize] as usize
    }

    fn behind(&self, node: u32) -> u32 {
        let next = self.at(node) + 1;
        self.tour[if next == self.tour.len() { 0 } else { next }]
    }

    fn before(&self, node: u32) -> u32 {
        let at = self.at(node);
        self.tour[if at == 0 { self.tour.len() - 1 } else { at - 1 }]
    }

    /// Steps along the cycle from one node to another.
    fn steps(&self, from: u32, to: u32) -> usize {
        let (from, to) = (self.at(from), self.at(to));
        if to >= from { to - from } else { to + self.tour.len() - from }
    }

    /// The first exchange that gains and in which `a` gets another successor.
    ///
    /// The ways a-a2, b-b2 and c-c2, which follow each other on the cycle, become a-b2, c-a2 and b-c2.
    fn better(&mut self, a: u32) -> Option<(i64, Exchange)> {
        let nodes = self.nodes;
        let a2 = self.behind(a);
        let old = self.cost(a, a2);
        for b2 in &nodes.out[a as usize] {
            let first = old - self.cost(a, *b2);
            if first <= 0 {
                break;
            }
            let b = self.before(*b2);
            if b == a || *b2 == a {
                continue;
            }
            let second = first + self.cost(b, *b2);
            for c2 in &nodes.out[b as usize] {
                let third = second - self.cost(b, *c2);
                if third <= 0 {
                    break;
                }
                let c = self.before(*c2);
                let gain = third - self.cost(c, a2);
                if let Some(found) = self.closed(gain, (a, a2), *b2, (c, *c2)) {
                    return Some(found);
                }
            }
            for c in &nodes.into[a2 as usize] {
                let third = second - self.cost(*c, a2);
                if third <= 0 {
                    break;
                }
                let c2 = self.behind(*c);
                let gain = third - self.cost(b, c2);
                if let Some(found) = self.closed(gain, (a, a2), *b2, (*c, c2)) {
                    return Some(found);
                }
            }
        }
        None
    }

    fn closed(&mut self, gain: i64, a: (u32, u32), b2: u32, c: (u32, u32)) -> Option<(i64, Exchange)> {
        let (a, a2) = a;
        let (c, c2) = c;
        if c == a || self.steps(a2, c) < self.steps(a2, b2) {
            return None;
        }
        let gain = gain + self.cost(c, c2);
        let mut cuts = [self.at(a), self.at(self.before(b2)), self.at(c)];
        cuts.sort_unstable();
        let [begin, middle, end] = cuts.map(|cut| cut + 1);
        (gain > 0).then_some((gain, Exchange { begin, middle, end }))
    }

    fn exchange(&mut self, exchange: Exchange) {
        self.rotate(exchange);
        self.log.push(exchange);
        let Exchange { begin, middle, end } = exchange;
        let joint = begin + (end - middle);
        for at in [begin - 1, begin, joint - 1, joint, end - 1, end] {
            let node = self.tour[if at == self.tour.len() { 0 } else { at }];
            self.wake(node);
        }
    }

    fn rotate(&mut self, exchange: Exchange) {
        exchange.apply(&mut self.tour);
        for at in exchange.begin..exchange.end {
            self.positions[self.tour[at] as usize] = at as u32;
        }
    }

    fn undo(&mut self) {
        while let Some(exchange) = self.log.pop() {
            self.rotate(exchange.inverse());
        }
    }

    /// Shakes small parts until the work is done.
    fn shake(&mut self) {
        if self.tour.len() < SHAKEN_MIN {
            return;
        }
        while self.work > 0 {
            let before = self.work;
            let lost = self.kick();
            if self.settle() < lost {
                self.undo();
            }
            self.log.clear();
            self.work = self.work.min(before.saturating_sub(1));
        }
    }

    /// Three neighbouring parts in the opposite order, each as it was. Gives what that costs.
    fn kick(&mut self) -> i64 {
        let length = self.tour.len() - 1;
        let span = SHAKEN_MAX.min(length);
        let begin = 1 + self.below(length - span + 1);
        let mut cuts = [0; 4];
        loop {
            for cut in &mut cuts {
                *cut = begin + self.below(span + 1);
            }
            cuts.sort_unstable();
            if cuts.is_sorted_by(|a, b| a < b) {
                break;
            }
        }
        let [p, q, r, s] = cuts;
        let ends = [p, q, r, s].map(|cut| {
            let next = if cut == self.tour.len() { 0 } else { cut };
            (self.tour[cut - 1], self.tour[next])
        });
        let old: i64 = ends.iter().map(|(from, to)| self.nodes.cost(*from, *to)).sum();
        let turns =
            [(ends[0].0, ends[2].1), (ends[3].0, ends[1].1), (ends[2].0, ends[0].1), (ends[1].0, ends[3].1)];
        let new: i64 = turns.iter().map(|(from, to)| self.nodes.cost(*from, *to)).sum();
        self.exchange(Exchange { begin: p, middle: r, end: s });
        let joint = p + (s - r);
        self.exchange(Exchange { begin: joint, middle: joint + (q - p), end: s });
        self.work = self.work.saturating_sub(8);
        new - old
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(z ^ (z >> 31)) * bound as u128) >> 64) as usize
    }
}
