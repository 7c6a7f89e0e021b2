//! Room in the pool for what is recalled: what is free, and what sessions have claimed of it
//! ([`session::Room`]).
//!
//! Nothing is evicted by itself: who wants more room evicts, or releases what is pinned.

use std::collections::VecDeque;
use std::sync::PoisonError;
use threads::{Mutex, MutexGuard};

use session::{FreeSpace, Room, RoomClaim};

use crate::room::Tape;
use ground::ArchiveError;

/// What running sessions have claimed, and what did not fit.
#[derive(Default)]
pub(crate) struct Space(Mutex<Room>);

impl Space {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Room> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tape {
    /// What the scheduler is told of it: nothing where a file is known to wait for more.
    pub(crate) fn room_to_tell(&self) -> Result<FreeSpace, ArchiveError> {
        let mut free = self.free_for_recalls()?;
        self.space.lock().to_tell(&mut free, self.now(), self.settings.tape.retry_delay);
        Ok(free)
    }
}

/// What one recall session has claimed, batch after batch; given back when it ends, however it ends.
pub(crate) struct SessionClaims<'a> {
    engine: &'a Tape,
    batches: Mutex<VecDeque<RoomClaim>>,
}

impl<'a> SessionClaims<'a> {
    pub(crate) fn new(engine: &'a Tape) -> Self {
        SessionClaims { engine, batches: Mutex::default() }
    }

    /// The next batch that is read has this claim.
    pub(crate) fn push(&self, claim: RoomClaim) {
        self.batches().push_back(claim);
    }

    /// The oldest batch stands in the catalogue, or will not come. Whether there was one.
    pub(crate) fn done(&self) -> bool {
        let claim = self.batches().pop_front();
        let was_there = claim.is_some();
        if let Some(claim) = claim {
            self.engine.space.lock().give_back_all(claim);
        }
        was_there
    }

    fn batches(&self) -> MutexGuard<'_, VecDeque<RoomClaim>> {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SessionClaims<'_> {
    fn drop(&mut self) {
        while self.done() {}
    }
}
