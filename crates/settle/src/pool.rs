//! Looks at the pool since a restore: files whose bytes it does not have any more, since they were removed
//! after the point of the restore or with their drives, fall back on their tapes or are lost.

use std::collections::{BTreeMap, BTreeSet};

use base::planted::{Bug, is_planted};
use base::{BlobDescription, BlobId, BlobPiece, ByteCount, FileId, Layout};
use catalogue::{BULK_FILES, Command, FileRecord, PoolCopy, PoolLoss, ReadError, View};
use pool::{Depth, PieceState, PoolError};

use crate::room::Settler;
use crate::shards::Shards;
use ground::ArchiveError;
use upkeep::{NAMED_MAX, parts, path_of, record_lost};

/// Files looked at between two reads of the catalogue.
const FILES_PAGE: usize = 4_096;
/// So many files between two lines in the log.
const FILES_TOLD: u64 = 1_000_000;
/// Files without bytes and places that are remembered; with more, all files are looked at once more.
const MISSING_MAX: usize = 1_000_000;

/// Files that neither the pool nor a tape is known to have: they are lost if no tape turns out to have them.
#[derive(Default)]
pub(crate) struct Missing {
    files: Vec<FileId>,
    more: bool,
}

impl Missing {
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty() && !self.more
    }

    /// Those that are remembered.
    pub(crate) fn files(&self) -> &[FileId] {
        &self.files
    }

    pub(crate) fn has_more(&self) -> bool {
        self.more
    }

    fn note(&mut self, file: FileId) {
        if self.files.len() < MISSING_MAX {
            self.files.push(file);
        } else {
            self.more = true;
        }
    }
}

/// What became of files that the pool does not have.
#[derive(Default)]
struct Found {
    looked: u64,
    nearline: u64,
    lost: u64,
    missing: Missing,
}

/// Goes through all files of before the restore: those that the pool does not have and tapes do are NEARLINE.
/// Gives those that nothing is known to have. A drive that is away may still have them.
pub(crate) fn look_at_files(settler: &Settler<'_>, shards: &mut Shards<'_>) -> Result<Missing, ArchiveError> {
    let mut found = Found::default();
    go_through(settler, shards, &mut found, false)?;
    tracing::warn!(
        files = found.looked,
        nearline = found.nearline,
        missing = found.missing.files.len(),
        "files were looked for in the pool"
    );
    Ok(found.missing)
}

/// All tapes were looked at that can be: those of the missing files that still have neither bytes nor places
/// are LOST if `is_certain`, since no tape is left that may have them. Else they are named, and counted.
pub(crate) fn conclude_missing(
    settler: &Settler<'_>,
    shards: &mut Shards<'_>,
    missing: Missing,
    is_certain: bool,
) -> Result<Missing, ArchiveError> {
    let mut found = Found::default();
    if missing.more {
        go_through(settler, shards, &mut found, is_certain)?;
    }
    // What is beyond those that are remembered was gone through.
    let remembered: &[FileId] = if missing.more { &[] } else { &missing.files };
    for page in remembered.chunks(BULK_FILES) {
        if settler.stopping() {
            return Ok(missing);
        }
        let files = settler.read(|view| {
            let mut files = Vec::with_capacity(page.len());
            for id in page {
                files.extend(view.file(*id)?.map(|record| (*id, record)));
            }
            Ok(files)
        })?;
        decide(settler, shards, files, &mut found, is_certain)?;
    }
    tracing::warn!(nearline = found.nearline, lost = found.lost, "files whose bytes the pool does not have");
    for file in found.missing.files.iter().take(NAMED_MAX) {
        tracing::error!(%file, path = path_of(settler, *file), "no tape that was searched has this file");
    }
    Ok(found.missing)
}

fn go_through(
    settler: &Settler<'_>,
    shards: &mut Shards<'_>,
    found: &mut Found,
    tapes_known: bool,
) -> Result<(), ArchiveError> {
    // Files of later on were put into the pool as it is.
    let end = settler.read(|view| view.restored_from())?;
    let mut after = None;
    loop {
        let mut page = settler.read(|view| view.files(after, FILES_PAGE))?;
        page.retain(|(file, _)| file.0 < end);
        let Some((last, _)) = page.last() else { return Ok(()) };
        if settler.stopping() {
            return Ok(());
        }
        after = Some(*last);
        let told = found.looked / FILES_TOLD;
        found.looked += page.len() as u64;
        if found.looked / FILES_TOLD > told {
            tracing::warn!(
                files = found.looked,
                nearline = found.nearline,
                "files are looked for in the pool"
            );
        }
        decide(settler, shards, page, found, tapes_known)?;
        settler.settling.files_looked_at(settler.now(), found.looked);
    }
}

/// Looks for the bytes of some files, and records of those that are gone what the tapes leave of them.
fn decide(
    settler: &Settler<'_>,
    shards: &mut Shards<'_>,
    files: Vec<(FileId, FileRecord)>,
    found: &mut Found,
    tapes_known: bool,
) -> Result<(), ArchiveError> {
    let mut gone = Vec::new();
    let there = values_there(settler, shards, &files)?;
    for (file, record) in files {
        if settler.stopping() {
            return Ok(());
        }
        for piece in &record.pieces {
            if !there.contains(&(piece.blob, piece.offset)) && !has_bytes(settler, shards, piece)? {
                gone.push((file, record));
                break;
            }
        }
    }
    for batch in gone.chunks(BULK_FILES) {
        let mut decided = Vec::with_capacity(batch.len());
        settler.read(|view| {
            for (file, record) in batch {
                // Deleted meanwhile, or given other bytes.
                let is_same = view.file(*file)?.is_some_and(|now| now.pieces == record.pieces);
                if !is_same {
                    continue;
                }
                if tapes_known || has_places(view, *file, record)? {
                    decided.push(PoolCopy::of(*file, record));
                } else {
                    found.missing.note(*file);
                }
            }
            Ok(())
        })?;
        for (file, loss) in parts(&decided)
            .map(|copies| record_lost(settler, copies))
            .collect::<Result<Vec<_>, _>>()?
            .concat()
        {
            match loss {
                PoolLoss::Nearline => found.nearline += 1,
                PoolLoss::Lost => {
                    settler.upkeep.note_lost(&[file]);
                    found.lost += 1;
                }
                PoolLoss::NotConcerned => {}
            }
            settler.notifier.wants_changed(file);
        }
    }
    Ok(())
}

/// Whether every byte of a file has a place on some tape.
fn has_places(view: &View<'_>, file: FileId, record: &FileRecord) -> Result<bool, ReadError> {
    let mut covered = 0;
    for (container, part) in view.parts(file)? {
        if view.container(container)?.is_some_and(|container| container.places().next().is_some()) {
            covered += part.length.0;
        }
    }
    Ok(covered == record.size.0)
}

/// The small values among the pieces of some files that the pool has, by segment and place. Neighbours are
/// read together, which takes a fraction of the time of reading them one by one. Of what is not among them
/// nothing is known.
fn values_there(
    settler: &Settler<'_>,
    shards: &mut Shards<'_>,
    files: &[(FileId, FileRecord)],
) -> Result<BTreeSet<(BlobId, ByteCount)>, ArchiveError> {
    let _reading = settler.gate.enter();
    let mut segments: BTreeMap<BlobId, Vec<BlobPiece>> = BTreeMap::new();
    for piece in files.iter().flat_map(|(_, record)| &record.pieces) {
        segments.entry(piece.blob).or_default().push(*piece);
    }
    let mut there = BTreeSet::new();
    for (segment, pieces) in segments {
        let Some(blob) = settler.read(|view| view.blob(segment))? else { continue };
        let is_segment = matches!(blob.layout, Layout::Segment { .. });
        if settler.stopping() || !is_segment || !shards.is_whole(&blob)? {
            continue;
        }
        let whole = settler.pool.verify_together(&blob, &pieces);
        let whole = pieces.iter().zip(whole).filter(|(_, is_whole)| *is_whole);
        there.extend(whole.map(|(piece, _)| (piece.blob, piece.offset)));
    }
    Ok(there)
}

/// Whether the pool has the bytes of a piece, or drives that do not answer may have them. Looks at the bytes:
/// a value may be gone from a segment whose extents are all there. What the drives of the catalogue do not
/// give is looked for on all others.
fn has_bytes(
    settler: &Settler<'_>,
    shards: &mut Shards<'_>,
    piece: &BlobPiece,
) -> Result<bool, ArchiveError> {
    // Extents that a stripe leaves behind when it moves stay as long as they are looked at here.
    let _reading = settler.gate.enter();
    let Some(blob) = settler.read(|view| view.blob(piece.blob))? else { return Ok(false) };
    if is_planted(Bug::BelievedExtent) || shards.is_doubtful(piece.blob) {
        return Ok(true);
    }
    // Also if enough is there: of what counts as whole here, reads and the scrubber may find damaged more.
    if shards.is_whole(&blob)? && !is_gone(settler, &blob, piece)? {
        return Ok(true);
    }
    shards.find_whole(&blob, piece)?;
    // As it stands now, whoever has moved it.
    let Some(blob) = settler.read(|view| view.blob(piece.blob))? else { return Ok(false) };
    Ok(!is_gone(settler, &blob, piece)? || shards.is_doubtful(piece.blob))
}

/// Whether no drive that the blob's description names has the piece, whatever drives come back.
fn is_gone(settler: &Settler<'_>, blob: &BlobDescription, piece: &BlobPiece) -> Result<bool, ArchiveError> {
    match settler.pool.verify_piece(blob, piece, Depth::Headers) {
        Ok(state) => Ok(state == PieceState::Gone),
        // Nothing is known: whoever reads it finds out.
        Err(PoolError::Shortage { .. } | PoolError::ArenaTooSmall { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// What the pool keeps for containers, and does not have any more: an image is dropped; a pack without its
/// skeleton is read from a tape again, if one has it, and else dissolved.
pub(crate) fn look_at_containers(settler: &Settler<'_>, shards: &mut Shards<'_>) -> Result<(), ArchiveError> {
    let end = settler.read(|view| view.restored_from())?;
    let mut after = None;
    loop {
        let (pieces, last) = settler.read(|view| view.container_pieces(after, FILES_PAGE))?;
        for (container, piece) in pieces {
            if settler.stopping() {
                return Ok(());
            }
            if container.0 >= end || has_bytes(settler, shards, &piece)? {
                continue;
            }
            let Some(record) = settler.read(|view| view.container(container))? else { continue };
            if record.image == Some(piece) {
                settler.execute_on_container(Command::ImageLost { container, image: piece })?;
                // It may be a part of a file that somebody waits for.
                settler.room.members_moved(container)?;
                // If it cannot be had otherwise either, whoever is to write it finds out.
            } else if record.image.is_none()
                && record.skeleton == Some(piece)
                && !settler.room.want_bytes(container)?
                && !settler.room.dissolve_if_stuck(container)?
            {
                tracing::error!(%container, "neither the pool nor a tape can give this pack now");
            }
        }
        match last {
            Some(last) if !settler.stopping() => after = Some(last),
            _ => return Ok(()),
        }
    }
}
