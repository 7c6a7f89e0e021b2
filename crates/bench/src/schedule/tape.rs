//! Random wanted files on a tape, and the orders that the plan is compared with.

use std::ops::Range;

use base::BlockAddress;
use durability::SplitMix;
use mechanics::Track;
use session::order::{Segment, approach, nearest_first, trace};

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

    /// The blocks of one of its wraps.
    pub fn any_wrap(&self, random: &mut SplitMix) -> Range<u64> {
        let ends = self.track.map.ends();
        let wrap = random.below(ends.len());
        wrap.checked_sub(1).map_or(0, |before| ends[before])..ends[wrap]
    }

    /// Some of the files of a tape that is full of files of this size, in the order of their requests, which
    /// is random too, and where the head stands; all in this part of the tape.
    pub fn wanted(
        &self,
        part: Range<u64>,
        files: usize,
        bytes: u64,
        random: &mut SplitMix,
    ) -> (BlockAddress, Vec<Segment>) {
        let blocks = blocks_of(bytes);
        let holds = usize::try_from((part.end - part.start) / blocks).unwrap_or(usize::MAX);
        let mut all: Vec<u64> = (0..holds as u64).collect();
        let files = files.min(holds);
        for at in 0..files {
            all.swap(at, at + random.below(holds - at));
        }
        let block = |file: u64| BlockAddress(part.start + file * blocks);
        let segment = |file: &u64| Segment { begin: block(*file), end: block(*file + 1) };
        let segments = all[..files].iter().map(segment).collect();
        let length = usize::try_from(part.end - part.start).unwrap_or(usize::MAX);
        (BlockAddress(part.start + random.below(length) as u64), segments)
    }

    /// All locates of an order, where no gap is read through.
    pub fn locates_us(&self, head: BlockAddress, segments: &[Segment], order: &[usize]) -> u64 {
        trace(&self.without_reading(), head, segments, order.iter().copied()).cost_us
    }

    /// Nearest first from the head if no gap is read through.
    pub fn nearest_by_locates(&self, head: BlockAddress, segments: &[Segment]) -> Vec<usize> {
        nearest_first(&self.without_reading(), head, segments)
    }

    /// As CTA orders: windows of requests as they came, each nearest first, without reading through, as if
    /// the head stood at the beginning of the tape.
    pub fn cta(&self, segments: &[Segment]) -> Vec<usize> {
        let track = self.without_reading();
        let mut order = Vec::with_capacity(segments.len());
        for (number, window) in segments.chunks(CTA_WINDOW).enumerate() {
            let window = nearest_first(&track, BlockAddress(0), window);
            order.extend(window.into_iter().map(|at| number * CTA_WINDOW + at));
        }
        order
    }

    /// The same drive, for which reading is no way to get anywhere.
    fn without_reading(&self) -> Track {
        Track { block_us: f64::INFINITY, ..self.track.clone() }
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
