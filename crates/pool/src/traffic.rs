//! Tape streams and clients on the same drives: who runs, what each gets, and where clients wait.
//!
//! Whoever waits here holds no lock, no memory of the pool and no place in a queue of a drive.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;
use threads::{Condvar, Mutex};

use base::ByteCount;

use crate::gather::lock;
use crate::pacer::{Observation, PACE_STEP, Pacer, StreamSample};
use crate::pool::Pool;
use crate::watch::Watch;

/// Clients may use up at once what they were given for this long.
const BURST: Duration = Duration::from_millis(200);
/// A clock that has not moved in so many waits of a step does not move at all, and nobody waits for it.
const STILL_MAX: usize = 20;

/// How tape streams and clients share the pool at present.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Feeding {
    /// Tape streams that run.
    pub streams: usize,
    /// What they have reserved, in bytes a second.
    pub reserved: ByteCount,
    /// What they moved in the last step, in bytes a second.
    pub moved: ByteCount,
    /// What clients may move, in bytes a second; `None`: as much as they like.
    pub clients: Option<ByteCount>,
    /// The most streams that the pool feeds; `None` as long as that has not been met.
    pub streams_max: Option<usize>,
}

/// One for each pool.
#[derive(Default)]
pub(crate) struct Traffic {
    /// Streams that run.
    running: AtomicUsize,
    /// Bytes of clients since the last step.
    clients: AtomicU64,
    /// When the next step is due, in nanoseconds of the steady clock.
    due: AtomicU64,
    state: Mutex<State>,
    turn: Condvar,
}

#[derive(Default)]
struct State {
    streams: Vec<Running>,
    pacer: Pacer,
    stepped: Duration,
    moved: u64,
    /// Bytes that clients may ask for at once; below zero after a large one.
    tokens: f64,
    filled: Duration,
    waiting: VecDeque<u64>,
    next_turn: u64,
}

struct Running {
    counters: Arc<Counters>,
    rate: u64,
    /// What was seen at the last step.
    moved: u64,
    waited: Duration,
}

#[derive(Default)]
struct Counters(Mutex<Counted>);

#[derive(Clone, Copy, Default)]
struct Counted {
    moved: u64,
    waited: Duration,
    since: Option<Duration>,
}

/// A tape stream from the pool or into it, for as long as its session runs; see [`Pool::tape_stream`].
pub struct TapeStream {
    pool: Weak<Pool>,
    counters: Arc<Counters>,
}

impl Pool {
    /// Reserves `rate` bytes a second for a tape stream until it is dropped. While a stream gets less because
    /// it waits for the pool, [`Use::Client`] is held back, though never to less than a floor:
    /// [`CLIENT_FLOOR`](crate::CLIENT_FLOOR) and a part of what the pool moves. A rate of 0 reserves nothing.
    pub fn tape_stream(self: &Arc<Self>, rate: ByteCount) -> TapeStream {
        let counters = Arc::<Counters>::default();
        if rate.0 > 0 {
            let now = self.watch().steady().unwrap_or_default();
            let running = self.traffic().begin(Arc::clone(&counters), rate.0, now);
            self.keep_for_streams(running);
        }
        TapeStream { pool: Arc::downgrade(self), counters }
    }

    /// Waits until a client may move so many bytes: at once, for the price of one load, as long as no tape
    /// stream runs. To be called with nothing in hand. Never without end: the floor is never zero, and a
    /// clock that stands is not waited for.
    pub fn pace(&self, bytes: u64) {
        self.traffic().pass(self.watch(), bytes);
    }

    /// How tape streams and clients share the pool at present.
    #[must_use]
    pub fn feeding(&self) -> Feeding {
        let traffic = self.traffic();
        if traffic.running.load(Ordering::Relaxed) == 0 {
            return Feeding::default();
        }
        let mut state = lock(&traffic.state);
        if let Some(now) = self.watch().steady() {
            traffic.tick(&mut state, now);
        }
        let reserved = state.streams.iter().map(|stream| stream.rate).sum();
        Feeding {
            streams: state.streams.len(),
            reserved: ByteCount(reserved),
            moved: ByteCount(state.moved),
            clients: state.pacer.budget().map(ByteCount),
            streams_max: state.pacer.streams_max(),
        }
    }
}

impl Traffic {
    /// Tape streams that run.
    pub(crate) fn streams(&self) -> usize {
        self.running.load(Ordering::Relaxed)
    }

    fn begin(&self, counters: Arc<Counters>, rate: u64, now: Duration) -> usize {
        let mut state = lock(&self.state);
        if state.streams.is_empty() {
            (state.stepped, state.filled, state.tokens) = (now, now, 0.0);
            self.due.store(nanos(now + PACE_STEP), Ordering::Relaxed);
            self.clients.store(0, Ordering::Relaxed);
        }
        state.streams.push(Running { counters, rate, moved: 0, waited: Duration::ZERO });
        let running = self.running.fetch_add(1, Ordering::Relaxed) + 1;
        assert_eq!(running, state.streams.len(), "each stream that runs is counted");
        running
    }

    /// Forgets a stream; how many are left, or `None` if it was not known.
    fn end(&self, counters: &Arc<Counters>) -> Option<usize> {
        let mut state = lock(&self.state);
        let at = state.streams.iter().position(|stream| Arc::ptr_eq(&stream.counters, counters))?;
        state.streams.remove(at);
        if state.streams.is_empty() {
            state.pacer = Pacer::default();
            self.turn.notify_all();
        }
        let before = self.running.fetch_sub(1, Ordering::Relaxed);
        assert_eq!(before, state.streams.len() + 1, "each stream that runs is counted");
        Some(state.streams.len())
    }

    /// Takes a step if one is due.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a rate in whole bytes; what is too much is as much as there is"
    )]
    fn tick(&self, state: &mut State, now: Duration) {
        let span = now.saturating_sub(state.stepped);
        if span < PACE_STEP || state.streams.is_empty() {
            return;
        }
        let sample = |stream: &mut Running| {
            let counted = *lock(&stream.counters.0);
            assert!(counted.moved >= stream.moved, "what a stream has moved only grows");
            let waiting = counted.since.map_or(Duration::ZERO, |since| now.saturating_sub(since));
            let waited = counted.waited + waiting;
            let sample = StreamSample {
                rate: stream.rate,
                moved: counted.moved - stream.moved,
                waited: waited.saturating_sub(stream.waited),
            };
            (stream.moved, stream.waited) = (counted.moved, waited);
            sample
        };
        let samples: Vec<StreamSample> = state.streams.iter_mut().map(sample).collect();
        let clients = self.clients.swap(0, Ordering::Relaxed);
        let moved: u64 = samples.iter().map(|sample| sample.moved).sum();
        state.moved = (moved as f64 / span.as_secs_f64()) as u64;
        let was_free = state.pacer.budget().is_none();
        state.pacer.step(&Observation { span, streams: &samples, clients });
        if was_free {
            (state.tokens, state.filled) = (0.0, now);
        }
        state.stepped = now;
        self.due.store(nanos(now + PACE_STEP), Ordering::Relaxed);
    }

    fn pass(&self, watch: &Watch, bytes: u64) {
        if self.running.load(Ordering::Relaxed) == 0 {
            return;
        }
        let Some(mut now) = watch.steady() else { return };
        let mut state = lock(&self.state);
        self.tick(&mut state, now);
        if state.pacer.budget().is_some() {
            let turn = state.next_turn;
            state.next_turn += 1;
            state.waiting.push_back(turn);
            let mut still = 0;
            while let Some(patience) = state.patience(turn, now)
                && still < STILL_MAX
            {
                let (back, waited) =
                    self.turn.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner);
                state = back;
                let later = watch.steady().unwrap_or(now);
                still = if waited.timed_out() && later == now { still + 1 } else { 0 };
                now = later;
                self.tick(&mut state, now);
            }
            state.tokens -= bytes as f64;
            state.waiting.retain(|waiting| *waiting != turn);
            if !state.waiting.is_empty() {
                self.turn.notify_all();
            }
        }
        drop(state);
        self.clients.fetch_add(bytes, Ordering::Relaxed);
    }

    /// As [`Traffic::pass`] if that would not wait; `false` if it would.
    pub(crate) fn try_pass(&self, watch: &Watch, bytes: u64) -> bool {
        if self.running.load(Ordering::Relaxed) == 0 {
            return true;
        }
        let Some(now) = watch.steady() else { return true };
        let mut state = lock(&self.state);
        self.tick(&mut state, now);
        if state.pacer.budget().is_some() {
            let turn = state.next_turn;
            if !state.waiting.is_empty() || state.patience(turn, now).is_some() {
                return false;
            }
            state.tokens -= bytes as f64;
        }
        drop(state);
        self.clients.fetch_add(bytes, Ordering::Relaxed);
        true
    }

    /// A step, if one is due by the clock; for streams, so that clients who wait are not the only ones to
    /// look.
    fn look(&self, now: Duration) {
        if nanos(now) >= self.due.load(Ordering::Relaxed) {
            let mut state = lock(&self.state);
            self.tick(&mut state, now);
        }
    }
}

impl State {
    /// How long this turn waits at least; `None`: it may go.
    fn patience(&mut self, turn: u64, now: Duration) -> Option<Duration> {
        let budget = self.pacer.budget()? as f64;
        let since = now.saturating_sub(self.filled).as_secs_f64();
        self.tokens = (self.tokens + budget * since).min(budget * BURST.as_secs_f64());
        self.filled = now;
        let is_first = self.waiting.front().is_none_or(|first| *first == turn);
        if is_first && self.tokens > 0.0 {
            return None;
        }
        let missing = if is_first { (1.0 - self.tokens) / budget.max(1.0) } else { 1.0 };
        Some(Duration::from_secs_f64(missing).clamp(Duration::from_millis(1), PACE_STEP))
    }
}

impl TapeStream {
    /// Takes note of bytes moved between pool and tape.
    pub fn moved(&self, bytes: u64) {
        lock(&self.counters.0).moved += bytes;
        self.with_clock(|traffic, now| traffic.look(now));
    }

    /// The tape drive waits for the pool from now on, or does not any more.
    pub fn set_waiting(&self, waits: bool) {
        self.with_clock(|traffic, now| {
            let mut counted = lock(&self.counters.0);
            if waits {
                counted.since = Some(now);
                return;
            }
            if let Some(since) = counted.since.take() {
                counted.waited += now.saturating_sub(since);
            }
            drop(counted);
            traffic.look(now);
        });
    }

    fn with_clock(&self, then: impl FnOnce(&Traffic, Duration)) {
        let Some(pool) = self.pool.upgrade() else { return };
        if let Some(now) = pool.watch().steady() {
            then(pool.traffic(), now);
        }
    }
}

impl Drop for TapeStream {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.upgrade()
            && let Some(left) = pool.traffic().end(&self.counters)
        {
            pool.keep_for_streams(left);
        }
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "traffic_tests.rs"]
mod tests;
