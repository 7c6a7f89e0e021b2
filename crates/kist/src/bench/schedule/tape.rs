//! Random wanted files on a tape, and the orders that the plan is compared with.

use base::BlockAddress;
use durability::SplitMix;
use mechanics::Track;
use scheduler::order::{Segment, approach};

/// Bytes of a block, as LTFS has it by default.
pub const BLOCK: u32 = 512 << 10;
/// Files that CTA orders at a time.
pub const CTA_WINDOW: usize = 4_000;

/// A tape of a kind, full of data.
pub struct Tape {
    /// Drive and medium: `LTO-8`.
    pub name: &'static str,
    /// Without partitions.
    pub track: Track,
    /// Blocks on it.
    pub blocks: u64,
}

impl Tape {
    /// A full-height drive with a medium of its own kind.
    pub fn of(name: &'static str) -> Option<Self> {
        let (drive, medium) = (mechanics::drive(name).ok()?, mechanics::medium(name).ok()?);
        let track = medium.track(drive, BLOCK, Some(medium.whole_map(BLOCK)));
        let blocks = track.map.ends().last().copied()?;
        Some(Tape { name, track, blocks })
    }

    /// Files of so many bytes that the tape holds.
    pub fn holds(&self, bytes: u64) -> usize {
        usize::try_from(self.blocks / blocks_of(bytes)).unwrap_or(usize::MAX)
    }

    /// Some of the files of a tape that is full of files of this size, in the order of their requests, which is
    /// random too; and where the head stands.
    pub fn wanted(&self, files: usize, bytes: u64, random: &mut SplitMix) -> (BlockAddress, Vec<Segment>) {
        let (blocks, holds) = (blocks_of(bytes), self.holds(bytes));
        let mut all: Vec<u64> = (0..holds as u64).collect();
        let files = files.min(holds);
        for at in 0..files {
            all.swap(at, at + random.below(holds - at));
        }
        let segment = |file: &u64| Segment {
            begin: BlockAddress(file * blocks),
            end: BlockAddress((file + 1) * blocks),
        };
        let segments = all[..files].iter().map(segment).collect();
        (BlockAddress(random.below(self.blocks as usize) as u64), segments)
    }

    /// A locate without asking whether reading through is cheaper; nothing to where the head stands.
    fn locate_us(&self, from: BlockAddress, to: BlockAddress) -> u64 {
        if from == to { 0 } else { self.track.locate_us(self.track.place(from), self.track.place(to)) }
    }

    /// All locates of an order, where no gap is read through.
    pub fn locates_us(&self, head: BlockAddress, segments: &[Segment], order: &[usize]) -> u64 {
        let mut at = head;
        let step = |index: &usize| {
            let segment = segments[*index];
            self.locate_us(std::mem::replace(&mut at, segment.end), segment.begin)
        };
        order.iter().map(step).sum()
    }

    /// Always to the file with the cheapest locate; the heads of windows of so many requests are taken to
    /// stand at `begin`, or where the window before ended.
    fn greedy(&self, segments: &[Segment], begin: BlockAddress, window: &[usize]) -> Vec<usize> {
        let mut left: Vec<usize> = window.to_vec();
        let entries: Vec<_> = segments.iter().map(|segment| self.track.place(segment.begin)).collect();
        let (mut at, mut order) = (begin, Vec::with_capacity(left.len()));
        while !left.is_empty() {
            let from = self.track.place(at);
            let cost = |index: usize| match segments[index].begin == at {
                true => 0,
                false => self.track.locate_us(from, entries[index]),
            };
            let best = (0..left.len()).min_by_key(|slot| (cost(left[*slot]), segments[left[*slot]]));
            let index = left.swap_remove(best.unwrap_or(0));
            order.push(index);
            at = segments[index].end;
        }
        order
    }

    /// As CTA orders: windows of requests as they came, each greedily and from the beginning of the tape.
    pub fn cta(&self, segments: &[Segment]) -> Vec<usize> {
        let requests: Vec<usize> = (0..segments.len()).collect();
        requests.chunks(CTA_WINDOW).flat_map(|window| self.greedy(segments, BlockAddress(0), window)).collect()
    }

    /// Nearest first from the head without reading through: looks at all pairs.
    pub fn nearest_by_locates(&self, head: BlockAddress, segments: &[Segment]) -> Vec<usize> {
        self.greedy(segments, head, &(0..segments.len()).collect::<Vec<_>>())
    }

    /// The cost of the best of all orders: for each set of files that are read, the cheapest way to each last
    /// one (Held and Karp).
    pub fn optimum_us(&self, head: BlockAddress, segments: &[Segment]) -> u64 {
        let count = segments.len();
        let way = |from: BlockAddress, to: usize| approach(&self.track, from, segments[to].begin).1;
        let mut best = vec![vec![u64::MAX; count]; 1 << count];
        for (first, cost) in best.iter_mut().enumerate().filter(|(set, _)| set.is_power_of_two()) {
            let file = first.trailing_zeros() as usize;
            cost[file] = way(head, file);
        }
        for set in 1..best.len() {
            for last in (0..count).filter(|last| set & (1 << last) != 0) {
                let so_far = best[set][last];
                for next in (0..count).filter(|next| set & (1 << next) == 0) {
                    let cost = so_far.saturating_add(way(segments[last].end, next));
                    let entry = &mut best[set | 1 << next][next];
                    *entry = cost.min(*entry);
                }
            }
        }
        best[(1 << count) - 1].iter().copied().min().unwrap_or(0)
    }
}

fn blocks_of(bytes: u64) -> u64 {
    bytes.div_ceil(u64::from(BLOCK))
}
