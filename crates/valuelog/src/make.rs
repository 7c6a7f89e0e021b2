//! Making segments ready, and finding one for whoever needs it.

use std::io;

use drive::{AlignedBuffer, PAGE};

use crate::error::LogError;
use crate::limits::{CLEANING_GAIN_SHARE, MADE_AT_A_TIME, PAGE_WORD};
use crate::log::Inner;
use crate::medium::Medium;
use crate::segment::{Mark, State as MarkState};
use crate::state::{Privilege, SlotState};
use crate::superblock::Superblock;

/// Segments that are cleaned for one change before it is refused: each gives back a part of one at least.
const CLEANINGS_MAX: u32 = 256;

/// What whoever makes segments free or ready has for itself.
pub(crate) struct Making {
    pub(crate) superblock: Superblock,
    /// Which of the two superblocks was written last.
    pub(crate) newest: usize,
}

impl Making {
    /// Replaces the superblock, durable on return. The one that holds is written last, so that a torn write
    /// leaves one of them whole.
    pub(crate) fn write(&mut self, medium: &dyn Medium, next: Superblock) -> io::Result<()> {
        let next = Superblock { generation: self.superblock.generation + 1, ..next };
        let mut page = AlignedBuffer::new(PAGE);
        next.encode(page.as_mut_slice());
        for copy in [1 - self.newest, self.newest] {
            medium.write_superblock(copy, page.as_slice())?;
            medium.sync()?;
        }
        self.superblock = next;
        Ok(())
    }
}

/// Writes the page at an end of a slot.
pub(crate) fn write_mark(medium: &dyn Medium, mark: Mark, offset: u32) -> io::Result<()> {
    let mut page = AlignedBuffer::new(PAGE);
    mark.encode(page.as_mut_slice());
    medium.write(mark.slot, offset, &[page.as_slice()])
}

/// Says at both ends of a slot that nothing in it counts.
pub(crate) fn mark_free(medium: &dyn Medium, mark: Mark, segment: u32) -> io::Result<()> {
    assert_eq!(mark.state, MarkState::Free, "of a slot that is free");
    write_mark(medium, mark, 0)?;
    write_mark(medium, mark, segment - PAGE_WORD)
}

impl Inner {
    /// Finds a segment for an append that has none.
    pub(crate) fn provide(&self, privilege: Privilege, attempts: u32) -> Result<(), LogError> {
        let mut making = self.making();
        let (may_take, has_free) = {
            let state = self.lock();
            state.check_open()?;
            (state.may_take(privilege), !state.free.is_empty())
        };
        if may_take {
            return if has_free { Ok(()) } else { self.make_ready(&mut making) };
        }
        if attempts > CLEANINGS_MAX {
            return Err(LogError::NoSpace);
        }
        let gain = match privilege {
            Privilege::Put => self.gain_min(),
            _ => PAGE as u64,
        };
        if self.clean_one(&mut making, gain)? { Ok(()) } else { Err(LogError::NoSpace) }
    }

    /// The least that a segment must give back to be cleaned for a put.
    pub(crate) fn gain_min(&self) -> u64 {
        (self.layout.segment.0 / CLEANING_GAIN_SHARE).max(PAGE as u64)
    }

    /// Makes the next slots ready: first they say that nothing is in them, then the superblock counts them.
    pub(crate) fn make_ready(&self, making: &mut Making) -> Result<(), LogError> {
        let (made, limit, store, durable, epoch) = {
            let state = self.lock();
            (state.made, state.limit, state.store, state.durable, state.epoch)
        };
        let end = limit.min(made + MADE_AT_A_TIME);
        let mut ready = made;
        for slot in made..end {
            match self.medium.make(slot) {
                Ok(()) => {}
                // The file system is full before the store is: it is as large as it has become.
                Err(error) if is_full(&error) => {
                    self.lock().limit = ready;
                    break;
                }
                Err(error) => return Err(self.poison("making a segment", &error)),
            }
            // Above all uses of earlier epochs: of a store that was here with the same id, nothing counts.
            let used = u64::from(epoch) << 32;
            let mark = Mark { store, slot, used, durable, state: MarkState::Free };
            let marked = mark_free(&*self.medium, mark, self.layout.segment_bytes());
            marked.map_err(|error| self.poison("making a segment", &error))?;
            ready = slot + 1;
        }
        if ready == made {
            return Ok(());
        }
        let next = Superblock { made: ready, ..making.superblock };
        let synced = self.medium.sync().and_then(|()| making.write(&*self.medium, next));
        synced.map_err(|error| self.poison("writing the superblock", &error))?;
        let mut state = self.lock();
        for slot in made..ready {
            state.slot(slot).state = SlotState::Free;
            state.free.insert(slot);
        }
        state.made = ready;
        Ok(())
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
