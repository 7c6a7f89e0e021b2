//! The mounts of the last months in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use base::{Duration, Timestamp};
use journal::{MountLog, MountRecord};
use threads::{Mutex, MutexGuard};

use super::sample::MountSample;
use super::verdict::{HealthReport, HealthRules};

/// Mounts that ended longer ago say nothing of a drive's or a tape's health now: 90 days.
const WINDOW: Duration = Duration::from_secs(90 * 86_400);
/// The newest so many mounts count: some 10 MB.
const SAMPLES_MAX: usize = 20_000;
/// A report is made anew after so long, since mounts leave the window.
const REPORT_AGE_MAX: Duration = Duration::from_secs(3600);

/// Mounts by when they ended, and what they say. It is filled from the log when somebody asks first.
#[derive(Default)]
pub(crate) struct HealthBook(Mutex<Book>);

#[derive(Default)]
struct Book {
    is_read: bool,
    samples: BTreeMap<(Timestamp, String), MountSample>,
    report: Option<(Timestamp, Arc<HealthReport>)>,
}

impl HealthBook {
    fn lock(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A mount is over. No log is read here: a drive's thread waits for nothing.
    pub(crate) fn add(&self, record: &MountRecord) {
        if let Some(sample) = MountSample::of(record) {
            self.lock().add(sample);
        }
    }

    /// Reads the log unless it was read already; one that cannot be read is tried again the next time. Mounts
    /// that end meanwhile are found in both places, and count once.
    fn fill(&self, log: &dyn MountLog, now: Timestamp) {
        if self.lock().is_read {
            return;
        }
        let mut found = BTreeMap::new();
        let read = log.read(window_begin(now), &mut |record| {
            if let Some(sample) = MountSample::of(&record) {
                found.insert((sample.ended, sample.drive.clone()), sample);
                if found.len() > SAMPLES_MAX {
                    found.pop_first();
                }
            }
        });
        let mut book = self.lock();
        found.into_values().for_each(|sample| book.add(sample));
        book.is_read |= read.is_ok();
    }

    /// What the mounts of the last months say.
    pub(crate) fn report(&self, log: &dyn MountLog, now: Timestamp) -> Arc<HealthReport> {
        self.fill(log, now);
        let mut book = self.lock();
        if let Some((at, report)) = &book.report
            && *at <= now
            && now.since(*at) < REPORT_AGE_MAX
        {
            return Arc::clone(report);
        }
        let samples: Vec<&MountSample> =
            book.samples.range((window_begin(now), String::new())..).map(|(_, sample)| sample).collect();
        let report = Arc::new(HealthReport::of(&samples, &HealthRules::default()));
        book.report = Some((now, Arc::clone(&report)));
        report
    }

    /// The last mounts of a drive, the newest first.
    pub(crate) fn last_of_drive(
        &self,
        log: &dyn MountLog,
        now: Timestamp,
        drive: &str,
        most: usize,
    ) -> Vec<MountSample> {
        self.fill(log, now);
        let book = self.lock();
        let own = book.samples.values().rev().filter(|sample| sample.drive == drive);
        own.take(most).cloned().collect()
    }
}

impl Book {
    fn add(&mut self, sample: MountSample) {
        self.report = None;
        self.samples.insert((sample.ended, sample.drive.clone()), sample);
        while self.samples.len() > SAMPLES_MAX {
            self.samples.pop_first();
        }
    }
}

fn window_begin(now: Timestamp) -> Timestamp {
    Timestamp(now.0.saturating_sub(i64::try_from(WINDOW.as_nanos()).unwrap_or(i64::MAX)))
}
