//! The worker that ships: new changes as they come, snapshots now and then. Whatever fails here is told and
//! tried again; it never stops the server.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use threads::{Doorbell, Mutex, MutexGuard};

use base::{Blake3, Clock, Duration, Timestamp, Uuid};
use ltfs::changes::{ChangeNumber, ChangeSegment};
use store::{CatalogueStore, SnapshotReader, snapshot_files, time_of_change};

use crate::choose::newest_change;
use crate::error::{BackupError, ShipError};
use crate::files::{CopyError, TEMPORARY, hash_file, read_segment, sync_directory, write_durable};
use crate::layout::{BackupDirectory, Line, change_name};
use crate::line_start::LineStart;
use crate::manifest::{MANIFEST, SnapshotInfo};
use crate::{BackupReach, BackupSettings, BackupStatus};

/// Most changes in one segment.
const SEGMENT_CHANGES_MAX: usize = 200_000;
/// Most bytes of changes in one segment, unless one change alone has more.
const SEGMENT_BYTES_MAX: usize = 32 << 20;

/// A snapshot that failed is tried again after this long, or when somebody asks: on a full disk it would cost
/// a copy of the catalogue each time.
const SNAPSHOT_RETRY: Duration = Duration::from_secs(600);

/// What the worker is given of the server that it runs in.
pub struct WorkerParts {
    /// The catalogue that is backed up.
    pub catalogue: Arc<CatalogueStore>,
    /// The trusted time, and the system's.
    pub clock: Arc<dyn Clock>,
    /// The instance that the catalogue is of.
    pub instance: Uuid,
    /// Is told how far the backup has the log of changes.
    pub reach: Arc<BackupReach>,
}

/// Ships the catalogue of a running server into a directory. Its thread calls [`Worker::run`]; others ask how
/// it stands, and for snapshots.
pub struct Worker {
    settings: BackupSettings,
    parts: WorkerParts,
    is_stopping: AtomicBool,
    doorbell: Doorbell,
    status: Mutex<BackupStatus>,
    place: Mutex<Option<Place>>,
    /// When and why the last snapshot failed.
    snapshot_failed: Mutex<Option<(Timestamp, String)>>,
}

/// Lines of a backup to which the catalogue could go back to before its last restore.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OlderLines {
    /// Their directories, the oldest first; at least one.
    pub directories: Vec<PathBuf>,
    /// The line that is being written; 0 if none was begun yet.
    pub line: u32,
}

/// Where the next segment goes.
struct Place {
    directory: BackupDirectory,
    line: Line,
    shipped: u64,
}

impl Worker {
    /// A worker that has done nothing yet. From here on the backup is one that has not told yet what it has.
    #[must_use]
    pub fn new(settings: BackupSettings, parts: WorkerParts) -> Self {
        parts.reach.begins();
        let status = BackupStatus { directory: settings.directory.clone(), ..BackupStatus::default() };
        Worker {
            settings,
            parts,
            is_stopping: AtomicBool::new(false),
            doorbell: Doorbell::default(),
            status: Mutex::new(status),
            place: Mutex::new(None),
            snapshot_failed: Mutex::new(None),
        }
    }

    fn status_mut(&self) -> MutexGuard<'_, BackupStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Timestamp {
        self.parts.clock.now()
    }

    /// How the backup stands.
    #[must_use]
    pub fn status(&self) -> BackupStatus {
        let mut status = self.status_mut().clone();
        status.change = self.parts.catalogue.read(|view| view.last_change()).unwrap_or(status.change);
        status
    }

    /// The lines that are kept of before the last restore, and from which there is anything to go back to;
    /// `None` if there are none.
    ///
    /// # Errors
    /// If the backup cannot be looked at: one that is not there may only not be mounted.
    pub fn older_lines(&self) -> Result<Option<OlderLines>, BackupError> {
        let line = self.status_mut().line;
        let mut lines = BackupDirectory::open(&self.settings.directory)?.lines()?;
        // The restore began a line of its own.
        lines.retain(|older| line == 0 || older.number < line);
        let mut directories: Vec<PathBuf> = Vec::new();
        for older in lines {
            if !older.is_empty()? {
                directories.push(older.path);
            }
        }
        Ok((!directories.is_empty()).then_some(OlderLines { directories, line }))
    }

    /// Asks for a snapshot now; gives the value that [`BackupStatus::answered`] reaches when it is taken.
    pub fn ask(&self) -> u64 {
        let mut status = self.status_mut();
        status.asked += 1;
        let asked = status.asked;
        drop(status);
        self.doorbell.ring();
        asked
    }

    /// Ends [`Worker::run`] after its present turn.
    pub fn stop(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        self.doorbell.ring();
    }

    /// Ships until it is stopped: the worker's thread.
    pub fn run(&self) {
        while !self.is_stopping.load(Ordering::SeqCst) {
            self.turn(true);
            self.doorbell.wait(self.settings.ship_every);
        }
    }

    /// Ships what there is; with `may_snapshot` also takes a snapshot if one is due.
    pub fn turn(&self, may_snapshot: bool) {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = self.status_mut().asked;
        let result = self.try_turn(&mut place, may_snapshot);
        let mut status = self.status_mut();
        if may_snapshot {
            // Whoever asked finds in `failing` whether it was taken.
            status.answered = asked;
        }
        match result {
            Ok(()) => {
                self.parts.reach.shipped(status.shipped);
                if status.failing.take().is_some() {
                    tracing::info!("the backup of the catalogue works again");
                }
                status.shipped_at = Some(self.now());
            }
            Err(error) => {
                self.parts.reach.failed(self.parts.clock.steady());
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

    fn try_turn(&self, place: &mut Option<Place>, may_snapshot: bool) -> Result<(), ShipError> {
        if place.is_none() {
            *place = Some(self.find_place()?);
        }
        let Some(place) = place else { return Ok(()) };
        if place.line.snapshots()?.is_empty() {
            // Also while there is nothing to ship: what is gone counts for nothing.
            return Err(ShipError::Gone(place.line.path.clone()));
        }
        if !ship(&self.parts, place, |shipped| self.status_mut().shipped = shipped)? {
            let number = place.line.number + 1;
            *place = self.begin_line(place.directory.clone(), number)?;
        }
        if may_snapshot && self.is_snapshot_due() {
            self.take_snapshot(&place.line)?;
            prune(&place.line, self.settings.keep_snapshots.max(1))?;
        }
        Ok(())
    }

    fn is_snapshot_due(&self) -> bool {
        let status = self.status_mut();
        let age = status.snapshot_at.map(|at| self.now().since(at));
        status.asked > status.answered || age.is_none_or(|age| age >= self.settings.snapshot_every)
    }

    fn take_snapshot(&self, line: &Line) -> Result<SnapshotInfo, ShipError> {
        let is_asked = {
            let status = self.status_mut();
            status.asked > status.answered
        };
        let mut failed = self.snapshot_failed.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = failed.as_ref().filter(|(at, _)| self.now().since(*at) < SNAPSHOT_RETRY && !is_asked);
        if let Some((_, reason)) = recent {
            return Err(ShipError::Again(reason.clone()));
        }
        match take_snapshot(&self.parts, line) {
            Ok(info) => {
                *failed = None;
                self.note_snapshot(&info);
                Ok(info)
            }
            Err(error) => {
                *failed = Some((self.now(), error.to_string()));
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
    fn find_place(&self) -> Result<Place, ShipError> {
        let directory = BackupDirectory::open_or_create(&self.settings.directory, self.parts.instance)?;
        let lines = directory.lines()?;
        let mut number = 1;
        if let Some(line) = lines.last() {
            // What is missing of a line that a crash cut short while it was begun is made again.
            directory.begin_line(line.number)?;
            line.remove_temporary()?;
            match end_of_line(&self.parts, line) {
                Ok(Some((shipped, newest))) => {
                    self.note_snapshot(&newest);
                    let mut status = self.status_mut();
                    (status.line, status.shipped) = (line.number, shipped);
                    return Ok(Place { directory, line: line.clone(), shipped });
                }
                Ok(None) if line.is_empty()? => {
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
                    error @ ShipError::Backup(
                        BackupError::File { .. }
                        | BackupError::UnreadableSegment { .. }
                        | BackupError::UnreadableSnapshot { .. },
                    ),
                ) => return Err(error),
                Err(error) => {
                    number = line.number + 1;
                    tracing::error!(%error, "the backup is damaged: a new line begins");
                }
            }
        }
        self.begin_line(directory, number)
    }

    fn begin_line(&self, directory: BackupDirectory, number: u32) -> Result<Place, ShipError> {
        let line = directory.begin_line(number)?;
        let WorkerParts { catalogue, clock, .. } = &self.parts;
        LineStart::now(catalogue, clock.as_ref(), number, newest_change(&directory)?)?.write(&line.path)?;
        let info = self.take_snapshot(&line)?;
        let mut status = self.status_mut();
        (status.line, status.shipped) = (number, info.change);
        Ok(Place { directory, line, shipped: info.change })
    }
}

/// The newest change that the newest line of a backup has in a sound segment; `None` if there is none.
///
/// # Errors
/// If the backup is there and cannot be read.
pub fn newest_shipped(directory: &Path, instance: Uuid) -> Result<Option<u64>, BackupError> {
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
fn end_of_line(parts: &WorkerParts, line: &Line) -> Result<Option<(u64, SnapshotInfo)>, ShipError> {
    let snapshots = line.snapshots()?;
    let (Some((_, oldest)), Some((_, newest))) = (snapshots.first(), snapshots.last()) else {
        return Ok(None);
    };
    let newest = line.snapshot(newest)?;
    let (end, digest) = match line.segments()?.last() {
        Some(segment) => {
            let digest = |segment: &ChangeSegment<'_>| segment.changes.last().map(|bytes| Blake3::of(bytes));
            (segment.last, read_segment(segment, parts.instance, digest)?)
        }
        // The segments begin behind the oldest snapshot.
        None => {
            let oldest = line.snapshot(oldest)?;
            (oldest.change, Some(oldest.change_digest))
        }
    };
    let is_here = |change: u64, digest: Option<Blake3>| {
        let here = parts.catalogue.read(|view| view.changes(change, 1, usize::MAX))?;
        let here = here.first().filter(|(number, _)| *number == change);
        Ok::<bool, ShipError>(here.map(|(_, bytes)| Blake3::of(bytes)) == digest)
    };
    let is_same = is_here(end, digest)?
        && (newest.change <= end || is_here(newest.change, Some(newest.change_digest))?);
    Ok(is_same.then_some((end, newest)))
}

/// Ships what there is. Whether the line goes on: numbers that jump belong to another one.
fn ship(parts: &WorkerParts, place: &mut Place, mut told: impl FnMut(u64)) -> Result<bool, ShipError> {
    let directory = place.line.segments_directory();
    loop {
        let first = place.shipped + 1;
        let mut changes =
            parts.catalogue.read(|view| view.changes(first, SEGMENT_CHANGES_MAX, SEGMENT_BYTES_MAX))?;
        let together = changes.iter().zip(first..).take_while(|((number, _), at)| number == at).count();
        let is_at_jump = together == 0 && !changes.is_empty();
        changes.truncate(together);
        let Some((last, _)) = changes.last() else { return Ok(!is_at_jump) };
        let bodies: Vec<&[u8]> = changes.iter().map(|(_, bytes)| bytes.as_slice()).collect();
        let segment = ChangeSegment::encode(parts.instance, ChangeNumber(first), &bodies)
            .map_err(|source| ShipError::Encode { first, source })?;
        let name = format!("{}-{}.kcl", change_name(first), change_name(*last));
        write_durable(&directory, &name, &segment)?;
        place.shipped = *last;
        told(*last);
    }
}

/// Copies the catalogue as it is at one moment, without stopping it.
fn take_snapshot(parts: &WorkerParts, line: &Line) -> Result<SnapshotInfo, ShipError> {
    let parent = line.snapshots_directory();
    let temporary = parent.join(format!("{TEMPORARY}snapshot"));
    if temporary.exists() {
        fs::remove_dir_all(&temporary).map_err(BackupError::at(&temporary, "removing"))?;
    }
    let info = copy_catalogue(parts, &temporary).inspect_err(|_| {
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

fn copy_catalogue(parts: &WorkerParts, into: &Path) -> Result<SnapshotInfo, ShipError> {
    parts.catalogue.copy_to(into)?;
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
        instance: parts.instance,
        change,
        changed_at: if bytes.is_empty() { Timestamp(0) } else { time_of_change(change, &bytes)? },
        change_digest: Blake3::of(&bytes),
        epoch,
        taken: parts.clock.now(),
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
