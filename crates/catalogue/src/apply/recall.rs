//! What comes back from tape.

use base::{BlobDescription, BlobPiece, BlockAddress, ContainerId, FileId, Vid};

use super::{cold, limit, online, part, pool, reason, request};
use crate::command::{BATCH_FILES_MAX, Outcome};
use crate::draft::Draft;
use crate::error::{Object, Rejection};
use crate::key;
use crate::record::{ContainerKind, ContainerRecord, FileRecord, FileState, ItemState};
use crate::table::Table;

/// Whole files, and parts of files that are larger than a tape.
pub(super) fn done(
    draft: &mut Draft<'_>,
    blobs: &[BlobDescription],
    files: &[(FileId, Vec<BlobPiece>)],
    parts: &[(ContainerId, BlobPiece)],
) -> Result<Outcome, Rejection> {
    limit("files in one command", files.len().saturating_add(parts.len()), BATCH_FILES_MAX)?;
    pool::record_blobs(draft, blobs)?;
    let mut skipped: Vec<(Option<FileId>, &[BlobPiece])> = Vec::new();
    let (mut recalled, mut known) = (0, 0);
    for (id, pieces) in files {
        let file = draft.view().file(*id)?;
        let Some(mut file) = file.filter(|file| file.state == FileState::Live && !file.is_online()) else {
            skipped.push((Some(*id), pieces.as_slice()));
            continue;
        };
        if pool::total(pieces) != Some(file.size) {
            let what = "the recalled pieces do not add up to the size";
            return Err(Rejection::Malformed { object: Object::File(*id), what });
        }
        // Before what came of its parts is given up, which may stand in the same blob.
        pool::refer(draft, pieces)?;
        request::settle(draft, *id, &file, &ItemState::Done(draft.at))?;
        online::came(draft, *id, &file)?;
        file.pieces.clone_from(pieces);
        draft.put(Table::File, key::file(*id), &file);
        cold::leave_later(draft, *id, &file)?;
        recalled += 1;
    }
    for (container, piece) in parts {
        if part::has_piece(draft, *container, *piece)? {
            // The very same command again: the bytes are in use.
            known += 1;
        } else if take_part(draft, *container, *piece)? {
            recalled += 1;
        } else {
            skipped.push((None, std::slice::from_ref(piece)));
        }
    }
    let treated = recalled as usize + skipped.len() + known;
    assert_eq!(treated, files.len() + parts.len(), "each is taken or passed over");
    for (id, pieces) in skipped {
        let holder = id.map_or(Ok(None), |id| draft.view().file(id))?;
        pool::discard_unused(draft, pieces, holder.as_ref())?;
    }
    pool::discard_unreferenced(draft, blobs)?;
    Ok(Outcome::Recalled(recalled))
}

/// Keeps a part of a file, unless nobody waits for the file any more or it is there already.
fn take_part(draft: &mut Draft<'_>, id: ContainerId, piece: BlobPiece) -> Result<bool, Rejection> {
    let Some(mut record) = draft.view().container(id)? else { return Ok(false) };
    let malformed = |what| Err(Rejection::Malformed { object: Object::Container(id), what });
    if !matches!(record.kind, ContainerKind::Segment { .. }) {
        return malformed("it is no part of a file");
    }
    if piece.length != record.length {
        return malformed("the recalled part does not have the container's length");
    }
    if record.image.is_some() || !part::is_waited_for(draft, &record)? {
        return Ok(false);
    }
    pool::refer(draft, &[piece])?;
    record.image = Some(piece);
    draft.put(Table::Container, key::container(id), &record);
    part::came(draft, id, &record)?;
    Ok(true)
}

/// A file that may have been deleted, or come online, while it was read.
fn wanted(draft: &Draft<'_>, id: FileId) -> Result<Option<FileRecord>, Rejection> {
    Ok(draft.view().file(id)?.filter(|file| file.state == FileState::Live))
}

pub(super) fn failed(draft: &mut Draft<'_>, id: FileId, why: &str) -> Result<Outcome, Rejection> {
    if let Some(file) = wanted(draft, id)? {
        request::settle(draft, id, &file, &ItemState::Failed(reason(why)))?;
    }
    Ok(Outcome::Done)
}

pub(super) fn copy_failed(
    draft: &mut Draft<'_>,
    id: FileId,
    vid: Vid,
    why: &str,
) -> Result<Outcome, Rejection> {
    let Some(file) = wanted(draft, id)? else { return Ok(Outcome::Done) };
    let rows = request::recalls(draft, id)?;
    for (key, item) in rows.iter().filter(|(key, _)| key.vid == vid) {
        request::drop_recall(draft, key, item)?;
    }
    fail_unserved(draft, id, &file, why)?;
    Ok(Outcome::Done)
}

/// Fails the items of a file of which some part is in no tape's set any more.
pub(super) fn fail_unserved(
    draft: &mut Draft<'_>,
    id: FileId,
    file: &FileRecord,
    why: &str,
) -> Result<(), Rejection> {
    if !can_be_read(draft, id)? {
        request::settle(draft, id, file, &ItemState::Failed(reason(why)))?;
    }
    Ok(())
}

/// Drops all rows that stand for one place on tape, and fails the items that nothing serves then.
pub(super) fn place_failed(
    draft: &mut Draft<'_>,
    vid: Vid,
    block: BlockAddress,
    why: &str,
) -> Result<(), Rejection> {
    let rows = request::recalls_at(draft, vid, block)?;
    for (key, item) in &rows {
        request::drop_recall(draft, key, item)?;
    }
    for (key, _) in rows {
        if let Some(file) = wanted(draft, key.file)? {
            fail_unserved(draft, key.file, &file, why)?;
        }
    }
    Ok(())
}

/// Whether every part of the file is still in the set of some tape, or in the pool.
fn can_be_read(draft: &Draft<'_>, id: FileId) -> Result<bool, Rejection> {
    let rows = request::recalls(draft, id)?;
    for (container, _) in draft.view().parts(id)? {
        let record: ContainerRecord = draft.view().expect(Table::Container, &key::container(container))?;
        let is_asked_for = rows.iter().any(|(_, item)| item.container == container);
        if !is_asked_for && part::in_pool(&record).is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}
