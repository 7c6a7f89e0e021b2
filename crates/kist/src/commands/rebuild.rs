//! `kist rebuild`: a catalogue from the cartridges alone.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use archive::open_libraries;
use backup::{RebuildError, Rebuilt, TapeUnread};
use serde::Serialize;
use terminal::{Exit, Failure, Outcome, Progress, Table, output, text};

use super::backup::failed;
use super::restore::{Target, instance_target};
use crate::cli::Common;
use crate::library_lock;
use crate::stages::Stages;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
For when the catalogue and its backup are lost. Every cartridge of the library
is read: its newest index, and the change log, which stands before each index.
It begins with the newest base of the catalogue that is whole on a tape, else
with the first change. Names, versions, times, classes and checksums become those of the newest
change that a tape has. The server must not run.

If changes that were made are missing (the newest of them are on no tape when
a server stops: they wait for the next index), or cartridges that may have
some could not be read, what was rebuilt is kept beside, and --accept-loss puts
it in place. Exit codes:
  0  in place; with --accept-loss also without the changes that are missing
  1  in place, but cartridges, or parts of them, were not read
  7  in place, but it contradicts itself, or does not have all that tapes hold
  9  nothing was put in place: look at what is missing, or say --accept-loss

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
    /// Go on although changes that were made are missing, or cartridges were not read
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
struct UnreadLine {
    vid: String,
    what: String,
    may_have_more: bool,
}

#[derive(Serialize)]
struct RebuildReply {
    catalogue: String,
    in_place: bool,
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
    unread: Vec<UnreadLine>,
    damaged: Vec<String>,
    left_behind: Vec<String>,
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
    let _libraries = library_lock::take_all(&settings)?;
    if !args.new_pool {
        refuse_without_drives(settings.pool.drives.len(), &target.drives_unread)?;
    }
    let making = target.begin(args.move_aside)?;
    let spool = target.beside("segments");
    if spool.exists() {
        fs::remove_dir_all(&spool).map_err(|error| Failure::io("removing", &spool, &error))?;
    }
    let library = open_libraries(&settings).map_err(|error| Failure::internal(error.to_string()))?;
    // Without one of its libraries a catalogue would be made that lacks what stands there.
    if let Some(away) = library.out_of_reach().first() {
        return Err(Failure::new(Exit::Refused, format!("{away}: all libraries must be reached")));
    }
    let progress = Progress::start_of("rebuild", "step", 0, 0, common.quiet);
    progress.note("drives and cartridges are looked for");
    let mut shown = Stages::of(progress);
    let rebuilt = backup::rebuild(
        (library.as_ref(), &settings.tape_keys()),
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
            RebuildError::NotEmpty(_) => Failure::new(Exit::Refused, error.to_string()),
            RebuildError::NoBeginning { .. } => Failure::new(Exit::NotFound, error.to_string()),
            RebuildError::Replay(_) => Failure::new(Exit::Differs, error.to_string()),
            _ => Failure::internal(error.to_string()),
        }
    })?;
    let missing_to = missing_to(&rebuilt, target.pool.change);
    let may_lack = missing_to.is_some() || rebuilt.unread.iter().any(|tape| tape.may_have_more);
    if may_lack && !args.accept_loss {
        let kept = target.free_name("incomplete");
        fs::rename(&making, &kept).map_err(|error| Failure::io("keeping", &kept, &error))?;
        let reply = reply(&rebuilt, &target, Place::Beside(&kept), Vec::new(), args.new_pool);
        tell(&reply, common)?;
        return Err(Failure::new(Exit::Incomplete, refusal(&rebuilt, missing_to, &target, &kept, args)));
    }
    let new_drives = if args.new_pool { make_drives(&settings, &rebuilt)? } else { Vec::new() };
    let aside = target.finish(&making)?;
    tell(&reply(&rebuilt, &target, Place::InPlace(aside), new_drives, args.new_pool), common)?;
    match verdict(&rebuilt) {
        Some((exit, message)) => Err(Failure::new(exit, message)),
        None => Ok(()),
    }
}

fn tell(reply: &RebuildReply, common: &Common) -> Outcome {
    if common.json { output::json(reply) } else { show(reply) }
}

/// How a rebuild ends whose catalogue is in place, if not everything is in it.
///
/// Changes that are missing are here only if somebody has said that they may be: as with `kist restore` that
/// is no failure.
fn verdict(rebuilt: &Rebuilt) -> Option<(Exit, String)> {
    let unread = vids_unread(rebuilt, |_| true);
    if rebuilt.inconsistencies > 0 {
        let message = "the catalogue is rebuilt, and records in it contradict each other: see above";
        return Some((Exit::Differs, message.to_owned()));
    }
    if !unread.is_empty() {
        let message =
            format!("the catalogue is rebuilt and in place, but not all was read of {unread}: see above");
        return Some((Exit::SomeFailed, message));
    }
    let is_all = rebuilt.tapes.iter().all(|tape| tape.unknown == 0);
    (!is_all).then(|| {
        let message = "the catalogue is rebuilt, but not everything on the tapes is in it: see above";
        (Exit::Differs, message.to_owned())
    })
}

/// The cartridges that were not read, or not all of them.
fn vids_unread(rebuilt: &Rebuilt, which: impl Fn(&TapeUnread) -> bool) -> String {
    let unread = rebuilt.unread.iter().filter(|tape| which(tape));
    let vids: BTreeSet<String> = unread.map(|tape| tape.vid.to_string()).collect();
    vids.into_iter().collect::<Vec<_>>().join(", ")
}

/// The newest change that was made for certain, if the catalogue does not have it.
fn missing_to(rebuilt: &Rebuilt, seen: u64) -> Option<u64> {
    let of_tapes = rebuilt.missing_from.map(|from| rebuilt.missing_to.unwrap_or(from));
    of_tapes.into_iter().chain((seen > rebuilt.change).then_some(seen)).max()
}

/// Why nothing is put in place, and what can be done, each on its line. All tapes were read for it: what was
/// rebuilt is in `kept`.
fn refusal(rebuilt: &Rebuilt, missing_to: Option<u64>, target: &Target, kept: &Path, args: &Args) -> String {
    let instance = args.dir.display();
    let new_pool = if args.new_pool { "--new-pool " } else { "" };
    let unread = vids_unread(rebuilt, |tape| tape.may_have_more);
    let end = text::rfc3339(rebuilt.changed_at);
    let why = match (missing_to.is_some(), unread.is_empty()) {
        (true, true) => format!("changes that were made after {end} are on no tape"),
        (true, false) => {
            format!("changes that were made after {end} are on no tape that was read; {unread} was not")
        }
        (false, _) => format!("not all was read of {unread}, which may have changes of after {end}"),
    };
    // A directory that is there would take it in, not give way to it.
    let there = target.catalogue.exists().then(|| target.free_name("before"));
    let (kept, catalogue) = (kept.display(), target.catalogue.display());
    let first = there.as_ref().map(|to| format!("mv {catalogue} {} && ", to.display())).unwrap_or_default();
    let aside = if there.is_some() { "--move-aside " } else { "" };
    let backup = match &target.backup {
        Some(backup) if backup.is_dir() => format!(
            "\n  - the backup may have them: kist restore --from {} {aside}{}",
            backup.display(),
            instance
        ),
        Some(backup) => format!("\n  - the backup may have them: {} is not there now", backup.display()),
        None => String::new(),
    };
    let tapes = if unread.is_empty() {
        "bring tapes that are missing"
    } else {
        "look at these tapes, or their drives"
    };
    format!(
        "nothing was put in place: {why}{backup}\n  - {tapes}, and rebuild again\n  - or do without: what \
         was put, renamed or deleted then is as it was before. The catalogue without it is kept:\n    \
         {first}mv {kept} {catalogue}\n    or, all tapes being read again: \
         kist rebuild --from-tapes --accept-loss {aside}{new_pool}{instance}"
    )
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

/// Where a rebuilt catalogue is.
enum Place<'p> {
    /// In the instance; where the one is that was there.
    InPlace(Option<PathBuf>),
    /// Kept, for it is not complete.
    Beside(&'p Path),
}

fn reply(
    rebuilt: &Rebuilt,
    target: &Target,
    place: Place<'_>,
    new_drives: Vec<u16>,
    new_pool: bool,
) -> RebuildReply {
    let (catalogue, aside, in_place) = match place {
        Place::InPlace(aside) => (target.catalogue.as_path(), aside, true),
        Place::Beside(kept) => (kept, None, false),
    };
    let left = target.named("incomplete").into_iter().filter(|path| path != catalogue);
    RebuildReply {
        catalogue: catalogue.display().to_string(),
        in_place,
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
        unread: rebuilt.unread.iter().map(unread_line).collect(),
        damaged: rebuilt.damaged.clone(),
        left_behind: left.map(|path| path.display().to_string()).collect(),
        drives_unread: if new_pool { Vec::new() } else { target.drives_unread.clone() },
        new_drives,
        tapes: rebuilt.tapes.iter().map(tape_line).collect(),
    }
}

fn unread_line(tape: &TapeUnread) -> UnreadLine {
    UnreadLine { vid: tape.vid.to_string(), what: tape.what.clone(), may_have_more: tape.may_have_more }
}

fn tape_line(tape: &backup::TapeFound) -> TapeLine {
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
        let made_place = drive.at.make_place();
        let is_empty = made_place
            .map_err(|error| Failure::internal(format!("making the pool drive at {}: {error}", drive.at)))?;
        if !is_empty {
            continue;
        }
        drive
            .at
            .format(rebuilt.instance, base::DriveId(drive.id))
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
    output::line(&format!(
        "{} {}",
        if reply.in_place { "into      " } else { "kept in   " },
        reply.catalogue
    ))?;
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
    for tape in &reply.unread {
        output::line(&format!("NOT READ   tape {}: {}", tape.vid, tape.what))?;
    }
    for what in reply.damaged.iter().chain(&reply.drives_unread) {
        output::line(&format!("note       {what}"))?;
    }
    for path in &reply.left_behind {
        output::line(&format!("left       {path} is of an earlier rebuild: remove it if nobody needs it"))?;
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

#[cfg(test)]
mod tests {
    use base::{Timestamp, Uuid, Vid};

    use super::*;

    fn rebuilt(unread: &[(&str, bool)]) -> Rebuilt {
        let unread = unread.iter().map(|(vid, may_have_more)| TapeUnread {
            vid: Vid::new(vid).unwrap(),
            what: "it cannot be read".to_owned(),
            may_have_more: *may_have_more,
        });
        Rebuilt {
            instance: Uuid([7; 16]),
            base: None,
            change: 100,
            changed_at: Timestamp(0),
            replayed: 100,
            missing_from: None,
            missing_to: None,
            tapes: Vec::new(),
            absent: Vec::new(),
            unread: unread.collect(),
            damaged: Vec::new(),
            inconsistencies: 0,
        }
    }

    /// Story: a rebuild ended with 0 although a cartridge was not read.
    #[test]
    fn what_was_not_read_or_is_lost_is_no_success() {
        let whole = rebuilt(&[]);
        assert_eq!(verdict(&whole), None);
        let unread = rebuilt(&[("KT0002", false), ("KT0001", true), ("KT0002", true)]);
        let said = verdict(&unread).unwrap();
        assert!(said.0 == Exit::SomeFailed && said.1.contains("KT0001, KT0002"), "{said:?}");
        let wrong = Rebuilt { inconsistencies: 1, ..unread };
        assert_eq!(verdict(&wrong).unwrap().0, Exit::Differs);
    }

    /// Story: it was one paragraph with two change numbers, and did not say that there is a backup.
    #[test]
    fn a_refusal_says_what_can_be_done_line_by_line() {
        let directory = tempfile::tempdir().unwrap();
        let backup = directory.path().join("backup");
        let target = |backup: Option<&Path>| {
            Target::outside(directory.path().join("catalogue"), backup.map(Path::to_owned))
        };
        let of = |rebuilt: &Rebuilt, seen, backup| {
            let (from_tapes, move_aside, accept_loss, new_pool) = (true, false, false, true);
            let dir = PathBuf::from("/srv/kist");
            let args = Args { from_tapes, move_aside, accept_loss, new_pool, dir };
            refusal(rebuilt, missing_to(rebuilt, seen), &target(backup), Path::new("/c.incomplete"), &args)
        };
        let said = of(&rebuilt(&[]), 120, Some(&backup));
        assert!(said.contains("is not there now"), "{said}");
        std::fs::create_dir(&backup).unwrap();
        let said = of(&rebuilt(&[]), 120, Some(&backup));
        let restore = format!("kist restore --from {} /srv/kist", backup.display());
        assert!(said.lines().any(|line| line.contains(&restore)), "{said}");
        assert!(said.lines().any(|line| line.trim().starts_with("mv /c.incomplete ")), "{said}");
        assert!(said.contains("kist rebuild --from-tapes --accept-loss --new-pool /srv/kist"), "{said}");
        assert!(!said.contains("120") && !said.contains("change 100"), "{said}");
        let said = of(&rebuilt(&[("KT0003", true), ("KT0004", false)]), 100, None);
        assert!(said.contains("KT0003") && !said.contains("KT0004") && !said.contains("backup"), "{said}");
        std::fs::create_dir(directory.path().join("catalogue")).unwrap();
        let said = of(&rebuilt(&[]), 120, Some(&backup));
        assert!(said.contains("--move-aside /srv/kist") && said.contains(" && mv /c.incomplete"), "{said}");
    }
}
