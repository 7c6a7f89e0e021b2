//! One command to a logical unit and what came of it: what drive and changer share.
//!
//! What is the same for each device is dealt with here: a device that is busy is asked again, a command that
//! never left is sent again, and sense data that reports a success is one. What a condition means for
//! tape or robot (unit attentions above all) is for the caller to say.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use ::scsi::attribute::Attributes;
use ::scsi::opcodes::SupportedOpcodes;
use ::scsi::{
    Cdb, Command, Completion, Data, Malformed, Sense as SenseData, SenseKey, Status, Transport,
    TransportError, TransportFault,
};

use super::limits;
use crate::{DeviceError, Sense, Waiter};

/// How a command ended that was not carried out, or of which more is to be said than that it was.
#[derive(Debug)]
pub(crate) enum Failure {
    /// CHECK CONDITION.
    Sense(Box<Heard>),
    /// RESERVATION CONFLICT: another host has the device. Nothing was carried out.
    Conflict,
    /// The device is busy, and was so for [`BUSY_WAITS_MAX`] tries. Nothing was carried out.
    Busy,
    /// No answer came.
    Lost(TransportError, Duration),
    /// An answer came that cannot be understood. The command may have been carried out.
    Strange(Malformed),
}

/// Sense data, and what came with it.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    /// The sense data.
    pub sense: SenseData,
    /// Bytes that were transferred.
    pub transferred: usize,
}

/// A command that was carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Done {
    /// Bytes that were transferred.
    pub transferred: usize,
    /// The end of the partition comes near.
    pub early_warning: bool,
}

/// Times that a busy device is asked again.
pub(crate) const BUSY_WAITS_MAX: u32 = 60;
/// Between two of them.
const BUSY_WAIT: Duration = Duration::from_secs(1);
/// Times that a command that did not leave the host is sent again.
const UNSENT_MAX: u32 = 2;

/// A logical unit and the way to it.
pub(crate) struct Unit {
    transport: Box<dyn Transport>,
    waiter: Arc<dyn Waiter>,
    /// What the device says that its commands may take.
    said: BTreeMap<(u8, Option<u16>), Duration>,
}

/// A command as bytes.
///
/// # Panics
/// If a value is too large for its field, which is a mistake of the driver: it checks what it is asked for.
fn encoded(command: &Command) -> Cdb {
    let cdb = command.encode();
    assert!(cdb.is_ok(), "{cdb:?}");
    cdb.unwrap_or_else(|error| unreachable!("{error}"))
}

/// The service action by which the list of commands knows a command.
fn service_action(cdb: &Cdb) -> Option<u16> {
    let second = cdb.bytes().get(1).copied().unwrap_or(0);
    matches!(cdb.operation_code(), 0x5e | 0x5f | 0xa3 | 0xa4).then_some(u16::from(second & 0x1f))
}

impl Unit {
    /// A unit of which nothing is known yet.
    pub fn new(transport: Box<dyn Transport>, waiter: Arc<dyn Waiter>) -> Unit {
        Unit { transport, waiter, said: BTreeMap::new() }
    }

    /// The longest transfer.
    pub fn transfer_max(&self) -> usize {
        self.transport.transfer_max()
    }

    /// Where it is, for people.
    pub fn address(&self) -> &str {
        self.transport.address()
    }

    /// Microseconds by the waiter's clock.
    pub fn now_us(&self) -> u64 {
        self.waiter.now_us()
    }

    /// Lets time go by.
    pub fn wait(&self, time: Duration) {
        let time = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.waiter.wait_until(self.now_us().saturating_add(time));
    }

    /// Takes the times that the device recommends, where they are longer than ours. None is longer than
    /// [`limits::SAID_MAX`].
    pub fn believe(&mut self, known: &SupportedOpcodes) {
        for one in &known.0 {
            let Some(times) = &one.timeouts else { continue };
            let said = Duration::from_secs(u64::from(times.recommended_seconds)).min(limits::SAID_MAX);
            self.said.insert((one.operation, one.service_action), said);
        }
    }

    /// How long a command may take.
    fn limit(&self, cdb: &Cdb, command: &Command) -> Duration {
        let key = (cdb.operation_code(), service_action(cdb));
        let said = self.said.get(&key).copied().unwrap_or_default();
        limits::of(command).max(said)
    }

    /// Sends a command and waits for its end.
    ///
    /// # Errors
    /// All but GOOD and those conditions that report a command carried out in full.
    pub fn send(&mut self, command: &Command, mut data: Data<'_>) -> Result<Done, Failure> {
        let cdb = encoded(command);
        let limit = self.limit(&cdb, command);
        let (mut busy, mut unsent) = (0, 0);
        loop {
            match self.transport.execute(&cdb, data.again(), limit) {
                Ok(Completion { status: Status::Busy | Status::TaskSetFull, .. })
                    if busy < BUSY_WAITS_MAX =>
                {
                    busy += 1;
                    self.wait(BUSY_WAIT);
                }
                Ok(completion) => return ended(&completion, limit),
                Err(error) if !error.may_be_done && unsent < UNSENT_MAX => {
                    unsent += 1;
                    self.wait(BUSY_WAIT);
                }
                Err(error) => return Err(Failure::Lost(error, limit)),
            }
        }
    }

    /// Sends a command whose answer is data of at most `allocation` bytes.
    ///
    /// # Errors
    /// As [`Unit::send`].
    pub fn ask(&mut self, command: &Command, allocation: usize) -> Result<Vec<u8>, Failure> {
        let mut answer = vec![0; allocation.min(self.transfer_max())];
        let done = self.send(command, Data::In(&mut answer))?;
        answer.truncate(done.transferred);
        Ok(answer)
    }
}

/// What the end of a command says.
fn ended(completion: &Completion, limit: Duration) -> Result<Done, Failure> {
    let transferred = completion.transferred;
    match completion.status {
        Status::Good | Status::ConditionMet => Ok(Done { transferred, early_warning: false }),
        Status::CheckCondition => {
            let sense = SenseData::decode(&completion.sense).map_err(Failure::Strange)?;
            if is_success(&sense) {
                let early_warning = sense.is_early_warning() || sense.is_programmable_early_warning();
                return Ok(Done { transferred, early_warning });
            }
            Err(Failure::Sense(Box::new(Heard { sense, transferred })))
        }
        Status::ReservationConflict => Err(Failure::Conflict),
        Status::Busy | Status::TaskSetFull | Status::AcaActive => Err(Failure::Busy),
        // Another host ended the command, in whole or in part.
        Status::TaskAborted | Status::Other(_) => {
            let what = format!("the device ended the command with status {:02X}h", completion.status.byte());
            let error = TransportError { fault: TransportFault::Protocol, may_be_done: true, what };
            Err(Failure::Lost(error, limit))
        }
    }
}

/// Whether sense data comes with a command that was carried out in full: no error, or one that the device
/// got over, and none of the marks that say that it stopped early.
fn is_success(sense: &SenseData) -> bool {
    matches!(sense.key, SenseKey::NoSense | SenseKey::RecoveredError | SenseKey::Completed)
        && !sense.deferred
        && !sense.incorrect_length
        && !sense.is_filemark()
        && !sense.is_end_of_data()
        && !sense.is_beginning_of_partition()
}

impl From<&SenseData> for Sense {
    fn from(sense: &SenseData) -> Sense {
        Sense { key: sense.key.byte(), code: sense.additional.asc, qualifier: sense.additional.ascq }
    }
}

impl Failure {
    /// Sense data of a condition, if that is what was heard.
    pub fn sense(&self) -> Option<&SenseData> {
        match self {
            Failure::Sense(heard) => Some(&heard.sense),
            _ => None,
        }
    }

    /// Whether the device refuses the command, or a field of it, as one that it does not have.
    pub fn is_refusal(&self) -> bool {
        self.sense().is_some_and(|sense| {
            sense.key == SenseKey::IllegalRequest
                && !sense.deferred
                && matches!(sense.additional.asc, 0x20 | 0x24 | 0x26)
        })
    }

    /// Whether the command may have been carried out although no answer says so.
    pub fn may_be_done(&self) -> bool {
        match self {
            Failure::Lost(error, _) => error.may_be_done,
            Failure::Strange(_) => true,
            Failure::Sense(_) | Failure::Conflict | Failure::Busy => false,
        }
    }

    /// What was heard, for an error.
    pub fn device_error(&self) -> DeviceError {
        match self {
            Failure::Sense(heard) => DeviceError::Sense((&heard.sense).into()),
            Failure::Lost(error, limit) if error.fault == TransportFault::TimeOut => {
                DeviceError::TimeOut(*limit)
            }
            Failure::Lost(error, _) => DeviceError::System(io::Error::other(error.clone())),
            Failure::Strange(error) => {
                DeviceError::System(io::Error::new(io::ErrorKind::InvalidData, error.clone()))
            }
            // A busy device has no sense data: NOT READY, cause not reportable, is what it comes to.
            Failure::Busy | Failure::Conflict => DeviceError::Sense(Sense::NOT_READY),
        }
    }
}

/// The value of one attribute in an answer, `None` if it is not the first one there, or empty.
pub(crate) fn attribute_of(answer: &[u8], id: u16) -> Result<Option<Vec<u8>>, Malformed> {
    let all = Attributes::decode(answer)?;
    Ok(all.find(id).map(|found| found.value.clone()).filter(|value| !value.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completion(status: Status, sense: Option<SenseData>) -> Completion {
        let sense = sense.map(|sense| sense.encode()).unwrap_or_default();
        Completion { status, sense, transferred: 7 }
    }

    fn heard(sense: SenseData) -> Result<Done, Failure> {
        ended(&completion(Status::CheckCondition, Some(sense)), Duration::from_secs(1))
    }

    #[test]
    fn a_condition_that_reports_a_success_is_one() {
        let good = |early_warning| Done { transferred: 7, early_warning };
        let near = SenseData { end_of_medium: true, ..SenseData::new(SenseKey::NoSense, 0, 2) };
        assert_eq!(heard(near).unwrap(), good(true));
        let zone = SenseData { end_of_medium: true, ..SenseData::new(SenseKey::NoSense, 0, 7) };
        assert_eq!(heard(zone).unwrap(), good(true));
        assert_eq!(heard(SenseData::new(SenseKey::RecoveredError, 0x00, 0x17)).unwrap(), good(false));
    }

    #[test]
    fn a_condition_that_reports_a_stop_is_none() {
        let mark = SenseData { filemark: true, ..SenseData::new(SenseKey::NoSense, 0, 1) };
        let end = SenseData::new(SenseKey::NoSense, 0, 5);
        let short = SenseData { incorrect_length: true, ..SenseData::default() };
        let deferred = SenseData { deferred: true, ..SenseData::new(SenseKey::RecoveredError, 0, 0) };
        for sense in [mark, end, short, deferred, SenseData::new(SenseKey::MediumError, 0x11, 0)] {
            assert!(matches!(heard(sense), Err(Failure::Sense(_))));
        }
    }

    #[test]
    fn what_other_statuses_are() {
        let of = |status| ended(&completion(status, None), Duration::from_secs(1));
        assert!(matches!(of(Status::ReservationConflict), Err(Failure::Conflict)));
        assert!(matches!(of(Status::Busy), Err(Failure::Busy)));
        let aborted = of(Status::TaskAborted).unwrap_err();
        assert!(aborted.may_be_done(), "{aborted:?}");
        // A check condition without sense data says nothing of what was done.
        assert!(of(Status::CheckCondition).unwrap_err().may_be_done());
    }
}
