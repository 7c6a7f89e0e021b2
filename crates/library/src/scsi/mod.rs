//! Tape drives through SCSI. What is sent when, and what each answer becomes: docs/reference/scsi.md.

mod drive;
mod limits;
mod unit;

pub use drive::{
    AttentionsSeen, Cartridge, CartridgeAccess, DriveGeneration, DriveIdentity, Medium, PartitionSpace,
    ProtectionWish, ScsiDrive, ScsiDriveOptions, Unloaded,
};
