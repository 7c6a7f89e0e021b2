//! Several stripes of a rebuild at once: threads that repair what they take, and the scrubber, which finds
//! what is to be repaired and hears what came of it.

use std::sync::PoisonError;
use threads::{Builder, Condvar, Mutex, MutexGuard};

use base::{BlobId, DriveId};
use ground::ArchiveError;
use pool::RepairOrder;

use crate::pool_rebuild::Mended;

/// Stripes that wait, of which the next is chosen; who finds more waits.
const WAITING_MAX: usize = 256;

/// A stripe of a blob.
pub(crate) type StripeOf = (BlobId, u32);
/// A stripe, and the drives that it is read from.
pub(crate) type Found = (StripeOf, Vec<DriveId>);
/// What came of a stripe; `None`: its blob is not there any more.
pub(crate) type Outcome = Result<Option<Mended>, ArchiveError>;

/// What the threads of a rebuild share.
pub(crate) struct Rebuilding {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    order: RepairOrder<StripeOf>,
    under_way: usize,
    /// Nothing more comes.
    is_closed: bool,
    over: Vec<(BlobId, Outcome)>,
}

/// A stripe that is repaired, until this is dropped.
struct Taken<'a> {
    of: &'a Rebuilding,
    stripe: StripeOf,
    drives: Vec<DriveId>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut state = self.of.lock();
        state.order.over(&self.drives);
        state.under_way -= 1;
        drop(state);
        self.of.changed.notify_all();
    }
}

/// What the scrubber does beside the threads.
pub(crate) trait Finds {
    /// The next stripes to be repaired; `None` at the end.
    fn more(&mut self) -> Result<Option<Vec<Found>>, ArchiveError>;
    /// What came of one. Others are under way.
    fn over(&mut self, blob: BlobId, outcome: Outcome);
}

/// Repairs all that `finds` finds, by so many threads at most; nothing more is begun when it `stops`. On
/// return nothing is under way, and what came of all was told.
pub(crate) fn run(
    workers: usize,
    finds: &mut impl Finds,
    stops: impl Fn() -> bool + Sync,
    repair: impl Fn(StripeOf) -> Outcome + Sync,
) -> Result<(), ArchiveError> {
    let all = Rebuilding { state: Mutex::default(), changed: Condvar::new() };
    threads::scope(|scope| {
        let begun = (0..workers).filter(|number| {
            let worker = Builder::new().name(format!("rebuild-{number}"));
            let begun = worker.spawn_scoped(scope, || all.work(true, &stops, &repair));
            if let Err(error) = &begun {
                tracing::warn!(%error, "no thread for a rebuild: it goes on with fewer");
            }
            begun.is_ok()
        });
        let is_alone = begun.count() == 0;
        let mut found = Ok(true);
        while found.as_ref().is_ok_and(|more| *more) && !stops() {
            found = all.find(finds);
            if is_alone {
                all.work(false, &stops, &repair);
            }
            all.hear(finds, |state| state.order.waiting() < WAITING_MAX);
        }
        all.lock().is_closed = true;
        all.changed.notify_all();
        all.hear(finds, |state| state.under_way == 0 && state.order.waiting() == 0);
        found.map(drop)
    })
}

impl Rebuilding {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds some more; `false` at the end.
    fn find(&self, finds: &mut impl Finds) -> Result<bool, ArchiveError> {
        let Some(found) = finds.more()? else { return Ok(false) };
        let mut state = self.lock();
        found.into_iter().for_each(|(stripe, drives)| state.order.add(stripe, drives));
        drop(state);
        self.changed.notify_all();
        Ok(true)
    }

    /// Hears what came of stripes until that is so.
    fn hear(&self, finds: &mut impl Finds, is_enough: impl Fn(&State) -> bool) {
        loop {
            let mut state = self.lock();
            let over = std::mem::take(&mut state.over);
            if over.is_empty() && is_enough(&state) {
                return;
            }
            if over.is_empty() {
                drop(self.changed.wait(state).unwrap_or_else(PoisonError::into_inner));
                continue;
            }
            drop(state);
            over.into_iter().for_each(|(blob, outcome)| finds.over(blob, outcome));
        }
    }

    /// Repairs stripes as long as there are some, or may come.
    fn work(&self, waits: bool, stops: &impl Fn() -> bool, repair: &impl Fn(StripeOf) -> Outcome) {
        while let Some(taken) = self.take(waits, stops) {
            let outcome = repair(taken.stripe);
            self.lock().over.push((taken.stripe.0, outcome));
        }
    }

    fn take(&self, waits: bool, stops: &impl Fn() -> bool) -> Option<Taken<'_>> {
        let mut state = self.lock();
        loop {
            if stops() {
                state.order.forget_waiting();
                self.changed.notify_all();
            }
            if let Some((stripe, drives)) = state.order.take() {
                state.under_way += 1;
                self.changed.notify_all();
                return Some(Taken { of: self, stripe, drives });
            }
            if state.is_closed || !waits {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
