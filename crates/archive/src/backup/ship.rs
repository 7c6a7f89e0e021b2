//! The thread that ships: new changes as they come, snapshots now and then. Whatever fails here is told and
//! tried again; it never stops the archive.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use threads::{Mutex, MutexGuard};

use base::{Blake3, Duration, Timestamp, Uuid};
use ltfs::changes::{ChangeNumber, ChangeSegment};
use store::{SnapshotReader, snapshot_files, time_of_change};

use super::choose::newest_change;
use super::error::BackupError;
use super::files::{CopyError, TEMPORARY, hash_file, read_segment, sync_directory, write_durable};
use super::layout::{BackupDirectory, Line, change_name};
use super::line_start::LineStart;
use super::manifest::{MANIFEST, SnapshotInfo};
use super::{BackupSettings, BackupStatus};
use crate::ArchiveError;
use crate::bell::SweepBell;
use crate::engine::Engine;

/// Most changes in one segment.
const SEGMENT_CHANGES_MAX: usize = 200_000;
/// Most bytes of changes in one segment, unless one change alone has more.
const SEGMENT_BYTES_MAX: usize = 32 << 20;

/// A snapshot that failed is tried again after this long, or when somebody asks: on a full disk it would cost
/// a copy of the catalogue each time.
const SNAPSHOT_RETRY: Duration = Duration::from_secs(600);

/// The backup of a running engine, shared by its thread and by those who ask how it stands.
pub(crate) struct Backup {
    settings: BackupSettings,
    bell: SweepBell,
    status: Mutex<BackupStatus>,
    place: Mutex<Option<Place>>,
    /// When and why the last snapshot failed.
    snapshot_failed: Mutex<Option<(Timestamp, String)>>,
}

/// Where the next segment goes.
struct Place {
    directory: BackupDirectory,
    line: Line,
    shipped: u64,
}

impl Backup {
    pub(crate) fn new(settings: BackupSettings) -> Self {
        let status = BackupStatus { directory: settings.directory.clone(), ..BackupStatus::default() };
        Backup {
            settings,
            bell: SweepBell::default(),
            status: Mutex::new(status),
            place: Mutex::new(None),
            snapshot_failed: Mutex::new(None),
        }
    }

    fn status_mut(&self) -> MutexGuard<'_, BackupStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn status(&self, engine: &Engine) -> BackupStatus {
        let mut status = self.status_mut().clone();
        status.change = engine.catalogue.read(|view| view.last_change()).unwrap_or(status.change);
        status
    }

    /// Refuses while a line is kept to which the catalogue could go back to before its last restore: that
    /// begins a line of its own.
    pub(crate) fn check_quarantine_may_end(&self) -> Result<(), ArchiveError> {
        let line = self.status_mut().line;
        // One that is not there may only not be mounted.
        let lines = BackupDirectory::open(&self.settings.directory).and_then(|directory| directory.lines());
        let mut lines = lines.map_err(|error| ArchiveError::Backup(Box::new(error)))?;
        lines.retain(|older| line == 0 || older.number < line);
        match lines.first() {
            Some(oldest) => Err(ArchiveError::QuarantineNeeded {
                directory: oldest.path.clone(),
                lines: lines.len(),
                line,
            }),
            None => Ok(()),
        }
    }

    /// Asks for a snapshot now; gives the value that `answered` reaches when it is taken.
    pub(crate) fn ask(&self) -> u64 {
        let mut status = self.status_mut();
        status.asked += 1;
        let asked = status.asked;
        drop(status);
        self.bell.ring();
        asked
    }

    pub(crate) fn ring(&self) {
        self.bell.ring();
    }

    /// The thread.
    pub(crate) fn run(&self, engine: &Arc<Engine>) {
        while !engine.stop.load(Ordering::Relaxed) {
            self.turn(engine, true);
            self.bell.wait(self.settings.ship_every);
        }
    }

    /// Ships what there is; with `may_snapshot` also takes a snapshot if one is due.
    pub(crate) fn turn(&self, engine: &Engine, may_snapshot: bool) {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = self.status_mut().asked;
        let result = self.try_turn(engine, &mut place, may_snapshot);
        let mut status = self.status_mut();
        if may_snapshot {
            // Whoever asked finds in `failing` whether it was taken.
            status.answered = asked;
        }
        match result {
            Ok(()) => {
                engine.bases.shipped(status.shipped);
                if status.failing.take().is_some() {
                    tracing::info!("the backup of the catalogue works again");
                }
                status.shipped_at = Some(engine.now());
            }
            Err(error) => {
                engine.bases.backup_failed(engine.steady());
                // Looked at anew next time: the disk may have been changed meanwhile.
                *place = None;
                let reason = error.to_string();
                if status.failing.as_ref() != Some(&reason) {
                    tracing::error!(%error, "the catalogue is not backed up");
                }
                status.failing = Some(reason);
            }
        }
    }

    fn try_turn(
        &self,
        engine: &Engine,
        place: &mut Option<Place>,
        may_snapshot: bool,
    ) -> Result<(), BackupError> {
        if place.is_none() {
            *place = Some(self.find_place(engine)?);
        }
        let Some(place) = place else { return Ok(()) };
        if place.line.snapshots()?.is_empty() {
            // Also while there is nothing to ship: what is gone counts for nothing.
            return Err(BackupError::Gone(place.line.path.clone()));
        }
        if !ship(engine, place, |shipped| self.status_mut().shipped = shipped)? {
            let number = place.line.number + 1;
            *place = self.begin_line(engine, place.directory.clone(), number)?;
        }
        if may_snapshot && self.is_snapshot_due(engine) {
            self.take_snapshot(engine, &place.line)?;
            prune(&place.line, self.settings.keep_snapshots.max(1))?;
        }
        Ok(())
    }

    fn is_snapshot_due(&self, engine: &Engine) -> bool {
        let status = self.status_mut();
        let age = status.snapshot_at.map(|at| engine.now().since(at));
        status.asked > status.answered || age.is_none_or(|age| age >= self.settings.snapshot_every)
    }

    fn take_snapshot(&self, engine: &Engine, line: &Line) -> Result<SnapshotInfo, BackupError> {
        let is_asked = {
            let status = self.status_mut();
            status.asked > status.answered
        };
        let mut failed = self.snapshot_failed.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = failed.as_ref().filter(|(at, _)| engine.now().since(*at) < SNAPSHOT_RETRY && !is_asked);
        if let Some((_, reason)) = recent {
            return Err(BackupError::Again(reason.clone()));
        }
        match take_snapshot(engine, line) {
            Ok(info) => {
                *failed = None;
                self.note_snapshot(&info);
                Ok(info)
            }
            Err(error) => {
                *failed = Some((engine.now(), error.to_string()));
                Err(error)
            }
        }
    }

    fn note_snapshot(&self, info: &SnapshotInfo) {
        let mut status = self.status_mut();
        status.snapshot = Some(info.change);
        status.snapshot_at = Some(info.taken);
    }

    /// Goes on where the directory ends, if it holds the history that the catalogue has; else begins a line
    /// with a snapshot.
    fn find_place(&self, engine: &Engine) -> Result<Place, BackupError> {
        let directory = BackupDirectory::open_or_create(&self.settings.directory, engine.instance)?;
        let lines = directory.lines()?;
        let mut number = 1;
        if let Some(line) = lines.last() {
            // What is missing of a line that a crash cut short while it was begun is made again.
            directory.begin_line(line.number)?;
            line.remove_temporary()?;
            match end_of_line(engine, line) {
                Ok(Some((shipped, newest))) => {
                    self.note_snapshot(&newest);
                    let mut status = self.status_mut();
                    (status.line, status.shipped) = (line.number, shipped);
                    return Ok(Place { directory, line: line.clone(), shipped });
                }
                Ok(None) if line.snapshots()?.is_empty() && line.segment_files()?.is_empty() => {
                    number = line.number;
                }
                Ok(None) => {
                    number = line.number + 1;
                    tracing::warn!(
                        line = number,
                        "the catalogue went another way than its backup: a line begins"
                    );
                }
                // A disk that does not answer may do so later.
                Err(
                    error @ (BackupError::File { .. }
                    | BackupError::UnreadableSegment { .. }
                    | BackupError::UnreadableSnapshot { .. }),
                ) => return Err(error),
                Err(error) => {
                    number = line.number + 1;
                    tracing::error!(%error, "the backup is damaged: a new line begins");
                }
            }
        }
        self.begin_line(engine, directory, number)
    }

    fn begin_line(
        &self,
        engine: &Engine,
        directory: BackupDirectory,
        number: u32,
    ) -> Result<Place, BackupError> {
        let line = directory.begin_line(number)?;
        LineStart::now(engine, number, newest_change(&directory)?)?.write(&line.path)?;
        let info = self.take_snapshot(engine, &line)?;
        let mut status = self.status_mut();
        (status.line, status.shipped) = (number, info.change);
        Ok(Place { directory, line, shipped: info.change })
    }
}

/// The newest change that the newest line of a backup has in a sound segment; `None` if there is none.
pub(crate) fn newest_shipped(directory: &Path, instance: Uuid) -> Result<Option<u64>, BackupError> {
    let directory = match BackupDirectory::open(directory) {
        Err(BackupError::NotABackup(_)) => return Ok(None),
        opened => opened?,
    };
    let Some(line) = directory.lines()?.pop() else { return Ok(None) };
    match line.segment_files()?.last() {
        Some(newest) => Ok(Some(read_segment(newest, instance, |_| newest.last)?)),
        None => Ok(None),
    }
}

/// Where the segments of a line end and its newest snapshot, if the catalogue has the same history up to
/// there. A snapshot that is newer than the last segment ends nothing: changes between them are still to be
/// shipped.
fn end_of_line(engine: &Engine, line: &Line) -> Result<Option<(u64, SnapshotInfo)>, BackupError> {
    let snapshots = line.snapshots()?;
    let (Some((_, oldest)), Some((_, newest))) = (snapshots.first(), snapshots.last()) else {
        return Ok(None);
    };
    let newest = line.snapshot(newest)?;
    let (end, digest) = match line.segments()?.last() {
        Some(segment) => {
            let digest = |segment: &ChangeSegment<'_>| segment.changes.last().map(|bytes| Blake3::of(bytes));
            (segment.last, read_segment(segment, engine.instance, digest)?)
        }
        // The segments begin behind the oldest snapshot.
        None => {
            let oldest = line.snapshot(oldest)?;
            (oldest.change, Some(oldest.change_digest))
        }
    };
    let is_here = |change: u64, digest: Option<Blake3>| {
        let here = engine.catalogue.read(|view| view.changes(change, 1, usize::MAX))?;
        let here = here.first().filter(|(number, _)| *number == change);
        Ok::<bool, BackupError>(here.map(|(_, bytes)| Blake3::of(bytes)) == digest)
    };
    let is_same = is_here(end, digest)?
        && (newest.change <= end || is_here(newest.change, Some(newest.change_digest))?);
    Ok(is_same.then_some((end, newest)))
}

/// Ships what there is. Whether the line goes on: numbers that jump belong to another one.
fn ship(engine: &Engine, place: &mut Place, mut told: impl FnMut(u64)) -> Result<bool, BackupError> {
    let directory = place.line.segments_directory();
    loop {
        let first = place.shipped + 1;
        let mut changes =
            engine.catalogue.read(|view| view.changes(first, SEGMENT_CHANGES_MAX, SEGMENT_BYTES_MAX))?;
        let together = changes.iter().zip(first..).take_while(|((number, _), at)| number == at).count();
        let is_at_jump = together == 0 && !changes.is_empty();
        changes.truncate(together);
        let Some((last, _)) = changes.last() else { return Ok(!is_at_jump) };
        let bodies: Vec<&[u8]> = changes.iter().map(|(_, bytes)| bytes.as_slice()).collect();
        let segment = ChangeSegment::encode(engine.instance, ChangeNumber(first), &bodies)
            .map_err(|source| BackupError::Encode { first, source })?;
        let name = format!("{}-{}.kcl", change_name(first), change_name(*last));
        write_durable(&directory, &name, &segment)?;
        place.shipped = *last;
        told(*last);
    }
}

/// Copies the catalogue as it is at one moment, without stopping it.
fn take_snapshot(engine: &Engine, line: &Line) -> Result<SnapshotInfo, BackupError> {
    let parent = line.snapshots_directory();
    let temporary = parent.join(format!("{TEMPORARY}snapshot"));
    if temporary.exists() {
        fs::remove_dir_all(&temporary).map_err(BackupError::at(&temporary, "removing"))?;
    }
    let info = copy_catalogue(engine, &temporary).inspect_err(|_| {
        // A full disk must not stay full of what is of no use.
        let _ = fs::remove_dir_all(&temporary);
    })?;
    let path = parent.join(change_name(info.change));
    if path.exists() {
        // Nothing has changed since the last one.
        fs::remove_dir_all(&temporary).map_err(BackupError::at(&temporary, "removing"))?;
        return Ok(SnapshotInfo { path, ..info });
    }
    fs::rename(&temporary, &path).map_err(BackupError::at(&path, "naming"))?;
    sync_directory(&parent)?;
    Ok(SnapshotInfo { path, ..info })
}

fn copy_catalogue(engine: &Engine, into: &Path) -> Result<SnapshotInfo, BackupError> {
    engine.catalogue.copy_to(into)?;
    let copy = SnapshotReader::open(into)?;
    let (change, epoch, bytes) = copy.read(|view| {
        let change = view.last_change()?;
        let newest = view.changes(change, 1, usize::MAX)?;
        Ok((change, view.epoch()?, newest.into_iter().next().map(|(_, bytes)| bytes).unwrap_or_default()))
    })?;
    drop(copy);
    let files = snapshot_files(into);
    let hash = |path: &PathBuf| {
        hash_file(path, None).map_err(|error| match error {
            CopyError::Reading(error) | CopyError::Writing(error) => {
                BackupError::at(path, "reading back")(error)
            }
        })
    };
    let info = SnapshotInfo {
        path: into.to_owned(),
        instance: engine.instance,
        change,
        changed_at: if bytes.is_empty() { Timestamp(0) } else { time_of_change(change, &bytes)? },
        change_digest: Blake3::of(&bytes),
        epoch,
        taken: engine.now(),
        files: files.iter().map(|(_, path)| hash(path)).collect::<Result<_, _>>()?,
    };
    write_durable(into, MANIFEST, info.encode().as_bytes())?;
    Ok(info)
}

/// Removes the oldest snapshots beyond `keep`, then the segments that only they needed.
fn prune(line: &Line, keep: usize) -> Result<(), BackupError> {
    let snapshots = line.snapshots()?;
    let Some(gone) = snapshots.len().checked_sub(keep).filter(|gone| *gone > 0) else { return Ok(()) };
    let parent = line.snapshots_directory();
    for (change, path) in snapshots.iter().take(gone) {
        // Renamed first, so that a snapshot is whole or not there.
        let temporary = parent.join(format!("{TEMPORARY}gone-{change}"));
        fs::rename(path, &temporary).map_err(BackupError::at(path, "removing"))?;
        sync_directory(&parent)?;
        fs::remove_dir_all(&temporary).map_err(BackupError::at(&temporary, "removing"))?;
    }
    let Some((oldest, _)) = snapshots.get(gone) else { return Ok(()) };
    for segment in line.segments()?.iter().take_while(|segment| segment.last <= *oldest) {
        fs::remove_file(&segment.path).map_err(BackupError::at(&segment.path, "removing"))?;
    }
    sync_directory(&line.segments_directory())
}
