//! The last resort: a catalogue made anew from cartridges alone.
//!
//! Every index is preceded by the newest segments of the change log, so that the tapes together hold the
//! whole history up to their last indexes, from change 1 on or behind a base, which is the catalogue's rows
//! as they were after one change. The newest base that can be used is put into an empty catalogue, and the
//! changes behind it are replayed. Bases are only looked for when all tapes are read: then it is known which
//! of them belong to the history, and one after the other is read from its tape. What the last sessions wrote
//! behind that is settled by the next start, as after any crash: it looks at pool and tapes before
//! anything is written.

mod bases;
mod chain;
mod gather;

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use base::{BlockAddress, ByteCount, ContainerId, Timestamp, Uuid, Vid};
use catalogue::{Command, ContainerRecord, CopyState, Envelope, TapeRecord, TapeState};
use library::{Library, TapeKeys};
use store::{Replay, ReplayError};

use crate::files::read_segment;
use crate::{BackupError, PoolSeen, Progress, SegmentFile};
use bases::Bases;
use gather::{Gathered, VolumeSeen, choose_instance, gather};

/// A tape that a drive cannot read to its end is read in so many drives at most: each pass takes an hour or
/// more, and what three drives cannot read is damaged on the tape. Mounts that fail are tried in all drives.
const DRIVES_TRIED_MAX: usize = 3;
/// Paths told one by one, for each tape.
const PATHS_SHOWN_MAX: usize = 100;

/// Why a catalogue cannot be rebuilt.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RebuildError {
    /// The library failed.
    #[error("the tape library: {0}")]
    Library(#[from] library::LibraryError),
    /// It has no drive: nothing can be read.
    #[error("the tape library has no drive to read the cartridges with")]
    NoDrive,
    /// There is nothing to begin with.
    #[error(
        "no tape holds the beginning of the change log of instance {instance}, nor a whole base of its \
         catalogue ({tapes} tapes of Kist were read): bring more cartridges; any LTFS program reads those \
         that are there{}",
        .damaged.first().map_or_else(String::new, |first| format!(". Damaged: {first}"))
    )]
    NoBeginning {
        /// The instance, `any` if it is not known.
        instance: String,
        /// Tapes of Kist that were found.
        tapes: usize,
        /// What is damaged of bases and change-log segments, in words.
        damaged: Vec<String>,
    },
    /// No room for what is gathered from the tapes.
    #[error(
        "the file system of {} is full: the change-log segments of all tapes are gathered there until the \
         catalogue is made; make room on it and start again",
        .path.display()
    )]
    DiskFull {
        /// What could not be written.
        path: std::path::PathBuf,
    },
    /// The place to make the catalogue in is not empty.
    #[error("{} is not empty: nothing is written over; name a directory that is empty or new", .0.display())]
    NotEmpty(std::path::PathBuf),
    /// A file that is gathered from the tapes cannot be written or read.
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

/// A cartridge that could not be read, or not all of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TapeUnread {
    /// The cartridge.
    pub vid: Vid,
    /// What of it, and why, in words.
    pub what: String,
    /// Whether it may have changes that the rebuilt catalogue does not.
    pub may_have_more: bool,
}

/// What no drive could read of a cartridge.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Unread {
    vid: Vid,
    /// The last change of it, if that is known.
    last: Option<u64>,
    what: String,
}

impl Unread {
    fn sentence(&self) -> String {
        format!("tape {}: {}", self.vid, self.what)
    }
}

/// What was rebuilt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rebuilt {
    /// The instance.
    pub instance: Uuid,
    /// The newest change of the base that it was begun with; `None`: with the first change.
    pub base: Option<u64>,
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
    /// What could not be read of cartridges, those that the catalogue knows and that are not there included.
    pub unread: Vec<TapeUnread>,
    /// Bases that were not used, and drives that did not let go of a cartridge, in words.
    pub damaged: Vec<String>,
    /// Records that contradict each other; 0 if all is well.
    pub inconsistencies: u64,
}

/// Makes a catalogue in `into`, which must be empty or absent, from the cartridges of `library`, all in their
/// slots. Segments of the change log are gathered in `spool` first, which is left for the caller to remove.
/// Durable on return. Encrypted cartridges are read with `keys`.
///
/// # Errors
/// If there is no beginning of the history, or the catalogue cannot be made. A cartridge that cannot be read
/// is no error: it is told in the answer.
pub fn rebuild(
    (library, keys): (&dyn Library, &TapeKeys),
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
        return Err(RebuildError::NotEmpty(into.to_owned()));
    }
    fs::create_dir_all(spool).map_err(BackupError::at(spool, "making the directory"))?;
    let (mut gathered, mut unread, drives) = gather((library, keys), spool, progress).map_err(full_disk)?;
    let instance = choose_instance(&gathered, &unread, pool.instance)?;
    let segments: Vec<SegmentFile> = gathered
        .segments
        .drain(..)
        .filter(|(owner, _)| *owner == instance)
        .map(|(_, segment)| segment)
        .collect();
    let mut bases = Bases::new((library, keys), drives, std::mem::take(&mut gathered.bases), instance)?;
    let mut rebuilt = Rebuilt::of(instance, std::mem::take(&mut gathered.damaged));
    let told = (&mut rebuilt, &mut unread);
    let mut replay = replay_best(&segments, &mut bases, (into, map_size), told, progress)?;
    if rebuilt.replayed == 0 && rebuilt.base.is_none() {
        let instance = instance.to_string();
        let damaged = unread.iter().map(Unread::sentence).chain(rebuilt.damaged).collect();
        let tapes = gathered.tapes.len();
        return Err(RebuildError::NoBeginning { instance, tapes, damaged });
    }
    let newest_base = bases.newest_named();
    if newest_base > rebuilt.change && rebuilt.missing_from.is_none() {
        // The changes up to it were made, and nothing that can be read has them.
        (rebuilt.missing_from, rebuilt.missing_to) = (Some(rebuilt.change + 1), Some(newest_base));
    }
    let newest = segments.iter().map(|segment| segment.last).max().unwrap_or(0).max(newest_base);
    let epoch = replay.read(|view| view.epoch())?.max(pool.epoch);
    let (after, seen) = (replay.last_change(), newest.max(pool.change));
    let command = Command::AcceptRestore { epoch, after, seen };
    // What the clock says is looked at when the server starts: it may be wrong.
    let at = replay.read(|view| view.newest_time())?.unwrap_or(now);
    replay.execute(&Envelope { at, command })?;
    compare(&replay, gathered, &mut rebuilt)?;
    rebuilt.tell_unread(&replay, unread)?;
    rebuilt.inconsistencies = replay.read(|view| view.check())?.len() as u64;
    Ok(rebuilt)
}

impl Rebuilt {
    fn of(instance: Uuid, damaged: Vec<String>) -> Self {
        Rebuilt {
            instance,
            base: None,
            change: 0,
            changed_at: Timestamp(0),
            replayed: 0,
            missing_from: None,
            missing_to: None,
            tapes: Vec::new(),
            absent: Vec::new(),
            unread: Vec::new(),
            damaged,
            inconsistencies: 0,
        }
    }

    /// Enters what was not read. What goes up to a change that the catalogue has is missed by nobody, nor is
    /// a tape that is not there and was not written any more when the history ends.
    fn tell_unread(&mut self, replay: &Replay, unread: Vec<Unread>) -> Result<(), RebuildError> {
        for Unread { vid, last, what } in unread {
            let may_have_more = last.is_none_or(|last| last > self.change);
            self.unread.push(TapeUnread { vid, what, may_have_more });
        }
        for vid in &self.absent {
            if self.unread.iter().all(|told| told.vid != *vid) {
                let tape = replay.read(|view| view.tape(*vid))?;
                let may_have_more = tape.is_some_and(|tape| tape.may_be_written());
                let what = "it has data, and is not in the library, or holds another volume".to_owned();
                self.unread.push(TapeUnread { vid: *vid, what, may_have_more });
            }
        }
        Ok(())
    }
}

/// A full disk said in words: what is gathered in the spool may be large.
fn full_disk(error: RebuildError) -> RebuildError {
    match error {
        RebuildError::Backup(BackupError::File { path, source, .. })
            if matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) =>
        {
            RebuildError::DiskFull { path }
        }
        error => error,
    }
}

/// Replays the history into the directory of a new catalogue: from the newest base that can be used, else
/// from the first change. A base that is not whole, whose rows are not what was written, or which the changes
/// behind it do not follow, is told and gives way to the next older one.
fn replay_best(
    segments: &[SegmentFile],
    bases: &mut Bases<'_>,
    (into, map_size): (&Path, ByteCount),
    (rebuilt, unread): (&mut Rebuilt, &mut Vec<Unread>),
    progress: &mut dyn FnMut(Progress),
) -> Result<Replay, RebuildError> {
    let mut first_error = None;
    loop {
        let mut replay = Replay::open(into, map_size)?;
        let history = chain::history(segments, &bases.usable(), rebuilt.instance)?;
        let base = history.base;
        let mut attempt = rebuilt.clone();
        let told = (&mut attempt, &mut *unread);
        let error = match replay_history(segments, bases, history, &mut replay, told, progress) {
            Ok(()) => {
                let is_nothing = attempt.replayed == 0 && attempt.base.is_none();
                *rebuilt = attempt;
                return match first_error {
                    Some(error) if is_nothing => Err(error),
                    _ => Ok(replay),
                };
            }
            Err(error) => error,
        };
        let is_of_base =
            matches!(error, RebuildError::Replay(ReplayError::Base { .. } | ReplayError::Change { .. }));
        let Some(change) = base.filter(|_| is_of_base) else { return Err(first_error.unwrap_or(error)) };
        rebuilt.damaged.push(format!("the base at change {change} is not used: {error}"));
        if matches!(error, RebuildError::Replay(ReplayError::Change { .. })) {
            first_error.get_or_insert(error);
        }
        bases.give_up(change);
        drop(replay);
        fs::remove_dir_all(into).map_err(BackupError::at(into, "removing"))?;
    }
}

/// Begins with the base of the history, if it has one, and replays range after range behind it, until changes
/// are missing.
fn replay_history(
    segments: &[SegmentFile],
    bases: &mut Bases<'_>,
    history: chain::History,
    replay: &mut Replay,
    (rebuilt, unread): (&mut Rebuilt, &mut Vec<Unread>),
    progress: &mut dyn FnMut(Progress),
) -> Result<(), RebuildError> {
    let newest = segments.iter().map(|segment| segment.last).max().unwrap_or(0);
    if let Some(change) = history.base {
        bases.load(change, replay, unread, progress)?;
        rebuilt.base = history.base;
        rebuilt.change = change;
        rebuilt.changed_at = replay.read(|view| view.newest_time())?.unwrap_or(Timestamp(0));
    }
    for range in history.ranges {
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
            progress(Progress::of("changes replayed", rebuilt.change, newest));
        }
    }
    Ok(())
}

/// Compares what stands on the tapes with what the catalogue knows of them.
fn compare(replay: &Replay, gathered: Gathered, rebuilt: &mut Rebuilt) -> Result<(), RebuildError> {
    rebuilt.tapes = gathered.found.into_values().collect();
    let mut standing = BTreeSet::new();
    for (vid, volume) in &gathered.tapes {
        if replay.read(|view| view.tape(*vid))?.is_some_and(|tape| tape.uuid == Some(volume.uuid)) {
            standing.extend(volume.containers.iter().map(|named| (*vid, named.block, named.container)));
        }
    }
    for (vid, volume) in &gathered.tapes {
        let Some(found) = rebuilt.tapes.iter_mut().find(|found| found.vid == *vid) else { continue };
        found.containers = volume.containers.len() as u64;
        let tape = replay.read(|view| view.tape(*vid))?;
        if let Some(what) = tape.and_then(|tape| given_up(&tape, volume)) {
            found.what += what;
            continue;
        }
        for named in &volume.containers {
            let is_known = replay.read(|view| {
                let is_there = view.is_known_there(*vid, named.container, named.block)?;
                let record = view.container(named.container)?;
                Ok(is_there || record.is_some_and(|record| is_elsewhere(named.container, &record, &standing)))
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
fn given_up(tape: &TapeRecord, volume: &VolumeSeen) -> Option<&'static str> {
    if tape.replaces == Some(volume.uuid) {
        return Some(", reclaimed: nothing on it is needed");
    }
    // A newer index tells of sessions after the last change that was replayed: one that was under way when
    // the repack was asked for, or one after it was called off.
    let is_as_known = tape.uuid == Some(volume.uuid) && volume.generation <= tape.generation;
    let is_emptied = tape.state == TapeState::Repacking && tape.containers == 0 && tape.run.is_none();
    (is_as_known && is_emptied).then_some(", repacked: nothing on it is needed, it can be reclaimed")
}

/// Whether all copies of a container are on tapes, and one was found where it should be: then an older place
/// of it is not missed. Without that the catalogue may be older than a repack, and what it knows relabelled.
fn is_elsewhere(
    container: ContainerId,
    record: &ContainerRecord,
    standing: &BTreeSet<(Vid, BlockAddress, ContainerId)>,
) -> bool {
    let place = |state: CopyState| match state {
        CopyState::Indexed { vid, block } => Some((vid, block, container)),
        _ => None,
    };
    let mut places = record.copies.iter().map(|copy| place(copy.state));
    let are_on_tape = places.clone().all(|place| place.is_some());
    are_on_tape && places.any(|place| place.is_some_and(|place| standing.contains(&place)))
}

#[cfg(test)]
mod tests {
    use base::Generation;

    use super::*;

    fn volume(uuid: Uuid, generation: u64) -> VolumeSeen {
        VolumeSeen { uuid, generation: Generation(generation), containers: Vec::new() }
    }

    /// "No space left on device" says neither what for nor how to go on.
    #[test]
    fn a_full_disk_is_said_in_words() {
        let file = |kind: ErrorKind| {
            RebuildError::Backup(BackupError::at(Path::new("/s/x.kcl"), "writing")(kind.into()))
        };
        let said = full_disk(file(ErrorKind::StorageFull)).to_string();
        assert!(said.contains("/s/x.kcl is full") && said.contains("make room"), "{said}");
        assert!(matches!(full_disk(file(ErrorKind::NotFound)), RebuildError::Backup(_)));
    }

    /// A tape could be asked to be repacked while its first containers were being written. To a history that
    /// ended there it was empty, and the rebuild told of it that nothing on it is needed.
    #[test]
    fn a_tape_with_a_newer_index_or_an_open_run_is_not_given_up() {
        let uuid = Uuid([7; 16]);
        let emptied = TapeRecord {
            state: TapeState::Repacking,
            uuid: Some(uuid),
            generation: Generation(3),
            ..TapeRecord::scratch(ByteCount(1))
        };
        assert!(given_up(&emptied, &volume(uuid, 3)).is_some());
        assert_eq!(given_up(&emptied, &volume(uuid, 4)), None);
        assert_eq!(given_up(&emptied, &volume(Uuid([8; 16]), 3)), None);
        let written = TapeRecord { run: Some(base::RunId(1)), ..emptied };
        assert_eq!(given_up(&written, &volume(uuid, 3)), None);
    }

    /// The history ended before a repack: what it had moved counted as known, since the catalogue believed it
    /// on a tape that had been labelled anew.
    #[test]
    fn a_container_is_elsewhere_only_if_it_was_found_there() {
        let (container, block) = (ContainerId(5), BlockAddress(9));
        let vid = |n: u8| Vid::new(&format!("KT000{n}")).unwrap();
        let copy = |state| catalogue::ContainerCopy { tape_pool: base::TapePoolId(1), state, source: None };
        let indexed = |n| copy(CopyState::Indexed { vid: vid(n), block });
        let record = |copies| ContainerRecord {
            kind: catalogue::ContainerKind::Pack,
            class: base::ClassId(1),
            length: ByteCount(1),
            checksums: base::StreamChecksums::default(),
            sealed: Timestamp(0),
            tape_path: String::new(),
            skeleton: None,
            image: None,
            copies,
            live_members: 1,
            live_bytes: ByteCount(1),
            condemned_members: 0,
        };
        let standing = BTreeSet::from([(vid(1), block, container)]);
        assert!(is_elsewhere(container, &record(vec![indexed(1), indexed(2)]), &standing));
        assert!(!is_elsewhere(container, &record(vec![indexed(2)]), &standing));
        assert!(!is_elsewhere(container, &record(vec![indexed(1), copy(CopyState::Queued)]), &standing));
        assert!(!is_elsewhere(container, &record(Vec::new()), &standing));
    }
}
