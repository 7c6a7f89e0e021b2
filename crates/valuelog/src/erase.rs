//! Erasing everything.

use std::io;

use base::Uuid;
use drive::AlignedBuffer;

use crate::error::LogError;
use crate::log::{Inner, ValueLog};
use crate::medium::Medium;
use crate::superblock::Superblock;

/// Bytes that are overwritten at a time.
const WIPE_BYTES: usize = 1 << 20;

/// How everything is erased.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Erase {
    /// The store gets another id: what stands there is none of it any more.
    Quick,
    /// And all segments that were ever used are overwritten with zeros. What a disk keeps elsewhere, in
    /// spare blocks, is not reached.
    Secure,
}

impl ValueLog {
    /// Erases everything, durable on return. The store goes on as a new one of this id.
    ///
    /// A secure erase that is interrupted is completed by the next opening.
    ///
    /// # Errors
    /// [`LogError::Poisoned`], [`LogError::Closed`].
    pub fn erase(&self, id: Uuid, how: Erase) -> Result<(), LogError> {
        self.inner.erase(id, how)
    }
}

impl Inner {
    fn erase(&self, id: Uuid, how: Erase) -> Result<(), LogError> {
        let mut making = self.making();
        let mut state = self.lock();
        state.check_open()?;
        state.is_erasing = true;
        while !state.is_idle() && state.failure.is_none() {
            state = self.wait(state);
        }
        drop(state);
        let made = making.superblock.made.max(making.superblock.wipe);
        let wipe = if how == Erase::Secure { made } else { 0 };
        let next = Superblock { store: id, made: 0, wipe, ..making.superblock };
        let mut erased = making.write(&*self.medium, next);
        if erased.is_ok() {
            self.lock().clear(id);
            if how == Erase::Secure {
                let medium = &*self.medium;
                erased = wipe_slots(medium, wipe, self.layout.segment_bytes())
                    .and_then(|()| making.write(medium, Superblock { wipe: 0, ..next }));
            }
        }
        self.lock().is_erasing = false;
        self.changed.notify_all();
        erased.map_err(|error| self.poison("erasing", &error))
    }
}

/// Overwrites all slots below this one, durable on return.
pub(crate) fn wipe_slots(medium: &dyn Medium, slots: u32, segment: u32) -> io::Result<()> {
    let zeros = AlignedBuffer::new(WIPE_BYTES);
    for slot in 0..slots {
        for offset in (0..segment).step_by(WIPE_BYTES) {
            let bytes = WIPE_BYTES.min((segment - offset) as usize);
            medium.write(slot, offset, &[&zeros.as_slice()[..bytes]])?;
        }
    }
    medium.sync()
}
