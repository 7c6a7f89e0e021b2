//! The analysis of the log.

use std::io;

use base::{Duration, Timestamp};
use usage::{Analysis, Usage, Window};

use super::days::{DayReading, DayTotal};
use super::file::{AccessLog, AccessLogRead, AccessReading};
use super::queue::ReadingTurn;
use crate::engine::Engine;
use crate::{Archive, ArchiveError};

/// Bytes of the log that are read in one step of a report: a good tenth of a second of work, or half a second
/// of a slow machine.
pub const USAGE_STEP_BYTES: u64 = 8 << 20;
/// Of a longer time a report reads the summaries of whole days; of a shorter one lines.
pub const LINES_WINDOW_MAX: Duration = Duration::from_secs(2 * 86_400);
/// How long an analysis waits for the newest lines.
const FLUSH_PATIENCE: Duration = Duration::from_secs(2);

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

/// A report in the making, of which each step takes a bounded time. While there is one nobody else reads the
/// log.
pub struct UsageReading {
    archive: Archive,
    window: Window,
    class: Option<String>,
    /// What is read; what was wrong with it once it is over.
    log: Result<Source, io::Error>,
    /// It keeps others from reading.
    _turn: Option<ReadingTurn>,
}

/// What a report is made of.
enum Source {
    /// Nothing is written down.
    None,
    /// The lines of the window.
    Lines(Box<dyn AccessReading>, Box<Analysis>),
    /// The days of the window, of which those that are over have summaries.
    Days(Box<DayReading>, Option<Box<DayTotal>>),
}

impl UsageReading {
    /// Reads about the next [`USAGE_STEP_BYTES`]; the report once all is read.
    pub fn step(&mut self) -> Option<UsageReport> {
        let (window, class) = (self.window, self.class.as_deref());
        let step = match &mut self.log {
            Ok(source) => source.step(window, class).transpose()?,
            Err(error) => Err(std::mem::replace(error, io::ErrorKind::Other.into())),
        };
        let is_logged = self.archive.engine().access.log().is_some();
        let (usage, read) = match step {
            Ok((usage, read)) => (usage, Ok(read)),
            Err(error) => (Analysis::new(window, class).end(), Err(error)),
        };
        self.log = Ok(Source::None);
        Some(UsageReport { is_logged, ..UsageReport::of(read, usage) })
    }

    /// Bytes that were read, and that there are.
    #[must_use]
    pub fn progress(&self) -> (u64, u64) {
        match &self.log {
            Ok(Source::Lines(log, _)) => log.progress(),
            Ok(Source::Days(days, _)) => days.progress(),
            _ => (0, 0),
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

impl Archive {
    /// What users did in the last `window`: accesses, sizes, movement, cache lifetime, for each class and in
    /// all. Of more than [`LINES_WINDOW_MAX`] those are whole days, the first one included, and of days that
    /// are over summaries are read. Else reads the access log: some hundred thousand lines a second. For one
    /// caller at a time, others are told so at once, as [`UsageReport::trouble`].
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchClass`]. A log that cannot be read is [`UsageReport::trouble`].
    pub fn usage(&self, window: Duration, class: Option<&str>) -> Result<UsageReport, ArchiveError> {
        let mut reading = self.begin_usage(window, class)?;
        loop {
            if let Some(report) = reading.step() {
                return Ok(report);
            }
        }
    }

    /// The same in steps, so that nobody has to do all of it at once.
    ///
    /// # Errors
    /// As [`Archive::usage`].
    pub fn begin_usage(&self, window: Duration, class: Option<&str>) -> Result<UsageReading, ArchiveError> {
        let engine = self.engine();
        if let Some(class) = class {
            engine.classes.by_name(class)?;
        }
        let (archive, class) = (self.clone(), class.map(str::to_owned));
        let Some(turn) = engine.access.reader().begin_report() else {
            let window = Window { since: Timestamp(0), until: engine.now() };
            let busy = io::Error::new(io::ErrorKind::ResourceBusy, "it is being read for somebody else");
            return Ok(UsageReading { archive, window, class, log: Err(busy), _turn: None });
        };
        let is_flushed = engine.access.flush(FLUSH_PATIENCE);
        let until = engine.now();
        let since = Timestamp(until.0.saturating_sub(i64::try_from(window.as_nanos()).unwrap_or(i64::MAX)));
        let of_days = window > LINES_WINDOW_MAX;
        let window = Window { since, until };
        // A disk that does not take the newest lines would not give the older ones either.
        let log = match engine.access.log() {
            Some(_) if !is_flushed => Err(io::ErrorKind::TimedOut.into()),
            Some(log) => open(log.as_ref(), window, class.as_deref(), of_days),
            None => Ok(Source::None),
        };
        Ok(UsageReading { archive, window, class, log, _turn: Some(turn) })
    }
}

fn open(log: &dyn AccessLog, window: Window, class: Option<&str>, of_days: bool) -> io::Result<Source> {
    if of_days && let Some(days) = log.open_days() {
        return Ok(Source::Days(Box::new(days?), None));
    }
    let lines = log.open(window.since, window.until)?;
    Ok(Source::Lines(lines, Box::new(Analysis::new(window, class))))
}

/// Starts a thread that writes the summaries of days that are over; `false` while somebody reads the log. It
/// is not waited for, since it changes nothing but them, and may be cut off at any time.
pub(super) fn summarise(engine: &Engine) -> bool {
    let Some(log) = engine.access.log().cloned() else { return true };
    let now = engine.now();
    let Some(turn) = engine.access.reader().begin_days() else { return false };
    let run = move || {
        if let Err(error) = read_days(log.as_ref(), now, || turn.is_wanted()) {
            tracing::warn!(%error, "days of the access log are not summarised");
        }
    };
    if let Err(error) = threads::spawn_guarded("access-days", run, || {}) {
        tracing::warn!(%error, "days of the access log are not summarised");
    }
    true
}

fn read_days(log: &dyn AccessLog, now: Timestamp, is_wanted: impl Fn() -> bool) -> io::Result<()> {
    let Some(days) = log.open_days() else { return Ok(()) };
    let mut days = days?;
    while !is_wanted() && days.read_some(USAGE_STEP_BYTES, now)? {}
    Ok(())
}
