//! Segments put together to stretches that are read in one go.

use std::ops::Range;

use base::BlockAddress;
use mechanics::Track;

use super::Segment;
use super::trace::{Spot, way};

/// Blocks that are read in one go, with the gaps in them.
#[derive(Clone, Debug)]
pub(super) struct Stretch {
    /// Where its first block stands.
    pub entry: Spot,
    /// Where the head stands behind it.
    pub exit: Spot,
    /// What it is made of: entries of the layer below.
    pub parts: Range<usize>,
    /// Segments in it.
    pub weight: u64,
    /// From the first block until all are read.
    pub takes_us: u64,
    /// The sum over its segments of the times from its first block until each is read.
    pub waits_us: u64,
}

/// Segments in block order, and what is made of them: stretches without gaps of segments that share blocks,
/// and longer ones of neighbours.
#[derive(Debug)]
pub(super) struct Layers {
    /// Indices of segments; the parts of `atoms`.
    pub segments: Vec<usize>,
    /// Disjoint, ascending; the parts of `runs`.
    pub atoms: Vec<Stretch>,
    /// Disjoint, ascending.
    pub runs: Vec<Stretch>,
}

impl Layers {
    /// At most `most` runs, or one, or two if the head stands between two atoms that touch.
    pub fn of(track: &Track, head: BlockAddress, segments: &[Segment], most: usize) -> Self {
        let mut sorted: Vec<usize> = (0..segments.len()).collect();
        sorted.sort_unstable_by_key(|index| (segments[*index], *index));
        let atoms = atoms(track, segments, &sorted);
        let runs = runs(track, head, &atoms, most.max(1));
        Layers { segments: sorted, atoms, runs }
    }

    /// The segments of runs in this order.
    pub fn of_runs(&self, order: &[usize]) -> Vec<usize> {
        self.of_atoms(order.iter().flat_map(|run| self.runs[*run].parts.clone()))
    }

    /// The segments of atoms in this order.
    pub fn of_atoms(&self, order: impl IntoIterator<Item = usize>) -> Vec<usize> {
        let mut all = Vec::with_capacity(self.segments.len());
        for atom in order {
            all.extend_from_slice(&self.segments[self.atoms[atom].parts.clone()]);
        }
        all
    }

    /// The runs in the order in which an order of segments first comes to each; runs that it never comes to
    /// are last.
    pub fn runs_of(&self, order: &[usize], segments: &[Segment]) -> Vec<usize> {
        first_seen(&self.runs, order.iter().filter_map(|index| segments.get(*index)))
    }

    /// The same of atoms.
    pub fn atoms_of(&self, order: &[usize], segments: &[Segment]) -> Vec<usize> {
        first_seen(&self.atoms, order.iter().filter_map(|index| segments.get(*index)))
    }
}

fn first_seen<'s>(stretches: &[Stretch], wanted: impl Iterator<Item = &'s Segment>) -> Vec<usize> {
    let mut seen = vec![false; stretches.len()];
    let mut order = Vec::with_capacity(stretches.len());
    let mut see = |at: usize| {
        if !std::mem::replace(&mut seen[at], true) {
            order.push(at);
        }
    };
    for segment in wanted {
        let behind = stretches.partition_point(|stretch| stretch.entry.block <= segment.begin.0);
        if let Some(at) = behind.checked_sub(1) {
            see(at);
        }
    }
    (0..stretches.len()).for_each(see);
    order
}

fn atoms(track: &Track, segments: &[Segment], sorted: &[usize]) -> Vec<Stretch> {
    let mut atoms: Vec<Stretch> = Vec::new();
    for (at, index) in sorted.iter().enumerate() {
        let (begin, end) = (segments[*index].begin.0, segments[*index].end.0);
        match atoms.last_mut() {
            Some(last) if begin < last.exit.block || begin == last.entry.block => {
                if end > last.exit.block {
                    let more = track.read_us(end - last.exit.block);
                    last.takes_us = last.takes_us.saturating_add(more);
                    last.exit = Spot::of(track, end);
                }
                last.parts.end = at + 1;
                last.weight += 1;
                last.waits_us = last.waits_us.saturating_add(last.takes_us);
            }
            _ => {
                let takes_us = track.read_us(end.saturating_sub(begin));
                let (entry, exit) = (Spot::of(track, begin), Spot::of(track, end.max(begin)));
                let parts = at..at + 1;
                atoms.push(Stretch { entry, exit, parts, weight: 1, takes_us, waits_us: takes_us });
            }
        }
    }
    atoms
}

/// Atoms that touch are one run, but for where the head stands; if there are still too many, those with the
/// smallest gaps are put together.
fn runs(track: &Track, head: BlockAddress, atoms: &[Stretch], most: usize) -> Vec<Stretch> {
    let gap = |at: usize| atoms[at].entry.block - atoms[at - 1].exit.block;
    let splits = |at: usize| gap(at) > 0 || atoms[at].entry.block == head.0;
    let mut cuts: Vec<usize> = (1..atoms.len()).filter(|at| splits(*at)).collect();
    if cuts.len() >= most {
        cuts.select_nth_unstable_by_key(most - 1, |at| (std::cmp::Reverse(gap(*at)), *at));
        cuts.truncate(most - 1);
        cuts.sort_unstable();
    }
    let ends = cuts.iter().copied().chain([atoms.len()]);
    let begins = [0].into_iter().chain(cuts.iter().copied());
    let ranges = begins.zip(ends).filter(|(begin, end)| begin < end);
    ranges.map(|(begin, end)| run(track, &atoms[begin..end], begin)).collect()
}

fn run(track: &Track, atoms: &[Stretch], begin: usize) -> Stretch {
    let mut run = Stretch { parts: begin..begin + atoms.len(), ..atoms[0].clone() };
    for atom in &atoms[1..] {
        let starts = run.takes_us.saturating_add(way(track, run.exit, atom.entry).1);
        let waits = starts.saturating_mul(atom.weight).saturating_add(atom.waits_us);
        run.waits_us = run.waits_us.saturating_add(waits);
        run.takes_us = starts.saturating_add(atom.takes_us);
        run.weight += atom.weight;
        run.exit = atom.exit;
    }
    run
}
