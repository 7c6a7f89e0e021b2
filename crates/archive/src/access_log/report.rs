//! Reports on what users did, and the summaries of days.

use std::io;

use base::{Duration, Timestamp};
use journal::{LINES_WINDOW_MAX, ReadingTurn, UsageReport, UsageSource, summarise_days};
use usage::{Analysis, Window};

use crate::{Archive, ArchiveError};
use tape::Tape;

/// How long an analysis waits for the newest lines.
const FLUSH_PATIENCE: Duration = Duration::from_secs(2);

/// A report in the making, of which each step takes a bounded time. While there is one nobody else reads the
/// log.
pub struct UsageReading {
    archive: Archive,
    window: Window,
    class: Option<String>,
    /// What is read; what was wrong with it once it is over.
    log: Result<UsageSource, io::Error>,
    /// It keeps others from reading.
    _turn: Option<ReadingTurn>,
}

impl UsageReading {
    /// Reads about the next [`journal::USAGE_STEP_BYTES`]; the report once all is read.
    pub fn step(&mut self) -> Option<UsageReport> {
        let (window, class) = (self.window, self.class.as_deref());
        let step = match &mut self.log {
            Ok(source) => source.step().transpose()?,
            Err(error) => Err(std::mem::replace(error, io::ErrorKind::Other.into())),
        };
        let is_logged = self.archive.0.ground.access.log().is_some();
        let (usage, read) = match step {
            Ok((usage, read)) => (usage, Ok(read)),
            Err(error) => (Analysis::new(window, class).end(), Err(error)),
        };
        self.log = Ok(UsageSource::nothing(window, class));
        Some(UsageReport { is_logged, ..UsageReport::of(read, usage) })
    }

    /// Bytes that were read, and that there are.
    #[must_use]
    pub fn progress(&self) -> (u64, u64) {
        self.log.as_ref().map_or((0, 0), UsageSource::progress)
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
        let engine = &*self.0.ground;
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
            Some(log) => UsageSource::open(log.as_ref(), window, class.as_deref(), of_days),
            None => Ok(UsageSource::nothing(window, class.as_deref())),
        };
        Ok(UsageReading { archive, window, class, log, _turn: Some(turn) })
    }
}

/// Starts a thread that writes the summaries of days that are over; `false` while somebody reads the log. It
/// is not waited for, since it changes nothing but them, and may be cut off at any time.
pub(super) fn summarise(engine: &Tape) -> bool {
    let Some(log) = engine.access.log().cloned() else { return true };
    let now = engine.now();
    let Some(turn) = engine.access.reader().begin_days() else { return false };
    let run = move || {
        if let Err(error) = summarise_days(log.as_ref(), now, || turn.is_wanted()) {
            tracing::warn!(%error, "days of the access log are not summarised");
        }
    };
    if let Err(error) = threads::spawn_guarded("access-days", run, || {}) {
        tracing::warn!(%error, "days of the access log are not summarised");
    }
    true
}
