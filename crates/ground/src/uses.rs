//! Files that were read: whoever makes room in the pool takes those first that nobody has used for long.

use std::collections::BTreeSet;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

use base::FileId;
use threads::Mutex;

/// Files that are kept until their use stands in the catalogue; of more the use is not noted.
const NOTED_MAX: usize = 200_000;
/// Files that are used again and are to be looked at for that; further ones are left out.
const AGAIN_MAX: usize = 10_000;

/// Files read since their use was taken from here.
#[derive(Default)]
pub struct Uses {
    /// Somebody takes them from here.
    is_wanted: AtomicBool,
    files: Mutex<BTreeSet<FileId>>,
    /// Those that were read in several hours not long apart.
    again: Mutex<BTreeSet<FileId>>,
}

impl Uses {
    /// From now on somebody takes from here what was read.
    pub fn want(&self) {
        self.is_wanted.store(true, Ordering::Relaxed);
    }

    /// A file was read.
    pub fn note(&self, file: FileId) {
        if !self.is_wanted.load(Ordering::Relaxed) {
            return;
        }
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if files.len() < NOTED_MAX {
            files.insert(file);
        }
    }

    /// A file is used again: whoever has a place for what is used is told.
    pub fn note_again(&self, file: FileId) {
        let mut again = self.again.lock().unwrap_or_else(PoisonError::into_inner);
        if again.len() < AGAIN_MAX {
            again.insert(file);
        }
    }

    /// Some of those that are used again, each once.
    pub fn take_again(&self, limit: usize) -> Vec<FileId> {
        let mut again = self.again.lock().unwrap_or_else(PoisonError::into_inner);
        (0..limit).map_while(|_| again.pop_first()).collect()
    }

    /// The files that were read since the last call.
    pub fn take(&self) -> BTreeSet<FileId> {
        std::mem::take(&mut *self.files.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_kept_than_the_limit_and_taking_makes_room() {
        let uses = Uses::default();
        uses.note(FileId(1));
        assert!(uses.take().is_empty(), "nobody wants them");
        uses.want();
        (0..NOTED_MAX as u64 + 1).for_each(|id| uses.note(FileId(id)));
        uses.note(FileId(0));
        let taken = uses.take();
        assert_eq!((taken.len(), taken.last()), (NOTED_MAX, Some(&FileId(NOTED_MAX as u64 - 1))));
        uses.note(FileId(7));
        assert_eq!(uses.take(), BTreeSet::from([FileId(7)]));
    }
}
