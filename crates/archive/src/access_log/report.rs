//! The analysis of the log.

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

impl Archive {
    /// What users did in the last `window`: accesses, sizes, movement, cache lifetime, for each class and in
    /// all. Reads the access log: some hundred thousand lines a second.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchClass`]. A log that cannot be read is [`UsageReport::trouble`].
    pub fn usage(&self, window: Duration, class: Option<&str>) -> Result<UsageReport, ArchiveError> {
        let engine = self.engine();
        if let Some(class) = class {
            engine.classes.by_name(class)?;
        }
        let is_flushed = engine.access.flush(FLUSH_PATIENCE);
        let until = engine.now();
        let since = Timestamp(until.0.saturating_sub(i64::try_from(window.as_nanos()).unwrap_or(i64::MAX)));
        let mut analysis = Analysis::new(Window { since, until }, class);
        let read = engine.access.log().map(|log| log.read(since, until, &mut |access| analysis.add(&access)));
        let mut troubles = Vec::new();
        match read {
            Some(Ok(AccessLogRead { damaged: 0, newer: 0 })) | None => {}
            Some(Ok(AccessLogRead { damaged, newer })) => {
                troubles.push(format!("{damaged} damaged lines and {newer} of a newer kist are left out"))
            }
            Some(Err(error)) => troubles.push(format!("the access log cannot be read: {error}")),
        }
        if !is_flushed {
            troubles.push("the disk of the log does not answer: the newest lines are missing".to_owned());
        }
        let usage = analysis.end();
        if usage.dropped > 0 {
            troubles.push(format!("{} lines were not written down in time", usage.dropped));
        }
        let trouble = (!troubles.is_empty()).then(|| troubles.join("; "));
        Ok(UsageReport { is_logged: engine.access.log().is_some(), trouble, usage })
    }
}
