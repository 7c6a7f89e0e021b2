//! The tests of this crate from outside, in one program: each is linked once.

mod common;
mod golden;
mod index;
mod labels;
mod names;
mod pack;
