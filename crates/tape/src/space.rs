//! Room in the pool for what is recalled: what is free, and what sessions have claimed of it
//! ([`session::Room`]).
//!
//! Nothing is evicted by itself: who wants more room evicts, or releases what is pinned.

use std::collections::VecDeque;
use std::sync::PoisonError;
use threads::{Mutex, MutexGuard};

use base::{ByteCount, RequestId};
use catalogue::{ItemState, RequestRecord};
use session::{FreeSpace, Room, RoomClaim};

use crate::room::Tape;
use ground::ArchiveError;
use scheduler::Reason;

/// Files of a request of which it is looked up whether it pins them.
const PINNED_LOOKED_AT_MAX: u32 = 10_000;
/// So many at once.
const PINNED_PAGE: usize = 500;

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
        self.own.space.lock().to_tell(&mut free, self.now(), self.settings.tape.retry_delay);
        Ok(free)
    }

    /// Why files of a request wait, which wait for this reason by themselves: room that is short may be held
    /// by what the request has brought back, so that waiting never ends.
    pub(crate) fn reason_in_request(
        &self,
        request: RequestId,
        record: &RequestRecord,
        reason: Reason,
    ) -> Result<Reason, ArchiveError> {
        let Reason::WaitingForSpace { free, .. } = reason else { return Ok(reason) };
        if record.done == 0 {
            return Ok(reason);
        }
        let pinned = self.pinned_by(request)?;
        let left = record.bytes.0.saturating_sub(record.done_bytes.0);
        let evictable = self.read(|view| crate::evictable::holders(self, view))?.evictable.bytes;
        if pinned.0 == 0 || free.0.saturating_add(evictable.0) >= left {
            return Ok(reason);
        }
        Ok(Reason::OwnPinsHoldPool { request, pinned, left: ByteCount(left), free })
    }

    /// Bytes of files of a request that are pinned by it, of the first ones that it has.
    fn pinned_by(&self, request: RequestId) -> Result<ByteCount, ArchiveError> {
        let (mut pinned, mut from) = (0u64, 0);
        while from < PINNED_LOOKED_AT_MAX {
            let items = self.read(|view| {
                let items = view.request_items(request, from, PINNED_PAGE)?;
                for (_, item) in items.iter().filter(|(_, item)| matches!(item.state, ItemState::Done(_))) {
                    if view.pins(item.file)?.iter().any(|(by, _)| *by == request)
                        && let Some(file) = view.file(item.file)?
                    {
                        pinned = pinned.saturating_add(file.size.0);
                    }
                }
                Ok(items)
            })?;
            let Some((last, _)) = items.last() else { break };
            from = last.saturating_add(1);
        }
        Ok(ByteCount(pinned))
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
            self.engine.own.space.lock().give_back_all(claim);
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
