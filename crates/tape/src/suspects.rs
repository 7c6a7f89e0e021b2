//! Suspect tapes are tried again by themselves: after a rest that doubles, they are mounted and their labels
//! and indexes read. What a tape was before it failed, how often it did and when it is tried again stand in
//! its record, so that a restart goes on.

use base::{BlockAddress, FailureCause, Timestamp, Vid};
use catalogue::{Command, TapeState};
use library::TapeError;
use scheduler::{DRIVE_REST_MAX, Event, tape_retry};
use threads::MutexGuard;

use crate::room::Tape;
use ground::ArchiveError;
use ground::truncated;

/// Most bytes of an error that a tape's record keeps.
const ERROR_MAX: usize = 350;

/// What was forgotten of a tape's failures, to be told.
#[derive(Clone, Copy)]
pub(crate) struct Forgotten {
    was_resting: bool,
    has_history: bool,
}

impl Tape {
    /// Sets a tape aside that failed, unless an operator has taken it out of use. `wrote`: a write failed on
    /// it, so it is not written again when it can be read.
    pub(crate) fn suspect_tape(&self, vid: Vid, cause: Option<FailureCause>, error: &str, wrote: bool) {
        // An operator's word is before it or after it: it forgets no failure that it did not know.
        let one = self.tape_states();
        let Ok(record) = self.tape(vid) else { return };
        if record.state == TapeState::Disabled {
            tracing::warn!(%vid, error, "a disabled tape failed, and stays disabled");
            return;
        }
        let failures = record.history.map_or(0, |history| history.failures).saturating_add(1);
        let retry = tape_retry(failures, self.settings.tape.retry_delay, self.now());
        let (cause, reason) = (cause.unwrap_or(FailureCause::Unknown), truncated(error, ERROR_MAX));
        tracing::warn!(%vid, cause = cause.word(), failures, reason, "a tape is suspect");
        match self.execute(Command::TapeFailed { vid, cause, wrote, reason, retry }) {
            Ok(()) => {
                self.tape_retries.set(vid, retry);
            }
            Err(error) => tracing::error!(%vid, %error, "a tape's failure cannot be recorded"),
        }
        drop(one);
        self.post_tape(vid);
        // Once: what only this tape may have is left to it until it is set aside.
        if record.state != TapeState::Suspect {
            self.have_others_read(vid);
        }
    }

    /// Tapes that have rested long enough: each is to be mounted when a drive has nothing better to do.
    pub(crate) fn suspects_due(&self, now: Timestamp) -> Vec<Event> {
        let mut events = Vec::new();
        for vid in self.tape_retries.due(now) {
            match self.tape(vid) {
                // What closed its torn session, or an operator, has decided meanwhile.
                Ok(record) if record.state != TapeState::Suspect => {
                    self.tape_retries.set(vid, None);
                    self.close_what_is_open(vid);
                }
                // One that is away is tried when it is put in again.
                _ if !self.libraries.holds(vid) => {}
                _ => events.push(Event::Maintain(vid, true)),
            }
        }
        events
    }

    /// If the tape is suspect it is tried again now, whatever it failed before.
    pub(crate) fn try_now(&self, vid: Vid) {
        if self.tape(vid).is_ok_and(|record| record.state == TapeState::Suspect) {
            self.tape_retries.set(vid, Some(self.now()));
        }
        self.end_try(vid);
    }

    /// Whether a suspect tape is tried again by itself.
    pub(crate) fn is_to_be_tried(&self, vid: Vid) -> bool {
        self.tape_retries.has(vid)
    }

    /// Whether a suspect tape that is being mounted is being tried again.
    pub(crate) fn is_tried_again(&self, vid: Vid) -> bool {
        self.tape_retries.is_due(vid, self.now())
            && self.tape(vid).is_ok_and(|record| record.state == TapeState::Suspect)
    }

    /// A suspect tape was mounted, and its labels and its newest index are what they should be: it becomes
    /// what it was. `fault`: what nevertheless keeps it from being written.
    pub(crate) fn found_well(&self, vid: Vid, fault: Option<&str>) {
        if let Err(error) = self.take_back(vid, fault) {
            tracing::error!(%vid, %error, "a suspect tape stays what it is");
        }
    }

    fn take_back(&self, vid: Vid, fault: Option<&str>) -> Result<(), ArchiveError> {
        let one = self.tape_states();
        let record = self.tape(vid)?;
        let Some(well) = record.when_well() else { return Ok(()) };
        let (state, reason) = match (well, fault) {
            (TapeState::Active, Some(fault)) => (TapeState::ReadOnly, fault.to_owned()),
            (state, _) => (state, format!("tried again and found well; before: {}", record.reason)),
        };
        tracing::warn!(%vid, ?state, reason, "a suspect tape is taken into use again");
        let reason = truncated(&reason, 512);
        self.execute(Command::SetTapeState { vid, state, reason })?;
        self.tape_retries.set(vid, None);
        drop(one);
        self.in_use_again(vid)
    }

    /// A tape does not rest any more: a session that is still open on it is closed, and an index is written
    /// that is owed to it, by the next mount, for which nothing else may ask.
    pub(crate) fn close_what_is_open(&self, vid: Vid) {
        if self.is_owed_an_index(vid) && !self.is_to_be_tried(vid) {
            self.set_tasks(vid, |tasks| tasks.recover = true);
        }
    }

    /// Whether a session is open on a tape, or one was given up with copies on it that are nowhere else.
    pub(crate) fn is_owed_an_index(&self, vid: Vid) -> bool {
        let Ok(record) = self.tape(vid) else { return false };
        let behind = BlockAddress(record.index_block.0 + 1);
        let has_copies = || self.read(|view| Ok(!view.content(vid, behind, 1)?.is_empty()));
        let may_be_written = record.state == TapeState::Active && record.generation.0 > 0;
        record.run.is_some() || (may_be_written && has_copies().unwrap_or(false))
    }

    /// A suspect tape is what it was: what waits for it is looked at anew.
    fn in_use_again(&self, vid: Vid) -> Result<(), ArchiveError> {
        self.close_what_is_open(vid);
        self.post_tape(vid);
        self.repack_after_run(vid);
        self.retry_mends()
    }

    /// The open run of a tape is about to be closed. One that became suspect while it was to be repacked goes
    /// back to that before, since closing the run makes of it what is not repacked.
    pub(crate) fn keep_repack(&self, vid: Vid) -> Result<(), ArchiveError> {
        let _one = self.tape_states();
        let record = self.tape(vid)?;
        if record.before_failure() == Some(TapeState::Repacking) {
            let reason = truncated(&format!("it was to be repacked, and failed: {}", record.reason), 512);
            self.execute(Command::SetTapeState { vid, state: TapeState::Repacking, reason })?;
        }
        Ok(())
    }

    /// A suspect tape is taken into use again. How often it failed is known until a session goes well: one
    /// that fails each time it is used comes to its limit.
    pub(crate) fn end_rest(&self, vid: Vid) {
        self.tape_retries.set(vid, None);
        self.end_try(vid);
    }

    /// A session on the tape went well, or an operator has decided: its failures are forgotten. One that is
    /// only kept for reading stays doubted, but by an operator's word: no write has shown that it is well.
    pub(crate) fn forget_failures(&self, vid: Vid, doubts: bool) {
        let forgotten = {
            let one = self.tape_states();
            self.forget_under(&one, vid, doubts)
        };
        self.tell_forgotten(vid, forgotten);
    }

    /// As [`Tape::forget_failures`], with what else is decided about the tape; whoever holds the lock tells
    /// of it afterwards.
    pub(crate) fn forget_under(&self, _one: &MutexGuard<'_, ()>, vid: Vid, doubts: bool) -> Forgotten {
        let was_resting = self.tape_retries.set(vid, None);
        // Of one that is kept for reading, and was read well since, there is nothing more to forget.
        let has_history = self.tape(vid).is_ok_and(|record| {
            let is_kept = record.state == TapeState::ReadOnly && !doubts;
            record.history.is_some_and(|history| !is_kept || history.failures > 0)
        });
        if has_history && let Err(error) = self.execute(Command::ForgetTapeFailures { vid, doubts }) {
            tracing::error!(%vid, %error, "that a tape is well again cannot be recorded");
        }
        Forgotten { was_resting, has_history }
    }

    pub(crate) fn tell_forgotten(&self, vid: Vid, forgotten: Forgotten) {
        if forgotten.was_resting {
            self.end_try(vid);
        }
        if forgotten.has_history {
            // Its copies are as good as others again.
            self.post_tape(vid);
        }
    }

    /// Makes a tape what it was before it failed in a drive that is to blame, unless somebody has decided
    /// otherwise meanwhile.
    pub(crate) fn clear_tape(&self, drive: &str, vid: Vid) {
        if let Err(error) = self.try_to_clear(drive, vid) {
            tracing::error!(%vid, drive, %error, "a tape that a drive failed on stays suspect");
        }
    }

    fn try_to_clear(&self, drive: &str, vid: Vid) -> Result<(), ArchiveError> {
        {
            let _one = self.tape_states();
            let Some(state) = self.tape(vid)?.before_failure() else { return Ok(()) };
            if state == TapeState::Labelling {
                return Ok(());
            }
            let reason = format!("it failed in drive {drive}, as others did");
            tracing::warn!(%vid, ?state, reason, "a suspect tape is cleared");
            self.execute(Command::SetTapeState { vid, state, reason })?;
            self.execute(Command::ForgetTapeFailures { vid, doubts: true })?;
            self.tape_retries.set(vid, None);
        }
        self.in_use_again(vid)
    }

    /// Tells the scheduler whether there is anything to be done on the tape but to try it.
    pub(crate) fn end_try(&self, vid: Vid) {
        // Told under the lock, as all of a tape's tasks are.
        let maintenance = self.maintenance();
        self.notifier.maintain(vid, self.is_due(&maintenance, vid));
    }

    /// Suspect tapes of an earlier start are tried again when their time comes. One of before histories were
    /// kept rests once more.
    pub(crate) fn resume_suspects(&self) -> Result<(), ArchiveError> {
        let rest = || tape_retry(1, self.settings.tape.retry_delay, self.now());
        // A clock that was ahead when the tape failed does not leave it aside for years.
        let latest = self.now().plus(DRIVE_REST_MAX);
        for (vid, record) in self.read(|view| view.tapes())? {
            self.note_tape(vid, &record);
            if record.state == TapeState::Suspect {
                self.tape_retries.set(
                    vid,
                    record.history.map_or_else(rest, |history| history.retry.map(|at| at.min(latest))),
                );
            }
        }
        Ok(())
    }
}

/// Whether an error tells of a write that failed: the medium is not given new data then.
pub(crate) fn is_of_a_write(error: &TapeError) -> bool {
    match error {
        TapeError::Medium { operation, .. } => !matches!(*operation, "read" | "locate" | "load"),
        TapeError::Poisoned { .. } | TapeError::WriteProtected { .. } | TapeError::Worm { .. } => true,
        _ => false,
    }
}
