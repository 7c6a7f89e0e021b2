//! What the engine's threads tell the conductor: a bounded queue of events, and a flag for
//! everything that is a level.

use std::collections::VecDeque;
use std::sync::PoisonError;
use std::time::Duration;
use threads::{Condvar, Mutex};

use base::{ClassId, FileId, Timestamp};
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
        let heard = Heard {
            notices: state.events.drain(..).collect(),
            backlog: std::mem::take(&mut state.backlog),
            stop: state.stop,
        };
        self.room.notify_all();
        heard
    }
}
