//! Which block is read or written next. Pure: one seed, one sequence.

use std::fmt;

use base::ByteCount;
use durability::SplitMix;

/// Every size and offset is a multiple of it, so that direct I/O takes them on all disks.
pub const ALIGNMENT: ByteCount = ByteCount(4096);
/// The largest operation.
pub const BLOCK_MAX: ByteCount = ByteCount(16 << 20);
/// The largest number on either side of a mix.
pub const MIX_MAX: u32 = 1_000;

/// How many operations read for so many that write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mix {
    reads: u32,
    writes: u32,
}

impl Mix {
    /// Reads alone.
    pub const READ: Mix = Mix { reads: 1, writes: 0 };
    /// Writes alone.
    pub const WRITE: Mix = Mix { reads: 0, writes: 1 };

    /// Reads `read`, `write`, or reads and writes as `95:5`.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<Mix, String> {
        let wrong = || {
            format!("'{text}' is no mix: write read, write, or reads:writes of 1 to {MIX_MAX}, such as 95:5")
        };
        match text {
            "read" => return Ok(Mix::READ),
            "write" => return Ok(Mix::WRITE),
            _ => {}
        }
        let (reads, writes) = text.split_once(':').ok_or_else(wrong)?;
        let part = |text: &str| {
            let number = text.parse::<u32>().ok().filter(|number| (1..=MIX_MAX).contains(number));
            number.ok_or_else(wrong)
        };
        Ok(Mix { reads: part(reads)?, writes: part(writes)? })
    }

    /// Whether it reads at all.
    #[must_use]
    pub fn has_reads(self) -> bool {
        self.reads > 0
    }

    /// Whether it writes at all.
    #[must_use]
    pub fn has_writes(self) -> bool {
        self.writes > 0
    }

    /// The share of reads, 0 to 1.
    #[must_use]
    pub fn read_share(self) -> f64 {
        f64::from(self.reads) / f64::from(self.reads + self.writes)
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Mix::READ => f.write_str("read"),
            Mix::WRITE => f.write_str("write"),
            Mix { reads, writes } => write!(f, "{reads}:{writes}"),
        }
    }
}

/// In which order blocks are taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// One after the other; from the beginning again behind the last one.
    Sequential,
    /// Each equally likely.
    Random,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Access::Sequential => "sequential",
            Access::Random => "random",
        })
    }
}

/// What a load is like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Bytes of an operation.
    pub block: ByteCount,
    /// Reads and writes.
    pub mix: Mix,
    /// Order.
    pub access: Access,
    /// Where the part of the disk or file begins that is read and written.
    pub begin: ByteCount,
    /// Bytes of this part; what does not fill a block at its end is left alone.
    pub length: ByteCount,
}

/// Why there is no such load.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// The block is nothing that direct I/O takes.
    #[error("{} bytes are no size of an operation: it is a multiple of 4 KiB, and at most 16 MiB", .0.0)]
    Block(ByteCount),
    /// The part begins between two blocks.
    #[error("the part to be read or written begins at byte {}, which is no multiple of 4 KiB", .0.0)]
    Begin(ByteCount),
    /// There is no room for the operations.
    #[error("{} bytes have no room for {least} blocks of {} bytes", .length.0, .block.0)]
    Short {
        /// Bytes of the part.
        length: ByteCount,
        /// Bytes of an operation.
        block: ByteCount,
        /// Blocks that are needed.
        least: u64,
    },
}

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operation {
    /// Or else read.
    pub is_write: bool,
    /// Where.
    pub offset: ByteCount,
}

/// An endless sequence of operations.
#[derive(Clone, Debug)]
pub struct Workload {
    shape: Shape,
    blocks: u64,
    random: SplitMix,
    next_read: u64,
    next_write: u64,
}

impl Workload {
    /// The sequence of a seed.
    ///
    /// # Errors
    /// [`ShapeError`].
    pub fn new(shape: Shape, seed: u64) -> Result<Workload, ShapeError> {
        let is_aligned = |bytes: ByteCount| bytes.0.is_multiple_of(ALIGNMENT.0);
        if shape.block.0 == 0 || !is_aligned(shape.block) || shape.block > BLOCK_MAX {
            return Err(ShapeError::Block(shape.block));
        }
        if !is_aligned(shape.begin) {
            return Err(ShapeError::Begin(shape.begin));
        }
        let blocks = shape.length.0 / shape.block.0;
        // Reads and writes that go on side by side each have a half.
        let is_mixed = shape.mix.has_reads() && shape.mix.has_writes();
        let least = if is_mixed { 2 } else { 1 };
        if blocks < least || shape.begin.0.checked_add(shape.length.0).is_none() {
            return Err(ShapeError::Short { length: shape.length, block: shape.block, least });
        }
        let next_write = if is_mixed { blocks / 2 } else { 0 };
        Ok(Workload { shape, blocks, random: SplitMix::new(seed), next_read: 0, next_write })
    }

    /// What it is like.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Operations after which a sequence in order has been everywhere once.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// What comes next.
    pub fn next_operation(&mut self) -> Operation {
        let is_write = self.is_write();
        let block = match self.shape.access {
            Access::Random => self.below(self.blocks),
            Access::Sequential => {
                let next = if is_write { &mut self.next_write } else { &mut self.next_read };
                let block = *next;
                *next = (block + 1) % self.blocks;
                block
            }
        };
        assert!(block < self.blocks, "an operation stays within its part");
        Operation { is_write, offset: ByteCount(self.shape.begin.0 + block * self.shape.block.0) }
    }

    fn is_write(&mut self) -> bool {
        let Mix { reads, writes } = self.shape.mix;
        match (reads, writes) {
            (_, 0) => false,
            (0, _) => true,
            _ => self.below(u64::from(reads + writes)) >= u64::from(reads),
        }
    }

    /// A number below a bound, each as likely as the others.
    fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.random.bits()) * u128::from(bound);
        (wide >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn shape(block: u64, mix: &str, access: Access, blocks: u64) -> Shape {
        Shape {
            block: ByteCount(block),
            mix: Mix::parse(mix).unwrap(),
            access,
            begin: ByteCount(0),
            length: ByteCount(block * blocks),
        }
    }

    #[test]
    fn mixes_are_read_and_written() {
        for text in ["read", "write", "95:5", "2:1", "1000:1"] {
            assert_eq!(Mix::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "reads", "0:1", "1:0", "1001:1", "1:2:3", "-1:2", "95"] {
            assert!(Mix::parse(text).is_err(), "{text}");
        }
        assert!((Mix::parse("2:1").unwrap().read_share() - 2.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn the_share_of_reads_is_that_of_the_mix() {
        for (mix, share) in [("read", 1.0), ("write", 0.0), ("95:5", 0.95), ("2:1", 2.0 / 3.0)] {
            for access in [Access::Sequential, Access::Random] {
                let mut load = Workload::new(shape(4096, mix, access, 1 << 20), 7).unwrap();
                let count = 100_000;
                let reads = (0..count).filter(|_| !load.next_operation().is_write).count();
                let found = reads as f64 / f64::from(count);
                assert!((found - share).abs() < 0.01, "{mix} {access}: {found}");
            }
        }
    }

    #[test]
    fn a_sequence_in_order_is_everywhere_once_and_then_begins_again() {
        for mix in ["read", "write"] {
            let mut load = Workload::new(shape(8192, mix, Access::Sequential, 100), 7).unwrap();
            let mut offsets: Vec<u64> = (0..101).map(|_| load.next_operation().offset.0).collect();
            assert_eq!(offsets.pop(), Some(0), "from the beginning again");
            assert_eq!(offsets, (0..100).map(|block| block * 8192).collect::<Vec<_>>());
        }
    }

    #[test]
    fn reads_and_writes_in_order_go_on_side_by_side() {
        let mut load = Workload::new(shape(4096, "2:1", Access::Sequential, 1000), 7).unwrap();
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for _ in 0..400 {
            let operation = load.next_operation();
            let of = if operation.is_write { &mut writes } else { &mut reads };
            of.push(operation.offset.0 / 4096);
        }
        assert_eq!(reads, (0..reads.len() as u64).collect::<Vec<_>>());
        assert_eq!(writes, (500..500 + writes.len() as u64).collect::<Vec<_>>());
    }

    #[test]
    fn a_random_sequence_leaves_no_block_out() {
        let mut load = Workload::new(shape(4096, "read", Access::Random, 256), 7).unwrap();
        let seen: BTreeSet<u64> = (0..10_000).map(|_| load.next_operation().offset.0).collect();
        assert_eq!(seen.len(), 256);
    }

    #[test]
    fn loads_that_cannot_be_are_refused() {
        let good = shape(4096, "read", Access::Random, 1);
        assert!(Workload::new(good, 0).is_ok());
        for block in [0, 512, 4097, BLOCK_MAX.0 + ALIGNMENT.0] {
            let wrong = Shape { block: ByteCount(block), ..good };
            assert_eq!(Workload::new(wrong, 0).err(), Some(ShapeError::Block(ByteCount(block))));
        }
        assert!(Workload::new(Shape { block: BLOCK_MAX, length: BLOCK_MAX, ..good }, 0).is_ok());
        let begin = ByteCount(100);
        assert_eq!(Workload::new(Shape { begin, ..good }, 0).err(), Some(ShapeError::Begin(begin)));
        let short = Shape { length: ByteCount(4095), ..good };
        assert!(matches!(Workload::new(short, 0), Err(ShapeError::Short { least: 1, .. })));
        let mixed = shape(4096, "2:1", Access::Random, 1);
        assert!(matches!(Workload::new(mixed, 0), Err(ShapeError::Short { least: 2, .. })));
    }

    proptest! {
        #[test]
        fn operations_stay_in_their_part_and_a_seed_gives_one_sequence(
            block in 1u64..64, blocks in 2u64..1000, begin in 0u64..1000, seed: u64, random: bool,
            mix in prop_oneof![Just("read"), Just("write"), Just("95:5"), Just("2:1")],
        ) {
            let access = if random { Access::Random } else { Access::Sequential };
            let (block, begin) = (block * 4096, begin * 4096);
            let spare = seed % block;
            let shape = Shape {
                begin: ByteCount(begin),
                length: ByteCount(block * blocks + spare),
                ..shape(block, mix, access, blocks)
            };
            let (mut one, mut other) =
                (Workload::new(shape, seed).unwrap(), Workload::new(shape, seed).unwrap());
            for _ in 0..200 {
                let operation = one.next_operation();
                prop_assert_eq!(operation, other.next_operation());
                let at = operation.offset.0;
                prop_assert!(at >= begin && at + block <= begin + block * blocks);
                prop_assert_eq!((at - begin) % block, 0);
            }
        }
    }
}
