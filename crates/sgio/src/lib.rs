//! SCSI commands through Linux's generic drivers: `/dev/sg*` (interface version 3), `/dev/bsg/*` (version 4).

mod device;
mod header;
mod signals;
mod version4;

pub use device::{OpenError, SgDevice, TRANSFER_ASSUMED, TRANSFER_MAX};
