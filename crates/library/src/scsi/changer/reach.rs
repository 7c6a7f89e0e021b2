//! What a changer is driven with: the ways to it and to its drives, and what is known of them beforehand.

use std::ops::RangeInclusive;
use std::time::Duration;

use base::{ByteCount, Vid};
use scsi::vpd::Designator;
use scsi::{ElementAddress, Transport};

use crate::scsi::{DeviceChoice, ScsiDrive};
use crate::{DriveName, DriveProduct, TapeAlert, TapeDrive, TapeError};

/// A tape drive that a robot puts cartridges into.
pub trait LoadableDrive: Send {
    /// The drive, for reading and writing.
    fn tape(&mut self) -> &mut dyn TapeDrive;

    /// Whether a cartridge is loaded.
    fn is_loaded(&self) -> bool;

    /// What the drive can do, in words; nothing if it does not tell.
    fn abilities(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// What the drive says that it is; nothing if it does not tell.
    fn product(&self) -> Option<DriveProduct> {
        None
    }

    /// The robot has put a cartridge into the drive: loads it if the drive has not done so, and waits until
    /// it is ready.
    ///
    /// # Errors
    /// If it does not become ready.
    fn load(&mut self, vid: Vid) -> Result<(), TapeError>;

    /// Flushes if need be, and unloads whatever cartridge is in the drive, so that the robot can take it.
    /// Gives what failed of the flush.
    ///
    /// # Errors
    /// If the drive keeps the cartridge.
    fn unload(&mut self) -> Result<Option<TapeError>, TapeError>;

    /// The robot has put a cleaning cartridge into the drive: waits until the drive has done with it, `most`
    /// at the longest. Gives the flags that the drive has raised.
    ///
    /// # Errors
    /// If the drive says that it was not cleaned, or does not come to an end.
    fn clean(&mut self, most: Duration) -> Result<Vec<TapeAlert>, TapeError>;
}

/// A SCSI drive with its one handle.
pub struct SeatedDrive {
    drive: ScsiDrive,
    handle: Box<dyn TapeDrive>,
}

impl SeatedDrive {
    /// The drive; `None` if its handle is out.
    #[must_use]
    pub fn new(drive: ScsiDrive) -> Option<SeatedDrive> {
        let handle = drive.take()?;
        Some(SeatedDrive { drive, handle })
    }
}

impl LoadableDrive for SeatedDrive {
    fn tape(&mut self) -> &mut dyn TapeDrive {
        self.handle.as_mut()
    }

    fn is_loaded(&self) -> bool {
        self.handle.loaded()
    }

    fn abilities(&self) -> Vec<&'static str> {
        self.drive.abilities()
    }

    fn product(&self) -> Option<DriveProduct> {
        Some(self.drive.product())
    }

    fn load(&mut self, vid: Vid) -> Result<(), TapeError> {
        self.drive.load(vid).map(|_| ())
    }

    fn unload(&mut self) -> Result<Option<TapeError>, TapeError> {
        self.drive.let_out()
    }

    fn clean(&mut self, most: Duration) -> Result<Vec<TapeAlert>, TapeError> {
        self.drive.clean(most)
    }
}

/// A device that was not found, or not reached.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unreached(pub String);

/// Which drive is meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WantedDrive {
    /// Its name for the engine.
    pub name: DriveName,
    /// Its serial number, if the configuration has it.
    pub serial: Option<String>,
    /// Its identifier, if the changer tells it.
    pub identifier: Option<Designator>,
    /// Where it stands in the changer.
    pub element: ElementAddress,
}

/// Finds the devices of a library. Asked again after each loss: a device may have got another address.
pub trait Devices: Send + Sync {
    /// The way to the changer.
    ///
    /// # Errors
    /// If it is not found.
    fn changer(&self) -> Result<Box<dyn Transport>, Unreached>;

    /// A drive.
    ///
    /// # Errors
    /// If it is not found, or is another one than is wanted.
    fn drive(&self, wanted: &WantedDrive) -> Result<Box<dyn LoadableDrive>, Unreached>;
}

/// Where a drive stands in the changer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DriveSeat {
    /// It is the one with this number, from 0, in the order of element addresses.
    Number(u16),
    /// It has this serial number; the changer says where it stands.
    Serial(String),
    /// It has this serial number and stands there, for changers that do not say where which drive is.
    SerialAt(String, ElementAddress),
}

/// A text that says of no drive which it is.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("'{0}' is no drive: write serial:NUMBER, or ELEMENT=serial:NUMBER where the changer does not tell")]
pub struct DriveSeatError(pub String);

impl std::str::FromStr for DriveSeat {
    type Err = DriveSeatError;

    /// Reads `serial:1068000073` or `256=serial:1068000073`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || DriveSeatError(text.to_owned());
        let serial = |text: &str| match text.parse() {
            Ok(DeviceChoice::Serial(serial)) => Ok(serial),
            _ => Err(wrong()),
        };
        match text.split_once('=') {
            None => serial(text).map(DriveSeat::Serial),
            Some((at, rest)) => {
                let at = at.trim().parse().map_err(|_| wrong())?;
                Ok(DriveSeat::SerialAt(serial(rest.trim())?, ElementAddress(at)))
            }
        }
    }
}

/// What is known of a changer before it is reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScsiLibraryConfig {
    /// Addresses of the slots and doors that belong to this instance; `None`: all.
    pub slots: Option<Vec<RangeInclusive<u16>>>,
    /// The drives that belong to it, with names for the engine.
    pub drives: Vec<(DriveName, DriveSeat)>,
    /// What the data partition of an empty cartridge holds whose label does not say what medium it is; 0:
    /// not known.
    pub capacity: ByteCount,
    /// Times.
    pub times: ChangerTimes,
}

/// How long is waited for what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChangerTimes {
    /// For a changer that is becoming ready.
    pub ready: Duration,
    /// For elements that do not show yet what became of a movement.
    pub settle: Duration,
    /// After a movement without an answer the elements must say the same for so long.
    pub steady: Duration,
    /// A changer that was not reached is tried again after this time.
    pub reach_again: Duration,
    /// Without a unit attention the whole inventory is compared so often.
    pub compare: Duration,
}

impl Default for ChangerTimes {
    /// Robots of large libraries take up to two minutes for a move, and try a grip several times: ten minutes
    /// after a move that failed nothing moves any more. An inventory takes seconds of a large changer and is
    /// heard of by unit attentions as a rule: it is compared every ten minutes all the same, since attentions
    /// go to one initiator or get lost.
    fn default() -> ChangerTimes {
        ChangerTimes {
            ready: super::robot::READY_WAIT,
            settle: Duration::from_secs(600),
            steady: Duration::from_secs(30),
            reach_again: Duration::from_secs(10),
            compare: Duration::from_secs(600),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drives_are_named_by_their_serial_numbers() {
        let seat = |text: &str| text.parse::<DriveSeat>();
        assert_eq!(seat("serial:SN1").unwrap(), DriveSeat::Serial("SN1".to_owned()));
        assert_eq!(
            seat("257=serial:SN1").unwrap(),
            DriveSeat::SerialAt("SN1".to_owned(), ElementAddress(257))
        );
        for text in ["", "SN1", "serial:", "=serial:SN1", "x=serial:SN1", "70000=serial:SN1", "/dev/sg1"] {
            assert!(seat(text).is_err(), "{text}");
        }
    }
}
