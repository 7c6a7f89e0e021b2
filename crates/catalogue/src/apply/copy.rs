//! Tape copies that are written again: damaged ones, and those that a repack takes off their tape.

use base::{BlobPiece, BlockAddress, ContainerId, TapePoolId, Vid};

use super::{cold, lifecycle, lost, part, pool, reason, recall, request, sealing, tape};
use crate::command::{Command, Outcome, PoolData, Requeue};
use crate::draft::Draft;
use crate::error::{Object, ReadError, Rejection};
use crate::key;
use crate::record::{
    ContainerCopy, ContainerRecord, CopyState, Counter, FileState, QueuedContainer, RecallKey, Rule,
    TapePlace, TapeRecord,
};
use crate::table::Table;

pub(super) fn perform(draft: &mut Draft<'_>, command: &Command) -> Result<Outcome, Rejection> {
    match command {
        Command::CopyDamaged { container, vid, block, reason: why } => {
            damaged(draft, *container, TapePlace { vid: *vid, block: *block }, &reason(why))
        }
        Command::GiveUpPlace { container, vid, block, reason: why } => {
            give_up(draft, *container, TapePlace { vid: *vid, block: *block }, &reason(why))
        }
        Command::StoreImage { container, image } => store_image(draft, *container, image),
        Command::MendCopy { container, vid, block, reason: why, image } => {
            damaged(draft, *container, TapePlace { vid: *vid, block: *block }, &reason(why))?;
            store_image(draft, *container, image)
        }
        Command::DropImage { container } => drop_image(draft, *container, |_| true),
        Command::ImageLost { container, image } => drop_image(draft, *container, |kept| kept == *image),
        Command::RequeueCopy { container, vid } => requeue(draft, *container, *vid).map(Outcome::Requeued),
        Command::KeepCopy { container, vid } => keep(draft, *container, *vid),
        Command::DropUnneededCopies { container } => drop_unneeded(draft, *container),
        Command::CopyVerified { container, vid, block } => {
            verified(draft, *container, TapePlace { vid: *vid, block: *block })
        }
        _ => unreachable!("apply sends commands about copies only"),
    }
}

fn find(draft: &Draft<'_>, id: ContainerId) -> Result<ContainerRecord, Rejection> {
    draft.view().container(id)?.ok_or(Rejection::NotFound(Object::Container(id)))
}

fn place_of(state: CopyState) -> Option<TapePlace> {
    state.place().map(|(vid, block)| TapePlace { vid, block })
}

/// Which of the copies stands at a place, as its present one or as its source.
fn copy_at(record: &ContainerRecord, is_it: impl Fn(TapePlace) -> bool) -> Option<usize> {
    record
        .copies
        .iter()
        .position(|copy| place_of(copy.state).is_some_and(&is_it) || copy.source.is_some_and(&is_it))
}

/// Takes a copy's row off its tape, and its length from what the tape holds.
fn take_off(draft: &mut Draft<'_>, record: &ContainerRecord, place: TapePlace) -> Result<(), Rejection> {
    let key = key::tape(place.vid);
    let mut tape: TapeRecord = draft.view().expect(Table::Tape, &key)?;
    let less = tape.containers.checked_sub(1).zip(tape.committed.0.checked_sub(record.length.0));
    let (containers, committed) = less.ok_or_else(|| ReadError::inconsistent(Table::Tape, &key))?;
    tape.containers = containers;
    tape.committed.0 = committed;
    draft.put(Table::Tape, key, &tape);
    draft.remove(Table::Content, key::content(place.vid, place.block));
    Ok(())
}

/// A copy waits to be written: its row in the queue of its tape pool, and what that counts.
pub(super) fn put_queued(
    draft: &mut Draft<'_>,
    tape_pool: TapePoolId,
    id: ContainerId,
    record: &ContainerRecord,
) -> Result<(), Rejection> {
    let is_queued = draft.view().has(Table::Queue, &key::queue(tape_pool, id))?;
    assert!(!is_queued, "container {id} waits for tape pool {tape_pool} already");
    let queued = QueuedContainer { length: record.length, since: record.sealed };
    draft.put(Table::Queue, key::queue(tape_pool, id), &queued);
    Ok(draft.count(Counter::Queued(tape_pool), 1, record.length.0)?)
}

/// A copy does not wait any more.
pub(super) fn drop_queued(
    draft: &mut Draft<'_>,
    tape_pool: TapePoolId,
    id: ContainerId,
    record: &ContainerRecord,
) -> Result<(), Rejection> {
    draft.remove(Table::Queue, key::queue(tape_pool, id));
    Ok(draft.discount(Counter::Queued(tape_pool), 1, record.length.0)?)
}

fn enqueue(
    draft: &mut Draft<'_>,
    id: ContainerId,
    record: &mut ContainerRecord,
    at: usize,
) -> Result<(), Rejection> {
    let Some(copy) = record.copies.get_mut(at) else { return Ok(()) };
    copy.state = CopyState::Queued;
    let tape_pool = copy.tape_pool;
    put_queued(draft, tape_pool, id, record)
}

/// Drops a queued or written copy with all that is known of it, and the container with its last copy.
fn drop_copy(
    draft: &mut Draft<'_>,
    id: ContainerId,
    mut record: ContainerRecord,
    at: usize,
) -> Result<(), Rejection> {
    let copy = record.copies.remove(at);
    for place in place_of(copy.state).into_iter().chain(copy.source) {
        take_off(draft, &record, place)?;
    }
    if copy.state == CopyState::Queued {
        drop_queued(draft, copy.tape_pool, id, &record)?;
    }
    if !record.copies.is_empty() {
        draft.put(Table::Container, key::container(id), &record);
        return made_safe(draft, id);
    }
    forget(draft, id, &record)
}

/// A container that has no copies any more is gone.
pub(super) fn forget(
    draft: &mut Draft<'_>,
    id: ContainerId,
    record: &ContainerRecord,
) -> Result<(), Rejection> {
    let held: Vec<_> = record.skeleton.into_iter().chain(record.image).collect();
    pool::dereference(draft, &held)?;
    draft.remove(Table::Container, key::container(id));
    sealing::forget(draft, id)?;
    cold::forget(draft, id)
}

/// Drops a container of which no tape has, or is about to get, anything.
pub(super) fn drop_all(draft: &mut Draft<'_>, id: ContainerId) -> Result<(), Rejection> {
    let mut left = usize::MAX;
    while let Some(record) = draft.view().container(id)? {
        assert!(record.copies.len() < left, "each turn drops a copy, so that they end");
        left = record.copies.len();
        if record.copies.is_empty() {
            forget(draft, id, &record)?;
        } else {
            drop_copy(draft, id, record, 0)?;
        }
    }
    Ok(())
}

fn damaged(
    draft: &mut Draft<'_>,
    id: ContainerId,
    place: TapePlace,
    why: &str,
) -> Result<Outcome, Rejection> {
    let mut record = find(draft, id)?;
    let Some(at) = copy_at(&record, |found| found == place) else { return Ok(Outcome::Done) };
    let Some(copy) = record.copies.get(at).copied() else { return Ok(Outcome::Done) };
    if record.is_empty() && !is_planned(copy.state) {
        drop_copy(draft, id, record, at)?;
        return Ok(Outcome::Done);
    }
    take_off(draft, &record, place)?;
    if copy.source != Some(place) {
        enqueue(draft, id, &mut record, at)?;
    } else if let Some(copy) = record.copies.get_mut(at) {
        copy.source = None;
    }
    draft.put(Table::Container, key::container(id), &record);
    if record.places().next().is_none() {
        lost::container_lost(draft, id, why)?;
    }
    recall::place_failed(draft, place.vid, place.block, why)?;
    made_safe(draft, id)?;
    Ok(Outcome::Done)
}

/// The same, unless a member has nothing else: the place is the only one, or all others are on tapes that are
/// set aside, or whose key is not at hand, and there is no image to write the copy anew from.
fn give_up(
    draft: &mut Draft<'_>,
    id: ContainerId,
    place: TapePlace,
    why: &str,
) -> Result<Outcome, Rejection> {
    let record = find(draft, id)?;
    let is_it = |at: &(Vid, BlockAddress)| *at == (place.vid, place.block);
    let is_there = record.places().any(|at| is_it(&at));
    let (mut is_left, must_give) = (false, draft.view().holds(Rule::AnotherGives)?);
    for (vid, _) in record.places().filter(|at| !is_it(at)) {
        let tape: TapeRecord = draft.view().expect(Table::Tape, &key::tape(vid))?;
        is_left |= !must_give || record.image.is_some() || draft.view().can_give(&tape)?;
    }
    if is_there && !is_left && lost::depends_on_tape(draft, id)? {
        let state = "not in the pool any more with all its members, and on no other tape in use";
        let needed = "in the pool to give up its last place on tape";
        return Err(Rejection::WrongState { object: Object::Container(id), state, needed });
    }
    damaged(draft, id, place, why)
}

/// A copy that a run is about to write belongs to that run.
fn is_planned(state: CopyState) -> bool {
    matches!(state, CopyState::Planned { .. })
}

fn store_image(draft: &mut Draft<'_>, id: ContainerId, image: &PoolData) -> Result<Outcome, Rejection> {
    let mut record = find(draft, id)?;
    let refuse = |state| {
        let needed = "without an image, and with a copy that is not settled";
        Err(Rejection::WrongState { object: Object::Container(id), state, needed })
    };
    if record.image.is_some() {
        return refuse("in the pool with an image already");
    }
    if record.is_settled() || record.copies.is_empty() {
        return refuse("under an index with all its copies, or not sealed yet");
    }
    let &[piece] = image.pieces.as_slice() else {
        let what = "an image must be one piece";
        return Err(Rejection::Malformed { object: Object::Container(id), what });
    };
    if piece.length != record.length {
        let what = "the image does not have the container's length";
        return Err(Rejection::Malformed { object: Object::Container(id), what });
    }
    pool::take(draft, image)?;
    record.image = Some(piece);
    draft.put(Table::Container, key::container(id), &record);
    part::came(draft, id, &record)?;
    Ok(Outcome::Done)
}

/// Drops the image if it is the one that was looked at.
fn drop_image(
    draft: &mut Draft<'_>,
    id: ContainerId,
    is_it: impl FnOnce(BlobPiece) -> bool,
) -> Result<Outcome, Rejection> {
    let mut record = find(draft, id)?;
    if let Some(image) = record.image.filter(|image| is_it(*image)) {
        record.image = None;
        draft.put(Table::Container, key::container(id), &record);
        pool::dereference(draft, &[image])?;
        part::went(draft, id, &record)?;
    }
    Ok(Outcome::Done)
}

fn requeue(draft: &mut Draft<'_>, id: ContainerId, vid: Vid) -> Result<Requeue, Rejection> {
    let mut record = find(draft, id)?;
    let tape = tape::find(draft, vid)?;
    let refuse = |object, state, needed| Err(Rejection::WrongState { object, state, needed });
    let Some(at) = copy_at(&record, |place| place.vid == vid) else { return Ok(Requeue::NotThere) };
    let Some(copy) = record.copies.get(at).copied() else { return Ok(Requeue::NotThere) };
    if tape.run.is_some() {
        return refuse(Object::Tape(vid), "in a run", "without an open run: end it first");
    }
    if record.is_empty() && !is_planned(copy.state) {
        drop_copy(draft, id, record, at)?;
        return Ok(Requeue::Dropped);
    }
    let place = place_of(copy.state).filter(|place| place.vid == vid);
    // A source counts as safe, which a copy under no index is not: its members are in the pool still.
    if place.is_some() && matches!(copy.state, CopyState::Flushed { .. }) {
        let needed = "under an index (write one in a run), or said to be damaged and written anew";
        return refuse(Object::Container(id), "flushed to this tape and under no index", needed);
    }
    match (place, copy.source) {
        // It was taken off before, and its successor is under way.
        (None, Some(_)) => return Ok(Requeue::Queued),
        (None, None) => return Ok(Requeue::NotThere),
        (Some(_), Some(_)) => {
            let needed = "verified at its present place first: its source is not released";
            return refuse(Object::Container(id), "copied from an older place", needed);
        }
        (Some(place), None) => {
            if let Some(copy) = record.copies.get_mut(at) {
                copy.source = Some(place);
            }
        }
    }
    enqueue(draft, id, &mut record, at)?;
    draft.put(Table::Container, key::container(id), &record);
    Ok(Requeue::Queued)
}

fn keep(draft: &mut Draft<'_>, id: ContainerId, vid: Vid) -> Result<Outcome, Rejection> {
    let mut record = find(draft, id)?;
    let leaving = record.copies.iter_mut().find(|copy| copy.is_leaving(vid));
    let Some(copy) = leaving else { return Ok(Outcome::Done) };
    let tape_pool = copy.tape_pool;
    if let Some(TapePlace { vid, block }) = copy.source.take() {
        copy.state = CopyState::Indexed { vid, block };
    }
    drop_queued(draft, tape_pool, id, &record)?;
    draft.put(Table::Container, key::container(id), &record);
    made_safe(draft, id)?;
    Ok(Outcome::Done)
}

fn drop_unneeded(draft: &mut Draft<'_>, id: ContainerId) -> Result<Outcome, Rejection> {
    let mut record = find(draft, id)?;
    let refuse = |state, needed| Err(Rejection::WrongState { object: Object::Container(id), state, needed });
    if !record.is_unneeded() {
        return refuse("needed: a file of it has a name", "needed by nobody to be written no more");
    }
    let is_dropped = |copy: &ContainerCopy| copy.state == CopyState::Queued && copy.source.is_none();
    if record.copies.iter().all(is_dropped) {
        return refuse("on no tape, and about to come to none", "dissolved as a whole");
    }
    let queued: Vec<TapePoolId> = {
        let queued = record.copies.iter().filter(|copy| copy.state == CopyState::Queued);
        queued.map(|copy| copy.tape_pool).collect()
    };
    if queued.is_empty() {
        return Ok(Outcome::Done);
    }
    record.copies.retain(|copy| !is_dropped(copy));
    for copy in record.copies.iter_mut().filter(|copy| copy.state == CopyState::Queued) {
        if let Some(TapePlace { vid, block }) = copy.source.take() {
            copy.state = CopyState::Indexed { vid, block };
        }
    }
    for tape_pool in queued {
        drop_queued(draft, tape_pool, id, &record)?;
    }
    assert!(!record.copies.is_empty(), "what stands on a tape stays known");
    draft.put(Table::Container, key::container(id), &record);
    made_safe(draft, id)?;
    Ok(Outcome::Done)
}

fn verified(draft: &mut Draft<'_>, id: ContainerId, place: TapePlace) -> Result<Outcome, Rejection> {
    let mut record = find(draft, id)?;
    let present = CopyState::Indexed { vid: place.vid, block: place.block };
    let copy = record.copies.iter_mut().find(|copy| copy.state == present);
    let Some(source) = copy.and_then(|copy| copy.source.take()) else { return Ok(Outcome::Done) };
    draft.put(Table::Container, key::container(id), &record);
    take_off(draft, &record, source)?;
    // Who waits for the old place waits for the new one.
    for (key, item) in request::recalls_at(draft, source.vid, source.block)? {
        request::drop_recall(draft, &key, &item)?;
        request::put_recall(draft, &RecallKey { vid: place.vid, block: place.block, ..key }, &item)?;
    }
    made_safe(draft, id)?;
    Ok(Outcome::Done)
}

/// A container that has all its copies needs its condemned members no longer; one that is settled, neither
/// its skeleton nor its image, unless that is the part of a file that somebody waits for.
pub(super) fn made_safe(draft: &mut Draft<'_>, id: ContainerId) -> Result<(), Rejection> {
    let Some(mut record) = draft.view().container(id)? else { return Ok(()) };
    if record.is_settled() {
        let is_waited_for = part::is_waited_for(draft, &record)?;
        let image = if is_waited_for { None } else { record.image.take() };
        let held: Vec<_> = record.skeleton.take().into_iter().chain(image).collect();
        if !held.is_empty() {
            draft.put(Table::Container, key::container(id), &record);
            pool::dereference(draft, &held)?;
        }
    }
    if !record.is_safe() {
        return Ok(());
    }
    cold::made_safe(draft, id)?;
    if record.condemned_members == 0 {
        return Ok(());
    }
    lost::for_members(draft, id, |draft, id, file| match file.state {
        FileState::Condemned(_) => lifecycle::finalise(draft, id, &file),
        FileState::Live | FileState::Lost(_) => Ok(()),
    })
}
