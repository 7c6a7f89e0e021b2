//! Room in the pool for what is recalled: what is free, and what sessions have claimed of it
//! ([`session::Room`]).
//!
//! Nothing is evicted by itself: who wants more room evicts, or releases what is pinned.

use std::collections::{BTreeMap, VecDeque};
use std::sync::PoisonError;
use threads::{Mutex, MutexGuard};

use base::{ByteCount, RequestId};
use catalogue::{ItemState, RequestRecord};
use session::{FreeSpace, Room, RoomClaim};

use crate::room::Tape;
use ground::ArchiveError;
use scheduler::{Reason, ShortRoom};

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

    /// Why files of a request wait, for one call that asks of many of them.
    pub(crate) fn reasons_in_request<'a>(
        &'a self,
        request: RequestId,
        record: &RequestRecord,
    ) -> RequestReasons<'a> {
        let left = ByteCount(record.bytes.0.saturating_sub(record.done_bytes.0));
        let is_begun = record.done > 0;
        let look_up = move || {
            // What has brought nothing back pins nothing.
            let pinned = if is_begun { self.pinned_by(request)? } else { ByteCount(0) };
            if pinned.0 == 0 {
                return Ok(OwnPins::default());
            }
            let evictable = self.read(|view| crate::evictable::holders(self, view))?.evictable.bytes;
            Ok(OwnPins { pinned, evictable })
        };
        RequestReasons::new(request, left, look_up)
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

/// What a request holds of the pool itself, and what could leave the pool.
#[derive(Clone, Copy, Default)]
struct OwnPins {
    pinned: ByteCount,
    evictable: ByteCount,
}

/// Why files of one request wait, as one call tells it. What the request's own pins hold costs a walk through
/// its files and through the heads of the queues, so it is looked up once however many files wait; and what
/// is free changes meanwhile, so files that wait for the same room get the figures of the first of them.
pub(crate) struct RequestReasons<'a> {
    request: RequestId,
    /// Bytes that are still to come.
    left: ByteCount,
    look_up: Box<dyn Fn() -> Result<OwnPins, ArchiveError> + 'a>,
    own_pins: Option<OwnPins>,
    /// By whose room it is that lacks, as [`Reason::WaitingForSpace`] names it.
    told: BTreeMap<ShortRoom, Reason>,
}

impl<'a> RequestReasons<'a> {
    fn new(
        request: RequestId,
        left: ByteCount,
        look_up: impl Fn() -> Result<OwnPins, ArchiveError> + 'a,
    ) -> Self {
        let (look_up, told) = (Box::new(look_up), BTreeMap::new());
        RequestReasons { request, left, look_up, own_pins: None, told }
    }

    /// Why a file of the request waits, which waits for this reason by itself: room that is short may be held
    /// by what the request has brought back, so that waiting never ends.
    pub(crate) fn of(&mut self, reason: Reason) -> Result<Reason, ArchiveError> {
        let (free, of) = match &reason {
            Reason::WaitingForSpace { free, of, .. } => (*free, of.clone()),
            Reason::RoomIsBeingMade { free } => (*free, ShortRoom::Pool),
            _ => return Ok(reason),
        };
        if let Some(told) = self.told.get(&of) {
            return Ok(told.clone());
        }
        let OwnPins { pinned, evictable } = match self.own_pins {
            Some(known) => known,
            None => *self.own_pins.insert((self.look_up)()?),
        };
        let is_own = pinned.0 > 0 && free.0.saturating_add(evictable.0) < self.left.0;
        let told = match is_own {
            true => Reason::OwnPinsHoldPool { request: self.request, pinned, left: self.left, free },
            false => reason,
        };
        self.told.insert(of, told.clone());
        Ok(told)
    }
}

/// What one recall session has claimed, batch after batch; given back when it ends, however it ends.
pub(crate) struct SessionClaims<'a> {
    room: &'a Tape,
    batches: Mutex<VecDeque<RoomClaim>>,
}

impl<'a> SessionClaims<'a> {
    pub(crate) fn new(room: &'a Tape) -> Self {
        SessionClaims { room, batches: Mutex::default() }
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
            self.room.own.space.lock().give_back_all(claim);
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const REQUEST: RequestId = RequestId(7);

    fn short(free: u64, of: Option<&str>) -> Reason {
        let of = of.map_or(ShortRoom::Pool, |of| ShortRoom::Share(of.to_owned()));
        Reason::WaitingForSpace { free: ByteCount(free), coming: ByteCount(0), of }
    }

    /// What `of` tells of 10,000 files whose room lacks, where what is free changes from file to file, and
    /// how often it was looked up.
    fn told_of_many(pinned: u64, evictable: u64) -> (Vec<Reason>, u32) {
        let looks = Cell::new(0);
        let look_up = || {
            looks.set(looks.get() + 1);
            Ok(OwnPins { pinned: ByteCount(pinned), evictable: ByteCount(evictable) })
        };
        let mut reasons = RequestReasons::new(REQUEST, ByteCount(1_000), look_up);
        let mut told: Vec<Reason> = Vec::new();
        for file in 0..10_000 {
            let reason = reasons.of(short(100 + file % 50, [None, Some("hot")][file as usize % 2])).unwrap();
            if !told.contains(&reason) {
                told.push(reason);
            }
        }
        drop(reasons);
        (told, looks.get())
    }

    /// Story: each waiting file of a request had the request's pins counted anew, so that who explained one
    /// of 10,000 files held a thread for minutes; and each told another figure of what is free.
    #[test]
    fn own_pins_are_looked_up_once_for_all_files_and_told_once() {
        let own = |free| Reason::OwnPinsHoldPool {
            request: REQUEST,
            pinned: ByteCount(500),
            left: ByteCount(1_000),
            free: ByteCount(free),
        };
        assert_eq!(told_of_many(500, 0), (vec![own(100), own(101)], 1));
        assert_eq!(told_of_many(500, 899), (vec![own(100), short(101, Some("hot"))], 1), "one has enough");
        assert_eq!(
            told_of_many(0, 0),
            (vec![short(100, None), short(101, Some("hot"))], 1),
            "none is its own"
        );
    }

    #[test]
    fn nothing_is_looked_up_for_files_that_wait_for_something_else() {
        let look_up = || -> Result<OwnPins, ArchiveError> { panic!("nothing is looked up") };
        let mut reasons = RequestReasons::new(REQUEST, ByteCount(1_000), look_up);
        assert_eq!(reasons.of(Reason::NothingWaits).unwrap(), Reason::NothingWaits);
    }
}
