//! A pack with many members is sealed in pieces, so that others need not wait for all of it: it is opened,
//! gets its members, and is closed. Until then its container has no copies, so that no tape waits for it, and
//! `sealing` says how far it is; what a crash left there is given up.

use base::{ByteCount, ContainerId};

use super::{copy, lifecycle, limit, pool, seal};
use crate::command::{BATCH_FILES_MAX, CONTAINER_MEMBERS_MAX, OpenPack, Outcome};
use crate::draft::Draft;
use crate::error::{Object, Rejection};
use crate::key;
use crate::record::{ContainerCopy, ContainerKind, ContainerRecord, MemberRecord, SealingRecord};
use crate::table::Table;

pub(super) fn open(draft: &mut Draft<'_>, open: &OpenPack) -> Result<Outcome, Rejection> {
    let id = open.container;
    let members = usize::try_from(open.members).unwrap_or(usize::MAX);
    limit("members of a container", members, CONTAINER_MEMBERS_MAX)?;
    seal::check_new(draft, id, open.class)?;
    seal::check_tape_path(id, &open.tape_path)?;
    if open.members == 0 {
        return Err(seal::malformed(id, "a container needs at least one member"));
    }
    let [skeleton] = open.skeleton.pieces[..] else {
        return Err(seal::malformed(id, "a pack's skeleton must be one piece"));
    };
    pool::take(draft, &open.skeleton)?;
    let record = ContainerRecord {
        kind: ContainerKind::Pack,
        class: open.class,
        length: open.length,
        checksums: open.checksums,
        sealed: draft.at,
        tape_path: open.tape_path.clone(),
        skeleton: Some(skeleton),
        image: None,
        copies: Vec::new(),
        live_members: 0,
        live_bytes: ByteCount(0),
        condemned_members: 0,
    };
    draft.put(Table::Container, key::container(id), &record);
    let sealing = SealingRecord { members: open.members, added: 0, end: ByteCount(0) };
    draft.put(Table::Sealing, key::container(id), &sealing);
    seal::count_pack(draft, &record)?;
    Ok(Outcome::Done)
}

/// The pack that is being sealed, and how far that is.
fn find(draft: &Draft<'_>, id: ContainerId) -> Result<(ContainerRecord, SealingRecord), Rejection> {
    let record = draft.view().container(id)?.ok_or(Rejection::NotFound(Object::Container(id)))?;
    let needed = "one that is being sealed in pieces";
    let refuse = |state| Rejection::WrongState { object: Object::Container(id), state, needed };
    let sealing: Option<SealingRecord> = draft.view().get(Table::Sealing, &key::container(id))?;
    match sealing {
        None => Err(refuse("sealed")),
        Some(sealing) if sealing.members == 0 => Err(refuse("being given up")),
        Some(sealing) => Ok((record, sealing)),
    }
}

pub(super) fn add(
    draft: &mut Draft<'_>,
    id: ContainerId,
    members: &[MemberRecord],
) -> Result<Outcome, Rejection> {
    limit("members in one command", members.len(), BATCH_FILES_MAX)?;
    let (record, mut sealing) = find(draft, id)?;
    seal::check_shape(id, &ContainerKind::Pack, members, record.length, &record.tape_path)?;
    let count = u32::try_from(members.len()).unwrap_or(u32::MAX);
    let added = sealing.added.checked_add(count).filter(|added| *added <= sealing.members);
    let added = added.ok_or_else(|| seal::malformed(id, "it gets more members than it was opened for"))?;
    if members.first().is_some_and(|first| first.header_offset < sealing.end) {
        return Err(seal::malformed(id, "the members overlap or are not in the order of their offsets"));
    }
    let (mut bytes, mut end) = (0, sealing.end);
    for member in members {
        let file = seal::waiting_file(draft, record.class, member.file)?;
        seal::enter_member(draft, id, &ContainerKind::Pack, member, &file)?;
        bytes += member.length.0;
        end = ByteCount(member.data_offset.0.saturating_add(member.length.0));
    }
    lifecycle::update(draft, id, |record| {
        record.live_members = record.live_members.checked_add(count)?;
        record.live_bytes.0 = record.live_bytes.0.checked_add(bytes)?;
        Some(())
    })?;
    assert!(end >= sealing.end && end <= record.length, "what is sealed of a pack grows, up to its length");
    assert!(bytes <= end.0 - sealing.end.0, "the new members stand behind those before");
    assert!(added > sealing.added, "each piece of a sealing adds members");
    (sealing.added, sealing.end) = (added, end);
    draft.put(Table::Sealing, key::container(id), &sealing);
    Ok(Outcome::Done)
}

pub(super) fn close(draft: &mut Draft<'_>, id: ContainerId) -> Result<Outcome, Rejection> {
    let (mut record, sealing) = find(draft, id)?;
    if sealing.added != sealing.members {
        return Err(seal::malformed(id, "it has not got all its members yet"));
    }
    let class = seal::class_on_tape(draft, record.class)?;
    record.sealed = draft.at;
    record.copies = class.copies.iter().copied().map(ContainerCopy::queued).collect();
    draft.put(Table::Container, key::container(id), &record);
    assert!(!record.copies.is_empty(), "what is sealed waits for at least one tape");
    draft.remove(Table::Sealing, key::container(id));
    for queued in &record.copies {
        copy::put_queued(draft, queued.tape_pool, id, &record)?;
    }
    Ok(Outcome::Done)
}

/// The container is gone: nothing is left to be done for it.
pub(super) fn forget(draft: &mut Draft<'_>, id: ContainerId) -> Result<(), Rejection> {
    if draft.view().has(Table::Sealing, &key::container(id))? {
        draft.remove(Table::Sealing, key::container(id));
    }
    Ok(())
}
