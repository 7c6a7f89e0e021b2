//! A tape library through its medium changer (SMC-3).
//!
//! What is where is read type by type (READ ELEMENT STATUS with volume tags and the identifiers of drives).
//! Before a movement both elements are looked at, and behind it; of one that failed, or whose answer was
//! lost, the elements tell what became of it. No movement is told twice without that.
//!
//! Locks, in this order: a bay, the robot, what is known. The last one is held for moments only, so that an
//! inventory does not wait for a robot on its way.

mod barcode;
mod bay;
mod condition;
mod door;
mod elements;
mod known;
mod library;
mod moving;
mod reach;
mod robot;

pub use barcode::Barcode;
pub use elements::{CleaningCartridge, Elements, Holdings, SeenCartridge, SeenElement};
pub(crate) use known::names_serial;
pub use library::{ChangerReport, ScsiLibrary};
pub use reach::{
    ChangerTimes, Devices, DriveSeat, DriveSeatError, LoadableDrive, ScsiLibraryConfig, SeatedDrive,
    Unreached, WantedDrive,
};
pub use robot::{Abilities, ChangerIdentity};
