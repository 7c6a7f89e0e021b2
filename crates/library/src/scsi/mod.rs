//! Tape libraries through SCSI.

mod address;
pub mod changer;
mod discover;
mod limits;
mod unit;

pub use address::{DeviceAddress, DeviceAddressError, DeviceChoice, portal};
pub use discover::{
    DriveMaker, Found, FoundDevice, FoundDevices, GENERIC_DEVICES, GenericOpener, Sources, Ways, discover,
};
