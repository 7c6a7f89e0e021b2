//! Tape libraries and drives through SCSI. What is sent when, and what each answer becomes:
//! docs/reference/scsi.md.

mod address;
pub mod changer;
mod discover;
mod drive;
mod limits;
mod unit;

pub use address::{DeviceAddress, DeviceAddressError, DeviceChoice, portal};
pub use discover::{
    DriveMaker, Found, FoundDevice, FoundDevices, GENERIC_DEVICES, GenericOpener, Sources, Ways, discover,
};
pub use drive::{
    AttentionsSeen, Cartridge, CartridgeAccess, DriveGeneration, DriveIdentity, Medium, PartitionSpace,
    ProtectionWish, ScsiDrive, ScsiDriveOptions, Unloaded,
};
