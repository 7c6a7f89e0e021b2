//! `kist library`.

use terminal::Outcome;

use super::library_scan;
use crate::cli::Common;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  kist library scan\n  kist library scan --portal tape1:3260")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Find changers and drives, show what they hold and can do, and give the configuration for them
    Scan(library_scan::Args),
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    match &args.action {
        Action::Scan(args) => library_scan::run(args, common),
    }
}
