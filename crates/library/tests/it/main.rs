//! The tests of this crate from outside, in one program: each is linked once.

mod changer;
mod common;
mod conformance;
mod damage;
mod drive_suite;
mod faults;
mod golden;
mod library;
mod scsi_cleaning;
mod scsi_drive;
mod scsi_faults;
mod scsi_hostile;
mod scsi_keys;
mod scsi_model;
mod scsi_model_keys;
mod scsi_tgt;
mod semantics;
/// Programs that share no code with ours.
#[path = "../../../iscsi/tests/it/stranger.rs"]
mod stranger;
mod timing;
mod union;
