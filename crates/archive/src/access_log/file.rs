//! The access log as files in a directory.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Take, Write};
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use base::{Duration, Timestamp};
use threads::Mutex;
use usage::{ACCESS_LINE_BYTES_MAX, Access, LineFault, decode};

use super::days::DayReading;

/// A file of this length is closed and a new one begun.
pub const ACCESS_LOG_BYTES_MAX: u64 = 64 << 20;
/// Files kept, the one that grows included: at some 170 bytes a line 6 million lines.
pub const ACCESS_LOG_FILES_MAX: u32 = 16;

/// Lines are out of the order of their times by no more than this.
pub(super) const ORDER_SLACK: Duration = Duration::from_secs(60);
/// Lines at the beginning of a file that are looked at for its first time.
const FIRST_LINES_MAX: usize = 100;

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
pub struct AccessLogFiles {
    directory: PathBuf,
    bytes_max: u64,
    files_max: u32,
    /// The file that grows, and its length.
    open: Mutex<Option<(File, u64)>>,
}

impl AccessLogFiles {
    /// The log in `directory`, which is made with the first line.
    #[must_use]
    pub fn new(directory: &Path) -> Self {
        AccessLogFiles::with_limits(directory, ACCESS_LOG_BYTES_MAX, ACCESS_LOG_FILES_MAX)
    }

    /// As [`AccessLogFiles::new`], with files of `bytes_max` bytes, `files_max` of them.
    #[must_use]
    pub fn with_limits(directory: &Path, bytes_max: u64, files_max: u32) -> Self {
        assert!(files_max > 0, "a log has a file");
        AccessLogFiles { directory: directory.to_owned(), bytes_max, files_max, open: Mutex::new(None) }
    }

    fn path(&self, age: u32) -> PathBuf {
        let name = if age == 0 { "access.log".to_owned() } else { format!("access.{age}.log") };
        self.directory.join(name)
    }

    /// Opens the file that grows. What a crash left of a last line is ended, so that the next one stands by
    /// itself.
    fn open(&self) -> io::Result<(File, u64)> {
        fs::create_dir_all(&self.directory)?;
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(self.path(0))?;
        let mut length = file.metadata()?.len();
        if length >= self.bytes_max {
            self.rotate()?;
            file = OpenOptions::new().create(true).read(true).append(true).open(self.path(0))?;
            length = file.metadata()?.len();
        }
        if length > 0 {
            let mut last = [0u8];
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                file.write_all(b"\n")?;
                length += 1;
            }
        }
        Ok((file, length))
    }

    /// Each file gets the next name; the oldest goes.
    fn rotate(&self) -> io::Result<()> {
        if self.files_max == 1 {
            return missing_is_fine(fs::remove_file(self.path(0)));
        }
        for age in (0..self.files_max - 1).rev() {
            missing_is_fine(fs::rename(self.path(age), self.path(age + 1)))?;
        }
        Ok(())
    }

    /// The files that are there, the oldest first.
    fn files(&self) -> io::Result<Vec<LogFile>> {
        // Held so that no file changes its name between two of them; they are read afterwards.
        let _open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let mut files = Vec::new();
        for age in (0..self.files_max).rev() {
            match File::open(self.path(age)) {
                Ok(file) => files.push(LogFile::new(file)?),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(files)
    }
}

/// A file of the log as it was when it was opened.
pub(super) struct LogFile {
    pub(super) file: File,
    pub(super) length: u64,
    /// When it was written last, in nanoseconds since 1970.
    pub(super) modified: i128,
}

impl LogFile {
    fn new(file: File) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt as _;
        let found = file.metadata()?;
        let modified = i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec());
        Ok(LogFile { length: found.len(), modified, file })
    }

    /// The time of its first line that can be read.
    pub(super) fn first_time(&mut self) -> io::Result<Option<Timestamp>> {
        self.file.seek(SeekFrom::Start(0))?;
        first_time(BufReader::new((&self.file).take(self.length)))
    }
}

impl AccessLog for AccessLogFiles {
    fn begins_file(&self) -> bool {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        match &*open {
            Some((_, length)) => *length >= self.bytes_max,
            None => fs::metadata(self.path(0))
                .map_or(true, |found| found.len() == 0 || found.len() >= self.bytes_max),
        }
    }

    fn append(&self, lines: &str) -> io::Result<()> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.as_ref().is_some_and(|(_, length)| *length >= self.bytes_max) {
            *open = None;
        }
        let (file, length) = match &mut *open {
            Some(open) => open,
            none => none.insert(self.open()?),
        };
        let written = file.write_all(lines.as_bytes());
        *length += lines.len() as u64;
        if written.is_err() {
            // Half a line may stand there: the file is opened anew, which ends that line.
            *open = None;
        }
        written
    }

    fn open(&self, since: Timestamp, until: Timestamp) -> io::Result<Box<dyn AccessReading>> {
        let mut files = self.files()?;
        let mut first = 0;
        for (at, file) in files.iter_mut().enumerate().skip(1) {
            let begins = file.first_time()?;
            if begins.is_some_and(|begins| begins.plus(ORDER_SLACK) < since) {
                first = at;
            }
        }
        let lines = LogLines::new(&files[first..], 0)?;
        Ok(Box::new(FilesReading { lines, since, until, met: AccessLogRead::default() }))
    }

    fn open_days(&self) -> Option<io::Result<DayReading>> {
        Some(self.files().and_then(|files| DayReading::new(&self.directory, files)))
    }

    fn reaches_back(&self, before: Timestamp) -> bool {
        let oldest = self.files().ok().and_then(|files| files.into_iter().next());
        let begins = oldest.and_then(|mut file| file.first_time().ok().flatten());
        begins.is_some_and(|begins| begins < before)
    }
}

/// The lines of files, the oldest first.
pub(super) struct LogLines {
    /// What is left of each file, and how many bytes that is.
    files: VecDeque<(BufReader<Take<File>>, u64)>,
    /// Of each file that was begun, up to where its whole lines were read.
    pub(super) ends: Vec<u64>,
    read: u64,
    total: u64,
    line: Vec<u8>,
}

/// What stands at one place of the log.
pub(super) enum LogLine {
    Access(Access),
    Damaged,
    Newer,
    /// Nothing: an empty line, or what is left of a torn one.
    Nothing,
}

impl LogLines {
    /// Of the first file those from `offset` on.
    pub(super) fn new(files: &[LogFile], offset: u64) -> io::Result<Self> {
        let mut lines =
            LogLines { files: VecDeque::new(), ends: vec![offset], read: 0, total: 0, line: Vec::new() };
        for (at, LogFile { file, length, .. }) in files.iter().enumerate() {
            let begin = if at == 0 { offset } else { 0 };
            let mut file = file.try_clone()?;
            file.seek(SeekFrom::Start(begin))?;
            let left = length.saturating_sub(begin);
            lines.files.push_back((BufReader::with_capacity(256 << 10, file.take(left)), left));
            lines.total += left;
        }
        Ok(lines)
    }

    /// The next line; `None` at the end of the last file.
    pub(super) fn next(&mut self) -> io::Result<Option<LogLine>> {
        let Some((file, left)) = self.files.front_mut() else { return Ok(None) };
        self.line.clear();
        let length = file.by_ref().take(ACCESS_LINE_BYTES_MAX as u64).read_until(b'\n', &mut self.line)?;
        self.read += length as u64;
        *left = left.saturating_sub(length as u64);
        let is_torn = self.line.last() != Some(&b'\n') && length < ACCESS_LINE_BYTES_MAX;
        if is_torn {
            // Its end, or a line that is being written.
            self.read += *left;
            self.files.pop_front();
            if !self.files.is_empty() {
                self.ends.push(0);
            }
            return Ok(Some(LogLine::Nothing));
        }
        if let Some(end) = self.ends.last_mut() {
            *end += length as u64;
        }
        Ok(Some(match decode(&self.line) {
            Ok(access) => LogLine::Access(access),
            // An empty line is what ended a torn one that was whole but for its end.
            Err(_) if self.line == b"\n" => LogLine::Nothing,
            Err(LineFault::Newer) => LogLine::Newer,
            Err(_) => LogLine::Damaged,
        }))
    }

    /// Bytes that were read, and that there are.
    pub(super) fn progress(&self) -> (u64, u64) {
        (self.read, self.total)
    }
}

struct FilesReading {
    lines: LogLines,
    since: Timestamp,
    until: Timestamp,
    met: AccessLogRead,
}

impl AccessReading for FilesReading {
    fn read_some(&mut self, bytes: u64, each: &mut dyn FnMut(Access)) -> io::Result<bool> {
        let enough = self.lines.read.saturating_add(bytes.max(1));
        while self.lines.read < enough {
            match self.lines.next()? {
                None => return Ok(false),
                Some(LogLine::Access(access)) => {
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
        Ok(!self.lines.files.is_empty())
    }

    fn progress(&self) -> (u64, u64) {
        self.lines.progress()
    }

    fn met(&self) -> AccessLogRead {
        self.met
    }
}

/// The time of the first line that can be read.
fn first_time(mut file: impl BufRead) -> io::Result<Option<Timestamp>> {
    let mut line = Vec::new();
    for _ in 0..FIRST_LINES_MAX {
        line.clear();
        if (&mut file).take(ACCESS_LINE_BYTES_MAX as u64).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if let Ok(access) = decode(&line) {
            return Ok(Some(access.at));
        }
    }
    Ok(None)
}

pub(super) fn missing_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use usage::{What, encode};

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
