//! Files leave the pool when their tape copies are all they need.

use base::planted::{Bug, is_planted};
use base::{ContainerId, FileId, Vid};

use super::{limit, online, pool};
use crate::command::{BATCH_FILES_MAX, EvictRefusal, Outcome};
use crate::draft::Draft;
use crate::error::Rejection;
use crate::key;
use crate::record::{ClassRecord, FileRecord, FileState, Rule, TapeRecord};
use crate::table::Table;

pub(super) fn evict(draft: &mut Draft<'_>, files: &[FileId]) -> Result<Outcome, Rejection> {
    limit("files in one command", files.len(), BATCH_FILES_MAX)?;
    let mut outcomes = Vec::with_capacity(files.len());
    for &id in files {
        outcomes.push(match draft.view().file(id)? {
            Some(file) if file.is_lost() => Err(EvictRefusal::Lost),
            Some(file) if file.state == FileState::Live => evict_one(draft, id, file)?,
            _ => Err(EvictRefusal::NotFound),
        });
    }
    assert_eq!(outcomes.len(), files.len(), "each file has its answer, at its place");
    Ok(Outcome::Evicted(outcomes))
}

pub(super) fn evict_one(
    draft: &mut Draft<'_>,
    id: FileId,
    mut file: FileRecord,
) -> Result<Result<(), EvictRefusal>, Rejection> {
    if !file.is_online() {
        return Ok(Err(EvictRefusal::NotOnline));
    }
    if !file.has_data() {
        return Ok(Err(EvictRefusal::NoData));
    }
    let class: ClassRecord = draft.view().expect(Table::Class, &key::class(file.class))?;
    if class.copies.is_empty() {
        return Ok(Err(EvictRefusal::DiskOnly));
    }
    if !is_safe(draft, id, &file)? {
        return Ok(Err(EvictRefusal::NotSafeOnTape));
    }
    if draft.view().pins(id)?.iter().any(|(_, until)| *until > draft.at) {
        return Ok(Err(EvictRefusal::Pinned));
    }
    if let Some((_, vids)) = not_given(draft, id)? {
        return Ok(Err(why_not_given(draft, vids)?));
    }
    let pieces = std::mem::take(&mut file.pieces);
    assert!(!file.is_online() && !pieces.is_empty(), "what leaves the pool was there, and is not any more");
    draft.put(Table::File, key::file(id), &file);
    online::went(draft, id, &file)?;
    pool::dereference(draft, &pieces)?;
    Ok(Ok(()))
}

/// Whether each byte lies in a container that has all its copies under an index.
fn is_safe(draft: &Draft<'_>, id: FileId, file: &FileRecord) -> Result<bool, Rejection> {
    if is_planted(Bug::UnsafeEvict) {
        return Ok(true);
    }
    Ok(draft.view().safe_on_tape(id)? == Some(file.size))
}

/// Those of the tapes that only wait for their key are told alone: with it they give the file.
fn why_not_given(draft: &Draft<'_>, vids: Vec<Vid>) -> Result<EvictRefusal, Rejection> {
    let mut waiting = Vec::new();
    for vid in &vids {
        let tape: TapeRecord = draft.view().expect(Table::Tape, &key::tape(*vid))?;
        if !tape.state.is_set_aside() {
            waiting.push(*vid);
        }
    }
    Ok(if waiting.is_empty() { EvictRefusal::TapesSetAside(vids) } else { EvictRefusal::KeyMissing(waiting) })
}

/// As [`crate::View::not_given`], from the change on from which that is asked.
pub(super) fn not_given(draft: &Draft<'_>, id: FileId) -> Result<Option<(ContainerId, Vec<Vid>)>, Rejection> {
    if !draft.view().holds(Rule::ReadableIfEvicted)? {
        return Ok(None);
    }
    Ok(draft.view().not_given(id)?)
}
