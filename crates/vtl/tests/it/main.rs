//! The tests of this crate from outside, in one program.

mod changer;
mod common;
#[cfg(feature = "faults")]
mod faults;
mod medium;
mod motion;
mod primary;
mod reservation;
mod strangers;
mod transfer;
