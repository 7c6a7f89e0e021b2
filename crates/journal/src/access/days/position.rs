//! Up to where the lines of the log are read.

use std::io;
use std::ops::Range;

use usage::{Access, DayNumber};

use super::super::place::Place;
use crate::files::LogFile;
use crate::lines::{LogLine, LogLines};

/// The files of the log, and the reading of their lines.
pub(super) struct Position {
    files: Vec<LogFile>,
    /// The first of `files` whose lines are read.
    first: usize,
    lines: LogLines<Access>,
}

impl Position {
    /// At the beginning of these files.
    pub(super) fn begin(files: Vec<LogFile>) -> io::Result<Self> {
        Ok(Position { lines: LogLines::new(&files, 0)?, files, first: 0 })
    }

    /// Goes to the beginning.
    pub(super) fn rewind(&mut self) -> io::Result<()> {
        (self.first, self.lines) = (0, LogLines::new(&self.files, 0)?);
        Ok(())
    }

    /// Goes where the log was left; `false`: its files are others than those that were read.
    pub(super) fn find(&mut self, place: &Place) -> io::Result<bool> {
        let Some((first, offset)) = place.find(&self.files)? else { return Ok(false) };
        (self.first, self.lines) = (first, LogLines::new(&self.files[first..], offset)?);
        Ok(true)
    }

    pub(super) fn next_line(&mut self) -> io::Result<Option<LogLine<Access>>> {
        self.lines.next_line()
    }

    /// Where the next line begins.
    pub(super) fn place(&self) -> io::Result<Place> {
        let read = self.lines.ends.len();
        let begun: Range<usize> = 0..(self.first + read).min(self.files.len());
        let end = self.lines.ends.last().copied().unwrap_or(0);
        Place::of(&self.files[begun], end)
    }

    /// Bytes of lines that were read, and that there are.
    pub(super) fn progress(&self) -> (u64, u64) {
        self.lines.progress()
    }

    /// The day of the log's first line.
    pub(super) fn oldest_day(&self) -> io::Result<Option<DayNumber>> {
        for file in &self.files {
            if let Some(at) = file.first_time::<Access>()? {
                return Ok(Some(DayNumber::of(at)));
            }
        }
        Ok(None)
    }
}
