//! Tape libraries and drives: what they can do ([`Library`], [`TapeDrive`]), and one made of files
//! ([`VirtualLibrary`]). A driver: it performs I/O and decides nothing. Format:
//! docs/format/virtual-cartridge.md.

mod counters;
mod drive;
mod encryption;
mod keys;
mod machine;
pub mod scsi;
mod sense;
mod union;
mod virtual_tape;

pub use counters::{DriveCounters, DriveProduct, ErrorCounters};
pub use drive::{DriveName, DriveNameError, ReadBlock, TapeDrive, TapeError, WriteResult};
pub use encryption::{BlockEncryption, Decryption, EncryptionKey, KeyIdentity, TapeEncryption};
pub use keys::{
    KEY_COMMAND_BYTES_MAX, KEY_COMMAND_TIME_MAX, KEY_FILE_BYTES_MAX, KeyError, KeySource, KeySourceError,
    TapeKeys, key_on_tape,
};
/// Types of `mechanics` in which a drive tells of its motion.
pub use mechanics::{MotionReport, Track};

pub use machine::{
    CartridgeInfo, CleanerInfo, DrivePlace, Library, LibraryCondition, LibraryError, Place, RobotCount, Slot,
};
pub use sense::{ChangerAlert, DeviceError, Sense, TapeAlert};
pub use union::Union;
#[doc(hidden)]
pub use virtual_tape::fuzz;
pub use virtual_tape::{
    BLOCK_BYTES_MAX, CartridgeError, CartridgeReader, FILE_MARKS_MAX, MEMORY_ATTRIBUTES_MAX,
    MEMORY_VALUE_BYTES_MAX, ORDER_SEGMENTS_MAX, RecordCheck, RecordInfo, RecordKind, SleepingWaiter,
    VOLUME_CHANGE_REFERENCE, VirtualCartridgeOptions, VirtualLibrary, VirtualLibraryConfig, VirtualTiming,
    Waiter,
};
#[cfg(feature = "faults")]
pub use virtual_tape::{Condition, DriveCommand, Faults};
