//! When suspect tapes are tried again.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use base::{Timestamp, Vid};
use threads::{Mutex, MutexGuard};

/// When each suspect tape that is tried again by itself is due, as its record has it; and which tapes dropped
/// out of their drives.
#[derive(Default)]
pub(crate) struct TapeRetries {
    due: Mutex<BTreeMap<Vid, Timestamp>>,
    dropped_out: Mutex<BTreeMap<Vid, u32>>,
}

impl TapeRetries {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Vid, Timestamp>> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A tape is gone from the drive in which it was opened: so many times in a row now.
    pub(crate) fn dropped_out(&self, vid: Vid) -> u32 {
        let mut dropped_out = self.dropped_out.lock().unwrap_or_else(PoisonError::into_inner);
        let times = dropped_out.entry(vid).or_default();
        *times = times.saturating_add(1);
        *times
    }

    /// A session on the tape went well.
    pub(crate) fn stayed(&self, vid: Vid) {
        self.dropped_out.lock().unwrap_or_else(PoisonError::into_inner).remove(&vid);
    }

    /// `None`: it is not tried again by itself. Gives whether it was to be.
    pub(crate) fn set(&self, vid: Vid, retry: Option<Timestamp>) -> bool {
        let mut retries = self.lock();
        match retry {
            Some(at) => retries.insert(vid, at).is_some(),
            None => retries.remove(&vid).is_some(),
        }
    }

    /// Whether a tape is tried again by itself, now or later.
    pub(crate) fn has(&self, vid: Vid) -> bool {
        self.lock().contains_key(&vid)
    }

    /// Whether a tape has rested long enough.
    pub(crate) fn is_due(&self, vid: Vid, now: Timestamp) -> bool {
        self.lock().get(&vid).is_some_and(|at| *at <= now)
    }

    /// Those that have.
    pub(crate) fn due(&self, now: Timestamp) -> Vec<Vid> {
        self.lock().iter().filter(|(_, at)| **at <= now).map(|(vid, _)| *vid).collect()
    }
}
