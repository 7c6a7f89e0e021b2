//! The kist program.
fn main() {}
