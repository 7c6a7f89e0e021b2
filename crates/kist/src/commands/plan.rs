//! `kist plan`.

use terminal::Outcome;

use crate::cli::Common;
use crate::commands::{plan_durability, plan_mechanics, plan_site};

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Computes; needs no server and no instance.

Examples:
  kist plan durability --layout 12+4 --drives 84
  kist plan mechanics LTO-9
  kist plan site examples/sites/tier1.toml")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// How long a rebuild takes and how likely a pool loses data, with the model
    Durability(plan_durability::Args),
    /// What tape drives, media and libraries are taken to be, each figure with its source
    Mechanics(plan_mechanics::Args),
    /// What a site's workload takes of drives, cache, robots, disks, power and money, with each formula
    Site(plan_site::Args),
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    match &args.action {
        Action::Durability(args) => plan_durability::run(args, common),
        Action::Mechanics(args) => plan_mechanics::run(args, common),
        Action::Site(args) => plan_site::run(args, common),
    }
}
