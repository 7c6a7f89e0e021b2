//! The kist program: server, client, operators' tools, demonstration and measurements in one binary.
//!
//! A library, so that `torture` can link the same program with bugs that are planted on purpose: the program
//! `kist` itself is never built with them.

// Both panic when nobody reads; see `terminal::output`.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod cli;
mod commands;
mod demo;
mod expected;
mod grid;
mod instance;
mod issuer_keys;
mod library_lock;
mod measured;
mod people;
mod run_files;
mod serve;
mod stages;
mod stop;
mod warnings;
mod watch;
mod xrootd_door;

use std::process::ExitCode;

/// Runs the command line of this process; the exit codes are those of `kist help exit-codes`.
#[must_use]
pub fn main() -> ExitCode {
    match cli::Cli::of_process().and_then(cli::run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            terminal::output::note(&format!("kist: {failure}"));
            ExitCode::from(failure.exit.code())
        }
    }
}
