//! Places for work that runs at once, shared so that nobody can take all of them.
//!
//! A caller, and a connection, may hold as many places as stay free: of 96 a single caller gets 48, two get
//! 32 each, three 24. Whoever comes next therefore finds places, however many the others would take, and
//! however slowly they are with them. What a caller has above its share waits.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use base::{Fit, is_scarce};
use threads::{Mutex, MutexGuard};

/// Who wants a place.
#[derive(Clone, Default)]
pub struct Holder {
    /// The name of the caller.
    pub caller: String,
    /// The address of the client, which stands for its connection.
    pub connection: Option<SocketAddr>,
    /// How fast the client of this request has to be.
    pub pace: Pace,
}

impl Holder {
    /// The same for what is no transfer: how fast the client has to be goes by transfers alone.
    #[must_use]
    pub fn unpaced(&self) -> Holder {
        Holder { pace: Pace::default(), ..self.clone() }
    }
}

/// How fast the client of a request has to send and take bytes: once a request has a place, it depends on how
/// many its caller holds. The listener puts one into the extensions of each request.
#[derive(Clone, Default)]
pub struct Pace(Arc<Mutex<Option<Bound>>>);

/// The places that a request has one of, and whose it is.
type Bound = (Weak<Inner>, String);

impl Pace {
    /// How many times the lowest rate is to be kept now: as many times as its caller holds places if places
    /// are scarce, else once; or as [`Places::with_haste`] says, if that is more. So a caller needs the
    /// square of the rate for many slow transfers, and gives places back if others come.
    #[must_use]
    pub fn factor(&self) -> u64 {
        let bound = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some((inner, caller)) = bound else { return 1 };
        inner.upgrade().map_or(1, |inner| {
            let state = inner.state();
            let is_scarce = inner.is_scarce(&state);
            let held = state.callers.get(&caller).copied().unwrap_or(1);
            drop(state);
            let held = if is_scarce { held as u64 } else { 1 };
            held.max(inner.haste.as_ref().map_or(1, |haste| haste(&caller))).max(1)
        })
    }

    fn bind(&self, to: Option<Bound>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = to;
    }
}

/// A number of places. Clones are the same places.
#[derive(Clone)]
pub struct Places(Arc<Inner>);

/// How many times the lowest rate is due of a caller for what else its transfers hold, beside places.
type Haste = dyn Fn(&str) -> u64 + Send + Sync;

struct Inner {
    total: usize,
    haste: Option<Box<Haste>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    free: usize,
    callers: BTreeMap<String, usize>,
    connections: BTreeMap<SocketAddr, usize>,
    /// In the order in which they came; at most one for each request that is open.
    waiting: VecDeque<Waiter>,
    next: u64,
}

struct Waiter {
    number: u64,
    caller: String,
    connection: Option<SocketAddr>,
    count: usize,
    admitted: bool,
    waker: Waker,
}

impl Inner {
    fn is_scarce(&self, state: &State) -> bool {
        is_scarce(state.free, self.total)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn fit(&self, waiter: &Waiter) -> Fit {
        let caller = self.callers.get(&waiter.caller);
        let connection = waiter.connection.and_then(|connection| self.connections.get(&connection));
        Fit::of(waiter.count, self.free, [caller, connection].map(|held| held.copied().unwrap_or(0)))
    }

    /// Admits everybody who can have a place, in order. Who waits for their own share holds up nobody; who
    /// waits for so many to be free holds up all behind, or would wait for ever.
    fn admit(&mut self) {
        for at in 0..self.waiting.len() {
            let Some(waiter) = self.waiting.get(at) else { return };
            if waiter.admitted {
                continue;
            }
            match self.fit(waiter) {
                Fit::Share => continue,
                Fit::Full => return,
                Fit::Yes => {}
            }
            let Some(waiter) = self.waiting.get_mut(at) else { return };
            waiter.admitted = true;
            waiter.waker.wake_by_ref();
            self.free -= waiter.count;
            *self.callers.entry(waiter.caller.clone()).or_default() += waiter.count;
            if let Some(connection) = waiter.connection {
                *self.connections.entry(connection).or_default() += waiter.count;
            }
        }
    }

    fn give_back(&mut self, caller: &str, connection: Option<SocketAddr>, count: usize) {
        self.free += count;
        if let Some(held) = self.callers.get_mut(caller) {
            *held = held.saturating_sub(count);
            if *held == 0 {
                self.callers.remove(caller);
            }
        }
        if let Some(connection) = connection
            && let Some(held) = self.connections.get_mut(&connection)
        {
            *held = held.saturating_sub(count);
            if *held == 0 {
                self.connections.remove(&connection);
            }
        }
        self.admit();
    }
}

impl Places {
    /// So many places, at least one.
    #[must_use]
    pub fn new(total: usize) -> Self {
        Places::of(total, None)
    }

    /// So many places for transfers, which hold more than places: `haste` says how many times the lowest rate
    /// is due for that of a caller.
    #[must_use]
    pub fn with_haste(total: usize, haste: impl Fn(&str) -> u64 + Send + Sync + 'static) -> Self {
        Places::of(total, Some(Box::new(haste)))
    }

    fn of(total: usize, haste: Option<Box<Haste>>) -> Self {
        let total = total.max(1);
        let state = Mutex::new(State { free: total, ..State::default() });
        Places(Arc::new(Inner { total, haste, state }))
    }

    /// A place, once there is one for this holder. Whoever waits has to say for how long.
    #[must_use]
    pub fn admit(&self, holder: &Holder) -> Admission {
        self.admit_many(holder, 1)
    }

    /// So many places at once; more than there are count as all.
    #[must_use]
    pub fn admit_many(&self, holder: &Holder, count: usize) -> Admission {
        let count = count.min(self.0.total);
        Admission { inner: self.0.clone(), holder: holder.clone(), count, number: None }
    }

    /// Requests that wait for a place.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.0.state().waiting.iter().filter(|waiter| !waiter.admitted).count()
    }

    /// Who keeps others waiting, in words for operators; `None` while places are not scarce and nobody waits.
    #[must_use]
    pub fn shortage(&self, of: &str) -> Option<String> {
        let state = self.0.state();
        let waiting = state.waiting.iter().filter(|waiter| !waiter.admitted).count();
        if !self.0.is_scarce(&state) && waiting == 0 {
            return None;
        }
        let most = state.callers.iter().max_by_key(|(_, held)| **held);
        let most = most.map_or_else(String::new, |(caller, held)| {
            let caller = if caller.is_empty() { "callers without a name" } else { caller };
            format!(", {held} are held by {caller}")
        });
        let (free, total) = (state.free, self.0.total);
        Some(format!("{free} of {total} places for {of} are free{most}; {waiting} requests wait for one"))
    }

    /// Places that are free.
    #[must_use]
    pub fn free(&self) -> usize {
        self.0.state().free
    }
}

/// A place to come; whoever drops it waits no more.
pub struct Admission {
    inner: Arc<Inner>,
    holder: Holder,
    count: usize,
    /// Its number in the queue, while it waits.
    number: Option<u64>,
}

/// Some places; they are free again when it is dropped.
#[must_use]
pub struct Place {
    inner: Arc<Inner>,
    holder: Holder,
    count: usize,
}

impl Future for Admission {
    type Output = Place;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Place> {
        let inner = self.inner.clone();
        let mut state = inner.state();
        let number = match self.number {
            Some(number) => number,
            None => {
                let number = state.next;
                state.next += 1;
                let Holder { caller, connection, .. } = self.holder.clone();
                let (count, waker) = (self.count, cx.waker().clone());
                state.waiting.push_back(Waiter { number, caller, connection, count, admitted: false, waker });
                self.number = Some(number);
                state.admit();
                number
            }
        };
        let Some(at) = state.waiting.iter().position(|waiter| waiter.number == number) else {
            unreachable!("whoever waits stands in the queue until they are polled or dropped");
        };
        let Some(waiter) = state.waiting.get_mut(at) else { return Poll::Pending };
        if !waiter.admitted {
            waiter.waker.clone_from(cx.waker());
            return Poll::Pending;
        }
        state.waiting.remove(at);
        drop(state);
        self.number = None;
        let (holder, count) = (self.holder.clone(), self.count);
        holder.pace.bind(Some((Arc::downgrade(&inner), holder.caller.clone())));
        Poll::Ready(Place { inner, holder, count })
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let mut state = self.inner.state();
        let at = state.waiting.iter().position(|waiter| waiter.number == number);
        let Some(waiter) = at.and_then(|at| state.waiting.remove(at)) else { return };
        if waiter.admitted {
            state.give_back(&waiter.caller, waiter.connection, waiter.count);
        } else {
            state.admit();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.holder.pace.bind(None);
        self.inner.state().give_back(&self.holder.caller, self.holder.connection, self.count);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn holder(caller: &str, port: u16) -> Holder {
        let connection = Some(SocketAddr::from(([127, 0, 0, 1], port)));
        Holder { caller: caller.to_owned(), connection, pace: Pace::default() }
    }

    fn poll(admission: &mut Admission) -> Option<Place> {
        match Pin::new(admission).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(place) => Some(place),
            Poll::Pending => None,
        }
    }

    /// All places that this holder gets, and what waits.
    fn take_all(places: &Places, holder: &Holder) -> (Vec<Place>, Vec<Admission>) {
        let (mut got, mut waiting) = (Vec::new(), Vec::new());
        for _ in 0..places.0.total + 10 {
            let mut admission = places.admit(holder);
            match poll(&mut admission) {
                Some(place) => got.push(place),
                None => waiting.push(admission),
            }
        }
        (got, waiting)
    }

    #[test]
    fn nobody_takes_all_places() {
        let places = Places::new(96);
        let (anna, waits) = take_all(&places, &holder("anna", 1));
        assert_eq!(anna.len(), 48);
        let (bert, wait) = take_all(&places, &holder("bert", 2));
        assert_eq!(bert.len(), 24, "with what is left");
        let many: Vec<_> = (0..20).map(|n| take_all(&places, &holder(&format!("c{n}"), 100 + n))).collect();
        assert!(many.iter().take(5).all(|(got, _)| !got.is_empty()));
        drop((anna, bert, many, wait));
        assert_eq!(places.free(), 48, "of anna's requests that wait so many are admitted again");
        drop(waits);
        assert_eq!(places.free(), 96);
    }

    #[test]
    fn who_keeps_others_waiting_is_told() {
        let places = Places::new(8);
        assert_eq!(places.shortage("transfers"), None);
        let anna = holder("anna", 1);
        let (_got, waits) = take_all(&places, &anna);
        assert_eq!(places.waiting(), waits.len());
        let told = places.shortage("transfers").expect("anna's own wait");
        let words = "4 of 8 places for transfers are free, 4 are held by anna; 14 requests wait for one";
        assert_eq!(told, words);
        drop(waits);
        assert_eq!((places.shortage("transfers"), places.waiting()), (None, 0));
        let _others: Vec<_> =
            (0..3).map(|n| poll(&mut places.admit(&holder(&format!("c{n}"), 2 + n))).unwrap()).collect();
        assert!(places.shortage("transfers").unwrap().starts_with("1 of 8 places"), "scarce");
    }

    #[test]
    fn a_connection_has_a_share_too_whoever_comes_over_it() {
        let places = Places::new(96);
        let got: Vec<_> =
            (0..96).filter_map(|n| poll(&mut places.admit(&holder(&format!("c{n}"), 7)))).collect();
        assert_eq!(got.len(), 48);
        assert!(poll(&mut places.admit(&holder("c1", 8))).is_some());
    }

    #[test]
    fn who_waits_is_admitted_in_order_and_leaves_nothing_behind() {
        let places = Places::new(2);
        let (anna, bert) = (holder("anna", 1), holder("bert", 2));
        let first = poll(&mut places.admit(&anna)).unwrap();
        let mut second = places.admit(&anna);
        assert!(poll(&mut second).is_none(), "its share");
        let other = poll(&mut places.admit(&bert)).expect("bert is not held up by anna's second");
        let mut late = places.admit(&bert);
        assert!(poll(&mut late).is_none());
        drop(first);
        let second = poll(&mut second).expect("anna's turn");
        drop((other, late));
        drop(second);
        let state = places.0.state();
        assert_eq!((state.free, state.waiting.len()), (2, 0));
        assert!(state.callers.is_empty() && state.connections.is_empty());
    }

    #[test]
    fn an_admission_that_nobody_takes_is_given_back() {
        let places = Places::new(1);
        let place = poll(&mut places.admit(&holder("anna", 1)));
        let mut gone = places.admit(&holder("bert", 2));
        assert!(poll(&mut gone).is_none());
        drop(place);
        assert_eq!(places.free(), 0, "it is bert's");
        drop(gone);
        assert_eq!(places.free(), 1);
    }

    #[test]
    fn large_recalls_are_not_starved_by_small_ones() {
        let places = Places::new(8);
        let small: Vec<_> =
            (0..4).map(|n| poll(&mut places.admit(&holder(&format!("c{n}"), n))).unwrap()).collect();
        let mut large = places.admit_many(&holder("large", 10), 100);
        assert!(poll(&mut large).is_none());
        assert!(poll(&mut places.admit(&holder("late", 11))).is_none(), "it would pass the large one");
        drop(small);
        let large = poll(&mut large).expect("all are free");
        assert_eq!(places.free(), 0);
        drop(large);
    }

    #[test]
    fn a_caller_with_many_places_has_to_be_faster_only_if_they_are_scarce() {
        let places = Places::new(16);
        let anna = holder("anna", 1);
        let (got, _waiting) = take_all(&places, &anna);
        assert_eq!((got.len(), anna.pace.factor()), (8, 1));
        let others: Vec<_> = (0..5)
            .map(|n| {
                let other = holder(&format!("c{n}"), 2 + n);
                let place = poll(&mut places.admit(&other)).unwrap();
                (place, other)
            })
            .collect();
        assert_eq!(places.free(), 3);
        assert_eq!(others[0].1.pace.factor(), 1, "who has one place keeps the usual rate");
        assert_eq!(anna.pace.factor(), 8);
        drop(others);
        assert_eq!(anna.pace.factor(), 1);
        assert_eq!(Pace::default().factor(), 1);
    }

    #[test]
    fn a_caller_has_to_be_faster_for_what_else_its_transfers_hold() {
        let places = Places::with_haste(96, |caller| if caller == "anna" { 7 } else { 1 });
        let (anna, bert) = (holder("anna", 1), holder("bert", 2));
        let _held = [&anna, &bert].map(|holder| poll(&mut places.admit(holder)).unwrap());
        assert_eq!((anna.pace.factor(), bert.pace.factor()), (7, 1));
    }
}
