//! The analysis of the log, in steps of which each takes a bounded time.

use std::io;

use base::{Duration, Timestamp};
use usage::{Analysis, Usage, Window};

use super::days::{DayReading, DayTotal};
use super::files::{AccessLog, AccessLogRead, AccessReading};

/// Bytes of the log that are read in one step of a report: a good tenth of a second of work, or half a second
/// of a slow machine.
pub const USAGE_STEP_BYTES: u64 = 8 << 20;
/// Of a longer time a report reads the summaries of whole days; of a shorter one lines.
pub const LINES_WINDOW_MAX: Duration = Duration::from_secs(2 * 86_400);

/// What users did, and what follows.
#[derive(Clone, PartialEq, Debug)]
pub struct UsageReport {
    /// Whether accesses are written down.
    pub is_logged: bool,
    /// What is wrong with the log, in words.
    pub trouble: Option<String>,
    /// The figures.
    pub usage: Usage,
}

impl UsageReport {
    /// What a reading of a log met, and what its lines add up to.
    #[must_use]
    pub fn of(read: io::Result<AccessLogRead>, usage: Usage) -> Self {
        let mut troubles = Vec::new();
        match read {
            Ok(AccessLogRead { damaged, newer, days_lost }) => {
                if damaged + newer > 0 {
                    troubles
                        .push(format!("{damaged} damaged lines and {newer} of a newer kist are left out"));
                }
                if days_lost > 0 {
                    troubles.push(format!(
                        "{days_lost} days are left out: their summaries are damaged, and the log does not \
                         have their lines any more"
                    ));
                }
            }
            Err(error) => troubles.push(format!("the access log cannot be read: {error}")),
        }
        if usage.dropped > 0 {
            troubles.push(format!("{} lines were not written down in time", usage.dropped));
        }
        let trouble = (!troubles.is_empty()).then(|| troubles.join("; "));
        UsageReport { is_logged: true, trouble, usage }
    }
}

/// What a report is made of, as far as it was read.
pub struct UsageSource {
    window: Window,
    class: Option<String>,
    read: Source,
}

enum Source {
    /// Nothing is written down, or all was read.
    None,
    /// The lines of the window.
    Lines(Box<dyn AccessReading>, Box<Analysis>),
    /// The days of the window, of which those that are over have summaries.
    Days(Box<DayReading>, Option<Box<DayTotal>>),
}

impl UsageSource {
    /// Without a line.
    #[must_use]
    pub fn nothing(window: Window, class: Option<&str>) -> Self {
        UsageSource { window, class: class.map(str::to_owned), read: Source::None }
    }

    /// The lines of `window`, or with `of_days` the summaries of its days, if the log keeps any.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn open(log: &dyn AccessLog, window: Window, class: Option<&str>, of_days: bool) -> io::Result<Self> {
        let days = if of_days { log.open_days() } else { None };
        let read = match days {
            Some(days) => Source::Days(Box::new(days?), None),
            None => {
                let lines = log.open(window.since, window.until)?;
                Source::Lines(lines, Box::new(Analysis::new(window, class)))
            }
        };
        Ok(UsageSource { window, class: class.map(str::to_owned), read })
    }

    /// Reads about the next [`USAGE_STEP_BYTES`]; the figures once all is read.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn step(&mut self) -> io::Result<Option<(Usage, AccessLogRead)>> {
        let (window, class) = (self.window, self.class.as_deref());
        let read = self.read.step(window, class);
        if !matches!(read, Ok(None)) {
            self.read = Source::None;
        }
        read
    }

    /// Bytes that were read, and that there are.
    #[must_use]
    pub fn progress(&self) -> (u64, u64) {
        match &self.read {
            Source::Lines(log, _) => log.progress(),
            Source::Days(days, _) => days.progress(),
            Source::None => (0, 0),
        }
    }
}

impl Source {
    /// The figures once all is read.
    fn step(&mut self, window: Window, class: Option<&str>) -> io::Result<Option<(Usage, AccessLogRead)>> {
        match self {
            Source::None => Ok(Some((Analysis::new(window, class).end(), AccessLogRead::default()))),
            Source::Lines(log, analysis) => {
                if log.read_some(USAGE_STEP_BYTES, &mut |access| analysis.add(&access))? {
                    return Ok(None);
                }
                let analysis = std::mem::replace(&mut **analysis, Analysis::new(window, class));
                Ok(Some((analysis.end(), log.met())))
            }
            Source::Days(days, total) => {
                if total.is_none() {
                    if !days.read_some(USAGE_STEP_BYTES, window.until)? {
                        *total = Some(Box::new(days.begin_total(window, class)));
                    }
                    return Ok(None);
                }
                let Some(of) = total else { return Ok(None) };
                let added = days.add_some(of)?;
                if added.is_none() && days.has_lines() {
                    // A summary was damaged, and its day is made anew.
                    *total = None;
                }
                Ok(added)
            }
        }
    }
}

/// Writes the summaries of the days that are over at `now`, unless `is_wanted` says that somebody waits for
/// the log.
///
/// # Errors
/// If the log cannot be read, or a summary cannot be written.
pub fn summarise_days(log: &dyn AccessLog, now: Timestamp, is_wanted: impl Fn() -> bool) -> io::Result<()> {
    let Some(days) = log.open_days() else { return Ok(()) };
    let mut days = days?;
    while !is_wanted() && days.read_some(USAGE_STEP_BYTES, now)? {}
    Ok(())
}
