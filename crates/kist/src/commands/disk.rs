//! `kist disk`: what is plugged in, without a server.

use std::path::{Path, PathBuf};

use probe::{Recorded, RecordedError, SaveError, Switched};
use serde_json::json;
use terminal::{Exit, Failure, Outcome, output, text};
use topology::{Machine, Place, Problem, Services, Slot};

use crate::cli::Common;
use crate::commands::{disk_bottleneck, disk_health, disk_json, disk_paths, disk_tree, disk_watch};

/// Problems that are told one by one.
const PROBLEMS_TOLD: usize = 5;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Reads /sys and asks disks and enclosures themselves how they are; needs no server
and no instance. As root it can ask; without, it shows what /sys has. Nothing is
changed but by 'locate', 'paths keep' and 'watch', which needs a server.

Examples:
  kist disk ls
  kist disk slots
  sudo kist disk health
  kist disk bottleneck
  sudo kist disk record jbod.machine
  kist disk health --from jbod.machine")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Show adapters, expanders, enclosures and disks as a tree, with each link as it is and as it could be
    #[command(after_help = "\
Examples:
  kist disk ls
  kist disk ls --from jbod.machine --json")]
    Ls {
        #[command(flatten)]
        source: Source,
    },
    /// Show enclosures from the front: which disk stands in which slot, fans, supplies, temperatures
    #[command(after_help = "\
Examples:
  kist disk slots
  kist disk slots 500c0ff012345600 --from jbod.machine")]
    Slots {
        /// Only this one: its number in the list, its logical identifier, or a device that serves it
        enclosure: Option<String>,
        #[command(flatten)]
        source: Source,
    },
    /// Switch the light of a slot on or off
    #[command(after_help = "\
A slot is ENCLOSURE/NUMBER as 'kist disk slots' shows them, or the disk in it: its
block device, serial number or name in the world.

Examples:
  sudo kist disk locate 0/42 on
  sudo kist disk locate ZL200042 on
  sudo kist disk locate sdaq off")]
    Locate {
        /// The slot, or the disk in it
        slot: String,
        /// What its light is to be
        #[arg(value_parser = ["on", "off"])]
        light: String,
    },
    /// Judge each disk, with the reasons, and what else is to be looked at
    Health(disk_health::Args),
    /// Show the paths of each disk that has several, and the map over them; keep them
    Paths(disk_paths::Args),
    /// Tell the server on which disks its drives are, and do what kist.toml wants done about them
    Watch(disk_watch::Args),
    /// Compute which link limits what, with each number and its source
    Bottleneck(disk_bottleneck::Args),
    /// Write all that is needed to look at this machine elsewhere into one text file
    #[command(after_help = "\
The file holds what /sys says of disks, links, enclosures and networks, and the raw
answers of disks and enclosures; serial numbers and the name of the machine are in
it. It is text: look at it before you send it. Every 'kist disk' command reads it
with --from; two of them tell what has grown (--since).

Examples:
  sudo kist disk record jbod.machine
  kist disk record --no-ask jbod.machine")]
    Record {
        /// The file, which must not be there yet
        file: PathBuf,
        /// Do not ask disks and enclosures: only what /sys has
        #[arg(long)]
        no_ask: bool,
    },
}

/// Where a machine comes from.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Source {
    /// A recorded machine: a file of 'kist disk record', or a directory with a copy of /sys
    #[arg(long, value_name = "PATH")]
    pub from: Option<PathBuf>,
    /// Do not ask disks and enclosures: only what /sys has
    #[arg(long, conflicts_with = "from")]
    pub no_ask: bool,
}

impl Source {
    /// Looks at it.
    pub fn look(&self) -> Outcome<Machine> {
        Ok(match &self.from {
            Some(path) => open(path)?.machine,
            None => probe::live(!self.no_ask).machine,
        })
    }
}

/// Opens a recorded machine.
pub fn open(path: &Path) -> Outcome<Recorded> {
    probe::open(path).map_err(|error| {
        let exit = match &error {
            RecordedError::Read { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                Exit::NotFound
            }
            RecordedError::Read { .. } => Exit::Refused,
            _ => Exit::Usage,
        };
        Failure::new(exit, error.to_string())
    })
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    match &args.action {
        Action::Ls { source } => ls(source, common),
        Action::Slots { enclosure, source } => slots(enclosure.as_deref(), source, common),
        Action::Locate { slot, light } => locate(slot, light == "on", common),
        Action::Health(args) => disk_health::run(args, common),
        Action::Paths(args) => disk_paths::run(args, common),
        Action::Watch(args) => disk_watch::run(args, common),
        Action::Bottleneck(args) => disk_bottleneck::run(args, common),
        Action::Record { file, no_ask } => record(file, !no_ask, common),
    }
}

/// Tells what could not be read.
pub fn tell(machine: &Machine) {
    for Problem { path, why } in machine.problems.iter().take(PROBLEMS_TOLD) {
        output::note(&format!("not read: {}: {why}", terminal::one_line(path)));
    }
    let more = machine.problems.len().saturating_sub(PROBLEMS_TOLD) + machine.problems_left_out;
    if more > 0 {
        output::note(&format!("not read: {} more; --json lists them", text::count(more as u64)));
    }
}

fn ls(source: &Source, common: &Common) -> Outcome {
    let machine = source.look()?;
    tell(&machine);
    match common.json {
        true => output::json(&disk_json::machine(&machine)),
        false => output::write(&disk_tree::tree(&machine)),
    }
}

fn slots(word: Option<&str>, source: &Source, common: &Common) -> Outcome {
    let machine = source.look()?;
    tell(&machine);
    let is = |at: usize| {
        let enclosure = &machine.enclosures[at];
        let identifier = enclosure.identifier.map(|identifier| format!("{identifier:016x}"));
        word.is_none_or(|word| {
            word == at.to_string()
                || identifier.as_deref() == Some(word.trim_start_matches("0x"))
                || enclosure.services.iter().any(|one| one.device == word)
        })
    };
    let shown: Vec<usize> = (0..machine.enclosures.len()).filter(|at| is(*at)).collect();
    if shown.is_empty() {
        return Err(Failure::new(
            Exit::NotFound,
            match word {
                Some(word) => format!("there is no enclosure {word}: kist disk slots lists them"),
                None => format!("no enclosure tells of itself here. {}", disk_tree::nothing_of(&machine)),
            },
        ));
    }
    if common.json {
        let all: Vec<_> = shown.into_iter().map(|at| disk_json::enclosure(&machine, at)).collect();
        return output::json(&json!({ "enclosures": all }));
    }
    shown.into_iter().try_for_each(|at| output::write(&disk_tree::front(&machine, at)))
}

/// The slot that somebody means.
fn meant<'a>(machine: &'a Machine, word: &str) -> Outcome<(usize, &'a Slot)> {
    match machine.find_slots(word)[..] {
        [Place { enclosure, slot }] => Ok((enclosure, &machine.enclosures[enclosure].slots[slot])),
        [] if !machine.find(word).is_empty() => Err(Failure::new(
            Exit::NotFound,
            format!("no enclosure says in which slot {word} stands: its light cannot be reached"),
        )),
        [] => Err(Failure::new(
            Exit::NotFound,
            format!("there is no slot or disk {word}: kist disk slots lists them"),
        )),
        _ => Err(Failure::usage(format!("{word} means more than one slot: write ENCLOSURE/NUMBER"))),
    }
}

fn locate(word: &str, on: bool, common: &Common) -> Outcome {
    // The kernel's own files need no questions; without them the enclosures' pages say which element it is.
    let mut machine = probe::live(false).machine;
    let has_file =
        meant(&machine, word).is_ok_and(|(_, slot)| slot.at.iter().any(|at| at.directory.is_some()));
    if !has_file {
        machine = probe::live(true).machine;
    }
    let (at, slot) = meant(&machine, word)?;
    let enclosure = &machine.enclosures[at];
    let switched = probe::locate(enclosure, slot, on);
    let switched = switched.map_err(|error| Failure::new(Exit::Refused, error.to_string()))?;
    let by = match switched {
        Switched::Kernel => "kernel",
        Switched::Page => "page",
    };
    let light = if on { "on" } else { "off" };
    let served: Vec<&str> =
        enclosure.services.iter().map(|Services { device, .. }| device.as_str()).collect();
    let said = json!({ "enclosure": at, "slot": slot.number, "light": light, "by": by, "services": served });
    output::done(common, &said, &format!("the light of slot {at}/{} is {light}", slot.number))
}

fn record(file: &Path, asking: bool, common: &Common) -> Outcome {
    if file.exists() {
        return Err(Failure::new(
            Exit::Refused,
            format!("{} is there already: name a new file", file.display()),
        ));
    }
    let Recorded { machine, record, .. } = probe::live(asking);
    tell(&machine);
    let bytes = probe::save(&record, file).map_err(|error| {
        let exit = match &error {
            SaveError::Write { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                Exit::NotFound
            }
            _ => Exit::Refused,
        };
        Failure::new(exit, error.to_string())
    })?;
    let (disks, enclosures) = (machine.disks.len(), machine.enclosures.len());
    let said = json!({
        "file": file,
        "bytes": bytes,
        "entries": record.entries(),
        "disks": disks,
        "enclosures": enclosures,
        "not_read": machine.problems.len() + machine.problems_left_out,
    });
    let words = format!(
        "{}: {} in {}, of {} and {}; serial numbers are in it",
        file.display(),
        text::plural(record.entries() as u64, "entry"),
        text::size(bytes as u64),
        text::plural(disks as u64, "disk"),
        text::plural(enclosures as u64, "enclosure"),
    );
    output::done(common, &said, &words)
}
