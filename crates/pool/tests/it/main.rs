//! The tests of this crate from outside, in one program: each is linked once.

mod codes;
mod common;
mod flips;
mod full;
mod holes;
mod local;
mod places;
mod repair;
mod scrub;
mod small;
mod striped;
mod uploads;
