//! The tests of this crate from outside, in one program: a catalogue and its worker, without an engine. What
//! takes an engine (files, tapes that were written, the first start behind a restore) stands in
//! `crates/archive/tests/it`.

mod damage;
mod rebuild;
mod server;
mod shipping;
