//! A log of statistics: lines are handed to the operating system and never synced, and a failure costs the
//! lines that it hit.

use std::fs;
use std::io;
use std::sync::PoisonError;

use base::Timestamp;
use threads::Mutex;

use crate::appender::Appender;
use crate::files::{LogFile, LogFiles};
use crate::form::TimedRecord;
use crate::lines::LogLines;

/// The log in files, which are made with the first line.
pub(crate) struct StatisticsLog<R: TimedRecord> {
    files: LogFiles<R>,
    open: Mutex<Option<Appender<R>>>,
}

impl<R: TimedRecord> StatisticsLog<R> {
    /// The log in these files.
    pub(crate) fn new(files: LogFiles<R>) -> Self {
        StatisticsLog { files, open: Mutex::new(None) }
    }

    /// Its files.
    pub(crate) fn files(&self) -> &LogFiles<R> {
        &self.files
    }

    /// Whether the next [`StatisticsLog::append`] begins a file.
    pub(crate) fn begins_file(&self) -> bool {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        match &*open {
            Some(appender) => appender.is_full(),
            None => fs::metadata(self.files.path(0))
                .map_or(true, |found| found.len() == 0 || found.len() >= self.files.bytes_max),
        }
    }

    /// Appends whole lines. If that fails the file is opened anew with the next ones, which ends half a line
    /// that may stand there.
    pub(crate) fn append(&self, lines: &str) -> io::Result<()> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let appender = match &mut *open {
            Some(appender) => appender,
            none => none.insert(Appender::open(self.files.clone())?),
        };
        let written = appender.append_lines(lines);
        if written.is_err() {
            *open = None;
        }
        written
    }

    /// The files that are there, the oldest first.
    pub(crate) fn open_files(&self) -> io::Result<Vec<LogFile>> {
        // Held so that no file changes its name between two of them; they are read afterwards.
        let _open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        self.files.open_all()
    }

    /// The lines from the beginning of the file on in which `since` falls.
    pub(crate) fn lines_since(&self, since: Timestamp) -> io::Result<LogLines<R>> {
        let files = self.open_files()?;
        let mut first = 0;
        for (at, file) in files.iter().enumerate().skip(1) {
            let begins = file.first_time::<R>()?;
            if begins.is_some_and(|begins| begins.plus(R::ORDER_SLACK) < since) {
                first = at;
            }
        }
        LogLines::new(files.get(first..).unwrap_or_default(), 0)
    }
}
