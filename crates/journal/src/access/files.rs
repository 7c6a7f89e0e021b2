//! The access log as files in a directory.

use std::io;
use std::path::Path;

use base::Timestamp;
use usage::Access;

use super::days::DayReading;
use crate::files::LogFiles;
use crate::lines::{LogLine, LogLines};
use crate::statistics::StatisticsLog;

/// A file of this length is closed and a new one begun.
pub const ACCESS_LOG_BYTES_MAX: u64 = 64 << 20;
/// Files kept, the one that grows included: at some 170 bytes a line 6 million lines.
pub const ACCESS_LOG_FILES_MAX: u32 = 16;

/// Where accesses are written down, and read from for analyses.
///
/// Statistics, no truth. One thread writes; a call that hangs holds up nobody else.
pub trait AccessLog: Send + Sync {
    /// Whether the next [`AccessLog::append`] begins a file, which should begin with lines of state.
    fn begins_file(&self) -> bool;

    /// Writes whole lines. Not durable.
    ///
    /// # Errors
    /// If they cannot be written, or not all of them.
    fn append(&self, lines: &str) -> io::Result<()>;

    /// Begins to read the lines whose time is from `since` on and before `until`, in the order in which they
    /// were written, and before them lines of state that stand in the file in which `since` falls.
    ///
    /// # Errors
    /// If the log cannot be read.
    fn open(&self, since: Timestamp, until: Timestamp) -> io::Result<Box<dyn AccessReading>>;

    /// Begins to bring the summaries of days up to date; `None` if this log keeps none.
    fn open_days(&self) -> Option<io::Result<DayReading>> {
        None
    }

    /// Whether there are lines from before this moment.
    fn reaches_back(&self, before: Timestamp) -> bool {
        let _ = before;
        false
    }

    /// Gives all lines of [`AccessLog::open`] at once.
    ///
    /// # Errors
    /// If the log cannot be read.
    fn read(
        &self,
        since: Timestamp,
        until: Timestamp,
        each: &mut dyn FnMut(Access),
    ) -> io::Result<AccessLogRead> {
        let mut reading = self.open(since, until)?;
        while reading.read_some(u64::MAX, each)? {}
        Ok(reading.met())
    }
}

/// A reading of the log, as it was when it was begun: files that are rotated meanwhile are read all the same.
pub trait AccessReading: Send {
    /// Gives the lines of about the next `bytes` bytes; whether there is more.
    ///
    /// # Errors
    /// If the log cannot be read.
    fn read_some(&mut self, bytes: u64, each: &mut dyn FnMut(Access)) -> io::Result<bool>;

    /// Bytes that were read, and that there are.
    fn progress(&self) -> (u64, u64);

    /// What it has met so far.
    fn met(&self) -> AccessLogRead;
}

/// What a reading of the log met.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct AccessLogRead {
    /// Lines that are damaged.
    pub damaged: u64,
    /// Lines that a newer Kist has written.
    pub newer: u64,
    /// Days of which nothing is known: their summaries are damaged, and their lines are gone.
    pub days_lost: u64,
}

/// The log in files: `access.log`, and the older ones `access.1.log` to `access.15.log`.
pub struct AccessLogFiles(StatisticsLog<Access>);

impl AccessLogFiles {
    /// The log in `directory`, which is made with the first line.
    #[must_use]
    pub fn new(directory: &Path) -> Self {
        AccessLogFiles(StatisticsLog::new(LogFiles::new(directory)))
    }

    /// As [`AccessLogFiles::new`], with files of `bytes_max` bytes, `files_max` of them.
    #[must_use]
    pub fn with_limits(directory: &Path, bytes_max: u64, files_max: u32) -> Self {
        AccessLogFiles(StatisticsLog::new(LogFiles::with_limits(directory, bytes_max, files_max)))
    }
}

impl AccessLog for AccessLogFiles {
    fn begins_file(&self) -> bool {
        self.0.begins_file()
    }

    fn append(&self, lines: &str) -> io::Result<()> {
        self.0.append(lines)
    }

    fn open(&self, since: Timestamp, until: Timestamp) -> io::Result<Box<dyn AccessReading>> {
        let lines = self.0.lines_since(since)?;
        Ok(Box::new(FilesReading { lines, since, until, met: AccessLogRead::default() }))
    }

    fn open_days(&self) -> Option<io::Result<DayReading>> {
        Some(self.0.open_files().and_then(|files| DayReading::new(self.0.files().directory(), files)))
    }

    fn reaches_back(&self, before: Timestamp) -> bool {
        let oldest = self.0.open_files().ok().and_then(|files| files.into_iter().next());
        let begins = oldest.and_then(|file| file.first_time::<Access>().ok().flatten());
        begins.is_some_and(|begins| begins < before)
    }
}

struct FilesReading {
    lines: LogLines<Access>,
    since: Timestamp,
    until: Timestamp,
    met: AccessLogRead,
}

impl AccessReading for FilesReading {
    fn read_some(&mut self, bytes: u64, each: &mut dyn FnMut(Access)) -> io::Result<bool> {
        let enough = self.lines.progress().0.saturating_add(bytes.max(1));
        while self.lines.progress().0 < enough {
            match self.lines.next_line()? {
                None => return Ok(false),
                Some(LogLine::Record(access)) => {
                    let is_since = access.at >= self.since || access.is_state();
                    if is_since && access.at < self.until {
                        each(access);
                    }
                }
                Some(LogLine::Newer) => self.met.newer += 1,
                Some(LogLine::Damaged) => self.met.damaged += 1,
                Some(LogLine::Nothing) => {}
            }
        }
        Ok(!self.lines.is_over())
    }

    fn progress(&self) -> (u64, u64) {
        self.lines.progress()
    }

    fn met(&self) -> AccessLogRead {
        self.met
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use usage::What;

    use super::super::line::ACCESS_LINE_BYTES_MAX;
    use super::*;
    use crate::line::encode;

    const BEGIN: i64 = 1_795_292_940_000_000_000;
    const MINUTE: i64 = 60_000_000_000;

    /// Lines an hour apart, so that the slack in their order is nothing.
    fn numbered(number: i64) -> String {
        let at = Timestamp(BEGIN + number * 60 * MINUTE);
        let mut line = String::new();
        encode(&Access { at, class: None, who: None, what: What::Dropped { count: 100 } }, &mut line);
        line
    }

    fn read(log: &AccessLogFiles, since: i64, until: i64) -> (Vec<i64>, AccessLogRead) {
        let at = |number: i64| Timestamp(BEGIN + number * 60 * MINUTE);
        let mut found = Vec::new();
        let met = log.read(at(since), at(until), &mut |access| {
            found.push((access.at.0 - BEGIN) / MINUTE / 60);
        });
        (found, met.unwrap())
    }

    #[test]
    fn files_are_rotated_and_read_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let below = directory.path().join("log");
        let length = numbered(0).len() as u64;
        let log = AccessLogFiles::with_limits(&below, 2 * length, 3);
        assert!(log.begins_file());
        assert_eq!(read(&log, 0, 99).0, Vec::<i64>::new(), "a log that nobody wrote to is empty");
        for number in 0..9 {
            assert_eq!(log.begins_file(), number % 2 == 0, "line {number}");
            log.append(&numbered(number)).unwrap();
        }
        // Two a file: 4 and 5, 6 and 7, and 8.
        assert_eq!(read(&log, 0, 99).0, [4, 5, 6, 7, 8]);
        assert_eq!(read(&log, 5, 8).0, [5, 6, 7]);
        assert_eq!(read(&log, 8, 99).0, [8]);
        assert_eq!(fs::read_dir(&below).unwrap().count(), 3);
        drop(log);
        // Another process goes on where the first one stopped.
        let log = AccessLogFiles::with_limits(&below, 2 * length, 3);
        assert!(!log.begins_file());
        log.append(&numbered(9)).unwrap();
        assert!(log.begins_file());
        log.append(&numbered(10)).unwrap();
        assert_eq!(read(&log, 0, 99).0, [6, 7, 8, 9, 10]);
    }

    #[test]
    fn a_torn_last_line_is_passed_over_and_spoils_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("access.log");
        AccessLogFiles::new(directory.path()).append(&numbered(1)).unwrap();
        let whole = fs::read(&path).unwrap();
        let torn = numbered(2);
        for cut in [1, torn.len() / 2, torn.len() - 1] {
            fs::write(&path, [&whole, &torn.as_bytes()[..cut]].concat()).unwrap();
            let log = AccessLogFiles::new(directory.path());
            assert_eq!(read(&log, 0, 9), (vec![1], AccessLogRead::default()), "cut at {cut}");
            log.append(&numbered(3)).unwrap();
            // The whole line but its line feed became one by the next record.
            let expected = if cut == torn.len() - 1 { vec![1, 2, 3] } else { vec![1, 3] };
            let damaged = u64::from(cut < torn.len() - 1);
            assert_eq!(
                read(&log, 0, 9),
                (expected, AccessLogRead { damaged, ..AccessLogRead::default() }),
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn damage_costs_its_own_line_and_a_line_without_end_only_itself() {
        let directory = tempfile::tempdir().unwrap();
        let log = AccessLogFiles::new(directory.path());
        (1..=3).for_each(|number| log.append(&numbered(number)).unwrap());
        let path = directory.path().join("access.log");
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 4;
        fs::write(&path, &bytes).unwrap();
        assert_eq!(read(&log, 0, 9), (vec![1, 3], AccessLogRead { damaged: 1, ..AccessLogRead::default() }));
        let mut bytes = fs::read(&path).unwrap();
        bytes.extend(vec![b'x'; 2 * ACCESS_LINE_BYTES_MAX]);
        bytes.push(b'\n');
        fs::write(&path, &bytes).unwrap();
        let log = AccessLogFiles::new(directory.path());
        log.append(&numbered(4)).unwrap();
        let (found, met) = read(&log, 0, 9);
        assert_eq!(found, [1, 3, 4]);
        assert!(met.damaged >= 2, "{met:?}");
    }
}
