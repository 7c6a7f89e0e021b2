//! SCSI commands through Linux's generic drivers: `/dev/sg*` (interface version 3), `/dev/bsg/*` (version 4).
//! Log pages of NVMe drives: `/dev/nvme*`.

mod device;
mod header;
mod nvme;
mod signals;
mod version4;

pub use device::{OpenError, SgDevice, TRANSFER_ASSUMED, TRANSFER_MAX};
pub use nvme::{NvmeDevice, NvmeError};
