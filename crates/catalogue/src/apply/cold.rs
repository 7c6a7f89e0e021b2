//! Cold classes: their files leave the pool by themselves once tapes have them and nobody pins them.

use base::{ByteCount, ClassId, ContainerId, FileId};

use super::{evict, lifecycle, limit, lost, namespace, online};
use crate::command::{BATCH_FILES_MAX, Command, EvictRefusal, Outcome};
use crate::draft::Draft;
use crate::encoding::Nothing;
use crate::error::{Object, Rejection};
use crate::key;
use crate::record::{ContainerRecord, Counter, FileRecord, FileState, LifecycleCursor, Rule};
use crate::table::Table;
use crate::view::View;

/// Most containers that one `EvictCold` looks at.
const CONTAINERS_MAX: usize = 1_000;
/// Most bytes in the name of a lifecycle rule: S3's limit.
pub(super) const RULE_BYTES_MAX: usize = 255;

pub(super) fn perform(draft: &mut Draft<'_>, command: &Command) -> Result<Outcome, Rejection> {
    match command {
        Command::SetResidency { class, cold } => set_residency(draft, *class, *cold),
        Command::EvictCold => evict_cold(draft, BATCH_FILES_MAX),
        Command::ChangeClass { file, class } => change_class(draft, *file, *class),
        Command::SetLifecycleCursor { dir, rule, action, cursor } => {
            namespace::check_directory(draft, *dir)?;
            limit("bytes of a rule's name", rule.len(), RULE_BYTES_MAX)?;
            set_cursor(draft, key::lifecycle(*dir, *action, rule), cursor.as_ref())
        }
        _ => unreachable!("apply sends commands about cold classes only"),
    }
}

fn set_residency(draft: &mut Draft<'_>, class: ClassId, cold: bool) -> Result<Outcome, Rejection> {
    namespace::class(draft, class)?;
    match (draft.view().is_cold(class)?, cold) {
        (false, true) => draft.put(Table::Residency, key::class(class), &Nothing),
        (true, false) => draft.remove(Table::Residency, key::class(class)),
        _ => {}
    }
    Ok(Outcome::Done)
}

/// A container has all its copies: its members may leave. Its class says nothing of theirs, which may have
/// been changed, so it is queued whenever there is a cold class at all.
pub(super) fn made_safe(draft: &mut Draft<'_>, id: ContainerId) -> Result<(), Rejection> {
    if draft.view().has_cold()? {
        draft.put(Table::Cold, key::container(id), &ByteCount(0));
    }
    Ok(())
}

/// Nothing keeps a file in the pool any more, as far as its caller knows: a file of a cold class leaves it,
/// unless something else does. While a restored catalogue is checked it is only queued, and so is one that
/// counts on keys of tapes: they are asked for before [`Command::EvictCold`].
pub(super) fn leave(draft: &mut Draft<'_>, id: FileId) -> Result<(), Rejection> {
    if !is_to_leave(draft.view(), id)? {
        return Ok(());
    }
    let view = draft.view();
    let counts_on_keys = view.holds(Rule::KeysAskedFirst)? && !view.keys_counted_on(id)?.is_empty();
    if draft.meta()?.restored || counts_on_keys {
        return queue(draft, id);
    }
    leave_now(draft, id)
}

/// Whether a file is in the pool, and of a class whose files leave it by themselves.
fn is_to_leave(view: View<'_>, id: FileId) -> Result<bool, Rejection> {
    let file = view.file(id)?.filter(|file| file.state == FileState::Live && file.is_online());
    let Some(file) = file else { return Ok(false) };
    Ok(file.has_data() && view.is_cold(file.class)?)
}

fn leave_now(draft: &mut Draft<'_>, id: FileId) -> Result<(), Rejection> {
    let Some(file) = draft.view().file(id)? else { return Ok(()) };
    let refusal = evict::evict_one(draft, id, file)?;
    if matches!(refusal, Err(EvictRefusal::TapesSetAside(_) | EvictRefusal::KeyMissing(_)))
        && let Some((container, vids)) = evict::not_given(draft, id)?
    {
        for vid in vids {
            draft.put(Table::ColdWait, key::cold_wait(vid, container), &Nothing);
        }
    }
    Ok(())
}

/// Queues what waits for tapes that can give again what they have, at most `most` containers.
fn queue_back_in_use(draft: &mut Draft<'_>, most: usize) -> Result<(), Rejection> {
    let Some(vid) = draft.view().back_in_use()? else { return Ok(()) };
    for container in draft.view().cold_waits(vid, most)? {
        draft.remove(Table::ColdWait, key::cold_wait(vid, container));
        if draft.view().container(container)?.is_some() {
            draft.put(Table::Cold, key::container(container), &ByteCount(0));
        }
    }
    Ok(())
}

/// Queues what holds a file of a cold class that is in the pool and unpinned, for the next `EvictCold`.
pub(super) fn leave_later(draft: &mut Draft<'_>, id: FileId, file: &FileRecord) -> Result<(), Rejection> {
    if draft.view().is_cold(file.class)? && draft.view().pins(id)?.is_empty() {
        queue(draft, id)?;
    }
    Ok(())
}

fn queue(draft: &mut Draft<'_>, id: FileId) -> Result<(), Rejection> {
    for (container, _) in draft.view().parts(id)? {
        draft.put(Table::Cold, key::container(container), &ByteCount(0));
    }
    Ok(())
}

pub(super) fn evict_cold(draft: &mut Draft<'_>, most: usize) -> Result<Outcome, Rejection> {
    if draft.meta()?.restored {
        return Ok(Outcome::More(false));
    }
    queue_back_in_use(draft, most.min(CONTAINERS_MAX))?;
    let mut room = most;
    for (container, from) in draft.view().cold(CONTAINERS_MAX)? {
        let after = from.0.checked_sub(1).map(|last| (ByteCount(last), FileId(u64::MAX)));
        let members = draft.view().members(container, after, room)?;
        for member in &members {
            if is_to_leave(draft.view(), member.file)? {
                leave_now(draft, member.file)?;
            }
        }
        if members.len() == room
            && let Some(last) = members.last()
        {
            // Members without bytes may share an offset; they have nothing to evict.
            let next = ByteCount(last.data_offset.0.saturating_add(1));
            draft.put(Table::Cold, key::container(container), &next);
            return Ok(Outcome::More(true));
        }
        draft.remove(Table::Cold, key::container(container));
        assert!(members.len() < room, "a container is done with only if all its members were looked at");
        room -= members.len();
    }
    Ok(Outcome::More(draft.view().has_cold_work()?))
}

fn change_class(draft: &mut Draft<'_>, id: FileId, to: ClassId) -> Result<Outcome, Rejection> {
    let file = draft.view().file(id)?.filter(FileRecord::is_named);
    let mut file = file.ok_or(Rejection::NotFound(Object::File(id)))?;
    let class = namespace::class(draft, to)?;
    if file.class == to {
        return Ok(Outcome::Done);
    }
    if file.is_lost() {
        let needed = "readable: wait until it is found, or delete it";
        return Err(Rejection::WrongState { object: Object::File(id), state: "lost", needed });
    }
    if class.copies.is_empty() && !file.is_online() {
        let needed = "in the pool to come to a class without tape: recall it first";
        return Err(Rejection::WrongState { object: Object::File(id), state: "on tape only", needed });
    }
    let parts = draft.view().parts(id)?;
    // What leaves the pool must have all copies that its class asks for, and a container gets no more of
    // them.
    for (container, _) in &parts {
        let record: ContainerRecord = draft.view().expect(Table::Container, &key::container(*container))?;
        if record.copies.len() < class.copies.len() {
            let needed = "to be put again: what is sealed gets no more copies than its container has";
            return Err(Rejection::WrongState { object: Object::File(id), state: "sealed", needed });
        }
    }
    lifecycle::drop_todo(draft, id, &file)?;
    draft.discount(Counter::Class(file.class), 1, file.size.0)?;
    draft.count(Counter::Class(to), 1, file.size.0)?;
    if file.is_online() {
        online::changes_class(draft, id, &file, to)?;
    }
    file.class = to;
    draft.put(Table::File, key::file(id), &file);
    let sealed: u64 = parts.iter().map(|(_, part)| part.length.0).sum();
    let is_sealed = !parts.is_empty() && sealed == file.size.0;
    if !is_sealed && file.is_online() && lost::goes_to_tape(draft, to)? {
        lifecycle::put_todo(draft, id, &file)?;
    }
    leave(draft, id)?;
    Ok(Outcome::Done)
}

fn set_cursor(
    draft: &mut Draft<'_>,
    key: key::Key,
    cursor: Option<&LifecycleCursor>,
) -> Result<Outcome, Rejection> {
    match cursor {
        Some(cursor) => draft.put(Table::Lifecycle, key, cursor),
        None if draft.view().has(Table::Lifecycle, &key)? => draft.remove(Table::Lifecycle, key),
        None => {}
    }
    Ok(Outcome::Done)
}

/// A container is gone: nothing is to be evicted from it.
pub(super) fn forget(draft: &mut Draft<'_>, id: ContainerId) -> Result<(), Rejection> {
    if draft.view().has(Table::Cold, &key::container(id))? {
        draft.remove(Table::Cold, key::container(id));
    }
    Ok(())
}

/// The records of a directory that is removed.
pub(super) fn forget_directory(draft: &mut Draft<'_>, dir: base::DirId) -> Result<(), Rejection> {
    for key in draft.view().lifecycle_keys(dir)? {
        draft.remove(Table::Lifecycle, key);
    }
    Ok(())
}
