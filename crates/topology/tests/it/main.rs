//! Recorded machines, as they are read.

mod hostile;
mod machines;

use std::fs;
use std::path::PathBuf;

use topology::{Machine, Record};

/// The record of this name.
fn record(name: &str) -> Record {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/machines")
        .join(format!("{name}.machine"));
    let bytes = fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    Record::parse(&bytes).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The machine of this name. Nothing of it may have been unreadable.
fn machine(name: &str) -> Machine {
    let machine = Machine::read(&record(name));
    assert_eq!((&machine.problems[..], machine.problems_left_out), (&[][..], 0), "{name}");
    machine
}
