//! The tests of this crate from outside, in one program: each is linked once.

mod flips;
mod memory;
mod volume;
