//! A cleaning cartridge in the drive.
//!
//! Drives clean themselves when one is put in, in two to five minutes, and push it out then: they are not
//! ready, with 30/03 (cleaning cartridge installed) or as when they become ready, and say 3A/xx (medium not
//! present) in the end. Some say 30/03 until the cartridge is taken. Flags tell the rest: 11 that what is in
//! the drive is for cleaning, 22 and 23 that it did not clean, 20 that the drive is as dirty as before.

use std::time::Duration;

use ::scsi::command::Primary;
use ::scsi::log::{TapeAlerts, page};
use ::scsi::sense::Sense as SenseData;
use ::scsi::{Command, Data, SenseKey};

use super::super::unit::Failure;
use super::Drive;
use crate::{Sense, TapeAlert, TapeError};

/// Between two questions whether it is done.
const POLL: Duration = Duration::from_secs(5);
/// A drive that has not said yet that it cleans may not have noticed the cartridge: so long it is not
/// believed that it has none.
const NOTICED_WITHIN: Duration = Duration::from_secs(60);
/// So many questions in a row may go unanswered.
const UNANSWERED_MAX: u32 = 6;

/// What a drive says of a cleaning.
enum Progress {
    /// It cleans.
    Cleans(Sense),
    /// It has no cartridge.
    Empty,
    /// It is ready: what is in it is a tape.
    Ready,
    /// It refuses what is in it.
    Refused(TapeError),
    /// Nothing that says anything.
    Unknown(Sense),
}

/// How the wait for the end of a cleaning ended.
enum Waited {
    /// The drive has cleaned, by its own word.
    Cleaned,
    /// What is in it is a tape.
    IsTape,
    /// It has not said that it cleans: this, unless its flags say more.
    Unsaid(TapeError),
}

impl Drive {
    /// Waits for the end of a cleaning, and gives the flags raised since. Of a cartridge that turns out to be
    /// a tape the drive may not say that it is not for cleaning: then that flag is among them all the same.
    pub fn clean(&mut self, most: Duration) -> Result<Vec<TapeAlert>, TapeError> {
        // Of a tape that somebody took out by hand: the element was seen empty.
        self.session = None;
        self.handling = true;
        // Flags are gone once they are told: 20 is then of the time since.
        let before = self.flags_of_cartridge();
        let waited = self.await_cleaned(most);
        let after = self.raised_alerts();
        self.handling = false;
        let waited = waited?;
        let mut alerts = after?;
        alerts.extend(before.into_iter().filter(|alert| !alerts.contains(alert)).collect::<Vec<_>>());
        let has = |alert: TapeAlert| alerts.contains(&alert);
        if has(TapeAlert::CLEANER_USED_UP) || has(TapeAlert::CLEANER_INVALID) {
            return Ok(alerts);
        }
        match waited {
            Waited::IsTape if !has(TapeAlert::CLEANING_MEDIUM) => alerts.push(TapeAlert::CLEANER_INVALID),
            Waited::Unsaid(error) if !has(TapeAlert::CLEANING_MEDIUM) => return Err(error),
            Waited::IsTape | Waited::Unsaid(_) | Waited::Cleaned if has(TapeAlert::CLEAN_NOW) => {
                let sense = Sense::CLEANING_REQUESTED;
                return Err(TapeError::CleaningNeeded { drive: self.name.clone(), sense });
            }
            Waited::IsTape | Waited::Unsaid(_) | Waited::Cleaned => {}
        }
        Ok(alerts)
    }

    /// What the drive's flags say of the cartridge that was just put in. What it said of itself before is
    /// dropped. A drive that does not answer now is asked again when it has cleaned.
    fn flags_of_cartridge(&mut self) -> Vec<TapeAlert> {
        let of_cartridge =
            [TapeAlert::CLEANING_MEDIUM, TapeAlert::CLEANER_USED_UP, TapeAlert::CLEANER_INVALID];
        let Ok(Some(log)) = self.log_page_at_once(page::TAPE_ALERT) else { return Vec::new() };
        let raised = TapeAlerts::of_log(&log);
        raised.flags().map(TapeAlert).filter(|alert| of_cartridge.contains(alert)).collect()
    }

    fn await_cleaned(&mut self, most: Duration) -> Result<Waited, TapeError> {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let begun_us = self.unit.now_us();
        let (until_us, noticed_us) =
            (begun_us.saturating_add(micros(most)), begun_us.saturating_add(micros(NOTICED_WITHIN)));
        let (mut cleans, mut is_cleaner, mut unanswered) = (false, false, 0);
        loop {
            let progress = match self.unit.send(&Command::from(Primary::TestUnitReady), Data::None) {
                Ok(_) => Progress::Ready,
                Err(Failure::Sense(heard)) => self.progress(&heard.sense)?,
                Err(failure) => {
                    unanswered += 1;
                    if unanswered > UNANSWERED_MAX {
                        return Err(self.unanswered("clean", &failure));
                    }
                    Progress::Unknown(Sense::NOT_READY)
                }
            };
            let is_late = self.unit.now_us() >= until_us;
            match progress {
                // No tape makes a drive say 30/03.
                Progress::Ready if is_cleaner => return Ok(Waited::Cleaned),
                Progress::Ready => return Ok(Waited::IsTape),
                Progress::Refused(error) => return Ok(Waited::Unsaid(error)),
                Progress::Empty if cleans => return Ok(Waited::Cleaned),
                Progress::Empty if self.unit.now_us() >= noticed_us => {
                    return Ok(Waited::Unsaid(TapeError::NotLoaded { drive: self.name.clone() }));
                }
                // Until the cartridge is taken, as some do.
                Progress::Cleans(sense) if is_late && sense.code == 0x30 => return Ok(Waited::Cleaned),
                Progress::Cleans(sense) | Progress::Unknown(sense) if is_late => {
                    return Err(TapeError::NotReady { drive: self.name.clone(), sense });
                }
                Progress::Cleans(sense) => {
                    (cleans, unanswered) = (true, 0);
                    is_cleaner |= sense.code == 0x30;
                }
                Progress::Empty | Progress::Unknown(_) => {}
            }
            self.unit.wait(POLL);
        }
    }

    fn progress(&self, sense: &SenseData) -> Result<Progress, TapeError> {
        let heard = Sense::from(sense);
        if sense.unit_attention().is_some() {
            return Ok(Progress::Unknown(heard));
        }
        if sense.is_cleaning_cartridge() || sense.is_becoming_ready() {
            return Ok(Progress::Cleans(heard));
        }
        if sense.is_medium_missing() {
            return Ok(Progress::Empty);
        }
        match (sense.key, sense.additional.asc) {
            (_, 0x30) if sense.needs_cleaning() => Err(self.typed("clean", sense)),
            // Of another kind, or used up: its flags say which.
            (_, 0x30) => Ok(Progress::Refused(self.typed("clean", sense))),
            (SenseKey::NotReady, _) => Ok(Progress::Unknown(heard)),
            _ => Err(self.typed("clean", sense)),
        }
    }
}
