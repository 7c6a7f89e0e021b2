//! The tests of this crate from outside, in one program.

mod changer_driver;
mod common;
/// What every library does, whatever it is made of.
#[path = "../../../library/tests/it/conformance/mod.rs"]
mod conformance;
mod first;
