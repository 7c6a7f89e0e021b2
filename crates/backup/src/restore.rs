//! From a backup to a catalogue: a snapshot, then the change log behind it.

use std::fmt;
use std::fs;
use std::path::Path;

use base::{ByteCount, Timestamp};
use catalogue::{Command, Envelope};
use store::Replay;

use crate::choose::{behind_end, lines_for, newest_change};
use crate::error::{BackupError, RestoreError};
use crate::files::{read_segment, sync_directory};
use crate::layout::{BackupDirectory, Line, SegmentFile};
use crate::manifest::SnapshotInfo;
use crate::{PoolSeen, Progress};

/// The point to restore.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RestoreTo {
    /// The newest change of the newest line.
    Newest,
    /// The state after this change.
    Change(u64),
    /// The state before the first change that was made later than this, of the line that was in force then.
    Time(Timestamp),
}

impl fmt::Display for RestoreTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RestoreTo::Newest => f.write_str("the newest point"),
            RestoreTo::Change(change) => write!(f, "change {change}"),
            RestoreTo::Time(time) => write!(f, "{time}"),
        }
    }
}

/// What was restored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Restored {
    /// The line that it was taken from.
    pub line: u32,
    /// The change of the snapshot that it began with.
    pub snapshot: u64,
    /// The newest change that was restored.
    pub change: u64,
    /// When that change was made, as far as it is known.
    pub changed_at: Timestamp,
    /// Changes that were replayed behind the snapshot.
    pub replayed: u64,
    /// Newer snapshots that were passed over because they are damaged or cannot be read.
    pub passed_over: Vec<String>,
    /// What ended it.
    pub reached: Reached,
}

/// What ended a restore.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reached {
    /// The point that was asked for: a change that was named, or one that a later change follows.
    Point,
    /// The end of what the backup has of the line.
    End {
        /// The newest change that the backup knows to have been made.
        known: u64,
        /// Another line followed, so that no more were made in this one.
        is_closed: bool,
    },
}

impl Restored {
    /// The newest change that was certainly made and is missing, if drives of the pool have seen change
    /// `seen`. A lower bound.
    #[must_use]
    pub fn missing_to(&self, seen: u64) -> Option<u64> {
        let newest = match self.reached {
            Reached::Point => return None,
            Reached::End { known, is_closed: true } => known,
            Reached::End { known, is_closed: false } => known.max(seen),
        };
        (newest > self.change).then_some(newest)
    }
}

/// Restores the catalogue at `to` into the directory `into`, which must be empty or absent. It is durable on
/// return. With `accept`, what the drives of the pool have seen and the present time, the catalogue is marked
/// as restored: the next start keeps what it does not know. Without it, it is a copy to look at.
///
/// # Errors
/// [`RestoreError`] names the file that is damaged or the changes that are missing. What was written so far
/// is left for the caller to remove.
pub fn restore(
    from: &BackupDirectory,
    to: RestoreTo,
    into: &Path,
    map_size: ByteCount,
    accept: Option<(PoolSeen, Timestamp)>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Restored, RestoreError> {
    let (restored, mut replay) = restore_before(from, to, u64::MAX, into, map_size, progress)?;
    if let Some((pool, at)) = accept {
        let epoch = replay.read(|view| view.epoch())?.max(pool.epoch);
        // The backup knows of changes that are being given up; drives may know of later ones.
        let seen = newest_change(from)?.max(pool.change);
        let command = Command::AcceptRestore { epoch, after: replay.last_change(), seen };
        // What the clock says is looked at when the server starts: it may be wrong.
        let at = replay.read(|view| view.newest_time())?.unwrap_or(at);
        replay.execute(&Envelope { at, command })?;
    }
    drop(replay);
    sync_directory(into)?;
    Ok(restored)
}

/// As [`restore`], from snapshots older than change `before`, and gives the open catalogue.
///
/// # Errors
/// As [`restore`].
pub fn restore_before(
    from: &BackupDirectory,
    to: RestoreTo,
    before: u64,
    into: &Path,
    map_size: ByteCount,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Restored, Replay), RestoreError> {
    let occupied =
        into.exists() && fs::read_dir(into).map_err(BackupError::at(into, "reading"))?.next().is_some();
    if occupied {
        return Err(RestoreError::NotEmpty(into.to_owned()));
    }
    let (line, info, passed_over) = copy_snapshot(from, to, before, into, progress)?;
    let mut replay = Replay::open(into, map_size)?;
    if replay.last_change() != info.change {
        let what = format!("it stands at change {}, not {}", replay.last_change(), info.change);
        return Err(BackupError::DamagedSnapshot { path: info.path, what }.into());
    }
    let mut restored = Restored {
        line: line.number,
        snapshot: info.change,
        change: info.change,
        changed_at: info.changed_at,
        replayed: 0,
        passed_over,
        reached: Reached::Point,
    };
    let has_later = replay_line(from, &line, to, &mut replay, &mut restored, progress)?;
    if !has_later && !matches!(to, RestoreTo::Change(_)) {
        restored.reached = behind_end(from, &line, to, restored.change)?;
    }
    match to {
        RestoreTo::Change(target) if restored.change != target => {
            Err(RestoreError::EndsBefore { reached: restored.change, target })
        }
        _ => Ok((restored, replay)),
    }
}

/// Replays the segments of a line behind what `replay` holds, up to `to`. Whether a later change stopped it.
pub(crate) fn replay_line(
    from: &BackupDirectory,
    line: &Line,
    to: RestoreTo,
    replay: &mut Replay,
    restored: &mut Restored,
    progress: &mut dyn FnMut(Progress),
) -> Result<bool, RestoreError> {
    let base = replay.last_change();
    let mut segments = line.segment_files()?;
    segments.retain(|segment| segment.last > base);
    let total = segments.last().map_or(0, |last| last.last - base);
    let mut has_later = false;
    for segment in &segments {
        // Changes that are missing behind the point are missed by nobody.
        if matches!(to, RestoreTo::Change(target) if replay.last_change() >= target) {
            has_later = true;
            break;
        }
        if let Some(gap) = line.gap(replay.last_change(), segment).filter(|_| segment.first > base + 1) {
            return Err(gap.into());
        }
        has_later = replay_segment(from, segment, to, replay, restored)?;
        progress(Progress::of("changes replayed", replay.last_change() - base, total));
        if has_later {
            break;
        }
    }
    restored.replayed += replay.last_change() - base;
    Ok(has_later)
}

/// Whether a change that is later than the point was met.
fn replay_segment(
    from: &BackupDirectory,
    segment: &SegmentFile,
    to: RestoreTo,
    replay: &mut Replay,
    restored: &mut Restored,
) -> Result<bool, RestoreError> {
    read_segment(segment, from.instance(), |read| {
        let known = (replay.last_change() + 1).saturating_sub(segment.first) as usize;
        let changes = read.changes.get(known..).unwrap_or_default();
        let mut newest = restored.changed_at;
        let applied = replay.apply(replay.last_change() + 1, changes, |number, envelope| {
            let goes_on = match to {
                RestoreTo::Newest => true,
                RestoreTo::Change(target) => number <= target,
                RestoreTo::Time(time) => envelope.at <= time,
            };
            if goes_on {
                newest = envelope.at;
            }
            goes_on
        })?;
        (restored.change, restored.changed_at) = (replay.last_change(), newest);
        Ok(applied < changes.len() as u64)
    })?
}

/// Copies the newest whole snapshot at or before the point, and says of which line it is.
fn copy_snapshot(
    from: &BackupDirectory,
    to: RestoreTo,
    before: u64,
    into: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Line, SnapshotInfo, Vec<String>), RestoreError> {
    let (mut passed_over, mut earliest) = (Vec::new(), None);
    for line in lines_for(from, to)? {
        for (change, path) in line.snapshots()?.into_iter().rev() {
            if change >= before || matches!(to, RestoreTo::Change(target) if change > target) {
                earliest = Some((change, None));
                continue;
            }
            match try_snapshot(&line, &path, to, into, progress) {
                Ok((info, true)) => return Ok((line, info, passed_over)),
                Ok((info, false)) => earliest = Some((info.change, Some(info.changed_at))),
                Err(
                    error @ (BackupError::DamagedSnapshot { .. } | BackupError::UnreadableSnapshot { .. }),
                ) => {
                    passed_over.push(error.to_string());
                    remove_copies(into)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        let is_end = match to {
            RestoreTo::Newest => !passed_over.is_empty(),
            RestoreTo::Time(_) => true,
            RestoreTo::Change(_) => false,
        };
        if is_end {
            // An older line is a history that was given up: nobody goes back to it without saying so.
            let older = format!(
                "no snapshot of line {} can be used for it; name a point in another line with --to-change",
                line.number
            );
            passed_over.push(older);
            break;
        }
    }
    let mut known = match earliest {
        Some((change, Some(at))) => {
            format!("the earliest possible is {at}, of change {change}: --to-time {at}")
        }
        Some((change, None)) => format!("the earliest one holds change {change}"),
        None => "there is none".to_owned(),
    };
    passed_over.iter().for_each(|damaged| known.push_str(&format!("; {damaged}")));
    Err(RestoreError::NothingFor { path: from.root().to_owned(), target: to.to_string(), earliest: known })
}

/// Copies a snapshot, if it is not of later than the point. Whether it did.
fn try_snapshot(
    line: &Line,
    path: &Path,
    to: RestoreTo,
    into: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<(SnapshotInfo, bool), BackupError> {
    let info = line.snapshot(path)?;
    if matches!(to, RestoreTo::Time(time) if info.changed_at > time) {
        return Ok((info, false));
    }
    progress(Progress::of("bytes of the snapshot", 0, info.bytes()));
    fs::create_dir_all(into).map_err(BackupError::at(into, "making the directory"))?;
    info.verify(Some(into))?;
    progress(Progress::of("bytes of the snapshot", info.bytes(), info.bytes()));
    Ok((info, true))
}

/// Removes what was copied of a snapshot that is not whole.
fn remove_copies(into: &Path) -> Result<(), BackupError> {
    for (_, file) in store::snapshot_files(into) {
        if file.exists() {
            fs::remove_file(&file).map_err(BackupError::at(&file, "removing"))?;
        }
    }
    Ok(())
}
