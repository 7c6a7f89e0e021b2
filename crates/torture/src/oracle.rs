//! What reads may give: the history of one path, with writes that nobody knows to have happened.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::content::Version;

/// A change of one path, from the moment at which it was sent.
#[derive(Clone, Debug)]
struct Write {
    number: u64,
    begin: u64,
    /// After this nothing of it happens any more; `None` while it may.
    end: Option<u64>,
    /// It was acknowledged, or its effect was seen.
    certain: bool,
    value: Option<Version>,
}

/// All changes of a path that a read may still show.
#[derive(Clone, Debug)]
struct History {
    writes: Vec<Write>,
}

/// Changes kept for one path before those that no read can show are dropped.
const WRITES_KEPT: usize = 32;

impl History {
    fn new() -> Self {
        let nothing = Write { number: 0, begin: 0, end: Some(0), certain: true, value: None };
        History { writes: vec![nothing] }
    }

    /// Whether `write` was over, and another one certainly followed, before `begin`.
    fn is_past(&self, write: &Write, begin: u64) -> bool {
        let Some(ended) = write.end else { return false };
        let follows =
            |other: &Write| other.certain && other.begin > ended && other.end.is_some_and(|end| end < begin);
        self.writes.iter().any(follows)
    }

    fn allowed(&self, begin: u64, end: u64) -> Vec<&Write> {
        self.writes.iter().filter(|w| w.begin < end && !self.is_past(w, begin)).collect()
    }

    /// Takes note of what was seen: it happened, and what was over before and is not it did not. A rename
    /// brings a version to where it was before, so the change that is seen is one that a read may show now.
    fn learn(&mut self, seen: Option<Version>, begin: u64, end: u64) {
        if seen.is_none() {
            return;
        }
        let shown: Vec<(u64, Option<u64>)> = self
            .allowed(begin, end)
            .into_iter()
            .filter(|write| write.value == seen)
            .map(|write| (write.number, write.end))
            .collect();
        if let [(number, _)] = shown.as_slice() {
            self.writes.iter_mut().filter(|w| w.number == *number).for_each(|w| w.certain = true);
        }
        if let Some((_, Some(shown))) = shown.last() {
            self.writes.retain(|w| w.certain || w.begin < *shown || w.end.is_none_or(|end| end >= begin));
        }
    }

    fn prune(&mut self, oldest_read: u64) {
        if self.writes.len() > WRITES_KEPT {
            let past: Vec<u64> =
                self.writes.iter().filter(|w| self.is_past(w, oldest_read)).map(|w| w.number).collect();
            self.writes.retain(|w| past.binary_search(&w.number).is_err());
        }
    }
}

/// A read or write under way.
#[derive(Clone, Copy, Debug)]
pub struct Ticket(u64);

impl Ticket {
    /// Its number, which no other has.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }
}

/// What was wrong with a read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// A read may show this.
    Good,
    /// There must be a file, and there was none.
    Lost(String),
    /// There was something else than what must be there.
    Wrong(String),
}

#[derive(Default)]
struct Inner {
    paths: BTreeMap<String, History>,
    /// Reads under way, by their beginning.
    reads: BTreeMap<u64, ()>,
}

/// The histories of all paths, shared by all clients.
#[derive(Default)]
pub struct Oracle {
    clock: AtomicU64,
    inner: Mutex<Inner>,
}

impl Oracle {
    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A change of `path` is about to be sent.
    pub fn begin_write(&self, path: &str, value: Option<Version>) -> Ticket {
        let mut inner = self.inner();
        let number = self.tick();
        let history = inner.paths.entry(path.to_owned()).or_insert_with(History::new);
        history.writes.push(Write { number, begin: number, end: None, certain: false, value });
        Ticket(number)
    }

    /// It was acknowledged.
    pub fn acknowledged(&self, path: &str, ticket: Ticket) {
        let mut inner = self.inner();
        let now = self.tick();
        let oldest = inner.reads.keys().next().copied().unwrap_or(now);
        let Some(history) = inner.paths.get_mut(path) else { return };
        for write in history.writes.iter_mut().filter(|write| write.number == ticket.0) {
            (write.end, write.certain) = (Some(now), true);
        }
        history.prune(oldest);
    }

    /// It was refused for certain.
    pub fn refused(&self, path: &str, ticket: Ticket) {
        if let Some(history) = self.inner().paths.get_mut(path) {
            history.writes.retain(|write| write.number != ticket.0);
        }
    }

    /// The server is dead: what was in doubt until now happens now or never. Writes that will be sent again
    /// are in `again`.
    pub fn settle(&self, again: &[Ticket]) {
        let mut inner = self.inner();
        let now = self.tick();
        for write in inner.paths.values_mut().flat_map(|history| &mut history.writes) {
            if write.end.is_none() && !again.iter().any(|ticket| ticket.0 == write.number) {
                write.end = Some(now);
            }
        }
    }

    /// A read is about to be sent.
    pub fn begin_read(&self) -> Ticket {
        let mut inner = self.inner();
        let now = self.tick();
        inner.reads.insert(now, ());
        Ticket(now)
    }

    /// The read gave nothing of use.
    pub fn end_read(&self, ticket: Ticket) {
        self.inner().reads.remove(&ticket.0);
    }

    /// The read gave `seen`; may it?
    pub fn check(&self, path: &str, ticket: Ticket, seen: Option<Version>) -> Verdict {
        let mut inner = self.inner();
        let now = self.tick();
        inner.reads.remove(&ticket.0);
        let history = inner.paths.entry(path.to_owned()).or_insert_with(History::new);
        let allowed = history.allowed(ticket.0, now);
        if allowed.iter().any(|write| write.value == seen) {
            history.learn(seen, ticket.0, now);
            return Verdict::Good;
        }
        let text =
            format!("{path}: read {seen:?} at {}..{now}, the history is {:?}", ticket.0, history.writes);
        if seen.is_none() { Verdict::Lost(text) } else { Verdict::Wrong(text) }
    }

    /// Whether a listing may show `path` with this length, or not at all.
    pub fn check_length(&self, path: &str, ticket: Ticket, length: Option<u64>) -> Verdict {
        let inner = self.inner();
        let now = self.tick();
        let Some(history) = inner.paths.get(path) else { return Verdict::Good };
        let allowed = history.allowed(ticket.0, now);
        if allowed.iter().any(|write| write.value.map(|version| version.length) == length) {
            return Verdict::Good;
        }
        let text =
            format!("{path}: listed {length:?} at {}..{now}, the history is {:?}", ticket.0, history.writes);
        if length.is_none() { Verdict::Lost(text) } else { Verdict::Wrong(text) }
    }

    /// What `path` may hold now.
    pub fn candidates(&self, path: &str) -> Vec<Option<Version>> {
        let inner = self.inner();
        let now = self.tick();
        let Some(history) = inner.paths.get(path) else { return vec![None] };
        let mut values: Vec<_> = history.allowed(now, now).iter().map(|write| write.value).collect();
        values.sort_unstable();
        values.dedup();
        values
    }

    /// All paths that were ever written.
    pub fn paths(&self) -> Vec<String> {
        self.inner().paths.keys().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Option<Version> = Some(Version { id: 1, length: 9 });
    const TWO: Option<Version> = Some(Version { id: 2, length: 9 });

    fn read(oracle: &Oracle, seen: Option<Version>) -> bool {
        let ticket = oracle.begin_read();
        oracle.check("/a", ticket, seen) == Verdict::Good
    }

    #[test]
    fn acknowledged_writes_stay() {
        let oracle = Oracle::default();
        assert!(read(&oracle, None));
        let write = oracle.begin_write("/a", ONE);
        assert!(read(&oracle, None) && read(&oracle, ONE));
        oracle.acknowledged("/a", write);
        assert!(read(&oracle, ONE));
        assert!(!read(&oracle, None), "lost");
        assert!(!read(&oracle, TWO), "foreign");
        let write = oracle.begin_write("/a", TWO);
        oracle.acknowledged("/a", write);
        assert!(!read(&oracle, ONE), "an old version");
    }

    #[test]
    fn doubt_ends_with_the_first_look() {
        let oracle = Oracle::default();
        let write = oracle.begin_write("/a", ONE);
        oracle.acknowledged("/a", write);
        oracle.begin_write("/a", TWO);
        oracle.settle(&[]);
        assert_eq!(oracle.candidates("/a"), [ONE, TWO]);
        assert!(read(&oracle, ONE));
        assert!(!read(&oracle, TWO), "what did not happen does not happen later");
        oracle.begin_write("/a", TWO);
        oracle.settle(&[]);
        assert!(read(&oracle, TWO));
        assert!(!read(&oracle, ONE), "what happened is not undone");
    }

    /// Story: a rename in doubt brought a version to where it had been once. The look that saw it took it for
    /// the old change, the rename for one that did not happen, and the next look for a wrong one.
    #[test]
    fn a_version_that_came_back_is_the_new_change() {
        let oracle = Oracle::default();
        for value in [ONE, None, TWO] {
            let write = oracle.begin_write("/a", value);
            oracle.acknowledged("/a", write);
        }
        oracle.begin_write("/a", ONE);
        oracle.settle(&[]);
        assert_eq!(oracle.candidates("/a"), [ONE, TWO]);
        assert!(read(&oracle, ONE));
        assert!(read(&oracle, ONE), "it is still there");
        assert!(!read(&oracle, TWO), "what happened is not undone");
        // Not seen, it did not happen.
        let write = oracle.begin_write("/a", TWO);
        oracle.acknowledged("/a", write);
        oracle.begin_write("/a", ONE);
        oracle.settle(&[]);
        assert!(read(&oracle, TWO));
        assert!(!read(&oracle, ONE));
    }
}
