//! `kist demo`: the whole way to tape and back, on real files, in a few minutes.

mod copies;
mod source;
mod steps;
mod summary;

use std::path::PathBuf;

use terminal::Outcome;

use crate::cli::Common;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Makes an instance in DIR if there is none, starts its server, puts a tree,
migrates it to two tapes, evicts it from the pool, shows that it cannot be
read then, stages it, and compares every byte. Each run takes a new /demo-N.

Example:
  kist demo /tmp/kist-demo --from /usr/share/doc")]
pub struct Args {
    /// The directory of the instance
    #[arg(default_value = client::DEFAULT_DIRECTORY)]
    pub dir: PathBuf,
    /// The tree to put; default: about 1.2 GB of the Rust toolchain
    #[arg(long, value_name = "PATH")]
    pub from: Option<PathBuf>,
    /// Let the server run on afterwards, until Ctrl-C
    #[arg(long)]
    pub keep_serving: bool,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    steps::run(args, common.quiet)
}
