//! How a command gets to a device and its answer back.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

/// A command descriptor block of 6, 10, 12 or 16 bytes: the command as it goes over the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cdb {
    bytes: [u8; Cdb::LENGTH_MAX],
    length: u8,
}

/// The length of a command descriptor block that no operation code has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a command of {0} bytes is not known: commands have 6, 10, 12 or 16")]
pub struct CdbLength(pub usize);

impl Cdb {
    /// The longest one.
    pub const LENGTH_MAX: usize = 16;

    /// Takes the bytes of a command.
    ///
    /// # Errors
    /// If they are not 6, 10, 12 or 16.
    pub fn new(bytes: &[u8]) -> Result<Cdb, CdbLength> {
        let mut all = [0; Cdb::LENGTH_MAX];
        match bytes.len() {
            length @ (6 | 10 | 12 | 16) => {
                for (own, byte) in all.iter_mut().zip(bytes) {
                    *own = *byte;
                }
                Ok(Cdb { bytes: all, length: u8::try_from(length).map_err(|_| CdbLength(length))? })
            }
            other => Err(CdbLength(other)),
        }
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or(&self.bytes)
    }

    /// The operation code, its first byte.
    #[must_use]
    pub fn operation_code(&self) -> u8 {
        self.bytes[0]
    }
}

impl fmt::Debug for Cdb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cdb(")?;
        for (at, byte) in self.bytes().iter().enumerate() {
            write!(f, "{}{byte:02X}", if at == 0 { "" } else { " " })?;
        }
        f.write_str(")")
    }
}

/// Which way the data of a command goes, and where it is.
#[derive(Debug)]
pub enum Data<'a> {
    /// The command has none.
    None,
    /// From the device, into this buffer. Its length is what the command asks for.
    In(&'a mut [u8]),
    /// To the device.
    Out(&'a [u8]),
    /// From the device, into two buffers as if the second began where the first ends: a block, and behind it
    /// its checksum, which need not stand in one piece of memory.
    InParts([&'a mut [u8]; 2]),
    /// To the device, the second right behind the first.
    OutParts([&'a [u8]; 2]),
}

impl<'a> Data<'a> {
    /// Bytes that the command moves, at most.
    #[must_use]
    pub fn length(&self) -> usize {
        match self {
            Data::None => 0,
            Data::In(into) => into.len(),
            Data::Out(out) => out.len(),
            Data::InParts([first, second]) => first.len() + second.len(),
            Data::OutParts([first, second]) => first.len() + second.len(),
        }
    }

    /// Whether data comes from the device.
    #[must_use]
    pub fn is_in(&self) -> bool {
        matches!(self, Data::In(_) | Data::InParts(_))
    }

    /// Whether data goes to the device.
    #[must_use]
    pub fn is_out(&self) -> bool {
        matches!(self, Data::Out(_) | Data::OutParts(_))
    }

    /// The same data once more, for another try.
    pub fn again(&mut self) -> Data<'_> {
        match self {
            Data::None => Data::None,
            Data::In(into) => Data::In(into),
            Data::Out(out) => Data::Out(out),
            Data::InParts([first, second]) => Data::InParts([first, second]),
            Data::OutParts(parts) => Data::OutParts(*parts),
        }
    }

    /// What goes to the device, from `range.start` on up to `range.end`. `None` if it is not as long.
    #[must_use]
    pub fn out_range(&self, range: Range<usize>) -> Option<[&'a [u8]; 2]> {
        let [first, second] = match self {
            Data::OutParts(parts) => *parts,
            Data::Out(out) => [out, &[][..]],
            Data::None | Data::In(_) | Data::InParts(_) => [&[][..]; 2],
        };
        let (of_first, of_second) = split_range(first.len(), range);
        Some([first.get(of_first)?, second.get(of_second)?])
    }

    /// Where what comes from the device belongs, from `range.start` on up to `range.end`. `None` if there is
    /// no such room.
    pub fn in_range(&mut self, range: Range<usize>) -> Option<[&mut [u8]; 2]> {
        let [first, second] = match self {
            Data::InParts([first, second]) => [&mut **first, &mut **second],
            Data::In(into) => [&mut **into, &mut []],
            Data::None | Data::Out(_) | Data::OutParts(_) => [&mut [][..], &mut []],
        };
        let (of_first, of_second) = split_range(first.len(), range);
        Some([first.get_mut(of_first)?, second.get_mut(of_second)?])
    }

    /// For a way that takes buffers in one piece only: `work` gets what goes out and where to put what comes
    /// in. Data in parts is copied by way of `bounce`.
    pub fn in_one_piece<T>(self, bounce: &mut Vec<u8>, work: impl FnOnce(&[u8], &mut [u8]) -> T) -> T {
        match self {
            Data::None => work(&[], &mut []),
            Data::In(into) => work(&[], into),
            Data::Out(out) => work(out, &mut []),
            Data::OutParts(parts) => {
                bounce.clear();
                parts.into_iter().for_each(|part| bounce.extend_from_slice(part));
                work(bounce, &mut [])
            }
            Data::InParts([first, second]) => {
                bounce.resize(first.len() + second.len(), 0);
                let done = work(&[], bounce);
                let (of_first, of_second) = bounce.split_at(first.len());
                first.copy_from_slice(of_first);
                second.copy_from_slice(of_second);
                done
            }
        }
    }
}

/// What a range of two parts is in each of them, the first of which has `length` bytes.
fn split_range(length: usize, range: Range<usize>) -> (Range<usize>, Range<usize>) {
    let first = range.start.min(length)..range.end.min(length);
    (first, range.start.saturating_sub(length)..range.end.saturating_sub(length))
}

/// The status byte that ends a command (SAM-6, 5.3.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Status {
    /// 00h: carried out.
    Good,
    /// 02h: there is sense data to look at.
    CheckCondition,
    /// 04h: carried out, and a condition was met.
    ConditionMet,
    /// 08h: not carried out, the device is busy.
    Busy,
    /// 18h: not carried out, another initiator holds a reservation.
    ReservationConflict,
    /// 28h: not carried out, the device's queue is full.
    TaskSetFull,
    /// 30h: not carried out: an earlier command ended with an auto contingent allegiance.
    AcaActive,
    /// 40h: another initiator aborted it.
    TaskAborted,
    /// What no standard knows.
    Other(u8),
}

impl Status {
    /// The byte of a status.
    #[must_use]
    pub fn byte(self) -> u8 {
        match self {
            Status::Good => 0x00,
            Status::CheckCondition => 0x02,
            Status::ConditionMet => 0x04,
            Status::Busy => 0x08,
            Status::ReservationConflict => 0x18,
            Status::TaskSetFull => 0x28,
            Status::AcaActive => 0x30,
            Status::TaskAborted => 0x40,
            Status::Other(byte) => byte,
        }
    }

    /// The status of a byte.
    #[must_use]
    pub fn of(byte: u8) -> Status {
        match byte {
            0x00 => Status::Good,
            0x02 => Status::CheckCondition,
            0x04 => Status::ConditionMet,
            0x08 => Status::Busy,
            0x18 => Status::ReservationConflict,
            0x28 => Status::TaskSetFull,
            0x30 => Status::AcaActive,
            0x40 => Status::TaskAborted,
            other => Status::Other(other),
        }
    }
}

/// How a command ended that the device answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The status byte.
    pub status: Status,
    /// The sense data as it came, empty if there was none. At most [`Completion::SENSE_MAX`] bytes.
    pub sense: Vec<u8>,
    /// Bytes that were really transferred, at most those of the buffer. What is behind them in a buffer for
    /// data from the device is undefined.
    pub transferred: usize,
}

impl Completion {
    /// The most sense data that SPC-5 allows (4.4.1).
    pub const SENSE_MAX: usize = 252;
}

/// Why nothing is known of a command's end, or why it was not begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransportFault {
    /// No answer came in time. The transport has aborted the command, or ended the session, before it says
    /// so: nothing of it arrives any more.
    TimeOut,
    /// The way to the device broke while the command was on it.
    Path,
    /// The device answered what no device may.
    Protocol,
    /// The host cannot carry the command out: a buffer, a limit of its adapter, a right.
    Host,
}

/// A command whose end is not known.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what}")]
pub struct TransportError {
    /// What kind of fault.
    pub fault: TransportFault,
    /// Whether the device may have carried the command out, wholly or in part. If not, it may be sent again.
    pub may_be_done: bool,
    /// In words, with the address of the device and the next step.
    pub what: String,
}

/// The way to one logical unit. Blocking: one command at a time, ended by an answer or a fault.
pub trait Transport: Send {
    /// Sends a command and waits for its end, no longer than `limit` (and the time that giving it up takes).
    /// The buffers are used as they are, without a copy of their bytes but the socket's.
    ///
    /// # Errors
    /// If no answer came: [`TransportError`]. The next command tries to reach the device anew.
    fn execute(&mut self, cdb: &Cdb, data: Data<'_>, limit: Duration) -> Result<Completion, TransportError>;

    /// The longest transfer in bytes that one command may have on this way.
    fn transfer_max(&self) -> usize;

    /// Where it leads, for people: `/dev/sg3`, `iscsi://127.0.0.1:3260/iqn…/1`.
    fn address(&self) -> &str;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lengths_that_operation_codes_have_make_a_command() {
        for length in 0..40 {
            let made = Cdb::new(&vec![0x12; length]);
            let fits = matches!(length, 6 | 10 | 12 | 16);
            assert_eq!(made.is_ok(), fits, "{length} bytes");
            assert!(made.is_err() || made.is_ok_and(|cdb| cdb.bytes() == vec![0x12; length]));
        }
    }

    /// A range of data in two parts is what it is of the same bytes in one piece.
    #[test]
    fn parts_are_as_one_piece() {
        let whole: Vec<u8> = (0..7).collect();
        for cut in 0..=7 {
            let (first, second) = whole.split_at(cut);
            let data = Data::OutParts([first, second]);
            assert_eq!((data.length(), data.is_out(), data.is_in()), (7, true, false));
            for begin in 0..=9 {
                for end in begin..=9 {
                    let found = data.out_range(begin..end).map(|parts| parts.concat());
                    assert_eq!(found.as_deref(), whole.get(begin..end), "{begin}..{end} cut at {cut}");
                    let mut into = [0; 7];
                    let (first, second) = into.split_at_mut(cut);
                    let mut room = Data::InParts([first, second]);
                    assert_eq!((room.length(), room.is_out(), room.is_in()), (7, false, true));
                    let filled = room.again().in_range(begin..end).map(|parts| {
                        parts.into_iter().flatten().for_each(|byte| *byte = 9);
                    });
                    assert_eq!(filled.is_some(), end <= 7);
                    let expected =
                        |at: usize| if filled.is_some() && (begin..end).contains(&at) { 9 } else { 0 };
                    assert!(into.iter().enumerate().all(|(at, byte)| *byte == expected(at)), "{into:?}");
                }
            }
            let mut bounce = vec![1; 20];
            data.in_one_piece(&mut bounce, |out, into| assert_eq!((out, into), (&whole[..], &mut [][..])));
            let mut into = [0; 7];
            let (first, second) = into.split_at_mut(cut);
            Data::InParts([first, second]).in_one_piece(&mut bounce, |_, into| into.copy_from_slice(&whole));
            assert_eq!(into, whole[..]);
        }
        assert!(Data::None.out_range(0..1).is_none() && Data::None.in_range(0..1).is_none());
    }

    #[test]
    fn every_byte_is_a_status_and_comes_back() {
        for byte in 0..=255 {
            assert_eq!(Status::of(byte).byte(), byte);
        }
    }
}
