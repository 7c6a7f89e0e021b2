//! All cartridges are read, by all drives at once: indexes, change-log segments, and where bases stand.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::PoisonError;
use threads::Mutex;
use threads::mpsc::{SyncSender, sync_channel};

use base::{Generation, Uuid, Vid};
use library::{DriveName, Library, TapeDrive};

use super::bases::BasePlace;
use super::tape::{self, look};
use super::{RebuildError, TapeFound};
use crate::backup::{BackupError, Progress, SegmentFile, write_durable};
use crate::tape_queue::TapeQueue;

/// Tapes that were read and are not told of yet.
const TOLD_MAX: usize = 64;

/// The drives of a library, for whoever reads tapes.
pub(super) type Drives = Vec<(DriveName, Box<dyn TapeDrive>)>;

/// A volume, and the containers that its newest index names.
pub(super) struct VolumeSeen {
    pub(super) uuid: Uuid,
    pub(super) generation: Generation,
    pub(super) containers: Vec<tape::Named>,
}

/// What all cartridges tell.
#[derive(Default)]
pub(super) struct Gathered {
    pub(super) segments: Vec<(Uuid, SegmentFile)>,
    pub(super) bases: Vec<BasePlace>,
    pub(super) tapes: BTreeMap<Vid, VolumeSeen>,
    pub(super) found: Vec<TapeFound>,
    pub(super) damaged: Vec<String>,
}

/// Reads all cartridges, with all drives at once. Gives the drives back.
pub(super) fn gather(
    library: &dyn Library,
    spool: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Gathered, Drives), RebuildError> {
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
                let result = read_tapes(library, &name, drive.as_mut(), spool, queue, gathered, &told);
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
    gathered.found.extend(unread.into_iter().map(|(vid, why)| {
        TapeFound::with(vid, why.unwrap_or_else(|| "no drive of its library can read it".to_owned()))
    }));
    gathered.found.sort_by_key(|found| found.vid);
    Ok((gathered, drives))
}

/// Reads tapes in one drive until none is left for it; tells how many containers each names.
fn read_tapes(
    library: &dyn Library,
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
        let mut unread = None;
        match read_tape(vid, drive, spool, gathered) {
            Ok(Ok(containers)) => drop(told.send(containers)),
            Ok(Err(why)) => unread = Some(why),
            Err(error) => {
                queue.stop();
                stopped = Some(error);
            }
        }
        // What was read of it counts. If it cannot be taken out, this drive fails with the next one.
        if let Err(error) = library.unmount(name) {
            let mut gathered = gathered.lock().unwrap_or_else(PoisonError::into_inner);
            gathered.damaged.push(format!("drive {name}: tape {vid} cannot be unmounted: {error}"));
        }
        // Another drive may read it.
        unread.map_or(Ok(()), Err)
    });
    stopped.map_or(Ok(()), Err)
}

/// Reads the mounted cartridge: its segments and containers are entered. Gives how many containers it names;
/// the inner error says why this drive cannot read it.
fn read_tape(
    vid: Vid,
    drive: &mut dyn TapeDrive,
    spool: &Path,
    gathered: &Mutex<Gathered>,
) -> Result<Result<u64, String>, RebuildError> {
    let lock = || gathered.lock().unwrap_or_else(PoisonError::into_inner);
    let nothing = |what| {
        lock().found.push(TapeFound::with(vid, what));
        Ok(Ok(0))
    };
    let seen = match look(drive) {
        Ok(Ok(seen)) if seen.vid != vid => {
            return nothing(format!("the volume {} although its barcode says {vid}: left alone", seen.vid));
        }
        Ok(Ok(seen)) => seen,
        Ok(Err(found)) => return nothing(format!("{found}: left alone")),
        Err(error) => return Ok(Err(format!("it cannot be read: {error}"))),
    };
    match seen.spool_segments(drive, &mut |segment| lock().take_segment(spool, segment)) {
        Ok(()) => {}
        Err(tape::SpoolError::Tape(error)) => {
            lock().damaged.push(format!("tape {vid}: its change-log segments cannot be read: {error}"));
        }
        Err(tape::SpoolError::File(error)) => return Err(error.into()),
    }
    match seen.bases(drive) {
        Ok(bases) => lock().bases.extend(bases),
        Err(error) => {
            lock().damaged.push(format!("tape {vid}: its bases of the catalogue cannot be read: {error}"));
        }
    }
    let (uuid, generation) = (seen.uuid, seen.generation());
    let containers: Vec<tape::Named> = seen.containers().collect();
    let count = containers.len() as u64;
    let mut gathered = lock();
    gathered.tapes.insert(vid, VolumeSeen { uuid, generation, containers });
    let what = format!("the volume {uuid}, index generation {}", generation.0);
    gathered.found.push(TapeFound::with(vid, what));
    Ok(Ok(count))
}

impl TapeFound {
    /// A tape of which nothing is compared yet.
    fn with(vid: Vid, what: String) -> Self {
        TapeFound { vid, what, containers: 0, unknown: 0, unknown_paths: Vec::new() }
    }
}

impl Gathered {
    /// Keeps a change-log segment, unless another tape had it: an error of the spool ends the rebuild.
    fn take_segment(&mut self, spool: &Path, segment: tape::Segment) -> Result<(), BackupError> {
        match segment {
            tape::Segment::Whole { first, last, instance, bytes } => {
                let name = format!("{instance}-{first:020}-{last:020}.kcl");
                let file = SegmentFile { first, last, path: spool.join(&name) };
                if !file.path.exists() {
                    write_durable(spool, &name, &bytes)?;
                    self.segments.push((instance, file));
                }
            }
            tape::Segment::Damaged(what) => self.damaged.push(what),
        }
        Ok(())
    }
}

/// The instance of the pool's drives, else the one with the most segments.
pub(super) fn choose_instance(gathered: &Gathered, pool: Option<Uuid>) -> Result<Uuid, RebuildError> {
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
        damaged: gathered.damaged.clone(),
    })
}
