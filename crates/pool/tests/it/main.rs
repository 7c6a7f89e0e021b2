//! The tests of this crate from outside, in one program: each is linked once.

#![allow(clippy::duplicate_mod, reason = "the same tests run over drives with queues, too")]

mod added;
mod blobs;
mod codes;
mod common;
mod copies;
mod flips;
mod full;
mod holes;
mod hung;
mod kinetic;
mod local;
mod places;
mod queued;
mod repair;
mod scrub;
mod small;
mod striped;
mod uploads;
mod uring;
