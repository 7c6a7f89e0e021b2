//! What tapes hold that a restored catalogue does not know: volumes written since, and containers on them.

use base::{BlockAddress, ByteCount, ContainerId, FileId, Vid};

use super::{copy, dissolve, lifecycle, limit, lost, namespace, reason, run, seal, tape};
use crate::command::{AdoptContainer, CONTAINER_MEMBERS_MAX, Outcome, TapeFound};
use crate::draft::Draft;
use crate::error::{Object, Rejection};
use crate::key;
use crate::record::{
    ContainerCopy, ContainerRecord, CopyState, FileRecord, FileState, MemberRecord, TapePlace, TapeRecord,
    TapeState,
};
use crate::table::Table;

/// Only while the catalogue is compared with pool and tapes may they tell it what it holds.
fn need_restored(draft: &Draft<'_>, object: Object) -> Result<(), Rejection> {
    if draft.meta()?.restored {
        return Ok(());
    }
    let (state, needed) =
        ("of a catalogue that is settled", "of one that was restored and is not settled yet");
    Err(Rejection::WrongState { object, state, needed })
}

/// A tape holds a volume, or an index, that the catalogue does not know. It is only read from now on.
pub(super) fn tape_found(draft: &mut Draft<'_>, found: &TapeFound) -> Result<Outcome, Rejection> {
    let vid = found.vid;
    need_restored(draft, Object::Tape(vid))?;
    let malformed = |what| Rejection::Malformed { object: Object::Tape(vid), what };
    if draft.view().get::<String>(Table::TapePool, &key::tape_pool(found.tape_pool))?.is_none() {
        return Err(Rejection::NotFound(Object::TapePool(found.tape_pool)));
    }
    if found.generation.0 == 0 || found.end_of_data <= found.index_block {
        return Err(malformed("it has no index before its end of data"));
    }
    let mut record = tape::find(draft, vid)?;
    if record.run.is_some() {
        let needed = "without an open run: end it first";
        return Err(Rejection::WrongState { object: Object::Tape(vid), state: "in a run", needed });
    }
    if record.uuid != Some(found.uuid) {
        record = another_volume(draft, vid, record)?;
    } else if record.tape_pool != Some(found.tape_pool) {
        return Err(malformed("it is of another tape pool"));
    } else if found.generation < record.generation || found.end_of_data < record.end_of_data {
        return Err(malformed("the volume was longer, or its index newer"));
    }
    let covered_from = record.index_block;
    record.uuid = Some(found.uuid);
    record.tape_pool = Some(found.tape_pool);
    record.generation = found.generation;
    record.index_block = found.index_block;
    record.end_of_data = found.end_of_data;
    assert!(record.index_block < record.end_of_data, "the end of data is behind the index");
    assert!(record.generation.0 > 0 && record.run.is_none(), "it is a labelled volume in no run");
    if record.state != TapeState::Disabled {
        record.enter(TapeState::ReadOnly, reason(&found.reason));
    }
    draft.put(Table::Tape, key::tape(vid), &record);
    run::cover(draft, vid, covered_from)?;
    Ok(Outcome::Done)
}

/// Nothing that the catalogue knows of the tape holds for the volume that is on it now.
fn another_volume(draft: &mut Draft<'_>, vid: Vid, old: TapeRecord) -> Result<TapeRecord, Rejection> {
    if !draft.view().content(vid, BlockAddress(0), 1)?.is_empty() {
        let needed = "without containers: say of each that its copy is gone";
        return Err(Rejection::WrongState { object: Object::Tape(vid), state: "in use", needed });
    }
    tape::forget_segments(draft, vid)?;
    let TapeRecord { capacity, mounts, state, reason, history, away, .. } = old;
    Ok(TapeRecord { state, reason, mounts, history, away, ..TapeRecord::scratch(capacity) })
}

/// A container stands under an index at these places. What the catalogue knows of it gets them; one that it
/// does not know is taken over for the files that it names.
pub(super) fn adopt(draft: &mut Draft<'_>, found: &AdoptContainer) -> Result<Outcome, Rejection> {
    let id = found.container;
    need_restored(draft, Object::Container(id))?;
    let mut known = draft.view().container(id)?;
    if known.take_if(|record| record.copies.is_empty()).is_some() {
        // The point lies in the middle of its sealing: it is taken over as it stands on tape.
        dissolve::dissolve(draft, id)?;
    }
    if let Some(record) = known {
        if (record.length, record.checksums) != (found.length, found.checksums) {
            let what = "on tape it has another length or other checksums";
            return Err(Rejection::Malformed { object: Object::Container(id), what });
        }
        return take_places(draft, found, record);
    }
    let class = namespace::class(draft, found.class)?;
    limit("members of a container", found.members.len(), CONTAINER_MEMBERS_MAX)?;
    if id.0 == 0 || id.0 >= draft.meta()?.next_container {
        return Err(Rejection::NotFound(Object::Container(id)));
    }
    seal::check_shape(id, &found.kind, &found.members, found.length, &found.tape_path)?;
    let mut members = Vec::with_capacity(found.members.len());
    for member in &found.members {
        if take_member(draft, found, member)? {
            members.push(*member);
        }
    }
    if members.is_empty() {
        let what = "each of its files stands in another container on tape, or was deleted";
        return Err(Rejection::Malformed { object: Object::Container(id), what });
    }
    let record = ContainerRecord {
        kind: found.kind.clone(),
        class: found.class,
        length: found.length,
        checksums: found.checksums,
        sealed: found.sealed,
        tape_path: found.tape_path.clone(),
        skeleton: None,
        image: None,
        copies: class.copies.iter().copied().map(ContainerCopy::queued).collect(),
        live_members: u32::try_from(members.len()).unwrap_or(u32::MAX),
        live_bytes: ByteCount(members.iter().map(|member| member.length.0).sum()),
        condemned_members: 0,
    };
    assert!(record.live_bytes <= record.length, "the members of a container are part of it");
    assert!(record.live_members > 0, "a container that is taken over has members");
    seal::queue_copies(draft, id, &record)?;
    take_places(draft, found, record)
}

/// Gives the queued copies of a container the places that tapes of their pools have for them.
fn take_places(
    draft: &mut Draft<'_>,
    found: &AdoptContainer,
    mut record: ContainerRecord,
) -> Result<Outcome, Rejection> {
    let id = found.container;
    let had_place = record.places().next().is_some();
    let mut taken = 0;
    for &TapePlace { vid, block } in &found.places {
        let mut tape = tape::find(draft, vid)?;
        if block >= tape.index_block
            || draft
                .view()
                .get(Table::Content, &key::content(vid, block))?
                .is_some_and(|standing: ContainerId| standing != id)
        {
            let what = "no index covers this place, or another container stands there";
            return Err(Rejection::Malformed { object: Object::Container(id), what });
        }
        let Some(pool) = tape.tape_pool else { continue };
        let place = CopyState::Indexed { vid, block };
        let source = match record.copies.iter_mut().find(|copy| copy.tape_pool == pool) {
            Some(copy) if copy.state == CopyState::Queued => {
                copy.state = place;
                // Its older place may be this very one.
                let source = copy.source.take_if(|source| *source == TapePlace { vid, block });
                copy::drop_queued(draft, pool, id, &record)?;
                source
            }
            // A run that was open at the point has planned it, or flushed it without an index: until that
            // place is safe, it is read here.
            Some(copy) if !copy.is_safe() => {
                copy.source = Some(TapePlace { vid, block });
                None
            }
            Some(_) => continue,
            // A copy that the class asked for at another time.
            None => {
                record.copies.push(ContainerCopy { tape_pool: pool, state: place, source: None });
                None
            }
        };
        // The row is there already if this is the older place of a copy.
        if source.is_none() {
            draft.put(Table::Content, key::content(vid, block), &id);
            tape.containers = tape.containers.saturating_add(1);
            tape.committed.0 = tape.committed.0.saturating_add(record.length.0);
            draft.put(Table::Tape, key::tape(vid), &tape);
        }
        assert!(record.places().any(|at| at == (vid, block)), "what was taken over is a place of it");
        taken += 1;
    }
    draft.put(Table::Container, key::container(id), &record);
    if taken == 0 && !had_place {
        let what = "none of its places is on a tape of a pool that has no copy of it";
        return Err(Rejection::Malformed { object: Object::Container(id), what });
    }
    if !had_place {
        lost::container_found(draft, id)?;
    }
    copy::made_safe(draft, id)?;
    Ok(Outcome::Done)
}

/// Makes a file a member of the container, instead of the containers that no tape has any more. `false`: one
/// that a tape has holds it, or there is no such file any more.
fn take_member(
    draft: &mut Draft<'_>,
    found: &AdoptContainer,
    member: &MemberRecord,
) -> Result<bool, Rejection> {
    let id = member.file;
    // Deleted since the tape was looked at: the others stand there all the same.
    let file = draft.view().file(id)?.filter(|file| file.is_named() && file.has_data());
    let Some(file) = file else {
        let was_given = id.0 > 0 && id.0 < draft.meta()?.next_file;
        return if was_given { Ok(false) } else { Err(Rejection::NotFound(Object::File(id))) };
    };
    // A part takes the place of itself and of what follows; a whole file that of all.
    let mut leaves = draft.view().parts(id)?;
    leaves.retain(|(_, part)| part.file_offset >= member.file_offset);
    for (container, _) in &leaves {
        let record: ContainerRecord = draft.view().expect(Table::Container, &key::container(*container))?;
        if record.places().next().is_some() {
            return Ok(false);
        }
    }
    leave_containers(draft, id, &leaves)?;
    seal::enter_member(draft, found.container, &found.kind, member, &file)?;
    wait_for_the_rest(draft, id, &file)?;
    Ok(true)
}

/// What of a file is not sealed any more, since parts of it stand as a tape has them, waits to be sealed
/// again if the pool has it.
fn wait_for_the_rest(draft: &mut Draft<'_>, id: FileId, file: &FileRecord) -> Result<(), Rejection> {
    let sealed: u64 = draft.view().parts(id)?.iter().map(|(_, part)| part.length.0).sum();
    let key = key::todo(file.class, file.dataset, id);
    if sealed < file.size.0
        && file.state == FileState::Live
        && file.is_online()
        && lost::goes_to_tape(draft, file.class)?
        && !draft.view().has(Table::Todo, &key)?
    {
        lifecycle::put_todo(draft, id, file)?;
    }
    Ok(())
}

/// Takes a file out of these containers, which stand on no tape. One that is empty then is given up.
fn leave_containers(
    draft: &mut Draft<'_>,
    id: FileId,
    parts: &[(ContainerId, MemberRecord)],
) -> Result<(), Rejection> {
    for &(container, member) in parts {
        lifecycle::take_out(draft, id, container, &member);
        let is_empty = lifecycle::update(draft, container, |record| {
            record.live_members = record.live_members.checked_sub(1)?;
            record.live_bytes.0 = record.live_bytes.0.checked_sub(member.length.0)?;
            let is_planned = record.copies.iter().any(|copy| copy.state != CopyState::Queued);
            Some(record.is_empty() && !is_planned)
        })?;
        // What a run has planned belongs to it: its end finds it empty.
        if is_empty {
            copy::drop_all(draft, container)?;
        }
    }
    Ok(())
}
