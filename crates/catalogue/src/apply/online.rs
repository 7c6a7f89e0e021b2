//! Files in the pool: they are counted by class, and stand in the order in which they were used last.

use std::ops::ControlFlow;

use base::{ClassId, FileId};

use super::limit;
use crate::command::{BATCH_FILES_MAX, Outcome};
use crate::draft::Draft;
use crate::encoding::Nothing;
use crate::error::Rejection;
use crate::key;
use crate::record::{Counter, FileRecord, Rule, UseHour};
use crate::table::Table;

/// A file came into the pool, or was made there.
pub(super) fn came(draft: &mut Draft<'_>, id: FileId, file: &FileRecord) -> Result<(), Rejection> {
    draft.count(Counter::Online(file.class), 1, file.size.0)?;
    if file.has_data() && draft.view().holds(Rule::OrderedByUse)? {
        let hour = UseHour::of(draft.at);
        stand(draft, id, file, hour)?;
    }
    Ok(())
}

/// A file left the pool, or is given up.
pub(super) fn went(draft: &mut Draft<'_>, id: FileId, file: &FileRecord) -> Result<(), Rejection> {
    draft.discount(Counter::Online(file.class), 1, file.size.0)?;
    stand_no_more(draft, id, file)?;
    Ok(())
}

/// A file in the pool gets another class; its record does not say so yet.
pub(super) fn changes_class(
    draft: &mut Draft<'_>,
    id: FileId,
    file: &FileRecord,
    to: ClassId,
) -> Result<(), Rejection> {
    assert_ne!(file.class, to, "another class");
    draft.discount(Counter::Online(file.class), 1, file.size.0)?;
    draft.count(Counter::Online(to), 1, file.size.0)?;
    if let Some(hour) = stand_no_more(draft, id, file)? {
        stand(draft, id, &FileRecord { class: to, ..file.clone() }, hour)?;
    }
    Ok(())
}

pub(super) fn note_use(draft: &mut Draft<'_>, files: &[FileId]) -> Result<Outcome, Rejection> {
    limit("files in one command", files.len(), BATCH_FILES_MAX)?;
    if !draft.view().holds(Rule::OrderedByUse)? {
        return Ok(Outcome::Done);
    }
    let now = UseHour::of(draft.at);
    for &id in files {
        let Some(file) = draft.view().file(id)?.filter(stands) else { continue };
        let stood = draft.view().stands_by_use(id, &file)?;
        if stood.is_some_and(|hour| hour >= now) {
            continue;
        }
        if let Some(hour) = stood {
            take_out(draft, id, &file, hour);
        }
        stand(draft, id, &file, now)?;
    }
    Ok(Outcome::Done)
}

/// Goes on through the files that are older than their order, `most` at a time.
pub(super) fn order_by_use(draft: &mut Draft<'_>, most: usize) -> Result<Outcome, Rejection> {
    let Some(after) = draft.view().by_use_behind()? else { return Ok(Outcome::More(false)) };
    let mut files = Vec::new();
    draft.view().each(Table::File, &key::behind(key::file(after)), None, |key, _| {
        files.push(FileId(key::KeyReader::new(Table::File, key).u64()?));
        Ok(if files.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    })?;
    for &id in &files {
        let Some(file) = draft.view().file(id)?.filter(stands) else { continue };
        if draft.view().stands_by_use(id, &file)?.is_none() {
            stand(draft, id, &file, UseHour::of(file.created))?;
        }
    }
    assert!(files.len() <= most, "no more files are looked at than were allowed");
    let more = files.len() == most;
    match files.last().filter(|_| more) {
        Some(last) => draft.put(Table::ByUseBehind, key::CLOCK.to_vec(), last),
        None => draft.remove(Table::ByUseBehind, key::CLOCK.to_vec()),
    }
    Ok(Outcome::More(more))
}

/// There is an order from now on: files that are in the pool already come to stand in it bit by bit.
pub(super) fn begin_order(draft: &mut Draft<'_>) {
    draft.put(Table::ByUseBehind, key::CLOCK.to_vec(), &FileId(0));
}

/// Whether a file is to stand in the order: it has bytes, and they are in the pool.
fn stands(file: &FileRecord) -> bool {
    file.is_named() && file.has_data() && file.is_online()
}

fn stand(draft: &mut Draft<'_>, id: FileId, file: &FileRecord, hour: UseHour) -> Result<(), Rejection> {
    assert!(file.is_named() && file.has_data(), "only what a name stands for, and has bytes, is used");
    draft.put(Table::ByUse, key::by_use(file.class, hour, id), &Nothing);
    // The hour of its making stands in its record.
    if hour != UseHour::of(file.created) {
        draft.put(Table::LastUse, key::file(id), &hour);
    }
    Ok(())
}

/// Takes a file out of the order; gives where it stood, if it did.
fn stand_no_more(draft: &mut Draft<'_>, id: FileId, file: &FileRecord) -> Result<Option<UseHour>, Rejection> {
    let stood = draft.view().stands_by_use(id, file)?;
    if let Some(hour) = stood {
        take_out(draft, id, file, hour);
    }
    Ok(stood)
}

/// Takes a file out of the order that stands at this hour.
fn take_out(draft: &mut Draft<'_>, id: FileId, file: &FileRecord, hour: UseHour) {
    draft.remove(Table::ByUse, key::by_use(file.class, hour, id));
    if hour != UseHour::of(file.created) {
        draft.remove(Table::LastUse, key::file(id));
    }
}
