//! All cartridges are read, by all drives at once: indexes, change-log segments, and where bases stand.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::PoisonError;
use threads::Mutex;
use threads::mpsc::{SyncSender, sync_channel};

use base::{BlockAddress, Generation, Uuid, Vid};
use library::{DriveName, Library, TapeDrive, TapeKeys};

use super::{DRIVES_TRIED_MAX, RebuildError, TapeFound, Unread};
use crate::files::write_durable;
use crate::tape::{self, BasePlace, look};
use crate::{BackupError, Progress, SegmentFile, TapeQueue};

/// Tapes that were read and are not told of yet.
const TOLD_MAX: usize = 64;

/// The drives of a library, for whoever reads tapes.
pub(super) type Drives = Vec<(DriveName, Box<dyn TapeDrive>)>;

/// A volume, and the containers that its newest index names.
pub(super) struct VolumeSeen {
    pub(super) uuid: Uuid,
    pub(super) generation: Generation,
    pub(super) containers: Vec<tape::NamedContainer>,
}

/// What all cartridges tell.
#[derive(Default)]
pub(super) struct Gathered {
    pub(super) segments: Vec<(Uuid, SegmentFile)>,
    pub(super) bases: Vec<BasePlace>,
    pub(super) tapes: BTreeMap<Vid, VolumeSeen>,
    pub(super) found: BTreeMap<Vid, TapeFound>,
    pub(super) damaged: Vec<String>,
    /// By tape that a drive has looked at, what of it none could read so far.
    unread: BTreeMap<Vid, UnreadParts>,
}

/// What the drives that tried it could not read of a tape.
#[derive(Default)]
struct UnreadParts {
    /// Drives that have read it as far as they could.
    tries: usize,
    /// By first block what is damaged of segments and bases: the last change of it, if known, and in words.
    damaged: BTreeMap<BlockAddress, (Option<u64>, String)>,
    /// First blocks of what some drive has read.
    whole: BTreeSet<BlockAddress>,
    /// Why no drive has come to the end.
    ended: Option<String>,
    /// Why there may be a newer index than the one that was read.
    doubt: Option<String>,
}

/// Reads all cartridges, with all drives at once. Gives what no drive could read, and the drives back.
pub(super) fn gather(
    (library, keys): (&dyn Library, &TapeKeys),
    spool: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Gathered, Vec<Unread>, Drives), RebuildError> {
    let mut drives = Drives::new();
    for name in library.drives() {
        let drive = library.take_drive(&name)?;
        drives.push((name, drive));
    }
    if drives.is_empty() {
        return Err(RebuildError::NoDrive);
    }
    let inventory = library.inventory()?;
    let total = inventory.len() as u64;
    progress(Progress { what: "tapes read", done: 0, total, containers: 0 });
    let queue = TapeQueue::default();
    // No drive leaves while there are tapes that it has not tried: what nobody reads is missing from the
    // history.
    let tapes = inventory.iter().map(|cartridge| (cartridge.library, cartridge.vid));
    queue.begin(tapes, drives.len(), usize::MAX);
    let gathered = Mutex::new(Gathered::default());
    let (told, read) = sync_channel(TOLD_MAX);
    let (unread, drives) = threads::scope(|scope| {
        let mut readers = Vec::with_capacity(drives.len());
        for (name, mut drive) in drives {
            let (queue, gathered, told) = (&queue, &gathered, told.clone());
            readers.push(scope.spawn(move || {
                let result =
                    read_tapes((library, keys), &name, drive.as_mut(), spool, queue, gathered, &told);
                if result.is_err() {
                    queue.stop();
                }
                (result, queue.leave(), (name, drive))
            }));
        }
        drop(told);
        let (mut done, mut containers) = (0, 0);
        for more in read {
            (done, containers) = (done + 1, containers + more);
            progress(Progress { what: "tapes read", done, total, containers });
        }
        let (mut unread, mut drives) = (Vec::new(), Drives::new());
        for reader in readers {
            match reader.join() {
                Ok((result, left, drive)) => {
                    result?;
                    unread.extend(left.into_iter().flatten());
                    drives.push(drive);
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok::<_, RebuildError>((unread, drives))
    })?;
    let mut gathered = gathered.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut nothing_of = Vec::new();
    for (vid, why) in unread {
        if gathered.found.contains_key(&vid) {
            // A drive has read a part of it.
            continue;
        }
        let why = why.unwrap_or_else(|| "no drive of its library can read it".to_owned());
        gathered.found.insert(vid, TapeFound::with(vid, why.clone()));
        nothing_of.push(Unread { vid, last: None, what: why });
    }
    let parts = gathered
        .unread
        .iter()
        .flat_map(|(vid, unread)| unread.all().map(|(last, what)| Unread { vid: *vid, last, what }));
    let unread = parts.chain(nothing_of).collect();
    Ok((gathered, unread, drives))
}

/// Reads tapes in one drive until none is left for it; tells how many containers each names.
fn read_tapes(
    (library, keys): (&dyn Library, &TapeKeys),
    name: &DriveName,
    drive: &mut dyn TapeDrive,
    spool: &Path,
    queue: &TapeQueue,
    gathered: &Mutex<Gathered>,
    told: &SyncSender<u64>,
) -> Result<(), RebuildError> {
    let mut stopped = None;
    queue.each(library.library_of(name), name.as_str(), |vid| {
        library.mount(vid, name).map_err(|error| format!("it cannot be mounted: {error}"))?;
        let read = read_tape(vid, (drive, keys), spool, gathered, told);
        // What was read of it counts. If it cannot be taken out, this drive fails with the next one.
        if let Err(error) = library.unmount(name) {
            let mut gathered = gathered.lock().unwrap_or_else(PoisonError::into_inner);
            gathered.damaged.push(format!("drive {name}: tape {vid} cannot be unmounted: {error}"));
        }
        // Another drive may read it.
        read.unwrap_or_else(|error| {
            queue.stop();
            stopped = Some(error);
            Ok(())
        })
    });
    stopped.map_or(Ok(()), Err)
}

/// Reads the mounted cartridge: its segments and containers are entered, and told once. The inner error says
/// why another drive is to try it.
fn read_tape(
    vid: Vid,
    (drive, keys): (&mut dyn TapeDrive, &TapeKeys),
    spool: &Path,
    gathered: &Mutex<Gathered>,
    told: &SyncSender<u64>,
) -> Result<Result<(), String>, RebuildError> {
    let lock = || gathered.lock().unwrap_or_else(PoisonError::into_inner);
    let nothing = |what| {
        lock().found.insert(vid, TapeFound::with(vid, what));
        let _ = told.send(0);
        Ok(Ok(()))
    };
    let seen = match look(drive, keys) {
        Ok(Ok(seen)) if seen.vid != vid => {
            return nothing(format!("the volume {} although its barcode says {vid}: left alone", seen.vid));
        }
        Ok(Ok(seen)) => seen,
        Ok(Err(found)) => return nothing(format!("{found}: left alone")),
        Err(error) => return Ok(Err(format!("it cannot be read: {error}"))),
    };
    let mut ended = None;
    match seen.spool_segments(drive, &mut |segment| lock().take_segment(vid, spool, segment)) {
        Ok(()) => {}
        Err(tape::SpoolError::Tape(error)) => {
            ended = Some(format!("its change-log segments cannot be read: {error}"));
        }
        Err(tape::SpoolError::File(error)) => return Err(error.into()),
    }
    match seen.bases(drive) {
        Ok(bases) => lock().take_bases(vid, bases),
        Err(error) => {
            ended.get_or_insert_with(|| format!("its bases of the catalogue cannot be read: {error}"));
        }
    }
    let mut gathered = lock();
    if gathered.take_volume(vid, &seen) {
        let _ = told.send(seen.containers().count() as u64);
    }
    let unread = gathered.unread.entry(vid).or_default();
    unread.tried(ended, seen.is_doubtful);
    Ok(match unread.first() {
        Some(why) if unread.tries < DRIVES_TRIED_MAX => Err(why),
        _ => Ok(()),
    })
}

impl TapeFound {
    /// A tape of which nothing is compared yet.
    fn with(vid: Vid, what: String) -> Self {
        TapeFound { vid, what, containers: 0, unknown: 0, unknown_paths: Vec::new() }
    }
}

impl Gathered {
    /// Keeps a change-log segment, unless another tape had it: an error of the spool ends the rebuild.
    fn take_segment(&mut self, vid: Vid, spool: &Path, segment: tape::Segment) -> Result<(), BackupError> {
        let unread = self.unread.entry(vid).or_default();
        match segment {
            tape::Segment::Whole { block, first, last, instance, bytes } => {
                unread.is_whole(block);
                let name = format!("{instance}-{first:020}-{last:020}.kcl");
                let file = SegmentFile { first, last, path: spool.join(&name) };
                if !file.path.exists() {
                    write_durable(spool, &name, &bytes)?;
                    self.segments.push((instance, file));
                }
            }
            tape::Segment::Damaged { block, last, what } => unread.is_damaged(block, (last, what)),
        }
        Ok(())
    }

    /// Keeps where bases stand, those of an earlier try too.
    fn take_bases(&mut self, vid: Vid, bases: Vec<BasePlace>) {
        let unread = self.unread.entry(vid).or_default();
        for base in bases {
            let Some((block, _)) = base.places.values().next().copied() else { continue };
            if base.instance.is_some() {
                unread.is_whole(block);
            } else {
                let what = format!("no part of the base at change {} begins as it should", base.change);
                unread.is_damaged(block, (Some(base.change), what));
            }
            let is_same = |known: &&mut BasePlace| {
                (known.vid, known.change, known.parts) == (vid, base.change, base.parts)
            };
            match self.bases.iter_mut().find(is_same) {
                Some(known) => known.instance = known.instance.or(base.instance),
                None => self.bases.push(base),
            }
        }
    }

    /// Keeps what the newest index of a tape names that was read in any drive; `false`: it was read before.
    fn take_volume(&mut self, vid: Vid, seen: &tape::TapeSeen) -> bool {
        let (uuid, generation) = (seen.uuid, seen.generation());
        let known = self.tapes.get(&vid).map(|known| known.generation);
        if known.is_none_or(|known| known < generation) {
            let containers = seen.containers().collect();
            self.tapes.insert(vid, VolumeSeen { uuid, generation, containers });
            let what = format!("the volume {uuid}, index generation {}", generation.0);
            self.found.insert(vid, TapeFound::with(vid, what));
        }
        known.is_none()
    }
}

impl UnreadParts {
    fn is_whole(&mut self, block: BlockAddress) {
        self.damaged.remove(&block);
        self.whole.insert(block);
    }

    fn is_damaged(&mut self, block: BlockAddress, damage: (Option<u64>, String)) {
        if !self.whole.contains(&block) {
            self.damaged.insert(block, damage);
        }
    }

    /// A drive has read the tape as far as it could. What one of them has read to its end was read.
    fn tried(&mut self, ended: Option<String>, is_doubtful: bool) {
        let doubt = is_doubtful.then(|| {
            "what stands behind its newest whole index cannot be read: there may be a newer one".to_owned()
        });
        let both = |before: Option<String>, now| if self.tries == 0 { now } else { before.and(now) };
        (self.ended, self.doubt) = (both(self.ended.take(), ended), both(self.doubt.take(), doubt));
        self.tries += 1;
    }

    /// What no drive could read, each with the last change of it, if that is known.
    fn all(&self) -> impl Iterator<Item = (Option<u64>, String)> {
        let rest = self.ended.iter().chain(&self.doubt).map(|what| (None, what.clone()));
        let of_block = |(block, (last, what)): (&BlockAddress, &(Option<u64>, String))| {
            (*last, format!("block {block}: {what}"))
        };
        self.damaged.iter().map(of_block).chain(rest)
    }

    fn first(&self) -> Option<String> {
        self.all().next().map(|(_, what)| what)
    }
}

/// The instance of the pool's drives, else the one with the most segments.
pub(super) fn choose_instance(
    gathered: &Gathered,
    unread: &[Unread],
    pool: Option<Uuid>,
) -> Result<Uuid, RebuildError> {
    let mut counts: BTreeMap<[u8; 16], u64> = BTreeMap::new();
    for (instance, _) in &gathered.segments {
        *counts.entry(instance.0).or_default() += 1;
    }
    for base in &gathered.bases {
        if let Some(instance) = base.instance {
            *counts.entry(instance.0).or_default() += base.places.len() as u64;
        }
    }
    if let Some(pool) = pool.filter(|pool| counts.contains_key(&pool.0)) {
        return Ok(pool);
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count).map(|(instance, _)| Uuid(instance));
    let tapes = gathered.tapes.len();
    most.ok_or_else(|| RebuildError::NoBeginning {
        instance: pool.map_or_else(|| "any".to_owned(), |pool| pool.to_string()),
        tapes,
        damaged: unread.iter().map(Unread::sentence).chain(gathered.damaged.iter().cloned()).collect(),
    })
}
