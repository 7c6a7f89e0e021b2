//! What is known of the time: notes, doubt, leaps.

use base::{Duration, FileId, Timestamp};

use crate::command::{Command, Outcome};
use crate::draft::Draft;
use crate::error::{Object, Rejection};
use crate::key;
use crate::record::{ClockRecord, LeapsBelieved, TimeMove};
use crate::table::Table;

/// Most leaps that are kept apart; beyond it the two oldest become one, which covers both.
const MOVES_MAX: usize = 64;

pub(super) fn perform(draft: &mut Draft<'_>, command: &Command) -> Result<Outcome, Rejection> {
    let mut record = draft.view().clock()?;
    match command {
        Command::NoteTime { doubted } => {
            record.doubted = doubted.then(|| record.doubted.unwrap_or(draft.at));
        }
        Command::MoveTimeForward { to } => {
            let from = draft.at;
            if *to <= from {
                return malformed("the time leaps forward to a later one: name one");
            }
            let since = record.doubted.unwrap_or(from);
            leap(draft, &mut record, TimeMove { since, before: from, after: *to, below: FileId(0) })?;
        }
        Command::PlanTimeBack { to } => {
            if to.is_some_and(|to| to >= draft.at) {
                return malformed("the time goes back to an earlier one: name one");
            }
            record.planned_back = *to;
            draft.put(Table::Clock, key::CLOCK.to_vec(), &record);
            return Ok(Outcome::Done);
        }
        Command::TimeMovedBack { from } => {
            if record.planned_back.is_none() || *from <= draft.at {
                return malformed("the time went back without a plan: give PlanTimeBack first");
            }
            let since = Timestamp(draft.at.0.saturating_add(1));
            leap(draft, &mut record, TimeMove { since, before: *from, after: draft.at, below: FileId(0) })?;
        }
        _ => unreachable!("apply sends commands about the time only"),
    }
    record.noted = draft.at;
    draft.put(Table::Clock, key::CLOCK.to_vec(), &record);
    Ok(Outcome::Done)
}

/// Counts a leap that nobody vouches for.
pub(super) fn note_leap(draft: &mut Draft<'_>, by: Duration) -> Result<Outcome, Rejection> {
    let leaps = draft.view().leaps()?;
    let sum = leaps.spent(draft.at).saturating_add(by);
    let leaps = LeapsBelieved { sum, at: draft.at.plus(by) };
    draft.put(Table::Leaps, key::CLOCK.to_vec(), &leaps);
    Ok(Outcome::Done)
}

fn malformed(what: &'static str) -> Result<Outcome, Rejection> {
    Err(Rejection::Malformed { object: Object::Clock, what })
}

/// Records a leap: the doubt is over, and so is what was planned.
fn leap(draft: &mut Draft<'_>, record: &mut ClockRecord, leap: TimeMove) -> Result<(), Rejection> {
    let below = FileId(draft.meta()?.next_file);
    record.moves.push(TimeMove { below, ..leap });
    if record.moves.len() > MOVES_MAX {
        let oldest = record.moves.remove(0);
        if let Some(next) = record.moves.first_mut() {
            next.since = next.since.min(oldest.since);
            next.before = next.before.max(oldest.before);
            next.after = next.after.max(oldest.after);
        }
    }
    assert!(record.moves.len() <= MOVES_MAX, "the leaps that are kept do not grow for ever");
    let is_last = record.moves.last().is_some_and(|last| last.below == below);
    assert!(is_last, "what is put from now on did not see this leap");
    record.doubted = None;
    record.planned_back = None;
    Ok(())
}
