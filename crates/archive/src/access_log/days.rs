//! Summaries of days, beside the log: what a report over a year reads in place of the log's lines.
//!
//! Each line is read once. The tracker stands in a file with the place in the log up to which it was read;
//! a day whose lines are all read becomes a file of its own. What the log's files say of themselves is
//! compared with what was seen of them; if they are others, all days that the log has are made anew from it.

use std::io::{self, Read as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::{fs, mem};

use base::{Crc32c, Timestamp};
use usage::{Day, DayNumber, Total, Tracker, Usage, Window};

use super::file::{AccessLogRead, LogFile, LogLine, LogLines, ORDER_SLACK, missing_is_fine};
use super::place::{DaysKept, Place};
use crate::backup::write_durable;

/// The directory of the summaries, in that of the log.
const DIRECTORY: &str = "days";
/// The file with the tracker.
const TRACKER: &str = "reading.usage";
/// Days of which summaries are kept: ten years.
pub const DAYS_KEPT_MAX: usize = 3_660;
/// So many complete days are written together, with one copy of the tracker.
const DAYS_TOGETHER: usize = 16;
/// Summaries that are read in one step.
const DAYS_A_STEP: usize = 64;

/// Brings the summaries up to date with the log, and adds them up.
pub struct DayReading {
    directory: PathBuf,
    files: Vec<LogFile>,
    /// The first of `files` whose lines are read.
    first: usize,
    lines: LogLines,
    tracker: Tracker,
    kept: DaysKept,
    /// The day with the log's first line, of which the log may have lost lines, as it was summarised before.
    oldest: Option<(DayNumber, Day)>,
    /// A summary was opened again since the tracker was written: lines came for a day that was closed.
    is_reopened: bool,
    /// A summary that the log's lines could replace is missing or damaged.
    is_damaged: bool,
    /// All was made anew from the log.
    is_rebuilt: bool,
    /// Bytes of summaries and of the tracker that were read.
    bytes: u64,
}

/// Days that are being added up.
pub struct DayTotal {
    window: Window,
    total: Total,
    left: Vec<DayNumber>,
    days_lost: u64,
}

impl DayReading {
    pub(super) fn new(log: &Path, files: Vec<LogFile>) -> io::Result<Self> {
        let directory = log.join(DIRECTORY);
        let mut reading = DayReading {
            directory,
            lines: LogLines::new(&[], 0)?,
            files,
            first: 0,
            tracker: Tracker::new(Timestamp(i64::MIN)),
            kept: DaysKept::default(),
            oldest: None,
            is_reopened: false,
            is_damaged: false,
            is_rebuilt: false,
            bytes: 0,
        };
        if !reading.goes_on()? {
            reading.begin_anew()?;
        }
        Ok(reading)
    }

    /// Goes on where the log was left, if its files are still those that were read.
    fn goes_on(&mut self) -> io::Result<bool> {
        let Some(file) = read_file(&self.directory.join(TRACKER))? else { return Ok(false) };
        self.bytes += file.len() as u64;
        let Some((place, tracker)) = Tracker::decode(&file) else { return Ok(false) };
        let Some((place, kept)) = Place::decode(&place) else { return Ok(false) };
        let Some((first, offset)) = place.find(&self.files)? else { return Ok(false) };
        (self.first, self.tracker, self.kept) = (first, tracker, kept);
        self.lines = LogLines::new(&self.files[first..], offset)?;
        self.tell_apart()?;
        Ok(true)
    }

    /// Older versions had a day both written and in the tracker: opened again, or begun anew by a line that
    /// could not be read. The one with more lines is the right one.
    fn tell_apart(&mut self) -> io::Result<()> {
        let both: Vec<_> = self.tracker.days().map(|(number, day)| (number, day.lines())).collect();
        for (number, lines) in both {
            if self.kept.crc(number).is_none() {
                continue;
            }
            if self.kept_day(number)?.is_some_and(|kept| kept.lines() > lines) {
                self.tracker.take(number);
            } else {
                self.kept.reopen(number);
            }
        }
        Ok(())
    }

    /// Reads all of the log once more. Older days, which it does not have any more, keep their summaries.
    fn begin_anew(&mut self) -> io::Result<()> {
        (self.is_rebuilt, self.is_damaged, self.is_reopened) = (true, false, false);
        self.tracker = Tracker::new(Timestamp(i64::MIN));
        let oldest = self.oldest_day()?;
        self.save_days_until(oldest)?;
        self.kept = DaysKept::default();
        for number in days_in(&self.directory)? {
            if oldest.is_none_or(|oldest| number < oldest)
                && let Some((_, crc)) = self.read_day(number)?
            {
                self.kept.add(number, crc);
            }
        }
        self.oldest = None;
        if let Some(oldest) = oldest {
            self.kept.close(DayNumber(oldest.0 - 1));
            self.oldest = self.read_day(oldest)?.map(|(day, _)| (oldest, day));
        }
        self.first = 0;
        self.lines = LogLines::new(&self.files, 0)?;
        Ok(())
    }

    /// Writes what the tracker's file has of days up to the oldest one of the log, of which lines are gone: a
    /// log may turn over before a day is closed.
    fn save_days_until(&mut self, oldest: Option<DayNumber>) -> io::Result<()> {
        let Some(file) = read_file(&self.directory.join(TRACKER))? else { return Ok(()) };
        self.bytes += file.len() as u64;
        let Some((_, tracker)) = Tracker::decode(&file) else { return Ok(()) };
        for (number, day) in tracker.days() {
            let is_gone = oldest.is_none_or(|oldest| number <= oldest);
            let has_more = |(kept, _): (Day, Crc32c)| kept.lines() < day.lines();
            if is_gone && self.read_day(number)?.is_none_or(has_more) {
                write_durable(&self.directory, &name(number), &day.encode(number))
                    .map_err(io::Error::other)?;
            }
        }
        Ok(())
    }

    fn oldest_day(&mut self) -> io::Result<Option<DayNumber>> {
        for file in &mut self.files {
            if let Some(at) = file.first_time()? {
                return Ok(Some(DayNumber::of(at)));
            }
        }
        Ok(None)
    }

    /// The summary of a day and its checksum, if it is there and whole.
    fn read_day(&mut self, number: DayNumber) -> io::Result<Option<(Day, Crc32c)>> {
        let Some(file) = read_file(&self.directory.join(name(number)))? else { return Ok(None) };
        self.bytes += file.len() as u64;
        Ok(Day::decode(number, &file).map(|day| (day, Crc32c::of(&file))))
    }

    /// The summary of a day as it was written.
    fn kept_day(&mut self, number: DayNumber) -> io::Result<Option<Day>> {
        let read = self.read_day(number)?;
        Ok(read.filter(|(_, crc)| self.kept.crc(number) == Some(*crc)).map(|(day, _)| day))
    }

    /// Reads about the next `bytes` bytes of the log; whether there is more. Days that are over at `now` are
    /// written.
    ///
    /// # Errors
    /// If the log cannot be read, or a summary cannot be written.
    pub fn read_some(&mut self, bytes: u64, now: Timestamp) -> io::Result<bool> {
        let enough = self.lines.progress().0.saturating_add(bytes.max(1));
        while self.lines.progress().0 < enough {
            match self.lines.next()? {
                None => {
                    if self.is_damaged && !self.is_rebuilt {
                        self.begin_anew()?;
                        return Ok(true);
                    }
                    let over = self.over(now);
                    self.write(&over)?;
                    return Ok(false);
                }
                Some(LogLine::Access(access)) => {
                    if !access.is_state() {
                        self.reopen(DayNumber::of(access.at))?;
                    }
                    self.tracker.add(&access);
                    if self.tracker.days().count() > DAYS_TOGETHER {
                        let newest = self.tracker.days().last().map_or(access.at, |(day, _)| day.begin());
                        let over = self.over(newest);
                        self.write(&over)?;
                    }
                }
                Some(LogLine::Newer) => self.unreadable(true)?,
                Some(LogLine::Damaged) => self.unreadable(false)?,
                Some(LogLine::Nothing) => {}
            }
        }
        Ok(true)
    }

    /// A line could not be read: it counts with the day of the line before it, which may be closed.
    fn unreadable(&mut self, is_newer: bool) -> io::Result<()> {
        if let Some(number) = self.tracker.last_day() {
            self.reopen(number)?;
        }
        self.tracker.unreadable(is_newer);
        Ok(())
    }

    /// A line comes for a day: if that was closed before, its figures are taken up again.
    fn reopen(&mut self, number: DayNumber) -> io::Result<()> {
        if self.tracker.has(number) || !self.kept.is_closed(number) || self.kept.crc(number).is_none() {
            return Ok(());
        }
        match self.kept_day(number)? {
            Some(day) => {
                self.tracker.restore(number, day);
                self.kept.reopen(number);
                self.is_reopened = true;
            }
            None => self.is_damaged = true,
        }
        Ok(())
    }

    /// The days of the tracker that were over some time before.
    fn over(&self, now: Timestamp) -> Vec<DayNumber> {
        let is_over = |number: &DayNumber| number.end().plus(ORDER_SLACK) <= now;
        self.tracker.days().map(|(number, _)| number).filter(is_over).collect()
    }

    /// Writes days that are over, and the tracker without them.
    fn write(&mut self, over: &[DayNumber]) -> io::Result<()> {
        if self.lines.progress().0 == 0 && over.is_empty() {
            return Ok(());
        }
        match fs::create_dir(&self.directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        // A crash between the summary and the tracker must not add the same lines to it once more.
        if mem::take(&mut self.is_reopened) {
            self.write_tracker()?;
        }
        for &number in over {
            let Some(mut day) = self.tracker.take(number) else { continue };
            // Only what was opened again replaces a summary: else that is damaged, and the day is lost.
            if self.kept.crc(number).is_some() {
                continue;
            }
            if let Some((_, before)) = self.oldest.take_if(|(oldest, _)| *oldest == number)
                && before.lines() > day.lines()
            {
                day = before;
            }
            let file = day.encode(number);
            write_durable(&self.directory, &name(number), &file).map_err(io::Error::other)?;
            self.kept.add(number, Crc32c::of(&file));
        }
        for number in self.kept.forget_beyond(DAYS_KEPT_MAX) {
            missing_is_fine(fs::remove_file(self.directory.join(name(number))))?;
        }
        self.write_tracker()
    }

    fn write_tracker(&mut self) -> io::Result<()> {
        let read = self.lines.ends.len();
        let begun: Range<usize> = 0..(self.first + read).min(self.files.len());
        let end = self.lines.ends.last().copied().unwrap_or(0);
        let place = Place::of(&self.files[begun], end)?;
        let file = self.tracker.encode(&place.encode(&self.kept));
        write_durable(&self.directory, TRACKER, &file).map_err(io::Error::other)
    }

    /// Begins to add up the days of a window, which begins with the day in which `window` does.
    #[must_use]
    pub fn begin_total(&self, window: Window, class: Option<&str>) -> DayTotal {
        let window = Window { since: DayNumber::of(window.since).begin(), ..window };
        let (since, until) = (DayNumber::of(window.since), DayNumber::of(window.until));
        let mut left: Vec<DayNumber> = self.kept.all().collect();
        left.extend(self.tracker.days().map(|(number, _)| number));
        let mut total = Total::new(class);
        if left.iter().any(|number| *number < since) {
            total.begins(Some(window.since));
        }
        left.retain(|number| *number >= since && *number <= until);
        left.sort_unstable();
        left.dedup();
        left.reverse();
        DayTotal { window, total, left, days_lost: 0 }
    }

    /// Adds further days up; the figures when all are. A day whose summary is damaged is made anew if the log
    /// has it: then `None` is given as well, and [`DayReading::read_some`] has work again.
    ///
    /// # Errors
    /// If a summary cannot be read.
    pub fn add_some(&mut self, of: &mut DayTotal) -> io::Result<Option<(Usage, AccessLogRead)>> {
        for _ in 0..DAYS_A_STEP {
            let Some(number) = of.left.pop() else { return Ok(Some(self.end(of))) };
            if let Some((_, day)) = self.tracker.days().find(|(known, _)| *known == number) {
                of.total.add(number, day);
                continue;
            }
            match self.kept_day(number)? {
                Some(day) => of.total.add(number, &day),
                None if !self.is_rebuilt && self.oldest_day()?.is_some_and(|oldest| number >= oldest) => {
                    self.begin_anew()?;
                    return Ok(None);
                }
                None => of.days_lost += 1,
            }
        }
        Ok(None)
    }

    fn end(&self, of: &mut DayTotal) -> (Usage, AccessLogRead) {
        let mut total = mem::replace(&mut of.total, Total::new(None));
        total.stands(&self.tracker);
        let (damaged, newer) = total.unreadable();
        (total.end(of.window), AccessLogRead { damaged, newer, days_lost: of.days_lost })
    }

    /// Whether lines of the log are left to read.
    #[must_use]
    pub fn has_lines(&self) -> bool {
        let (read, of) = self.lines.progress();
        read < of
    }

    /// Bytes that were read, and that there are as far as is known.
    #[must_use]
    pub fn progress(&self) -> (u64, u64) {
        let (read, of) = self.lines.progress();
        (read + self.bytes, of + self.bytes)
    }
}

/// The name of a day's file: its date.
fn name(number: DayNumber) -> String {
    let begin = number.begin().to_string();
    format!("{}.usage", begin.split('T').next().unwrap_or(&begin))
}

/// The days of which there are summaries, whole or not.
fn days_in(directory: &Path) -> io::Result<Vec<DayNumber>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut days = Vec::new();
    for entry in entries {
        let found = entry?.file_name();
        let date = found.to_str().and_then(|name| name.strip_suffix(".usage"));
        days.extend(date.and_then(day_of));
    }
    days.sort_unstable();
    Ok(days)
}

fn day_of(date: &str) -> Option<DayNumber> {
    let mut parts = date.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let (year, month, day) = (year.parse().ok()?, month.parse().ok()?, day.parse().ok()?);
    Timestamp::from_civil(year, month, day, 0, 0, 0, 0).map(DayNumber::of)
}

/// All of a file; `None` if it is not there, or is larger than any summary.
fn read_file(path: &Path) -> io::Result<Option<Vec<u8>>> {
    /// More than the figures of all classes, or a tracker that is full, take.
    const BYTES_MAX: u64 = 256 << 20;
    let mut file = match fs::File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    if file.metadata()?.len() > BYTES_MAX {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_beyond_those_kept_may_be_gone_already() {
        let log = tempfile::tempdir().unwrap();
        let mut reading = DayReading::new(log.path(), Vec::new()).unwrap();
        let newest = DAYS_KEPT_MAX as i64;
        (0..=newest).for_each(|number| reading.kept.add(DayNumber(number), Crc32c::of(b"")));
        reading.write(&[DayNumber(newest)]).unwrap();
        assert_eq!(reading.kept.all().next(), Some(DayNumber(1)));
    }
}
