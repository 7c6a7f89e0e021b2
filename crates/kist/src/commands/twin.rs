//! `kist twin`.

use terminal::Outcome;

use crate::cli::Common;
use crate::commands::{twin_check, twin_replay, twin_run, twin_sample, twin_validate};

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Computes; needs no server and no instance. A scenario says what there is, who wants
what, and what goes wrong; docs/reference/twin.md has all its keys. The scheduler is
the one that a server runs.

Examples:
  kist twin check examples/twin/small.toml
  kist twin run examples/twin/small.toml --report /tmp/small
  kist twin validate")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Run a scenario and show what comes of it
    Run(twin_run::Args),
    /// Read a scenario and show all that it would be run with, and from where each figure is
    Check(twin_check::Args),
    /// Run some units of a site too large for one run, and conclude what all of them do
    Sample(twin_sample::Args),
    /// Run a server's own record again: what was, and what would have been
    Replay(twin_replay::Args),
    /// Predict what others have measured and published, and compare
    Validate(twin_validate::Args),
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    match &args.action {
        Action::Run(args) => twin_run::run(args, common),
        Action::Check(args) => twin_check::run(args, common),
        Action::Sample(args) => twin_sample::run(args, common),
        Action::Replay(args) => twin_replay::run(args, common),
        Action::Validate(args) => twin_validate::run(args, common),
    }
}
