//! What answers mean, and what is done about doubts.
//!
//! A condition that says that something changed leaves a [`Doubt`]. Before the next command the drive is then
//! looked at: is it ready, is it the same drive, is it still ours, is it set as it should be. Where the tape
//! stands is asked before the next command that goes by it (`position`).

use std::time::Duration;

use ::scsi::command::Primary;
use ::scsi::sense::UnitAttention;
use ::scsi::{Command, Data, Sense as SenseData, SenseKey, TransportFault};

use super::super::unit::{Done, Failure, Heard};
use super::{Doubt, Drive, Ended, identity};
use crate::{DeviceError, Sense, TapeError};

/// Conditions in a row that are taken note of before a command is given up: a device keeps one for each kind.
const CONDITIONS_MAX: u32 = 32;
/// Times that the drive is looked at before it is given up as one that does not come to rest.
const LOOKS_MAX: u32 = 8;
/// Times that a command without effect on the tape is sent again after its answer was lost.
const RESENT_MAX: u32 = 2;
/// Between two of them.
const RESEND_WAIT: Duration = Duration::from_secs(1);
/// Between two looks at a drive that becomes ready.
const READY_POLL: Duration = Duration::from_secs(1);
/// How long a drive with a cartridge in use may take to be ready again, as after a reset: the longest
/// movement.
pub const READY_WAIT_MAX: Duration = Duration::from_secs(50 * 60);

/// Why a command did not end as it should.
#[derive(Debug)]
pub enum Stop {
    /// Something changed before it: nothing was carried out, and it may be sent again.
    Again,
    /// The drive has something to say that depends on the command.
    Heard(Box<Heard>),
    /// It may have been carried out. The error says why there is no answer.
    Lost(TapeError),
    /// Nothing was carried out, and it is not sent again.
    Not(TapeError),
}

impl Drive {
    /// Sends a command once.
    pub fn once(&mut self, operation: &'static str, command: &Command, data: Data<'_>) -> Result<Done, Stop> {
        let failure = match self.unit.send(command, data) {
            Ok(done) => return Ok(done),
            Err(failure) => failure,
        };
        Err(match failure {
            Failure::Sense(heard) if heard.sense.deferred => Stop::Not(self.deferred(&heard)),
            Failure::Sense(heard) if heard.sense.unit_attention().is_some() => {
                match self.attention(&heard.sense) {
                    Ok(()) => Stop::Again,
                    Err(error) => Stop::Not(error),
                }
            }
            Failure::Sense(heard) if heard.sense.is_becoming_ready() => {
                self.doubt(Doubt::Way);
                Stop::Again
            }
            Failure::Sense(heard) => Stop::Heard(heard),
            Failure::Conflict => {
                // While it is being loaded it is not ours yet.
                if !self.handling {
                    self.end(Ended::Taken);
                }
                Stop::Not(TapeError::Reserved { drive: self.name.clone() })
            }
            Failure::Busy => {
                Stop::Not(TapeError::NotReady { drive: self.name.clone(), sense: Sense::NOT_READY })
            }
            lost @ (Failure::Lost(..) | Failure::Strange(_)) => {
                self.seen.answers_lost += 1;
                self.doubt(Doubt::Way);
                let may_be_done = lost.may_be_done();
                let error = self.unanswered(operation, &lost);
                if may_be_done { Stop::Lost(error) } else { Stop::Not(error) }
            }
        })
    }

    /// Sends a command that may be sent twice, while the drive is looked at: conditions are taken note of.
    pub fn quiet(
        &mut self,
        operation: &'static str,
        command: &Command,
        mut data: Data<'_>,
    ) -> Result<Done, Stop> {
        let mut resent = 0;
        for _ in 0..CONDITIONS_MAX {
            match self.once(operation, command, data.again()) {
                Err(Stop::Again) => self.await_ready(READY_WAIT_MAX).map_err(Stop::Not)?,
                Err(Stop::Lost(_)) if resent < RESENT_MAX => {
                    resent += 1;
                    self.unit.wait(RESEND_WAIT);
                }
                other => return other,
            }
        }
        Err(Stop::Not(self.restless(operation)))
    }

    /// Sends a command that may be sent twice and does not go by where the tape stands.
    pub fn anywhere(
        &mut self,
        operation: &'static str,
        command: &Command,
        mut data: Data<'_>,
    ) -> Result<Done, Stop> {
        let mut resent = 0;
        for _ in 0..LOOKS_MAX {
            self.look().map_err(Stop::Not)?;
            match self.once(operation, command, data.again()) {
                Err(Stop::Again) => {}
                Err(Stop::Lost(_)) if resent < RESENT_MAX => resent += 1,
                other => return other,
            }
        }
        Err(Stop::Not(self.restless(operation)))
    }

    /// As [`Drive::anywhere`], for an answer of at most `allocation` bytes.
    pub fn answer(
        &mut self,
        operation: &'static str,
        command: &Command,
        allocation: usize,
    ) -> Result<Vec<u8>, Stop> {
        self.answer_of(allocation, |drive, data| drive.anywhere(operation, command, data))
    }

    /// As [`Drive::quiet`], for an answer of at most `allocation` bytes.
    pub fn quiet_answer(
        &mut self,
        operation: &'static str,
        command: &Command,
        allocation: usize,
    ) -> Result<Vec<u8>, Stop> {
        self.answer_of(allocation, |drive, data| drive.quiet(operation, command, data))
    }

    /// An answer of at most `allocation` bytes from a drive of which nothing is in doubt. Conditions are
    /// taken note of, but nothing is waited for, and a lost answer is not asked for again.
    pub fn answer_at_once(
        &mut self,
        operation: &'static str,
        command: &Command,
        allocation: usize,
    ) -> Result<Vec<u8>, Stop> {
        self.answer_of(allocation, |drive, mut data| {
            for _ in 0..CONDITIONS_MAX {
                if drive.doubt.is_some() {
                    let (drive, sense) = (drive.name.clone(), Sense::NOT_READY);
                    return Err(Stop::Not(TapeError::NotReady { drive, sense }));
                }
                match drive.once(operation, command, data.again()) {
                    Err(Stop::Again) => {}
                    other => return other,
                }
            }
            Err(Stop::Not(drive.restless(operation)))
        })
    }

    fn answer_of(
        &mut self,
        allocation: usize,
        ask: impl FnOnce(&mut Drive, Data<'_>) -> Result<Done, Stop>,
    ) -> Result<Vec<u8>, Stop> {
        let mut answer = vec![0; allocation.min(self.unit.transfer_max())];
        let done = ask(self, Data::In(&mut answer))?;
        answer.truncate(done.transferred);
        Ok(answer)
    }

    /// What a stop is for who cannot do anything about it.
    pub fn error_of(&self, operation: &'static str, stop: Stop) -> TapeError {
        match stop {
            Stop::Again => self.restless(operation),
            Stop::Heard(heard) => self.typed(operation, &heard.sense),
            Stop::Lost(error) | Stop::Not(error) => error,
        }
    }

    /// The drive says something new to each command.
    fn restless(&self, operation: &'static str) -> TapeError {
        let source = DeviceError::Sense(Sense::INTERNAL_FAILURE);
        TapeError::DriveFailed { drive: self.name.clone(), operation, source }
    }

    /// An error of a command that was answered, but in a way that cannot be.
    pub fn strange(
        &self,
        operation: &'static str,
        what: impl std::error::Error + Send + Sync + 'static,
    ) -> TapeError {
        let source = std::io::Error::new(std::io::ErrorKind::InvalidData, what);
        TapeError::DriveFailed { drive: self.name.clone(), operation, source: source.into() }
    }

    /// The error of a command without an answer.
    pub(super) fn unanswered(&self, operation: &'static str, failure: &Failure) -> TapeError {
        let source = failure.device_error();
        match failure {
            Failure::Lost(error, _) if error.fault == TransportFault::Host => {
                TapeError::Host { operation, source }
            }
            _ => TapeError::Path { drive: self.name.clone(), operation, source },
        }
    }

    /// An earlier write failed after it had been taken: what of it stands on the tape is unknown.
    fn deferred(&mut self, heard: &Heard) -> TapeError {
        self.poison();
        let sense = SenseData { deferred: false, ..heard.sense.clone() };
        self.typed("write", &sense)
    }

    /// What sense data is that nothing special is known of. The table stands in docs/reference/scsi.md.
    pub fn typed(&self, operation: &'static str, sense: &SenseData) -> TapeError {
        let drive = self.name.clone();
        let source = DeviceError::Sense(sense.into());
        let vid = self.session.as_ref().map(|session| session.vid);
        match sense.key {
            SenseKey::NotReady if sense.is_medium_missing() => TapeError::NotLoaded { drive },
            _ if sense.needs_cleaning() => TapeError::CleaningNeeded { drive, sense: sense.into() },
            SenseKey::NotReady => TapeError::NotReady { drive, sense: sense.into() },
            SenseKey::UnitAttention => TapeError::Interrupted { drive, sense: sense.into() },
            // The way from host to drive: parity, a phase, an abort.
            SenseKey::AbortedCommand => TapeError::Path { drive, operation, source },
            key => match (vid, key) {
                (Some(vid), _) if sense.is_position_lost() => TapeError::PositionUnknown { vid },
                (Some(vid), _) if sense.is_write_protected() => TapeError::WriteProtected { vid },
                (
                    Some(vid),
                    SenseKey::DataProtect
                    | SenseKey::MediumError
                    | SenseKey::BlankCheck
                    | SenseKey::VolumeOverflow,
                ) => TapeError::Medium { vid, operation, source },
                _ => TapeError::DriveFailed { drive, operation, source },
            },
        }
    }

    /// Takes note of a unit attention condition.
    ///
    /// # Errors
    /// If it ends the use of the cartridge.
    fn attention(&mut self, sense: &SenseData) -> Result<(), TapeError> {
        let Some(attention) = sense.unit_attention() else { return Ok(()) };
        let doubt = match (attention, sense.additional.asc, sense.additional.ascq) {
            (UnitAttention::MediumMayHaveChanged | UnitAttention::ElementAccessed, ..) => {
                if self.session.is_some() && !self.handling {
                    self.end(Ended::Changed(sense.into()));
                    return Err(TapeError::Interrupted { drive: self.name.clone(), sense: sense.into() });
                }
                None
            }
            // 29/05 to 29/07: the wires changed, or the nexus was lost. The drive itself went on.
            (UnitAttention::Reset, _, 0x05..=0x07) => Some(Doubt::Way),
            (UnitAttention::Reset, ..) => Some(Doubt::Reset),
            // 2A/03, 2A/05: our reservation, or our key, was taken away.
            (UnitAttention::ParametersChanged, _, 0x03 | 0x05)
                if self.options.reservation_key.is_some() && self.session.is_some() && !self.handling =>
            {
                self.end(Ended::Taken);
                return Err(TapeError::Reserved { drive: self.name.clone() });
            }
            // 2A/11 to 2A/13: parameters of encryption, or a key, by another host.
            (UnitAttention::ParametersChanged, _, 0x11..=0x13) => Some(Doubt::Settings),
            // 2A/02 log parameters, 2A/10 the clock.
            (UnitAttention::ParametersChanged, _, 0x02 | 0x06..) => None,
            (UnitAttention::ParametersChanged | UnitAttention::InquiryDataChanged, ..) => {
                Some(Doubt::Settings)
            }
            // 2F/xx: another host has cleared our commands.
            (UnitAttention::Other, 0x2f, _) => Some(Doubt::Way),
            // 5A/xx operator requests, 5D/xx predictions of a failure, 0B/xx warnings, 38/xx, 5B/xx logs.
            (UnitAttention::Other, 0x0b | 0x38 | 0x5a | 0x5b | 0x5d | 0x5e, _) => None,
            (UnitAttention::Other, ..) => Some(Doubt::Way),
        };
        match doubt {
            Some(doubt) => {
                self.seen.looked_into += 1;
                self.doubt(doubt);
            }
            None => self.seen.swallowed += 1,
        }
        Ok(())
    }

    /// Waits until the drive is ready, and takes note of conditions. Without a cartridge in use it need not
    /// be.
    ///
    /// # Errors
    /// If it is not ready in time, or does not become so by itself.
    pub fn await_ready(&mut self, most: Duration) -> Result<(), TapeError> {
        let command = Command::from(Primary::TestUnitReady);
        let most_us = u64::try_from(most.as_micros()).unwrap_or(u64::MAX);
        let until_us = self.unit.now_us().saturating_add(most_us);
        let (mut conditions, mut lost) = (0, 0);
        loop {
            let failure = match self.unit.send(&command, Data::None) {
                Ok(_) => return Ok(()),
                Err(failure) => failure,
            };
            match failure {
                Failure::Sense(heard) if heard.sense.deferred => return Err(self.deferred(&heard)),
                Failure::Sense(heard) if heard.sense.unit_attention().is_some() => {
                    self.attention(&heard.sense)?;
                    conditions += 1;
                    if conditions > CONDITIONS_MAX {
                        return Err(self.restless("test unit ready"));
                    }
                }
                Failure::Sense(heard) if self.session.is_none() && heard.sense.key == SenseKey::NotReady => {
                    return Ok(());
                }
                Failure::Sense(heard) if heard.sense.is_becoming_ready() => {
                    self.doubt(Doubt::Way);
                    if self.unit.now_us() >= until_us {
                        return Err(self.typed("test unit ready", &heard.sense));
                    }
                    self.unit.wait(READY_POLL);
                }
                Failure::Sense(heard) => {
                    if heard.sense.is_medium_missing() && !self.handling {
                        self.end(Ended::Empty);
                    }
                    return Err(self.typed("test unit ready", &heard.sense));
                }
                Failure::Conflict => {
                    if !self.handling {
                        self.end(Ended::Taken);
                    }
                    return Err(TapeError::Reserved { drive: self.name.clone() });
                }
                Failure::Busy => {
                    return Err(TapeError::NotReady { drive: self.name.clone(), sense: Sense::NOT_READY });
                }
                unanswered => {
                    self.doubt(Doubt::Way);
                    lost += 1;
                    if lost > RESENT_MAX {
                        return Err(self.unanswered("test unit ready", &unanswered));
                    }
                    self.unit.wait(RESEND_WAIT);
                }
            }
        }
    }

    /// Looks at the drive if something is in doubt: afterwards it is ready, ours, and set as it should be.
    /// Where the tape stands is not looked at here.
    ///
    /// # Errors
    /// If it is not, or does not come to rest. The doubt stays.
    pub fn look(&mut self) -> Result<(), TapeError> {
        for _ in 0..LOOKS_MAX {
            let Some(doubt) = self.doubt.take() else { return Ok(()) };
            let looked = self.look_once();
            if let Err(error) = looked {
                self.doubt(doubt);
                return Err(error);
            }
        }
        Err(self.restless("test unit ready"))
    }

    fn look_once(&mut self) -> Result<(), TapeError> {
        self.await_ready(READY_WAIT_MAX)?;
        self.check_identity()?;
        if self.session.is_none() || self.handling {
            return Ok(());
        }
        self.session()?;
        self.check_reservation()?;
        self.set_up()
    }

    /// Whether this is still the drive that was opened: a path may lead elsewhere.
    pub fn check_identity(&mut self) -> Result<(), TapeError> {
        let (inquiry, found) = identity::read(&mut self.unit).map_err(|failure| match failure.sense() {
            Some(sense) => self.typed("inquiry", sense),
            None => self.unanswered("inquiry", &failure),
        })?;
        if identity::is_tape(&inquiry) && self.identity.is(&found) {
            return Ok(());
        }
        self.end(Ended::Changed(Sense::OTHER_DEVICE));
        let source = DeviceError::Sense(Sense::OTHER_DEVICE);
        Err(TapeError::Path { drive: self.name.clone(), operation: "inquiry", source })
    }
}
