//! How much clients may ask of the drives while tape streams run: the decision alone, in whoever's time.
//!
//! Random reads and writes of clients take more from a disk than their bytes, so that a tape stream beside
//! them starves long before the disks are full. Therefore a stream has a reserved rate. Each step looks at
//! what the streams got; if one got less *because it waited for the pool*, clients are cut by a factor, and
//! when all are fed they get a little more. A drive that is slow by itself, or is locating, cuts nobody.

use base::Duration;

/// One step of the control; who observes gives spans of about this length.
pub const PACE_STEP: Duration = Duration::from_millis(100);
/// Clients never get less than this many bytes a second ...
pub const CLIENT_FLOOR: u64 = 8_000_000;
/// ... or than this part of what streams and clients together have lately moved, whichever is more.
pub const CLIENT_FLOOR_PART: u64 = 20;
/// A stream is starved if it misses more than this share of its reserved rate ...
const SHORT_MAX: f64 = 0.05;
/// ... and clients get more only while none misses more than this.
const SHORT_FED: f64 = 0.01;
/// A cut leaves clients at most this share ...
const CUT_LEAST: f64 = 0.7;
/// ... and at least this one: so many bytes more or less as the streams miss.
const CUT_MOST: f64 = 0.3;
/// After a cut so many steps pass before the next decision: what was asked of the drives before is still in
/// their queues.
const SETTLE_STEPS: u32 = 2;
/// Each step of more is this part of what streams and clients together have lately moved.
const RAISE_PART: u64 = 40;
/// From this share of the budget at which a stream last starved on, clients get more by so many times smaller
/// steps ...
const NEAR: f64 = 0.9;
const NEAR_SLOWER: f64 = 8.0;
/// ... and each step that nobody starves makes that budget so much larger again.
const NEAR_FORGOTTEN: f64 = 1.002;
/// The share of a peak that is still remembered a step later: half of it after 14 s.
const PEAK_KEPT: f64 = 0.995;
/// With clients at their floor for so many steps, what the streams get is what the pool can give ...
const LEARN_STEPS: u32 = 20;
/// ... and this share of it is what they are held to from then on ...
const REACH_KEPT: f64 = 0.9;
/// ... until, after so many steps, the whole rate is tried again.
const FORGET_STEPS: u32 = 600;
/// Streams that miss more than this share of their rate although clients are held back are more than the pool
/// can feed ...
pub const UNDERFED: f64 = 0.2;
/// ... once that has lasted for so many steps; as many steps of the contrary end it.
const UNDERFED_STEPS: u32 = 50;

/// What one stream did in a span of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamSample {
    /// Its reserved rate, in bytes a second; above zero.
    pub rate: u64,
    /// Bytes that it moved.
    pub moved: u64,
    /// For how long its tape drive waited for the pool.
    pub waited: Duration,
}

/// What all did in a span of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Observation<'a> {
    /// How long it is.
    pub span: Duration,
    /// The streams that ran.
    pub streams: &'a [StreamSample],
    /// Bytes that clients were allowed to move.
    pub clients: u64,
}

/// The controller: no clock, no threads. The same observations give the same budgets.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Pacer {
    /// Bytes a second for all clients together; `None`: as they like.
    budget: Option<f64>,
    /// The most bytes a second that were lately moved in all.
    peak: f64,
    /// What clients had when a stream last starved.
    starved_at: Option<f64>,
    /// How many streams ran at the last step.
    count: usize,
    /// Steps until a cut can have shown its effect.
    settling: u32,
    /// What the pool can give of the reserved rates, if that is less than all: 0 < share < 1.
    reach: Option<f64>,
    /// Steps since that was learnt.
    reach_age: u32,
    /// Steps in a row with clients at their floor and a stream starved, and the worst share that one got in
    /// them, summed.
    at_floor: u32,
    got_at_floor: f64,
    /// Steps in a row that streams were underfed (above zero) or not (below).
    underfed_for: i32,
    /// The most streams that the pool feeds; `None`: not met yet.
    streams_max: Option<usize>,
}

impl Pacer {
    /// Takes in what happened since the last step, and gives the bytes a second that clients may move from
    /// now on; `None`: as many as they like.
    pub fn step(&mut self, now: &Observation<'_>) -> Option<u64> {
        let seconds = now.span.as_secs_f64();
        if now.streams.is_empty() || seconds <= 0.0 {
            *self = Pacer { peak: self.peak, ..Pacer::default() };
            return None;
        }
        if now.streams.len() != self.count {
            // What others could have says nothing about these.
            (self.count, self.reach, self.at_floor, self.got_at_floor) = (now.streams.len(), None, 0, 0.0);
            self.underfed_for = 0;
        }
        let moved: u64 = now.streams.iter().map(|stream| stream.moved).sum();
        let clients = now.clients as f64 / seconds;
        self.peak = (moved as f64 / seconds + clients).max(self.peak * PEAK_KEPT);
        self.judge_feeding(now, seconds);
        self.learn(now, seconds);
        let reach = self.reach.unwrap_or(1.0);
        let short = worst(now, seconds, reach);
        if self.settling > 0 {
            self.settling -= 1;
        } else if short > SHORT_MAX {
            self.cut(now, seconds, reach, clients);
        } else if short < SHORT_FED {
            self.raise();
        }
        assert!(self.budget.is_none_or(f64::is_finite), "a budget is a number");
        assert!(
            self.reach.is_none_or(|reach| 0.0 < reach && reach <= 1.0),
            "streams reach a part of their rate"
        );
        assert_ne!(self.streams_max, Some(0), "one stream may always run");
        self.budget()
    }

    /// What the last step gave.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a rate in whole bytes; what is too much is as much as there is"
    )]
    pub fn budget(&self) -> Option<u64> {
        self.budget.map(|budget| budget as u64)
    }

    /// The least that clients get, in bytes a second.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a rate in whole bytes; what is too much is as much as there is"
    )]
    pub fn floor(&self) -> u64 {
        CLIENT_FLOOR.max(self.peak as u64 / CLIENT_FLOOR_PART)
    }

    /// The most streams that the pool feeds, once that many ran and got too little although clients were
    /// held back; `None` as long as that has not been met.
    #[must_use]
    pub fn streams_max(&self) -> Option<usize> {
        self.streams_max
    }

    fn cut(&mut self, now: &Observation<'_>, seconds: f64, reach: f64, clients: f64) {
        // Of what clients really move: a budget that nobody uses up would be cut in vain.
        let from = self.budget.map_or(clients, |budget| budget.min(clients.max(self.floor() as f64)));
        let missing: f64 = now.streams.iter().map(|stream| missing(stream, seconds, reach) / seconds).sum();
        self.starved_at = Some(from);
        let to = (from - missing).clamp(from * CUT_MOST, from * CUT_LEAST);
        self.budget = Some(to.max(self.floor() as f64));
        self.settling = SETTLE_STEPS;
    }

    fn raise(&mut self) {
        let Some(budget) = self.budget else { return };
        let most = (2.0 * self.peak).max(self.floor() as f64);
        let step = (self.peak / RAISE_PART as f64).max(CLIENT_FLOOR as f64 / 8.0);
        let starved_at = self.starved_at.map(|at| at * NEAR_FORGOTTEN);
        self.starved_at = starved_at;
        let is_near = starved_at.is_some_and(|at| budget + step > at * NEAR);
        let step = if is_near { step / NEAR_SLOWER } else { step };
        self.budget = Some((budget + step).min(most).max(self.floor() as f64));
    }

    /// Whether clients have about the least that they can have, which moves a little from step to step.
    fn is_at_floor(&self) -> bool {
        self.budget.is_some_and(|budget| budget <= self.floor() as f64 * 1.1)
    }

    /// A pool that cannot give the reserved rates at all must not keep clients at their floor for ever, since
    /// that helps nobody: streams are then held to most of what they get at best.
    fn learn(&mut self, now: &Observation<'_>, seconds: f64) {
        if self.reach.is_some() {
            self.reach_age += 1;
            if self.reach_age >= FORGET_STEPS {
                self.reach = None;
            }
        }
        let short = worst(now, seconds, 1.0);
        if !self.is_at_floor() || worst(now, seconds, self.reach.unwrap_or(1.0)) <= SHORT_MAX {
            (self.at_floor, self.got_at_floor) = (0, 0.0);
            return;
        }
        self.at_floor += 1;
        self.got_at_floor += 1.0 - short;
        if self.at_floor >= LEARN_STEPS {
            let got = self.got_at_floor / f64::from(self.at_floor);
            self.reach = Some((got * REACH_KEPT).max(0.01));
            (self.at_floor, self.got_at_floor, self.reach_age) = (0, 0.0, 0);
        }
    }

    fn judge_feeding(&mut self, now: &Observation<'_>, seconds: f64) {
        let limit = UNDERFED_STEPS as i32;
        let at_best = self.reach.map(|reach| reach / REACH_KEPT);
        let underfed = worst(now, seconds, 1.0) > UNDERFED;
        self.underfed_for = match at_best {
            Some(at_best) if at_best < 1.0 - UNDERFED => self.underfed_for.max(0) + 1,
            None if underfed && self.is_at_floor() => self.underfed_for.max(0) + 1,
            None if underfed => self.underfed_for,
            _ => self.underfed_for.min(0) - 1,
        };
        if self.underfed_for >= limit {
            let count = now.streams.len();
            self.streams_max = Some(self.streams_max.map_or(count, |max| max.min(count)));
            self.underfed_for = 0;
        } else if self.underfed_for <= -limit {
            self.underfed_for = -limit;
            // As many as may run are fed: one more may be tried.
            if self.streams_max.is_some_and(|max| now.streams.len() >= max) {
                self.streams_max = self.streams_max.map(|max| max + 1);
                self.underfed_for = 0;
            }
        }
    }
}

/// The bytes that a stream missed of its rate because it waited for the pool.
fn missing(stream: &StreamSample, seconds: f64, reach: f64) -> f64 {
    let rate = stream.rate as f64 * reach;
    let waited = stream.waited.as_secs_f64().min(seconds);
    (rate * seconds - stream.moved as f64).clamp(0.0, rate * waited)
}

/// The share that the worst fed stream missed.
fn worst(now: &Observation<'_>, seconds: f64, reach: f64) -> f64 {
    let share = |stream: &StreamSample| {
        missing(stream, seconds, reach) / (stream.rate as f64 * reach * seconds).max(1.0)
    };
    let worst = now.streams.iter().map(share).fold(0.0, f64::max);
    assert!((0.0..=1.0).contains(&worst), "what a stream lacks is a part of its rate");
    worst
}

#[cfg(test)]
#[path = "pacer_tests.rs"]
mod tests;
