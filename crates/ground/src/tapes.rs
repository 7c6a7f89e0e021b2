//! What all rooms know of tapes.

use base::{ByteCount, TapePoolId, Vid};
use catalogue::{ReadError, TapeRecord, TapeState, View};

use scheduler::TapeSummary;

use crate::{Class, Ground};

impl Ground {
    /// The largest container that each tape pool of a class takes on an empty tape that may be written;
    /// `None` if there is no limit: the class is not on tape, or no pool has tapes that count. What is sealed
    /// is no larger.
    pub fn largest_for(&self, view: &View<'_>, class: &Class) -> Result<Option<ByteCount>, ReadError> {
        if class.copies.is_empty() {
            return Ok(None);
        }
        let tapes = view.tapes()?;
        Ok(class.copies.iter().filter_map(|pool| self.largest_among(&tapes, *pool)).min())
    }

    /// The largest container that some tape of a pool that may be written, or a scratch tape that may become
    /// one of it, takes when it is empty; `None` if there is none that counts: then a lack of tapes is the
    /// cause.
    pub fn largest_of(&self, view: &View<'_>, pool: TapePoolId) -> Result<Option<ByteCount>, ReadError> {
        Ok(self.largest_among(&view.tapes()?, pool))
    }

    /// Whether a recall may read a tape now: a library holds it, it is in use, and its key, if it has one, is
    /// at hand.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn may_be_read(&self, view: &View<'_>, vid: Vid, record: &TapeRecord) -> Result<bool, ReadError> {
        Ok(self.libraries.holds(vid) && is_readable(record) && !view.lacks_key(record)?)
    }

    fn largest_among(&self, tapes: &[(Vid, TapeRecord)], pool: TapePoolId) -> Option<ByteCount> {
        let settings = self.classes.tape_pools().get(&pool);
        let library = settings.and_then(|pool| pool.library.as_deref());
        let is_near = |vid: Vid| {
            library.is_none_or(|library| self.libraries.name(self.libraries.of_tape(vid)) == library)
        };
        let tapes = tapes.iter().filter(|(vid, tape)| {
            let is_of_pool = tape.tape_pool.is_none_or(|of| of == pool);
            let is_there = !is_unidentified(tape) && self.libraries.holds(*vid);
            is_there && may_be_written(tape.state) && is_of_pool && is_near(*vid)
        });
        tapes.map(|(_, tape)| largest_container(tape.capacity)).max()
    }
}

/// Whether a tape in this state can be read.
#[must_use]
pub fn is_readable(record: &TapeRecord) -> bool {
    let state = record.state;
    matches!(state, TapeState::Active | TapeState::Full | TapeState::ReadOnly | TapeState::Repacking)
}

/// Whether a tape in this state is written, or will be when its turn comes.
fn may_be_written(state: TapeState) -> bool {
    matches!(state, TapeState::Scratch | TapeState::Labelling | TapeState::Active)
}

/// Whether the library cannot identify a cartridge, so that nothing is known of it and nothing is done with
/// it. One that an operator has disabled or retired is that.
pub fn is_unidentified(record: &TapeRecord) -> bool {
    record.capacity.0 == 0 && !matches!(record.state, TapeState::Disabled | TapeState::Retired)
}

/// Which part of a tape is kept for indexes and change-log segments.
const RESERVE_PART: u64 = 32;

/// Which part of a tape is left when a drive that can be told so warns of its end (programmable early
/// warning).
///
/// Half of what is kept: containers are chosen by what the drive says is left, less the whole, so that a tape
/// on which that is right is never warned of too early, and on one that turns out to be shorter the run is
/// closed while index and changes still fit. The place of a drive's own early warning is its maker's choice,
/// and may be too near to the end for the index of a tape full of files. On drives without another it is what
/// there is: the container goes on to the end of the medium, and if not even an index fits behind it, the
/// tape is read-only.
pub const WARNING_PART: u64 = 2 * RESERVE_PART;

/// Of a tape of which that part is less than this no drive is told to warn.
pub const WARNING_LEAST: ByteCount = ByteCount(32_000_000);

/// An empty tape of which the drive says that it holds less than this is not used: beside labels, indexes and
/// what is kept for them hardly a file fits. No cartridge that is sold is so short, so either the cartridge
/// or the drive's word is wrong.
pub const SMALLEST_TAPE: ByteCount = ByteCount::mib(8);

/// Room kept on a tape for indexes and change-log segments: a thirty-second part of it.
pub fn reserve(capacity: ByteCount) -> ByteCount {
    ByteCount(capacity.0 / RESERVE_PART)
}

/// Bytes that still fit on a tape as far as the catalogue knows: what sessions that ended badly have left
/// takes room too.
pub fn room_left(record: &TapeRecord) -> ByteCount {
    ByteCount(record.capacity.0.saturating_sub(record.written.0).saturating_sub(record.torn.0))
}

/// What an empty tape holds of which the medium promises `promised`, and the drive says that `told` are left.
/// A little less or more is the medium's own way of counting, and is in what is kept; a tape that is shorter
/// or longer than that is as long as the drive says. A promise of 0 is none.
pub fn capacity_of_empty(promised: ByteCount, told: ByteCount) -> ByteCount {
    let is_as_promised = promised.0 > 0 && told.0.abs_diff(promised.0) <= reserve(promised).0;
    if is_as_promised { promised } else { told }
}

/// The largest container that an empty tape of this capacity takes: once the reserve for indexes, and once as
/// much for the early warning, which comes a little before the end.
pub fn largest_container(capacity: ByteCount) -> ByteCount {
    ByteCount(capacity.0.saturating_sub(2 * reserve(capacity).0))
}

/// A tape on which nothing that waits fits stays open for smaller containers as long as so much is left: a
/// sixteenth of it. With less it is full.
pub fn useful_room(capacity: ByteCount) -> ByteCount {
    ByteCount(capacity.0 / 16)
}

/// What a tape's record says to the scheduler, but for where it is and why it is in its state.
pub fn summary(record: &TapeRecord) -> TapeSummary {
    let readable = is_readable(record);
    let writable = !is_unidentified(record) && may_be_written(record.state);
    let free = room_left(record).0.saturating_sub(reserve(record.capacity).0);
    TapeSummary {
        tape_pool: record.tape_pool,
        readable,
        writable,
        free: ByteCount(free),
        written: record.written,
        labelled: record.generation.0 > 0,
        mounts: record.mounts,
        ..TapeSummary::default()
    }
}
