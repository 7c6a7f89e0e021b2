//! Suspect tapes are tried again by themselves: after a rest that doubles, they are mounted and their labels
//! and indexes read. What a tape was before it failed and how often it did stand in its reason, in words that
//! are read back, so that a restart goes on.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use base::{Duration, Timestamp, Vid};
use catalogue::{Command, TapeRecord, TapeState};
use library::TapeError;
use scheduler::{DRIVE_REST_MAX, Event};

use crate::ArchiveError;
use crate::engine::{Engine, truncated};

/// So many failures in a row set a tape aside until an operator decides.
pub const SUSPECT_FAILURES_MAX: u32 = 5;
/// Most bytes of an error that a tape's reason tells.
const ERROR_MAX: usize = 350;

/// What is known of tapes that failed: only those that have had no good session since.
pub(crate) type Suspects = BTreeMap<Vid, Suspect>;

/// A tape that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Suspect {
    /// How often, with no session between that went well.
    pub(crate) failures: u32,
    /// When it is tried again; `None`: it is back in use, or set aside.
    pub(crate) retry: Option<Timestamp>,
}

impl Engine {
    fn suspects(&self) -> threads::MutexGuard<'_, Suspects> {
        self.suspects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets a tape aside that failed. `read_only`: a write failed on it, so it is not written again when it
    /// can be read.
    pub(crate) fn suspect_tape(&self, vid: Vid, error: &str, read_only: bool) {
        let Ok(record) = self.tape(vid) else { return };
        let known = History::read(&record);
        let before = match (known, record.state) {
            (Some(known), _) => known.before,
            (None, TapeState::Suspect | TapeState::Disabled) => TapeState::ReadOnly,
            (None, state) => state,
        };
        let before = match before {
            TapeState::Active | TapeState::Full if read_only => TapeState::ReadOnly,
            other => other,
        };
        let failures = {
            let mut suspects = self.suspects();
            let in_memory = suspects.get(&vid).map_or(0, |suspect| suspect.failures);
            let failures = in_memory.max(known.map_or(0, |known| known.failures)).saturating_add(1);
            let retry = (failures < SUSPECT_FAILURES_MAX).then(|| self.now().plus(self.rest_after(failures)));
            suspects.insert(vid, Suspect { failures, retry });
            (failures, retry)
        };
        let reason = History { before, failures: failures.0 }.told(vid, error, failures.1);
        self.set_tape_aside(vid, TapeState::Suspect, &reason);
        self.end_try(vid);
    }

    fn rest_after(&self, failures: u32) -> Duration {
        let doubled = 1u32 << failures.saturating_sub(1).min(20);
        self.settings.tape.retry_delay.saturating_mul(doubled).min(DRIVE_REST_MAX)
    }

    /// Tapes that have rested long enough: each is to be mounted when a drive has nothing better to do.
    pub(crate) fn suspects_due(&self, now: Timestamp) -> Vec<Event> {
        let is_due = |suspect: &Suspect| suspect.retry.is_some_and(|retry| retry <= now);
        let due: Vec<Vid> =
            self.suspects().iter().filter(|(_, suspect)| is_due(suspect)).map(|(vid, _)| *vid).collect();
        let mut events = Vec::new();
        for vid in due {
            match self.tape(vid) {
                Ok(record) if record.state != TapeState::Suspect => {
                    // What closed its torn session, or an operator, has decided meanwhile.
                    if let Some(suspect) = self.suspects().get_mut(&vid) {
                        suspect.retry = None;
                    }
                }
                _ => events.push(Event::Maintain(vid, true)),
            }
        }
        events
    }

    /// Whether a suspect tape that is being mounted is being tried again.
    pub(crate) fn is_tried_again(&self, vid: Vid) -> bool {
        let now = self.now();
        let is_due =
            self.suspects().get(&vid).is_some_and(|suspect| suspect.retry.is_some_and(|at| at <= now));
        is_due && self.tape(vid).is_ok_and(|record| record.state == TapeState::Suspect)
    }

    /// A suspect tape was mounted, and its labels and its newest index are what they should be: it becomes
    /// what it was. `fault`: what nevertheless keeps it from being written.
    pub(crate) fn acquit(&self, vid: Vid, fault: Option<&str>) {
        if let Err(error) = self.try_to_acquit(vid, fault) {
            tracing::error!(%vid, %error, "a suspect tape stays what it is");
        }
    }

    fn try_to_acquit(&self, vid: Vid, fault: Option<&str>) -> Result<(), ArchiveError> {
        let record = self.tape(vid)?;
        if record.state != TapeState::Suspect {
            return Ok(());
        }
        let known = History::read(&record);
        let state = known.map_or(TapeState::ReadOnly, |known| known.before);
        let (state, reason) = match (state, fault) {
            (TapeState::Active, Some(fault)) => (TapeState::ReadOnly, fault.to_owned()),
            (state, _) => (state, format!("{FOUND_WELL}{}", bare(&record.reason))),
        };
        tracing::warn!(%vid, ?state, reason, "a suspect tape is taken into use again");
        let reason = truncated(&reason, 512);
        self.execute(Command::SetTapeState { vid, state, reason })?;
        self.end_rest(vid);
        self.post_tape(vid);
        self.repack_after_run(vid);
        self.retry_mends()
    }

    /// The open run of a tape is about to be closed. One that became suspect while it was to be repacked goes
    /// back to that before, since closing the run makes of it what keeps none of its history.
    pub(crate) fn keep_repack(&self, vid: Vid) -> Result<(), ArchiveError> {
        let record = self.tape(vid)?;
        if was_repacked(&record) {
            let reason =
                truncated(&format!("it was to be repacked, and failed: {}", bare(&record.reason)), 512);
            self.execute(Command::SetTapeState { vid, state: TapeState::Repacking, reason })?;
        }
        Ok(())
    }

    /// A suspect tape is taken into use again. How often it failed is known until a session goes well: one
    /// that fails each time it is used comes to its limit.
    pub(crate) fn end_rest(&self, vid: Vid) {
        if let Some(suspect) = self.suspects().get_mut(&vid) {
            suspect.retry = None;
        }
        self.end_try(vid);
    }

    /// Whether a tape that may be read has failed before: files are read from other copies then while there
    /// are any. One that is written again was cleared by the first session that went well; one that was only
    /// kept for reading never is, but by an operator.
    pub(crate) fn is_doubted(&self, vid: Vid, record: &TapeRecord) -> bool {
        is_kept_after_errors(record) || self.suspects().contains_key(&vid)
    }

    /// A session on the tape went well, or an operator has decided: its failures are forgotten.
    pub(crate) fn forget_failures(&self, vid: Vid) {
        let Some(forgotten) = self.suspects().remove(&vid) else { return };
        if forgotten.retry.is_some() {
            self.end_try(vid);
        }
        // Its copies are as good as others again.
        self.post_tape(vid);
    }

    /// Tells the scheduler whether there is anything to be done on the tape but to try it.
    pub(crate) fn end_try(&self, vid: Vid) {
        // Told under the lock, as all of a tape's chores are.
        let chores = self.chores();
        self.bell.post(Event::Maintain(vid, chores.tapes.contains_key(&vid)));
    }

    /// Suspect tapes of an earlier start rest once more and are tried again, but those that were set aside.
    pub(crate) fn resume_suspects(&self) -> Result<(), ArchiveError> {
        for (vid, record) in self.read(|view| view.tapes())? {
            if record.state != TapeState::Suspect {
                continue;
            }
            let failures = History::read(&record).map_or(1, |known| known.failures);
            if failures < SUSPECT_FAILURES_MAX {
                let retry = Some(self.now().plus(self.rest_after(failures)));
                self.suspects().entry(vid).or_insert(Suspect { failures, retry });
            }
        }
        Ok(())
    }
}

/// Whether a suspect tape was being repacked. What was taken off it would else be written to it once more.
pub(crate) fn was_repacked(tape: &TapeRecord) -> bool {
    History::read(tape).is_some_and(|known| known.before == TapeState::Repacking)
}

/// Whether a tape is only kept for reading, because of errors and not by an operator's word.
fn is_kept_after_errors(tape: &TapeRecord) -> bool {
    let says = [FOUND_WELL, ADOPTED].iter().any(|words| tape.reason.starts_with(words));
    tape.state == TapeState::ReadOnly && says
}

/// The reason of a suspect tape without what is told of further attempts.
pub(crate) fn bare(reason: &str) -> &str {
    reason.rsplit_once(BEFORE).map_or(reason, |(error, _)| error)
}

/// Whether an error tells of a write that failed: the medium is not given new data then.
pub(crate) fn is_of_a_write(error: &TapeError) -> bool {
    match error {
        TapeError::Medium { operation, .. } => !matches!(*operation, "read" | "locate" | "load"),
        TapeError::Poisoned { .. } | TapeError::WriteProtected { .. } => true,
        _ => false,
    }
}

/// What the reason of a suspect tape tells of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct History {
    /// What it becomes when it is well again.
    before: TapeState,
    failures: u32,
}

const WORDS: [(TapeState, &str); 6] = [
    (TapeState::Scratch, "scratch"),
    (TapeState::Labelling, "being labelled"),
    (TapeState::Active, "active"),
    (TapeState::Full, "full"),
    (TapeState::ReadOnly, "to be read only"),
    (TapeState::Repacking, "being repacked"),
];
/// How the reason of a tape begins that was tried again.
const FOUND_WELL: &str = "tried again and found well; before: ";
/// How the reason of a tape begins on which a write failed and what was whole was adopted.
pub(crate) const ADOPTED: &str = "what was whole on it was adopted, no more is written: ";
const BEFORE: &str = " (it was ";
const FAILURE: &str = "; failure ";
const IN_A_ROW: &str = " in a row; ";

impl History {
    /// The reason, for people and for [`History::read`].
    fn told(&self, vid: Vid, error: &str, retry: Option<Timestamp>) -> String {
        let word = WORDS.iter().find(|(state, _)| *state == self.before).map_or("", |(_, word)| word);
        let next = match retry {
            Some(at) => format!("tried again after {at}"),
            None => format!(
                "not tried again by itself: look at it, then kist tape set {vid} active, or read-only"
            ),
        };
        let error = truncated(error, ERROR_MAX);
        format!("{error}{BEFORE}{word}{FAILURE}{}{IN_A_ROW}{next})", self.failures)
    }

    /// `None`: the tape is not suspect, or an older Kist set it aside.
    fn read(record: &TapeRecord) -> Option<History> {
        let text = record.reason.as_str();
        let (_, tail) = text.rsplit_once(BEFORE).filter(|_| record.state == TapeState::Suspect)?;
        let (word, tail) = tail.split_once(FAILURE)?;
        let (count, _) = tail.split_once(IN_A_ROW)?;
        let (before, _) = *WORDS.iter().find(|(_, known)| *known == word)?;
        Some(History { before, failures: count.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use base::ByteCount;

    use super::*;

    fn tape(state: TapeState, reason: String) -> TapeRecord {
        TapeRecord { state, reason, ..TapeRecord::scratch(ByteCount(0)) }
    }

    #[test]
    fn only_errors_make_a_tape_that_is_kept_for_reading_doubtful() {
        let told = |state, words: &str| is_kept_after_errors(&tape(state, format!("{words}medium error")));
        assert!(told(TapeState::ReadOnly, FOUND_WELL) && told(TapeState::ReadOnly, ADOPTED));
        assert!(!told(TapeState::ReadOnly, ""), "an operator's word");
        assert!(!told(TapeState::Active, FOUND_WELL), "the next good session decides");
    }

    #[test]
    fn a_reason_tells_the_next_start_what_the_tape_was() {
        let vid = Vid::new("KT0001").unwrap();
        for (before, _) in WORDS {
            for (failures, retry) in [(1, Some(Timestamp(5))), (SUSPECT_FAILURES_MAX, None)] {
                let history = History { before, failures };
                let reason = history.told(vid, &"é (it was ".repeat(100), retry);
                assert!(reason.len() <= 512, "{reason}");
                assert_eq!(
                    History::read(&tape(TapeState::Suspect, reason.clone())),
                    Some(history),
                    "{reason}"
                );
                assert_eq!(History::read(&tape(TapeState::ReadOnly, reason)), None);
            }
        }
        for strange in [
            "",
            "it broke",
            "x (it was new; failure 1 in a row; y)",
            "x (it was active; failure q in a row; y)",
        ] {
            assert_eq!(History::read(&tape(TapeState::Suspect, strange.to_owned())), None, "{strange}");
        }
    }
}
