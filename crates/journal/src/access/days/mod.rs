//! Summaries of days, beside the log: what a report over a year reads in place of the log's lines.
//!
//! Each line is read once. The tracker stands in a file with the place in the log up to which it was read;
//! a day whose lines are all read becomes a file of its own. What the log's files say of themselves is
//! compared with what was seen of them; if they are others, all days that the log has are made anew from it.

use std::path::Path;
use std::{io, mem};

use base::Timestamp;
use usage::{Access, Day, DayNumber, Total, Tracker, Usage, Window};

use super::files::AccessLogRead;
use super::line::ACCESS_ORDER_SLACK;
use crate::files::LogFile;
use crate::lines::LogLine;

mod position;
mod summaries;

use position::Position;
use summaries::Summaries;

/// Days of which summaries are kept: ten years.
pub const DAYS_KEPT_MAX: usize = 3_660;
/// So many complete days are written together, with one copy of the tracker.
const DAYS_TOGETHER: usize = 16;
/// Summaries that are read in one step.
const DAYS_A_STEP: usize = 64;

/// Brings the summaries up to date with the log, and adds them up.
pub struct DayReading {
    log: Position,
    summaries: Summaries,
    tracker: Tracker,
    /// A summary was opened again since the tracker was written: lines came for a day that was closed.
    is_reopened: bool,
    /// A summary that the log's lines could replace is missing or damaged.
    is_damaged: bool,
    rebuilt: Rebuilt,
}

/// Whether all was made anew from the log, and what it must not replace.
#[derive(Default)]
enum Rebuilt {
    #[default]
    No,
    /// The log has lines of before this day only as far as they came late, and may have lost others of it.
    /// The day is there as it was summarised before, until it is written anew.
    From(DayNumber, Option<Box<Day>>),
    /// The log has no line.
    Empty,
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
        let mut reading = DayReading {
            log: Position::begin(files)?,
            summaries: Summaries::of(log),
            tracker: Tracker::new(Timestamp(i64::MIN)),
            is_reopened: false,
            is_damaged: false,
            rebuilt: Rebuilt::No,
        };
        if !reading.goes_on()? {
            reading.begin_anew()?;
        }
        Ok(reading)
    }

    /// Goes on where the log was left, if its files are still those that were read.
    fn goes_on(&mut self) -> io::Result<bool> {
        let Some((place, kept, tracker)) = self.summaries.tracker()? else { return Ok(false) };
        if !self.log.find(&place)? {
            return Ok(false);
        }
        (self.tracker, self.summaries.kept) = (tracker, kept);
        self.tell_apart()?;
        Ok(true)
    }

    /// A day can be both written and in the tracker. Older versions had it so: opened again, or begun anew by
    /// a line that could not be read; the one with more lines is the right one. Or its summary was found
    /// damaged when a late line came, and the server stopped before the log was read once more for it: the
    /// tracker has the late lines alone, and the log is to be read.
    fn tell_apart(&mut self) -> io::Result<()> {
        let both: Vec<_> = self.tracker.days().map(|(number, day)| (number, day.lines())).collect();
        for (number, lines) in both {
            if self.summaries.kept.crc(number).is_none() {
                continue;
            }
            match self.summaries.kept_day(number)? {
                None => self.is_damaged = true,
                Some(kept) if kept.lines() > lines => drop(self.tracker.take(number)),
                Some(_) => self.summaries.kept.reopen(number),
            }
        }
        Ok(())
    }

    /// Reads all of the log once more. Older days, which it does not have any more, keep their summaries.
    fn begin_anew(&mut self) -> io::Result<()> {
        (self.is_damaged, self.is_reopened) = (false, false);
        self.tracker = Tracker::new(Timestamp(i64::MIN));
        let oldest = self.log.oldest_day()?;
        self.save_days_until(oldest)?;
        self.summaries.keep_before(oldest)?;
        self.rebuilt = match oldest {
            Some(oldest) => Rebuilt::From(oldest, self.summaries.read(oldest)?.map(|(day, _)| Box::new(day))),
            None => Rebuilt::Empty,
        };
        self.log.rewind()
    }

    /// Writes what the tracker's file has of days up to the oldest one of the log, of which lines are gone: a
    /// log may turn over before a day is closed.
    fn save_days_until(&mut self, oldest: Option<DayNumber>) -> io::Result<()> {
        let Some((_, _, tracker)) = self.summaries.tracker()? else { return Ok(()) };
        for (number, day) in tracker.days() {
            let is_gone = oldest.is_none_or(|oldest| number <= oldest);
            let read = if is_gone { self.summaries.read(number)? } else { continue };
            if read.is_none_or(|(kept, _)| kept.lines() < day.lines()) {
                self.summaries.write(number, day)?;
            }
        }
        Ok(())
    }

    /// Reads about the next `bytes` bytes of the log; whether there is more. Days that are over at `now` are
    /// written.
    ///
    /// # Errors
    /// If the log cannot be read, or a summary cannot be written.
    pub fn read_some(&mut self, bytes: u64, now: Timestamp) -> io::Result<bool> {
        let enough = self.log.progress().0.saturating_add(bytes.max(1));
        while self.log.progress().0 < enough {
            match self.log.next_line()? {
                None => {
                    if self.is_damaged && !self.is_rebuilt() {
                        self.begin_anew()?;
                        return Ok(true);
                    }
                    let over = self.over(now);
                    self.write(&over)?;
                    return Ok(false);
                }
                Some(LogLine::Record(access)) => self.add(&access)?,
                Some(LogLine::Newer) => self.unreadable(true)?,
                Some(LogLine::Damaged) => self.unreadable(false)?,
                Some(LogLine::Nothing) => {}
            }
        }
        Ok(true)
    }

    fn add(&mut self, access: &Access) -> io::Result<()> {
        let number = DayNumber::of(access.at);
        if !access.is_state() {
            if self.is_known(number) {
                return Ok(());
            }
            self.reopen(number)?;
        }
        self.tracker.add(access);
        if self.tracker.days().count() > DAYS_TOGETHER {
            let newest = self.tracker.days().last().map_or(access.at, |(day, _)| day.begin());
            let over = self.over(newest);
            if !over.is_empty() {
                self.write(&over)?;
            }
        }
        Ok(())
    }

    fn is_rebuilt(&self) -> bool {
        !matches!(self.rebuilt, Rebuilt::No)
    }

    /// Whether a line of a day came late, behind a younger one, and all is made anew: the summary of the day,
    /// which the log cannot give any more, was made of lines of which it was one.
    fn is_known(&self, number: DayNumber) -> bool {
        let is_older = matches!(self.rebuilt, Rebuilt::From(oldest, _) if number < oldest);
        is_older && !self.tracker.has(number) && self.summaries.kept.crc(number).is_some()
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
        let kept = &self.summaries.kept;
        if self.tracker.has(number) || !kept.is_closed(number) || kept.crc(number).is_none() {
            return Ok(());
        }
        match self.summaries.kept_day(number)? {
            Some(day) => {
                self.tracker.restore(number, day);
                self.summaries.kept.reopen(number);
                self.is_reopened = true;
            }
            None => self.is_damaged = true,
        }
        Ok(())
    }

    /// The days of the tracker that were over some time before. Not those with a summary that counts and was
    /// not opened again: that one is damaged, and as long as the tracker has the day too, the next reader
    /// knows that the log is to be read once more for it.
    fn over(&self, now: Timestamp) -> Vec<DayNumber> {
        let is_over = |number: &DayNumber| {
            number.end().plus(ACCESS_ORDER_SLACK) <= now && self.summaries.kept.crc(*number).is_none()
        };
        self.tracker.days().map(|(number, _)| number).filter(is_over).collect()
    }

    /// Writes days that are over, and the tracker without them.
    fn write(&mut self, over: &[DayNumber]) -> io::Result<()> {
        if self.log.progress().0 == 0 && over.is_empty() {
            return Ok(());
        }
        self.summaries.make_directory()?;
        // A crash between the summary and the tracker must not add the same lines to it once more.
        if mem::take(&mut self.is_reopened) {
            self.write_tracker()?;
        }
        for &number in over {
            let Some(mut day) = self.tracker.take(number) else { continue };
            if let Rebuilt::From(oldest, before) = &mut self.rebuilt
                && *oldest == number
                && let Some(before) = before.take().filter(|before| before.lines() > day.lines())
            {
                day = *before;
            }
            let crc = self.summaries.write(number, &day)?;
            self.summaries.kept.add(number, crc);
        }
        self.summaries.forget_oldest()?;
        self.write_tracker()
    }

    fn write_tracker(&mut self) -> io::Result<()> {
        self.summaries.write_tracker(&self.tracker, &self.log.place()?)
    }

    /// Begins to add up the days of a window, which begins with the day in which `window` does.
    #[must_use]
    pub fn begin_total(&self, window: Window, class: Option<&str>) -> DayTotal {
        let window = Window { since: DayNumber::of(window.since).begin(), ..window };
        let (since, until) = (DayNumber::of(window.since), DayNumber::of(window.until));
        let mut left: Vec<DayNumber> = self.summaries.kept.all().collect();
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
            match self.summaries.kept_day(number)? {
                Some(day) => of.total.add(number, &day),
                None if !self.is_rebuilt()
                    && self.log.oldest_day()?.is_some_and(|oldest| number >= oldest) =>
                {
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
        let (read, of) = self.log.progress();
        read < of
    }

    /// Bytes that were read, and that there are as far as is known.
    #[must_use]
    pub fn progress(&self) -> (u64, u64) {
        let (read, of) = self.log.progress();
        (read + self.summaries.bytes, of + self.summaries.bytes)
    }
}

#[cfg(test)]
mod tests {
    use base::Crc32c;

    use super::*;

    #[test]
    fn a_summary_beyond_those_kept_may_be_gone_already() {
        let log = tempfile::tempdir().unwrap();
        let mut reading = DayReading::new(log.path(), Vec::new()).unwrap();
        let newest = DAYS_KEPT_MAX as i64;
        (0..=newest).for_each(|number| reading.summaries.kept.add(DayNumber(number), Crc32c::of(b"")));
        reading.write(&[DayNumber(newest)]).unwrap();
        assert_eq!(reading.summaries.kept.all().next(), Some(DayNumber(1)));
    }
}
