//! The mount log as files in a directory.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use base::Timestamp;

use super::record::MountRecord;
use crate::files::LogFiles;
use crate::line::encode;
use crate::lines::LogLine;
use crate::statistics::StatisticsLog;

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
    log: StatisticsLog<MountRecord>,
    /// Whether it was told that writing fails.
    told: AtomicBool,
}

impl MountLogFiles {
    /// The log in `directory`, which is made with the first record.
    #[must_use]
    pub fn new(directory: &Path) -> Self {
        MountLogFiles::of(LogFiles::new(directory))
    }

    /// As [`MountLogFiles::new`], with files of `bytes_max` bytes, `files_max` of them.
    #[must_use]
    pub fn with_limits(directory: &Path, bytes_max: u64, files_max: u32) -> Self {
        MountLogFiles::of(LogFiles::with_limits(directory, bytes_max, files_max))
    }

    fn of(files: LogFiles<MountRecord>) -> Self {
        MountLogFiles { log: StatisticsLog::new(files), told: AtomicBool::new(false) }
    }
}

impl MountLog for MountLogFiles {
    fn record(&self, record: &MountRecord) {
        let mut line = String::new();
        encode(record, &mut line);
        match self.log.append(&line) {
            Ok(()) => self.told.store(false, Ordering::Relaxed),
            Err(error) => {
                if !self.told.swap(true, Ordering::Relaxed) {
                    let directory = self.log.files().directory().display();
                    tracing::error!(%directory, %error, "mounts are not written down");
                }
            }
        }
    }

    fn read(&self, since: Timestamp, each: &mut dyn FnMut(MountRecord)) -> io::Result<MountLogRead> {
        let mut met = MountLogRead::default();
        let mut lines = self.log.lines_since(since)?;
        while let Some(line) = lines.next_line()? {
            match line {
                LogLine::Record(record) if record.newest() >= since => each(record),
                LogLine::Newer => met.newer += 1,
                LogLine::Damaged => met.damaged += 1,
                LogLine::Record(_) | LogLine::Nothing => {}
            }
        }
        Ok(met)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::line::tests::sample;
    use super::*;

    fn encode(record: &MountRecord) -> String {
        let mut line = String::new();
        super::encode(record, &mut line);
        line
    }

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
        assert!(log.told.load(Ordering::Relaxed));
        fs::remove_file(&below).unwrap();
        log.record(&numbered(2));
        assert!(!log.told.load(Ordering::Relaxed), "the next trouble is told again");
        assert_eq!(since(&log, 0).0, [2]);
    }
}
