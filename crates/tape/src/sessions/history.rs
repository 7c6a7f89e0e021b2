//! What is written to a tape of the catalogue's history without any container: change-log segments, a base,
//! an index.

use std::sync::Arc;

use base::{ByteCount, TapePoolId, Vid};
use catalogue::{RunEnd, TapeState, typed};
use library::TapeError;
use mover::VolumeError;

use super::maintain::Done;
use super::mounted::OpenRun;
use super::{MountedTape, SessionError};
use crate::reclaim::{is_emptied, is_full};

impl MountedTape<'_> {
    /// Change-log segments that no other tape of the pool has, a base if the tape is due for one, and an
    /// index. A tape that has no room for them is remembered, so that another one is asked.
    pub(super) fn ship_changes(&mut self, vid: Vid) -> Result<Done, SessionError> {
        let room = Arc::clone(self.room);
        let record = room.tape(vid)?;
        let is_to_keep = room.maintenance().tapes.get(&vid).is_some_and(|tasks| tasks.keep_history);
        let is_kept_for = is_to_keep && (is_emptied(&record) || is_full(&record));
        if let Some(tape_pool) = record.tape_pool
            && (record.state == TapeState::Active || is_kept_for)
        {
            self.note_room_left(vid)?;
            let needed = room.history_needed(vid, tape_pool)?;
            self.tape.segment_left_out = false;
            // What may be written gets as much as it has room for.
            let has_room = record.state == TapeState::Active || room.has_room_for_history(vid, needed)?;
            if has_room {
                match record.state {
                    TapeState::Active => self.write_history(tape_pool)?,
                    _ => self.keep_history(vid, tape_pool)?,
                }
                self.note_room_left(vid)?;
            }
            let is_refused = !has_room || self.tape.segment_left_out;
            if is_refused {
                tracing::warn!(%vid, %needed, "a tape has no room for the change log of its pool");
            }
            let mut maintenance = room.maintenance();
            maintenance.no_keepers.extend(is_refused.then_some((vid, needed)));
            maintenance.history_tries += 1;
        }
        room.set_tasks(vid, |tasks| (tasks.ship, tasks.keep_history) = (false, false));
        Ok(Done::Yes)
    }

    /// Remembers what the drive says of the room on the tape.
    fn note_room_left(&mut self, vid: Vid) -> Result<(), SessionError> {
        let left: ByteCount = self.drive.remaining()?;
        self.room.maintenance().room_left.insert(vid, left);
        Ok(())
    }

    fn write_history(&mut self, tape_pool: TapePoolId) -> Result<(), SessionError> {
        self.ensure_run(tape_pool)?;
        self.tape.volume.mark_changed();
        let written = self.finish_run(RunEnd::Finished, TapeState::Active, "", 0);
        self.end_at_end_of_tape(written)
    }

    /// The tape ended before its index: what was written of the history counts for nothing.
    fn end_at_end_of_tape(&mut self, written: Result<(), SessionError>) -> Result<(), SessionError> {
        match written {
            Err(SessionError::Volume(VolumeError::Tape(TapeError::EndOfMedium { .. }))) => {
                self.tape.segment_left_out = true;
                self.end_without_index(0)
            }
            other => other,
        }
    }

    /// The same on a tape that is not written any more: it stays full, or to be reclaimed.
    fn keep_history(&mut self, vid: Vid, tape_pool: TapePoolId) -> Result<(), SessionError> {
        // The drive moves before the lock, for which others wait.
        self.tape.volume.go_to_end(self.drive.as_mut(), self.room.tape(vid)?.end_of_data)?;
        {
            let _one = self.room.tape_states();
            let record = self.room.tape(vid)?;
            if record.run.is_some() || !(is_emptied(&record) || is_full(&record)) {
                return Ok(());
            }
            let (drive, start) = (self.name.as_str().to_owned(), record.end_of_data);
            let id = self.room.ask(typed::BeginHistoryRun { vid, drive, start })?;
            self.tape.run = Some(OpenRun { id, tape_pool, planned: 0, committed: 0, end_of_data: start });
        }
        self.tape.volume.mark_changed();
        let written = self
            .write_index()
            .and_then(|()| self.write_base())
            .and_then(|()| self.finish_run(RunEnd::TapeFull, TapeState::Active, "", 0));
        self.end_at_end_of_tape(written)
    }
}
