//! Bases of the catalogue that are to be written to tapes: the one that waits, and what failed.
//!
//! The rows are read once, into files beside the catalogue ([`backup::make_base`]). Sessions write the files
//! to a tape of each pool, before an index.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use threads::{Mutex, MutexGuard};

use backup::{MadeBase, MakeBaseError, make_base};
use base::{Duration, Vid};
use catalogue::{ReadError, changes_behind};
use session::back_off;

use crate::bases_on_tapes::Standing;
use crate::room::Tape;

/// A base that could not be made, or not be written to a tape, is tried again after this long: a try may read
/// the whole catalogue, or mount the tape ...
const RETRY_AFTER: Duration = Duration::from_secs(600);
/// ... and after each failure twice as long, up to this.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(86_400);

/// Bases in the making.
#[derive(Default)]
pub(crate) struct Bases {
    waiting: Mutex<Waiting>,
    failures: Mutex<Failures>,
}

/// What did not succeed, and rests.
#[derive(Default)]
struct Failures {
    /// Making one, and why.
    making: Rest,
    reason: String,
    /// Tapes to which one could not be written, or which did not give it back as it was written.
    tapes: BTreeMap<Vid, Rest>,
}

/// How often something failed in a row, and when last, by the steady clock.
#[derive(Clone, Copy, Default)]
struct Rest {
    failures: u32,
    last: Duration,
}

impl Rest {
    fn failed(&mut self, now: Duration) {
        *self = Rest { failures: self.failures.saturating_add(1), last: now };
    }

    fn is_over(self, now: Duration) -> bool {
        let Some(before) = self.failures.checked_sub(1) else { return true };
        now.saturating_sub(self.last) >= back_off(RETRY_AFTER, before, RETRY_AFTER_MAX)
    }
}

/// The base that waits to be written to tapes.
#[derive(Default)]
pub(crate) struct Waiting {
    made: Option<Arc<MadeBase>>,
    /// How many were begun.
    begun: u64,
}

impl Bases {
    /// The base that waits. Held while one is made: whoever else needs one waits for it.
    pub(crate) fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`Bases::waiting`], `None` while another thread is at it.
    pub(crate) fn waiting_now(&self) -> Option<MutexGuard<'_, Waiting>> {
        self.waiting.try_lock().ok()
    }

    fn failures(&self) -> MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why none can be made, if the last try failed.
    pub(crate) fn failing(&self) -> Option<String> {
        let failures = self.failures();
        (failures.making.failures > 0).then(|| failures.reason.clone())
    }

    /// Whether one may be made now.
    pub(crate) fn may_make(&self, now: Duration) -> bool {
        self.failures().making.is_over(now)
    }

    /// Whether a tape may be given one now.
    pub(crate) fn may_write(&self, vid: Vid, now: Duration) -> bool {
        self.failures().tapes.get(&vid).is_none_or(|rest| rest.is_over(now))
    }

    /// A tape has one now, or did not take it: then another tape is to get it.
    pub(crate) fn tried(&self, vid: Vid, succeeded: bool, now: Duration) {
        let mut failures = self.failures();
        match succeeded {
            true => drop(failures.tapes.remove(&vid)),
            false => failures.tapes.entry(vid).or_default().failed(now),
        }
    }
}

impl Waiting {
    /// The base to be written to a tape: the one that waits if it is new enough, else one that is made now.
    /// `None` if that does not succeed, which is told, or did not a while ago.
    pub(crate) fn take(&mut self, room: &Tape) -> Result<Option<Arc<MadeBase>>, ReadError> {
        let settings = room.settings.change_log;
        let (first, last) = room.catalogue.read(|view| Ok((view.first_change()?, view.last_change()?)))?;
        let is_new = |made: &MadeBase| {
            changes_behind(made.change, last) <= settings.base_changes.max(1) && made.change >= first
        };
        if !self.made.as_deref().is_some_and(is_new) {
            self.made = None;
            if room.bases.may_make(room.steady()) {
                self.begun += 1;
                let directory = &room.settings.catalogue_directory;
                let is_stopping = || room.stopping();
                let made = make_base(&room.catalogue, room.instance, directory, self.begun, &is_stopping);
                if let Err(MakeBaseError::Read(_)) = made {
                    // What is damaged is to answer nothing more: all of it is looked at, then refused.
                    let _ = room.catalogue.check_pages();
                }
                let mut failures = room.bases.failures();
                match made {
                    Ok(made) => (self.made, failures.making) = (Some(Arc::new(made)), Rest::default()),
                    Err(MakeBaseError::Stopped) => {}
                    Err(error) => {
                        tracing::error!(%error, "no base of the catalogue can be made: its log stays");
                        failures.making.failed(room.steady());
                        failures.reason = error.to_string();
                    }
                }
            }
        }
        Ok(self.made.clone())
    }

    /// The base that waits cannot be used: the next one is made anew.
    pub(crate) fn discard(&mut self, change: u64) {
        if self.made.as_ref().is_some_and(|made| made.change == change) {
            self.made = None;
        }
    }

    /// Removes the files if nobody waits for them, or if the catalogue needs their room and nobody reads
    /// them.
    pub(crate) fn drop_if_done(&mut self, room: &Tape) -> Result<(), ReadError> {
        let Some(change) = self.made.as_ref().map(|made| made.change) else { return Ok(()) };
        let free = |directory: &Path| store::free_bytes(directory).ok();
        if self.made.as_ref().is_some_and(|made| made.is_in_the_way(free)) {
            let error = MakeBaseError::NoRoom;
            tracing::error!(%error, "the base of the catalogue that waits for tapes is given up");
            self.made = None;
            let mut failures = room.bases.failures();
            failures.making.failed(room.steady());
            failures.reason = error.to_string();
            return Ok(());
        }
        let has_backup = room.backup_reach.may_count(room.steady());
        let is_done = room.catalogue.read(|view| {
            Ok(Standing::of(room, view, has_backup)?.oldest().is_none_or(|(_, oldest)| oldest >= change))
        })?;
        if is_done {
            self.made = None;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each try may read the whole catalogue: it was made again every hour, for ever.
    #[test]
    fn what_failed_rests_for_twice_as_long_each_time() {
        let mut rest = Rest::default();
        let mut now = Duration::from_secs(5);
        assert!(rest.is_over(now));
        for seconds in [600, 1_200, 2_400, 4_800, 9_600, 19_200, 38_400, 76_800, 86_400, 86_400] {
            rest.failed(now);
            assert!(
                !rest.is_over(now + Duration::from_secs(seconds) - Duration::from_millis(1)),
                "{seconds}"
            );
            now += Duration::from_secs(seconds);
            assert!(rest.is_over(now), "{seconds}");
        }
    }

    #[test]
    fn a_tape_that_did_not_take_a_base_rests_and_others_do_not() {
        let bases = Bases::default();
        let (one, other) = (Vid::new("KT0001").unwrap(), Vid::new("KT0002").unwrap());
        let now = Duration::from_secs(100);
        bases.tried(one, false, now);
        assert!(!bases.may_write(one, now) && bases.may_write(other, now));
        assert!(bases.may_write(one, now + RETRY_AFTER));
        bases.tried(one, true, now);
        assert!(bases.may_write(one, now));
    }
}
