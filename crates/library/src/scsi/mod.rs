//! Tape libraries and drives through SCSI. What is sent when, and what each answer becomes:
//! docs/reference/scsi.md.

mod address;
pub mod changer;
mod discover;
mod drive;
mod limits;
mod unit;

/// The way to a logical unit, and what it is.
pub use ::scsi::{DeviceType, ElementAddress, ElementType, Transport};
pub use address::{DeviceAddress, DeviceAddressError, DeviceChoice, portal};

/// Who an initiator is, and the proof of it.
pub use iscsi::login::{
    Account as ChapAccount, AccountError as ChapAccountError, Name as IscsiName, NameError as IscsiNameError,
};

/// By what a drive is reserved.
pub use ::scsi::reservation::ReservationKey;

pub use discover::{
    BSG_DEVICES, DriveMaker, Found, FoundDevice, FoundDevices, GENERIC_DEVICES, Sources, Ways, discover,
    drive_abilities,
};
pub use drive::{
    AttentionsSeen, Cartridge, CartridgeAccess, DriveGeneration, DriveIdentity, EarlyWarning, Medium,
    PartitionSpace, Planted, ProtectionWish, ScsiDrive, ScsiDriveOptions, TimedLocate, Unloaded,
};
