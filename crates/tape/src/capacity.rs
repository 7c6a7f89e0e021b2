//! What an empty tape holds: its medium promises it, and the drive that labels it knows.

use base::{ByteCount, Vid};
use catalogue::{Command, TapeRecord, TapeState};
use ground::{ArchiveError, SMALLEST_TAPE, capacity_of_empty, reserve};
use store::BATCH_MAX;

use crate::room::Tape;

/// Whether a tape went out of use before anything was written to it, as one of which a drive says that it
/// holds next to nothing. Reclaimed, it would be labelled again, and found to be the same.
pub(crate) fn is_of_no_use(tape: &TapeRecord) -> bool {
    tape.state == TapeState::Disabled && tape.containers == 0 && tape.committed.0 == 0
}

fn used_and(record: &TapeRecord, left: ByteCount) -> ByteCount {
    ByteCount(record.written.0.saturating_add(record.torn.0).saturating_add(left.0))
}

impl Tape {
    /// Takes note of what a drive says of a tape that it has just labelled. When a second tape turns out to
    /// be as much shorter or longer than its medium promises, so are those that are scratch and promise the
    /// same, until they are labelled themselves: else one after the other would be labelled for a container
    /// that none of them takes. Two that differ from each other may be one odd drive. Gives whether the tape
    /// is of use. Of one that is not, no other is believed to be like it: it may be the drive that does not
    /// know.
    ///
    /// # Errors
    /// If the catalogue cannot be written.
    pub(crate) fn empty_tape_holds(&self, vid: Vid, told: ByteCount) -> Result<bool, ArchiveError> {
        if told < SMALLEST_TAPE {
            return Ok(false);
        }
        let like_it = {
            // Two tapes that are labelled at the same time see each other.
            let _one = self.tape_states();
            self.note_capacity(vid, told)?
        };
        like_it.into_iter().for_each(|vid| self.post_tape(vid));
        Ok(true)
    }

    /// Takes note of what a drive says is left on a tape that was labelled before: one with no data on it
    /// that holds less than half of what is known was labelled by a version that believed a label, or nobody
    /// came to ask the drive. Gives whether the tape is of use. No tape is lengthened here: what is sealed
    /// for the longest tape of a pool goes to none of the others.
    ///
    /// # Errors
    /// If the catalogue cannot be read or written.
    pub(crate) fn tape_has_left(&self, vid: Vid, left: ByteCount) -> Result<bool, ArchiveError> {
        let record = self.tape(vid)?;
        let holds = used_and(&record, left);
        if record.state != TapeState::Active
            || holds.0 >= record.capacity.0 / 2
            || !self.is_as_labelled(&record)?
        {
            return Ok(true);
        }
        self.empty_tape_holds(vid, holds)
    }

    /// Whether nothing but what Kist keeps for itself was ever written to a labelled tape. Of one that may
    /// hold what a restored catalogue does not know, that is not said.
    fn is_as_labelled(&self, record: &TapeRecord) -> Result<bool, ArchiveError> {
        let has_data = record.containers > 0 || record.committed.0 > 0 || record.run.is_some();
        Ok(!has_data && self.read(|view| view.quarantine())?.is_none())
    }

    /// The tapes of which the catalogue has another capacity now.
    fn note_capacity(&self, vid: Vid, told: ByteCount) -> Result<Vec<Vid>, ArchiveError> {
        let known = self.tape(vid)?.capacity;
        let promised = self.libraries.capacity_of(vid).filter(|promised| promised.0 > 0).unwrap_or(known);
        let capacity = capacity_of_empty(promised, told);
        let tapes = self.catalogue.read(|view| view.tapes())?;
        let promise_alike =
            |other: &Vid| *other != vid && self.libraries.capacity_of(*other) == Some(promised);
        let differs = |tape: &TapeRecord| tape.capacity.0.abs_diff(capacity.0) > reserve(capacity).0;
        let is_second = tapes.iter().any(|(other, tape)| {
            promise_alike(other)
                && tape.generation.0 > 0
                && tape.state != TapeState::Scratch
                && !differs(tape)
        });
        let mut like_it: Vec<Vid> = Vec::new();
        if capacity == promised || is_second {
            let is_like_it = |(other, tape): &&(Vid, TapeRecord)| {
                tape.state == TapeState::Scratch && promise_alike(other) && differs(tape)
            };
            like_it.extend(tapes.iter().filter(is_like_it).map(|(other, _)| *other));
        }
        if capacity != promised && capacity != known {
            tracing::warn!(%vid, %promised, holds = %capacity, scratch_tapes_like_it = like_it.len(),
                "the tape holds other than its medium promises");
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
