//! `kist backup`: what the backup of the catalogue holds, a snapshot now, a rehearsal.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use backup::{BackupDirectory, BackupError, Line, Rehearsed, RestoreError};
use base::ByteCount;
use config::CONFIG_FILE;
use serde::Serialize;
use terminal::{Exit, Failure, Outcome, Progress, Table, output, text};
use wire::{BackupReply, SnapshotReply};

use crate::cli::Common;
use crate::instance::Instance;
use crate::stages::Stages;

/// How often the server is asked whether a snapshot is there.
const ASK_EVERY: Duration = Duration::from_millis(200);
/// For how long a snapshot is awaited.
const SNAPSHOT_PATIENCE: Duration = Duration::from_secs(6 * 3_600);
/// The most that a rehearsed catalogue can grow to.
const MAP_SIZE: ByteCount = ByteCount(1 << 40);

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
The server ships every change of the catalogue to the directory that [backup]
in kist.toml names, and takes snapshots. A rehearsal restores all of it into a
temporary directory, checks every record, and compares all tables with a
snapshot of the live catalogue: run it from time to time.

Examples:
  kist backup list
  kist backup now
  kist backup rehearse
  kist backup list --from /mnt/backup/kist")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Show the snapshots and changes that a restore can use
    List {
        /// The backup's directory [default: that of the instance's kist.toml]
        #[arg(long, value_name = "DIR")]
        from: Option<PathBuf>,
    },
    /// Take a snapshot now, and wait for it
    Now,
    /// Restore into a temporary directory, check everything, and remove it again
    Rehearse {
        /// The backup's directory [default: that of the instance's kist.toml]
        #[arg(long, value_name = "DIR")]
        from: Option<PathBuf>,
        /// Where the temporary directory is made [default: the system's]
        #[arg(long, value_name = "DIR")]
        scratch: Option<PathBuf>,
    },
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    match &args.action {
        Action::List { from } => list(from.as_deref(), common),
        Action::Now => {
            let before: BackupReply = common.connection.client()?.get("/api/v1/backup")?;
            let reply = snapshot(common)?;
            if common.json { output::json(&reply) } else { output::line(&taken(&before, &reply)) }
        }
        Action::Rehearse { from, scratch } => rehearse(from.as_deref(), scratch.as_deref(), common),
    }
}

/// The failure of a command that reads a backup.
pub fn failed(error: &BackupError) -> Failure {
    let exit = match error {
        BackupError::NotABackup(_) => Exit::NotFound,
        BackupError::DamagedIdentity(_)
        | BackupError::DamagedSegment { .. }
        | BackupError::UnreadableSegment { .. }
        | BackupError::WrongSegment { .. }
        | BackupError::UnreadableSnapshot { .. }
        | BackupError::DamagedSnapshot { .. }
        | BackupError::Gap { .. } => Exit::Differs,
        _ => Exit::Internal,
    };
    Failure::new(exit, error.to_string())
}

/// The failure of a command that restores a catalogue, for use or for practice.
pub fn restore_failed(error: &RestoreError) -> Failure {
    let exit = match error {
        RestoreError::Backup(error) => return failed(error),
        RestoreError::NothingFor { .. } | RestoreError::EndsBefore { .. } => Exit::NotFound,
        RestoreError::NotEmpty(_) | RestoreError::WhichLine { .. } => Exit::Refused,
        RestoreError::Replay(_) => Exit::Differs,
        _ => Exit::Internal,
    };
    Failure::new(exit, error.to_string())
}

/// What asking for a snapshot gave: none is made of a change that has one.
fn taken(before: &BackupReply, after: &BackupReply) -> String {
    let newest = after.snapshot.unwrap_or(after.change);
    let what = match before.snapshot_at == after.snapshot_at && before.snapshot == after.snapshot {
        true => format!("nothing has changed since the snapshot of change {newest}: none was made"),
        false => format!("a snapshot of change {newest} was made"),
    };
    format!("{what}; {}", standing(after))
}

/// How the backup stands, in a line.
pub fn standing(backup: &BackupReply) -> String {
    if !backup.on {
        return "none: name a directory under [backup] in kist.toml".to_owned();
    }
    let behind = match backup::not_shipped(backup.line, backup.shipped, backup.change) {
        Some(behind) => format!("{} behind", text::plural(behind, "change")),
        None => "not known yet how many changes behind".to_owned(),
    };
    let snapshot = match &backup.snapshot_at {
        Some(at) => format!("last snapshot {}", text::whole_seconds(at)),
        None => "no snapshot yet".to_owned(),
    };
    match &backup.failing {
        Some(reason) => format!("FAILING, {behind}: {reason}"),
        None => format!("{behind}, {snapshot}, in {}", backup.directory),
    }
}

/// Asks the server for a snapshot and waits for it.
fn snapshot(common: &Common) -> Outcome<BackupReply> {
    let client = common.connection.client()?;
    let asked: SnapshotReply = client.post_for("/api/v1/backup/snapshot", &serde_json::json!({}))?;
    let Some(asked) = asked.asked else {
        let message =
            "the server has no backup: name a directory under [backup] in kist.toml, then restart it";
        return Err(Failure::new(Exit::Refused, message));
    };
    let begin = Instant::now();
    loop {
        let reply: BackupReply = client.get("/api/v1/backup")?;
        if reply.answered >= asked {
            let Some(reason) = reply.failing else { return Ok(reply) };
            return Err(Failure::new(Exit::Refused, format!("no snapshot was taken: {reason}")));
        }
        if begin.elapsed() > SNAPSHOT_PATIENCE {
            return Err(Failure::new(Exit::SomeFailed, "the snapshot is still being taken: see kist status"));
        }
        std::thread::sleep(ASK_EVERY);
    }
}

/// The directory that is named, or that of the instance.
fn directory(from: Option<&Path>, common: &Common) -> Outcome<BackupDirectory> {
    let directory = match from {
        Some(from) => from.to_owned(),
        None => {
            let instance = Instance::local(&common.connection)?;
            let config = config::load(&instance.path(CONFIG_FILE))
                .map_err(|error| Failure::usage(error.to_string()))?;
            let settings = config.backup_settings(&instance.directory);
            let message = "kist.toml has no [backup]: name the directory with --from";
            settings.ok_or_else(|| Failure::usage(message))?.directory
        }
    };
    BackupDirectory::open(&directory).map_err(|error| failed(&error))
}

#[derive(Serialize)]
struct SnapshotLine {
    line: u32,
    change: u64,
    changed_at: String,
    taken: String,
    bytes: u64,
    damaged: Option<String>,
}

#[derive(Serialize)]
struct LineOfBackup {
    line: u32,
    segments: usize,
    first_change: Option<u64>,
    last_change: Option<u64>,
    damaged: Option<String>,
    snapshots: Vec<SnapshotLine>,
}

fn list(from: Option<&Path>, common: &Common) -> Outcome {
    let directory = directory(from, common)?;
    let lines = directory.lines().map_err(|error| failed(&error))?;
    let lines = lines.iter().map(describe).collect::<Outcome<Vec<_>>>()?;
    if common.json {
        return output::json(&lines);
    }
    let mut table = Table::new(&[">line", ">change", "made", "snapshot taken", ">size"]);
    for snapshot in lines.iter().flat_map(|line| &line.snapshots) {
        table.row(vec![
            snapshot.line.to_string(),
            snapshot.change.to_string(),
            text::whole_seconds(&snapshot.changed_at),
            snapshot.damaged.clone().unwrap_or_else(|| text::whole_seconds(&snapshot.taken)),
            text::size(snapshot.bytes),
        ]);
    }
    output::write(&table.render())?;
    for line in &lines {
        let (Some(first), Some(last)) = (line.first_change, line.last_change) else { continue };
        let segments = text::plural(line.segments as u64, "segment");
        let number = line.line;
        match &line.damaged {
            Some(damaged) => output::line(&format!("line {number}: {damaged}"))?,
            None => output::line(&format!(
                "line {number}: any point from change {first} to change {last} can be restored ({segments})"
            ))?,
        }
    }
    Ok(())
}

/// What a line holds, by names and manifests.
fn describe(line: &Line) -> Outcome<LineOfBackup> {
    let (segments, damaged) = match line.segments() {
        Ok(segments) => (segments, None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    let mut snapshots = Vec::new();
    for (change, path) in line.snapshots().map_err(|error| failed(&error))? {
        let mut shown = SnapshotLine {
            line: line.number,
            change,
            changed_at: String::new(),
            taken: String::new(),
            bytes: 0,
            damaged: None,
        };
        match line.snapshot(&path) {
            Ok(info) => {
                shown.changed_at = text::rfc3339(info.changed_at);
                shown.taken = text::rfc3339(info.taken);
                shown.bytes = info.bytes();
            }
            Err(error) => shown.damaged = Some(error.to_string()),
        }
        snapshots.push(shown);
    }
    let newest = snapshots.last().map(|snapshot| snapshot.change);
    Ok(LineOfBackup {
        line: line.number,
        segments: segments.len(),
        first_change: snapshots.first().map(|snapshot| snapshot.change),
        last_change: segments.last().map(|segment| segment.last).max(newest),
        damaged,
        snapshots,
    })
}

/// A directory that is gone when the value is.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            output::note(&format!("{}: {error}: remove it by hand", self.0.display()));
        }
    }
}

#[derive(Serialize)]
struct RehearsalReply {
    good: bool,
    line: u32,
    snapshot: u64,
    change: u64,
    changed_at: String,
    replayed: u64,
    compared_at: Option<u64>,
    tables: serde_json::Map<String, serde_json::Value>,
    damaged_snapshots: Vec<String>,
    differences: Vec<String>,
    inconsistencies: Vec<String>,
    seconds: f64,
}

fn rehearse(from: Option<&Path>, scratch: Option<&Path>, common: &Common) -> Outcome {
    let begin = Instant::now();
    if from.is_none() {
        // With the server's help the newest state is rehearsed; without it, what is there.
        match snapshot(common) {
            Ok(_) => {}
            Err(failure) if matches!(failure.exit, Exit::Unreachable) => {
                output::note("no server answers: what was shipped last is rehearsed");
            }
            Err(failure) => return Err(failure),
        }
    }
    let directory = directory(from, common)?;
    let parent = scratch.map_or_else(std::env::temp_dir, Path::to_owned);
    let name = format!("kist-rehearsal-{}", text::hex(&text::random::<8>()?));
    let scratch = Scratch(parent.join(name));
    fs::create_dir_all(&scratch.0).map_err(|error| Failure::io("making", &scratch.0, &error))?;
    let mut shown = Stages::of(Progress::start_of("rehearse", "step", 0, 0, common.quiet));
    let rehearsed = backup::rehearse(&directory, &scratch.0, MAP_SIZE, &mut |progress| {
        shown.told(progress);
    });
    drop(shown);
    let rehearsed = rehearsed.map_err(|error| restore_failed(&error))?;
    drop(scratch);
    show_rehearsed(&rehearsed, begin.elapsed(), common)?;
    if rehearsed.is_good() {
        return Ok(());
    }
    Err(Failure::new(Exit::Differs, "the backup would not have given back the catalogue as it was"))
}

fn show_rehearsed(rehearsed: &Rehearsed, elapsed: Duration, common: &Common) -> Outcome {
    let restored = &rehearsed.restored;
    if common.json {
        let tables = rehearsed.tables.iter().map(|table| (table.table.to_owned(), table.rows.into()));
        return output::json(&RehearsalReply {
            good: rehearsed.is_good(),
            line: restored.line,
            snapshot: restored.snapshot,
            change: restored.change,
            changed_at: text::rfc3339(restored.changed_at),
            replayed: restored.replayed,
            compared_at: rehearsed.compared_at,
            tables: tables.collect(),
            damaged_snapshots: restored.passed_over.clone(),
            differences: rehearsed.differences.clone(),
            inconsistencies: rehearsed.inconsistencies.clone(),
            seconds: elapsed.as_secs_f64(),
        });
    }
    let rows: u64 = rehearsed.tables.iter().map(|table| table.rows).sum();
    let (change, made) = (restored.change, restored.changed_at);
    output::line(&format!(
        "restored   change {change} of {made}: snapshot {} and {} replayed, in {:.1} s",
        restored.snapshot,
        text::plural(restored.replayed, "change"),
        elapsed.as_secs_f64()
    ))?;
    output::line(&format!("checked    {} in all tables", text::plural(rows, "record")))?;
    match rehearsed.compared_at {
        Some(change) => output::line(&format!("compared   with the live catalogue at change {change}"))?,
        None => output::line(
            "compared   with nothing: the backup has one snapshot only, which was restored; rehearse again \
             when something has changed since",
        )?,
    }
    let damaged = restored.passed_over.iter().map(|what| ("damaged", what));
    let differing = rehearsed.differences.iter().map(|what| ("differs", what));
    let wrong = rehearsed.inconsistencies.iter().map(|what| ("wrong", what));
    damaged
        .chain(differing)
        .chain(wrong)
        .try_for_each(|(how, what)| output::line(&format!("{how:<10} {what}")))
}
