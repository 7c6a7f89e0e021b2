//! Which change-log segments make up the history of the instance.
//!
//! Numbers are consecutive but for restores: the first change of a restored catalogue has a multiple of
//! [`RESTORE_JUMP`] for its number and says behind which change it follows. What came behind that change in
//! the history before was given up, and no number of it is given again. So the history is found from its end:
//! the highest multiple begins the last range, what it follows ends the range before, and so on down to a
//! base, or to change 1. Below a multiple of [`RESTORE_JUMP`] all changes are of one history, up to the one
//! that the next range follows: so a base belongs to it if its change is not behind that one.

use base::Uuid;
use catalogue::{Command, Envelope, RESTORE_JUMP};

use crate::files::read_segment;
use crate::{BackupError, SegmentFile};

/// A range of changes that belong together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Range {
    pub(crate) first: u64,
    /// `None`: as far as there are segments.
    pub(crate) last: Option<u64>,
}

/// The history: what it begins with, and the ranges of changes to be replayed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct History {
    /// The newest change of the base that it begins with; `None`: it begins with change 1.
    pub(crate) base: Option<u64>,
    /// In order.
    pub(crate) ranges: Vec<Range>,
}

/// The history, beginning with the newest base that is part of it. `bases` are the newest changes of those
/// that are whole.
pub(crate) fn history(
    segments: &[SegmentFile],
    bases: &[u64],
    instance: Uuid,
) -> Result<History, BackupError> {
    let mut ranges = Vec::new();
    let mut last = None;
    let base = loop {
        // Below what follows; the number 0 is never given.
        let below = last.map_or(u64::MAX, |last: u64| last);
        let begin = segments.iter().filter(|segment| segment.first <= below && begins_range(segment.first));
        let begin = begin.max_by_key(|segment| segment.first);
        let base = bases.iter().copied().filter(|base| *base <= below).max();
        if let Some(base) = base.filter(|base| begin.is_none_or(|begin| begin.first <= *base)) {
            ranges.push(Range { first: base.saturating_add(1), last });
            break Some(base);
        }
        let Some(begin) = begin else {
            ranges.push(Range { first: 1, last });
            break None;
        };
        ranges.push(Range { first: begin.first, last });
        let after = read_segment(begin, instance, |read| {
            let first = read.changes.first().and_then(|bytes| Envelope::decode(bytes).ok());
            match first.map(|envelope| envelope.command) {
                Some(Command::AcceptRestore { after, .. }) => Some(after),
                _ => None,
            }
        })?;
        let Some(after) = after.filter(|after| *after < begin.first) else {
            return Err(BackupError::WrongSegment { path: begin.path.clone() });
        };
        last = Some(after);
    };
    ranges.reverse();
    Ok(History { base, ranges })
}

fn begins_range(first: u64) -> bool {
    first > 0 && first.is_multiple_of(RESTORE_JUMP)
}

/// The segment that holds change `number` and goes furthest from there.
pub(crate) fn covering(segments: &[SegmentFile], number: u64) -> Option<&SegmentFile> {
    let covers = segments.iter().filter(|segment| segment.first <= number && number <= segment.last);
    covers.max_by_key(|segment| segment.last)
}

/// The first change behind `number` within the same range that a segment holds.
pub(crate) fn next_known(segments: &[SegmentFile], number: u64) -> Option<u64> {
    segments.iter().map(|segment| segment.first).filter(|first| *first > number).min()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use base::{Epoch, Timestamp};
    use ltfs::changes::{ChangeNumber, ChangeSegment};

    use super::*;

    const INSTANCE: Uuid = Uuid([3; 16]);

    fn segment(directory: &Path, first: u64, count: u64, command: &Command) -> SegmentFile {
        let change = Envelope { at: Timestamp(1), command: command.clone() }.encode();
        let changes = vec![change; count as usize];
        let bytes = ChangeSegment::encode(INSTANCE, ChangeNumber(first), &changes).unwrap();
        let path = directory.join(first.to_string());
        std::fs::write(&path, bytes).unwrap();
        SegmentFile { first, last: first + count - 1, path }
    }

    /// A base that a restore has given up is not one of the history, however new it is.
    #[test]
    fn a_history_begins_with_its_newest_base() {
        let directory = tempfile::tempdir().unwrap();
        let begin = segment(directory.path(), 1, 100, &Command::OpenEpoch);
        let restored = Command::AcceptRestore { epoch: Epoch(1), after: 50, seen: 100 };
        let behind = segment(directory.path(), RESTORE_JUMP, 1, &restored);
        let rest = segment(directory.path(), RESTORE_JUMP + 1, 10, &Command::OpenEpoch);
        let all = [begin, behind.clone(), rest.clone()];
        let of = |segments: &[SegmentFile], bases: &[u64]| {
            let history = history(segments, bases, INSTANCE).unwrap();
            let ranges: Vec<_> = history.ranges.iter().map(|range| (range.first, range.last)).collect();
            (history.base, ranges)
        };
        assert_eq!(of(&all, &[]), (None, vec![(1, Some(50)), (RESTORE_JUMP, None)]));
        assert_eq!(of(&all, &[40, 80]), (Some(40), vec![(41, Some(50)), (RESTORE_JUMP, None)]));
        assert_eq!(of(&all, &[50]), (Some(50), vec![(51, Some(50)), (RESTORE_JUMP, None)]));
        assert_eq!(of(&all, &[51, 100]), (None, vec![(1, Some(50)), (RESTORE_JUMP, None)]));
        assert_eq!(
            of(&all, &[40, RESTORE_JUMP, RESTORE_JUMP + 4]),
            (Some(RESTORE_JUMP + 4), vec![(RESTORE_JUMP + 5, None)])
        );
        // What came before is on no tape any more.
        assert_eq!(
            of(&[rest], &[RESTORE_JUMP + 4]),
            (Some(RESTORE_JUMP + 4), vec![(RESTORE_JUMP + 5, None)])
        );
        assert_eq!(of(&[behind], &[45]), (Some(45), vec![(46, Some(50)), (RESTORE_JUMP, None)]));
        assert_eq!(of(&[], &[7]), (Some(7), vec![(8, None)]));
    }
}
