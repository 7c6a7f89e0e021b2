//! The kist program: server, client, operators' tools, demonstration and measurements in one binary.
//!
//! A library, so that `torture` can link the same program with bugs that are planted on purpose: the program
//! `kist` itself is never built with them.

// Both panic when nobody reads; see `output`.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod bench;
mod child;
mod cli;
mod client;
mod commands;
mod config;
mod connection;
mod demo;
mod expected;
mod failure;
mod instance;
mod issuer_keys;
mod output;
mod parallel;
mod people;
mod progress;
mod run_files;
mod serve;
mod stop;
mod table;
mod text;
mod transfer;
mod trust;
mod warnings;
mod watch;
mod watched;

use std::process::ExitCode;

use clap::Parser;

/// Runs the command line of this process; the exit codes are those of `kist help exit-codes`.
#[must_use]
pub fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    match cli::run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::note(&format!("kist: {failure}"));
            ExitCode::from(failure.exit.code())
        }
    }
}
