//! Which change-log segments make up the history of the instance.
//!
//! Numbers are consecutive but for restores: the first change of a restored catalogue has a multiple of
//! [`JUMP`] for its number and says behind which change it follows. What came behind that change in the
//! history before was given up, and no number of it is given again. So the history is found from its end: the
//! highest multiple begins the last range, what it follows ends the range before, and so on down to change 1.

use base::Uuid;
use catalogue::{Command, Envelope};

use crate::backup::{BackupError, SegmentFile, read_segment};

/// What the numbers of changes jump to a multiple of when a catalogue is restored.
pub const JUMP: u64 = 1 << 32;

/// A range of changes that belong together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Range {
    pub(crate) first: u64,
    /// `None`: as far as there are segments.
    pub(crate) last: Option<u64>,
}

/// The ranges of the history in order.
pub(crate) fn ranges(segments: &[SegmentFile], instance: Uuid) -> Result<Vec<Range>, BackupError> {
    let mut ranges = Vec::new();
    let mut last = None;
    loop {
        // Below what follows; the number 0 is never given.
        let below = last.map_or(u64::MAX, |last: u64| last);
        let begin = segments.iter().filter(|segment| segment.first <= below && begins_range(segment.first));
        let Some(begin) = begin.max_by_key(|segment| segment.first) else {
            ranges.push(Range { first: 1, last });
            break;
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
    }
    ranges.reverse();
    Ok(ranges)
}

fn begins_range(first: u64) -> bool {
    first > 0 && first.is_multiple_of(JUMP)
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
