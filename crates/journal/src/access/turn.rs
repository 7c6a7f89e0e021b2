//! Who reads the access log: one at a time.

use std::sync::{Arc, PoisonError};

use base::Duration;
use threads::{Condvar, Mutex, MutexGuard};

/// How long a report waits for the summaries of days, which stop after a step of theirs.
const READER_PATIENCE: Duration = Duration::from_secs(10);

/// Who reads the log: one at a time, since it takes a while, and memory. Days are summarised by a thread of
/// their own, which gives way to a report.
#[derive(Default)]
pub struct LogReader {
    state: Mutex<Reading>,
    changed: Condvar,
}

/// Somebody's turn to read the log: it is over when this is dropped, whatever became of the reader.
pub struct ReadingTurn(Arc<LogReader>);

impl ReadingTurn {
    /// Whether somebody waits for it to end.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        *self.0.lock() == Reading::DaysForReport
    }
}

impl Drop for ReadingTurn {
    fn drop(&mut self) {
        *self.0.lock() = Reading::Nobody;
        self.0.changed.notify_all();
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Reading {
    #[default]
    Nobody,
    Report,
    Days,
    /// A report waits for the days to stop.
    DaysForReport,
}

impl LogReader {
    fn lock(&self) -> MutexGuard<'_, Reading> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For a report; nothing if another one reads. Days stop after a step of theirs.
    #[must_use]
    pub fn begin_report(self: &Arc<Self>) -> Option<ReadingTurn> {
        let mut state = self.lock();
        if *state == Reading::Days {
            *state = Reading::DaysForReport;
            while *state == Reading::DaysForReport {
                let (again, waited) =
                    self.changed.wait_timeout(state, READER_PATIENCE).unwrap_or_else(PoisonError::into_inner);
                state = again;
                if waited.timed_out() && *state == Reading::DaysForReport {
                    *state = Reading::Days;
                    return None;
                }
            }
        }
        self.begin(&mut state, Reading::Report)
    }

    /// For summaries of days; nothing if somebody reads.
    #[must_use]
    pub fn begin_days(self: &Arc<Self>) -> Option<ReadingTurn> {
        self.begin(&mut self.lock(), Reading::Days)
    }

    fn begin(self: &Arc<Self>, state: &mut Reading, who: Reading) -> Option<ReadingTurn> {
        if *state != Reading::Nobody {
            return None;
        }
        *state = who;
        Some(ReadingTurn(Arc::clone(self)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever read the log gave it free by hand; one that panicked kept it from all others.
    #[test]
    fn a_reader_that_panics_leaves_the_log_to_others() {
        let reader = Arc::new(LogReader::default());
        let turn = reader.begin_days().unwrap();
        assert!(reader.begin_days().is_none() && !turn.is_wanted());
        let reads = std::thread::spawn(move || {
            let _turn = turn;
            panic!("a damaged summary");
        });
        assert!(reads.join().is_err());
        let report = reader.begin_report();
        assert!(report.is_some() && reader.begin_report().is_none() && reader.begin_days().is_none());
        drop(report);
        assert!(reader.begin_days().is_some());
    }
}
