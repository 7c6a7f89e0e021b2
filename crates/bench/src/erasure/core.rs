//! What runs on one core: Kist's own work, the rates of the memory, and the core's processes of all peers,
//! one after the other on the same buffer.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ::erasure::Codec;
use ::erasure::bench::{Operation, Work};
use drive::SharedMemory;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use terminal::{Failure, Outcome};

use super::peer::{Peer, Program};

/// Bytes that are worked on between two looks at the clock: a look costs a few percent of a small stripe.
const BATCH_BYTES: usize = 1 << 20;

/// A code, the bytes of a shard, and whether one stripe is worked on again and again or many in turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Data shards.
    pub data: usize,
    /// Parity shards.
    pub parity: usize,
    /// Bytes.
    pub shard: usize,
    /// One stripe, which stays in the cache if it fits.
    pub cached: bool,
}

impl Shape {
    /// Bytes.
    pub fn stripe(&self) -> usize {
        (self.data + self.parity) * self.shard
    }
}

/// One round of one coder.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// On what.
    pub shape: Shape,
    /// What is done.
    pub operation: Operation,
    /// `None`: Kist, or the memory; else the peer with this index.
    pub peer: Option<usize>,
    /// Stripes in the buffer that are gone through in turn.
    pub stripes: usize,
    /// The first of them.
    pub first: usize,
    /// For how long, at least.
    pub span: Duration,
}

/// 10^9 bytes of data a second, and the peer's version.
pub type Rate = (f64, String);

/// A thread bound to a core.
pub struct Core {
    // Taken at the end, which ends the thread.
    rounds: Option<SyncSender<Round>>,
    rates: Receiver<Outcome<Rate>>,
    thread: Option<JoinHandle<()>>,
}

impl Core {
    /// Begins to make a buffer of `bytes` and to start the peers on processor `cpu`; ready when
    /// [`Core::wait`] has returned once.
    pub fn start(cpu: usize, bytes: usize, peers: &[Program]) -> Self {
        let (rounds, asked) = sync_channel(1);
        let (answer, rates) = sync_channel(1);
        let peers = peers.to_vec();
        let thread = std::thread::spawn(move || {
            let mut worker = match Worker::start(cpu, bytes, &peers) {
                Ok(worker) => worker,
                Err(failure) => {
                    // Nobody waits for the answer if another core failed first.
                    let _ = answer.send(Err(failure));
                    return;
                }
            };
            let mut sent = answer.send(Ok((0.0, String::new())));
            while let (Ok(()), Ok(round)) = (&sent, asked.recv()) {
                sent = answer.send(worker.round(&round));
            }
        });
        Core { rounds: Some(rounds), rates, thread: Some(thread) }
    }

    /// Begins a round.
    pub fn begin(&self, round: Round) -> Outcome {
        let sent = self.rounds.as_ref().is_some_and(|rounds| rounds.send(round).is_ok());
        if sent { Ok(()) } else { Err(ended()) }
    }

    /// Waits for the end of the round.
    pub fn wait(&self) -> Outcome<Rate> {
        self.rates.recv().map_err(|_| ended())?
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.rounds = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been told by `ended` already.
            let _ = thread.join();
        }
    }
}

fn ended() -> Failure {
    Failure::internal("a measuring thread has ended")
}

/// Processors that this process may run on.
pub fn processors() -> Outcome<Vec<usize>> {
    let set = sched_getaffinity(None).map_err(|error| bound(&error))?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}

fn bound(error: &rustix::io::Errno) -> Failure {
    Failure::internal(format!("binding a thread to a core: {error}"))
}

struct Worker {
    memory: SharedMemory,
    peers: Vec<Peer>,
    shape: Option<Shape>,
    /// What has been prepared for this shape.
    works: BTreeMap<&'static str, Work>,
}

impl Worker {
    fn start(cpu: usize, bytes: usize, peers: &[Program]) -> Outcome<Self> {
        let mut set = CpuSet::new();
        set.set(cpu);
        // The peers inherit it: whoever has his turn has the same core and its caches.
        sched_setaffinity(None, &set).map_err(|error| bound(&error))?;
        let peers = peers.iter().map(Peer::start).collect::<Outcome<Vec<_>>>()?;
        let made = SharedMemory::new(bytes);
        let mut memory =
            made.map_err(|error| Failure::internal(format!("making a buffer of {bytes} bytes: {error}")))?;
        for (at, word) in memory.bytes().as_chunks_mut::<8>().0.iter_mut().enumerate() {
            *word = (at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes();
        }
        Ok(Worker { memory, peers, shape: None, works: BTreeMap::new() })
    }

    fn round(&mut self, round: &Round) -> Outcome<Rate> {
        if let Some(peer) = round.peer {
            let peer = self.peers.get_mut(peer).ok_or_else(|| Failure::internal("there is no such peer"))?;
            return self.memory.lend(|file| peer.round(round, file));
        }
        let shape = round.shape;
        if self.shape != Some(shape) {
            self.works.clear();
            self.shape = Some(shape);
        }
        let failed = |error: ::erasure::CodecError| Failure::internal(error.to_string());
        let work = match self.works.entry(round.operation.name()) {
            std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::btree_map::Entry::Vacant(place) => {
                let codec = Codec::new(shape.data, shape.parity).map_err(failed)?;
                place.insert(Work::new(codec, round.operation, shape.shard))
            }
        };
        let stripe = shape.stripe();
        let buffer = self.memory.bytes();
        let (mut at, mut done) = (round.first, 0);
        let begin = Instant::now();
        loop {
            for _ in 0..(BATCH_BYTES / stripe).max(1) {
                done += work.run(&mut buffer[at * stripe..][..stripe]).map_err(failed)?;
                at += 1;
                if at == round.stripes {
                    at = 0;
                }
            }
            let elapsed = begin.elapsed();
            if elapsed >= round.span {
                return Ok((done as f64 / elapsed.as_secs_f64() / 1e9, String::new()));
            }
        }
    }
}
