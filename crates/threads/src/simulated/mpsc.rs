//! Bounded channels like std's.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

pub use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};

use super::condvar::Condvar;
use super::lock::{Mutex, MutexGuard};
use super::runtime::is_dead;

struct Channel<T> {
    state: Mutex<State<T>>,
    filled: Condvar,
    room: Condvar,
}

struct State<T> {
    queue: VecDeque<T>,
    capacity: usize,
    senders: usize,
    received: bool,
}

/// The sending half.
pub struct SyncSender<T>(Arc<Channel<T>>);

/// The receiving half.
pub struct Receiver<T>(Arc<Channel<T>>);

/// A channel with room for `capacity` messages.
///
/// # Panics
/// If the capacity is 0, which std allows and Kist never uses.
#[must_use]
pub fn sync_channel<T>(capacity: usize) -> (SyncSender<T>, Receiver<T>) {
    assert!(capacity > 0, "a channel without room is not made");
    let state = State { queue: VecDeque::new(), capacity, senders: 1, received: true };
    let channel =
        Arc::new(Channel { state: Mutex::new(state), filled: Condvar::new(), room: Condvar::new() });
    (SyncSender(Arc::clone(&channel)), Receiver(channel))
}

impl<T> Channel<T> {
    #[track_caller]
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> SyncSender<T> {
    /// Sends, and waits for room.
    ///
    /// # Errors
    /// If the receiver is gone; gives the message back.
    #[track_caller]
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        let mut state = self.0.lock();
        while state.received && state.queue.len() >= state.capacity {
            if is_dead() {
                return Err(SendError(message));
            }
            state = self.0.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if !state.received || is_dead() {
            return Err(SendError(message));
        }
        state.queue.push_back(message);
        self.0.filled.notify_one();
        Ok(())
    }

    /// Sends if there is room.
    ///
    /// # Errors
    /// If there is none, or the receiver is gone; gives the message back.
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        let mut state = self.0.lock();
        if !state.received || is_dead() {
            return Err(TrySendError::Disconnected(message));
        }
        if state.queue.len() >= state.capacity {
            return Err(TrySendError::Full(message));
        }
        state.queue.push_back(message);
        self.0.filled.notify_one();
        Ok(())
    }
}

impl<T> Receiver<T> {
    fn take(&self, state: &mut State<T>) -> Result<T, TryRecvError> {
        match state.queue.pop_front() {
            Some(message) => {
                self.0.room.notify_one();
                Ok(message)
            }
            None if state.senders == 0 || is_dead() => Err(TryRecvError::Disconnected),
            None => Err(TryRecvError::Empty),
        }
    }

    /// Takes a message if there is one.
    ///
    /// # Errors
    /// If there is none, or all senders are gone.
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        let mut state = self.0.lock();
        self.take(&mut state)
    }

    /// Takes a message, and waits for one.
    ///
    /// # Errors
    /// If there is none and all senders are gone.
    #[track_caller]
    pub fn recv(&self) -> Result<T, RecvError> {
        let mut state = self.0.lock();
        loop {
            match self.take(&mut state) {
                Ok(message) => return Ok(message),
                Err(TryRecvError::Disconnected) => return Err(RecvError),
                Err(TryRecvError::Empty) => {
                    state = self.0.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// Takes a message, and waits for one no longer than `patience`.
    ///
    /// # Errors
    /// If there is none by then, or all senders are gone.
    #[track_caller]
    pub fn recv_timeout(&self, patience: Duration) -> Result<T, RecvTimeoutError> {
        let state = self.0.lock();
        let empty = |state: &mut State<T>| state.queue.is_empty() && state.senders > 0 && !is_dead();
        let waited = self.0.filled.wait_timeout_while(state, patience, empty);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        self.take(&mut state).map_err(|error| match error {
            TryRecvError::Empty => RecvTimeoutError::Timeout,
            TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
        })
    }

    /// Messages until all senders are gone.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter(self)
    }

    /// Messages that are there.
    pub fn try_iter(&self) -> TryIter<'_, T> {
        TryIter(self)
    }
}

/// Messages until all senders are gone.
#[derive(Debug)]
pub struct Iter<'a, T>(&'a Receiver<T>);

/// Messages that are there.
#[derive(Debug)]
pub struct TryIter<'a, T>(&'a Receiver<T>);

/// Messages until all senders are gone, by the receiver's owner.
#[derive(Debug)]
pub struct IntoIter<T>(Receiver<T>);

impl<T> Iterator for Iter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.0.recv().ok()
    }
}

impl<T> Iterator for TryIter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.0.try_recv().ok()
    }
}

impl<T> Iterator for IntoIter<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.0.recv().ok()
    }
}

impl<'a, T> IntoIterator for &'a Receiver<T> {
    type Item = T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<T> IntoIterator for Receiver<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        IntoIter(self)
    }
}

impl<T> Clone for SyncSender<T> {
    fn clone(&self) -> Self {
        self.0.lock().senders += 1;
        SyncSender(Arc::clone(&self.0))
    }
}

impl<T> Drop for SyncSender<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.senders -= 1;
        if state.senders == 0 {
            self.0.filled.notify_all();
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let left = {
            let mut state = self.0.lock();
            state.received = false;
            self.0.room.notify_all();
            std::mem::take(&mut state.queue)
        };
        // Messages may hold channels of their own, so that they go after the lock.
        drop(left);
    }
}

impl<T> fmt::Debug for SyncSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SyncSender").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}
