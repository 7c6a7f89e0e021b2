//! How well tapes and drives ran, and how long what waits has waited.

use base::{Duration, Timestamp};
use journal::{MountLogRead, MountReport, ReportBy, ReportRow};

use crate::ages::{self, QueueAge};
use crate::track::Mounts;
use ground::{ArchiveError, Ground};

/// The report.
#[derive(Clone, PartialEq, Debug)]
pub struct TapeReport {
    /// Mounts that ended from this time on ...
    pub since: Timestamp,
    /// ... until this one, or go on.
    pub until: Timestamp,
    /// What the rows are.
    pub by: ReportBy,
    /// Whether mounts are written down at all.
    pub is_logged: bool,
    /// What is wrong with the log, if anything.
    pub trouble: Option<String>,
    /// By name.
    pub rows: Vec<ReportRow>,
    /// Of all.
    pub total: ReportRow,
    /// How long what waits now has waited.
    pub ages: Vec<QueueAge>,
}

/// How drives and tapes ran in the last `window`, and how long what waits now has waited. Reads the mount
/// log: some ten thousand mounts a second.
///
/// # Errors
/// If the catalogue cannot be read. A log that cannot be read is [`TapeReport::trouble`].
pub fn report(
    ground: &Ground,
    mounts: &Mounts,
    window: Duration,
    by: ReportBy,
) -> Result<TapeReport, ArchiveError> {
    let until = ground.now();
    let since = Timestamp(until.0.saturating_sub(i64::try_from(window.as_nanos()).unwrap_or(i64::MAX)));
    let mut report = MountReport::new(by, since, until);
    // First those that go on: one that ends afterwards stands in the log with a time after `until`, and
    // does not count twice.
    mounts.live().iter().for_each(|record| report.add(record));
    let read = mounts.log().map(|log| log.read(since, &mut |record| report.add(&record)));
    let trouble = match read {
        Some(Ok(MountLogRead { damaged: 0, newer: 0 })) | None => None,
        Some(Ok(MountLogRead { damaged, newer })) => {
            Some(format!("{damaged} damaged mounts and {newer} that a newer kist has written are left out"))
        }
        Some(Err(error)) => Some(format!("the log of mounts cannot be read: {error}")),
    };
    let (rows, total) = report.end();
    let ages = ages::all(ground, until)?;
    let is_logged = mounts.log().is_some();
    Ok(TapeReport { since, until, by, is_logged, trouble, rows, total, ages })
}
