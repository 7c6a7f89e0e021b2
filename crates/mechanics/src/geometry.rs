//! Where the bytes of a tape's partitions stand.

use std::ops::Range;

use base::{BlockAddress, ByteCount, Partition};

use crate::figure::Figure;
use crate::map::{Place, TapeMap};
use crate::model::MediumModel;

/// A medium as LTFS divides it: the index partition on the first wraps, some left free as a guard, then the
/// data partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Wraps of the whole tape.
    pub wraps: u16,
    /// Wraps of the index partition.
    pub index_wraps: u16,
    /// Wraps between the partitions.
    pub guard_wraps: u16,
    /// What a wrap holds.
    pub wrap_bytes: ByteCount,
    /// The longitudinal positions of its ends, in the drive's own units.
    pub lpos: Range<u32>,
}

/// A byte of a partition, counted from its first record's first; file marks take no room.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TapeByte {
    /// The partition.
    pub partition: Partition,
    /// The bytes of records in front of it.
    pub byte: u64,
}

impl Geometry {
    /// A tape with two wraps of index partition and two of guard, as LTFS formats LTO.
    ///
    /// # Panics
    /// If fewer than five wraps, wraps without room, or no length are given: a medium is made from checked
    /// data.
    #[must_use]
    pub fn ltfs(wraps: u16, wrap_bytes: ByteCount, lpos: Range<u32>) -> Self {
        let (index_wraps, guard_wraps) = (2, 2);
        assert!(wraps > index_wraps + guard_wraps, "the data partition has a wrap");
        assert!(wrap_bytes.0 > 0 && lpos.start < lpos.end, "the tape has room");
        Geometry { wraps, index_wraps, guard_wraps, wrap_bytes, lpos }
    }

    /// A medium of the data files.
    ///
    /// # Panics
    /// As [`Geometry::ltfs`]; the figures of a [`MediumModel`] were checked for it.
    #[must_use]
    pub fn of(medium: &MediumModel) -> Self {
        let wraps_of = |figure: &Figure| u16::try_from(figure.whole()).unwrap_or(u16::MAX);
        let wrap_bytes = ByteCount(medium.wrap_capacity.whole());
        let whole = Geometry::ltfs(medium.wrap_count(), wrap_bytes, medium.lpos());
        let (index_wraps, guard_wraps) = (wraps_of(&medium.index_wraps), wraps_of(&medium.guard_wraps));
        assert!(whole.wraps > index_wraps + guard_wraps, "the data partition has a wrap");
        Geometry { index_wraps, guard_wraps, ..whole }
    }

    /// The tape's wrap on which a partition begins.
    #[must_use]
    pub fn first_wrap(&self, partition: Partition) -> u16 {
        match partition {
            Partition::Index => 0,
            Partition::Data => self.index_wraps + self.guard_wraps,
        }
    }

    /// The wraps of a partition.
    #[must_use]
    pub fn wraps_of(&self, partition: Partition) -> u16 {
        match partition {
            Partition::Index => self.index_wraps,
            Partition::Data => self.wraps - self.first_wrap(Partition::Data),
        }
    }

    /// A partition with bytes for blocks: what stands on a cartridge of little capacity stands on the first
    /// of these wraps.
    #[must_use]
    pub fn byte_map(&self, partition: Partition) -> TapeMap {
        self.even_map(partition, self.wrap_bytes.0)
    }

    /// The data partition filled with blocks of `block_size` bytes.
    #[must_use]
    pub fn block_map(&self, block_size: u32) -> TapeMap {
        self.even_map(Partition::Data, (self.wrap_bytes.0 / u64::from(block_size.max(1))).max(1))
    }

    /// The data partition whose whole wraps end in front of the blocks of `ends`, which ascend strictly; what
    /// lies behind is filled with blocks of `block_size` bytes.
    ///
    /// The list may be empty, as it is of a tape whose first wrap is not full.
    #[must_use]
    pub fn map_of_ends(&self, ends: &[BlockAddress], block_size: u32) -> TapeMap {
        let blocks = (self.wrap_bytes.0 / u64::from(block_size.max(1))).max(1);
        let mut ends: Vec<u64> = ends.iter().map(|end| end.0).collect();
        ends.push(ends.last().copied().unwrap_or(0) + blocks);
        TapeMap::new(ends, self.first_wrap(Partition::Data), self.wraps, self.lpos.clone())
    }

    /// Where a byte stands.
    #[must_use]
    pub fn place(&self, at: TapeByte) -> Place {
        self.byte_map(at.partition).place(BlockAddress(at.byte))
    }

    fn even_map(&self, partition: Partition, wrap: u64) -> TapeMap {
        let first = self.first_wrap(partition);
        TapeMap::even(wrap, self.wraps_of(partition), first, self.wraps, self.lpos.clone())
    }
}
