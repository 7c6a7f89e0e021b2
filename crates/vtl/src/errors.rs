//! What errors of the library's traits are in sense data. The table for people is in
//! docs/reference/virtual-library.md.

use library::{DeviceError, LibraryError, TapeError};
use scsi::{Sense, SenseKey};

use crate::answer::Refusal;

fn sense_of(sense: library::Sense) -> Refusal {
    Refusal::new(SenseKey::of(sense.key), sense.code, sense.qualifier)
}

/// What the device below said, if it said something; otherwise this.
fn or(source: &DeviceError, otherwise: Refusal) -> Refusal {
    match source {
        DeviceError::Sense(sense) => sense_of(*sense),
        _ => otherwise,
    }
}

/// 5/26/02 for an attribute: too long, too many segments.
fn bad_value() -> Refusal {
    Refusal::illegal(0x26, 0x02)
}

impl From<TapeError> for Refusal {
    fn from(error: TapeError) -> Refusal {
        use SenseKey::{AbortedCommand, BlankCheck, DataProtect, HardwareError, MediumError, VolumeOverflow};
        match error {
            TapeError::NotLoaded { .. } => Refusal::no_medium(),
            TapeError::WriteProtected { .. } => Refusal::new(DataProtect, 0x27, 0x00),
            TapeError::Worm { .. } => Refusal::new(DataProtect, 0x30, 0x0c),
            TapeError::EndOfMedium { .. } => {
                Refusal::new(VolumeOverflow, 0x00, 0x02).with(|sense| sense.end_of_medium = true)
            }
            // Lengths are checked before the drive is asked: the transfer length of READ and WRITE.
            TapeError::BlockLength { .. } | TapeError::FileMarkCount { .. } => Refusal::field(2),
            TapeError::BufferTooSmall { .. } => {
                Refusal::new(SenseKey::NoSense, 0, 0).with(|sense| sense.incorrect_length = true)
            }
            TapeError::Unreadable { .. } => Refusal::new(MediumError, 0x11, 0x00),
            // Unable to decrypt data; incorrect data encryption key; unencrypted data encountered while
            // decrypting; encryption parameters not usable.
            TapeError::KeyMissing { .. } => Refusal::new(DataProtect, 0x74, 0x01),
            TapeError::WrongKey { .. } => Refusal::new(DataProtect, 0x74, 0x03),
            TapeError::NotEncrypted { .. } => Refusal::new(DataProtect, 0x74, 0x02),
            TapeError::EncryptionUnsupported { .. } => Refusal::new(DataProtect, 0x74, 0x07),
            TapeError::BeyondEndOfData { .. } => Refusal::new(BlankCheck, 0x00, 0x05),
            TapeError::Medium { operation: "read", source, .. } => {
                or(&source, Refusal::new(MediumError, 0x11, 0x00))
            }
            TapeError::Medium { operation: "memory write", source, .. } => {
                or(&source, Refusal::new(MediumError, 0x0c, 0x0b))
            }
            TapeError::Medium { source, .. } => or(&source, Refusal::new(MediumError, 0x0c, 0x00)),
            TapeError::DriveFailed { source, .. } => or(&source, Refusal::new(HardwareError, 0x44, 0x00)),
            TapeError::CleaningNeeded { sense, .. }
            | TapeError::NotReady { sense, .. }
            | TapeError::Interrupted { sense, .. } => sense_of(sense),
            TapeError::Path { source, .. } => or(&source, Refusal::new(HardwareError, 0x08, 0x01)),
            TapeError::Reserved { .. } => Refusal::Conflict,
            TapeError::Host { source, .. } => or(&source, Refusal::new(AbortedCommand, 0x55, 0x03)),
            TapeError::PositionUnknown { .. } => Refusal::new(MediumError, 0x3b, 0x00),
            TapeError::Poisoned { .. } => Refusal::new(MediumError, 0x50, 0x00),
            TapeError::AttributeReadOnly { .. } => Refusal::illegal(0x26, 0x00),
            TapeError::AttributeLength { .. } | TapeError::SegmentCount { .. } => bad_value(),
            TapeError::AttributesFull { .. } => Refusal::illegal(0x55, 0x06),
            _ => Refusal::new(HardwareError, 0x44, 0x00),
        }
    }
}

impl From<LibraryError> for Refusal {
    fn from(error: LibraryError) -> Refusal {
        use SenseKey::{HardwareError, MediumError};
        match error {
            LibraryError::UnknownCartridge { .. } => Refusal::illegal(0x3b, 0x0e),
            LibraryError::UnknownDrive { .. } => Refusal::illegal(0x21, 0x01),
            LibraryError::DriveFull { .. } => Refusal::illegal(0x3b, 0x0d),
            LibraryError::DriveEmpty { .. } => Refusal::illegal(0x3b, 0x0e),
            // Another initiator was faster.
            LibraryError::CartridgeInUse { .. } | LibraryError::NotInSlot { .. } => {
                Refusal::illegal(0x3b, 0x0e)
            }
            LibraryError::ImportExportFull => Refusal::illegal(0x3b, 0x0d),
            LibraryError::NotMoved { source, .. } => or(&source, Refusal::new(HardwareError, 0x15, 0x01)),
            LibraryError::OtherLibrary { .. } => Refusal::illegal(0x3b, 0x11),
            LibraryError::DriveTaken { .. } => Refusal::illegal(0x53, 0x03),
            LibraryError::RobotJam { source, .. } => or(&source, Refusal::new(HardwareError, 0x15, 0x01)),
            LibraryError::DriveFailed { source, .. } => or(&source, Refusal::new(HardwareError, 0x44, 0x00)),
            LibraryError::Path { source, .. } => or(&source, Refusal::new(HardwareError, 0x08, 0x01)),
            LibraryError::NotReady { sense } => sense_of(sense),
            LibraryError::Cartridge(error) if error.is_for_want_of_space() => {
                Refusal::new(SenseKey::AbortedCommand, 0x55, 0x03)
            }
            LibraryError::Cartridge(_) => Refusal::new(MediumError, 0x53, 0x00),
            LibraryError::UnmountFlush { source, .. } => Refusal::from(*source),
            _ => Refusal::new(HardwareError, 0x44, 0x00),
        }
    }
}

/// NO SENSE with EOM: carried out, but the end of the partition comes near (SSC-5, 4.2.4).
pub fn early_warning() -> Refusal {
    let sense = Sense { end_of_medium: true, ..Sense::new(SenseKey::NoSense, 0x00, 0x02) };
    Refusal::from(sense).with_residual(0)
}

/// NO SENSE: carried out, and the programmable early warning zone was entered (SSC-5, 4.2.5). EOM stays
/// clear: a program that knows early warning alone, as Linux's driver of tapes does, takes EOM for that one.
pub fn programmable_early_warning() -> Refusal {
    Refusal::from(Sense::new(SenseKey::NoSense, 0x00, 0x07)).with_residual(0)
}
