//! SCSI commands through Linux's generic driver: `/dev/sg*`, interface version 3.

mod device;
mod header;
mod signals;

pub use device::{OpenError, SgDevice, TRANSFER_ASSUMED, TRANSFER_MAX};
