//! How much could leave the pool now: from counters and the heads of queues, never by a scan of files.

use std::collections::BTreeSet;

use base::{BlockAddress, ByteCount, ContainerId, FileId, TapePoolId};
use catalogue::{Counter, FileRecord, ReadError, Tally, View};

use crate::engine::Engine;

/// Containers without all their copies that are looked up one by one; of further ones only the bytes count.
const CONTAINERS_MAX: usize = 2_000;
/// Pinned files that are looked up one by one; further ones count as if nobody held them.
const PINNED_MAX: usize = 2_000;

/// Files and bytes that an evict could take from the pool at most. Empty files and links among the files are
/// not told apart, and neither is what pins or queues hold beyond the first thousands.
pub(crate) fn evictable(engine: &Engine, view: &View<'_>) -> Result<Tally, ReadError> {
    if view.is_restored()? {
        return Ok(Tally::default());
    }
    let mut sum = Tally::default();
    for class in engine.classes.all().iter().filter(|class| !class.copies.is_empty()) {
        let (online, todo) = (view.tally(Counter::Online(class.id))?, view.tally(Counter::Todo(class.id))?);
        sum.files += online.files.saturating_sub(todo.files);
        sum.bytes.0 += online.bytes.0.saturating_sub(todo.bytes.0);
    }
    let (waiting, uncounted) = waiting_containers(engine, view)?;
    sum.bytes.0 = sum.bytes.0.saturating_sub(uncounted.0);
    for id in waiting {
        let Some(container) = view.container(id)?.filter(|container| !container.is_safe()) else { continue };
        sum.files = sum.files.saturating_sub(container.live_members.into());
        sum.bytes.0 = sum.bytes.0.saturating_sub(container.live_bytes.0);
    }
    for file in view.pinned_files(PINNED_MAX)? {
        if let Some(record) = held_by_pins_alone(engine, view, file)? {
            sum.files = sum.files.saturating_sub(1);
            sum.bytes.0 = sum.bytes.0.saturating_sub(record.size.0);
        }
    }
    Ok(if sum.bytes.0 == 0 { Tally::default() } else { sum })
}

/// Containers that may lack a copy under an index, and the bytes of those that were not looked for.
fn waiting_containers(
    engine: &Engine,
    view: &View<'_>,
) -> Result<(BTreeSet<ContainerId>, ByteCount), ReadError> {
    let mut found = BTreeSet::new();
    let mut uncounted = 0;
    for pool in engine.classes.tape_pools().keys() {
        let rows = view.queue(*pool, None, CONTAINERS_MAX)?;
        if rows.len() == CONTAINERS_MAX {
            let seen = rows.iter().fold(0u64, |sum, (_, queued)| sum.saturating_add(queued.length.0));
            uncounted = uncounted.max(queued_bytes(view, *pool)?.saturating_sub(seen));
        }
        found.extend(rows.into_iter().map(|(id, _)| id));
    }
    for (vid, tape) in view.tapes()? {
        if tape.uuid.is_some() {
            let from = BlockAddress(tape.index_block.0 + 1);
            found.extend(view.content(vid, from, CONTAINERS_MAX)?.into_iter().map(|(_, id)| id));
        }
        let Some(run) = tape.run else { continue };
        let from = view.run(run)?.map_or(0, |record| record.committed);
        found.extend(view.run_items(run, from, CONTAINERS_MAX)?.into_iter().map(|item| item.container));
    }
    Ok((found, ByteCount(uncounted)))
}

fn queued_bytes(view: &View<'_>, pool: TapePoolId) -> Result<u64, ReadError> {
    Ok(view.tally(Counter::Queued(pool))?.bytes.0)
}

/// The file, if tapes have all of it and it is in the pool.
fn held_by_pins_alone(
    engine: &Engine,
    view: &View<'_>,
    file: FileId,
) -> Result<Option<FileRecord>, ReadError> {
    let Some(record) = view.file(file)?.filter(|file| file.is_online() && file.has_data()) else {
        return Ok(None);
    };
    if engine.classes.get(record.class).is_none_or(|class| class.copies.is_empty()) {
        return Ok(None);
    }
    let parts = view.parts(file)?;
    for (container, _) in &parts {
        if !view.container(*container)?.is_some_and(|container| container.is_safe()) {
            return Ok(None);
        }
    }
    Ok((!parts.is_empty()).then_some(record))
}
