//! Who is connected, and which session has which name.

use std::collections::BTreeMap;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::login::{Name, status};
use crate::pdu::Isid;

use super::{NexusId, TargetLimits};

/// What makes a session the same one after a new login.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct SessionName {
    pub(super) target: Name,
    pub(super) initiator: Name,
    pub(super) isid: Isid,
}

/// All connections and sessions of a server.
pub(super) struct Registry {
    state: Arc<(Mutex<State>, Condvar)>,
    connections_max: usize,
    sessions_max: usize,
    memory: Arc<Memory>,
}

#[derive(Default)]
struct State {
    connections: BTreeMap<u64, TcpStream>,
    /// The connection of each session, and its handle (TSIH).
    sessions: BTreeMap<SessionName, (u64, u16)>,
    next_connection: u64,
    next_nexus: u64,
    next_handle: u16,
    is_stopping: bool,
}

/// A connection's place. Given back when the place, or its thread, ends.
pub(super) struct Place {
    id: u64,
    state: Arc<(Mutex<State>, Condvar)>,
}

/// A session's place.
pub(super) struct SessionPlace {
    name: SessionName,
    pub(super) nexus: NexusId,
    pub(super) handle: u16,
    connection: u64,
    state: Arc<(Mutex<State>, Condvar)>,
}

fn lock(state: &(Mutex<State>, Condvar)) -> MutexGuard<'_, State> {
    // Each change below is whole before anything can panic.
    state.0.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Registry {
    pub(super) fn new(limits: &TargetLimits) -> Registry {
        Registry {
            state: Arc::default(),
            connections_max: limits.connections,
            sessions_max: limits.sessions,
            memory: Memory::new(limits.memory),
        }
    }

    pub(super) fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    pub(super) fn sessions(&self) -> usize {
        lock(&self.state).sessions.len()
    }

    pub(super) fn connections(&self) -> usize {
        lock(&self.state).connections.len()
    }

    pub(super) fn is_stopping(&self) -> bool {
        lock(&self.state).is_stopping
    }

    /// A place for a connection, if there is one.
    pub(super) fn connect(&self, stream: TcpStream) -> Option<Place> {
        let mut state = lock(&self.state);
        if state.is_stopping || state.connections.len() >= self.connections_max {
            return None;
        }
        let id = state.next_connection;
        state.next_connection += 1;
        state.connections.insert(id, stream);
        Some(Place { id, state: Arc::clone(&self.state) })
    }

    /// Closes all connections in one direction or both; no more are taken.
    pub(super) fn stop(&self, how: Shutdown) {
        let mut state = lock(&self.state);
        state.is_stopping = true;
        for stream in state.connections.values() {
            // One that is closed already is as it should be.
            let _ = stream.shutdown(how);
        }
    }

    /// Waits until there are no connections any more.
    pub(super) fn wait_for_none(&self, until: Instant) -> bool {
        let mut state = lock(&self.state);
        while !state.connections.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.state.1.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// A place for a session. One of the same name is ended first, with all that it has under way (session
    /// reinstatement, RFC 7143, 6.3.5). An error is the status that ends the login.
    pub(super) fn open(&self, place: &Place, name: SessionName, until: Instant) -> Result<SessionPlace, u16> {
        let mut state = lock(&self.state);
        while let Some((connection, _)) = state.sessions.get(&name) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                // A unit still works for the old one: two at a time would not know of each other.
                return Err(status::UNAVAILABLE);
            }
            if let Some(stream) = state.connections.get(connection) {
                let _ = stream.shutdown(Shutdown::Both);
            }
            let waited = self.state.1.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if state.sessions.len() >= self.sessions_max || state.is_stopping {
            return Err(status::NO_ROOM);
        }
        let nexus = NexusId(state.next_nexus);
        state.next_nexus += 1;
        let handle = state.free_handle();
        state.sessions.insert(name.clone(), (place.id, handle));
        let (connection, state) = (place.id, Arc::clone(&self.state));
        Ok(SessionPlace { name, nexus, handle, connection, state })
    }
}

impl State {
    /// A handle that no session has, and not 0, which stands for none. There are fewer sessions than handles.
    fn free_handle(&mut self) -> u16 {
        loop {
            self.next_handle = self.next_handle.wrapping_add(1);
            let handle = self.next_handle;
            if handle != 0 && !self.sessions.values().any(|(_, taken)| *taken == handle) {
                return handle;
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.state).connections.remove(&self.id);
        self.state.1.notify_all();
    }
}

impl Drop for SessionPlace {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        let removed = state.sessions.remove(&self.name);
        assert_eq!(
            removed,
            Some((self.connection, self.handle)),
            "a session's name is its own until it ends"
        );
        drop(state);
        self.state.1.notify_all();
    }
}

/// Memory for data of commands.
pub(super) struct Memory {
    taken: AtomicUsize,
    most: usize,
}

/// Bytes of it, until this is dropped.
pub(super) struct Reserved {
    bytes: usize,
    memory: Arc<Memory>,
}

/// What a command has of its session's memory and of the server's.
pub(super) struct Share {
    pub(super) _session: Reserved,
    pub(super) _server: Reserved,
}

impl Memory {
    pub(super) fn new(most: usize) -> Arc<Memory> {
        Arc::new(Memory { taken: AtomicUsize::new(0), most })
    }

    pub(super) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    pub(super) fn reserve(self: &Arc<Self>, bytes: usize) -> Option<Reserved> {
        let more = |taken: usize| taken.checked_add(bytes).filter(|all| *all <= self.most);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Reserved { bytes, memory: Arc::clone(self) })
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.memory.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_up_to_its_limit_and_comes_back() {
        let memory = Memory::new(100);
        let first = memory.reserve(60).unwrap();
        assert!(memory.reserve(41).is_none());
        assert!(memory.reserve(usize::MAX).is_none());
        let second = memory.reserve(40).unwrap();
        assert_eq!(memory.taken(), 100);
        drop((first, second));
        assert_eq!(memory.taken(), 0);
    }
}
