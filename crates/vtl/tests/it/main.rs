//! The tests of this crate from outside, in one program.

mod changer;
mod common;
#[path = "../../../library/tests/it/drive_suite.rs"]
mod drive_suite;
#[cfg(feature = "faults")]
mod faults;
mod medium;
mod motion;
mod primary;
mod reservation;
mod scsi_drive;
mod several;
mod socket;
mod strangers;
mod transfer;
