//! Which gets are one read of a file, in bounded memory.

use std::collections::BTreeMap;

use base::{ByteCount, Duration, FileId, Timestamp};

use crate::access::Get;

/// Ranges of a file, of which each begins within this time after the one before it ended, are one read of it.
pub(crate) const RANGES_JOINED: Duration = Duration::from_secs(60);
/// Files whose read may go on, in each of two generations, at some 48 bytes each. With more files at a time
/// than this, ranges are counted as reads of their own.
const READS_MAX: usize = 100_000;

/// Reads to which further ranges may belong.
///
/// A get of a whole file is a read of its own. So is a range at a file's beginning after as many bytes were
/// sent as the file has: somebody reads it once more.
#[derive(Default, Debug)]
pub(crate) struct Reads {
    young: BTreeMap<FileId, Read>,
    old: BTreeMap<FileId, Read>,
}

#[derive(Clone, Copy, Debug)]
struct Read {
    /// When the last byte of it was handed on.
    until: Timestamp,
    /// Of all of its ranges.
    sent: ByteCount,
    from_tape: bool,
}

crate::stored::stored!(Reads { young, old });
crate::stored::stored!(Read { until, sent, from_tape });

/// What a get is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    /// The first of a read: not one more range of it.
    pub(crate) is_first: bool,
    /// Whether the read needed no tape.
    pub(crate) is_hit: bool,
    /// What it adds to the read's bytes, which are at most the file's size.
    pub(crate) bytes: ByteCount,
}

impl Reads {
    /// A get was served. `from_tape`: the file was on tape when it was asked for, and was not read since.
    pub(crate) fn get(&mut self, at: Timestamp, get: &Get, from_tape: bool) -> Part {
        let before = self.end(get.file).filter(|before| !from_tape && before.goes_on(at, get));
        let is_first = before.is_none();
        let mut read = before.unwrap_or(Read { until: at, sent: ByteCount(0), from_tape });
        let counted = read.sent.min(get.bytes);
        read.until = read.until.max(at);
        read.sent = ByteCount(read.sent.0.saturating_add(get.sent.0));
        let bytes = ByteCount(read.sent.min(get.bytes).0 - counted.0);
        self.young.insert(get.file, read);
        if self.young.len() > READS_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        Part { is_first, is_hit: !read.from_tape, bytes }
    }

    /// The file is no more in the pool: the next get of it is another read.
    pub(crate) fn forget(&mut self, file: FileId) {
        self.end(file);
    }

    fn end(&mut self, file: FileId) -> Option<Read> {
        self.young.remove(&file).or_else(|| self.old.remove(&file))
    }
}

impl Read {
    /// Whether a get is one more range of it.
    fn goes_on(&self, at: Timestamp, get: &Get) -> bool {
        let from_the_top = get.offset == ByteCount(0);
        let is_another = from_the_top && (get.asked == get.bytes || self.sent >= get.bytes);
        let took = i64::try_from(get.took.as_nanos()).unwrap_or(i64::MAX);
        let begun = Timestamp(at.0.saturating_sub(took));
        !is_another && begun.since(self.until) <= RANGES_JOINED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(file: u64, offset: u64, asked: u64, took: u64) -> Get {
        let (asked, took) = (ByteCount(asked), Duration::from_secs(took));
        let (bytes, offset) = (ByteCount(100), ByteCount(offset));
        Get { file: FileId(file), bytes, offset, asked, sent: asked, online: true, took }
    }

    fn second(count: i64) -> Timestamp {
        Timestamp(count * 1_000_000_000)
    }

    fn part(is_first: bool, is_hit: bool, bytes: u64) -> Part {
        Part { is_first, is_hit, bytes: ByteCount(bytes) }
    }

    #[test]
    fn ranges_that_follow_each_other_are_one_read_of_at_most_its_size() {
        let mut reads = Reads::default();
        assert_eq!(reads.get(second(0), &range(1, 0, 40, 0), false), part(true, true, 40));
        assert_eq!(reads.get(second(60), &range(1, 40, 40, 0), false), part(false, true, 40));
        assert_eq!(reads.get(second(61), &range(1, 50, 40, 0), false), part(false, true, 20));
        assert_eq!(reads.get(second(62), &range(1, 50, 40, 0), false), part(false, true, 0));
        // From the beginning once more.
        assert_eq!(reads.get(second(63), &range(1, 0, 40, 0), false), part(true, true, 40));
        assert_eq!(reads.get(second(124), &range(1, 40, 40, 0), false), part(true, true, 40), "too late");
        // It took its time, but began soon.
        assert_eq!(reads.get(second(900), &range(1, 80, 20, 770), false), part(false, true, 20));
        assert_eq!(reads.get(second(901), &range(1, 0, 100, 0), false), part(true, true, 100), "whole");
    }

    #[test]
    fn ranges_after_a_recall_belong_to_the_miss() {
        let mut reads = Reads::default();
        assert_eq!(reads.get(second(0), &range(1, 0, 50, 0), true), part(true, false, 50));
        assert_eq!(reads.get(second(1), &range(1, 50, 50, 0), false), part(false, false, 50));
        assert_eq!(reads.get(second(2), &range(1, 10, 50, 0), true), part(true, false, 50), "recalled again");
        reads.forget(FileId(1));
        assert_eq!(reads.get(second(3), &range(1, 10, 50, 0), false), part(true, true, 50));
    }

    #[test]
    fn reads_that_may_go_on_are_bounded() {
        let mut reads = Reads::default();
        for file in 0..(3 * READS_MAX as u64) {
            reads.get(second(0), &range(file, 0, 10, 0), false);
        }
        assert!(reads.young.len() <= READS_MAX && reads.old.len() <= READS_MAX + 1);
        let last = 3 * READS_MAX as u64 - 1;
        assert!(!reads.get(second(1), &range(last, 10, 10, 0), false).is_first);
        assert!(reads.get(second(1), &range(0, 10, 10, 0), false).is_first);
    }
}
