//! What comes back from tape.

use base::{BlockAddress, FileId, Vid};

use super::{cold, limit, pool, reason, request};
use crate::command::{BATCH_FILES_MAX, Outcome, RecallDone};
use crate::draft::Draft;
use crate::error::{Object, Rejection};
use crate::key;
use crate::record::{Counter, FileRecord, FileState, ItemState};
use crate::table::Table;

pub(super) fn done(draft: &mut Draft<'_>, done: &RecallDone) -> Result<Outcome, Rejection> {
    limit("files in one command", done.files.len(), BATCH_FILES_MAX)?;
    pool::record_blobs(draft, &done.blobs)?;
    let mut taken = Vec::new();
    let mut skipped = Vec::new();
    let mut recalled = 0;
    for (id, pieces) in &done.files {
        let file = draft.view().file(*id)?;
        let Some(mut file) = file.filter(|file| file.state == FileState::Live && !file.is_online()) else {
            skipped.push((*id, pieces));
            continue;
        };
        if pool::total(pieces) != Some(file.size) {
            let what = "the recalled pieces do not add up to the size";
            return Err(Rejection::Malformed { object: Object::File(*id), what });
        }
        taken.extend_from_slice(pieces);
        request::settle(draft, *id, &file, &ItemState::Done(draft.at))?;
        draft.count(Counter::Online(file.class), 1, file.size.0)?;
        file.pieces.clone_from(pieces);
        draft.put(Table::File, key::file(*id), &file);
        cold::leave_later(draft, *id, &file)?;
        recalled += 1;
    }
    assert_eq!(recalled as usize + skipped.len(), done.files.len(), "each file is taken or passed over");
    pool::refer(draft, &taken)?;
    for (id, pieces) in skipped {
        let holder = draft.view().file(id)?;
        pool::discard_unused(draft, pieces, holder.as_ref())?;
    }
    pool::discard_unreferenced(draft, &done.blobs)?;
    Ok(Outcome::Recalled(recalled))
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
fn fail_unserved(draft: &mut Draft<'_>, id: FileId, file: &FileRecord, why: &str) -> Result<(), Rejection> {
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

/// Whether every part of the file is still in the set of some tape.
fn can_be_read(draft: &Draft<'_>, id: FileId) -> Result<bool, Rejection> {
    let rows = request::recalls(draft, id)?;
    let mut parts = draft.view().parts(id)?.into_iter();
    Ok(parts.all(|(container, _)| rows.iter().any(|(_, item)| item.container == container)))
}
