#![cfg_attr(
    not(test),
    warn(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_possible_wrap,
        clippy::indexing_slicing
    )
)]
//! SCSI commands, answers and sense data as values and as bytes.
//!
//! Pure: no device is touched here. An initiator encodes commands and decodes answers, a target does the
//! reverse, and both use the same types. What carries commands to a device implements [`Transport`].
//!
//! Each structure names the standard that it is from. Clause numbers move between revisions of a standard: go
//! by the name of the structure.
//!
//! Structures of fixed fields implement [`Packed`]; lists have `decode` and `encode` of their own. Both
//! refuse malformed bytes with [`Malformed`] and never panic, whatever the bytes are.

pub mod ata;
pub mod attribute;
mod bytes;
mod code;
pub mod command;
pub mod density;
pub mod element;
pub mod enclosure;
pub mod inquiry;
pub mod lbp;
pub mod log;
pub mod luns;
pub mod mode;
pub mod opcodes;
pub mod position;
pub mod rao;
pub mod reservation;
pub mod security;
pub mod sense;
mod transport;
pub mod vpd;

pub use bytes::{Fault, Layout, Malformed, Packed, Text};
pub use command::{Command, CommandError, CommandSet, ElementAddress, ElementType, Transfer};
pub use inquiry::{DeviceType, Inquiry};
pub use luns::Lun;
pub use sense::{Sense, SenseKey};
pub use transport::{Cdb, CdbLength, Completion, Data, Status, Transport, TransportError, TransportFault};
