//! The count of a command over many items.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use terminal::{Exit, Failure, Outcome, output, text};

/// Failures that are shown; more are only counted.
const FAILURES_SHOWN_MAX: usize = 20;

/// Failures whose paths and reasons are kept for `--json`.
const FAILURES_KEPT_MAX: usize = 10_000;

/// What became of the items of one command; shared by its threads.
#[derive(Debug, Default)]
pub struct Tally {
    /// Items done.
    pub done: AtomicU64,
    /// Their bytes.
    pub bytes: AtomicU64,
    /// Items that were there already.
    pub skipped: AtomicU64,
    /// Items done that took the name of an older version.
    pub replaced: AtomicU64,
    /// Set when all that follows would fail too.
    pub stop: AtomicBool,
    failures: Mutex<Failures>,
}

#[derive(Debug, Default)]
struct Failures {
    count: u64,
    kept: Vec<(String, String)>,
    first: Option<Failure>,
    /// Not all failed in the same way.
    is_mixed: bool,
    differs: bool,
    hopeless: Option<Failure>,
}

impl Tally {
    /// Counts an item that is done.
    pub fn add_done(&self, bytes: u64) {
        self.done.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts items that are done.
    pub fn add_all_done(&self, items: u64, bytes: u64) {
        self.done.fetch_add(items, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts an item that needs nothing.
    pub fn add_skipped(&self) {
        self.skipped.fetch_add(1, Ordering::Relaxed);
    }

    /// Says of an item that is done that it took the name of an older version.
    pub fn add_replaced(&self) {
        self.replaced.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts and shows a failure on standard error.
    pub fn add_failure(&self, what: &str, failure: Failure) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.count += 1;
        failures.differs |= failure.exit == Exit::Differs;
        if failures.kept.len() < FAILURES_KEPT_MAX {
            failures.kept.push((what.to_owned(), failure.message.clone()));
        }
        if failure.is_hopeless() {
            self.stop.store(true, Ordering::Relaxed);
            failures.hopeless.get_or_insert_with(|| failure.clone());
        } else if failures.count as usize <= FAILURES_SHOWN_MAX {
            let text = if failure.message.contains(what) { String::new() } else { format!("{what}: ") };
            output::note(&format!("kist: {text}{failure}"));
        } else if failures.count as usize == FAILURES_SHOWN_MAX + 1 {
            output::note("kist: more failures follow and are only counted");
        }
        failures.is_mixed |= failures.first.as_ref().is_some_and(|first| first.exit != failure.exit);
        failures.first.get_or_insert(failure);
    }

    /// Items done.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Their bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Items that were there already.
    pub fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    /// Items done that took the name of an older version.
    pub fn replaced(&self) -> u64 {
        self.replaced.load(Ordering::Relaxed)
    }

    /// Items that failed.
    pub fn failed(&self) -> u64 {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).count
    }

    /// The first 10,000 failures as JSON: `path` and `reason` each.
    pub fn failures_json(&self) -> serde_json::Value {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let value = |(path, reason): &(String, String)| serde_json::json!({ "path": path, "reason": reason });
        failures.kept.iter().map(value).collect()
    }

    /// Whether something stopped the command before anything was done, so that there are no counts to tell.
    pub fn did_nothing(&self) -> bool {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.hopeless.is_some() && self.done() + self.skipped() == 0
    }

    /// The counts of a transfer as JSON.
    pub fn json(&self, elapsed: Duration) -> serde_json::Value {
        serde_json::json!({
            "files": self.done(),
            "bytes": self.bytes(),
            "skipped": self.skipped(),
            "replaced": self.replaced(),
            "failed": self.failed(),
            "failures": self.failures_json(),
            "seconds": elapsed.as_secs_f64(),
        })
    }

    /// The end of a command over `total` items: what stopped it, or how many failed.
    pub fn outcome(&self, total: usize) -> Outcome {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(first) = &failures.first else { return Ok(()) };
        if let Some(hopeless) = &failures.hopeless {
            return Err(hopeless.clone());
        }
        let exit = match () {
            () if failures.differs => Exit::Differs,
            () if failures.count >= total as u64 && !failures.is_mixed => first.exit,
            () => Exit::SomeFailed,
        };
        Err(Failure::new(exit, format!("{} failed", text::plural(failures.count, "item"))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_decides_the_code() {
        let exit = |failures: &[Exit], total| {
            let tally = Tally::default();
            failures.iter().for_each(|exit| tally.add_failure("x", Failure::new(*exit, "because")));
            tally.outcome(total).err().map(|failure| failure.exit)
        };
        assert_eq!(exit(&[], 3), None);
        assert_eq!(exit(&[Exit::Refused], 1), Some(Exit::Refused));
        assert_eq!(exit(&[Exit::Refused], 2), Some(Exit::SomeFailed));
        // Story: an evict of which all was refused ended with 4, a put with 1.
        assert_eq!(exit(&[Exit::Refused, Exit::Refused], 2), Some(Exit::Refused));
        assert_eq!(exit(&[Exit::Refused, Exit::NotFound], 2), Some(Exit::SomeFailed));
        assert_eq!(exit(&[Exit::Refused, Exit::Differs], 5), Some(Exit::Differs));
        assert_eq!(exit(&[Exit::Differs, Exit::Unreachable], 5), Some(Exit::Unreachable));
    }
}
