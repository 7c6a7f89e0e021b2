//! `kist bench`.
use crate::cli::Common;
use crate::failure::Outcome;
/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  kist bench put")]
pub struct Args {}
/// Runs the command.
pub fn run(_: &Args, _: &Common) -> Outcome { Ok(()) }
