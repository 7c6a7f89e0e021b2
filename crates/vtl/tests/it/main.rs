//! The tests of this crate from outside, in one program.

mod changer;
mod changer_driver;
mod cleaning;
mod common;
/// What every library does, whatever it is made of.
#[path = "../../../library/tests/it/conformance/mod.rs"]
mod conformance;
#[path = "../../../library/tests/it/drive_suite.rs"]
mod drive_suite;
mod encryption;
#[cfg(feature = "faults")]
mod faults;
mod medium;
mod motion;
mod primary;
mod reservation;
mod scsi_drive;
mod several;
mod socket;
/// Programs that share no code with ours.
#[path = "../../../iscsi/tests/it/stranger.rs"]
mod stranger;
mod strangers;
mod transfer;
