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
    /// With this cartridge only, as long as it may be used.
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
    /// What the drive asks for itself.
    own: Option<CleaningDue>,
    /// An operator's word, which goes before it.
    order: Option<CleaningDue>,
    failures: u32,
    /// Until when it is not tried again, and why.
    rest: Option<(Timestamp, String)>,
    /// Cartridges with which it failed, the last one last: others go first.
    failed_with: Vec<Vid>,
    /// It has come up to be cleaned, before its rest was over: why it was down, and until when.
    was_down: Option<(String, Timestamp)>,
}

impl Cleaning {
    const NONE: Cleaning =
        Cleaning { own: None, order: None, failures: 0, rest: None, failed_with: Vec::new(), was_down: None };

    /// What counts now; one of the two is there.
    fn due(&self) -> Option<CleaningDue> {
        self.order.or(self.own)
    }

    /// Until when it gets no tape although it cannot be cleaned: it must be, by its own word.
    fn rests_until(&self) -> Option<Timestamp> {
        let must = self.own.filter(|own| own.urgency == CleaningUrgency::Now);
        must.map(|own| own.since.plus(UNCLEANED_REST))
    }

    /// A cartridge that may be used no more is not waited for: the drive is to be cleaned, with whatever
    /// does.
    fn forget_cartridges(&mut self, is_usable: impl Fn(Vid) -> bool) {
        if let Some(order) = &mut self.order {
            order.with = order.with.filter(|vid| is_usable(*vid));
        }
        self.failed_with.retain(|vid| is_usable(*vid));
    }
}

impl Scheduler {
    /// A drive is to be cleaned, or not any more.
    pub(crate) fn clean_drive(&mut self, name: DriveName, due: Option<CleaningDue>) {
        let Some(due) = due else {
            self.cleaning_due.remove(&name);
            return;
        };
        let cleaning = self.cleaning_due.entry(name.clone()).or_insert(Cleaning::NONE);
        if due.urgency == CleaningUrgency::Ordered {
            cleaning.order = Some(due);
            // An operator's word is tried at once.
            (cleaning.failures, cleaning.rest) = (0, None);
        } else {
            cleaning.own = Some(due);
        }
        self.forget_cleaners(&name);
    }

    fn forget_cleaners(&mut self, name: &DriveName) {
        let (library, cleaners) = (self.library_of(name), &self.cleaners);
        if let Some(cleaning) = self.cleaning_due.get_mut(name) {
            cleaning.forget_cartridges(|vid| cleaners.contains(&(library, vid)));
        }
    }

    pub(crate) fn cleaned(&mut self, name: &DriveName, end: CleaningEnd, now: Timestamp) {
        let Some(&DriveState::Cleaning { vid, .. }) = self.state(name) else {
            if end == CleaningEnd::Cleaned {
                self.cleaning_due.remove(name);
            }
            return;
        };
        self.set_state(name, DriveState::Empty);
        match end {
            CleaningEnd::Cleaned => {
                self.cleaning_due.remove(name);
                return;
            }
            CleaningEnd::Failed(cause) => self.rest_cleaning(name, vid, cause, now),
            CleaningEnd::Unfit => {
                if let Some(cleaning) = self.cleaning_due.get_mut(name) {
                    cleaning.forget_cartridges(|other| other != vid);
                }
            }
        }
        self.down_again(name);
    }

    /// A drive that has come up to be cleaned was not: it goes on resting.
    fn down_again(&mut self, name: &DriveName) {
        let was_down = self.cleaning_due.get_mut(name).and_then(|cleaning| cleaning.was_down.take());
        let Some((reason, retry)) = was_down else { return };
        // Without a failure an operator has said otherwise meanwhile.
        let Some(failure) = self.failures.get_mut(name) else { return };
        failure.retry = Some(retry);
        self.drive_down(name.clone(), reason);
    }

    /// A drive failed: if that was while it was cleaned, it is not cleaned again at once.
    pub(crate) fn cleaning_failed(&mut self, name: &DriveName, cause: &str, now: Timestamp) {
        if let Some(&DriveState::Cleaning { vid, .. }) = self.state(name) {
            self.rest_cleaning(name, vid, cause.to_owned(), now);
        }
        // It rests anew.
        if let Some(cleaning) = self.cleaning_due.get_mut(name) {
            cleaning.was_down = None;
        }
    }

    fn rest_cleaning(&mut self, name: &DriveName, vid: Vid, cause: String, now: Timestamp) {
        let retry_delay = self.policy.retry_delay;
        if let Some(cleaning) = self.cleaning_due.get_mut(name) {
            let until = now.plus(back_off(retry_delay, cleaning.failures, BACK_OFF_MAX));
            cleaning.failures = cleaning.failures.saturating_add(1);
            cleaning.rest = Some((until, cause));
            cleaning.failed_with.retain(|other| *other != vid);
            cleaning.failed_with.push(vid);
        }
    }

    /// What keeps a drive that is to be cleaned from it; `Ok`: the cartridge that cleans it.
    fn cleaner_of(&self, name: &DriveName, cleaning: &Cleaning, now: Timestamp) -> Result<Vid, CleaningBar> {
        let Some(CleaningDue { urgency, with, cleaned, .. }) = cleaning.due() else {
            return Err(CleaningBar::NoCartridge);
        };
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
        let failed = |vid: &Vid| {
            let place = cleaning.failed_with.iter().position(|other| other == vid);
            place.map_or(0, |place| place.saturating_add(1))
        };
        usable().filter(|vid| !cleans(vid)).min_by_key(failed).ok_or(CleaningBar::InUse)
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
        let Some(CleaningDue { urgency, since, .. }) = cleaning.due() else { return false };
        let goes_first = urgency != CleaningUrgency::Idle || since.plus(CLEAN_IDLE_MAX) <= now;
        match self.cleaner_of(name, cleaning, now) {
            Ok(_) | Err(CleaningBar::InUse) => goes_first,
            Err(_) => cleaning.rests_until().is_some_and(|until| until > now),
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
            match self.state(&name) {
                Some(DriveState::Idle { .. }) if self.idle_vid(&name).is_some() => {
                    self.unmount(&name, actions);
                }
                Some(DriveState::Down { reason }) if self.may_come_up_for_cleaning(&name, now) => {
                    let reason = reason.clone();
                    let retry = self.failures.get_mut(&name).and_then(|failure| failure.retry.take());
                    if let Some(cleaning) = self.cleaning_due.get_mut(&name) {
                        cleaning.was_down = retry.map(|retry| (reason, retry));
                    }
                    self.drive_up(name.clone());
                    let is_cleaned = self.clean(&name, now, actions);
                    assert!(is_cleaned, "a drive comes up before its rest is over only to be cleaned");
                }
                Some(DriveState::Empty) => {
                    self.clean(&name, now, actions);
                }
                _ => {}
            }
        }
    }

    /// Whether a drive that is down, and would be tried again by itself, can be cleaned now.
    fn may_come_up_for_cleaning(&self, name: &DriveName, now: Timestamp) -> bool {
        let rests = self.failures.get(name).is_some_and(|failure| failure.retry.is_some());
        rests && self.has_robot(name) && self.cleaning_bar(name, now).is_none()
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
            Some(DriveState::Idle { .. }) => {
                self.idle_vid(name).is_some() && self.waits_for_cleaning(name, now)
            }
            Some(DriveState::Empty) => self.has_robot(name) && self.cleaner_of(name, cleaning, now).is_ok(),
            Some(DriveState::Down { .. }) => {
                self.waits_for_cleaning(name, now) && self.may_come_up_for_cleaning(name, now)
            }
            _ => false,
        })
    }

    /// When something about drives that are to be cleaned may change by itself.
    pub(crate) fn cleaning_times(&self) -> impl Iterator<Item = Timestamp> {
        self.cleaning_due.values().flat_map(|cleaning| {
            let due = cleaning.due();
            let again = due.and_then(|due| due.cleaned).map(|cleaned| cleaned.plus(CLEAN_AGAIN_AFTER));
            let rest = cleaning.rest.as_ref().map(|(until, _)| *until);
            let asked_long = due.map(|due| due.since.plus(CLEAN_IDLE_MAX));
            [cleaning.rests_until(), asked_long, again, rest].into_iter().flatten()
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
        let rests_until = cleaning.rests_until().filter(|_| self.waits_for_cleaning(name, now));
        match self.cleaner_of(name, cleaning, now) {
            Ok(_) => None,
            Err(bar) => Some(Reason::ToBeCleaned { drive, bar, rests_until }),
        }
    }

    /// The cleaning cartridges that may be used, by library, the first to be used first.
    pub(crate) fn cleaning_cartridges(&mut self, usable: Vec<(LibraryId, Vid)>) {
        self.cleaners = usable;
        let names: Vec<DriveName> = self.cleaning_due.keys().cloned().collect();
        names.iter().for_each(|name| self.forget_cleaners(name));
    }
}
