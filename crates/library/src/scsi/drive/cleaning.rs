//! A cleaning cartridge in the drive.
//!
//! Drives clean themselves when one is put in, in two to five minutes, and push it out then: they are not
//! ready, with 30/03 (cleaning cartridge installed) or as when they become ready, and say 3A/xx (medium not
//! present) in the end. Some say 30/03 until the cartridge is taken.

use std::time::Duration;

use ::scsi::command::Primary;
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
    /// It is ready, or refuses what is in it: it does not clean.
    Over,
    /// Nothing that says anything.
    Unknown(Sense),
}

impl Drive {
    /// Waits for the end of a cleaning, and gives the flags raised since.
    pub fn clean(&mut self, most: Duration) -> Result<Vec<TapeAlert>, TapeError> {
        // Of a tape that somebody took out by hand: the element was seen empty.
        self.session = None;
        self.handling = true;
        let done = self.await_cleaned(most);
        let alerts = self.raised_alerts();
        self.handling = false;
        done.and(alerts)
    }

    fn await_cleaned(&mut self, most: Duration) -> Result<(), TapeError> {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let begun_us = self.unit.now_us();
        let (until_us, noticed_us) =
            (begun_us.saturating_add(micros(most)), begun_us.saturating_add(micros(NOTICED_WITHIN)));
        let (mut cleans, mut unanswered) = (false, 0);
        loop {
            let progress = match self.unit.send(&Command::from(Primary::TestUnitReady), Data::None) {
                Ok(_) => Progress::Over,
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
                Progress::Over => return Ok(()),
                Progress::Empty if cleans || self.unit.now_us() >= noticed_us => return Ok(()),
                // Until the cartridge is taken, as some do.
                Progress::Cleans(sense) if is_late && sense.code == 0x30 => return Ok(()),
                Progress::Cleans(sense) | Progress::Unknown(sense) if is_late => {
                    return Err(TapeError::NotReady { drive: self.name.clone(), sense });
                }
                Progress::Cleans(_) => (cleans, unanswered) = (true, 0),
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
            (_, 0x30) => Ok(Progress::Over),
            (SenseKey::NotReady, _) => Ok(Progress::Unknown(heard)),
            _ => Err(self.typed("clean", sense)),
        }
    }
}
