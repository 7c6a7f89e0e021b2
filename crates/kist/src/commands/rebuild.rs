//! `kist rebuild`: a catalogue from the cartridges alone.

use std::fs;
use std::path::{Path, PathBuf};

use archive::{RebuildError, Rebuilt, open_libraries};
use drive::DirectoryDrive;
use serde::Serialize;

use super::backup::failed;
use super::restore::{Target, incomplete, instance_target};
use crate::cli::Common;
use crate::failure::{Exit, Failure, Outcome};
use crate::progress::{Progress, Stages};
use crate::table::Table;
use crate::{output, text};

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
For when the catalogue and its backup are lost. Every cartridge of the library
is read: its newest index, and the change log, which stands before each index.
It begins with the newest base of the catalogue that is whole on a tape, else
with the first change. Names, versions, times, classes and checksums become those of the newest
change that a tape has. The server must not run.

What the pool still has stays online; with new, blank drives say --new-pool:
then files are NEARLINE, and LOST if they were in the pool only.

Example:
  kist rebuild --from-tapes /srv/kist")]
pub struct Args {
    /// Say so: it reads every cartridge
    #[arg(long, required = true)]
    from_tapes: bool,
    /// Keep the catalogue that is there under another name
    #[arg(long)]
    move_aside: bool,
    /// Go on although changes that were made are missing
    #[arg(long)]
    accept_loss: bool,
    /// Make pool drives in directories of kist.toml that are missing or empty
    #[arg(long)]
    new_pool: bool,
    /// The instance
    dir: PathBuf,
}

#[derive(Serialize)]
struct TapeLine {
    vid: String,
    what: String,
    containers: u64,
    unknown: u64,
    unknown_paths: Vec<String>,
}

#[derive(Serialize)]
struct RebuildReply {
    catalogue: String,
    moved_aside: Option<String>,
    instance: String,
    base: Option<u64>,
    change: u64,
    changed_at: String,
    replayed: u64,
    missing_from: Option<u64>,
    missing_to: Option<u64>,
    drives_have_seen: u64,
    inconsistencies: u64,
    absent: Vec<String>,
    damaged: Vec<String>,
    new_drives: Vec<u16>,
    drives_unread: Vec<String>,
    tapes: Vec<TapeLine>,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    if !args.from_tapes {
        return Err(Failure::usage("say what to rebuild from: kist rebuild --from-tapes DIR"));
    }
    let (_, settings, target) = instance_target(&args.dir)?;
    if !args.new_pool {
        refuse_without_drives(settings.pool.drives.len(), &target.drives_unread)?;
    }
    let making = target.begin(args.move_aside)?;
    let spool = target.beside("segments");
    if spool.exists() {
        fs::remove_dir_all(&spool).map_err(|error| Failure::io("removing", &spool, &error))?;
    }
    let library = open_libraries(&settings).map_err(|error| Failure::internal(error.to_string()))?;
    let progress = Progress::start_of("rebuild", "step", 0, 0, common.quiet);
    progress.note("drives and cartridges are looked for");
    let mut shown = Stages::of(progress);
    let rebuilt = archive::rebuild(
        library.as_ref(),
        target.pool,
        &making,
        &spool,
        target.map_size,
        text::now(),
        &mut |progress| shown.told(progress),
    );
    drop(shown);
    let _ = fs::remove_dir_all(&spool);
    let rebuilt = rebuilt.map_err(|error| {
        let _ = fs::remove_dir_all(&making);
        match &error {
            RebuildError::Backup(error) => failed(error),
            RebuildError::NoBeginning { .. } => Failure::new(Exit::NotFound, error.to_string()),
            RebuildError::Replay(_) => Failure::new(Exit::Differs, error.to_string()),
            _ => Failure::internal(error.to_string()),
        }
    })?;
    let missing_to = missing_to(&rebuilt, target.pool.change);
    if let Some(seen) = missing_to.filter(|_| !args.accept_loss) {
        return Err(keep_incomplete(&target, &making, &rebuilt, seen));
    }
    let new_drives = if args.new_pool { make_drives(&settings, &rebuilt)? } else { Vec::new() };
    let aside = target.finish(&making)?;
    let reply = reply(&rebuilt, &target, aside, new_drives, args.new_pool);
    if common.json {
        output::json(&reply)?
    } else {
        show(&reply)?
    }
    if reply.missing_from.is_some() || reply.inconsistencies > 0 || reply.tapes.iter().any(|t| t.unknown > 0)
    {
        let message = "the catalogue is rebuilt, but not everything on the tapes is in it: see above";
        return Err(Failure::new(Exit::Differs, message));
    }
    Ok(())
}

/// The newest change that was made for certain, if the catalogue does not have it.
fn missing_to(rebuilt: &Rebuilt, seen: u64) -> Option<u64> {
    let of_tapes = rebuilt.missing_from.map(|from| rebuilt.missing_to.unwrap_or(from));
    of_tapes.into_iter().chain((seen > rebuilt.change).then_some(seen)).max()
}

/// All tapes were read for it: what was rebuilt is kept beside, and nothing is put in place.
fn keep_incomplete(target: &Target, making: &Path, rebuilt: &Rebuilt, seen: u64) -> Failure {
    let kept = target.free_name("incomplete");
    let message = incomplete(
        rebuilt.change,
        rebuilt.changed_at,
        "drives of the pool have",
        seen,
        "what the tapes have",
    );
    match fs::rename(making, &kept) {
        Ok(()) => {
            // A directory that is there would take it in, not give way to it.
            let there = target.catalogue.exists().then(|| target.free_name("before"));
            let (kept, catalogue) = (kept.display(), target.catalogue.display());
            let first = there.map(|to| format!("mv {catalogue} {} && ", to.display())).unwrap_or_default();
            let how = format!(
                "It is kept in {kept}: to use it without reading the tapes again: {first}\
                 mv {kept} {catalogue}"
            );
            Failure::new(Exit::Incomplete, format!("{message}. {how}"))
        }
        Err(error) => Failure::io("keeping", &kept, &error),
    }
}

/// Without a single drive nobody knows what the pool had seen last, and nothing of it would be online.
fn refuse_without_drives(drives: usize, unread: &[String]) -> Outcome {
    match unread.first() {
        Some(first) if unread.len() == drives => Err(Failure::new(
            Exit::Refused,
            format!(
                "none of the pool's {} is there ({first}): mount them; if they are gone for good, \
                 --new-pool makes new ones: then files are NEARLINE, and LOST if they were in the pool only",
                text::plural(drives as u64, "drive")
            ),
        )),
        _ => Ok(()),
    }
}

fn reply(
    rebuilt: &Rebuilt,
    target: &Target,
    aside: Option<PathBuf>,
    new_drives: Vec<u16>,
    new_pool: bool,
) -> RebuildReply {
    RebuildReply {
        catalogue: target.catalogue.display().to_string(),
        moved_aside: aside.map(|aside| aside.display().to_string()),
        instance: rebuilt.instance.to_string(),
        base: rebuilt.base,
        change: rebuilt.change,
        changed_at: text::rfc3339(rebuilt.changed_at),
        replayed: rebuilt.replayed,
        missing_from: rebuilt.missing_from,
        missing_to: rebuilt.missing_to,
        drives_have_seen: target.pool.change,
        inconsistencies: rebuilt.inconsistencies,
        absent: rebuilt.absent.iter().map(ToString::to_string).collect(),
        damaged: rebuilt.damaged.clone(),
        drives_unread: if new_pool { Vec::new() } else { target.drives_unread.clone() },
        new_drives,
        tapes: rebuilt.tapes.iter().map(tape_line).collect(),
    }
}

fn tape_line(tape: &archive::TapeFound) -> TapeLine {
    TapeLine {
        vid: tape.vid.to_string(),
        what: tape.what.clone(),
        containers: tape.containers,
        unknown: tape.unknown,
        unknown_paths: tape.unknown_paths.clone(),
    }
}

/// Makes the drives whose directories are missing or empty.
fn make_drives(settings: &archive::Settings, rebuilt: &Rebuilt) -> Outcome<Vec<u16>> {
    let mut made = Vec::new();
    for drive in &settings.pool.drives {
        let failed = |error: std::io::Error| Failure::io("making the pool drive", &drive.path, &error);
        fs::create_dir_all(&drive.path).map_err(failed)?;
        if fs::read_dir(&drive.path).map_err(failed)?.next().is_some() {
            continue;
        }
        DirectoryDrive::format(&drive.path, rebuilt.instance, base::DriveId(drive.id))
            .map_err(|error| Failure::internal(error.to_string()))?;
        made.push(drive.id);
    }
    Ok(made)
}

fn show(reply: &RebuildReply) -> Outcome {
    let mut table = Table::new(&["tape", ">containers", ">unknown", "what it holds"]);
    for tape in &reply.tapes {
        table.row(vec![
            tape.vid.clone(),
            text::count(tape.containers),
            text::count(tape.unknown),
            tape.what.clone(),
        ]);
    }
    output::write(&table.render())?;
    output::line(&match reply.base {
        Some(change) => format!("began      with the base at change {change}, which a tape has"),
        None => "began      with the first change: no tape has a base of this history".to_owned(),
    })?;
    output::line(&format!(
        "rebuilt    {}, the newest is {} of {}",
        text::plural(reply.replayed, "change"),
        reply.change,
        text::whole_seconds(&reply.changed_at)
    ))?;
    output::line(&format!("into       {}", reply.catalogue))?;
    if let Some(aside) = &reply.moved_aside {
        output::line(&format!("moved      the catalogue that was there to {aside}"))?;
    }
    if let Some(from) = reply.missing_from {
        let to = reply.missing_to.map_or_else(String::new, |to| format!(" to {}", to.saturating_sub(1)));
        output::line(&format!(
            "MISSING    changes from {from}{to}: no tape has them; what came later is not in the catalogue"
        ))?;
    }
    if reply.drives_have_seen > reply.change {
        output::line(&format!(
            "MISSING    changes up to {} at least, which drives of the pool have seen",
            reply.drives_have_seen
        ))?;
    }
    for vid in &reply.absent {
        output::line(&format!("absent     tape {vid} holds data and is not there or cannot be read"))?;
    }
    for what in reply.damaged.iter().chain(&reply.drives_unread) {
        output::line(&format!("note       {what}"))?;
    }
    for tape in reply.tapes.iter().filter(|tape| tape.unknown > 0) {
        output::line(&format!("unknown    on tape {}, readable with any LTFS program:", tape.vid))?;
        tape.unknown_paths.iter().try_for_each(|path| output::line(&format!("             {path}")))?;
    }
    if reply.inconsistencies > 0 {
        let found = text::plural(reply.inconsistencies, "contradiction");
        output::line(&format!("WRONG      {found} between records: kist verify --catalogue lists them"))?;
    }
    Ok(())
}
