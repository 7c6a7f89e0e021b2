//! `kist plan`.

use crate::cli::Common;
use crate::commands::plan_durability;
use crate::failure::Outcome;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Computes; needs no server and no instance.

Example:
  kist plan durability --layout 12+4 --drives 84")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// How long a rebuild takes and how likely a pool loses data, with the model
    Durability(plan_durability::Args),
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let Action::Durability(args) = &args.action;
    plan_durability::run(args, common)
}
