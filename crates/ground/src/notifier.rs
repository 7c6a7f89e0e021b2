//! What the engine's threads tell the conductor: a bounded queue of events, and a flag for
//! everything that is a level.

use std::collections::{BTreeMap, VecDeque};
use std::sync::PoisonError;
use std::time::Duration;
use threads::{Condvar, Mutex};

use base::{ClassId, FileId, Timestamp, Vid};
use scheduler::Event;

/// Events that may wait; who posts more waits.
const EVENTS_MAX: usize = 100_000;

/// What is told.
#[derive(Debug)]
pub enum Notice {
    /// Something happened.
    Event(Event),
    /// Something about who wants this file changed. Whether it is wanted, and from which tapes, is read from
    /// the catalogue when the notice is heard: late and double notices do no harm.
    Wants(FileId),
    /// Files of a class wait to be sealed once more, the oldest since then.
    WaitsSince(ClassId, Timestamp),
}

#[derive(Debug, Default)]
struct State {
    events: VecDeque<Notice>,
    /// The last word on each tape while there was no room for more events.
    maintain: BTreeMap<Vid, bool>,
    backlog: bool,
    stop: bool,
}

/// What was heard.
#[derive(Debug, Default)]
pub struct Heard {
    /// What was told, in its order.
    pub notices: Vec<Notice>,
    /// A backlog in the catalogue changed.
    pub backlog: bool,
    /// The server is to stop.
    pub stop: bool,
}

/// Wakes the conductor, and keeps what it is told until it listens.
#[derive(Debug, Default)]
pub struct Notifier {
    state: Mutex<State>,
    rung: Condvar,
    room: Condvar,
}

impl Notifier {
    /// Tells an event; waits while too many are waiting.
    pub fn post(&self, event: Event) {
        self.push(Notice::Event(event));
    }

    /// Says whether anything is to be done on a tape. It never waits, so that whoever holds a lock may call
    /// it, the conductor too: while too many events wait, the last word on each tape is kept and comes behind
    /// them.
    pub fn maintain(&self, vid: Vid, wanted: bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.events.len() < EVENTS_MAX {
            state.events.push_back(Notice::Event(Event::Maintain(vid, wanted)));
        } else {
            state.maintain.insert(vid, wanted);
        }
        self.rung.notify_one();
    }

    /// Says that something changed about who wants a file. The conductor looks for itself when it comes to
    /// it.
    pub fn wants_changed(&self, file: FileId) {
        self.push(Notice::Wants(file));
    }

    /// Says that files that were sealed wait once more.
    pub fn waits_since(&self, class: ClassId, since: Timestamp) {
        self.push(Notice::WaitsSince(class, since));
    }

    fn push(&self, notice: Notice) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.events.len() >= EVENTS_MAX && !state.stop {
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.events.push_back(notice);
        self.rung.notify_one();
    }

    /// Says that a backlog in the catalogue changed.
    pub fn backlog_changed(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.backlog {
            state.backlog = true;
            self.rung.notify_one();
        }
    }

    /// Wakes the conductor for the last time; nobody waits for room any more.
    pub fn stop(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).stop = true;
        self.rung.notify_all();
        self.room.notify_all();
    }

    /// Waits for something, at most for `patience`.
    pub fn listen(&self, patience: Duration) -> Heard {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.events.is_empty() && !state.backlog && !state.stop {
            state = self.rung.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner).0;
        }
        let late = std::mem::take(&mut state.maintain).into_iter();
        let late = late.map(|(vid, wanted)| Notice::Event(Event::Maintain(vid, wanted)));
        let heard = Heard {
            notices: state.events.drain(..).chain(late).collect(),
            backlog: std::mem::take(&mut state.backlog),
            stop: state.stop,
        };
        self.room.notify_all();
        heard
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vid(number: u32) -> Vid {
        Vid::new(&format!("KT{number:04}")).unwrap()
    }

    fn said(notifier: &Notifier) -> Vec<(Vid, bool)> {
        let heard = notifier.listen(Duration::ZERO).notices.into_iter();
        let of_tapes = heard.filter_map(|notice| match notice {
            Notice::Event(Event::Maintain(vid, wanted)) => Some((vid, wanted)),
            _ => None,
        });
        of_tapes.collect()
    }

    #[test]
    fn what_is_said_of_tapes_never_waits_and_the_last_word_counts() {
        let notifier = Notifier::default();
        notifier.maintain(vid(1), true);
        (1..EVENTS_MAX).for_each(|number| notifier.wants_changed(FileId(number as u64)));
        for (number, wanted) in [(1, false), (2, true), (2, false), (3, true)] {
            notifier.maintain(vid(number), wanted);
        }
        assert_eq!(said(&notifier), [(vid(1), true), (vid(1), false), (vid(2), false), (vid(3), true)]);
        assert!(said(&notifier).is_empty(), "each word is heard once");
        notifier.maintain(vid(2), true);
        assert_eq!(said(&notifier), [(vid(2), true)], "there is room again");
    }
}
