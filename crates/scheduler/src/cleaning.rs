//! Drives are cleaned: before their next mount if they must be, in idle time if they only ask for it.

use base::{Duration, LibraryId, Timestamp, Vid};
use session::{BACK_OFF_MAX, back_off};

use crate::scheduler::Scheduler;
use crate::{Action, DriveName, DriveState, Reason};

/// A drive that has asked for so long gets no more mounts before it is cleaned: one that is always busy has
/// no idle time.
pub const CLEAN_IDLE_MAX: Duration = Duration::from_secs(24 * 3600);
/// By itself no drive is cleaned again within this time: one that asks again so soon has another fault, or a
/// flag that sticks, and would use up a cartridge in a day. Drives ask after some hundred hours of motion.
pub const CLEAN_AGAIN_AFTER: Duration = Duration::from_secs(24 * 3600);
/// A drive that must be cleaned and cannot be is left alone for so long; then it is used as it is: a library
/// that cleans its drives by itself shows no cleaning cartridge, and has done so by then. A drive that does
/// not work without says so by failing.
pub const UNCLEANED_REST: Duration = Duration::from_secs(3600);

/// How soon a drive is to be cleaned.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CleaningUrgency {
    /// When nothing waits for it (TapeAlert 21, clean periodic).
    Idle,
    /// Before its next mount (TapeAlert 20, clean now).
    Now,
    /// The same by an operator's word, however lately it was cleaned.
    Ordered,
}

/// A drive is to be cleaned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CleaningDue {
    /// How soon.
    pub urgency: CleaningUrgency,
    /// Since when.
    pub since: Timestamp,
    /// With this cartridge only.
    pub with: Option<Vid>,
    /// When it was cleaned last.
    pub cleaned: Option<Timestamp>,
}

/// How the cleaning of a drive ended; the drive is empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CleaningEnd {
    /// It is clean.
    Cleaned,
    /// The cartridge is used up, or does not fit; which ones are left was told before.
    Unfit,
    /// It failed, and is tried again after a rest.
    Failed(String),
}

/// What keeps a drive from being cleaned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CleaningBar {
    /// Its library has no cleaning cartridge that can be used.
    NoCartridge,
    /// It was cleaned not long ago.
    Lately {
        /// When.
        cleaned: Timestamp,
    },
    /// It failed.
    Failed {
        /// When it is tried again.
        until: Timestamp,
        /// What was heard of it.
        cause: String,
    },
    /// All that could be used are in other drives.
    InUse,
}

/// A drive that is to be cleaned, and what came of trying.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Cleaning {
    due: CleaningDue,
    failures: u32,
    /// Until when it is not tried again, and why.
    rest: Option<(Timestamp, String)>,
}

impl Scheduler {
    /// A drive is to be cleaned, or not any more.
    pub(crate) fn clean_drive(&mut self, name: DriveName, due: Option<CleaningDue>) {
        match due {
            Some(due) => {
                let is_ordered = |it: &Cleaning| it.due.urgency == CleaningUrgency::Ordered;
                if due.urgency != CleaningUrgency::Ordered
                    && self.cleaning_due.get(&name).is_some_and(is_ordered)
                {
                    return;
                }
                let old = self.cleaning_due.remove(&name);
                // An operator's word is tried at once.
                let old = old.filter(|_| due.urgency != CleaningUrgency::Ordered);
                let (failures, rest) = old.map_or((0, None), |old| (old.failures, old.rest));
                self.cleaning_due.insert(name, Cleaning { due, failures, rest });
            }
            None => {
                self.cleaning_due.remove(&name);
            }
        }
    }

    pub(crate) fn cleaned(&mut self, name: &DriveName, end: CleaningEnd, now: Timestamp) {
        if matches!(self.state(name), Some(DriveState::Cleaning { .. })) {
            self.set_state(name, DriveState::Empty);
        }
        match end {
            CleaningEnd::Cleaned => {
                self.cleaning_due.remove(name);
            }
            CleaningEnd::Failed(cause) => self.rest_cleaning(name, cause, now),
            CleaningEnd::Unfit => {}
        }
    }

    /// A drive failed: if that was while it was cleaned, it is not cleaned again at once.
    pub(crate) fn cleaning_failed(&mut self, name: &DriveName, cause: &str, now: Timestamp) {
        if matches!(self.state(name), Some(DriveState::Cleaning { .. })) {
            self.rest_cleaning(name, cause.to_owned(), now);
        }
    }

    fn rest_cleaning(&mut self, name: &DriveName, cause: String, now: Timestamp) {
        let retry_delay = self.policy.retry_delay;
        if let Some(cleaning) = self.cleaning_due.get_mut(name) {
            let until = now.plus(back_off(retry_delay, cleaning.failures, BACK_OFF_MAX));
            cleaning.failures = cleaning.failures.saturating_add(1);
            cleaning.rest = Some((until, cause));
        }
    }

    /// What keeps a drive that is to be cleaned from it; `Ok`: the cartridge that cleans it.
    fn cleaner_of(&self, name: &DriveName, cleaning: &Cleaning, now: Timestamp) -> Result<Vid, CleaningBar> {
        let CleaningDue { urgency, with, cleaned, .. } = cleaning.due;
        let library = self.library_of(name);
        let fits = |vid: &Vid| with.is_none_or(|with| with == *vid);
        let usable = || {
            let own = self.cleaners.iter().filter(move |(of, _)| *of == library);
            own.map(|(_, vid)| *vid).filter(fits)
        };
        if usable().next().is_none() {
            return Err(CleaningBar::NoCartridge);
        }
        let lately = cleaned
            .filter(|cleaned| urgency != CleaningUrgency::Ordered && cleaned.plus(CLEAN_AGAIN_AFTER) > now);
        if let Some(cleaned) = lately {
            return Err(CleaningBar::Lately { cleaned });
        }
        if let Some((until, cause)) = cleaning.rest.as_ref().filter(|(until, _)| *until > now) {
            return Err(CleaningBar::Failed { until: *until, cause: cause.clone() });
        }
        let cleans = |vid: &Vid| {
            self.drives
                .values()
                .any(|it| matches!(it.state, DriveState::Cleaning { vid: of, .. } if of == *vid))
        };
        usable().find(|vid| !cleans(vid)).ok_or(CleaningBar::InUse)
    }

    /// What keeps a drive from being cleaned that is to be; `None` if nothing does, or it need not be.
    #[must_use]
    pub fn cleaning_bar(&self, name: &DriveName, now: Timestamp) -> Option<CleaningBar> {
        let cleaning = self.cleaning_due.get(name)?;
        self.cleaner_of(name, cleaning, now).err()
    }

    /// Whether a drive gets no tape before it is cleaned.
    pub(crate) fn waits_for_cleaning(&self, name: &DriveName, now: Timestamp) -> bool {
        let Some(cleaning) = self.cleaning_due.get(name) else { return false };
        let CleaningDue { urgency, since, .. } = cleaning.due;
        let goes_first = urgency != CleaningUrgency::Idle || since.plus(CLEAN_IDLE_MAX) <= now;
        match self.cleaner_of(name, cleaning, now) {
            Ok(_) | Err(CleaningBar::InUse) => goes_first,
            Err(_) => urgency == CleaningUrgency::Now && since.plus(UNCLEANED_REST) > now,
        }
    }

    /// Drives that are to be cleaned before anything else: those that can be are, tapes leave them, and one
    /// that has failed comes up for it.
    pub(crate) fn clean_first(&mut self, now: Timestamp, actions: &mut Vec<Action>) {
        let due: Vec<DriveName> = self.cleaning_due.keys().cloned().collect();
        for name in due {
            if !self.waits_for_cleaning(&name, now) || self.is_retiring(&name) {
                continue;
            }
            let can = self.cleaning_bar(&name, now).is_none();
            match self.state(&name) {
                Some(DriveState::Idle { .. }) if self.idle_vid(&name).is_some() => {
                    self.unmount(&name, actions);
                }
                Some(DriveState::Down { .. })
                    if can && self.failures.get(&name).is_some_and(|failure| failure.retry.is_some()) =>
                {
                    if let Some(failure) = self.failures.get_mut(&name) {
                        failure.retry = None;
                    }
                    self.drive_up(name.clone());
                    self.clean(&name, now, actions);
                }
                Some(DriveState::Empty) => {
                    self.clean(&name, now, actions);
                }
                _ => {}
            }
        }
    }

    /// Cleans an empty drive, if it is to be and can be.
    pub(crate) fn clean(&mut self, name: &DriveName, now: Timestamp, actions: &mut Vec<Action>) -> bool {
        let Some(cleaning) = self.cleaning_due.get(name) else { return false };
        let Ok(vid) = self.cleaner_of(name, cleaning, now) else { return false };
        if !self.has_robot(name) || self.state(name) != Some(&DriveState::Empty) {
            return false;
        }
        self.set_state(name, DriveState::Cleaning { vid, since: now });
        actions.push(Action::Clean { drive: name.clone(), vid });
        true
    }

    /// Whether something can be ordered for the sake of a drive that is to be cleaned.
    pub(crate) fn may_clean(&self, now: Timestamp) -> bool {
        self.cleaning_due.iter().any(|(name, cleaning)| match self.state(name) {
            Some(DriveState::Idle { .. }) => self.waits_for_cleaning(name, now),
            Some(DriveState::Empty | DriveState::Down { .. }) => self.cleaner_of(name, cleaning, now).is_ok(),
            _ => false,
        })
    }

    /// When something about drives that are to be cleaned may change by itself.
    pub(crate) fn cleaning_times(&self) -> impl Iterator<Item = Timestamp> {
        self.cleaning_due.values().flat_map(|cleaning| {
            let CleaningDue { since, cleaned, .. } = cleaning.due;
            let again = cleaned.map(|cleaned| cleaned.plus(CLEAN_AGAIN_AFTER));
            let rest = cleaning.rest.as_ref().map(|(until, _)| *until);
            [Some(since.plus(UNCLEANED_REST)), Some(since.plus(CLEAN_IDLE_MAX)), again, rest]
                .into_iter()
                .flatten()
        })
    }

    /// Why a drive that gets no tape before it is cleaned is not being cleaned.
    pub(crate) fn why_not_cleaned(&self, name: &DriveName, now: Timestamp) -> Option<Reason> {
        if !self.waits_for_cleaning(name, now) {
            return None;
        }
        self.why_unclean(name, now)
    }

    /// Why a drive that is to be cleaned is not, whether it is used meanwhile or not.
    #[must_use]
    pub fn why_unclean(&self, name: &DriveName, now: Timestamp) -> Option<Reason> {
        let drive = name.clone();
        let cleaning = self.cleaning_due.get(name)?;
        let rests_until =
            (self.waits_for_cleaning(name, now)).then(|| cleaning.due.since.plus(UNCLEANED_REST));
        match self.cleaner_of(name, cleaning, now) {
            Ok(_) => None,
            Err(bar) => Some(Reason::ToBeCleaned { drive, bar, rests_until }),
        }
    }

    /// The cleaning cartridges that may be used, by library, the first to be used first.
    pub(crate) fn cleaning_cartridges(&mut self, usable: Vec<(LibraryId, Vid)>) {
        self.cleaners = usable;
    }
}
