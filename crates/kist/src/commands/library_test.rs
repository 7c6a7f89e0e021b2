//! `kist library test`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, IsTerminal as _, stdin};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use acceptance::{AcceptanceReport, Plan, Subject};
use archive::{LibraryKind, ScsiLibrarySettings, Settings};
use base::{Blake3, ByteCount, Vid};
use clap::ArgAction;
use config::Size;
use library::scsi::changer::{ChangerReport, ScsiLibrary, Unreached};
use library::scsi::{
    DeviceAddress, DeviceType, DriveIdentity, ReservationKey, ScsiDrive, Sources, Transport, Ways, discover,
};
use library::{DriveName, Library, Place};
use store::{CatalogueStore, StoreOptions};
use terminal::{Exit, Failure, Outcome, Progress, output, text};

use super::library_scan::{ChangerFound, Reach};
use super::library_test_report::{self, Tested};
use super::restore::instance_target;
use crate::cli::Common;
use crate::instance::Instance;
use crate::serve::SystemClock;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Each drive in turn loads the tape, formats two partitions, writes, reads and locates in both,
and is asked for all that an archive makes use of. It takes some minutes a drive. With --to-end
the tape is written full, which takes hours. It is blank and in its slot afterwards.

Everything on the tape is destroyed, so it is named twice. A tape that the archive's catalogue
knows as anything but scratch is refused. So is one with a label or a program's name in its
memory, unless it is named a third time, with --overwrite or when the terminal asks.

The library is that of the instance (kist.toml), whose server must not run, or the one at a
portal. At a portal no catalogue is asked: of a library that a server uses, what is on the tape
alone keeps it from being destroyed, so stop that server first. Exit code 1 if a step failed.

Examples:
  kist library test --portal tape1.example.org:3260 --tape KV0007 --destroy KV0007
  kist library test --tape KV0007 --destroy KV0007 --drive drive1 --report drive1.txt
  kist library test --tape KV0007 --destroy KV0007 --drive drive0 --to-end --json")]
pub struct Args {
    /// The tape to test with
    #[arg(long, value_name = "VID", value_parser = vid)]
    tape: Vid,
    /// The same again: what is on it is destroyed
    #[arg(long, value_name = "VID", value_parser = vid)]
    destroy: Vid,
    /// And again, if there is a label or a program's name on it
    #[arg(long, value_name = "VID", value_parser = vid)]
    overwrite: Option<Vid>,
    /// Test this drive; may be given several times; default: each drive in turn
    #[arg(long = "drive", value_name = "NAME", action = ArgAction::Append)]
    drives: Vec<String>,
    /// The library by its name, if kist.toml has several; default: the first
    #[arg(long, value_name = "NAME", conflicts_with = "portals")]
    library: Option<String>,
    /// The changer by its serial number, if there are several at the portals
    #[arg(long, value_name = "SERIAL", requires = "portals")]
    changer: Option<String>,
    /// What is written to measure rates
    #[arg(long, default_value = "4GB", value_parser = Size::parse, value_name = "SIZE")]
    data: Size,
    /// Also write the tape to its end, which takes hours
    #[arg(long)]
    to_end: bool,
    /// Write the report to this file too
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    #[command(flatten)]
    reach: Reach,
}

fn vid(text: &str) -> Result<Vid, String> {
    Vid::new(text).map_err(|error| error.to_string())
}

/// What is tested, and what keeps others from it.
struct Found {
    settings: ScsiLibrarySettings,
    prefix: String,
    key: ReservationKey,
    _instance: Option<super::restore::Target>,
}

/// The drivers of the drives that were reached.
type Opened = Arc<Mutex<BTreeMap<DriveName, ScsiDrive>>>;

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    check(args)?;
    if let Some(file) = &args.report {
        // Hours later is too late to find out.
        fs::write(file, "").map_err(|error| Failure::io("writing", file, &error))?;
    }
    let found = find(args, common)?;
    let opened = Opened::default();
    let library = open(&found, &opened)?;
    let report = library.report();
    let Some(report) = report.filter(|_| library.out_of_reach().is_empty()) else {
        let why = library.out_of_reach().join("; ");
        return Err(Failure::new(Exit::NotFound, format!("the library is not reached: {why}")));
    };
    check_place(&library, args.tape)?;
    let drives = chosen(args, &library)?;
    let (ways, sources) = ways_of(&found)?;
    let mut tested = Tested::new(args.tape);
    for drive in drives {
        let one = test(args, common, &library, &opened, drive.clone(), &ways, &sources)?;
        tested.drives.push((drive, one));
    }
    tell(args, common, &tested, &report)
}

fn check(args: &Args) -> Outcome {
    let (tape, others) = (args.tape, [("--destroy", Some(args.destroy)), ("--overwrite", args.overwrite)]);
    if let Some((option, Some(other))) =
        others.into_iter().find(|(_, vid)| vid.is_some_and(|vid| vid != tape))
    {
        let what =
            format!("--tape names {tape} and {option} names {other}: both must name the same cartridge");
        return Err(Failure::usage(what));
    }
    if args.data.0.0 == 0 {
        return Err(Failure::usage("--data is more than 0B: without it no rate is measured"));
    }
    Ok(())
}

fn tell(args: &Args, common: &Common, tested: &Tested, report: &ChangerReport) -> Outcome {
    let words = library_test_report::text(tested, report);
    if let Some(file) = &args.report {
        fs::write(file, &words).map_err(|error| Failure::io("writing", file, &error))?;
    }
    if common.json {
        output::json(&library_test_report::json(tested, report))?;
    } else {
        output::write(&words)?;
    }
    let failed = tested.drives.iter().filter(|(_, report)| !report.is_passed()).count();
    match failed {
        0 => Ok(()),
        _ => {
            let what = format!("{} did not pass", text::plural(failed as u64, "drive"));
            Err(Failure::new(Exit::SomeFailed, what))
        }
    }
}

/// The library, by the configuration or at portals. An instance that is there has no server meanwhile, and
/// says what it knows of the tape, whichever library is meant.
fn find(args: &Args, common: &Common) -> Outcome<Found> {
    let directory = common.connection.instance_directory();
    if !args.reach.is_named() {
        // Says what is missing.
        Instance::local(&common.connection)?;
    }
    let instance = Instance::exists(&directory).then(|| instance_target(&directory)).transpose()?;
    if let Some((_, settings, _)) = &instance {
        check_catalogue(settings, args.tape)?;
    }
    if args.reach.is_named() {
        let settings = at_portals(args)?;
        let lock = instance.map(|(_, _, target)| target);
        return Ok(Found { settings, prefix: String::new(), key: own_key(), _instance: lock });
    }
    let Some((_, settings, target)) = instance else {
        return Err(Failure::internal("an instance that is there is opened"));
    };
    let all = std::iter::once((&settings.library, String::new()));
    let more = settings.more_libraries.iter().map(|more| (more, format!("{}-", more.name)));
    let mut all = all.chain(more);
    let wanted = match &args.library {
        None => all.next(),
        Some(name) => all.find(|(library, _)| library.name == *name),
    };
    let Some((library, prefix)) = wanted else {
        let name = args.library.as_deref().unwrap_or_default();
        return Err(Failure::new(Exit::NotFound, format!("kist.toml has no library '{name}'")));
    };
    let LibraryKind::Scsi(scsi) = &library.kind else {
        let what = "the library is one of files: there is no hardware to test. See kist library serve, and \
            --portal";
        return Err(Failure::new(Exit::Refused, what));
    };
    let (settings, key) = (scsi.clone(), archive::reservation_key(&settings));
    Ok(Found { settings, prefix, key, _instance: Some(target) })
}

/// By what drives are reserved for a test without an instance: the same each time on this machine, so that a
/// test takes back what one before it has left reserved.
fn own_key() -> ReservationKey {
    let host = fs::read("/proc/sys/kernel/hostname").unwrap_or_default();
    let hash = Blake3::of(&[b"kist library test".as_slice(), &host].join(&0)).0;
    let (first, _) = hash.split_first_chunk().unwrap_or((&[1; 8], &[]));
    // 0 is no key.
    ReservationKey::from(u64::from_be_bytes(*first).max(1))
}

/// Refuses a tape that the archive has given a use, or set aside.
fn check_catalogue(settings: &Settings, vid: Vid) -> Outcome {
    let directory = &settings.catalogue_directory;
    if !CatalogueStore::is_there(directory) {
        return Ok(());
    }
    let options =
        StoreOptions { map_size: settings.catalogue_map_size, clock: Arc::new(SystemClock), batch_max: 1 };
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(Exit::Refused, format!("whether {vid} is scratch cannot be looked up: {error}"))
    };
    let catalogue = CatalogueStore::open(directory, options).map_err(|error| failed(&error))?;
    let tape = catalogue.read(|view| view.tape(vid)).map_err(|error| failed(&error))?;
    let Some(tape) = tape else { return Ok(()) };
    if tape.is_unused() {
        return Ok(());
    }
    let word = tape.state.word();
    let what = format!("cartridge {vid} belongs to the archive (its state is '{word}'): take a scratch tape");
    Err(Failure::new(Exit::Refused, what))
}

/// The one changer at the portals, with all its drives.
fn at_portals(args: &Args) -> Outcome<ScsiLibrarySettings> {
    let (ways, sources) = args.reach.ways()?;
    let found = discover(&ways, &sources);
    let is_it = |serial: &str| args.changer.as_ref().is_none_or(|wanted| wanted == serial);
    let changers: Vec<_> =
        found.of_type(DeviceType::Changer).filter(|changer| is_it(&changer.serial)).collect();
    let device = match changers.as_slice() {
        [one] => *one,
        [] => {
            let others: Vec<&str> =
                found.of_type(DeviceType::Changer).map(|changer| changer.serial.as_str()).collect();
            let others = match others.as_slice() {
                [] => String::new(),
                others => format!(" There is {}.", others.join(", ")),
            };
            let failed = found.failed.join("; ");
            let what = match &args.changer {
                None => format!("no changer was found.{others} {failed}"),
                Some(serial) => format!("changer {serial} was not found.{others} {failed}"),
            };
            return Err(Failure::new(Exit::NotFound, what.trim_end().to_owned()));
        }
        [first, rest @ ..] if rest.iter().all(|one| one.serial == first.serial) => *first,
        several => {
            let serials: Vec<&str> = several.iter().map(|one| one.serial.as_str()).collect();
            let what = format!("there are {} changers: choose with --changer", serials.join(", "));
            return Err(Failure::usage(what));
        }
    };
    let changer = ChangerFound::of(device.clone(), &ways, &sources, &found);
    let (initiator, chap) = args.reach.settings()?;
    Ok(ScsiLibrarySettings {
        changer: changer.choice(),
        drives: changer.seats().into_values().flatten().collect(),
        slots: None,
        portals: sources.portals,
        initiator,
        chap,
        capacity: ByteCount(0),
        timing: None,
    })
}

fn open(found: &Found, opened: &Opened) -> Outcome<ScsiLibrary> {
    let (key, opened) = (found.key, Arc::clone(opened));
    let make = move |name: &DriveName, way: Box<dyn Transport>| {
        let drive = archive::scsi_driver(name, way, Some(key))?;
        opened.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone(), drive.clone());
        archive::seated(drive)
    };
    archive::open_scsi_library(&found.settings, &found.prefix, Box::new(make))
        .map_err(|error| Failure::new(Exit::Refused, error.to_string()))
}

/// The tape must be in a slot.
fn check_place(library: &ScsiLibrary, vid: Vid) -> Outcome {
    let all = library.inventory().map_err(|error| Failure::new(Exit::Refused, error.to_string()))?;
    let place = all.into_iter().find(|one| one.vid == vid).map(|one| one.place);
    let what = match place {
        Some(Place::Slot(_) | Place::ImportExport(_)) => return Ok(()),
        // What an earlier process left there is brought home when it is wanted.
        Some(Place::Drive(_)) => return Ok(()),
        Some(Place::Unknown) => format!("nobody knows where cartridge {vid} is"),
        None if library.cleaners().iter().any(|cleaner| cleaner.vid == vid) => {
            let what = format!("{vid} is a cleaning cartridge, which cannot be tested with: name a tape");
            return Err(Failure::usage(what));
        }
        None => format!("the library has no cartridge {vid}"),
    };
    Err(Failure::new(Exit::NotFound, what))
}

fn chosen(args: &Args, library: &ScsiLibrary) -> Outcome<Vec<DriveName>> {
    let all = library.drives();
    if args.drives.is_empty() {
        return match all.is_empty() {
            true => Err(Failure::new(Exit::NotFound, "the library has no drive that was found")),
            false => Ok(all),
        };
    }
    let one = |name: &String| {
        all.iter().find(|drive| drive.as_str() == name).cloned().ok_or_else(|| {
            let names: Vec<&str> = all.iter().map(DriveName::as_str).collect();
            Failure::new(Exit::NotFound, format!("there is no drive {name}: there are {}", names.join(", ")))
        })
    };
    args.drives.iter().map(one).collect()
}

fn ways_of(found: &Found) -> Outcome<(Ways, Sources)> {
    let ways = archive::scsi_ways(found.settings.initiator.clone(), found.settings.chap.as_ref());
    let ways = ways.map_err(|error| Failure::usage(error.to_string()))?;
    Ok((ways, archive::scsi_sources(&found.settings)))
}

/// A second way to a drive: another session of an iSCSI unit, or another of its ways. What Linux has one
/// device of has one way.
fn second_way(ways: &Ways, sources: &Sources, drive: &DriveIdentity) -> Result<Box<dyn Transport>, String> {
    let found = discover(ways, sources);
    let all: Vec<&DeviceAddress> = found
        .of_type(DeviceType::Tape)
        .filter(|device| device.serial == drive.serial)
        .map(|device| &device.address)
        .collect();
    let is_network = |address: &&&DeviceAddress| matches!(address, DeviceAddress::Iscsi { .. });
    let second = all.iter().find(is_network).or_else(|| all.get(1));
    let second = second.ok_or("there is one way to the drive, and two are needed to try it")?;
    ways.open(second).map_err(|Unreached(why)| why)
}

fn test(
    args: &Args,
    common: &Common,
    library: &ScsiLibrary,
    opened: &Opened,
    drive: DriveName,
    ways: &Ways,
    sources: &Sources,
) -> Outcome<AcceptanceReport> {
    let scsi = || opened.lock().unwrap_or_else(PoisonError::into_inner).get(&drive).cloned();
    let second = |identity: &DriveIdentity| second_way(ways, sources, identity);
    let subject = Subject { library, drive: drive.clone(), scsi: &scsi, second: &second };
    let shown: RefCell<Option<(&'static str, Progress)>> = RefCell::new(None);
    let told = |progress: acceptance::Progress| {
        let mut shown = shown.borrow_mut();
        if shown.as_ref().is_none_or(|(step, _)| *step != progress.step) {
            // The one before it ends its line first.
            *shown = None;
            let title = format!("{drive}: {}", progress.step);
            *shown = Some((progress.step, Progress::start_of(&title, "step", 0, 0, common.quiet)));
        }
        if let Some((_, bar)) = shown.as_ref() {
            bar.set_totals(0, progress.of.unwrap_or(0));
            bar.set(0, progress.bytes);
        }
    };
    let mut plan =
        Plan { vid: args.tape, overwrite: args.overwrite.is_some(), bytes: args.data.0, to_end: args.to_end };
    let run = |plan: &Plan| {
        let report = acceptance::run(&subject, plan, &told);
        shown.borrow_mut().take();
        report
    };
    let report = run(&plan);
    match &report.belonging {
        Some(what) if !plan.overwrite && !common.json && is_typed(args.tape, what)? => {
            plan.overwrite = true;
            Ok(run(&plan))
        }
        _ => Ok(report),
    }
}

/// Asks whoever sits at the terminal.
fn is_typed(vid: Vid, what: &str) -> Outcome<bool> {
    if !stdin().is_terminal() {
        return Ok(false);
    }
    output::note(&format!("there is something on cartridge {vid}: {what}"));
    output::note(&format!("type {vid} to destroy it, anything else to leave it as it is:"));
    let mut line = String::new();
    let read = stdin().lock().read_line(&mut line);
    read.map_err(|error| Failure::internal(format!("reading from the terminal: {error}")))?;
    Ok(line.trim() == vid.as_str())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn what_cannot_be_meant_is_named() {
        let said = |destroy: &str, more: &[&str]| {
            let all = [&["kist", "--tape", "KV0001", "--destroy", destroy], more].concat();
            check(&Line::try_parse_from(all).unwrap().args).map_err(|failure| failure.to_string())
        };
        assert_eq!(said("KV0001", &["--overwrite", "KV0001"]), Ok(()));
        let error = said("KV0002", &[]).unwrap_err();
        assert!(error.contains("KV0001") && error.contains("--destroy names KV0002"), "{error}");
        let error = said("KV0001", &["--overwrite", "KV0003"]).unwrap_err();
        assert!(error.contains("--overwrite names KV0003"), "{error}");
        assert!(said("KV0001", &["--data", "0B"]).unwrap_err().contains("--data is more than 0B"));
    }
}
