//! `kist completions`.

use clap::CommandFactory;
use clap_complete::Shell;
use terminal::{Outcome, output};

use crate::cli::Cli;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  kist completions bash > /usr/share/bash-completion/completions/kist
  kist completions fish > ~/.config/fish/completions/kist.fish
  source <(kist completions zsh)")]
pub struct Args {
    /// The shell
    shell: Shell,
}

/// Runs the command.
pub fn run(args: &Args) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "kist", &mut script);
    output::bytes(&script)
}
