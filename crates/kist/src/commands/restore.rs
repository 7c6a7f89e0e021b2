//! `kist restore`: a catalogue from its backup.

use std::cell::OnceCell;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use archive::{RESTORE_JUMP, pool_seen};
use backup::{BackupDirectory, PoolSeen, Reached, RestoreTo, Restored};
use base::ByteCount;
use config::CONFIG_FILE;
use serde::Serialize;
use store::Replay;
use terminal::{Exit, Failure, Outcome, Progress, output, text};

use super::backup::{failed, restore_failed};
use crate::cli::Common;
use crate::instance::{Instance, InstanceLock};
use crate::stages::Stages;

/// The most that a catalogue restored outside of an instance can grow to.
const MAP_SIZE: ByteCount = ByteCount(1 << 40);

/// Leftovers of one kind beside a catalogue that are told.
const NAMED_MAX: u32 = 99;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
The server must not run. A catalogue that is there is not written over: say
--move-aside, and it is kept beside the new one under another name.

If the drives of the pool have seen changes that the backup does not have, the
newest point, or a time behind the end of the backup, is not restored without
--accept-loss (exit code 9).

A time is one of the history that was in force then. If an earlier restore
leaves that open, nothing is restored: name a change.

The next start looks at pool and tapes before it writes anything. Tapes that
hold more than the restored catalogue knows become read-only; pool bytes that
it does not know are kept until: kist pool quarantine --end

Examples:
  kist restore --from /mnt/backup/kist /srv/kist
  kist restore --from /mnt/backup/kist --to-time 2026-11-21T20:00:00Z --move-aside /srv/kist
  kist restore --from /mnt/backup/kist --to-change 4711 /tmp/catalogue-to-look-at")]
pub struct Args {
    /// The backup's directory
    #[arg(long, value_name = "DIR")]
    from: PathBuf,
    /// The state after this change [default: the newest one]
    #[arg(long, value_name = "N", conflicts_with = "to_time")]
    to_change: Option<u64>,
    /// The state at this time, as 2026-11-21T20:29:00Z
    #[arg(long, value_name = "TIME")]
    to_time: Option<String>,
    /// Keep the catalogue that is there under another name
    #[arg(long)]
    move_aside: bool,
    /// Go on although changes that were made are missing, or no drive of the pool is there
    #[arg(long)]
    accept_loss: bool,
    /// The instance, or the directory to make a catalogue in
    target: PathBuf,
}

#[derive(Serialize)]
struct RestoreReply {
    catalogue: String,
    moved_aside: Option<String>,
    line: u32,
    snapshot: u64,
    change: u64,
    changed_at: String,
    replayed: u64,
    missing_to: Option<u64>,
    damaged_snapshots: Vec<String>,
    drives_unread: Vec<String>,
    moved_aside_newer: Option<NewerChanges>,
    notes: Vec<String>,
}

/// Changes that the catalogue that was moved aside has and the one that was restored does not.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
struct NewerChanges {
    count: u64,
    newest: u64,
}

/// Where a new catalogue goes.
pub struct Target {
    /// Its directory.
    pub catalogue: PathBuf,
    /// The most that it can grow to.
    pub map_size: ByteCount,
    /// What the drives of the pool know.
    pub pool: PoolSeen,
    /// Drives that could not be asked, and why.
    pub drives_unread: Vec<String>,
    /// The directory of the instance's backup, if kist.toml names one.
    pub backup: Option<PathBuf>,
    _lock: Option<InstanceLock>,
    /// Locks out whoever uses the catalogue that is to be moved aside.
    old: OnceCell<File>,
}

/// The place of an instance's catalogue, with its server locked out.
pub fn instance_target(directory: &Path) -> Outcome<(Instance, archive::Settings, Target)> {
    let instance = Instance::open(directory)?;
    let lock = instance.lock(|wait| output::note(&format!("kist: {wait}")))?;
    let config =
        config::load(&instance.path(CONFIG_FILE)).map_err(|error| Failure::usage(error.to_string()))?;
    let settings = config.settings(&instance.directory);
    let (pool, unread) = pool_seen(&settings);
    let target = Target {
        catalogue: settings.catalogue_directory.clone(),
        map_size: settings.catalogue_map_size,
        pool,
        drives_unread: unread.into_iter().map(|(id, why)| format!("pool drive {id}: {why}")).collect(),
        backup: config.backup_settings(&instance.directory).map(|backup| backup.directory),
        _lock: Some(lock),
        old: OnceCell::new(),
    };
    Ok((instance, settings, target))
}

impl Target {
    /// A place that no instance has.
    pub fn outside(catalogue: PathBuf, backup: Option<PathBuf>) -> Self {
        Target {
            catalogue,
            map_size: MAP_SIZE,
            pool: PoolSeen::default(),
            drives_unread: Vec::new(),
            backup,
            _lock: None,
            old: OnceCell::new(),
        }
    }

    /// Where the new catalogue is made before it gets its name. What an earlier attempt left is removed.
    pub fn begin(&self, move_aside: bool) -> Outcome<PathBuf> {
        if !move_aside && self.is_occupied()? {
            let message = format!(
                "{} holds a catalogue: nothing is written over; --move-aside keeps it beside the new one",
                self.catalogue.display()
            );
            return Err(Failure::new(Exit::Refused, message));
        }
        self.lock_old()?;
        let making = self.beside("making");
        if making.exists() {
            fs::remove_dir_all(&making).map_err(|error| Failure::io("removing", &making, &error))?;
        }
        Ok(making)
    }

    /// Gives the new catalogue its name; gives that of the old one, which is moved aside.
    pub fn finish(&self, making: &Path) -> Outcome<Option<PathBuf>> {
        let parent =
            making.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let sync = || File::open(parent).and_then(|directory| directory.sync_all());
        let mut aside = None;
        if self.is_occupied()? {
            let to = self.free_name(&format!("before-{}", text::now().0 / 1_000_000_000));
            fs::rename(&self.catalogue, &to).map_err(|error| Failure::io("moving aside", &to, &error))?;
            aside = Some(to);
        } else if self.catalogue.exists() {
            fs::remove_dir(&self.catalogue)
                .map_err(|error| Failure::io("removing", &self.catalogue, &error))?;
        }
        fs::rename(making, &self.catalogue)
            .and_then(|()| sync())
            .map_err(|error| Failure::io("naming", &self.catalogue, &error))?;
        Ok(aside)
    }

    /// Nobody may be using a catalogue that is moved aside: a server would go on writing to it.
    fn lock_old(&self) -> Outcome<()> {
        let path = self.catalogue.join("LOCK");
        let lock = match File::options().write(true).open(&path) {
            Ok(lock) => lock,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(Failure::io("opening", &path, &error)),
        };
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                let message = format!("{} is in use: stop its server first", self.catalogue.display());
                return Err(Failure::new(Exit::Refused, message));
            }
            Err(fs::TryLockError::Error(error)) => return Err(Failure::io("locking", &path, &error)),
        }
        // It is held until the new catalogue has its name.
        let _ = self.old.set(lock);
        Ok(())
    }

    fn is_occupied(&self) -> Outcome<bool> {
        match fs::read_dir(&self.catalogue) {
            Ok(mut entries) => Ok(entries.next().is_some()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Failure::io("reading", &self.catalogue, &error)),
        }
    }

    /// A name beside the catalogue that nothing has: two may be moved aside within a second.
    pub fn free_name(&self, what: &str) -> PathBuf {
        let numbered = (2..).map(|number| self.beside(&format!("{what}-{number}")));
        let mut names = std::iter::once(self.beside(what)).chain(numbered);
        names.find(|name| !name.exists()).unwrap_or_else(|| self.beside(what))
    }

    /// The paths that [`Target::free_name`] has given and that are there.
    pub fn named(&self, what: &str) -> Vec<PathBuf> {
        let numbered = (2..=NAMED_MAX).map(|number| self.beside(&format!("{what}-{number}")));
        std::iter::once(self.beside(what)).chain(numbered).filter(|path| path.exists()).collect()
    }

    /// A path beside the catalogue, in the same file system.
    pub fn beside(&self, what: &str) -> PathBuf {
        let name = self.catalogue.file_name().map(|name| name.to_string_lossy().into_owned());
        self.catalogue.with_file_name(format!("{}.{what}", name.unwrap_or_default()))
    }
}

/// What is newer than change `restored` in a catalogue that ends with change `newest`. The first change of a
/// history that a restore began, a multiple of [`RESTORE_JUMP`], is that restore: nobody asked for it.
fn newer_changes(newest: u64, restored: u64) -> Option<NewerChanges> {
    let begin = newest / RESTORE_JUMP * RESTORE_JUMP;
    let count = newest.checked_sub(restored.max(begin))?;
    (count > 0).then_some(NewerChanges { count, newest })
}

/// The newest change of a catalogue that was moved aside. All of its pages are read before, as at a start.
fn newest_change(aside: &Path, map_size: ByteCount) -> Result<u64, String> {
    Replay::open(aside, map_size).map(|replay| replay.last_change()).map_err(|error| error.to_string())
}

/// That changes are missing: `who` has seen change `seen`.
fn incomplete(change: u64, at: base::Timestamp, who: &str, seen: u64, from: &str) -> String {
    let missing = if seen / RESTORE_JUMP > change / RESTORE_JUMP {
        "all of the history that a restore began later is".to_owned()
    } else {
        format!("{} are", text::plural(seen.saturating_sub(change), "change"))
    };
    format!(
        "{from} ends with change {change} of {}, and {who} seen change {seen}: {missing} \
         missing, perhaps more; what was put, renamed or deleted then would be as it was before. Nothing was \
         changed: look for the rest, or say --accept-loss to go on without it",
        text::rfc3339(at),
    )
}

fn point(args: &Args) -> Outcome<RestoreTo> {
    Ok(match (&args.to_change, &args.to_time) {
        (Some(change), _) => RestoreTo::Change(*change),
        (None, Some(time)) => RestoreTo::Time(text::parse_rfc3339(time).ok_or_else(|| {
            Failure::usage(format!("'{time}' is no time: write it in UTC, as 2026-11-21T20:29:00Z"))
        })?),
        (None, None) => RestoreTo::Newest,
    })
}

fn target(args: &Args, from: &BackupDirectory) -> Outcome<Target> {
    if !Instance::exists(&args.target) {
        return Ok(Target::outside(args.target.clone(), None));
    }
    let (_, settings, target) = instance_target(&args.target)?;
    if target.pool.instance.is_none() && !settings.pool.drives.is_empty() && !args.accept_loss {
        let message = format!(
            "no drive of the pool is there{}: whose backup this is cannot be checked, and what only they \
             hold is LOST without them: mount them, or say --accept-loss",
            target.drives_unread.first().map(|first| format!(" ({first})")).unwrap_or_default()
        );
        return Err(Failure::new(Exit::Refused, message));
    }
    if target.pool.instance.is_some_and(|instance| instance != from.instance()) {
        let message = format!(
            "{} is the backup of another instance than the one whose pool this is: nothing was done",
            args.from.display()
        );
        return Err(Failure::new(Exit::Refused, message));
    }
    Ok(target)
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let to = point(args)?;
    let from = BackupDirectory::open(&args.from).map_err(|error| failed(&error))?;
    let mut target = target(args, &from)?;
    let making = target.begin(args.move_aside)?;
    let mut shown = Stages::of(Progress::start_of("restore", "step", 0, 0, common.quiet));
    let accept = Some((target.pool, text::now()));
    let restored = backup::restore(&from, to, &making, target.map_size, accept, &mut |progress| {
        shown.told(progress);
    });
    drop(shown);
    let restored = restored.map_err(|error| {
        let _ = fs::remove_dir_all(&making);
        restore_failed(&error)
    })?;
    let missing_to = restored.missing_to(target.pool.change);
    if let Some(seen) = missing_to.filter(|_| !args.accept_loss) {
        let who =
            if seen == target.pool.change { "drives of the pool have" } else { "the backup itself has" };
        let from = format!("line {} of the backup", restored.line);
        let message = incomplete(restored.change, restored.changed_at, who, seen, &from);
        let _ = fs::remove_dir_all(&making);
        return Err(Failure::new(Exit::Incomplete, message));
    }
    let aside = target.finish(&making)?;
    let mut reply = reply(&restored, &target, aside, missing_to);
    if matches!(restored.reached, Reached::End { is_closed: false, .. }) {
        reply.look_at_moved(&mut target);
    }
    if common.json {
        return output::json(&reply);
    }
    show(&reply, &restored, to)
}

fn reply(
    restored: &Restored,
    target: &Target,
    aside: Option<PathBuf>,
    missing_to: Option<u64>,
) -> RestoreReply {
    RestoreReply {
        catalogue: target.catalogue.display().to_string(),
        moved_aside: aside.map(|aside| aside.display().to_string()),
        line: restored.line,
        snapshot: restored.snapshot,
        change: restored.change,
        changed_at: text::rfc3339(restored.changed_at),
        replayed: restored.replayed,
        missing_to,
        damaged_snapshots: restored.passed_over.clone(),
        drives_unread: target.drives_unread.clone(),
        moved_aside_newer: None,
        notes: Vec::new(),
    }
}

impl RestoreReply {
    /// Finds out what the catalogue that was moved aside has beyond the end of the backup.
    fn look_at_moved(&mut self, target: &mut Target) {
        let Some(aside) = &self.moved_aside else { return };
        // Its lock is that of whoever reads it now.
        drop(target.old.take());
        match newest_change(Path::new(aside), target.map_size) {
            Ok(newest) => self.moved_aside_newer = newer_changes(newest, self.change),
            Err(why) => self.notes.push(format!(
                "whether the catalogue that was there has newer changes than the backup is not known: {why}"
            )),
        }
    }
}

fn show(reply: &RestoreReply, restored: &Restored, to: RestoreTo) -> Outcome {
    output::line(&format!("restored   change {} of {}", reply.change, restored.changed_at))?;
    let changes = text::plural(reply.replayed, "change");
    output::line(&format!("from       snapshot {} and {changes}", reply.snapshot))?;
    output::line(&format!("into       {}", reply.catalogue))?;
    if let Some(aside) = &reply.moved_aside {
        output::line(&format!("moved      the catalogue that was there to {aside}"))?;
    }
    if let (Some(aside), Some(newer)) = (&reply.moved_aside, reply.moved_aside_newer) {
        let (changes, catalogue) = (text::plural(newer.count, "change"), &reply.catalogue);
        output::line(&format!(
            "NEWER      that catalogue has {changes} that the backup does not have, up to change {}: to look \
             at them, or to go on with it, put it back before the server is started (mv {catalogue} \
             {catalogue}.restored; mv {aside} {catalogue})",
            newer.newest
        ))?;
    }
    if let Some(to) = reply.missing_to {
        output::line(&format!(
            "MISSING    changes {} to {to} at least, which were made and are not in line {}",
            reply.change.saturating_add(1),
            reply.line
        ))?;
    }
    match restored.reached {
        Reached::End { is_closed: false, .. }
            if matches!(to, RestoreTo::Time(_)) && reply.missing_to.is_none() =>
        {
            output::line("note       this is the newest point of the backup: no later change is in it")?;
        }
        Reached::End { is_closed: true, .. } => output::line(&format!(
            "note       this is the end of line {}: a later line followed, after the time that was asked for",
            reply.line
        ))?,
        _ => {}
    }
    for what in reply.damaged_snapshots.iter().chain(&reply.drives_unread).chain(&reply.notes) {
        output::line(&format!("note       {what}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_changes_are_those_behind_the_end_of_the_backup() {
        let newer = |count, newest| Some(NewerChanges { count, newest });
        assert_eq!(newer_changes(120, 100), newer(20, 120));
        assert_eq!([100, 99, 0].map(|newest| newer_changes(newest, 100)), [None; 3]);
        // A restore that no server was started on has nothing of its own, one that was has.
        assert_eq!(newer_changes(RESTORE_JUMP, 100), None);
        assert_eq!(newer_changes(RESTORE_JUMP + 3, 100), newer(3, RESTORE_JUMP + 3));
        assert_eq!(newer_changes(RESTORE_JUMP + 3, RESTORE_JUMP + 2), newer(1, RESTORE_JUMP + 3));
    }
}
