//! Memory for the rows that clients have begun and not yet filled, shared so that nobody can have all of it.
//!
//! A slow client takes minutes to fill a row. What has come of it lies in ordinary memory meanwhile, not in
//! the arena, and counts here from its first byte on. A caller may have as much as stays free, so that
//! whoever comes next finds some, however slowly the others send.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, PoisonError};
use threads::{Condvar, Mutex};

use base::{ByteCount, Fit, is_scarce};

use crate::gather::lock;

/// A counted number of bytes, handed out in order of asking.
pub(crate) struct Gathering {
    total: usize,
    state: Mutex<State>,
    returned: Condvar,
}

#[derive(Default)]
struct State {
    free: usize,
    callers: BTreeMap<Arc<str>, Held>,
    waiting: VecDeque<Waiter>,
    next: u64,
}

#[derive(Clone, Copy, Default)]
struct Held {
    rows: usize,
    bytes: usize,
}

struct Waiter {
    number: u64,
    caller: Arc<str>,
    bytes: usize,
    admitted: bool,
}

/// Memory for one row of somebody's, free again when it is dropped.
pub(crate) struct Portion {
    gathering: Arc<Gathering>,
    caller: Arc<str>,
    bytes: usize,
}

/// Who has the memory for rows of uploads that are not full yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GatheringReport {
    /// All of it.
    pub total: ByteCount,
    /// What nobody has.
    pub free: ByteCount,
    /// Whether so little is free that who holds much of it has to make haste.
    pub is_scarce: bool,
    /// Uploads that wait for some.
    pub waiting: usize,
    /// The caller with most of it, whose name may be empty, and how much.
    pub most: Option<(String, ByteCount)>,
}

impl Gathering {
    pub(crate) fn new(total: usize) -> Arc<Self> {
        let state = State { free: total, ..State::default() };
        Arc::new(Gathering { total, state: Mutex::new(state), returned: Condvar::new() })
    }

    /// Waits for memory for so many bytes of a row. To be called with no row in hand: whoever has one does
    /// not wait for another, so that each is filled some time.
    pub(crate) fn take(self: &Arc<Self>, caller: &Arc<str>, bytes: usize) -> Portion {
        let bytes = bytes.min(self.total);
        let mut state = lock(&self.state);
        let number = state.next;
        state.next += 1;
        let caller = Arc::clone(caller);
        state.waiting.push_back(Waiter { number, caller: Arc::clone(&caller), bytes, admitted: false });
        self.admit(&mut state);
        loop {
            let at = state.waiting.iter().position(|waiter| waiter.number == number);
            let Some(at) = at else { unreachable!("whoever waits stands in the queue until they go on") };
            if state.waiting[at].admitted {
                state.waiting.remove(at);
                return Portion { gathering: Arc::clone(self), caller, bytes };
            }
            state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Admits everybody who can have what they ask for, in order.
    fn admit(&self, state: &mut State) {
        let State { free, callers, waiting, .. } = state;
        let mut woken = false;
        for waiter in waiting.iter_mut().filter(|waiter| !waiter.admitted) {
            let held = callers.get(&waiter.caller).copied().unwrap_or_default();
            match Fit::of(waiter.bytes, *free, [held.bytes]) {
                Fit::Share => continue,
                Fit::Full => break,
                Fit::Yes => {}
            }
            (waiter.admitted, woken) = (true, true);
            assert!(waiter.bytes <= *free, "no more memory is handed out than there is");
            *free -= waiter.bytes;
            let Held { rows, bytes } = held;
            callers.insert(Arc::clone(&waiter.caller), Held { rows: rows + 1, bytes: bytes + waiter.bytes });
        }
        debug_assert_eq!(
            *free + callers.values().map(|held| held.bytes).sum::<usize>(),
            self.total,
            "memory is free, or held by a caller"
        );
        if woken {
            self.returned.notify_all();
        }
    }

    fn give_back(&self, portion: &Portion) {
        let mut state = lock(&self.state);
        let held = state.callers.get(&portion.caller).copied().unwrap_or_default();
        assert!(held.rows > 0 && held.bytes >= portion.bytes, "memory for a row comes back once");
        state.free += portion.bytes;
        assert!(state.free <= self.total, "no more comes back than was handed out");
        let held = Held { rows: held.rows - 1, bytes: held.bytes - portion.bytes };
        if held.rows == 0 {
            state.callers.remove(&portion.caller);
        } else {
            state.callers.insert(Arc::clone(&portion.caller), held);
        }
        self.admit(&mut state);
    }

    /// How many times the lowest rate of a client is due of this caller's: as many times as it has rows if
    /// memory for them is scarce, else once.
    pub(crate) fn haste(&self, caller: &str) -> u64 {
        let state = lock(&self.state);
        let rows = state.callers.get(caller).map_or(1, |held| held.rows);
        if is_scarce(state.free, self.total) { rows as u64 } else { 1 }
    }

    pub(crate) fn report(&self) -> GatheringReport {
        let state = lock(&self.state);
        let most = state.callers.iter().max_by_key(|(_, held)| held.bytes);
        GatheringReport {
            total: ByteCount(self.total as u64),
            free: ByteCount(state.free as u64),
            is_scarce: is_scarce(state.free, self.total),
            waiting: state.waiting.iter().filter(|waiter| !waiter.admitted).count(),
            most: most.map(|(caller, held)| (caller.to_string(), ByteCount(held.bytes as u64))),
        }
    }
}

impl Portion {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Portion {
    fn drop(&mut self) {
        self.gathering.give_back(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: usize = 4 << 20;

    fn waits(gathering: &Arc<Gathering>, number: usize) {
        while gathering.report().waiting < number {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_caller_gets_as_much_as_stays_free_and_waits_for_itself() {
        let gathering = Gathering::new(8 * ROW);
        let (anna, bert): (Arc<str>, Arc<str>) = ("anna".into(), "bert".into());
        let mut held: Vec<Portion> = (0..4).map(|_| gathering.take(&anna, ROW)).collect();
        let fifth = threads::spawn({
            let (gathering, anna) = (Arc::clone(&gathering), Arc::clone(&anna));
            move || drop(gathering.take(&anna, ROW))
        });
        waits(&gathering, 1);
        let report = gathering.report();
        assert_eq!(report.most, Some(("anna".to_owned(), ByteCount(4 * ROW as u64))));
        assert_eq!((report.free, report.is_scarce), (ByteCount(4 * ROW as u64), false));
        // Who waits for their own share is passed.
        let others: Vec<Portion> = (0..2).map(|_| gathering.take(&bert, ROW)).collect();
        let third = gathering.take(&Arc::from("carl"), ROW);
        assert!(gathering.report().is_scarce);
        assert_eq!([gathering.haste("anna"), gathering.haste("bert"), gathering.haste("carl")], [4, 2, 1]);
        drop(others);
        assert_eq!(gathering.haste("anna"), 1);
        held.truncate(3);
        fifth.join().unwrap();
        drop((held, third));
        let report = gathering.report();
        assert_eq!((report.free, report.waiting, report.most), (report.total, 0, None));
    }

    #[test]
    fn a_large_row_is_not_starved_by_small_ones() {
        let gathering = Gathering::new(8 * ROW);
        let small: Vec<Portion> = (0..4).map(|n| gathering.take(&format!("c{n}").into(), ROW)).collect();
        let large = threads::spawn({
            let gathering = Arc::clone(&gathering);
            move || gathering.take(&"large".into(), 6 * ROW).bytes()
        });
        waits(&gathering, 1);
        let late = threads::spawn({
            let gathering = Arc::clone(&gathering);
            move || gathering.take(&"late".into(), ROW).bytes()
        });
        waits(&gathering, 2);
        drop(small);
        assert_eq!((large.join().unwrap(), late.join().unwrap()), (6 * ROW, ROW));
        assert_eq!(gathering.take(&"all".into(), 100 * ROW).bytes(), 8 * ROW, "more than there is is all");
    }
}
