//! The end of a file version: condemned when it loses its name, gone when no container needs it any more.

use base::{ContainerId, FileId};

use super::{hold, online, pool, quota, request};
use crate::draft::Draft;
use crate::error::{ReadError, Rejection};
use crate::key;
use crate::record::{
    ContainerRecord, Counter, FileRecord, FileState, Hold, ItemState, MemberRecord, TodoFile,
};
use crate::table::Table;

/// Condemns a named file whose name was taken away, unless something holds it: the one way by which a file
/// is given up. `why` is told to those who wait for it.
pub(super) fn condemn(
    draft: &mut Draft<'_>,
    id: FileId,
    mut file: FileRecord,
    why: &'static str,
) -> Result<(), Rejection> {
    hold::check(draft, id, &file)?;
    hold::forget(draft, id)?;
    draft.discount(Counter::Class(file.class), 1, file.size.0)?;
    quota::charge(draft, id, &file, quota::Way::Out)?;
    if file.is_online() {
        online::went(draft, id, &file)?;
    }
    request::settle(draft, id, &file, &ItemState::Failed(why.to_owned()))?;
    for (request, until) in draft.view().pins(id)? {
        draft.remove(Table::Pin, key::pin(id, request));
        draft.remove(Table::PinExpiry, key::pin_expiry(until, id, request));
    }
    drop_todo(draft, id, &file)?;
    assert_eq!(draft.view().hold(id)?, Hold::default(), "nothing keeps what is given up");
    assert!(draft.view().pins(id)?.is_empty(), "and nobody has it pinned");
    let parts = draft.view().parts(id)?;
    let mut is_safe = true;
    for (container, member) in &parts {
        is_safe &= update(draft, *container, |record| {
            record.live_members = record.live_members.checked_sub(1)?;
            record.live_bytes.0 = record.live_bytes.0.checked_sub(member.length.0)?;
            Some(record.is_safe())
        })?;
    }
    if is_safe {
        return remove(draft, id, &file, &parts);
    }
    for (container, _) in &parts {
        update(draft, *container, |record| {
            record.condemned_members = record.condemned_members.checked_add(1)?;
            Some(())
        })?;
    }
    file.state = FileState::Condemned(draft.at);
    draft.put(Table::File, key::file(id), &file);
    Ok(())
}

/// Removes a condemned file if all its containers are safe now, or none is left.
pub(super) fn finalise(draft: &mut Draft<'_>, id: FileId, file: &FileRecord) -> Result<(), Rejection> {
    assert!(!file.is_named(), "only what was given up is removed for good");
    if draft.view().safe_on_tape(id)?.is_none() {
        return Ok(());
    }
    let parts = draft.view().parts(id)?;
    for (container, _) in &parts {
        update(draft, *container, |record| {
            record.condemned_members = record.condemned_members.checked_sub(1)?;
            Some(())
        })?;
    }
    remove(draft, id, file, &parts)
}

pub(super) fn remove(
    draft: &mut Draft<'_>,
    id: FileId,
    file: &FileRecord,
    parts: &[(ContainerId, MemberRecord)],
) -> Result<(), Rejection> {
    for (container, member) in parts {
        take_out(draft, id, *container, member);
    }
    debug_assert!(draft.view().parts(id)?.is_empty(), "a file that is gone stands in no container");
    pool::dereference(draft, &file.pieces)?;
    draft.remove(Table::File, key::file(id));
    Ok(())
}

/// Takes a member out of its container. Its counts are the caller's.
pub(super) fn take_out(draft: &mut Draft<'_>, id: FileId, container: ContainerId, member: &MemberRecord) {
    draft.remove(Table::Member, key::member(container, member.data_offset, id));
    draft.remove(Table::Part, key::part(id, member.file_offset));
}

/// Has a live file wait to be sealed.
pub(super) fn put_todo(draft: &mut Draft<'_>, id: FileId, file: &FileRecord) -> Result<(), Rejection> {
    assert!(file.state == FileState::Live && file.is_online(), "what waits to be sealed is in the pool");
    let todo = TodoFile { size: file.size, since: file.created };
    draft.put(Table::Todo, key::todo(file.class, file.dataset, id), &todo);
    Ok(draft.count(Counter::Todo(file.class), 1, file.size.0)?)
}

/// Takes a file out of the queue of those that wait to be sealed, if it is there.
pub(super) fn drop_todo(draft: &mut Draft<'_>, id: FileId, file: &FileRecord) -> Result<(), Rejection> {
    let key = key::todo(file.class, file.dataset, id);
    if let Some(todo) = draft.view().get::<TodoFile>(Table::Todo, &key)? {
        draft.discount(Counter::Todo(file.class), 1, todo.size.0)?;
        draft.remove(Table::Todo, key);
    }
    Ok(())
}

/// Changes a container that must be there; `None` from `change` means that its counts contradict the members.
pub(super) fn update<T>(
    draft: &mut Draft<'_>,
    id: ContainerId,
    change: impl FnOnce(&mut ContainerRecord) -> Option<T>,
) -> Result<T, Rejection> {
    let key = key::container(id);
    let mut record: ContainerRecord = draft.view().expect(Table::Container, &key)?;
    let result = change(&mut record).ok_or_else(|| ReadError::inconsistent(Table::Container, &key))?;
    draft.put(Table::Container, key, &record);
    Ok(result)
}
