//! Several stripes of a rebuild at once: threads that repair what they take, and the scrubber, which finds
//! what is to be repaired and hears what came of it.
//!
//! A panic of one ends the others with the stripe that they are at, and is then one of the scrubber: of that
//! the process ends ([`threads::spawn_guarded`]), in a release as well, and the next start finds what is to
//! be rebuilt by the catalogue. What was told of stripes before it is heard.

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
    /// A repair has panicked: nothing more is begun.
    has_panicked: bool,
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
        if std::thread::panicking() {
            // This thread takes none of those that wait, and maybe no other is there.
            state.has_panicked = true;
            state.order.forget_waiting();
        }
        drop(state);
        self.of.changed.notify_all();
    }
}

/// Sees to it that the threads end, whatever becomes of the scrubber: its scope waits for them if it panics.
struct Closing<'a>(&'a Rebuilding);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.is_closed = true;
        state.order.forget_waiting();
        drop(state);
        self.0.changed.notify_all();
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
        let _closing = Closing(&all);
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
        while found.as_ref().is_ok_and(|more| *more) && !stops() && !all.lock().has_panicked {
            found = all.find(finds);
            if is_alone {
                all.work(false, &stops, &repair);
            }
            all.hear(finds, |state| state.order.waiting() < WAITING_MAX);
        }
        all.close();
        all.changed.notify_all();
        all.hear(finds, |state| state.under_way == 0 && state.order.waiting() == 0);
        found.map(drop)
    })
}

impl Rebuilding {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing more comes. What came after a panic is begun by nobody.
    fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        if state.has_panicked {
            state.order.forget_waiting();
        }
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;

    const PAGE: u64 = 100;

    /// Finds stripes of so many blobs, page by page, and counts what it hears.
    struct Pages {
        blobs: u64,
        found: u64,
        heard: BTreeMap<BlobId, bool>,
    }

    impl Pages {
        fn of(blobs: u64) -> Self {
            Pages { blobs, found: 0, heard: BTreeMap::new() }
        }

        fn well(&self) -> usize {
            self.heard.values().filter(|is_well| **is_well).count()
        }
    }

    impl Finds for Pages {
        fn more(&mut self) -> Result<Option<Vec<Found>>, ArchiveError> {
            if self.found == self.blobs {
                return Ok(None);
            }
            let end = (self.found + PAGE).min(self.blobs);
            let drives = |blob: u64| (0..3).map(|at| DriveId((blob + at) as u16 % 7)).collect();
            let found = (self.found..end).map(|blob| ((BlobId(blob), 0), drives(blob))).collect();
            self.found = end;
            Ok(Some(found))
        }

        fn over(&mut self, blob: BlobId, outcome: Outcome) {
            assert!(self.heard.insert(blob, outcome.is_ok()).is_none(), "each is told once");
        }
    }

    #[test]
    fn of_each_stripe_it_is_heard_what_came_of_it_by_whomever() {
        for workers in [0, 1, 5] {
            let mut pages = Pages::of(7 * PAGE + 3);
            run(workers, &mut pages, || false, |_| Ok(None)).unwrap();
            assert_eq!(pages.well() as u64, pages.blobs, "{workers} threads");
        }
        let mut none = Pages::of(0);
        run(3, &mut none, || false, |_| Ok(None)).unwrap();
        assert!(none.heard.is_empty());
    }

    #[test]
    fn an_error_of_one_keeps_no_other() {
        let mut pages = Pages::of(2 * PAGE);
        let fails = |(blob, _): StripeOf| match blob.0 % 10 {
            3 => Err(ArchiveError::Stopping),
            _ => Ok(None),
        };
        run(4, &mut pages, || false, fails).unwrap();
        assert_eq!((pages.heard.len(), pages.well()), (2 * PAGE as usize, 2 * PAGE as usize / 10 * 9));
    }

    /// Finds two pages, then fails.
    struct Breaks(Pages);

    impl Finds for Breaks {
        fn more(&mut self) -> Result<Option<Vec<Found>>, ArchiveError> {
            if self.0.found == 2 * PAGE { Err(ArchiveError::Stopping) } else { self.0.more() }
        }

        fn over(&mut self, blob: BlobId, outcome: Outcome) {
            self.0.over(blob, outcome);
        }
    }

    #[test]
    fn what_was_found_before_no_more_could_be_is_repaired_and_heard() {
        let mut breaks = Breaks(Pages::of(9 * PAGE));
        assert!(run(3, &mut breaks, || false, |_| Ok(None)).is_err());
        assert_eq!(breaks.0.well(), 2 * PAGE as usize);
    }

    #[test]
    fn a_stop_ends_all_with_the_stripes_that_are_under_way() {
        for workers in [0, 1, 4] {
            let (begun, stops) = (AtomicUsize::new(0), AtomicBool::new(false));
            let repair = |_| {
                if begun.fetch_add(1, Ordering::SeqCst) == 20 {
                    stops.store(true, Ordering::SeqCst);
                }
                Ok(None)
            };
            let mut pages = Pages::of(9 * PAGE);
            run(workers, &mut pages, || stops.load(Ordering::SeqCst), repair).unwrap();
            let begun = begun.into_inner();
            // The others may have begun one meanwhile, more only if they are quick between the lines above.
            assert!((21..9 * PAGE as usize).contains(&begun), "{workers} threads: {begun}");
            assert_eq!(pages.heard.len(), begun, "what was begun is heard");
        }
    }

    #[test]
    fn a_repair_that_panics_ends_all_and_the_scrubber_waits_for_nobody() {
        for workers in [0, 1, 4] {
            let done = AtomicUsize::new(0);
            let repair = |(blob, _): StripeOf| {
                assert!(blob.0 != 150, "a repair that panics, as this test wants it");
                done.fetch_add(1, Ordering::SeqCst);
                Ok(None)
            };
            let mut pages = Pages::of(20 * PAGE);
            let all = catch_unwind(AssertUnwindSafe(|| run(workers, &mut pages, || false, repair)));
            assert!(all.is_err(), "{workers} threads: it is the scrubber's");
            assert!(done.into_inner() < 20 * PAGE as usize, "nothing more is begun");
        }
    }

    #[test]
    fn when_all_of_them_panic_it_ends_too() {
        let together = Barrier::new(3);
        let repair = |_| {
            together.wait();
            panic!("each, as this test wants it");
        };
        let mut pages = Pages::of(3 * PAGE);
        assert!(catch_unwind(AssertUnwindSafe(|| run(3, &mut pages, || false, repair))).is_err());
    }

    /// Panics when it hears of a stripe.
    struct Panics(Pages);

    impl Finds for Panics {
        fn more(&mut self) -> Result<Option<Vec<Found>>, ArchiveError> {
            self.0.more()
        }

        fn over(&mut self, blob: BlobId, _: Outcome) {
            panic!("what came of {blob}, as this test wants it");
        }
    }

    #[test]
    fn a_scrubber_that_panics_waits_for_no_thread_that_waits_for_it() {
        let mut panics = Panics(Pages::of(3 * PAGE));
        assert!(catch_unwind(AssertUnwindSafe(|| run(3, &mut panics, || false, |_| Ok(None)))).is_err());
    }
}
