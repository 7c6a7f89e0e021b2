//! Which of the reads, or of the writes, that wait for a drive comes next: the decision alone.
//!
//! An arm that goes to and fro between what tape streams read or write in order and what clients want
//! anywhere moves less than half of what the disk can. So what a stream reads, or appends to an extent, goes
//! one behind the other for a while, before others have their turn; what these want is taken as it came. For
//! a drive without an arm it is an order as good as any. The steps of one extent are never put into another
//! order: all are of the same use.
//!
//! What keeps the pool whole, such as a rebuild, is read and written in runs likewise, an extent for as long
//! as something of it waits. Clients go before it, but for a share: it has a turn each time when they have
//! taken [`CLIENTS_TIMES`] as much of the drive's time as its turn takes. So clients who want more than a
//! drive can give keep four fifths of it, and a rebuild beside them comes to its end.

use blob::Use;
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
/// What a disk could read in the time that its arm takes to come to another place: so much each operation of
/// a client costs besides its bytes.
const SEEK: u64 = 2 << 20;
/// Bytes of a turn of the upkeep beside clients: each seek of it is worth some reads.
const UPKEEP_TURN: u64 = 4 << 20;
/// Before it clients have so many times what it takes.
const CLIENTS_TIMES: u64 = 4;

/// A read that waits, or a step of an extent that is written: of a sync or seal, where it ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wanted {
    pub(crate) extent: ExtentId,
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// For whom.
    pub(crate) whose: Use,
}

impl Wanted {
    /// For a tape stream.
    pub(crate) fn is_stream(&self) -> bool {
        self.whose == Use::Stream
    }

    /// To keep the pool whole.
    pub(crate) fn is_upkeep(&self) -> bool {
        self.whose == Use::Upkeep
    }

    /// What takes a place in the queue from others: of tape streams and the upkeep there is no more than
    /// their memory is for.
    pub(crate) fn counts(&self) -> bool {
        !self.is_stream() && !self.is_upkeep()
    }
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
    /// What clients had, in bytes that the drive could have read meanwhile, while the upkeep waited.
    clients: u64,
    /// Bytes that the upkeep had in its turn while clients waited, and in the turn before.
    upkeep: u64,
    before: u64,
}

impl RunOrder {
    pub(crate) fn of_reads() -> Self {
        RunOrder::with(READS)
    }

    pub(crate) fn of_writes() -> Self {
        RunOrder::with(WRITES)
    }

    fn with(others: Turn) -> Self {
        let turn = Turn { operations: 0, bytes: 0 };
        RunOrder { others, arm: None, run: 0, turn, clients: 0, upkeep: 0, before: 0 }
    }

    /// The place among those that wait, in the order in which they came, of the one that comes next. `None`
    /// stands for what only looks: it takes no time, and waits for nothing.
    pub(crate) fn choose(&mut self, waiting: impl Iterator<Item = Option<Wanted>>) -> usize {
        let (mut client, mut stream, mut upkeep) = (None, Run::default(), Run::default());
        for (at, wanted) in waiting.enumerate() {
            let Some(wanted) = wanted else { return at };
            match wanted.whose {
                Use::Stream => stream.sees((at, wanted), self),
                Use::Upkeep => upkeep.sees((at, wanted), self),
                Use::Engine | Use::Client => client = client.or(Some((at, wanted))),
            }
        }
        let (stream, upkeep) = (stream.best(), upkeep.best());
        let is_shared = client.is_some() && upkeep.is_some();
        let is_upkeeps = self.clients >= CLIENTS_TIMES.saturating_mul(self.before.max(UPKEEP_TURN) + SEEK);
        let other = if is_shared && is_upkeeps { upkeep } else { client.or(upkeep) };
        let chosen = match (stream, other) {
            (Some(_), Some(_)) if self.run < STREAM_RUN => stream,
            (_, other) => other.or(stream),
        };
        let Some((at, wanted)) = chosen else { return 0 };
        let is_others_turn = other.is_some() && self.run >= STREAM_RUN;
        assert!(!(wanted.is_stream() && is_others_turn), "others have their turn after a run");
        assert!(wanted.from <= wanted.to, "a read ends behind its beginning");
        let bytes = wanted.to - wanted.from;
        if is_shared {
            self.share(&wanted, bytes);
        }
        if wanted.is_stream() {
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

    /// Counts what clients and the upkeep have while both wait.
    fn share(&mut self, chosen: &Wanted, bytes: u64) {
        if chosen.counts() {
            self.clients = self.clients.saturating_add(bytes).saturating_add(SEEK);
        } else if chosen.is_upkeep() {
            self.upkeep = self.upkeep.saturating_add(bytes);
            if self.upkeep >= UPKEEP_TURN {
                // What one long operation had beyond its turn, clients have in the next one.
                (self.before, self.clients, self.upkeep) = (self.upkeep, 0, 0);
            }
        }
    }

    /// Whether a read begins where the arm is, or a little behind.
    fn goes_on(&self, wanted: &Wanted) -> bool {
        self.arm.is_some_and(|(extent, at)| {
            wanted.extent == extent && (at..=at.saturating_add(GAP)).contains(&wanted.from)
        })
    }
}

/// Of what is taken in runs: what came first, and what goes on where the arm is.
#[derive(Default)]
struct Run {
    first: Option<(usize, Wanted)>,
    next: Option<(usize, Wanted)>,
}

impl Run {
    fn sees(&mut self, here: (usize, Wanted), order: &RunOrder) {
        self.first = self.first.or(Some(here));
        if self.next.is_none() && order.goes_on(&here.1) {
            self.next = Some(here);
        }
    }

    fn best(self) -> Option<(usize, Wanted)> {
        self.next.or(self.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::BlobId;

    const MIB: u64 = 1 << 20;

    fn wanted(blob: u64, at: u64, is_stream: bool) -> Option<Wanted> {
        let extent = ExtentId { blob: BlobId(blob), stripe: 0, shard: 0 };
        let whose = if is_stream { Use::Stream } else { Use::Client };
        Some(Wanted { extent, from: at * MIB, to: (at + 1) * MIB, whose })
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
            (0..served.len()).filter(|at| served[*at].is_some_and(|read| !read.is_stream())).collect();
        assert_eq!(turns, [32, 33, 34, 35, 68, 69], "four MiB");
        let small = |at: u64| wanted(9, at, false).map(|read| Wanted { to: read.from + 4096, ..read });
        let mut waiting: Vec<_> = (0..70).map(|at| wanted(1, at, true)).collect();
        waiting.extend((0..20).map(small));
        let mut order = RunOrder::of_reads();
        let first: Vec<bool> = self::served(&mut order, waiting)[32..41]
            .iter()
            .map(|read| read.is_some_and(|it| it.is_stream()))
            .collect();
        assert_eq!(first, [[false; 8].as_slice(), &[true]].concat(), "eight reads");
        assert_eq!(order.choose([None].into_iter()), 0);
    }

    #[test]
    fn the_upkeep_reads_an_extent_in_one_run_and_has_a_fifth_beside_clients() {
        let of_upkeep = |blob, at| wanted(blob, at, false).map(|it| Wanted { whose: Use::Upkeep, ..it });
        let mut order = RunOrder::of_reads();
        let alone: Vec<_> = (0..40).map(|at| of_upkeep(1 + at % 2, at / 2)).collect();
        let blobs = served(&mut order, alone).into_iter().flatten().map(|it| it.extent.blob.0);
        assert!(blobs.is_sorted(), "one extent, then the other");
        let mut waiting: Vec<_> = (0..40).map(|at| of_upkeep(1, at)).collect();
        waiting.extend((0..40).map(|at| wanted(9, 5 * at, false)));
        let mut order = RunOrder::of_reads();
        let runs: Vec<(bool, usize)> = served(&mut order, waiting)
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .chunk_by(|a, b| a.whose == b.whose)
            .map(|run| (run[0].is_upkeep(), run.len()))
            .collect();
        // Four reads of the upkeep move the arm once, eight of clients eight times.
        assert_eq!(runs[..5], [(false, 8), (true, 4), (false, 8), (true, 4), (false, 8)], "{runs:?}");
        // A stream's runs stay as long beside both.
        let mut waiting: Vec<_> = (0..80).map(|at| wanted(3, at, true)).collect();
        waiting.extend((0..40).map(|at| of_upkeep(1, at)));
        waiting.extend((0..40).map(|at| wanted(9, 5 * at, false)));
        let mut order = RunOrder::of_reads();
        let served: Vec<Wanted> = served(&mut order, waiting).into_iter().flatten().collect();
        let runs: Vec<(Use, usize)> =
            served.chunk_by(|a, b| a.whose == b.whose).map(|run| (run[0].whose, run.len())).collect();
        let (stream, client) = ((Use::Stream, 32), (Use::Client, 4));
        assert_eq!(runs[..5], [stream, client, stream, client, (Use::Stream, 16)], "{runs:?}");
    }

    /// Story: a repair appends up to 16 MiB at once, and clients had no more for it than for the 4 MiB of a
    /// turn.
    #[test]
    fn what_the_upkeep_had_beyond_its_turn_clients_have_in_the_next_one() {
        let long = |at: u64| {
            let wanted = wanted(1, 16 * at, false)?;
            Some(Wanted { to: wanted.from + 16 * MIB, whose: Use::Upkeep, ..wanted })
        };
        let mut waiting: Vec<_> = (0..4).map(long).collect();
        waiting.extend((0..80).map(|at| wanted(9, 5 * at, false)));
        let mut order = RunOrder::of_writes();
        let served: Vec<Wanted> = served(&mut order, waiting).into_iter().flatten().collect();
        let runs: Vec<(bool, usize)> =
            served.chunk_by(|a, b| a.whose == b.whose).map(|run| (run[0].is_upkeep(), run.len())).collect();
        // As much as a turn takes before the first, 18 MiB with the arm's way four times before the others.
        assert_eq!(runs[..5], [(false, 8), (true, 1), (false, 24), (true, 1), (false, 24)], "{runs:?}");
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
