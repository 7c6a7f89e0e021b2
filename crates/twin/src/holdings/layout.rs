//! One copy of the files of a holding, laid out by rule.

use std::ops::Range;

use super::{Place, Tape, TapeIndex};
use scenario::model::{Holding, scatter};

/// Files between two known states of a layout, at least; more if there are many lanes, so that these states
/// take a quarter of a byte a file.
const INTERVAL: u64 = 256;

/// How files are laid out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Rule {
    /// Files of a run.
    run_files: u64,
    /// Tapes that are written at the same time, run by run in turn.
    lanes: usize,
    /// Only so many in a thousand, chosen by this key.
    some: Option<(u64, u64)>,
}

impl Rule {
    pub(super) fn all(holding: &Holding) -> Rule {
        let run_files = u64::from(holding.run_files.max(1));
        let lanes = u64::from(holding.spread).min(holding.files.div_ceil(run_files)).max(1);
        Rule { run_files, lanes: lanes as usize, some: None }
    }

    pub(super) fn duplicates(holding: &Holding, key: u64) -> Rule {
        let some = Some((u64::from(holding.duplicates_per_mille), key));
        Rule { run_files: 1, lanes: holding.duplicate_tapes.max(1) as usize, some }
    }

    /// Whether not all files of the holding are laid out.
    pub(super) fn is_of_some(&self) -> bool {
        self.some.is_some()
    }

    fn is_in(&self, sequence: u64) -> bool {
        match self.some {
            None => true,
            Some((per_mille, key)) => scatter(sequence ^ key) % 1000 < per_mille,
        }
    }
}

/// One copy of each file of a holding, or of some of them; or more copies on tapes that are filled alike.
pub(super) struct Layout {
    files: Range<u64>,
    rule: Rule,
    fill: u64,
    /// Bytes on tape for each 1,024 bytes of a file: duplicates lie spread over whole tapes.
    stretch: u64,
    first_tape: u32,
    /// How many tapes behind the first copy's tapes each copy's tapes are.
    copies: Vec<u32>,
    order: u64,
    interval: u64,
    /// The state before each `interval` files.
    states: Vec<State>,
    /// The lanes of all these states.
    lanes: Vec<Lane>,
    cursor: Walker,
}

#[derive(Clone, Copy)]
struct Lane {
    byte: u64,
    tape: u32,
}

#[derive(Clone, Copy, Default)]
struct State {
    /// Files placed before.
    placed: u64,
    next_tape: u32,
}

/// Where the next file goes.
#[derive(Clone, Default)]
struct Walker {
    sequence: u64,
    state: State,
    lane: usize,
    /// Files left of the lane's run.
    left: u64,
    lanes: Vec<Lane>,
}

impl Layout {
    /// Lays the files out on tapes like `new`, which are added to `tapes`.
    pub(super) fn new(
        files: Range<u64>,
        rule: Rule,
        fill: u64,
        tapes: &mut Vec<Tape>,
        new: &Tape,
        size: &impl Fn(u64) -> u64,
    ) -> Layout {
        let first_tape = tapes.len() as u32;
        let interval = INTERVAL.max(64 * rule.lanes as u64);
        let stretch = if rule.some.is_some() { stretch(&files, &rule, fill, size) } else { 1024 };
        let order = u64::from(rule.some.is_some());
        let cursor = Walker::default();
        let (states, lanes) = (Vec::new(), Vec::new());
        let copies = vec![0];
        let mut layout =
            Layout { files, rule, fill, stretch, first_tape, copies, order, interval, states, lanes, cursor };
        let mut walker = layout.start();
        tapes.resize(first_tape as usize + layout.rule.lanes, new.clone());
        for sequence in layout.files.clone() {
            if (sequence - layout.files.start).is_multiple_of(interval) {
                layout.states.push(walker.state);
                layout.lanes.extend_from_slice(&walker.lanes);
            }
            let bytes = size(sequence);
            if let Some(lane) = layout.step(&mut walker, bytes) {
                tapes.resize(tapes.len().max(lane.tape as usize + 1), new.clone());
                let tape = &mut tapes[lane.tape as usize];
                tape.used = tape.used.max(lane.byte + layout.stretched(bytes));
                tape.files += 1;
            }
        }
        layout.cursor = layout.start();
        layout.cursor.sequence = layout.files.end;
        layout.shrink(walker.state.next_tape);
        layout
    }

    /// Tapes of this layout.
    pub(super) fn tapes(&self) -> u32 {
        self.states.last().map_or(0, |state| state.next_tape) - self.first_tape
    }

    /// How full each of its tapes is before the next is begun.
    pub(super) fn fill(&self) -> u64 {
        self.fill
    }

    /// One more copy on tapes like `new`, which are added to `tapes`.
    pub(super) fn copy(&mut self, tapes: &mut Vec<Tape>, new: &Tape) {
        self.copies.push(tapes.len() as u32 - self.first_tape);
        for tape in self.first_tape..self.first_tape + self.tapes() {
            let Tape { used, files, .. } = tapes[tape as usize];
            tapes.push(Tape { used, files, ..new.clone() });
        }
    }

    /// Tells where each copy of the file stands.
    pub(super) fn places(&mut self, sequence: u64, size: &impl Fn(u64) -> u64, mut tell: impl FnMut(Place)) {
        if !self.files.contains(&sequence) || !self.rule.is_in(sequence) {
            return;
        }
        let at = (sequence - self.files.start) / self.interval;
        let known = self.files.start + at * self.interval;
        let mut walker = std::mem::take(&mut self.cursor);
        if walker.sequence > sequence || walker.sequence < known {
            self.load(&mut walker, at as usize, known);
        }
        while walker.sequence < sequence {
            let bytes = size(walker.sequence);
            self.step(&mut walker, bytes);
        }
        let lane = self.peek(&walker, size(sequence));
        self.cursor = walker;
        for copy in &self.copies {
            tell(Place { tape: TapeIndex(lane.tape + copy), byte: lane.byte, order: self.order });
        }
    }

    /// Tells the files on the first `tapes` tapes.
    pub(super) fn on_first_tapes(&self, tapes: u32, size: &impl Fn(u64) -> u64, mut tell: impl FnMut(u64)) {
        let end = self.first_tape.saturating_add(tapes);
        let mut walker = self.start();
        for sequence in self.files.clone() {
            let lane = self.step(&mut walker, size(sequence));
            if lane.is_some_and(|lane| lane.tape < end) {
                tell(sequence);
            } else if walker.lanes.iter().all(|lane| lane.tape >= end) {
                break;
            }
        }
    }

    fn start(&self) -> Walker {
        let lanes = self.rule.lanes as u32;
        let next_tape = self.first_tape + lanes;
        Walker {
            sequence: self.files.start,
            state: State { placed: 0, next_tape },
            lane: 0,
            left: self.rule.run_files,
            lanes: (self.first_tape..next_tape).map(|tape| Lane { byte: 0, tape }).collect(),
        }
    }

    fn load(&self, walker: &mut Walker, at: usize, sequence: u64) {
        let count = self.rule.lanes;
        walker.sequence = sequence;
        walker.state = self.states[at];
        walker.lane = (walker.state.placed / self.rule.run_files) as usize % count;
        walker.left = self.rule.run_files - walker.state.placed % self.rule.run_files;
        walker.lanes.clear();
        walker.lanes.extend_from_slice(&self.lanes[at * count..(at + 1) * count]);
    }

    fn stretched(&self, bytes: u64) -> u64 {
        if self.stretch == 1024 {
            return bytes;
        }
        ((u128::from(bytes) * u128::from(self.stretch)) >> 10) as u64
    }

    /// Where a file of this size would go.
    fn peek(&self, walker: &Walker, bytes: u64) -> Lane {
        let lane = walker.lanes[walker.lane];
        if lane.byte > 0 && lane.byte + self.stretched(bytes) > self.fill {
            return Lane { byte: 0, tape: walker.state.next_tape };
        }
        lane
    }

    /// Where the walker's file goes; the walker goes on to the next one.
    fn step(&self, walker: &mut Walker, bytes: u64) -> Option<Lane> {
        let is_in = self.rule.is_in(walker.sequence);
        walker.sequence += 1;
        if !is_in {
            return None;
        }
        let lane = self.peek(walker, bytes);
        if lane.tape == walker.state.next_tape {
            walker.state.next_tape += 1;
        }
        walker.lanes[walker.lane] = Lane { byte: lane.byte + self.stretched(bytes), tape: lane.tape };
        walker.state.placed += 1;
        walker.left -= 1;
        if walker.left == 0 {
            walker.left = self.rule.run_files;
            walker.lane = (walker.lane + 1) % walker.lanes.len();
        }
        Some(lane)
    }

    fn shrink(&mut self, next_tape: u32) {
        // A last state at the end, so that the number of tapes is known.
        self.states.push(State { placed: 0, next_tape });
        self.states.shrink_to_fit();
        self.lanes.shrink_to_fit();
    }
}

/// How far apart duplicates lie, so that they fill whole tapes, of which the rest is others' files.
fn stretch(files: &Range<u64>, rule: &Rule, fill: u64, size: &impl Fn(u64) -> u64) -> u64 {
    let mut lanes = vec![0u64; rule.lanes];
    for (at, sequence) in files.clone().filter(|sequence| rule.is_in(*sequence)).enumerate() {
        lanes[at % rule.lanes] += size(sequence);
    }
    let most = lanes.into_iter().max().unwrap_or(0).max(1);
    let stretch = (u128::from(fill) << 10) / u128::from(most);
    u64::try_from(stretch).unwrap_or(u64::MAX).clamp(1024, 1024 * 100_000)
}
