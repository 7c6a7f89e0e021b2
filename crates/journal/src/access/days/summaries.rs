//! The files of the summaries: one a day, and the tracker with the place in the log.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use base::{Crc32c, Timestamp};
use usage::{Day, DayNumber, Tracker};

use super::super::place::{DaysKept, Place};
use super::DAYS_KEPT_MAX;
use crate::files::{missing_is_fine, write_durable};

/// The directory of the summaries, in that of the log.
const DIRECTORY: &str = "days";
/// The file with the tracker.
const TRACKER: &str = "reading.usage";

/// The summaries beside a log, and which of them count.
pub(super) struct Summaries {
    directory: PathBuf,
    pub(super) kept: DaysKept,
    /// Bytes of them and of the tracker that were read.
    pub(super) bytes: u64,
}

impl Summaries {
    pub(super) fn of(log: &Path) -> Self {
        Summaries { directory: log.join(DIRECTORY), kept: DaysKept::default(), bytes: 0 }
    }

    /// The tracker as it was written, up to where it had read, and the days that were written then.
    pub(super) fn tracker(&mut self) -> io::Result<Option<(Place, DaysKept, Tracker)>> {
        let Some(file) = read_file(&self.directory.join(TRACKER))? else { return Ok(None) };
        self.bytes += file.len() as u64;
        let Some((numbers, tracker)) = Tracker::decode(&file) else { return Ok(None) };
        Ok(Place::decode(&numbers).map(|(place, kept)| (place, kept, tracker)))
    }

    /// The summary of a day and its checksum, if it is there and whole, whether or not it counts.
    pub(super) fn read(&mut self, number: DayNumber) -> io::Result<Option<(Day, Crc32c)>> {
        let Some(file) = read_file(&self.directory.join(name(number)))? else { return Ok(None) };
        self.bytes += file.len() as u64;
        Ok(Day::decode(number, &file).map(|day| (day, Crc32c::of(&file))))
    }

    /// The summary of a day as it was written.
    pub(super) fn kept_day(&mut self, number: DayNumber) -> io::Result<Option<Day>> {
        let read = self.read(number)?;
        Ok(read.filter(|(_, crc)| self.kept.crc(number) == Some(*crc)).map(|(day, _)| day))
    }

    /// All summaries of days before this one count that are there and whole, and no others.
    pub(super) fn keep_before(&mut self, end: Option<DayNumber>) -> io::Result<()> {
        self.kept = DaysKept::default();
        for number in days_in(&self.directory)? {
            if end.is_none_or(|end| number < end)
                && let Some((_, crc)) = self.read(number)?
            {
                self.kept.add(number, crc);
            }
        }
        if let Some(end) = end {
            self.kept.close(DayNumber(end.0 - 1));
        }
        Ok(())
    }

    pub(super) fn make_directory(&self) -> io::Result<()> {
        match fs::create_dir(&self.directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }

    /// Writes the summary of a day, durably. It counts once it is [added](DaysKept::add) to those kept.
    pub(super) fn write(&self, number: DayNumber, day: &Day) -> io::Result<Crc32c> {
        let file = day.encode(number);
        write_durable(&self.directory, &name(number), &file)?;
        Ok(Crc32c::of(&file))
    }

    /// Removes the oldest ones beyond those that are kept.
    pub(super) fn forget_oldest(&mut self) -> io::Result<()> {
        for number in self.kept.forget_beyond(DAYS_KEPT_MAX) {
            missing_is_fine(fs::remove_file(self.directory.join(name(number))))?;
        }
        Ok(())
    }

    pub(super) fn write_tracker(&self, tracker: &Tracker, place: &Place) -> io::Result<()> {
        let file = tracker.encode(&place.encode(&self.kept));
        write_durable(&self.directory, TRACKER, &file)
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
