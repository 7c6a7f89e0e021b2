//! What is under way at a drive in one direction: no more at one time than its queue takes.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use threads::{Condvar, Mutex};

use base::Timestamp;

use crate::gather::lock;
use crate::watch::{WITHOUT_CLOCK, Watch};

/// The drive has it, and does not begin it before something else has ended.
const IN_LINE: i64 = -1;

/// The places of what is under way.
pub(crate) struct Lane {
    /// Since when what has each place runs, in nanoseconds; 0: it is free; [`IN_LINE`].
    since: Vec<AtomicI64>,
    free: Mutex<Vec<usize>>,
    freed: Condvar,
    /// How much of it is of the upkeep.
    upkeep: AtomicUsize,
}

/// Something under way, until it is dropped.
pub(crate) struct Flight {
    lane: Arc<Lane>,
    place: usize,
    is_upkeep: bool,
}

impl Lane {
    pub(crate) fn new(depth: usize) -> Arc<Self> {
        assert!(depth > 0, "a drive does one thing at a time at least");
        let since = (0..depth).map(|_| AtomicI64::new(0)).collect();
        let free = Mutex::new((0..depth).rev().collect());
        Arc::new(Lane { since, free, freed: Condvar::new(), upkeep: AtomicUsize::new(0) })
    }

    /// Waits for a place, and takes it from this moment on.
    pub(crate) fn enter(self: &Arc<Self>, watch: &Watch) -> Flight {
        let mut free = lock(&self.free);
        let place = loop {
            match free.pop() {
                Some(place) => break place,
                None => free = self.freed.wait(free).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(free);
        let before = self.since[place].swap(watch.moment(), Ordering::Relaxed);
        assert_eq!(before, 0, "a place is had by one at a time");
        Flight { lane: Arc::clone(self), place, is_upkeep: false }
    }

    /// Waits until nothing is under way.
    pub(crate) fn wait_idle(&self) {
        let mut free = lock(&self.free);
        while free.len() < self.since.len() {
            free = self.freed.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// How much is under way that is not of the upkeep.
    pub(crate) fn others_under_way(&self) -> usize {
        self.under_way().saturating_sub(self.upkeep.load(Ordering::Relaxed))
    }

    /// How much is under way.
    pub(crate) fn under_way(&self) -> usize {
        self.since.len() - lock(&self.free).len()
    }

    /// Since when the oldest of what is under way runs. What began before the pool had a clock began when it
    /// is first asked about: the steady clock counts from the start of the machine.
    pub(crate) fn oldest(&self, watch: &Watch) -> Option<Timestamp> {
        let begun = |since: &AtomicI64| {
            let known = since.load(Ordering::Relaxed);
            if known != WITHOUT_CLOCK {
                return known;
            }
            let (now, set, get) = (watch.moment(), Ordering::Relaxed, Ordering::Relaxed);
            since.compare_exchange(WITHOUT_CLOCK, now, set, get).map_or_else(|is| is, |_| now)
        };
        self.since.iter().map(begun).filter(|since| *since > 0).min().map(Timestamp)
    }

    /// What is under way has shown that the drive answers: it counts as begun now.
    pub(crate) fn begin_anew(&self, watch: &Watch) {
        self.renew(watch, |_| true);
    }

    /// The time that counts has gone back a little: what began meanwhile begins now.
    pub(crate) fn forget_future(&self, watch: &Watch, now: Timestamp) {
        self.renew(watch, |since| since > now.0);
    }

    /// What is over meanwhile has set its place to 0, which stays.
    fn renew(&self, watch: &Watch, which: impl Fn(i64) -> bool) {
        for since in &self.since {
            let renewed = |since: i64| (since > 0 && which(since)).then_some(watch.moment());
            let _ = since.fetch_update(Ordering::Relaxed, Ordering::Relaxed, renewed);
        }
    }
}

impl Flight {
    /// Says whether it is of the upkeep.
    pub(crate) fn of_upkeep(mut self, is_upkeep: bool) -> Self {
        assert!(!self.is_upkeep, "it is said once");
        self.is_upkeep = is_upkeep;
        self.lane.upkeep.fetch_add(usize::from(is_upkeep), Ordering::Relaxed);
        self
    }

    /// Since when it runs; `None` if that is not known.
    pub(crate) fn since(&self) -> Option<Timestamp> {
        let since = self.lane.since[self.place].load(Ordering::Relaxed);
        (since > WITHOUT_CLOCK).then_some(Timestamp(since))
    }
}

/// What a drive has of one extent. It does one step after the other, and only the first of them counts as
/// begun: else one behind others, all of which end in time, would seem to hang.
#[derive(Default)]
pub(crate) struct Line(Mutex<VecDeque<(Arc<Lane>, usize)>>);

/// A step in a line, until it is dropped: then the next one begins.
pub(crate) struct InLine {
    line: Arc<Line>,
    watch: Arc<Watch>,
    // Its place is free when the next has begun.
    flight: Flight,
}

impl Flight {
    fn is_at(&self, (lane, place): &(Arc<Lane>, usize)) -> bool {
        Arc::ptr_eq(lane, &self.lane) && *place == self.place
    }
}

impl Line {
    /// Behind all that are in it.
    pub(crate) fn join(self: &Arc<Self>, flight: Flight, watch: &Arc<Watch>) -> InLine {
        let mut line = lock(&self.0);
        assert!(!line.iter().any(|other| flight.is_at(other)), "a place that is free is in no line");
        if !line.is_empty() {
            flight.lane.since[flight.place].store(IN_LINE, Ordering::Relaxed);
        }
        line.push_back((Arc::clone(&flight.lane), flight.place));
        drop(line);
        InLine { line: Arc::clone(self), watch: Arc::clone(watch), flight }
    }
}

impl InLine {
    pub(crate) fn flight(&self) -> &Flight {
        &self.flight
    }
}

impl Drop for InLine {
    fn drop(&mut self) {
        let mut line = lock(&self.line.0);
        line.retain(|other| !self.flight.is_at(other));
        if let Some((lane, place)) = line.front() {
            let (now, set, get) = (self.watch.moment(), Ordering::Relaxed, Ordering::Relaxed);
            // One that was dropped out of turn leaves the first as it is.
            let _ = lane.since[*place].compare_exchange(IN_LINE, now, set, get);
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.lane.upkeep.fetch_sub(usize::from(self.is_upkeep), Ordering::Relaxed);
        self.lane.since[self.place].store(0, Ordering::Relaxed);
        lock(&self.lane.free).push(self.place);
        self.lane.freed.notify_all();
    }
}
