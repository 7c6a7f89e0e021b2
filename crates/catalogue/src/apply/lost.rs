//! Bytes that cannot be read: a file falls back on its tape copies, or is lost, or is found again.

use base::{ByteCount, ClassId, ContainerId, FileId};

use super::{lifecycle, limit, online, pool, reason, request};
use crate::command::{BATCH_FILES_MAX, Outcome, PoolCopy, PoolLoss};
use crate::draft::Draft;
use crate::error::Rejection;
use crate::key;
use crate::record::{ClassRecord, ContainerCopy, ContainerRecord, FileRecord, FileState, ItemState, Rule};
use crate::table::Table;

/// Members read at a time.
const PAGE: usize = 1000;

/// What tapes must have of a file before what the pool had of it is given up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    /// A copy under an index, as a Kist of before had it.
    Indexed,
    /// Such a copy on a tape that can be read now. Drives that were given up may come back: what they hold
    /// may be all that can be read.
    Readable,
}

pub(super) fn pool_copies_lost(draft: &mut Draft<'_>, copies: &[PoolCopy]) -> Result<Outcome, Rejection> {
    limit("files in one command", copies.len(), BATCH_FILES_MAX)?;
    let losses = copies.iter().map(|copy| lose(draft, copy.file, Needs::Readable, |file| copy.is_of(file)));
    losses.collect::<Result<_, _>>().map(Outcome::PoolCopyLost)
}

/// As a Kist of before had it: which copies were looked at is not known.
pub(super) fn any_pool_copies_lost(draft: &mut Draft<'_>, files: &[FileId]) -> Result<Outcome, Rejection> {
    limit("files in one command", files.len(), BATCH_FILES_MAX)?;
    let losses = files.iter().map(|id| lose(draft, *id, Needs::Indexed, |_| true));
    losses.collect::<Result<_, _>>().map(Outcome::PoolCopyLost)
}

/// Decides about a file if it has the copy that was looked at.
fn lose(
    draft: &mut Draft<'_>,
    id: FileId,
    needs: Needs,
    is_it: impl FnOnce(&FileRecord) -> bool,
) -> Result<PoolLoss, Rejection> {
    let file = draft.view().file(id)?.filter(|file| file.is_named() && file.has_data());
    match file.filter(is_it) {
        Some(file) if file.is_lost() || !file.pieces.is_empty() => decide(draft, id, file, needs),
        _ => Ok(PoolLoss::NotConcerned),
    }
}

/// A named file whose pool bytes cannot be read: NEARLINE if tapes have all of it, else lost. What no index
/// covers yet may still be refused by its tape, and what only tapes have that are set aside may never be read
/// from them: then the pieces are kept. Not so while a restored catalogue is settled, which may not know of
/// an index that its tape has: there the bytes are gone for certain.
fn decide(
    draft: &mut Draft<'_>,
    id: FileId,
    mut file: FileRecord,
    needs: Needs,
) -> Result<PoolLoss, Rejection> {
    let have_it = file.pieces.is_empty() || draft.meta()?.restored || tapes_have(draft, id, needs)?;
    let is_on_tape = have_it && request::places(draft, id, &file)?.is_some();
    if !is_on_tape && file.is_lost() {
        return Ok(PoolLoss::Lost);
    }
    if file.is_online() {
        online::went(draft, id, &file)?;
    }
    let dropped = if is_on_tape { std::mem::take(&mut file.pieces) } else { Vec::new() };
    file.state = if is_on_tape { FileState::Live } else { FileState::Lost(draft.at) };
    assert!(!file.has_data() || !file.is_online(), "its copy in the pool is given up");
    assert!(
        !file.is_lost() || dropped.is_empty(),
        "the bytes of a lost file are kept: they may be found again"
    );
    draft.put(Table::File, key::file(id), &file);
    // What cannot be read cannot be sealed, and would keep its class due for ever.
    lifecycle::drop_todo(draft, id, &file)?;
    pool::dereference(draft, &dropped)?;
    Ok(if is_on_tape { PoolLoss::Nearline } else { PoolLoss::Lost })
}

fn tapes_have(draft: &Draft<'_>, id: FileId, needs: Needs) -> Result<bool, Rejection> {
    match needs {
        Needs::Indexed => is_indexed(draft, id),
        Needs::Readable => Ok(draft.view().not_given(id)?.is_none()),
    }
}

/// Whether each part of a file has a copy under a synced index, at its present place or its source.
fn is_indexed(draft: &Draft<'_>, id: FileId) -> Result<bool, Rejection> {
    for (container, _) in draft.view().parts(id)? {
        let record: ContainerRecord = draft.view().expect(Table::Container, &key::container(container))?;
        if !record.copies.iter().any(ContainerCopy::is_safe) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether bytes of a file are to be sealed yet.
fn waits(draft: &Draft<'_>, id: FileId, file: &FileRecord) -> Result<bool, Rejection> {
    let sealed = draft.view().parts(id)?.iter().map(|(_, part)| part.length.0).sum::<u64>();
    Ok(sealed < file.size.0 && goes_to_tape(draft, file.class)?)
}

/// Whether the files of a class go to tape.
pub(super) fn goes_to_tape(draft: &Draft<'_>, class: ClassId) -> Result<bool, Rejection> {
    let class: Option<ClassRecord> = draft.view().get(Table::Class, &key::class(class))?;
    Ok(class.is_some_and(|class| !class.copies.is_empty()))
}

pub(super) fn pool_copies_found(draft: &mut Draft<'_>, copies: &[PoolCopy]) -> Result<Outcome, Rejection> {
    limit("files in one command", copies.len(), BATCH_FILES_MAX)?;
    copies.iter().try_for_each(|copy| find(draft, copy.file, |file| copy.is_of(file)))?;
    Ok(Outcome::Done)
}

/// As a Kist of before had it: which copies were looked at is not known.
pub(super) fn any_pool_copies_found(draft: &mut Draft<'_>, files: &[FileId]) -> Result<Outcome, Rejection> {
    limit("files in one command", files.len(), BATCH_FILES_MAX)?;
    files.iter().try_for_each(|id| find(draft, *id, |_| true))?;
    Ok(Outcome::Done)
}

/// Takes a lost file back if it has the copy that was looked at.
fn find(draft: &mut Draft<'_>, id: FileId, is_it: impl FnOnce(&FileRecord) -> bool) -> Result<(), Rejection> {
    let file = draft.view().file(id)?.filter(|file| file.is_lost() && !file.pieces.is_empty());
    let Some(mut file) = file.filter(is_it) else { return Ok(()) };
    file.state = FileState::Live;
    online::came(draft, id, &file)?;
    draft.put(Table::File, key::file(id), &file);
    assert!(file.is_online(), "a file that was found is in the pool");
    if waits(draft, id, &file)? {
        lifecycle::put_todo(draft, id, &file)?;
    }
    Ok(())
}

/// A container has no readable place any more: its members that are not in the pool are lost.
pub(super) fn container_lost(draft: &mut Draft<'_>, id: ContainerId, why: &str) -> Result<(), Rejection> {
    for_members(draft, id, |draft, id, mut file| {
        if is_only_on_tape(&file) {
            request::settle(draft, id, &file, &ItemState::Failed(reason(&format!("LOST: {why}"))))?;
            file.state = FileState::Lost(draft.at);
            draft.put(Table::File, key::file(id), &file);
        }
        Ok(())
    })
}

/// Whether a member of a container has nothing, or nothing that could be read, without its places on tape:
/// one that is LOST is found again by them.
pub(super) fn depends_on_tape(draft: &mut Draft<'_>, id: ContainerId) -> Result<bool, Rejection> {
    let mut depends = false;
    for_members(draft, id, |_, _, file| {
        depends |= is_only_on_tape(&file) || file.is_lost();
        Ok(())
    })?;
    Ok(depends)
}

fn is_only_on_tape(file: &FileRecord) -> bool {
    file.state == FileState::Live && !file.is_online()
}

/// A container has its first readable place again: lost members are decided anew.
pub(super) fn container_found(draft: &mut Draft<'_>, id: ContainerId) -> Result<(), Rejection> {
    let asks = draft.view().holds(Rule::ReadableIfEvicted)?;
    let needs = if asks { Needs::Readable } else { Needs::Indexed };
    for_members(draft, id, |draft, id, file| {
        if file.is_lost() {
            decide(draft, id, file, needs)?;
        }
        Ok(())
    })
}

/// Calls `each` for all members, page by page.
pub(super) fn for_members(
    draft: &mut Draft<'_>,
    id: ContainerId,
    mut each: impl FnMut(&mut Draft<'_>, FileId, FileRecord) -> Result<(), Rejection>,
) -> Result<(), Rejection> {
    let mut after: Option<(ByteCount, FileId)> = None;
    loop {
        let page = draft.view().members(id, after, PAGE)?;
        for member in &page {
            let file: FileRecord = draft.view().expect(Table::File, &key::file(member.file))?;
            each(draft, member.file, file)?;
        }
        match page.last() {
            Some(last) if page.len() == PAGE => {
                let last = Some((last.data_offset, last.file));
                assert!(last > after, "each page begins behind the one before, so that they end");
                after = last;
            }
            _ => return Ok(()),
        }
    }
}
