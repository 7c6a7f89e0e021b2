//! The tests of this crate from outside, in one program: each is linked once.

mod costs;
mod fit;
mod models;
mod motion;
