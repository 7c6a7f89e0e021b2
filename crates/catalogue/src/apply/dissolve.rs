//! A pack that can never be written is given up, so that its files go into another one; so are a file's own
//! container that no tape takes, and a container of which nobody needs anything any more.

use base::{ByteCount, ContainerId};

use super::{copy, lifecycle, lost};
use crate::command::Outcome;
use crate::draft::Draft;
use crate::error::{Object, Rejection};
use crate::key;
use crate::record::{
    ContainerCopy, ContainerKind, ContainerRecord, CopyState, FileRecord, FileState, SealingRecord,
};
use crate::table::Table;

/// Members taken out at a time.
const PAGE: usize = 1000;

/// All at once.
pub(super) fn dissolve(draft: &mut Draft<'_>, id: ContainerId) -> Result<Outcome, Rejection> {
    let record = draft.view().container(id)?.ok_or(Rejection::NotFound(Object::Container(id)))?;
    check(draft, id, &record)?;
    while take_out_some(draft, id, PAGE)?.len() == PAGE {}
    assert!(draft.view().members(id, None, 1)?.is_empty(), "it is given up after all its members");
    for queued in &record.copies {
        copy::drop_queued(draft, queued.tape_pool, id, &record)?;
    }
    copy::forget(draft, id, &record)?;
    Ok(Outcome::Done)
}

/// The next members. From the first piece on nobody waits for the pack; with the last one it is gone.
pub(super) fn some(draft: &mut Draft<'_>, id: ContainerId, most: usize) -> Result<Outcome, Rejection> {
    let Some(mut record) = draft.view().container(id)? else { return Ok(Outcome::More(false)) };
    check(draft, id, &record)?;
    for queued in std::mem::take(&mut record.copies) {
        copy::drop_queued(draft, queued.tape_pool, id, &record)?;
    }
    let taken = take_out_some(draft, id, most)?;
    assert!(taken.len() <= most, "no more members are taken out than were asked for");
    if taken.len() < most {
        assert!(draft.view().members(id, None, 1)?.is_empty(), "it is given up after all its members");
        copy::forget(draft, id, &record)?;
        return Ok(Outcome::More(false));
    }
    for (is_named, length) in taken {
        let counted = match is_named {
            true => {
                record.live_bytes.0 = record.live_bytes.0.saturating_sub(length.0);
                &mut record.live_members
            }
            false => &mut record.condemned_members,
        };
        *counted = counted.saturating_sub(1);
    }
    draft.put(Table::Container, key::container(id), &record);
    let given_up = SealingRecord { members: 0, added: 0, end: ByteCount(0) };
    draft.put(Table::Sealing, key::container(id), &given_up);
    Ok(Outcome::More(true))
}

/// Takes the first members out of their pack; gives for each whether it has a name, and its bytes.
fn take_out_some(
    draft: &mut Draft<'_>,
    id: ContainerId,
    most: usize,
) -> Result<Vec<(bool, ByteCount)>, Rejection> {
    let members = draft.view().members(id, None, most)?;
    let mut taken = Vec::with_capacity(members.len());
    for member in &members {
        let file: FileRecord = draft.view().expect(Table::File, &key::file(member.file))?;
        taken.push((file.is_named(), member.length));
        match file.state {
            // Its other parts, if it has any, may be needed for a while.
            FileState::Condemned(_) => {
                lifecycle::take_out(draft, member.file, id, member);
                lifecycle::finalise(draft, member.file, &file)?;
            }
            FileState::Live | FileState::Lost(_) => {
                lifecycle::take_out(draft, member.file, id, member);
                if file.state == FileState::Live && file.is_online() && lost::goes_to_tape(draft, file.class)?
                {
                    lifecycle::put_todo(draft, member.file, &file)?;
                }
            }
        }
    }
    Ok(taken)
}

fn check(draft: &Draft<'_>, id: ContainerId, record: &ContainerRecord) -> Result<(), Rejection> {
    let needed =
        "a pack, a file in the pool, or needed by nobody, without an image, of which no tape has anything";
    let refuse = |state| Err(Rejection::WrongState { object: Object::Container(id), state, needed });
    match record.kind {
        _ if record.is_unneeded() => {}
        ContainerKind::Pack => {}
        ContainerKind::File(file) => {
            // Of one that is lost nothing could be sealed anew.
            let file = draft.view().file(file)?;
            if !file.is_some_and(|file| file.state == FileState::Live && file.is_online()) {
                return refuse("a file's own container, which the pool does not have");
            }
        }
        ContainerKind::Segment { .. } => return refuse("a part of a file, of which others stand beside it"),
    }
    if record.image.is_some() && !record.copies.is_empty() {
        return refuse("in the pool with an image");
    }
    let is_queued = |copy: &ContainerCopy| copy.state == CopyState::Queued && copy.source.is_none();
    if !record.copies.iter().all(is_queued) {
        return refuse("on a tape, or planned for one");
    }
    Ok(())
}
