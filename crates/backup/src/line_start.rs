//! When a line of a backup began, by both clocks: what decides which line was in force at some time.

use std::fmt::{self, Write};
use std::fs;
use std::path::Path;

use base::{Clock, Crc32c, Timestamp};
use catalogue::{Command, Envelope, RESTORE_JUMP};
use store::CatalogueStore;

use crate::error::{BackupError, ShipError};
use crate::files::write_durable;
use crate::layout::Line;

/// The file's name in the directory of a line.
const LINE: &str = "LINE";
const MAGIC: &str = "kist-line 1";
/// A start opens its epoch within so many changes behind a restore: two are usual.
const START_CHANGES_MAX: usize = 16;

/// How a line began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LineStart {
    /// The line.
    pub line: u32,
    /// When, by the trusted time, which the times of changes are of: that of the first start of a catalogue
    /// that was restored, which may be long before the backup could be written; 1970 if that is not known.
    pub trusted: Timestamp,
    /// When, by the system's clock, which an operator looks at.
    pub system: Timestamp,
    /// The newest change of the catalogue at that moment.
    pub change: u64,
    /// The newest change that the lines before it had at that moment; 0 without any.
    pub older_end: u64,
}

impl fmt::Display for LineStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "begun {} by Kist's time and {} by the system's clock", self.trusted, self.system)
    }
}

impl LineStart {
    /// The start of line `line`, if it begins now and those before it end with change `older_end`.
    pub(crate) fn now(
        catalogue: &CatalogueStore,
        clock: &dyn Clock,
        line: u32,
        older_end: u64,
    ) -> Result<Self, ShipError> {
        let change = catalogue.read(|view| view.last_change())?;
        let (now, system) = match clock.trusted().map(|clock| clock.standing()) {
            Some(standing) => (standing.trusted, standing.system),
            None => (clock.now(), clock.now()),
        };
        let restored = change / RESTORE_JUMP * RESTORE_JUMP;
        let trusted = if restored > older_end { first_start(catalogue, restored)? } else { now };
        Ok(LineStart { line, trusted, system, change, older_end })
    }

    /// The newest change that was made in the history of the line before, which ends in the backup with
    /// change `end`. A restore gives that history up; else it goes on in this line.
    pub(crate) fn newest_before(&self, end: u64) -> u64 {
        let goes_on = self.change / RESTORE_JUMP == end / RESTORE_JUMP;
        self.older_end.max(end).max(if goes_on { self.change } else { 0 })
    }

    pub(crate) fn encode(&self) -> String {
        let mut text = format!("{MAGIC}\n");
        // Writing into a String cannot fail.
        let _ = writeln!(text, "line {}", self.line);
        let _ = writeln!(text, "trusted {}", self.trusted.0);
        let _ = writeln!(text, "system {}", self.system.0);
        let _ = writeln!(text, "change {}", self.change);
        let _ = writeln!(text, "older_end {}", self.older_end);
        let sum = Crc32c::of(text.as_bytes());
        let _ = writeln!(text, "end {sum}");
        text
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.strip_prefix(MAGIC)?.strip_prefix('\n')?.lines();
        let mut value = |key: &str| lines.next()?.strip_prefix(key)?.strip_prefix(' ');
        let start = LineStart {
            line: value("line")?.parse().ok()?,
            trusted: Timestamp(value("trusted")?.parse().ok()?),
            system: Timestamp(value("system")?.parse().ok()?),
            change: value("change")?.parse().ok()?,
            older_end: value("older_end")?.parse().ok()?,
        };
        (start.encode() == text).then_some(start)
    }

    /// Writes it into the directory of its line.
    pub(crate) fn write(&self, directory: &Path) -> Result<(), BackupError> {
        write_durable(directory, LINE, self.encode().as_bytes())
    }
}

/// When the catalogue was first opened behind change `restored`, with which a restore ended: the trusted time
/// of that start is settled by then.
fn first_start(catalogue: &CatalogueStore, restored: u64) -> Result<Timestamp, ShipError> {
    let changes = catalogue.read(|view| view.changes(restored, START_CHANGES_MAX, usize::MAX))?;
    // The first ones may be on tape and not in the catalogue any more.
    let is_whole = changes.first().is_some_and(|(number, _)| *number == restored);
    let mut opened =
        changes.iter().filter(|_| is_whole).filter_map(|(_, bytes)| Envelope::decode(bytes).ok());
    let opened = opened.find(|envelope| matches!(envelope.command, Command::OpenEpoch));
    Ok(opened.map_or(Timestamp(0), |envelope| envelope.at))
}

impl Line {
    /// How it began; `None` if an earlier Kist began it, which did not say, or what says so cannot be read.
    #[must_use]
    pub fn start(&self) -> Option<LineStart> {
        let text = fs::read_to_string(self.path.join(LINE)).ok()?;
        LineStart::parse(&text).filter(|start| start.line == self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: LineStart = LineStart {
        line: 2,
        trusted: Timestamp(1_795_000_000_000_000_000),
        system: Timestamp(1_795_860_000_000_000_000),
        change: RESTORE_JUMP,
        older_end: 57,
    };

    #[test]
    fn the_golden_file_is_written_and_read() {
        let golden = include_str!("golden/LINE-1");
        assert_eq!(START.encode(), golden, "the format of LINE changed");
        assert_eq!(LineStart::parse(golden), Some(START));
    }

    #[test]
    fn a_flipped_bit_is_found() {
        let text = START.encode();
        for bit in 0..text.len() * 8 {
            let mut bytes = text.clone().into_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(String::from_utf8(bytes).ok().and_then(|t| LineStart::parse(&t)), None, "bit {bit}");
        }
    }

    #[test]
    fn a_history_goes_on_in_the_next_line_unless_a_restore_began_it() {
        assert_eq!(START.newest_before(50), 57, "the segments behind change 50 are gone since");
        assert_eq!(START.newest_before(57), 57);
        let going_on = LineStart { change: 60, ..START };
        assert_eq!(going_on.newest_before(57), 60, "changes 58 to 60 were never shipped");
    }
}
