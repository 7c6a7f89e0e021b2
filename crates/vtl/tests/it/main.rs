//! The tests of this crate from outside, in one program.

mod changer;
mod common;
#[cfg(feature = "faults")]
mod faults;
mod medium;
mod motion;
mod primary;
mod reservation;
mod several;
mod socket;
mod strangers;
mod transfer;
