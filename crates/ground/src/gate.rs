//! Readers and the removal of what they may be reading.
//!
//! A reader enters before it looks into the catalogue; garbage is removed only when every reader that entered
//! before the garbage was noticed has left. Readers never wait.

use base::BlobId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};
use threads::Mutex;

/// Counts readers by generation.
#[derive(Debug, Default)]
pub struct ReadGate {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    generation: u64,
    inside: BTreeMap<u64, usize>,
    held: BTreeMap<BlobId, usize>,
}

/// Blobs that are read for long; let go when dropped.
#[derive(Debug)]
pub struct HeldBlobs {
    gate: Arc<ReadGate>,
    blobs: BTreeSet<BlobId>,
}

/// A reader inside the gate; leaves when dropped.
#[derive(Debug)]
pub struct Reading {
    gate: Arc<ReadGate>,
    generation: u64,
}

impl ReadGate {
    /// Lets a reader in.
    pub fn enter(self: &Arc<Self>) -> Reading {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let generation = state.generation;
        *state.inside.entry(generation).or_default() += 1;
        Reading { gate: Arc::clone(self), generation }
    }

    /// For who reads for long, and knows inside the gate what: once it holds this, it need not stay inside,
    /// and nothing else waits for it.
    #[must_use]
    pub fn hold(self: &Arc<Self>, blobs: BTreeSet<BlobId>) -> HeldBlobs {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for blob in &blobs {
            *state.held.entry(*blob).or_default() += 1;
        }
        HeldBlobs { gate: Arc::clone(self), blobs }
    }

    /// Whether somebody holds a blob. Ask when those have left that were inside when it became garbage.
    #[must_use]
    pub fn is_held(&self, blob: BlobId) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).held.contains_key(&blob)
    }

    /// Starts a new generation: what is garbage now may be removed once [`ReadGate::has_left`] says so of the
    /// value returned.
    pub fn turn(&self) -> u64 {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let before = state.generation;
        state.generation += 1;
        before
    }

    /// Whether all readers of `generation` and before are gone.
    pub fn has_left(&self, generation: u64) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.inside.keys().next().is_none_or(|oldest| *oldest > generation)
    }
}

impl Drop for HeldBlobs {
    fn drop(&mut self) {
        let mut state = self.gate.state.lock().unwrap_or_else(PoisonError::into_inner);
        for blob in &self.blobs {
            if let Some(count) = state.held.get_mut(blob) {
                *count -= 1;
                if *count == 0 {
                    state.held.remove(blob);
                }
            }
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        let mut state = self.gate.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = state.inside.get_mut(&self.generation) {
            *count -= 1;
            if *count == 0 {
                state.inside.remove(&self.generation);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn garbage_waits_for_readers_that_came_before_it() {
        let gate = Arc::new(ReadGate::default());
        let early = gate.enter();
        let mark = gate.turn();
        let late = gate.enter();
        assert!(!gate.has_left(mark));
        drop(early);
        assert!(gate.has_left(mark));
        let second = gate.turn();
        assert!(!gate.has_left(second));
        drop(late);
        assert!(gate.has_left(second));
    }

    #[test]
    fn what_is_held_waits_alone_until_the_last_lets_go() {
        let gate = Arc::new(ReadGate::default());
        let blobs = |ids: &[u64]| ids.iter().map(|id| BlobId(*id)).collect();
        let (one, other) = (gate.hold(blobs(&[1, 2])), gate.hold(blobs(&[2])));
        assert!([1, 2].iter().all(|id| gate.is_held(BlobId(*id))) && !gate.is_held(BlobId(3)));
        drop(one);
        assert!(!gate.is_held(BlobId(1)) && gate.is_held(BlobId(2)));
        drop(other);
        assert!(!gate.is_held(BlobId(2)));
    }
}
