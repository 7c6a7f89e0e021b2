//! What a device says of a command that it did not carry out, and of its own health.

use std::fmt;
use std::io;
use std::time::Duration;

/// Sense data as far as a decision needs it: which SPC-5, table 29, and annex F of it explain.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Sense {
    /// The sense key, 0 to 15.
    pub key: u8,
    /// The additional sense code.
    pub code: u8,
    /// Its qualifier.
    pub qualifier: u8,
}

impl Sense {
    /// A failure inside a device (hardware error, internal target failure).
    pub const INTERNAL_FAILURE: Sense = Sense { key: 0x4, code: 0x44, qualifier: 0x00 };
    /// Another device answers than the one that was there (unit attention, device identifier changed).
    pub const OTHER_DEVICE: Sense = Sense { key: 0x6, code: 0x3f, qualifier: 0x05 };
    /// The reservation that was held is gone (unit attention, reservations released).
    pub const RESERVATION_LOST: Sense = Sense { key: 0x6, code: 0x2a, qualifier: 0x04 };
    /// Not ready, for no cause that is told.
    pub const NOT_READY: Sense = Sense { key: 0x2, code: 0x04, qualifier: 0x00 };
    /// A drive wants to be cleaned (recovered error, cleaning requested).
    pub const CLEANING_REQUESTED: Sense = Sense { key: 0x1, code: 0x00, qualifier: 0x17 };
    /// A cartridge could not be moved (hardware error, mechanical positioning error).
    pub const MOVE_FAILED: Sense = Sense { key: 0x4, code: 0x15, qualifier: 0x01 };
}

impl Sense {
    /// Key, code and qualifier as the field writes them, in hexadecimal digits: `4/53/00`.
    #[must_use]
    pub fn digits(self) -> String {
        format!("{:X}/{:02X}/{:02X}", self.key, self.code, self.qualifier)
    }

    /// The sense key in the words of the standard.
    #[must_use]
    pub fn key_name(self) -> String {
        scsi::SenseKey::of(self.key).to_string()
    }

    /// The code and its qualifier in the words of the standard; `None` if it has none for them.
    #[must_use]
    pub fn code_name(self) -> Option<&'static str> {
        scsi::sense::AdditionalSense { asc: self.code, ascq: self.qualifier }.name()
    }
}

impl fmt::Display for Sense {
    /// The digits, and what they mean, so that nobody has to look them up.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sense {}, {}", self.digits(), self.key_name())?;
        self.code_name().map_or(Ok(()), |name| write!(f, ": {name}"))
    }
}

/// What was heard of a command that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The operating system reported an error.
    #[error(transparent)]
    System(#[from] io::Error),
    /// The device reported sense data.
    #[error("{0}")]
    Sense(Sense),
    /// Nothing was heard in time. Whether the command was carried out is unknown.
    #[error("no answer within {} s", .0.as_secs())]
    TimeOut(Duration),
}

/// A flag that a drive raises about itself or its medium (TapeAlert, SSC-5 annex A).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TapeAlert(pub u8);

impl TapeAlert {
    /// What is in the drive is a cleaning cartridge.
    pub const CLEANING_MEDIUM: TapeAlert = TapeAlert(11);
    /// The drive must be cleaned before it works on.
    pub const CLEAN_NOW: TapeAlert = TapeAlert(20);
    /// The drive is to be cleaned soon.
    pub const CLEAN_PERIODIC: TapeAlert = TapeAlert(21);
    /// The cleaning cartridge is used up.
    pub const CLEANER_USED_UP: TapeAlert = TapeAlert(22);
    /// The cartridge for cleaning is none, or of another kind.
    pub const CLEANER_INVALID: TapeAlert = TapeAlert(23);

    /// What the flag means, for those that ask an operator to do something.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self.0 {
            1 => "reading is slow or needs many retries",
            2 => "writing is slow or needs many retries",
            3 => "an error that could not be corrected",
            4 => "the medium performs badly: copy what is on it",
            5 => "reading failed: medium or drive",
            6 => "writing failed: medium or drive",
            7 => "the medium is at the end of its life",
            11 => "a cleaning cartridge is in the drive",
            15 => "the cartridge's memory chip failed",
            20 => "clean the drive now",
            21 => "clean the drive soon",
            22 => "the cleaning cartridge is used up",
            23 => "the cartridge for cleaning is none, or of another kind",
            30 => "the drive's hardware failed",
            31 => "the drive's interface failed",
            39 => "the drive's diagnostics ask for service",
            _ => "see the drive's manual",
        }
    }
}

/// A flag that a medium changer raises about itself (TapeAlert, SMC-3 annex A): the numbers mean other things
/// than those of [`TapeAlert`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ChangerAlert(pub u8);

impl ChangerAlert {
    /// Its name in the standard.
    #[must_use]
    pub fn name(self) -> &'static str {
        scsi::log::changer_alert_name(self.0).unwrap_or("of no standard")
    }

    /// What the flag asks an operator to do.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self.0 {
            1 => "the robot hardly reaches a drive: look at its cables",
            2..=4 | 7 => "the robot's hardware fails, or is about to: call its maker",
            5 => "run the library's diagnostics",
            6 | 26 => "one of its ways to hosts has failed: look at cables and switches",
            8 => "its maintenance is due",
            9..=11 => "humidity, temperature or voltage in it are out of bounds",
            12 => "a cartridge is left where none should be: look into it",
            13..=15 => "the robot needs many tries to grip, put down or load a cartridge",
            16 => "its door is open, or was when it was to work",
            17 | 18 => "an import/export slot or a magazine is stuck or missing",
            19 => "its door was opened while it worked",
            21 => "an operator has taken it offline",
            22 => "it has taken a drive offline",
            23 | 32 => "it cannot read labels well: look at those of the cartridges",
            24 => "what it holds is not what it has noted: have it look again",
            27 => "a fan has failed",
            28 | 29 => "a power supply has failed, or takes too much",
            30 | 31 => "what passes cartridges on between its frames is stuck",
            _ => "see the library's manual",
        }
    }
}

impl fmt::Display for ChangerAlert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TapeAlert {}, {}: {}", self.0, self.name(), self.meaning())
    }
}

impl fmt::Display for TapeAlert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TapeAlert {}: {}", self.0, self.meaning())
    }
}
