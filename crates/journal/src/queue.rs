//! What waits to be written down: a bounded queue between those who record and the thread that writes.
//!
//! Who records takes a lock for the time of a push, and does not wait for a disk. What finds no room is left
//! out and counted ([`Queue::push_or_count`]), refused ([`Queue::try_push`]) or waits for room
//! ([`Queue::push`]), as the rules of the log say.

use std::sync::PoisonError;

use base::Duration;
use threads::{Condvar, Mutex, MutexGuard};

/// Something that waits to be written down.
pub trait Queued {
    /// How many lines it becomes, about.
    fn lines(&self) -> usize {
        1
    }

    /// Whether it is to be written at once: what it refers to may change.
    fn is_urgent(&self) -> bool {
        false
    }
}

/// The limits of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueForm {
    /// Lines that may wait to be written.
    pub lines_max: usize,
    /// Lines are gathered for so long, so that a busy server wakes the thread a few times a second only.
    pub gather: Duration,
}

/// The queue of a log.
pub struct Queue<T> {
    form: QueueForm,
    state: Mutex<State<T>>,
    /// The thread is wanted.
    came: Condvar,
    /// What somebody waits for is done, or there is room.
    done: Condvar,
}

struct State<T> {
    waiting: Vec<T>,
    lines: usize,
    /// Lines left out that are not written down yet.
    dropped: u64,
    /// How many wait for room.
    pushing: usize,
    /// The thread waits without a time, and has to be woken.
    asleep: bool,
    /// Numbers of batches: the newest that was taken, and the newest that is written.
    taken: u64,
    written: u64,
    /// Somebody waits for what is here.
    hurried: bool,
    stopped: bool,
    ended: bool,
}

/// What was taken from the queue.
pub struct Taken<T> {
    /// In the order in which it came.
    pub items: Vec<T>,
    /// Lines that were left out since the last time.
    pub dropped: u64,
    /// Somebody waits until this is written.
    pub hurried: bool,
    /// Nothing comes any more.
    pub stopped: bool,
}

impl<T: Queued> Queue<T> {
    /// An empty queue.
    #[must_use]
    pub fn new(form: QueueForm) -> Self {
        let state = State {
            waiting: Vec::new(),
            lines: 0,
            dropped: 0,
            pushing: 0,
            asleep: false,
            taken: 0,
            written: 0,
            hurried: false,
            stopped: false,
            ended: false,
        };
        Queue { form, state: Mutex::new(state), came: Condvar::new(), done: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands over what happened, at once: what finds no room is left out, and counted.
    pub fn push_or_count(&self, item: T) {
        let lines = item.lines();
        let mut state = self.lock();
        if lines == 0 || state.stopped {
            return;
        }
        if state.lines + lines > self.form.lines_max {
            state.dropped += lines as u64;
            return;
        }
        self.put(&mut state, item, lines);
    }

    /// Hands over what happened, at once; `false` if there is no room, or the queue has stopped.
    #[must_use]
    pub fn try_push(&self, item: T) -> bool {
        let lines = item.lines();
        let mut state = self.lock();
        let has_room = !state.stopped && state.lines + lines <= self.form.lines_max;
        if has_room {
            self.put(&mut state, item, lines);
        }
        has_room
    }

    /// Hands over what happened; waits for room. `false` if the queue has stopped before. Who waits when it
    /// stops is still heard.
    #[must_use]
    pub fn push(&self, item: T) -> bool {
        let lines = item.lines();
        let mut state = self.lock();
        if state.stopped {
            return false;
        }
        state.pushing += 1;
        // What is larger than the queue goes alone.
        while state.lines > 0 && state.lines + lines > self.form.lines_max && !state.ended {
            state = self.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.pushing -= 1;
        if !state.ended {
            self.put(&mut state, item, lines);
        }
        !state.ended
    }

    fn put(&self, state: &mut State<T>, item: T, lines: usize) {
        state.hurried |= item.is_urgent();
        state.waiting.push(item);
        state.lines += lines;
        // The thread looks again by itself; only one that sleeps, or that should not rest, has to be woken.
        if state.asleep || state.hurried || self.is_half_full(state) {
            state.asleep = false;
            self.came.notify_one();
        }
    }

    fn is_half_full(&self, state: &State<T>) -> bool {
        state.lines > self.form.lines_max / 2
    }

    /// Waits for something to write, at most for `patience` if there is one. What was taken before counts as
    /// written from now on. `empty` becomes the place for what comes meanwhile.
    pub fn take(&self, empty: Vec<T>, patience: Option<Duration>) -> Taken<T> {
        let mut state = self.lock();
        state.written = state.taken;
        self.done.notify_all();
        while state.is_idle() {
            state.asleep = true;
            match patience {
                None => state = self.came.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(patience) => {
                    state = self.came.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner).0;
                    break;
                }
            }
        }
        state.asleep = false;
        let may_rest = !state.stopped && !state.hurried && !self.is_half_full(&state);
        if may_rest && self.form.gather > Duration::ZERO {
            state = self.came.wait_timeout(state, self.form.gather).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.taken += 1;
        state.lines = 0;
        let taken = Taken {
            items: std::mem::replace(&mut state.waiting, empty),
            dropped: std::mem::take(&mut state.dropped),
            hurried: std::mem::take(&mut state.hurried),
            stopped: state.stopped && state.pushing == 0,
        };
        if state.pushing > 0 {
            self.done.notify_all();
        }
        taken
    }

    /// Waits until all that was pushed before is written, at most for `patience` if there is one; whether it
    /// is.
    pub fn flush(&self, patience: Option<Duration>) -> bool {
        let mut state = self.lock();
        let wanted = state.taken + 1;
        state.hurried = true;
        self.came.notify_one();
        self.wait(state, patience, |state| state.ended || state.written >= wanted)
    }

    /// Takes no more; what waits is still written.
    pub fn stop(&self) {
        self.lock().stopped = true;
        self.came.notify_all();
    }

    /// The thread has ended.
    pub fn end(&self) {
        self.lock().ended = true;
        self.done.notify_all();
    }

    /// Waits for the end of the thread, at most for `patience`; whether it has ended.
    pub fn wait_for_end(&self, patience: Duration) -> bool {
        self.wait(self.lock(), Some(patience), |state| state.ended)
    }

    /// Waits as long as something goes on, and for `patience` when nothing does.
    fn wait(
        &self,
        mut state: MutexGuard<'_, State<T>>,
        patience: Option<Duration>,
        is_done: impl Fn(&State<T>) -> bool,
    ) -> bool {
        while !is_done(&state) {
            let Some(patience) = patience else {
                state = self.done.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let (again, waited) =
                self.done.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner);
            state = again;
            if waited.timed_out() {
                break;
            }
        }
        is_done(&state)
    }
}

impl<T> State<T> {
    /// Whether there is nothing to do for the thread.
    fn is_idle(&self) -> bool {
        let is_stopped = self.stopped && self.pushing == 0;
        self.waiting.is_empty() && self.dropped == 0 && !self.hurried && !is_stopped
    }
}

#[cfg(test)]
mod tests;
