//! Files that the pool holds and cannot give for the moment, because too many of its drives do not answer.
//! Nothing is read to find that out: it is decided from the states of the drives and from where the stripes
//! stand.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use base::{BlobPiece, ByteCount, DriveId, FileId, Layout, Vid};
use catalogue::{EvictRefusal, FileState, PoolCopy, ReadError, View};

use crate::download::readable_vids;
use crate::engine::{Engine, summary};
use crate::lost::{self, waits_for_drives};
use crate::{ArchiveError, Download, FileStat, Locality};
use namespace::{Containers, locality, missing_for};

/// What a reader is told of a file that waits for these drives: NEARLINE, like one that was evicted, if all
/// its tapes have it.
pub(crate) fn refused(stat: &FileStat, drives: BTreeSet<DriveId>) -> ArchiveError {
    let (path, vids) = (stat.path.clone(), readable_vids(stat));
    let drives = drives.into_iter().map(|drive| drive.0).collect();
    match stat.locality {
        Locality::Online | Locality::Lost => ArchiveError::DrivesAway { path, drives, vids },
        Locality::Nearline | Locality::OnlineAndNearline => ArchiveError::NearlineAway { path, drives, vids },
    }
}

/// The refusal for a file that can be read again once drives answer that are not given up; `None` if that is
/// not what keeps it from being read.
pub(crate) fn refusal(engine: &Engine, stat: &FileStat) -> Option<ArchiveError> {
    let silent = engine.pool.silent_drives();
    let file = engine.read(|view| view.file(stat.file)).ok().flatten()?;
    if !matches!(waits_for_drives(engine, &file), Ok(true)) {
        return None;
    }
    let drives = engine.read(|view| missing_for(engine, view, &file, &silent)).ok()?;
    (!drives.is_empty()).then(|| refused(stat, drives))
}

/// Files that are about to be asked for from tape although the catalogue has them in the pool: those that
/// all their tapes have and that the pool cannot give lose their pool copy, as by an evict, so that they are
/// recalled. Of others nothing is given up, nor of those whose copies no index covers yet, or whose tapes
/// cannot be read now: what the drives bring back may be all that is left of them.
pub(crate) fn give_up(engine: &Engine, files: &[FileId]) -> Result<(), ArchiveError> {
    let silent = engine.pool.silent_drives();
    if silent.is_empty() {
        return Ok(());
    }
    let concerned = engine.read(|view| {
        let mut concerned = Vec::new();
        // What the tapes hold is not known before the restore is settled.
        if view.is_restored()? {
            return Ok(concerned);
        }
        let mut containers = Containers::default();
        for id in files {
            let Some(file) = view.file(*id)? else { continue };
            if locality(view, &mut containers, *id, &file)? == Locality::OnlineAndNearline
                && !missing_for(engine, view, &file, &silent)?.is_empty()
                && can_be_recalled(engine, view, *id)?
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
    engine.upkeep.some_lost.store(true, Ordering::SeqCst);
    for copies in lost::parts(&concerned) {
        lost::record_lost(engine, copies)?;
    }
    engine.sweep.ring();
    Ok(())
}

/// Whether each part of a file has all its copies under indexes, and one of them on a tape that a recall may
/// read now, and that a library holds.
fn can_be_recalled(engine: &Engine, view: &View<'_>, file: FileId) -> Result<bool, ReadError> {
    Ok(is_safe(view, file)? && out_of_reach(engine, view, file)?.is_none())
}

/// Whether each part of a file has all its copies under indexes.
fn is_safe(view: &View<'_>, file: FileId) -> Result<bool, ReadError> {
    for (container, _) in view.parts(file)? {
        if view.container(container)?.is_none_or(|container| !container.is_safe()) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The tapes of a part of a file that no tape can give now: none is in use, and held by a library.
fn out_of_reach(engine: &Engine, view: &View<'_>, file: FileId) -> Result<Option<Vec<Vid>>, ReadError> {
    for (container, _) in view.parts(file)? {
        let Some(container) = view.container(container)? else { continue };
        let mut is_readable = false;
        for (vid, _) in container.places() {
            is_readable = is_readable
                || engine.libraries.holds(vid) && view.tape(vid)?.is_some_and(|tape| summary(&tape).readable);
        }
        if !is_readable {
            return Ok(Some(container.places().map(|(vid, _)| vid).collect()));
        }
    }
    Ok(None)
}

/// Why a file is not to be evicted, which the catalogue would allow and cannot know: no library holds the
/// tapes that could give it.
pub(crate) fn refuses_evict(
    engine: &Engine,
    view: &View<'_>,
    id: FileId,
) -> Result<Option<EvictRefusal>, ReadError> {
    let file = view.file(id)?.filter(|file| file.state == FileState::Live && file.is_online());
    // Else the catalogue says why.
    if file.is_none() || !is_safe(view, id)? || view.set_aside(id)?.is_some() {
        return Ok(None);
    }
    Ok(out_of_reach(engine, view, id)?.map(EvictRefusal::NotInLibrary))
}

impl Download {
    /// Whether drives answer that hold what is to be read. Reads nothing: it is decided from the states of
    /// the drives. To be called behind [`Download::select`], before the first [`Download::next`].
    ///
    /// # Errors
    /// [`ArchiveError::NearlineAway`] if tapes have the file, else [`ArchiveError::DrivesAway`].
    pub fn check_drives(&self) -> Result<(), ArchiveError> {
        let engine = self.archive().engine();
        let silent = engine.pool.silent_drives();
        if silent.is_empty() {
            return Ok(());
        }
        let is_kept = self.ranges().any(|(blob, piece, offset, length)| {
            let part = match blob.layout {
                Layout::Striped { .. } => BlobPiece {
                    offset: ByteCount(piece.offset.0.saturating_add(offset)),
                    length: ByteCount(length),
                    ..*piece
                },
                // A record is found by its beginning.
                Layout::Segment { .. } => *piece,
            };
            matches!(engine.pool.has_drives_without(blob, &part, &silent), Ok(false))
        });
        if !is_kept {
            return Ok(());
        }
        // What waits for drives that are given up is left to the first read, which declares it lost.
        refusal(engine, self.stat()).map_or(Ok(()), Err)
    }
}
