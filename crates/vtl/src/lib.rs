#![cfg_attr(
    not(test),
    warn(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_possible_wrap,
        clippy::indexing_slicing
    )
)]
//! A tape library as a SCSI target: one medium changer (SMC-3) and its tape drives (SSC-5) as logical units
//! over [`library::Library`] and [`library::TapeDrive`].
//!
//! [`Target`] serves initiators elsewhere through `iscsi` (it implements [`iscsi::target::LogicalUnits`]) and
//! this process through [`Target::transport`], without a socket. Unit 0 is the changer, units 1 and up are
//! the drives in the library's order. What errors of the traits become is told in
//! docs/reference/virtual-library.md.

mod answer;
mod changer;
mod errors;
#[cfg(feature = "faults")]
mod faults;
mod gate;
mod options;
mod primary;
mod reservation;
mod tape;
mod target;
mod transport;

#[cfg(feature = "faults")]
pub use faults::{Fault, Faults};
pub use options::{Blank, Options, TargetError};
pub use target::Target;
pub use transport::LocalTransport;
