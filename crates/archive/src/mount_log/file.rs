//! The mount log as files in a directory.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use base::Timestamp;
use threads::Mutex;

use super::line::{LINE_BYTES_MAX, LineFault, decode, encode};
use super::record::MountRecord;

/// A file of this length is closed and a new one begun.
pub const MOUNT_LOG_BYTES_MAX: u64 = 4 << 20;
/// Files kept, the one that grows included: with some 600 bytes a mount more than 50,000 mounts.
pub const MOUNT_LOG_FILES_MAX: u32 = 8;

/// Where mounts are written down, and read from for reports.
///
/// Statistics, no truth: what is lost here costs nothing but figures, so nothing here may fail a session.
pub trait MountLog: Send + Sync {
    /// Writes down one mount. Not durable; what cannot be written is told in the server's log, once.
    fn record(&self, record: &MountRecord);

    /// Gives the mounts whose newest time is not before `since`, in any order.
    ///
    /// # Errors
    /// If the log cannot be read.
    fn read(&self, since: Timestamp, each: &mut dyn FnMut(MountRecord)) -> io::Result<MountLogRead>;
}

/// What a reading of the log met.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MountLogRead {
    /// Lines that are damaged.
    pub damaged: u64,
    /// Lines that a newer Kist has written.
    pub newer: u64,
}

/// The log in files: `mounts.log`, and the older ones `mounts.1.log` to `mounts.7.log`.
pub struct MountLogFiles {
    directory: PathBuf,
    bytes_max: u64,
    files_max: u32,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The file that grows, and its length.
    open: Option<(File, u64)>,
    /// Whether it was told that writing fails.
    told: bool,
}

impl MountLogFiles {
    /// The log in `directory`, which is made with the first record.
    #[must_use]
    pub fn new(directory: &Path) -> Self {
        MountLogFiles::with_limits(directory, MOUNT_LOG_BYTES_MAX, MOUNT_LOG_FILES_MAX)
    }

    /// As [`MountLogFiles::new`], with files of `bytes_max` bytes, `files_max` of them.
    #[must_use]
    pub fn with_limits(directory: &Path, bytes_max: u64, files_max: u32) -> Self {
        assert!(files_max > 0, "a log has a file");
        MountLogFiles { directory: directory.to_owned(), bytes_max, files_max, state: Mutex::default() }
    }

    fn path(&self, age: u32) -> PathBuf {
        let name = if age == 0 { "mounts.log".to_owned() } else { format!("mounts.{age}.log") };
        self.directory.join(name)
    }

    fn append(&self, state: &mut State, line: &str) -> io::Result<()> {
        if state.open.as_ref().is_some_and(|(_, length)| *length >= self.bytes_max) {
            state.open = None;
            self.rotate()?;
        }
        let (file, length) = match &mut state.open {
            Some(open) => open,
            none => none.insert(self.open()?),
        };
        file.write_all(line.as_bytes())?;
        *length += line.len() as u64;
        Ok(())
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
}

impl MountLog for MountLogFiles {
    fn record(&self, record: &MountRecord) {
        let line = encode(record);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match self.append(&mut state, &line) {
            Ok(()) => state.told = false,
            Err(error) => {
                // Half a line may stand there: it is opened anew, which ends that line.
                state.open = None;
                if !std::mem::replace(&mut state.told, true) {
                    let directory = self.directory.display();
                    tracing::error!(%directory, %error, "mounts are not written down");
                }
            }
        }
    }

    fn read(&self, since: Timestamp, each: &mut dyn FnMut(MountRecord)) -> io::Result<MountLogRead> {
        let mut files = Vec::new();
        {
            // Held so that no file changes its name between two of them; they are read afterwards.
            let _state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            for age in 0..self.files_max {
                match File::open(self.path(age)) {
                    Ok(file) => files.push((file.metadata()?.len(), file)),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
        }
        let mut met = MountLogRead::default();
        for (length, file) in files {
            if !read_file(BufReader::new(file.take(length)), since, each, &mut met)? {
                break;
            }
        }
        Ok(met)
    }
}

/// Gives the records of one file; whether older files may hold wanted ones too.
fn read_file(
    mut file: impl BufRead,
    since: Timestamp,
    each: &mut dyn FnMut(MountRecord),
    met: &mut MountLogRead,
) -> io::Result<bool> {
    let (mut line, mut first) = (Vec::new(), None);
    loop {
        line.clear();
        let length = (&mut file).take(LINE_BYTES_MAX as u64).read_until(b'\n', &mut line)?;
        if length == 0 {
            // Mounts are written down when they end, so this file's first one ended before all others in it.
            return Ok(first.is_none_or(|first| first >= since));
        }
        let Some(record) = line.strip_suffix(b"\n") else {
            // Torn, or still being written.
            met.damaged += u64::from(length == LINE_BYTES_MAX);
            continue;
        };
        match decode(record) {
            Ok(record) => {
                first = first.or(Some(record.newest()));
                if record.newest() >= since {
                    each(record);
                }
            }
            Err(LineFault::Newer) => met.newer += 1,
            Err(LineFault::Damaged) => met.damaged += u64::from(!record.is_empty()),
        }
    }
}

fn missing_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::super::line::tests::sample;
    use super::*;

    fn numbered(number: i64) -> MountRecord {
        let mut record = sample();
        record.sessions.clear();
        record.unmounted = Some(Timestamp(number + 2_000_000_000_000_000_000));
        record
    }

    fn since(log: &MountLogFiles, number: i64) -> (Vec<i64>, MountLogRead) {
        let mut found = Vec::new();
        let from = Timestamp(number + 2_000_000_000_000_000_000);
        let met = log.read(from, &mut |record| found.push(record.newest().0 - 2_000_000_000_000_000_000));
        found.sort_unstable();
        (found, met.unwrap())
    }

    #[test]
    fn files_are_rotated_and_the_oldest_go() {
        let directory = tempfile::tempdir().unwrap();
        let below = directory.path().join("log");
        let length = encode(&numbered(0)).len() as u64;
        let log = MountLogFiles::with_limits(&below, 2 * length, 3);
        assert_eq!(since(&log, 0).0, Vec::<i64>::new(), "a log that nobody wrote to is empty");
        for number in 0..9 {
            log.record(&numbered(number));
        }
        // Two a file: 8, then 6 and 7, then 4 and 5.
        assert_eq!(since(&log, 0).0, [4, 5, 6, 7, 8]);
        assert_eq!(since(&log, 7).0, [7, 8]);
        assert_eq!(fs::read_dir(&below).unwrap().count(), 3);
        drop(log);
        // Another process goes on where the first one stopped.
        let log = MountLogFiles::with_limits(&below, 2 * length, 3);
        log.record(&numbered(9));
        log.record(&numbered(10));
        assert_eq!(since(&log, 0).0, [6, 7, 8, 9, 10]);
    }

    #[test]
    fn a_torn_last_line_is_passed_over_and_spoils_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mounts.log");
        let log = MountLogFiles::new(directory.path());
        log.record(&numbered(1));
        drop(log);
        let whole = fs::read(&path).unwrap();
        let torn = encode(&numbered(2));
        for cut in [1, torn.len() / 2, torn.len() - 1] {
            fs::write(&path, [&whole, &torn.as_bytes()[..cut]].concat()).unwrap();
            let log = MountLogFiles::new(directory.path());
            assert_eq!(since(&log, 0), (vec![1], MountLogRead::default()), "cut at {cut}");
            log.record(&numbered(3));
            // The whole line but its line feed became one by the next record.
            let expected = if cut == torn.len() - 1 { vec![1, 2, 3] } else { vec![1, 3] };
            let damaged = u64::from(cut < torn.len() - 1);
            assert_eq!(since(&log, 0), (expected, MountLogRead { damaged, newer: 0 }), "cut at {cut}");
        }
    }

    #[test]
    fn damage_costs_its_own_line() {
        let directory = tempfile::tempdir().unwrap();
        let log = MountLogFiles::new(directory.path());
        (1..=3).for_each(|number| log.record(&numbered(number)));
        let path = directory.path().join("mounts.log");
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 4;
        fs::write(&path, &bytes).unwrap();
        assert_eq!(since(&log, 0), (vec![1, 3], MountLogRead { damaged: 1, newer: 0 }));
    }

    /// A full disk must not stop a session, and is not told of with every mount.
    #[test]
    fn what_cannot_be_written_is_left_out_until_it_can_be() {
        let directory = tempfile::tempdir().unwrap();
        let below = directory.path().join("log");
        // A file where the directory should be: every write fails.
        fs::write(&below, b"in the way").unwrap();
        let log = MountLogFiles::new(&below);
        log.record(&numbered(1));
        assert!(log.state.lock().unwrap().told);
        fs::remove_file(&below).unwrap();
        log.record(&numbered(2));
        assert!(!log.state.lock().unwrap().told, "the next trouble is told again");
        assert_eq!(since(&log, 0).0, [2]);
    }
}
