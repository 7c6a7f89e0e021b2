//! What is written to a tape of the catalogue's history without any container: change-log segments, a base,
//! an index.

use std::sync::Arc;

use base::{TapePoolId, Vid};
use catalogue::{Command, RunEnd, TapeState};
use library::TapeError;
use mover::VolumeError;

use super::maintain::Done;
use super::{MountedTape, SessionError};
use crate::reclaim::{is_emptied, is_full};

impl MountedTape<'_> {
    /// Change-log segments that no other tape of the pool has, a base if the tape is due for one, and an
    /// index.
    pub(super) fn ship_changes(&mut self, vid: Vid) -> Result<Done, SessionError> {
        let record = self.room.tape(vid)?;
        let is_to_keep = self.room.maintenance().tapes.get(&vid).is_some_and(|tasks| tasks.keep_history);
        if let Some(tape_pool) = record.tape_pool {
            match record.state {
                TapeState::Active => {
                    self.ensure_run(tape_pool)?;
                    self.tape.volume.mark_changed();
                    self.finish_run(RunEnd::Finished, TapeState::Active, "", 0)?;
                }
                _ if is_to_keep && (is_emptied(&record) || is_full(&record)) => {
                    self.keep_history(vid, tape_pool)?;
                }
                _ => {}
            }
        }
        self.room.set_tasks(vid, |tasks| (tasks.ship, tasks.keep_history) = (false, false));
        Ok(Done::Yes)
    }

    /// The same on a tape that is not written any more. A run begins on an active tape only; what it was it
    /// is again at once, so that the scheduler is told nothing else.
    fn keep_history(&mut self, vid: Vid, tape_pool: TapePoolId) -> Result<(), SessionError> {
        // The drive moves before the lock, for which others wait.
        self.tape.volume.go_to_end(self.drive.as_mut(), self.room.tape(vid)?.end_of_data)?;
        {
            let _one = self.room.tape_states();
            let record = self.room.tape(vid)?;
            if record.run.is_some() || !(is_emptied(&record) || is_full(&record)) {
                return Ok(());
            }
            let (state, reason) = (record.state, record.reason.clone());
            let room = Arc::clone(self.room);
            let set = |state, reason| room.execute(Command::SetTapeState { vid, state, reason });
            set(TapeState::Active, "it takes the change log of its pool".to_owned())?;
            let begun = self.begin_run(&record, tape_pool);
            set(state, reason)?;
            self.tape.run = Some(begun?);
        }
        self.tape.volume.mark_changed();
        let written = self
            .write_index()
            .and_then(|()| self.write_base())
            .and_then(|()| self.finish_run(RunEnd::TapeFull, TapeState::Active, "", 0));
        match written {
            Err(SessionError::Volume(VolumeError::Tape(TapeError::EndOfMedium { .. }))) => {
                self.end_without_index(0)
            }
            other => other,
        }
    }
}
