//! What a search over orders asks: the cost from each stretch to each, and which are near.

use mechanics::Track;

use super::stretch::Stretch;
use super::trace::{Spot, way};

/// Node 0 is the head where it stands now; coming back to it costs nothing, so that orders are cycles.
pub(super) const HEAD: u32 = 0;
/// Neighbours that are remembered of each node in each direction, beside the head.
const NEIGHBOURS: usize = 10;
/// Stretches that are looked at on each side of a place, in each band and direction.
const SIDE: usize = 4;
/// No way counts more in a search: sums stay far below the largest number.
const FAR: u64 = 1 << 40;

/// The nodes of a search; node `n` is stretch `n - 1`.
pub(super) struct Nodes<'n> {
    track: &'n Track,
    entries: Vec<Spot>,
    exits: Vec<Spot>,
    /// The cheapest ways out of each node, ascending by cost; the first is the head's.
    pub out: Vec<Vec<u32>>,
    /// The cheapest ways into each node, ascending by cost.
    pub into: Vec<Vec<u32>>,
}

impl<'n> Nodes<'n> {
    pub fn new(track: &'n Track, head: Spot, stretches: &[Stretch]) -> Self {
        let entries = [head].into_iter().chain(stretches.iter().map(|stretch| stretch.entry)).collect();
        let exits = [head].into_iter().chain(stretches.iter().map(|stretch| stretch.exit)).collect();
        let mut nodes = Nodes { track, entries, exits, out: Vec::new(), into: Vec::new() };
        nodes.find();
        nodes
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// From one node to another, in microseconds.
    #[inline]
    pub fn cost(&self, from: u32, to: u32) -> i64 {
        if to == HEAD {
            return 0;
        }
        let (_, cost) = way(self.track, self.exits[from as usize], self.entries[to as usize]);
        cost.min(FAR) as i64
    }

    fn find(&mut self) {
        let groups = self.groups();
        let count = self.len() as u32;
        let mut into: Vec<Vec<(i64, u32)>> = vec![Vec::new(); self.len()];
        let mut near: Vec<(i64, u32)> = Vec::new();
        for from in 0..count {
            near.clear();
            let mut add = |to: u32| {
                if to != from && to != HEAD && to < count {
                    near.push((self.cost(from, to), to));
                }
            };
            let exit = self.exits[from as usize];
            let ahead = 1 + self.entries[1..].partition_point(|entry| entry.block < exit.block);
            (ahead..ahead + SIDE).for_each(|to| add(to as u32));
            (ahead.saturating_sub(SIDE)..ahead).for_each(|to| add(to as u32));
            for group in &groups {
                self.near_in(group, exit.place.lpos, &mut add);
            }
            near.sort_unstable();
            near.dedup();
            near.truncate(NEIGHBOURS);
            for (cost, to) in &near {
                into[*to as usize].push((*cost, from));
            }
            let nearest = near.iter().map(|(_, to)| *to);
            self.out.push([HEAD].into_iter().filter(|head| *head != from).chain(nearest).collect());
        }
        for sources in &mut into {
            sources.sort_unstable();
            sources.truncate(NEIGHBOURS);
        }
        self.into = into.iter().map(|sources| sources.iter().map(|(_, from)| *from).collect()).collect();
    }

    /// Nodes of the same band and direction by position: from another wrap, locates to them differ by the
    /// way along the tape alone.
    fn groups(&self) -> Vec<Vec<(u32, u32)>> {
        let mut groups = vec![Vec::new(); 8];
        for (node, entry) in self.entries.iter().enumerate().skip(1) {
            let band = u32::from(entry.place.wrap) * 4 / u32::from(self.track.map.wraps()).max(1);
            let group = band.min(3) * 2 + u32::from(entry.place.is_forward());
            groups[group as usize].push((entry.place.lpos, node as u32));
        }
        for group in &mut groups {
            group.sort_unstable();
        }
        groups
    }

    /// Those on both sides of the place, and on both sides of the middle.
    fn near_in(&self, group: &[(u32, u32)], lpos: u32, add: &mut impl FnMut(u32)) {
        for (border, side) in [(lpos, SIDE), (self.track.map.middle(), SIDE / 2)] {
            let at = group.partition_point(|(other, _)| *other < border);
            let range = at.saturating_sub(side)..(at + side).min(group.len());
            group[range].iter().for_each(|(_, node)| add(*node));
        }
    }
}
