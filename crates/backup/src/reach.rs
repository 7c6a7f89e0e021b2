//! How far the backup has the log of changes, as far as is known: its worker tells it, and whoever gives
//! something up that the backup may have to replace asks.

use std::sync::PoisonError;
use threads::{Mutex, MutexGuard};

use base::Duration;

/// A backup that fails for longer is not waited for: tapes get what takes its place. It may be a share that
/// is not mounted for a while.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// For so long it is waited for what a backup tells after a start. One whose first turn takes longer, or
/// hangs, does not count meanwhile.
const FIRST_WORD: Duration = Duration::from_secs(300);

/// What is known of the backup of the catalogue; shared by its worker and by those who count on it.
#[derive(Default, Debug)]
pub struct BackupReach(Mutex<Reach>);

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Reach {
    /// There is no backup.
    #[default]
    None,
    /// It has not told yet, since this time by the steady clock, if that is known.
    Unknown(Option<Duration>),
    /// It has the log up to this change.
    Through(u64),
    /// It fails since then, by the steady clock.
    Failing(Duration),
}

impl BackupReach {
    fn reach(&self) -> MutexGuard<'_, Reach> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is a backup, and nobody knows yet what it has.
    pub fn begins(&self) {
        *self.reach() = Reach::Unknown(None);
    }

    /// The backup has all changes up to this one.
    pub fn shipped(&self, through: u64) {
        *self.reach() = Reach::Through(through);
    }

    /// The backup has failed: it does not count. `now`: by the steady clock.
    pub fn failed(&self, now: Duration) {
        let mut reach = self.reach();
        if !matches!(*reach, Reach::Failing(_)) {
            *reach = Reach::Failing(now);
        }
    }

    /// Up to which change the backup has the log; 0: it fails, or has not told yet; `None`: there is none.
    #[must_use]
    pub fn through(&self) -> Option<u64> {
        match *self.reach() {
            Reach::None => None,
            Reach::Unknown(_) | Reach::Failing(_) => Some(0),
            Reach::Through(through) => Some(through),
        }
    }

    /// Whether there is a backup that has not told yet what it has: a moment after a start it will have, and
    /// minutes after it was first asked for it is not waited for any more. `now`: by the steady clock.
    #[must_use]
    pub fn is_awaited(&self, now: Duration) -> bool {
        match &mut *self.reach() {
            Reach::Unknown(since) => now.saturating_sub(*since.get_or_insert(now)) < FIRST_WORD,
            _ => false,
        }
    }

    /// Whether the backup can take the place of a lost catalogue, as far as is known: what is given up may
    /// count on it.
    #[must_use]
    pub fn counts(&self) -> bool {
        matches!(*self.reach(), Reach::Through(through) if through > 0)
    }

    /// Whether it counts, or may do so soon: no tape is mounted for what takes its place before. `now`: by
    /// the steady clock.
    #[must_use]
    pub fn may_count(&self, now: Duration) -> bool {
        match *self.reach() {
            Reach::None => false,
            Reach::Unknown(_) | Reach::Through(_) => true,
            Reach::Failing(since) => now.saturating_sub(since) < PATIENCE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A backup that had never succeeded counted as one: for reclaiming tapes, and for how many must have a
    /// base.
    #[test]
    fn only_a_backup_that_succeeded_and_does_not_fail_counts() {
        let (reach, at) = (BackupReach::default(), Duration::from_secs);
        let counts = |now| (reach.through(), reach.counts(), reach.may_count(at(now)));
        assert_eq!(counts(0), (None, false, false));
        assert!(!reach.is_awaited(at(0)));
        reach.begins();
        assert!(reach.is_awaited(at(1_000)) && reach.is_awaited(at(1_299)));
        assert!(!reach.is_awaited(at(1_300)), "its first turn hangs");
        reach.begins();
        assert!(reach.is_awaited(at(1_300)));
        assert_eq!(counts(0), (Some(0), false, true));
        reach.failed(at(10));
        reach.failed(at(20));
        assert!(!reach.is_awaited(at(1_300)), "it has told that it fails");
        assert_eq!(counts(3_609), (Some(0), false, true));
        assert_eq!(counts(3_610), (Some(0), false, false), "it was waited for long enough");
        reach.shipped(7);
        assert_eq!(counts(3_610), (Some(7), true, true));
        reach.failed(at(4_000));
        assert_eq!(counts(4_000), (Some(0), false, true));
    }
}
