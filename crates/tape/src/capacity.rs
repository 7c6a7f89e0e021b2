//! What an empty tape holds: its medium promises it, and the drive that labels it knows.

use base::{ByteCount, Vid};
use catalogue::{Command, TapeRecord, TapeState};
use ground::{ArchiveError, capacity_of_empty, reserve};
use store::BATCH_MAX;

use crate::room::Tape;

/// An empty tape of which a drive says that it holds less than this part of what was promised is not believed
/// to be a tape at all: a drive was asked that does not know.
const BELIEVED_PART: u64 = 1_024;

impl Tape {
    /// Takes note of what a drive says of a tape that it has just labelled. When a second tape turns out to
    /// be shorter than its medium promises, so are those that are scratch and promise the same, until they
    /// are labelled themselves: else one after the other would be labelled for a container that none of them
    /// takes.
    ///
    /// # Errors
    /// If the catalogue cannot be written.
    pub(crate) fn empty_tape_holds(&self, vid: Vid, told: ByteCount) -> Result<(), ArchiveError> {
        let like_it = {
            // Two tapes that are labelled at the same time see each other.
            let _one = self.tape_states();
            self.note_capacity(vid, told)?
        };
        like_it.into_iter().for_each(|vid| self.post_tape(vid));
        Ok(())
    }

    /// The tapes of which the catalogue has another capacity now.
    fn note_capacity(&self, vid: Vid, told: ByteCount) -> Result<Vec<Vid>, ArchiveError> {
        let known = self.tape(vid)?.capacity;
        let promised = self.libraries.capacity_of(vid).filter(|promised| promised.0 > 0).unwrap_or(known);
        if told.0 < promised.0 / BELIEVED_PART {
            tracing::warn!(%vid, %told, %promised,
                "the drive says of an empty tape that next to nothing fits on it: it is not believed");
            return Ok(Vec::new());
        }
        let capacity = capacity_of_empty(promised, told);
        let tapes = self.catalogue.read(|view| view.tapes())?;
        let promise_alike =
            |other: &Vid| *other != vid && self.libraries.capacity_of(*other) == Some(promised);
        let differs = |tape: &TapeRecord| tape.capacity.0.abs_diff(capacity.0) > reserve(capacity).0;
        let is_short = |tape: &TapeRecord| capacity_of_empty(promised, tape.capacity) != promised;
        let is_second = tapes
            .iter()
            .any(|(other, tape)| promise_alike(other) && tape.state != TapeState::Scratch && is_short(tape));
        let mut like_it: Vec<Vid> = Vec::new();
        if capacity == promised || is_second {
            let is_like_it = |(other, tape): &&(Vid, TapeRecord)| {
                tape.state == TapeState::Scratch && promise_alike(other) && differs(tape)
            };
            like_it.extend(tapes.iter().filter(is_like_it).map(|(other, _)| *other));
        }
        if capacity != promised && capacity != known {
            tracing::warn!(%vid, %promised, holds = %capacity, scratch_tapes_like_it = like_it.len(),
                "the tape holds less than its medium promises");
        }
        if capacity != known {
            like_it.push(vid);
        }
        for some in like_it.chunks(BATCH_MAX) {
            let commands = some.iter().map(|vid| Command::SetTapeCapacity { vid: *vid, capacity }).collect();
            // One that was retired meanwhile needs none.
            drop(self.catalogue.execute_all(commands).map_err(ArchiveError::Store)?);
        }
        Ok(like_it)
    }
}
