#![cfg_attr(not(test), warn(clippy::cast_sign_loss, clippy::indexing_slicing, clippy::unwrap_used))]
//! A pool drive that is a Kinetic drive: extents as values of at most 1 MiB.
//!
//! [`KineticDrive`] is a [`drive::ObjectDrive`] with a queue of its own: many requests are under way on one
//! connection, and each step is told when the drive has it. The epoch of the stamp is the cluster version of
//! the drive, so a server of an earlier epoch is refused by the drive itself. Keys, versions and values are
//! written in `docs/format/kinetic-drive.md`.

mod address;
mod drive_calls;
mod flush;
mod head;
mod inner;
mod keys;
mod piece;
mod place;
mod read;
mod stamp;
mod write;

pub use address::{ADDRESSES_MAX, AddressError, IDENTITY, KineticAddress};
pub use drive_calls::{KineticDrive, QUEUE_DEPTH};
pub use place::{KineticPlace, OPEN_WITHIN};
