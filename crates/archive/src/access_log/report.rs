//! The analysis of the log.

use std::io;

use base::{Duration, Timestamp};
use usage::{Analysis, Usage, Window};

use super::file::AccessLogRead;
use crate::{Archive, ArchiveError};

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
            Ok(AccessLogRead { damaged: 0, newer: 0 }) => {}
            Ok(AccessLogRead { damaged, newer }) => {
                troubles.push(format!("{damaged} damaged lines and {newer} of a newer kist are left out"));
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

impl Archive {
    /// What users did in the last `window`: accesses, sizes, movement, cache lifetime, for each class and in
    /// all. Reads the access log: some hundred thousand lines a second; for one caller at a time, others are
    /// told so at once, as [`UsageReport::trouble`].
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchClass`]. A log that cannot be read is [`UsageReport::trouble`].
    pub fn usage(&self, window: Duration, class: Option<&str>) -> Result<UsageReport, ArchiveError> {
        let engine = self.engine();
        if let Some(class) = class {
            engine.classes.by_name(class)?;
        }
        let Some(_reader) = engine.access.reader() else {
            let nothing = Analysis::new(Window { since: Timestamp(0), until: engine.now() }, class).end();
            let busy = io::Error::new(io::ErrorKind::ResourceBusy, "it is being read for somebody else");
            return Ok(UsageReport::of(Err(busy), nothing));
        };
        let log = engine.access.log();
        let is_flushed = engine.access.flush(FLUSH_PATIENCE);
        let until = engine.now();
        let since = Timestamp(until.0.saturating_sub(i64::try_from(window.as_nanos()).unwrap_or(i64::MAX)));
        let mut analysis = Analysis::new(Window { since, until }, class);
        // A disk that does not take the newest lines would not give the older ones either.
        let read = match log {
            Some(_) if !is_flushed => Err(io::ErrorKind::TimedOut.into()),
            Some(log) => log.read(since, until, &mut |access| analysis.add(&access)),
            None => Ok(AccessLogRead::default()),
        };
        Ok(UsageReport { is_logged: log.is_some(), ..UsageReport::of(read, analysis.end()) })
    }
}
