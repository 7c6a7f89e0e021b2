//! A pack that can never be written is given up, so that its files go into another one.

use base::{ByteCount, ContainerId, FileId};

use super::{cold, copy, lifecycle, lost, pool};
use crate::command::Outcome;
use crate::draft::Draft;
use crate::error::{Object, Rejection};
use crate::key;
use crate::record::{ContainerCopy, ContainerKind, ContainerRecord, CopyState, FileRecord, FileState};
use crate::table::Table;

/// Members read at a time.
const PAGE: usize = 1000;

pub(super) fn dissolve(draft: &mut Draft<'_>, id: ContainerId) -> Result<Outcome, Rejection> {
    let record = draft.view().container(id)?.ok_or(Rejection::NotFound(Object::Container(id)))?;
    check(id, &record)?;
    let mut after: Option<(ByteCount, FileId)> = None;
    loop {
        let page = draft.view().members(id, after, PAGE)?;
        for member in &page {
            let file: FileRecord = draft.view().expect(Table::File, &key::file(member.file))?;
            match file.state {
                // A pack holds whole files: nothing else needs it.
                FileState::Condemned(_) => lifecycle::remove(draft, member.file, &file, &[(id, *member)])?,
                FileState::Live | FileState::Lost(_) => {
                    lifecycle::take_out(draft, member.file, id, member);
                    if file.state == FileState::Live
                        && file.is_online()
                        && lost::goes_to_tape(draft, file.class)?
                    {
                        lifecycle::put_todo(draft, member.file, &file)?;
                    }
                }
            }
        }
        match page.last() {
            Some(last) if page.len() == PAGE => after = Some((last.data_offset, last.file)),
            _ => break,
        }
    }
    for queued in &record.copies {
        copy::drop_queued(draft, queued.tape_pool, id, &record)?;
    }
    pool::dereference(draft, record.skeleton.as_slice())?;
    draft.remove(Table::Container, key::container(id));
    cold::forget(draft, id)?;
    Ok(Outcome::Done)
}

fn check(id: ContainerId, record: &ContainerRecord) -> Result<(), Rejection> {
    let needed = "a pack without an image, of which no tape has or is about to get anything";
    let refuse = |state| Err(Rejection::WrongState { object: Object::Container(id), state, needed });
    if record.kind != ContainerKind::Pack {
        return refuse("a file's own container");
    }
    if record.image.is_some() {
        return refuse("in the pool with an image");
    }
    let is_queued = |copy: &ContainerCopy| copy.state == CopyState::Queued && copy.source.is_none();
    if !record.copies.iter().all(is_queued) {
        return refuse("on a tape, or planned for one");
    }
    Ok(())
}
