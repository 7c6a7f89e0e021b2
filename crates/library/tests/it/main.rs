//! The tests of this crate from outside, in one program: each is linked once.

mod changer;
mod common;
mod conformance;
mod damage;
mod faults;
mod golden;
mod library;
mod semantics;
mod timing;
mod union;
