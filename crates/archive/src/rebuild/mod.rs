//! The last resort: a catalogue made anew from cartridges alone.
//!
//! Every index is preceded by the newest segments of the change log, so that the tapes together hold the
//! whole history up to their last indexes. It is replayed into an empty catalogue. What the last sessions
//! wrote behind that is settled by the next start, as after any crash: it looks at pool and tapes before
//! anything is written.

mod chain;
mod tape;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use base::{ByteCount, Epoch, Timestamp, Uuid, Vid};
use catalogue::{Command, ContainerCopy, CopyState, Envelope, TapeState};
use library::Library;
use store::Replay;

use crate::OpenError;
use crate::backup::{BackupError, Progress, SegmentFile, read_segment};
pub(crate) use tape::{TapeSeen, look};

/// Paths told one by one, for each tape.
const PATHS_SHOWN_MAX: usize = 100;

/// Why a catalogue cannot be rebuilt.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RebuildError {
    /// The library cannot be used at all.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The library failed.
    #[error("the tape library: {0}")]
    Library(#[from] library::LibraryError),
    /// It has no drive.
    #[error("the tape library has no drive to read the cartridges with")]
    NoDrive,
    /// There is nothing to begin with.
    #[error(
        "no tape holds the beginning of the change log of instance {instance} ({tapes} tapes of Kist were \
         read): bring more cartridges; any LTFS program reads those that are there"
    )]
    NoBeginning {
        /// The instance, `any` if it is not known.
        instance: String,
        /// Tapes of Kist that were found.
        tapes: usize,
    },
    /// Files of the backup's form failed.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// The new catalogue cannot be made.
    #[error(transparent)]
    Store(#[from] store::OpenError),
    /// The history cannot be replayed.
    #[error(transparent)]
    Replay(#[from] store::ReplayError),
    /// The new catalogue cannot be read.
    #[error("the new catalogue: {0}")]
    Read(#[from] catalogue::ReadError),
}

/// What was found on one cartridge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TapeFound {
    /// The cartridge.
    pub vid: Vid,
    /// What it holds, in words.
    pub what: String,
    /// Containers that its newest index names.
    pub containers: u64,
    /// Those of them that the rebuilt catalogue does not know to be there: written after the last change that
    /// could be replayed, or in a history that was given up.
    pub unknown: u64,
    /// Their paths, the first ones.
    pub unknown_paths: Vec<String>,
}

/// What was rebuilt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rebuilt {
    /// The instance.
    pub instance: Uuid,
    /// The newest change that was replayed.
    pub change: u64,
    /// When it was made: names, versions and deletions are those of that moment.
    pub changed_at: Timestamp,
    /// Changes replayed.
    pub replayed: u64,
    /// The first change that no tape has although later ones exist; the history ends before it.
    pub missing_from: Option<u64>,
    /// The first change behind the gap that a tape has.
    pub missing_to: Option<u64>,
    /// All cartridges of the library.
    pub tapes: Vec<TapeFound>,
    /// Tapes that the catalogue knows to hold data and that are not in the library or cannot be read.
    pub absent: Vec<Vid>,
    /// Damaged change-log segments, in words.
    pub damaged: Vec<String>,
    /// Records that contradict each other; 0 if all is well.
    pub inconsistencies: u64,
}

/// What the drives of the pool know, as far as they are there.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PoolSeen {
    /// The instance that they belong to.
    pub instance: Option<Uuid>,
    /// The newest epoch that wrote to any of them.
    pub epoch: Epoch,
    /// The newest change that any of them has been told of.
    pub change: u64,
}

/// Makes a catalogue in `into`, which must be empty or absent, from the cartridges of `library`, all in their
/// slots. Segments of the change log are gathered in `spool` first, which is left for the caller to remove.
/// Durable on return.
///
/// # Errors
/// If there is no beginning of the history, or the catalogue cannot be made. A cartridge that cannot be read
/// is no error: it is told in the answer.
pub fn rebuild(
    library: &dyn Library,
    pool: PoolSeen,
    into: &Path,
    spool: &Path,
    map_size: ByteCount,
    now: Timestamp,
    progress: &mut dyn FnMut(Progress),
) -> Result<Rebuilt, RebuildError> {
    let occupied =
        into.exists() && fs::read_dir(into).map_err(BackupError::at(into, "reading"))?.next().is_some();
    if occupied {
        return Err(BackupError::NotEmpty(into.to_owned()).into());
    }
    fs::create_dir_all(spool).map_err(BackupError::at(spool, "making the directory"))?;
    let mut gathered = gather(library, spool, progress)?;
    let instance = choose_instance(&gathered, pool.instance)?;
    let segments: Vec<SegmentFile> = gathered
        .segments
        .drain(..)
        .filter(|(owner, _)| *owner == instance)
        .map(|(_, segment)| segment)
        .collect();
    let mut replay = Replay::open(into, map_size)?;
    let mut rebuilt = Rebuilt {
        instance,
        change: 0,
        changed_at: Timestamp(0),
        replayed: 0,
        missing_from: None,
        missing_to: None,
        tapes: Vec::new(),
        absent: Vec::new(),
        damaged: std::mem::take(&mut gathered.damaged),
        inconsistencies: 0,
    };
    replay_history(&segments, &mut replay, &mut rebuilt, progress)?;
    if rebuilt.replayed == 0 {
        let instance = instance.to_string();
        return Err(RebuildError::NoBeginning { instance, tapes: gathered.tapes.len() });
    }
    let newest = segments.iter().map(|segment| segment.last).max().unwrap_or(0);
    let epoch = replay.read(|view| view.epoch())?.max(pool.epoch);
    let (after, seen) = (replay.last_change(), newest.max(pool.change));
    let command = Command::AcceptRestore { epoch, after, seen };
    replay.execute(&Envelope { at: now.max(rebuilt.changed_at), command })?;
    compare(&replay, gathered, &mut rebuilt)?;
    rebuilt.inconsistencies = replay.read(|view| view.check())?.len() as u64;
    Ok(rebuilt)
}

/// What all cartridges tell.
struct Gathered {
    segments: Vec<(Uuid, SegmentFile)>,
    /// Their volumes, and the containers that the newest index of each names.
    tapes: BTreeMap<Vid, (Uuid, Vec<tape::Named>)>,
    found: Vec<TapeFound>,
    damaged: Vec<String>,
}

fn gather(
    library: &dyn Library,
    spool: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Gathered, RebuildError> {
    let drive = library.drives().into_iter().next().ok_or(RebuildError::NoDrive)?;
    let mut handle = library.take_drive(&drive)?;
    let inventory = library.inventory()?;
    let total = inventory.len() as u64;
    let mut gathered =
        Gathered { segments: Vec::new(), tapes: BTreeMap::new(), found: Vec::new(), damaged: Vec::new() };
    for (done, cartridge) in inventory.into_iter().enumerate() {
        let vid = cartridge.vid;
        let mut found =
            TapeFound { vid, what: String::new(), containers: 0, unknown: 0, unknown_paths: Vec::new() };
        match library.mount(vid, &drive) {
            Ok(()) => {
                found.what = gather_tape(vid, handle.as_mut(), spool, &mut gathered)?;
                library.unmount(&drive)?;
            }
            Err(error) => found.what = format!("it cannot be mounted: {error}"),
        }
        gathered.found.push(found);
        progress(Progress { what: "tapes read", done: done as u64 + 1, total });
    }
    Ok(gathered)
}

/// What the mounted cartridge holds, in words; its segments and containers are entered.
fn gather_tape(
    vid: Vid,
    drive: &mut dyn library::TapeDrive,
    spool: &Path,
    gathered: &mut Gathered,
) -> Result<String, RebuildError> {
    let seen = match look(drive) {
        Ok(Ok(seen)) => seen,
        Ok(Err(found)) => return Ok(format!("{found}: left alone")),
        Err(error) => return Ok(format!("it cannot be read: {error}")),
    };
    if seen.vid != vid {
        return Ok(format!("the volume {} although its barcode says {vid}: left alone", seen.vid));
    }
    match seen.spool_segments(drive, spool, &mut gathered.segments, &mut gathered.damaged) {
        Ok(()) => {}
        Err(tape::SpoolError::Tape(error)) => {
            gathered.damaged.push(format!("tape {vid}: its change-log segments cannot be read: {error}"));
        }
        Err(tape::SpoolError::File(error)) => return Err(error.into()),
    }
    gathered.tapes.insert(vid, (seen.uuid, seen.containers().collect()));
    Ok(format!("the volume {}, index generation {}", seen.uuid, seen.generation().0))
}

/// The instance of the pool's drives, else the one with the most segments.
fn choose_instance(gathered: &Gathered, pool: Option<Uuid>) -> Result<Uuid, RebuildError> {
    let mut counts: BTreeMap<[u8; 16], u64> = BTreeMap::new();
    for (instance, _) in &gathered.segments {
        *counts.entry(instance.0).or_default() += 1;
    }
    if let Some(pool) = pool.filter(|pool| counts.contains_key(&pool.0)) {
        return Ok(pool);
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count).map(|(instance, _)| Uuid(instance));
    let tapes = gathered.tapes.len();
    most.ok_or_else(|| RebuildError::NoBeginning {
        instance: pool.map_or_else(|| "any".to_owned(), |pool| pool.to_string()),
        tapes,
    })
}

/// Replays range after range, until changes are missing.
fn replay_history(
    segments: &[SegmentFile],
    replay: &mut Replay,
    rebuilt: &mut Rebuilt,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), RebuildError> {
    let newest = segments.iter().map(|segment| segment.last).max().unwrap_or(0);
    for range in chain::ranges(segments, rebuilt.instance)? {
        let mut next = range.first;
        while range.last.is_none_or(|last| next <= last) {
            let Some(segment) = chain::covering(segments, next) else {
                let later = chain::next_known(segments, next);
                if range.last.is_some() || later.is_some() {
                    (rebuilt.missing_from, rebuilt.missing_to) = (Some(next), later);
                    return Ok(());
                }
                break;
            };
            let applied = read_segment(segment, rebuilt.instance, |read| {
                let from = usize::try_from(next - segment.first).unwrap_or(usize::MAX);
                let changes = read.changes.get(from..).unwrap_or_default();
                let changed_at = &mut rebuilt.changed_at;
                replay.apply(next, changes, |number, envelope| {
                    let goes_on = range.last.is_none_or(|last| number <= last);
                    if goes_on {
                        *changed_at = envelope.at;
                    }
                    goes_on
                })
            })??;
            next += applied;
            rebuilt.replayed += applied;
            rebuilt.change = replay.last_change();
            progress(Progress { what: "changes replayed", done: rebuilt.change, total: newest });
        }
    }
    Ok(())
}

/// Compares what stands on the tapes with what the catalogue knows of them.
fn compare(replay: &Replay, gathered: Gathered, rebuilt: &mut Rebuilt) -> Result<(), RebuildError> {
    rebuilt.tapes = gathered.found;
    for (vid, (volume, containers)) in &gathered.tapes {
        let Some(found) = rebuilt.tapes.iter_mut().find(|found| found.vid == *vid) else { continue };
        found.containers = containers.len() as u64;
        let given_up = replay.read(|view| given_up(view, *vid, *volume))?;
        if let Some(what) = given_up {
            found.what += what;
            continue;
        }
        for named in containers {
            let is_known = replay.read(|view| {
                let is_there = is_known_there(view, *vid, named.container, named.block)?;
                Ok(is_there || is_elsewhere(view, named.container)?)
            })?;
            if is_known {
                continue;
            }
            found.unknown += 1;
            if found.unknown_paths.len() < PATHS_SHOWN_MAX {
                found.unknown_paths.push(named.path.clone());
            }
        }
    }
    let records = replay.read(|view| view.tapes())?;
    rebuilt.absent = records
        .into_iter()
        .filter(|(vid, tape)| tape.containers > 0 && !gathered.tapes.contains_key(vid))
        .map(|(vid, _)| vid)
        .collect();
    Ok(())
}

/// Why nothing that a volume holds is missed, in words that follow what it is; `None`: it counts. The index
/// of a tape that is emptied goes on naming what stood there before.
fn given_up(
    view: &catalogue::View<'_>,
    vid: Vid,
    volume: Uuid,
) -> Result<Option<&'static str>, catalogue::ReadError> {
    let Some(tape) = view.tape(vid)? else { return Ok(None) };
    if tape.replaces == Some(volume) {
        return Ok(Some(", reclaimed: nothing on it is needed"));
    }
    // Nothing is written to a tape in that state.
    let is_emptied = tape.state == TapeState::Repacking && tape.containers == 0 && tape.uuid == Some(volume);
    Ok(is_emptied.then_some(", repacked: nothing on it is needed, it can be reclaimed"))
}

/// Whether all copies of a container stand on tapes, wherever: then an older place of it is not missed.
fn is_elsewhere(
    view: &catalogue::View<'_>,
    container: base::ContainerId,
) -> Result<bool, catalogue::ReadError> {
    let record = view.container(container)?;
    let stands = |copy: &ContainerCopy| matches!(copy.state, CopyState::Indexed { .. });
    Ok(record.is_some_and(|record| !record.copies.is_empty() && record.copies.iter().all(stands)))
}

/// Whether the catalogue has this container at this place, planned or written.
pub(crate) fn is_known_there(
    view: &catalogue::View<'_>,
    vid: Vid,
    container: base::ContainerId,
    block: base::BlockAddress,
) -> Result<bool, catalogue::ReadError> {
    let standing = view.content(vid, block, 1)?;
    if standing.first().is_some_and(|(at, found)| (*at, *found) == (block, container)) {
        return Ok(true);
    }
    let Some(record) = view.container(container)? else { return Ok(false) };
    let planned = |state: CopyState| match state {
        CopyState::Planned { vid, block, .. } => Some((vid, block)),
        _ => None,
    };
    Ok(record.copies.iter().any(|copy| planned(copy.state) == Some((vid, block))))
}
