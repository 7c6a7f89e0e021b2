//! A writing session: containers are chosen, written, flushed and committed, again and again, with an index
//! when one is due.

use base::{ByteCount, Duration, Timestamp};

use crate::{HasteCall, SessionEnd};

/// When what is written becomes safe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WritingRules {
    /// A flush is due so long after writing began, even within what was chosen together.
    pub flush_age: Duration,
    /// An index of the data partition is due after so many bytes.
    pub index_bytes: ByteCount,
}

/// What the session must know of the world before each step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Situation {
    /// The session is to end at the next good point.
    pub stop: bool,
    /// The tape may be written: an operator may have taken it out of use meanwhile.
    pub may_write: bool,
    /// Something stands on the tape that no index names.
    pub owes_index: bool,
    /// Something waits for room in the pool, and an index is to be written for it as soon as there is what it
    /// would cover: see [`IndexesForRoom`](crate::IndexesForRoom).
    pub room_waits: bool,
    /// Who is in a hurry.
    pub haste: HasteCall,
}

/// Why writing came back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteEnded {
    /// All that was chosen is written.
    All,
    /// A flush is due by time; the rest of what was chosen is written behind it.
    FlushDue,
    /// The session was asked to stop.
    Stopped,
    /// The tape is at its end.
    TapeEnd,
    /// The bytes of a container cannot be had; it and what was chosen behind it go back to the queue.
    NoSource,
}

/// What was written since the last flush.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Written {
    /// Containers that are whole on tape.
    pub containers: u64,
    /// Their bytes.
    pub bytes: ByteCount,
    /// Why it is no more.
    pub ended: WriteEnded,
}

/// What has happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WritingEvent {
    /// The session begins.
    Begin,
    /// Containers were chosen, and stand in the open run.
    Chosen,
    /// There is nothing to be chosen.
    NothingQueued,
    /// Nothing fits on the tape, and what is left of it is of no use.
    TapeFull,
    /// Nothing that waits fits on the tape; something smaller may.
    NothingFits,
    /// Writing came back.
    Written(Written),
    /// A synchronous flush went well, and its commit.
    Flushed,
    /// An index was written and committed.
    Indexed,
    /// The run was ended as it was asked for.
    RunEnded,
}

/// What is to be done next; its outcome is the next event. What fails in it ends the session, which nobody
/// asks again then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WritingAction {
    /// Choose what is written next: [`choose`](crate::choose()).
    Choose,
    /// Write what is chosen and not written yet, until it is due to come back.
    Write,
    /// Flush, and commit what is behind it.
    Flush,
    /// Write an index of the data partition.
    Index {
        /// Somebody waits for this index: nothing else is done on the way to it.
        somebody_waits: bool,
    },
    /// End the open run: what is chosen and not written goes back to its queue.
    EndRun(RunEnding),
    /// The session is over.
    End(SessionEnd),
}

/// How a run ends before its tape leaves the drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunEnding {
    /// Nothing more is to be written.
    Finished,
    /// The tape is full.
    TapeFull,
    /// A container could not be written; the session goes on with a new run.
    Failed,
}

/// What the session waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Idle,
    Choosing,
    Writing,
    Flushing(WriteEnded),
    Indexing { then_end: bool },
    EndingRun(Option<SessionEnd>),
}

/// What is known of writing to the tape in a drive, from its mount to its unmount.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WritingSession {
    rules: WritingRules,
    step: Step,
    /// Bytes committed since the last index.
    since_index: ByteCount,
    /// Written and not flushed.
    unflushed: ByteCount,
    /// When writing began, or was flushed last.
    flushed_at: Timestamp,
    /// The last call for haste that an index of this mount has answered.
    haste_answered: Timestamp,
}

impl WritingSession {
    /// Of a tape that has just been mounted. `now`: calls for haste of before are answered by whatever index
    /// comes first.
    #[must_use]
    pub fn new(rules: WritingRules, haste_answered: Timestamp) -> Self {
        WritingSession {
            rules,
            step: Step::Idle,
            since_index: ByteCount(0),
            unflushed: ByteCount(0),
            flushed_at: Timestamp(0),
            haste_answered,
        }
    }

    /// What is to be done after `event`, at this time of the steady clock.
    ///
    /// # Panics
    /// For an event that is no outcome of the action before.
    pub fn step(&mut self, now: Timestamp, situation: &Situation, event: WritingEvent) -> WritingAction {
        match (std::mem::replace(&mut self.step, Step::Idle), event) {
            (_, WritingEvent::Begin) => {
                self.unflushed = ByteCount(0);
                self.go_on(situation)
            }
            (Step::Choosing, WritingEvent::Chosen) => self.write(now),
            (Step::Choosing, WritingEvent::NothingQueued) => self.nothing_queued(situation),
            (Step::Choosing, WritingEvent::TapeFull) => {
                self.end_run(RunEnding::TapeFull, Some(SessionEnd::TapeFull))
            }
            (Step::Choosing, WritingEvent::NothingFits) => {
                self.end_run(RunEnding::Finished, Some(SessionEnd::TapeFull))
            }
            (Step::Writing, WritingEvent::Written(written)) => self.written(situation, written),
            (Step::Flushing(ended), WritingEvent::Flushed) => {
                self.since_index.0 = self.since_index.0.saturating_add(self.unflushed.0);
                self.unflushed = ByteCount(0);
                if ended == WriteEnded::FlushDue { self.write(now) } else { self.after(situation, ended) }
            }
            (Step::Indexing { then_end }, WritingEvent::Indexed) => {
                self.since_index = ByteCount(0);
                if then_end { WritingAction::End(SessionEnd::Drained) } else { self.go_on(situation) }
            }
            (Step::EndingRun(end), WritingEvent::RunEnded) => {
                self.since_index = ByteCount(0);
                end.map_or_else(|| self.go_on(situation), WritingAction::End)
            }
            (step, event) => panic!("a writing session at {step:?} was told {event:?}"),
        }
    }

    /// Whether a flush is due by time; asked between containers. One is written in any case.
    #[must_use]
    pub fn flush_is_due(&self, now: Timestamp) -> bool {
        now.since(self.flushed_at) >= self.rules.flush_age
    }

    /// An index was written outside of a session: nothing is owed since.
    pub fn indexed(&mut self) {
        self.since_index = ByteCount(0);
    }

    /// Bytes committed since the last index.
    #[must_use]
    pub fn since_index(&self) -> ByteCount {
        self.since_index
    }

    fn go_on(&mut self, situation: &Situation) -> WritingAction {
        if situation.stop {
            return WritingAction::End(SessionEnd::Stopped);
        }
        if !situation.may_write {
            return self.end_run(RunEnding::Finished, Some(SessionEnd::Stopped));
        }
        self.step = Step::Choosing;
        WritingAction::Choose
    }

    fn write(&mut self, now: Timestamp) -> WritingAction {
        self.flushed_at = now;
        self.step = Step::Writing;
        WritingAction::Write
    }

    fn end_run(&mut self, ending: RunEnding, then: Option<SessionEnd>) -> WritingAction {
        self.step = Step::EndingRun(then);
        WritingAction::EndRun(ending)
    }

    /// Who asked for haste, or waits for room, waits for the index, not for the unmount; while packs of what
    /// was there then are still being made, for that of the next session too.
    fn nothing_queued(&mut self, situation: &Situation) -> WritingAction {
        let haste = situation.haste;
        let is_asked = haste.asked > self.haste_answered;
        if !(is_asked || situation.room_waits) || !situation.owes_index {
            return WritingAction::End(SessionEnd::Drained);
        }
        if haste.is_sealed {
            self.haste_answered = haste.asked;
        }
        self.step = Step::Indexing { then_end: true };
        WritingAction::Index { somebody_waits: true }
    }

    fn written(&mut self, situation: &Situation, written: Written) -> WritingAction {
        assert!(written.containers > 0 || written.bytes.0 == 0, "bytes count with their container");
        if written.containers == 0 {
            assert!(written.ended != WriteEnded::FlushDue, "one container is written before a flush is due");
            return self.after(situation, written.ended);
        }
        self.unflushed = written.bytes;
        self.step = Step::Flushing(written.ended);
        WritingAction::Flush
    }

    /// What is written is committed.
    fn after(&mut self, situation: &Situation, ended: WriteEnded) -> WritingAction {
        match ended {
            WriteEnded::All | WriteEnded::FlushDue => {
                let is_due = self.since_index >= self.rules.index_bytes.max(ByteCount(1));
                let room_waits = situation.room_waits && self.since_index.0 > 0;
                if !is_due && !room_waits {
                    return self.go_on(situation);
                }
                self.step = Step::Indexing { then_end: false };
                WritingAction::Index { somebody_waits: !is_due }
            }
            WriteEnded::Stopped => self.end_run(RunEnding::Finished, Some(SessionEnd::Stopped)),
            WriteEnded::TapeEnd => self.end_run(RunEnding::TapeFull, Some(SessionEnd::TapeFull)),
            WriteEnded::NoSource => self.end_run(RunEnding::Failed, None),
        }
    }
}

#[cfg(test)]
mod tests;
