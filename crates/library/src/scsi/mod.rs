//! Tape libraries through SCSI.

pub mod changer;
mod limits;
mod unit;
