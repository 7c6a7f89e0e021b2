//! How a command ends, and data for the initiator.

use scsi::sense::{FieldPointer, SenseFormat};
use scsi::{Completion, Fault, Malformed, Sense, SenseKey, Status};

/// A command that did not end with GOOD.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// CHECK CONDITION.
    Check {
        /// Why, in either format: it is written in the one that the unit is set to.
        sense: Box<Sense>,
        /// What was asked for less what was done, for the information field.
        residual: Option<i64>,
        /// Bytes that were transferred nevertheless.
        transferred: usize,
    },
    /// RESERVATION CONFLICT.
    Conflict,
}

/// Bytes that were transferred, or how else it ended.
pub type Outcome = Result<usize, Refusal>;

impl From<Sense> for Refusal {
    fn from(sense: Sense) -> Refusal {
        Refusal::Check { sense: Box::new(sense), residual: None, transferred: 0 }
    }
}

impl Refusal {
    pub fn new(key: SenseKey, asc: u8, ascq: u8) -> Refusal {
        Sense::new(key, asc, ascq).into()
    }

    /// 5 with this code.
    pub fn illegal(asc: u8, ascq: u8) -> Refusal {
        Refusal::new(SenseKey::IllegalRequest, asc, ascq)
    }

    /// 5/24/00: a field of the command, by its byte.
    pub fn field(byte: u16) -> Refusal {
        Sense::invalid_field(FieldPointer { in_command: true, byte, bit: None }).into()
    }

    /// 5/24/00: a bit of the command.
    pub fn bit(byte: u16, bit: u8) -> Refusal {
        Sense::invalid_field(FieldPointer { in_command: true, byte, bit: Some(bit) }).into()
    }

    /// 5/26/00: a field of the parameter data, by its byte.
    pub fn parameter(byte: u16) -> Refusal {
        Sense::invalid_field(FieldPointer { in_command: false, byte, bit: None }).into()
    }

    /// 5/1A/00: less, or more, parameter data came than belongs to the command.
    pub fn parameter_length() -> Refusal {
        Refusal::illegal(0x1a, 0)
    }

    /// Parameter data that cannot be read.
    pub fn malformed(error: &Malformed) -> Refusal {
        match error.fault {
            Fault::Short { .. } => Refusal::parameter_length(),
            _ => Refusal::parameter(u16::try_from(error.at).unwrap_or(u16::MAX)),
        }
    }

    /// 2/3A/00.
    pub fn no_medium() -> Refusal {
        Refusal::new(SenseKey::NotReady, 0x3a, 0)
    }

    /// With what was asked for less what was done.
    pub fn with_residual(mut self, count: i64) -> Refusal {
        if let Refusal::Check { residual, .. } = &mut self {
            *residual = Some(count);
        }
        self
    }

    /// With bytes that were transferred before it.
    pub fn with_transferred(mut self, bytes: usize) -> Refusal {
        if let Refusal::Check { transferred, .. } = &mut self {
            *transferred = bytes;
        }
        self
    }

    /// The sense data in it, to be completed.
    pub fn with(mut self, change: impl FnOnce(&mut Sense)) -> Refusal {
        if let Refusal::Check { sense, .. } = &mut self {
            change(sense);
        }
        self
    }
}

/// What the initiator is told.
pub fn completion(outcome: Outcome, format: SenseFormat) -> Completion {
    match outcome {
        Ok(transferred) => Completion { status: Status::Good, sense: Vec::new(), transferred },
        Err(Refusal::Conflict) => {
            Completion { status: Status::ReservationConflict, sense: Vec::new(), transferred: 0 }
        }
        Err(Refusal::Check { sense, residual, transferred }) => {
            let mut sense = Sense { format, ..*sense };
            if let Some(residual) = residual {
                sense = sense.with_residual(residual);
            }
            Completion { status: Status::CheckCondition, sense: sense.encode(), transferred }
        }
    }
}

/// Gives the initiator as much of `data` as it has asked for. Its buffer may hold less, which it is told.
pub fn give(data: &[u8], allocation: u64, into: &mut [u8]) -> usize {
    let given = data.len().min(usize::try_from(allocation).unwrap_or(usize::MAX));
    for (to, from) in into.iter_mut().zip(data.iter().take(given)) {
        *to = *from;
    }
    given
}

/// The parameter data of a command: as many bytes as it says.
///
/// # Errors
/// 5/1A/00 if fewer came.
pub fn parameters(out: &[u8], length: u64) -> Result<&[u8], Refusal> {
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    out.get(..length).ok_or_else(Refusal::parameter_length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_given_than_was_asked_for_or_fits() {
        let mut into = [0; 4];
        assert_eq!(give(&[1, 2, 3], 2, &mut into), 2);
        assert_eq!(into, [1, 2, 0, 0]);
        assert_eq!(give(&[1, 2, 3, 4, 5, 6], 6, &mut into), 6, "more than fits is told as too little room");
        assert_eq!(into, [1, 2, 3, 4]);
        assert_eq!(parameters(&[1, 2], 3), Err(Refusal::illegal(0x1a, 0)));
    }

    #[test]
    fn a_residual_is_written_in_the_format_of_the_unit() {
        let refusal = Refusal::new(SenseKey::NoSense, 0, 1).with_residual(-3).with_transferred(7);
        for format in [SenseFormat::Fixed, SenseFormat::Descriptor] {
            let completion = completion(Err(refusal.clone()), format);
            let sense = Sense::decode(&completion.sense).unwrap();
            assert_eq!((sense.format, sense.residual(), completion.transferred), (format, Some(-3), 7));
        }
    }
}
