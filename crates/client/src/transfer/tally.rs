//! The count of a command over many items.

use std::collections::BTreeMap;
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
    /// Words of the archive as a whole that were shown, and whether it was said that more follow.
    said: BTreeMap<String, bool>,
}

/// How a failure is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shown {
    Whole,
    /// That others have a reason which was told.
    SameAgain,
    /// That there are more.
    MoreFollow,
    Counted,
}

impl Failures {
    /// How the newest failure is shown, which is counted already. What holds for the archive as a whole is
    /// told once.
    fn how_to_show(&mut self, failure: &Failure) -> Shown {
        if let Some(word) = failure.word_of_the_archive() {
            if let Some(is_told) = self.said.get_mut(word) {
                let was_told = std::mem::replace(is_told, true);
                return if was_told { Shown::Counted } else { Shown::SameAgain };
            }
            self.said.insert(word.to_owned(), false);
            return Shown::Whole;
        }
        match self.count as usize {
            ..=FAILURES_SHOWN_MAX => Shown::Whole,
            count if count == FAILURES_SHOWN_MAX + 1 => Shown::MoreFollow,
            _ => Shown::Counted,
        }
    }
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

    /// Counts a failure that all other items would have too, and stops.
    pub fn add_failure_of_all(&self, what: &str, failure: Failure) {
        self.add(what, failure, true);
    }

    /// Counts and shows a failure on standard error.
    pub fn add_failure(&self, what: &str, failure: Failure) {
        let is_hopeless = failure.is_hopeless();
        self.add(what, failure, is_hopeless);
    }

    fn add(&self, what: &str, failure: Failure, is_hopeless: bool) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.count += 1;
        failures.differs |= failure.exit == Exit::Differs;
        if failures.kept.len() < FAILURES_KEPT_MAX {
            failures.kept.push((what.to_owned(), failure.message.clone()));
        }
        if is_hopeless {
            self.stop.store(true, Ordering::Relaxed);
            failures.hopeless.get_or_insert_with(|| failure.clone());
        } else {
            match failures.how_to_show(&failure) {
                Shown::Whole => {
                    let text =
                        if failure.message.contains(what) { String::new() } else { format!("{what}: ") };
                    output::note(&format!("kist: {text}{failure}"));
                }
                Shown::SameAgain => {
                    output::note("kist: others fail for this reason too and are only counted");
                }
                Shown::MoreFollow => {
                    output::note("kist: more failures follow and are only counted");
                }
                Shown::Counted => {}
            }
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

    /// Story: of a full pool the same sentence stood there twenty times.
    #[test]
    fn what_holds_for_the_archive_is_shown_once() {
        let mut failures = Failures::default();
        let full =
            Failure { word: Some("pool-full".to_owned()), ..Failure::new(Exit::Refused, "the pool is full") };
        let mut shown = |failure: &Failure| {
            failures.count += 1;
            failures.how_to_show(failure)
        };
        assert_eq!(
            [(); 4].map(|()| shown(&full)),
            [Shown::Whole, Shown::SameAgain, Shown::Counted, Shown::Counted]
        );
        let other = Failure::new(Exit::Refused, "held");
        (4..FAILURES_SHOWN_MAX).for_each(|_| assert_eq!(shown(&other), Shown::Whole));
        assert_eq!([(); 2].map(|()| shown(&other)), [Shown::MoreFollow, Shown::Counted]);
    }

    #[test]
    fn what_all_items_would_fail_with_stops() {
        let tally = Tally::default();
        let failure = Failure::new(Exit::Usage, "there is no class X");
        tally.add_failure_of_all("/a", failure);
        assert!(tally.stop.load(Ordering::Relaxed) && tally.did_nothing());
        let failure = tally.outcome(100).unwrap_err();
        assert_eq!((failure.exit, failure.message.as_str()), (Exit::Usage, "there is no class X"));
    }

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
