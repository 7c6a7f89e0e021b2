//! `kist man`: the manual pages, made from the definitions of the commands.

use std::fs;
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use terminal::{Failure, Outcome, output};

use crate::cli::Cli;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  kist man /usr/share/man/man1
  kist man | man -l -")]
pub struct Args {
    /// Write all pages into this directory, a file a command; without it the page of kist goes to standard
    /// output
    directory: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &Args) -> Outcome {
    let mut command = Cli::command();
    command.build();
    let Some(directory) = &args.directory else { return output::bytes(&page(&command)?) };
    fs::create_dir_all(directory).map_err(|error| Failure::io("making the directory", directory, &error))?;
    let pages = write(directory, &command)?;
    output::line(&format!("{pages} manual pages in {}", directory.display()))
}

/// Writes the page of a command and of all below it; gives how many.
fn write(directory: &Path, command: &clap::Command) -> Outcome<u32> {
    // `display_name` has the whole way to the command, as `kist-tape-ls`.
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let file = directory.join(format!("{name}.1"));
    fs::write(&file, page(command)?).map_err(|error| Failure::io("writing", &file, &error))?;
    let shown = command.get_subcommands().filter(|below| !below.is_hide_set());
    shown.map(|below| write(directory, below)).try_fold(1, |sum, pages| Ok(sum + pages?))
}

fn page(command: &clap::Command) -> Outcome<Vec<u8>> {
    let mut page = Vec::new();
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let man = clap_mangen::Man::new(command.clone()).title(name);
    man.render(&mut page).map_err(|error| Failure::internal(error.to_string()))?;
    Ok(page)
}
