//! Which line of a backup was in force at some time, and what else was made in its history.
//!
//! The times of changes are of the trusted time, which may be far from the system's clock after a restore. So
//! a line counts as begun at a time only if both clocks say so; if they disagree nothing is guessed.

use base::Timestamp;
use store::time_of_change;

use crate::error::{BackupError, Candidate, RestoreError};
use crate::files::read_segment;
use crate::layout::{BackupDirectory, Line};
use crate::restore::{Reached, RestoreTo};

/// Whether a line had begun at some time.
enum Begun {
    Yes,
    No,
    /// The clocks disagree, or an earlier Kist did not note when it began.
    Unclear,
}

/// The lines to take a snapshot for `to` from, in the order in which they are tried.
pub(crate) fn lines_for(from: &BackupDirectory, to: RestoreTo) -> Result<Vec<Line>, RestoreError> {
    let mut lines = from.lines()?;
    lines.reverse();
    match to {
        RestoreTo::Time(time) => Ok(line_at(from, lines, time)?.into_iter().collect()),
        RestoreTo::Newest | RestoreTo::Change(_) => Ok(lines),
    }
}

/// Of `lines`, the newest first, the one that was in force at `time`; `None` if none had begun.
fn line_at(from: &BackupDirectory, lines: Vec<Line>, time: Timestamp) -> Result<Option<Line>, RestoreError> {
    let oldest = lines.last().map(|line| line.number);
    let mut unclear = Vec::new();
    for line in lines {
        match has_begun(&line, time, oldest == Some(line.number))? {
            Begun::Yes if unclear.is_empty() => return Ok(Some(line)),
            Begun::Yes => {
                unclear.push(line);
                break;
            }
            Begun::Unclear => unclear.push(line),
            Begun::No => {}
        }
    }
    if unclear.is_empty() {
        return Ok(None);
    }
    let candidates = unclear.iter().map(|line| candidate(from, line, time)).collect();
    Err(RestoreError::WhichLine { time, candidates })
}

fn has_begun(line: &Line, time: Timestamp, is_oldest: bool) -> Result<Begun, BackupError> {
    // There was no other history before the first one.
    if line.number == 1 {
        return Ok(Begun::Yes);
    }
    if let Some(start) = line.start() {
        return Ok(if start.trusted.max(start.system) <= time {
            Begun::Yes
        } else if start.trusted.min(start.system) > time {
            Begun::No
        } else {
            Begun::Unclear
        });
    }
    if is_oldest {
        return Ok(Begun::Yes);
    }
    let snapshots = line.snapshots()?;
    match snapshots.iter().find_map(|(_, path)| line.snapshot(path).ok()) {
        Some(oldest) if oldest.changed_at > time => Ok(Begun::No),
        // One of which nothing is there is as good as removed.
        None if snapshots.is_empty() && line.segment_files()?.is_empty() => Ok(Begun::No),
        _ => Ok(Begun::Unclear),
    }
}

/// What a line has for `time`, as far as it can be read.
fn candidate(from: &BackupDirectory, line: &Line, time: Timestamp) -> Candidate {
    let state = state_at(from, line, time).ok().flatten();
    Candidate { line: line.number, start: line.start(), state }
}

/// The newest change of a line before the first that was made later than `time`, and when it was made.
fn state_at(
    from: &BackupDirectory,
    line: &Line,
    time: Timestamp,
) -> Result<Option<(u64, Timestamp)>, RestoreError> {
    let snapshots = line.snapshots()?;
    let mut infos = snapshots.iter().rev().filter_map(|(_, path)| line.snapshot(path).ok());
    let Some(begin) = infos.find(|info| info.changed_at <= time) else { return Ok(None) };
    let mut state = (begin.change, begin.changed_at);
    for segment in line.segment_files()?.iter().filter(|segment| segment.last > begin.change) {
        if segment.first > state.0.saturating_add(1) {
            return Ok(None);
        }
        let is_over = read_segment(segment, from.instance(), |read| {
            for (number, bytes) in (segment.first..).zip(&read.changes) {
                if number <= state.0 {
                    continue;
                }
                let made = time_of_change(number, bytes)?;
                if made > time {
                    return Ok(true);
                }
                state = (number, made);
            }
            Ok::<bool, RestoreError>(false)
        })??;
        if is_over {
            break;
        }
    }
    Ok(Some(state))
}

/// What was made behind the end of `line`, which a restore to `to` reached at change `end`.
pub(crate) fn behind_end(
    from: &BackupDirectory,
    line: &Line,
    to: RestoreTo,
    end: u64,
) -> Result<Reached, BackupError> {
    let lines = from.lines()?;
    // One that is missing between them may have been in force at the time.
    let next = lines.iter().find(|next| Some(next.number) == line.number.checked_add(1));
    let next = next.filter(|_| matches!(to, RestoreTo::Time(_))).and_then(Line::start);
    Ok(match next {
        Some(start) => {
            Reached::End { known: start.newest_before(newest_of(line)?.max(end)), is_closed: true }
        }
        None => Reached::End { known: newest_change(from)?, is_closed: false },
    })
}

/// The newest change of all lines. Looks at names only, so that damage in one line stops no restore from
/// another.
pub(crate) fn newest_change(from: &BackupDirectory) -> Result<u64, BackupError> {
    from.lines()?.iter().try_fold(0, |newest: u64, line| Ok(newest.max(newest_of(line)?)))
}

/// The newest change that the names in a line tell of; 0 if none does.
fn newest_of(line: &Line) -> Result<u64, BackupError> {
    let snapshot = line.snapshots()?.last().map_or(0, |(change, _)| *change);
    Ok(line.segment_files()?.iter().fold(snapshot, |newest, segment| newest.max(segment.last)))
}
