//! Keeping other hosts from the drive while a cartridge is in use: a persistent reservation of exclusive
//! access, or where a drive has none, RESERVE(6).

use ::scsi::command::{PersistentIn, PersistentOut, Primary};
use ::scsi::reservation::{Reservation, ReservationKey, ReservationType, ReserveOut};
use ::scsi::{Command, Data, Packed, SenseKey};

use super::ability::op;
use super::condition::Stop;
use super::{Drive, Ended};
use crate::{Sense, TapeError};

/// Bytes of a reservation that are asked for.
const ANSWER_BYTES: u16 = 64;
const EXCLUSIVE: ReservationType = ReservationType::ExclusiveAccess;

/// How the drive is kept from other hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Hold {
    /// It is not.
    #[default]
    None,
    /// By a persistent reservation with our key.
    Persistent(ReservationKey),
    /// By RESERVE(6), which a reset ends.
    Plain,
}

/// What became of a change of reservations.
enum Changed {
    Done,
    /// The drive does not have the command.
    Refused,
    /// Another host is in the way.
    Conflict,
}

impl Drive {
    fn reserve_out(
        &mut self,
        service: PersistentOut,
        kind: ReservationType,
        key: ReservationKey,
        action_key: ReservationKey,
    ) -> Result<Changed, TapeError> {
        let list = ReserveOut { key, action_key, ..ReserveOut::default() }.encode();
        let length = u32::try_from(list.len()).unwrap_or(u32::MAX);
        let command = Primary::PersistentReserveOut { service, scope: 0, kind: kind.byte(), length };
        self.reserve_by(&Command::from(command), &list)
    }

    fn reserve_by(&mut self, command: &Command, list: &[u8]) -> Result<Changed, TapeError> {
        let data = if list.is_empty() { Data::None } else { Data::Out(list) };
        match self.quiet("reserve", command, data) {
            Ok(_) => Ok(Changed::Done),
            Err(Stop::Not(TapeError::Reserved { .. })) => Ok(Changed::Conflict),
            Err(Stop::Heard(heard)) if heard.sense.key == SenseKey::IllegalRequest => Ok(Changed::Refused),
            Err(stop) => Err(self.error_of("reserve", stop)),
        }
    }

    fn reserved(&self) -> TapeError {
        TapeError::Reserved { drive: self.name.clone() }
    }

    /// Reserves the drive, if it is to be and can.
    pub fn reserve(&mut self) -> Result<(), TapeError> {
        let Some(key) = self.options.reservation_key else { return Ok(()) };
        let nobody = ReservationKey::default();
        self.left_by_us = false;
        if self.abilities.may(op::PERSISTENT_RESERVE, 6) {
            self.left_by_us = self.holder()? == Some(key);
            match self.reserve_out(PersistentOut::RegisterAndIgnoreKey, ReservationType::None, nobody, key)? {
                Changed::Done => {
                    return match self.reserve_out(PersistentOut::Reserve, EXCLUSIVE, key, nobody)? {
                        Changed::Done => {
                            self.hold = Hold::Persistent(key);
                            Ok(())
                        }
                        // Of an earlier process of this host, which ended without giving the drive free.
                        Changed::Conflict if self.holder()? == Some(key) && self.preempt(key, key)? => {
                            self.hold = Hold::Persistent(key);
                            Ok(())
                        }
                        Changed::Conflict | Changed::Refused => {
                            self.reserve_out(PersistentOut::Register, ReservationType::None, key, nobody)?;
                            Err(self.reserved())
                        }
                    };
                }
                Changed::Conflict => return Err(self.reserved()),
                Changed::Refused => self.abilities.refused(op::PERSISTENT_RESERVE, 6),
            }
        }
        if self.abilities.may(op::RESERVE, 0) {
            match self.reserve_by(&Command::from(Primary::Reserve6), &[])? {
                Changed::Done => self.hold = Hold::Plain,
                Changed::Conflict => return Err(self.reserved()),
                Changed::Refused => self.abilities.refused(op::RESERVE, 0),
            }
        }
        Ok(())
    }

    /// Who holds the drive, if it can tell.
    pub fn holder(&mut self) -> Result<Option<ReservationKey>, TapeError> {
        let command = Command::from(Primary::PersistentReserveIn {
            service: PersistentIn::Reservation,
            allocation_length: ANSWER_BYTES,
        });
        match self.quiet_answer("read reservations", &command, usize::from(ANSWER_BYTES)) {
            Ok(answer) => {
                let found =
                    Reservation::decode(&answer).map_err(|error| self.strange("read reservations", error))?;
                Ok(found.holder.map(|holder| holder.key))
            }
            Err(Stop::Heard(heard)) if heard.sense.key == SenseKey::IllegalRequest => Ok(None),
            Err(stop) => Err(self.error_of("read reservations", stop)),
        }
    }

    /// Whether the drive is still ours. If it was free meanwhile, or is another's, the cartridge may have
    /// been used by somebody else.
    pub fn check_reservation(&mut self) -> Result<(), TapeError> {
        match self.hold {
            Hold::None => Ok(()),
            Hold::Persistent(key) => match self.holder()? {
                Some(holder) if holder == key => Ok(()),
                Some(_) => {
                    self.end(Ended::Taken);
                    Err(self.reserved())
                }
                None => {
                    self.end(Ended::Changed(Sense::RESERVATION_LOST));
                    Err(TapeError::Interrupted { drive: self.name.clone(), sense: Sense::RESERVATION_LOST })
                }
            },
            Hold::Plain => match self.reserve_by(&Command::from(Primary::Reserve6), &[])? {
                Changed::Done | Changed::Refused => Ok(()),
                Changed::Conflict => {
                    self.end(Ended::Taken);
                    Err(self.reserved())
                }
            },
        }
    }

    /// Gives the drive free.
    pub fn release(&mut self) -> Result<(), TapeError> {
        let nobody = ReservationKey::default();
        match std::mem::take(&mut self.hold) {
            Hold::None => Ok(()),
            Hold::Persistent(key) => {
                self.reserve_out(PersistentOut::Release, EXCLUSIVE, key, nobody)?;
                self.reserve_out(PersistentOut::Register, ReservationType::None, key, nobody)?;
                Ok(())
            }
            Hold::Plain => self.reserve_by(&Command::from(Primary::Release6), &[]).map(|_| ()),
        }
    }

    /// Takes the drive from the host that holds it, whose commands are ended.
    pub fn take_over(&mut self) -> Result<(), TapeError> {
        let Some(key) = self.options.reservation_key else { return Ok(()) };
        let nobody = ReservationKey::default();
        self.reserve_out(PersistentOut::RegisterAndIgnoreKey, ReservationType::None, nobody, key)?;
        let Some(holder) = self.holder()?.filter(|holder| *holder != key) else { return Ok(()) };
        if self.preempt(key, holder)? { Ok(()) } else { Err(self.reserved()) }
    }

    /// Takes the reservation from its holder, whose commands are ended. `false`: it stays reserved.
    fn preempt(&mut self, key: ReservationKey, holder: ReservationKey) -> Result<bool, TapeError> {
        let changed = self.reserve_out(PersistentOut::PreemptAndAbort, EXCLUSIVE, key, holder)?;
        Ok(matches!(changed, Changed::Done))
    }
}
