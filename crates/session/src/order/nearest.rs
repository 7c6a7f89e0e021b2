//! Nearest first, exactly, without looking at every pair.
//!
//! On one wrap and in one half of the tape's length a locate costs more the farther it goes. So on each wrap
//! only the next wanted stretches on both sides of the head, and on both sides of the middle, can be the
//! cheapest.

use mechanics::{Place, Track};

use super::stretch::Stretch;
use super::trace::{Spot, way};

/// Always to the stretch with the cheapest way; of several, to the one that is least far along the tape, then
/// the first.
pub(super) fn order(track: &Track, head: Spot, stretches: &[Stretch]) -> Vec<usize> {
    let mut field = Field::new(track, stretches);
    let (mut at, mut order) = (head, Vec::with_capacity(stretches.len()));
    while let Some(next) = field.nearest(at) {
        field.take(next);
        order.push(next);
        at = stretches[next].exit;
    }
    order
}

/// The stretches of one wrap.
struct OnWrap {
    wrap: u16,
    begin: usize,
    /// The first one in the other half of the tape's length.
    middle: usize,
    end: usize,
    left: usize,
}

struct Field<'f> {
    track: &'f Track,
    stretches: &'f [Stretch],
    wraps: Vec<OnWrap>,
    /// At each stretch the next one that is not taken, or one on the way to it.
    after: Vec<usize>,
    /// One more than the last one not taken, up to each; 0 for none.
    before: Vec<usize>,
    /// For each wrap that the head was on, all wraps by the least cost of a locate to them.
    rows: Vec<Vec<(u64, usize)>>,
}

impl<'f> Field<'f> {
    fn new(track: &'f Track, stretches: &'f [Stretch]) -> Self {
        let mut wraps: Vec<OnWrap> = Vec::new();
        for (at, stretch) in stretches.iter().enumerate() {
            let wrap = stretch.entry.place.wrap;
            if wraps.last().is_none_or(|last| last.wrap != wrap) {
                wraps.push(OnWrap { wrap, begin: at, middle: at, end: at, left: 0 });
            }
            if let Some(last) = wraps.last_mut() {
                (last.end, last.left) = (at + 1, last.left + 1);
            }
        }
        let near = |at: usize| stretches[at].entry.place.lpos < track.map.middle();
        for on in &mut wraps {
            let first = near(on.begin);
            on.middle += stretches[on.begin..on.end]
                .partition_point(|stretch| (stretch.entry.place.lpos < track.map.middle()) == first);
        }
        let (after, before) = ((0..=stretches.len()).collect(), (0..=stretches.len()).collect());
        let rows = vec![Vec::new(); usize::from(track.map.wraps()) + 1];
        Field { track, stretches, wraps, after, before, rows }
    }

    fn take(&mut self, at: usize) {
        self.after[at] = at + 1;
        self.before[at + 1] = at;
        let wrap = self.wraps.partition_point(|on| on.end <= at);
        self.wraps[wrap].left -= 1;
    }

    fn next(&mut self, mut at: usize) -> usize {
        while self.after[at] != at {
            self.after[at] = self.after[self.after[at]];
            at = self.after[at];
        }
        at
    }

    /// One more than the last one in front of `at`.
    fn last(&mut self, mut at: usize) -> usize {
        while self.before[at] != at {
            self.before[at] = self.before[self.before[at]];
            at = self.before[at];
        }
        at
    }

    fn nearest(&mut self, from: Spot) -> Option<usize> {
        let mut best: Option<(u64, u32, usize)> = None;
        let ahead = self.stretches.partition_point(|stretch| stretch.entry.block < from.block);
        let ahead = self.next(ahead);
        self.look(from, ahead, &mut best);
        let row = self.row(from.place);
        for (least, wrap) in &row {
            if best.is_some_and(|(cost, ..)| cost < *least) {
                break;
            }
            self.look_on(from, *wrap, &mut best);
        }
        let wrap = usize::from(from.place.wrap).min(self.rows.len() - 1);
        self.rows[wrap] = row;
        best.map(|(.., at)| at)
    }

    fn look(&self, from: Spot, at: usize, best: &mut Option<(u64, u32, usize)>) {
        let Some(stretch) = self.stretches.get(at) else { return };
        let (_, cost) = way(self.track, from, stretch.entry);
        let found = (cost, from.place.lpos.abs_diff(stretch.entry.place.lpos), at);
        if best.is_none_or(|best| found < best) {
            *best = Some(found);
        }
    }

    fn look_on(&mut self, from: Spot, wrap: usize, best: &mut Option<(u64, u32, usize)>) {
        let OnWrap { wrap, begin, middle, end, left } = self.wraps[wrap];
        if left == 0 {
            return;
        }
        let stretches = &self.stretches[begin..end];
        let forward = wrap.is_multiple_of(2);
        let beside = begin
            + stretches.partition_point(|stretch| match (wrap == from.place.wrap, forward) {
                (true, _) => stretch.entry.block < from.block,
                (false, true) => stretch.entry.place.lpos < from.place.lpos,
                (false, false) => stretch.entry.place.lpos > from.place.lpos,
            });
        for border in [beside, middle] {
            let right = self.next(border);
            if right < end {
                self.look(from, right, best);
            }
            let left = self.last(border);
            if left > begin {
                self.look(from, left - 1, best);
            }
        }
    }

    fn row(&mut self, from: Place) -> Vec<(u64, usize)> {
        let wrap = usize::from(from.wrap).min(self.rows.len() - 1);
        let known = std::mem::take(&mut self.rows[wrap]);
        if !known.is_empty() {
            return known;
        }
        let mut row: Vec<(u64, usize)> =
            self.wraps.iter().enumerate().map(|(at, on)| (self.least(from.wrap, on.wrap), at)).collect();
        row.sort_unstable();
        row
    }

    /// No locate from one wrap to the other costs less.
    fn least(&self, from: u16, to: u16) -> u64 {
        let middle = self.track.map.middle();
        let below = middle.saturating_sub(1);
        let pairs = [(middle, middle), (below, below), (below, middle), (middle, below)];
        let cost = |(here, there)| {
            let (from, to) = (Place { wrap: from, lpos: here }, Place { wrap: to, lpos: there });
            self.track.locate.between(&self.track.map, from, to)
        };
        pairs.into_iter().map(cost).min().unwrap_or(0)
    }
}
