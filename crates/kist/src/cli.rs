//! The command line: one enum of commands, each with its own file.

use bench::Call;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};
use client::Connection;
use terminal::{EXIT_CODES, Failure, Outcome, Style, output};

use crate::commands::{
    acl, audit, backup, chown, class, clock, compare, completions, disk, drive, evict, get, init, key,
    kinetic, library, lock, ls, man, migrate, mkdir, mv, plan, pool, put, queue, quota, rebuild, release,
    request, restore, rm, scrub, stage, stat, status, tape, twin, usage, verify, wait, why, work, xrootd,
};
use crate::measured::Measured;
use crate::{demo, serve};

/// Shown by `kist` alone.
const OVERVIEW: &str = "\
Kist keeps files for decades: a disk pool in front, LTFS tapes behind.

  kist demo                        see all of it work, in a few minutes, in ./kist-data
  kist init DIR                    make an instance; it prints the key
  kist serve DIR                   run its server
  kist put TREE /where             put files in            kist get /where TREE   get them out
  kist ls -l /                     what is there           kist stat /where/file  all about one file
  kist stage --wait /where         bring back from tape    kist why /where/file   why something waits
  kist status, queue, tape ls, drive ls, pool show         how the archive stands
  kist verify /where, kist scrub --now                     is all of it what was put?
  kist disk ls, kist disk health                           the disks of this machine, without a server

kist help COMMAND explains a command with an example, kist help exit-codes lists the exit codes.
";

/// The program's arguments.
#[derive(Parser, Debug)]
#[command(
    name = "kist",
    version,
    about = "Archival storage: an erasure-coded disk pool in front, LTFS tapes behind",
    disable_help_subcommand = true,
    max_term_width = 110
)]
pub struct Cli {
    /// What all commands share.
    #[command(flatten)]
    pub common: Common,
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Options of all commands.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Common {
    /// The server and the key.
    #[command(flatten)]
    pub connection: Connection,
    /// Write JSON instead of text to standard output
    #[arg(long, global = true, help_heading = "Output")]
    pub json: bool,
    /// No progress on standard error
    #[arg(long, short, global = true, help_heading = "Output")]
    pub quiet: bool,
}

impl From<&Common> for Style {
    fn from(common: &Common) -> Style {
        Style { json: common.json, quiet: common.quiet }
    }
}

/// The commands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Make an instance: settings, pool, virtual tape library, key
    Init(init::Args),
    /// Run the server of an instance
    Serve(serve::Args),
    /// See the whole way to tape and back, on files of this machine
    Demo(demo::Args),
    /// Put files and trees into the archive
    Put(put::Args),
    /// Get files and trees out of the archive
    Get(get::Args),
    /// Compare local files with those in the archive, byte for byte
    Compare(compare::Args),
    /// List a directory
    Ls(ls::Args),
    /// Show all about a file or directory: checksums, copies, tapes, pins
    Stat(stat::Args),
    /// Make a directory
    Mkdir(mkdir::Args),
    /// Rename a file or directory
    Mv(mv::Args),
    /// Remove files and directories
    Rm(rm::Args),
    /// Give files and directories another owner or group
    Chown(chown::Args),
    /// Show or set who may do what in a directory
    Acl(acl::Args),
    /// Limit how much may be kept, and show what is used
    Quota(quota::Args),
    /// Show or end the locks that clients of WebDAV hold
    Lock(lock::Args),
    /// Bring files back from tape
    Stage(stage::Args),
    /// Give staged files free again
    Release(release::Args),
    /// Remove the pool copies of files that are on tape
    Evict(evict::Args),
    /// Show or cancel requests
    Request(request::Args),
    /// Say why a file or request waits
    Why(why::Args),
    /// Show calls over very many files that go on
    Work(work::Args),
    /// Show tapes, or read one without the server
    Tape(tape::Args),
    /// Find tape libraries, or serve a virtual one to other programs
    Library(library::Args),
    /// Show the tape drives
    Drive(drive::Args),
    /// Show the disks of this machine: links, enclosures, slots, health, bottlenecks; switch lights of slots
    Disk(disk::Args),
    /// Look into network drives (Open Kinetic): find them, keys and values, logs, who may do what
    Kinetic(kinetic::Args),
    /// Show the disk pool, rebuild it, take drives out and put them in
    Pool(pool::Args),
    /// Show or start the checking of all of the pool
    Scrub(scrub::Args),
    /// Read files and check them, or check the catalogue
    Verify(verify::Args),
    /// Make, list, disable and remove keys
    Key(key::Args),
    /// Show who did what, and prove that the record was not changed
    Audit(audit::Args),
    /// Show the storage classes
    Class(class::Args),
    /// Show the trusted time and the system's clock, or vouch for the latter
    Clock(clock::Args),
    /// Show what waits, and why
    Queue(queue::Args),
    /// Show the counters of the archive
    Status(status::Args),
    /// Show what users did: hit rates, sizes, daily movement, cache lifetime
    Usage(usage::Args),
    /// The backup of the catalogue: list, take a snapshot, rehearse a restore
    Backup(backup::Args),
    /// Restore the catalogue from its backup
    Restore(restore::Args),
    /// Make a lost catalogue anew from the tapes
    Rebuild(rebuild::Args),
    /// Write to tape now, whatever the amounts and ages
    Migrate(migrate::Args),
    /// Wait until everything is on tape, recalled or moved that is to be
    Wait(wait::Args),
    /// Compute what a pool that is to be built will do
    Plan(plan::Args),
    /// Ask what would be: the scheduler in virtual time, on modelled hardware
    Twin(twin::Args),
    /// Write the configuration of an XRootD server in front of an instance
    Xrootd(xrootd::Args),
    /// Measure, beside the limit of the machine in the same run
    Bench(bench::Args),
    /// Write a shell's completions
    Completions(completions::Args),
    /// Write the manual pages
    Man(man::Args),
    /// Explain a command, or the exit codes
    Help(HelpArgs),
}

/// Example: kist help exit-codes
#[derive(clap::Args, Debug)]
pub struct HelpArgs {
    /// A command, or exit-codes
    topic: Vec<String>,
}

impl Cli {
    /// The arguments of this process. A command that does not exist is told with those that do.
    ///
    /// # Errors
    /// The failure for an unknown command of a group; with anything else that is wrong, and after help, the
    /// process ends here.
    pub fn of_process() -> Outcome<Cli> {
        match Cli::try_parse() {
            Ok(cli) => Ok(cli),
            Err(error) if error.kind() == ErrorKind::InvalidSubcommand => {
                let args = std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned());
                Err(Failure::usage(no_such_command(&error, args)))
            }
            Err(error) => error.exit(),
        }
    }
}

/// What is said of a command that does not exist: often a name stands where an action was to stand.
fn no_such_command(error: &clap::Error, args: impl Iterator<Item = String>) -> String {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) => texts.first().cloned(),
        _ => None,
    };
    let wrong = text(ContextKind::InvalidSubcommand).unwrap_or_default();
    let mut group = Cli::command();
    let mut path = group.get_name().to_owned();
    // What is a command of a group above is meant to be that one.
    let mut above = None;
    for arg in args {
        match group.find_subcommand(&arg).cloned() {
            Some(found) => {
                if group.find_subcommand(&wrong).is_some() {
                    above = Some(format!("{path} {wrong}"));
                }
                path = format!("{path} {}", found.get_name());
                group = found;
            }
            // What is one above may be the wrong word below.
            None if arg == wrong => break,
            None => {}
        }
    }
    let known: Vec<&str> =
        group.get_subcommands().filter(|one| !one.is_hide_set()).map(clap::Command::get_name).collect();
    let mut said = format!("there is no command '{path} {wrong}'");
    if let Some(near) = text(ContextKind::SuggestedSubcommand) {
        said.push_str(&format!(": is '{path} {near}' meant?"));
    } else if let Some(above) = above {
        said.push_str(&format!(": is '{above}' meant?"));
    } else if known.contains(&"show") {
        said.push_str(&format!(": to see {wrong} say '{path} show {wrong}'"));
    }
    let help =
        path.strip_prefix("kist ").map_or_else(|| "kist help".to_owned(), |it| format!("kist help {it}"));
    format!("{said}\n{path} has {}; {help} explains them", known.join(", "))
}

/// Runs a command.
pub fn run(cli: Cli) -> Outcome {
    let common = &cli.common;
    let Some(command) = cli.command else { return output::write(OVERVIEW) };
    match command {
        Command::Init(args) => init::run(&args, common),
        Command::Serve(args) => serve::run(&args, common),
        Command::Demo(args) => demo::run(&args, common),
        Command::Put(args) => put::run(&args, common),
        Command::Get(args) => get::run(&args, common),
        Command::Compare(args) => compare::run(&args, common),
        Command::Ls(args) => ls::run(&args, common),
        Command::Stat(args) => stat::run(&args, common),
        Command::Mkdir(args) => mkdir::run(&args, common),
        Command::Mv(args) => mv::run(&args, common),
        Command::Rm(args) => rm::run(&args, common),
        Command::Chown(args) => chown::run(&args, common),
        Command::Acl(args) => acl::run(&args, common),
        Command::Quota(args) => quota::run(&args, common),
        Command::Lock(args) => lock::run(&args, common),
        Command::Stage(args) => stage::run(&args, common),
        Command::Release(args) => release::run(&args, common),
        Command::Evict(args) => evict::run(&args, common),
        Command::Request(args) => request::run(&args, common),
        Command::Why(args) => why::run(&args, common),
        Command::Work(args) => work::run(&args, common),
        Command::Tape(args) => tape::run(&args, common),
        Command::Library(args) => library::run(&args, common),
        Command::Drive(args) => drive::run(&args, common),
        Command::Disk(args) => disk::run(&args, common),
        Command::Kinetic(args) => kinetic::run(&args, common),
        Command::Pool(args) => pool::run(&args, common),
        Command::Scrub(args) => scrub::run(&args, common),
        Command::Verify(args) => verify::run(&args, common),
        Command::Key(args) => key::run(&args, common),
        Command::Audit(args) => audit::run(&args, common),
        Command::Class(args) => class::run(&args, common),
        Command::Clock(args) => clock::run(&args, common),
        Command::Queue(args) => queue::run(&args, common),
        Command::Status(args) => status::run(&args, common),
        Command::Usage(args) => usage::run(&args, common),
        Command::Backup(args) => backup::run(&args, common),
        Command::Restore(args) => restore::run(&args, common),
        Command::Rebuild(args) => rebuild::run(&args, common),
        Command::Migrate(args) => migrate::run(&args, common),
        Command::Wait(args) => wait::run(&args, common),
        Command::Plan(args) => plan::run(&args, common),
        Command::Twin(args) => twin::run(&args, common),
        Command::Xrootd(args) => xrootd::run(&args, common),
        Command::Bench(args) => bench::run(&args, Call { style: common.into(), subject: &Measured }),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
        Command::Help(args) => help(&args),
    }
}

fn help(args: &HelpArgs) -> Outcome {
    let mut command = Cli::command();
    command.build();
    let mut shown = &mut command;
    for topic in &args.topic {
        if topic == "exit-codes" {
            return output::write(EXIT_CODES);
        }
        shown = shown.find_subcommand_mut(topic).ok_or_else(|| {
            Failure::usage(format!("there is no command '{topic}': kist help lists the commands"))
        })?;
    }
    output::write(&shown.render_long_help().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// Story: `kist drive vdrive0` gave the parser's own words, and no way on.
    #[test]
    fn a_name_in_the_place_of_a_command_is_told_with_the_commands_that_there_are() {
        let said = |line: &str| {
            let error = Cli::try_parse_from(line.split(' ')).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidSubcommand, "{line}");
            no_such_command(&error, line.split(' ').skip(1).map(str::to_owned))
        };
        let drive = said("kist --json drive vdrive0");
        assert!(drive.contains("to see vdrive0 say 'kist drive show vdrive0'"), "{drive}");
        assert!(
            drive.contains("kist drive has ls, show, up, clean, down, format, serve; kist help drive"),
            "{drive}"
        );
        let pool = said("kist pool drive lots 3");
        assert!(pool.contains("'kist pool drive lots': is 'kist pool drive lost' meant?"), "{pool}");
        let above = said("kist pool drive rebuild 3");
        assert!(above.contains(": is 'kist pool rebuild' meant?"), "{above}");
        let all = said("kist frobnicate");
        assert!(all.contains("'kist frobnicate'") && all.contains("; kist help explains"), "{all}");
    }

    #[test]
    fn every_command_teaches_with_an_example() {
        for command in Cli::command().get_subcommands() {
            let text = command.get_after_help().or(command.get_long_about()).map(ToString::to_string);
            let text = text.unwrap_or_default();
            let named = text.contains("kist ") || command.get_name() == "help";
            assert!(named, "kist {} has no example in its help", command.get_name());
        }
    }
}
