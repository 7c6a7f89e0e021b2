//! The Tape REST API over the engine itself, with tapes in files.

#[path = "../../../archive/tests/it/common/mod.rs"]
mod common;
mod hostile;
mod life;
mod rights;
mod traps;
mod world;
