//! `kist disk watch`: tells the server on which disks its drives are, and does what kist.toml wants done
//! about them that only root can do.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use terminal::{Exit, Failure, Outcome, output, text};
use topology::Machine;

use super::disk;
use super::disk_watch_pass::{Line, Memory, Pass};
use crate::cli::Common;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Runs as root on the server's machine, beside the server, until it is ended. It finds
the disk under each drive's directory and its slot, and tells the server, which
records it, with what 'kist disk health' says of the disk. What is then done by itself
is said in [pool] of kist.toml:

  predicted_failure = \"drain\"  the server empties a drive whose disk foretells its failure
  replace = \"mounted\"          an empty file system on the disk in a lost drive's slot is taken
  replace = \"blank\"            a blank disk there gets one first
  replace_burn_in = \"quick\"    before that 8 GiB of it are burnt in (\"full\": all; \"off\")
  lights = true                the light of the slot is on while its disk is to be pulled

Never formatted is a disk that somebody uses, that several paths without a map lead
to, that was a drive's, or that is not blank: its first and last 16 MiB are read and
256 samples in between, and all must be zeros. What is not proven waits for a person;
'kist pool drive show' says why.

Examples:
  sudo kist disk watch --instance /srv/kist
  sudo kist disk watch --once --dry-run
  kist disk watch --once --dry-run --from jbod.machine")]
pub struct Args {
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 60,
        value_parser = clap::value_parser!(u64).range(1..=86_400))]
    every: u64,
    /// Look once, and show what was found; burn-ins that begin then are waited for
    #[arg(long)]
    once: bool,
    /// Only say what would be done and told
    #[arg(long)]
    dry_run: bool,
    /// A recorded machine: the server is told what it shows, and nothing is done to any device
    #[arg(long, value_name = "PATH", requires = "once")]
    from: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    if args.from.is_none() && !rustix::process::geteuid().is_root() {
        return Err(Failure::new(
            Exit::NotAuthorised,
            "disks are asked, and file systems made, by root alone: sudo kist disk watch",
        ));
    }
    let client = common.connection.client()?;
    let every = Duration::from_secs(args.every);
    let mut said: BTreeSet<Line> = BTreeSet::new();
    let mut memory = Memory::default();
    let mut first: Option<Machine> = None;
    loop {
        let begin = Instant::now();
        let recorded = match &args.from {
            Some(path) => disk::open(path)?,
            None => {
                if !args.dry_run {
                    probe::blank::end_of_look();
                }
                probe::live(true)
            }
        };
        let pass = Pass {
            client: &client,
            recorded: &recorded,
            first: first.as_ref(),
            acts: !args.dry_run && args.from.is_none(),
            tells: !args.dry_run,
            is_here: args.from.is_none(),
        };
        let lines = match pass.run(&mut memory) {
            Ok(lines) => lines,
            Err(failure) if args.once => return Err(failure),
            // The server may be starting: what was said of it is said again when it has gone meanwhile.
            Err(failure) => BTreeSet::from([Line::of_all("no-server", failure.message)]),
        };
        lines
            .iter()
            .filter(|line| args.once || !said.contains(line))
            .try_for_each(|line| say(line, args, common))?;
        if args.once {
            // What is burnt in takes its place in one look more.
            match memory.burn_ins.wait() {
                true => continue,
                false => return Ok(()),
            }
        }
        said = lines;
        first.get_or_insert(recorded.machine);
        thread::sleep(every.saturating_sub(begin.elapsed()));
    }
}

fn say(line: &Line, args: &Args, common: &Common) -> Outcome {
    let at = text::rfc3339(text::now());
    let Line { drive, what, text: words } = line;
    match common.json {
        true => output::line(&json!({ "at": at, "drive": drive, "what": what, "text": words }).to_string())?,
        false => {
            let at = if args.once { String::new() } else { format!("{} ", text::whole_seconds(&at)) };
            let drive = drive.map_or_else(String::new, |drive| format!("drive {drive}: "));
            output::line(&format!("{at}{drive}{words}"))?;
        }
    }
    output::flush()
}
