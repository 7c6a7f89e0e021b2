//! The kist program: server, client, operators' tools, demonstration and measurements in one binary.

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
mod serve;
mod table;
mod text;
mod transfer;
mod trust;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    match cli::run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::note(&format!("kist: {failure}"));
            ExitCode::from(failure.exit.code())
        }
    }
}
