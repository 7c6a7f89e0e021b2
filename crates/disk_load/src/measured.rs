//! What came of a load.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::time::Duration;

use base::ByteCount;

use crate::histogram::Histogram;
use crate::stamp::Wrong;
use crate::workload::Operation;

/// Faults after which a load ends: what goes on like this measures nothing.
pub const FAULTS_MAX: u64 = 1_000;
/// Slow reads of which the place is kept.
pub const SLOWEST_KEPT: usize = 16;

/// How an operation failed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Fault {
    /// The system refused a read, with this number.
    Read(i32),
    /// The system refused a write, with this number.
    Write(i32),
    /// Fewer bytes were read than asked for.
    ShortRead,
    /// Fewer bytes were written than given.
    ShortWrite,
    /// All bytes came, and they are not those that were written.
    Data(Wrong),
    /// What was written did not all reach the disk: the system refused a sync, with this number.
    Sync(i32),
    /// Less was done than was to be, and nothing said why.
    NotDone,
}

impl Fault {
    /// Of an operation that the system refused.
    #[must_use]
    pub fn refused(operation: Operation, error: &io::Error) -> Fault {
        let number = error.raw_os_error().unwrap_or(0);
        if operation.is_write { Fault::Write(number) } else { Fault::Read(number) }
    }

    /// Of an operation that ended early.
    #[must_use]
    pub fn short(operation: Operation) -> Fault {
        if operation.is_write { Fault::ShortWrite } else { Fault::ShortRead }
    }

    /// Whether what was read is wrong, and nobody said so.
    #[must_use]
    pub fn is_of_data(self) -> bool {
        matches!(self, Fault::Data(_))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Read(number) => write!(f, "read: {}", io::Error::from_raw_os_error(*number)),
            Fault::Write(number) => write!(f, "write: {}", io::Error::from_raw_os_error(*number)),
            Fault::ShortRead => f.write_str("read ended early"),
            Fault::ShortWrite => f.write_str("write ended early"),
            Fault::Data(wrong) => write!(f, "read gave {wrong}"),
            Fault::NotDone => f.write_str("less was written or read than was to be"),
            Fault::Sync(number) => write!(f, "sync: {}", io::Error::from_raw_os_error(*number)),
        }
    }
}

/// How often a fault came, and the lowest place of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// Operations.
    pub count: u64,
    /// Where the lowest of them on the disk began: operations end in any order, so that "the first that was
    /// seen" says nothing.
    pub first: ByteCount,
}

/// All faults by kind: as many entries as there are kinds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Faults(pub BTreeMap<Fault, Seen>);

impl Faults {
    /// Adds one.
    pub fn add(&mut self, fault: Fault, at: ByteCount) {
        self.add_seen(fault, Seen { count: 1, first: at });
    }

    fn add_seen(&mut self, fault: Fault, seen: Seen) {
        let all = self.0.entry(fault).or_insert(Seen { count: 0, ..seen });
        all.count += seen.count;
        all.first = all.first.min(seen.first);
    }

    /// Adds all of another.
    pub fn merge(&mut self, other: &Faults) {
        for (fault, seen) in &other.0 {
            self.add_seen(*fault, *seen);
        }
    }

    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.values().map(|seen| seen.count).sum()
    }
}

/// Reads, or writes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Direction {
    /// Bytes of those that succeeded.
    pub bytes: u64,
    /// How long each of those took, from its order to its end.
    pub took: Histogram,
}

impl Direction {
    fn merge(&mut self, other: &Direction) {
        self.bytes += other.bytes;
        self.took.merge(&other.took);
    }
}

/// A read that took long.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SlowRead {
    /// How long.
    pub took: Duration,
    /// Where it began.
    pub at: ByteCount,
}

/// The slowest reads with their places, at most [`SLOWEST_KEPT`]: a histogram does not tell where they were.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Slowest(Vec<SlowRead>);

impl Slowest {
    fn add(&mut self, read: SlowRead) {
        if self.0.len() == SLOWEST_KEPT && self.0.last().is_some_and(|least| read <= *least) {
            return;
        }
        let at = self.0.partition_point(|kept| *kept > read);
        self.0.insert(at, read);
        self.0.truncate(SLOWEST_KEPT);
    }

    /// The slowest first.
    #[must_use]
    pub fn reads(&self) -> &[SlowRead] {
        &self.0
    }
}

/// What came of a load.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Measured {
    /// Reads.
    pub read: Direction,
    /// Writes.
    pub write: Direction,
    /// The slowest reads of those that succeeded.
    pub slowest: Slowest,
    /// Those that failed.
    pub faults: Faults,
    /// From the first order to the end of the last operation.
    pub span: Duration,
}

impl Measured {
    /// Adds an operation that succeeded.
    pub fn add(&mut self, operation: Operation, bytes: usize, took: Duration) {
        let direction = if operation.is_write { &mut self.write } else { &mut self.read };
        direction.bytes += bytes as u64;
        direction.took.add(took);
        if !operation.is_write {
            self.slowest.add(SlowRead { took, at: operation.offset });
        }
    }

    /// Adds what was done at the same time.
    pub fn merge(&mut self, other: &Measured) {
        self.span = self.span.max(other.span);
        self.gather(other);
    }

    /// Adds what was done afterwards.
    pub fn append(&mut self, other: &Measured) {
        self.span += other.span;
        self.gather(other);
    }

    fn gather(&mut self, other: &Measured) {
        self.read.merge(&other.read);
        self.write.merge(&other.write);
        other.slowest.0.iter().for_each(|read| self.slowest.add(*read));
        self.faults.merge(&other.faults);
    }

    /// Bytes in both directions.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.read.bytes + self.write.bytes
    }

    /// Operations that succeeded.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.read.took.count() + self.write.took.count()
    }

    /// Bytes a second; 0 if no time has passed.
    #[must_use]
    pub fn rate(&self) -> f64 {
        let seconds = self.span.as_secs_f64();
        if seconds > 0.0 { self.bytes() as f64 / seconds } else { 0.0 }
    }
}
