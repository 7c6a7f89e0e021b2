//! Where blocks stand on a tape.

use base::BlockAddress;

/// A place on a tape: which wrap, and how far along the tape.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Place {
    /// The wrap, counted from 0 over the whole tape; even ones run away from the beginning of the tape, odd
    /// ones back.
    pub wrap: u16,
    /// The longitudinal position in the drive's own units, growing away from the beginning of the tape.
    pub lpos: u32,
}

impl Place {
    /// Whether the wrap runs away from the beginning of the tape.
    #[must_use]
    pub fn is_forward(self) -> bool {
        self.wrap.is_multiple_of(2)
    }
}

/// The blocks of one partition on the wraps of a tape.
///
/// Within a wrap, blocks lie evenly: the positions of the ends of the wraps are either computed from the
/// medium's nominal capacity, or those that the drive gives (READ END OF WRAP POSITION), which take
/// compression and rewritten spots into account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TapeMap {
    /// First block behind each wrap of the partition; ascending.
    ends: Vec<u64>,
    /// The tape's wrap on which the partition begins.
    first_wrap: u16,
    /// Wraps of the whole tape; bands are quarters of it.
    wraps: u16,
    lpos_min: u32,
    lpos_max: u32,
}

impl TapeMap {
    /// A partition whose wraps end in front of these blocks.
    ///
    /// `ends` ascends strictly; blocks behind the last end are taken to stand on wraps as long as the last
    /// one, up to the last wrap of the tape, where all others stand.
    ///
    /// # Panics
    /// If `ends` is empty or does not ascend, or if the tape has no room: a map is made from checked data.
    #[must_use]
    pub fn new(ends: Vec<u64>, first_wrap: u16, wraps: u16, lpos: std::ops::Range<u32>) -> Self {
        assert!(ends.first().is_some_and(|first| *first > 0), "a partition has at least one wrap");
        assert!(ends.is_sorted_by(|a, b| a < b), "wraps end one behind the other");
        assert!(first_wrap < wraps && lpos.start < lpos.end, "the tape has room");
        TapeMap { ends, first_wrap, wraps, lpos_min: lpos.start, lpos_max: lpos.end }
    }

    /// A partition of `count` wraps from `first_wrap` on, each of `blocks` blocks.
    ///
    /// # Panics
    /// As [`TapeMap::new`].
    #[must_use]
    pub fn even(blocks: u64, count: u16, first_wrap: u16, wraps: u16, lpos: std::ops::Range<u32>) -> Self {
        TapeMap::new((1..=u64::from(count)).map(|wrap| wrap * blocks).collect(), first_wrap, wraps, lpos)
    }

    /// Where a block begins.
    #[must_use]
    pub fn place(&self, block: BlockAddress) -> Place {
        let index = self.ends.partition_point(|end| *end <= block.0);
        let (index, begin, end) = match self.ends.get(index) {
            Some(end) => (index, index.checked_sub(1).map_or(0, |before| self.ends[before]), *end),
            None => self.behind_the_ends(block.0),
        };
        let wrap = u16::try_from(index).unwrap_or(u16::MAX).saturating_add(self.first_wrap);
        let (wrap, part) = match wrap < self.wraps {
            true => (wrap, (block.0 - begin) as f64 / (end - begin) as f64),
            false => (self.wraps - 1, 1.0),
        };
        let span = f64::from(self.lpos_max - self.lpos_min);
        let along = (span * part.min(1.0)) as u32;
        let lpos = match wrap.is_multiple_of(2) {
            true => self.lpos_min + along,
            false => self.lpos_max - along,
        };
        Place { wrap, lpos }
    }

    fn behind_the_ends(&self, block: u64) -> (usize, u64, u64) {
        let last = *self.ends.last().unwrap_or(&1);
        let before = self.ends.len().checked_sub(2).map_or(0, |at| self.ends[at]);
        let length = last - before;
        let more = (block - last) / length;
        let index = self.ends.len().saturating_add(usize::try_from(more).unwrap_or(usize::MAX));
        let begin = last + more * length;
        (index, begin, begin.saturating_add(length))
    }

    /// Wraps of the whole tape.
    #[must_use]
    pub fn wraps(&self) -> u16 {
        self.wraps
    }

    /// Positions along the tape between which the wraps lie.
    #[must_use]
    pub fn lpos(&self) -> std::ops::Range<u32> {
        self.lpos_min..self.lpos_max
    }

    /// The middle of the tape's length: where its two landing zones meet.
    #[must_use]
    pub fn middle(&self) -> u32 {
        (self.lpos_max - self.lpos_min) / 2
    }

    /// The first block behind each wrap of the partition: what READ END OF WRAP POSITION tells.
    #[must_use]
    pub fn ends(&self) -> &[u64] {
        &self.ends
    }

    /// The last block of the wrap on which `block` stands, plus one.
    #[must_use]
    pub fn end_of_wrap_of(&self, block: BlockAddress) -> BlockAddress {
        let index = self.ends.partition_point(|end| *end <= block.0);
        BlockAddress(self.ends.get(index).copied().unwrap_or(u64::MAX))
    }
}
