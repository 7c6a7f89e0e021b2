//! `kist man`: the manual pages, made from the definitions of the commands.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Arg, Command, CommandFactory};
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
fn write(directory: &Path, command: &Command) -> Outcome<u32> {
    // `display_name` has the whole way to the command, as `kist-tape-ls`.
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let file = directory.join(format!("{name}.1"));
    fs::write(&file, page(command)?).map_err(|error| Failure::io("writing", &file, &error))?;
    let shown = command.get_subcommands().filter(|below| !below.is_hide_set());
    shown.map(|below| write(directory, below)).try_fold(1, |sum, pages| Ok(sum + pages?))
}

fn page(command: &Command) -> Outcome<Vec<u8>> {
    let mut page = Vec::new();
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let man = clap_mangen::Man::new(command.clone().override_usage(synopsis(command))).title(name);
    man.render(&mut page).map_err(|error| Failure::internal(error.to_string()))?;
    Ok(page)
}

/// How the command is called: its own options first, then those of all commands, each with its value. What
/// `clap_mangen` writes by itself leaves the values out and mixes the two.
fn synopsis(command: &Command) -> String {
    let mut words = vec![command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned()];
    let groups: Vec<_> = command.get_groups().filter(|group| group.is_required_set()).collect();
    let is_in_group = |arg: &&Arg| groups.iter().any(|group| group.get_args().any(|id| id == arg.get_id()));
    let shown = || command.get_arguments().filter(|arg| !arg.is_hide_set());
    let alone = || shown().filter(|arg| !is_in_group(arg));
    let (own, shared): (Vec<_>, Vec<_>) =
        alone().filter(|arg| !arg.is_positional()).partition(|arg| arg.get_help_heading().is_none());
    words.extend(own.into_iter().chain(shared).map(|arg| bracketed(arg, &option(arg))));
    for group in &groups {
        let members = shown().filter(|arg| group.get_args().any(|id| id == arg.get_id()));
        let members = members.map(|arg| if arg.is_positional() { values(arg) } else { option(arg) });
        let dots = if (*group).clone().is_multiple() { "..." } else { "" };
        words.push(format!("{{{}}}{dots}", members.collect::<Vec<_>>().join("|")));
    }
    for arg in alone().filter(|arg| arg.is_positional()) {
        let takes_many = arg.get_num_args().is_some_and(|range| range.max_values() > 1);
        // Those of which the last is the target say so themselves.
        let says_so = values(arg).contains("...");
        let dots = if takes_many && !says_so { "..." } else { "" };
        words.push(bracketed(arg, &values(arg)) + dots);
    }
    if command.has_subcommands() {
        words.push("COMMAND".to_owned());
    }
    words.join(" ")
}

/// What need not be given stands in brackets.
fn bracketed(arg: &Arg, text: &str) -> String {
    if arg.is_required_set() { text.to_owned() } else { format!("[{text}]") }
}

fn option(arg: &Arg) -> String {
    let short = arg.get_short().map(|short| format!("-{short}"));
    let long = arg.get_long().map(|long| format!("--{long}"));
    let names = short.into_iter().chain(long).collect::<Vec<_>>().join("|");
    if arg.get_action().takes_values() { format!("{names} {}", values(arg)) } else { names }
}

fn values(arg: &Arg) -> String {
    match arg.get_value_names() {
        Some(names) => names.join(" "),
        None => arg.get_id().as_str().to_uppercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: &[&str]) -> String {
        let mut root = Cli::command();
        root.build();
        let mut command = &root;
        for name in names {
            command = command.find_subcommand(name).unwrap();
        }
        synopsis(command)
    }

    /// Story: the pages said `[--bytes]` without the value, among options of all commands, and `kist quota
    /// set` asked for --bytes although --files is enough.
    #[test]
    fn a_synopsis_names_the_values_of_options() {
        let quota = of(&["quota", "set"]);
        assert!(quota.contains(" [--server URL] "), "{quota}");
        assert!(quota.ends_with(" {PATH|--vo NAME} {--bytes BYTES|--files FILES}..."), "{quota}");
        let ls = of(&["ls"]);
        assert!(
            ls.starts_with("kist ls [-l|--long] [-r|--recursive] ") && ls.ends_with(" [PATH]..."),
            "{ls}"
        );
        assert!(of(&["evict"]).ends_with(" PATH..."), "{}", of(&["evict"]));
        assert!(of(&["quota"]).ends_with(" COMMAND"), "{}", of(&["quota"]));
    }

    /// No option of any command that takes a value is without it.
    #[test]
    fn every_option_has_its_value() {
        fn check(command: &Command) {
            let text = synopsis(command);
            for arg in command.get_arguments().filter(|arg| !arg.is_hide_set() && !arg.is_positional()) {
                let Some(long) = arg.get_long().filter(|_| arg.get_action().takes_values()) else { continue };
                let value = values(arg);
                assert!(!value.is_empty() && text.contains(&format!("--{long} {value}")), "{text}");
            }
            command.get_subcommands().for_each(check);
        }
        let mut root = Cli::command();
        root.build();
        check(&root);
    }
}
