//! Which of the reads, or of the writes, that wait for a drive comes next: the decision alone.
//!
//! An arm that goes to and fro between what tape streams read or write in order and what clients want
//! anywhere moves less than half of what the disk can. So what a stream reads, or appends to an extent, goes
//! one behind the other for a while, before others have their turn; what these want is taken as it came. For
//! a drive without an arm it is an order as good as any. The steps of one extent are never put into another
//! order: all are of a stream, or none is.

use drive::ExtentId;

/// After so many bytes for tape streams others have their turn, if some wait ...
const STREAM_RUN: u64 = 32 << 20;
/// ... which is so many reads, or bytes: of small ones many, of those of a rebuild a few.
const READS: Turn = Turn { operations: 8, bytes: 4 << 20 };
/// ... or so many writes: a stream's wait in memory, which has room for more, and clients wait for theirs. It
/// is about the time that a disk needs for the stream's.
const WRITES: Turn = Turn { operations: 32, bytes: 16 << 20 };
/// What begins no further behind the last read is reached without a seek.
const GAP: u64 = 1 << 20;

/// A read that waits, or a step of an extent that is written: of a sync or seal, where it ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wanted {
    pub(crate) extent: ExtentId,
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// For a tape stream.
    pub(crate) is_stream: bool,
}

/// What others have at one time.
#[derive(Clone, Copy)]
struct Turn {
    operations: u32,
    bytes: u64,
}

/// Where a drive is in its order.
pub(crate) struct RunOrder {
    others: Turn,
    /// Where the last read ended.
    arm: Option<(ExtentId, u64)>,
    /// Bytes that tape streams had since others had their turn.
    run: u64,
    /// What others had in their turn.
    turn: Turn,
}

impl RunOrder {
    pub(crate) fn of_reads() -> Self {
        RunOrder::with(READS)
    }

    pub(crate) fn of_writes() -> Self {
        RunOrder::with(WRITES)
    }

    fn with(others: Turn) -> Self {
        RunOrder { others, arm: None, run: 0, turn: Turn { operations: 0, bytes: 0 } }
    }

    /// The place among those that wait, in the order in which they came, of the one that comes next. `None`
    /// stands for what only looks: it takes no time, and waits for nothing.
    pub(crate) fn choose(&mut self, waiting: impl Iterator<Item = Option<Wanted>>) -> usize {
        // The first of each kind, and the stream's read that goes on.
        let (mut other, mut stream, mut next) = (None, None, None);
        for (at, wanted) in waiting.enumerate() {
            let Some(wanted) = wanted else { return at };
            let here = Some((at, wanted));
            if !wanted.is_stream {
                other = other.or(here);
                continue;
            }
            stream = stream.or(here);
            if self.goes_on(&wanted) {
                next = next.or(here);
            }
        }
        let stream = next.or(stream);
        let chosen = match (stream, other) {
            (Some(_), Some(_)) if self.run < STREAM_RUN => stream,
            (_, other) => other.or(stream),
        };
        let Some((at, wanted)) = chosen else { return 0 };
        let is_others_turn = other.is_some() && self.run >= STREAM_RUN;
        assert!(!(wanted.is_stream && is_others_turn), "others have their turn after a run");
        assert!(wanted.from <= wanted.to, "a read ends behind its beginning");
        let bytes = wanted.to - wanted.from;
        if wanted.is_stream {
            self.run = self.run.saturating_add(bytes);
        } else {
            self.turn.operations += 1;
            self.turn.bytes = self.turn.bytes.saturating_add(bytes);
            let Turn { operations, bytes } = self.others;
            let is_over = self.turn.operations >= operations || self.turn.bytes >= bytes;
            if is_over || stream.is_none() {
                (self.run, self.turn) = (0, Turn { operations: 0, bytes: 0 });
            }
        }
        self.arm = Some((wanted.extent, wanted.to));
        at
    }

    /// Whether a read begins where the arm is, or a little behind.
    fn goes_on(&self, wanted: &Wanted) -> bool {
        self.arm.is_some_and(|(extent, at)| {
            wanted.extent == extent && (at..=at.saturating_add(GAP)).contains(&wanted.from)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::BlobId;

    const MIB: u64 = 1 << 20;

    fn wanted(blob: u64, at: u64, is_stream: bool) -> Option<Wanted> {
        let extent = ExtentId { blob: BlobId(blob), stripe: 0, shard: 0 };
        Some(Wanted { extent, from: at * MIB, to: (at + 1) * MIB, is_stream })
    }

    /// What is served, of all that waits, in order.
    fn served(order: &mut RunOrder, mut waiting: Vec<Option<Wanted>>) -> Vec<Option<Wanted>> {
        let mut served = Vec::new();
        while !waiting.is_empty() {
            served.push(waiting.remove(order.choose(waiting.iter().copied())));
        }
        served
    }

    #[test]
    fn a_stream_is_read_in_one_run_and_clients_as_they_came() {
        let mut order = RunOrder::of_reads();
        let mixed = vec![
            wanted(1, 0, true),
            wanted(9, 5, false),
            wanted(2, 0, true),
            wanted(1, 1, true),
            None,
            wanted(2, 1, true),
            wanted(8, 3, false),
        ];
        let runs = vec![
            wanted(1, 0, true),
            wanted(1, 1, true),
            wanted(2, 0, true),
            wanted(2, 1, true),
            wanted(9, 5, false),
            wanted(8, 3, false),
        ];
        let looks_first = [vec![None], runs].concat();
        assert_eq!(served(&mut order, mixed), looks_first);
    }

    #[test]
    fn who_waits_beside_a_stream_has_a_turn_after_each_run() {
        let mut order = RunOrder::of_reads();
        let mut waiting: Vec<_> = (0..100).map(|at| wanted(1, at, true)).collect();
        waiting.extend((0..6).map(|at| wanted(9, 5 * at, false)));
        let served = served(&mut order, waiting);
        let turns: Vec<usize> =
            (0..served.len()).filter(|at| served[*at].is_some_and(|read| !read.is_stream)).collect();
        assert_eq!(turns, [32, 33, 34, 35, 68, 69], "four MiB");
        let small = |at: u64| wanted(9, at, false).map(|read| Wanted { to: read.from + 4096, ..read });
        let mut waiting: Vec<_> = (0..70).map(|at| wanted(1, at, true)).collect();
        waiting.extend((0..20).map(small));
        let mut order = RunOrder::of_reads();
        let first: Vec<bool> = self::served(&mut order, waiting)[32..41]
            .iter()
            .map(|read| read.is_some_and(|it| it.is_stream))
            .collect();
        assert_eq!(first, [[false; 8].as_slice(), &[true]].concat(), "eight reads");
        assert_eq!(order.choose([None].into_iter()), 0);
    }

    #[test]
    fn what_is_written_keeps_the_order_of_each_extent_and_nobody_waits_for_ever() {
        let mut order = RunOrder::of_writes();
        // Two streams and a client that append a cell in turn, and seal.
        let steps = |blob: u64, cells: u64, is_stream| {
            let end = wanted(blob, cells, is_stream).map(|end| Wanted { to: end.from, ..end });
            (0..cells).map(move |at| wanted(blob, at, is_stream)).chain([end])
        };
        let mut waiting = Vec::new();
        let mut writers = [steps(1, 60, true), steps(2, 60, true), steps(9, 40, false)];
        while waiting.len() < 163 {
            waiting.extend(writers.iter_mut().filter_map(Iterator::next));
        }
        let served: Vec<Wanted> = served(&mut order, waiting).into_iter().flatten().collect();
        for blob in [1, 2, 9] {
            let ends: Vec<(u64, u64)> =
                served.iter().filter(|it| it.extent.blob.0 == blob).map(|it| (it.from, it.to)).collect();
            assert!(ends.is_sorted() && ends.windows(2).all(|two| two[0].1 == two[1].0), "{blob}: {ends:?}");
        }
        let runs: Vec<(u64, usize)> = served
            .chunk_by(|a, b| a.extent == b.extent)
            .map(|run| (run[0].extent.blob.0, run.len()))
            .collect();
        assert_eq!(runs[..4], [(1, 32), (9, 16), (2, 32), (9, 16)], "{runs:?}");
        assert!(runs.len() <= 8, "{runs:?}");
    }
}
