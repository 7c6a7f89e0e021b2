//! Files that the pool holds and cannot give for the moment, because too many of its drives do not answer.
//! Nothing is read to find that out: it is decided from the states of the drives and from where the stripes
//! stand.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use base::{DriveId, FileId, Vid};
use catalogue::{EvictRefusal, FileState, PoolCopy, ReadError, View};

use crate::Upkeep;
use crate::lost::{self, waits_for_drives};
use ground::{ArchiveError, FileStat, Ground, Locality};
use namespace::{Containers, locality, missing_for};

/// What a reader is told of a file that waits for these drives: NEARLINE, like one that was evicted, if all
/// its tapes have it.
pub fn refused(stat: &FileStat, drives: BTreeSet<DriveId>) -> ArchiveError {
    let (path, vids) = (stat.path.clone(), readable_vids(stat));
    let drives = drives.into_iter().map(|drive| drive.0).collect();
    match stat.locality {
        Locality::Online | Locality::Lost => ArchiveError::DrivesAway { path, drives, vids },
        Locality::Nearline | Locality::OnlineAndNearline => ArchiveError::NearlineAway { path, drives, vids },
    }
}

/// The refusal for a file that can be read again once drives answer that are not given up; `None` if that is
/// not what keeps it from being read.
pub fn refusal(upkeep: &Upkeep, stat: &FileStat) -> Option<ArchiveError> {
    let silent = upkeep.pool.silent_drives();
    let file = upkeep.read(|view| view.file(stat.file)).ok().flatten()?;
    if !matches!(waits_for_drives(upkeep, &file), Ok(true)) {
        return None;
    }
    let drives = upkeep.read(|view| missing_for(upkeep, view, &file, &silent)).ok()?;
    (!drives.is_empty()).then(|| refused(stat, drives))
}

/// Files that are about to be asked for from tape although the catalogue has them in the pool: those that
/// all their tapes have and that the pool cannot give lose their pool copy, as by an evict, so that they are
/// recalled. Of others nothing is given up, nor of those whose copies no index covers yet, or whose tapes
/// cannot be read now: what the drives bring back may be all that is left of them.
pub fn give_up(upkeep: &Upkeep, files: &[FileId]) -> Result<(), ArchiveError> {
    let silent = upkeep.pool.silent_drives();
    if silent.is_empty() {
        return Ok(());
    }
    // Their tapes are all that is left of them then: no key is taken for one at hand by an old word.
    upkeep.rely_on_keys(&lost::keys_counted_on(upkeep, files.iter().copied())?)?;
    let concerned = upkeep.read(|view| {
        let mut concerned = Vec::new();
        // What the tapes hold is not known before the restore is settled.
        if view.is_restored()? {
            return Ok(concerned);
        }
        let mut containers = Containers::default();
        for id in files {
            let Some(file) = view.file(*id)? else { continue };
            if locality(view, &mut containers, *id, &file)? == Locality::OnlineAndNearline
                && !missing_for(upkeep, view, &file, &silent)?.is_empty()
                && can_be_recalled(upkeep, view, *id)?
            {
                concerned.push(PoolCopy::of(*id, &file));
            }
        }
        Ok(concerned)
    })?;
    if concerned.is_empty() {
        return Ok(());
    }
    tracing::warn!(
        files = concerned.len(),
        ?silent,
        "drives of the pool do not answer: files that were staged come back from tape"
    );
    upkeep.some_lost.store(true, Ordering::SeqCst);
    for copies in lost::parts(&concerned) {
        lost::record_lost(upkeep, copies)?;
    }
    upkeep.sweep.ring();
    Ok(())
}

/// Whether each part of a file has all its copies under indexes, and one of them on a tape that a recall may
/// read now, and that a library holds.
fn can_be_recalled(upkeep: &Upkeep, view: &View<'_>, file: FileId) -> Result<bool, ReadError> {
    Ok(is_safe(view, file)? && out_of_reach(upkeep, view, file)?.is_none())
}

/// Whether each part of a file has all its copies under indexes.
fn is_safe(view: &View<'_>, file: FileId) -> Result<bool, ReadError> {
    Ok(view.safe_on_tape(file)?.is_some())
}

/// Why no tape can give a part of a file now: none is in use, held by a library, and has its key at hand.
fn out_of_reach(upkeep: &Upkeep, view: &View<'_>, file: FileId) -> Result<Option<EvictRefusal>, ReadError> {
    for (container, _) in view.parts(file)? {
        let Some(container) = view.container(container)? else { continue };
        let (mut has_readable, mut waiting) = (false, Vec::new());
        for (vid, _) in container.places() {
            let Some(tape) = view.tape(vid)? else { continue };
            has_readable |= upkeep.may_be_read(view, vid, &tape)?;
            if view.lacks_key(&tape)? && upkeep.libraries.holds(vid) {
                waiting.push(vid);
            }
        }
        match (has_readable, waiting.is_empty()) {
            (true, _) => {}
            (false, false) => return Ok(Some(EvictRefusal::KeyMissing(waiting))),
            (false, true) => {
                let vids = container.places().map(|(vid, _)| vid).collect();
                return Ok(Some(EvictRefusal::NotInLibrary(vids)));
            }
        }
    }
    Ok(None)
}

/// Whether some part of a file is on no tape that could give it now.
pub fn no_tape_gives(upkeep: &Upkeep, view: &View<'_>, file: FileId) -> Result<bool, ReadError> {
    Ok(out_of_reach(upkeep, view, file)?.is_some())
}

/// Why a file is not to be evicted, which the catalogue would allow and cannot know: no library holds the
/// tapes that could give it, or only those whose keys are missing.
pub fn refuses_evict(
    upkeep: &Upkeep,
    view: &View<'_>,
    id: FileId,
) -> Result<Option<EvictRefusal>, ReadError> {
    let file = view.file(id)?.filter(|file| file.state == FileState::Live && file.is_online());
    // Else the catalogue says why.
    if file.is_none() || !is_safe(view, id)? || view.not_given(id)?.is_some() {
        return Ok(None);
    }
    out_of_reach(upkeep, view, id)
}

/// Whether an evict refuses a file since its tapes could not give it back: they are set aside, no library
/// holds them, or their keys are missing.
pub fn is_out_of_reach(upkeep: &Upkeep, view: &View<'_>, id: FileId) -> Result<bool, ReadError> {
    let file = view.file(id)?.filter(|file| file.state == FileState::Live && file.is_online());
    Ok(file.is_some() && is_safe(view, id)? && out_of_reach(upkeep, view, id)?.is_some())
}

/// The refusal to read what is on tape only, with the reason why it is not back yet if it is wanted.
pub fn nearline(ground: &Ground, stat: &FileStat) -> ArchiveError {
    let recall = ground.above().and_then(|above| above.recall_of(stat.file));
    let (path, vids) = (stat.path.clone(), readable_vids(stat));
    ArchiveError::Nearline { path, vids, recall: recall.map(Box::new) }
}

fn readable_vids(stat: &FileStat) -> Vec<Vid> {
    let mut vids: Vec<Vid> = stat.copies.iter().filter_map(|copy| copy.vid).collect();
    vids.sort_unstable();
    vids.dedup();
    vids
}
