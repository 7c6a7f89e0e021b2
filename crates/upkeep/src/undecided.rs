//! Files that the pool cannot give, and about which nothing was decided since the keys of their tapes were
//! not asked for yet.

use std::collections::BTreeSet;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use base::FileId;
use catalogue::FileState;
use threads::Mutex;

use crate::Upkeep;
use crate::lost::{self, Declared, PAGE};
use ground::ArchiveError;

/// So many are remembered; a pass comes to the others.
const UNDECIDED_MAX: usize = 100_000;

#[derive(Default)]
pub(crate) struct Undecided(Mutex<BTreeSet<FileId>>);

impl Undecided {
    fn note(&self, files: impl IntoIterator<Item = FileId>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for file in files {
            if known.len() < UNDECIDED_MAX {
                known.insert(file);
            }
        }
    }

    fn is_any(&self) -> bool {
        !self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn take(&self) -> BTreeSet<FileId> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Upkeep {
    /// These are decided about when the keys were asked for.
    pub(crate) fn decide_later(&self, files: impl IntoIterator<Item = FileId>) {
        self.undecided.note(files);
        // They may have been meanwhile, and whoever asked has found nothing undecided.
        if self.has_asked_for_keys() {
            self.order(|orders| orders.decide = true);
        }
    }

    /// A key that was missing is there again: files that only tapes with it have are not LOST any more.
    pub fn key_is_there_again(&self) {
        self.some_lost.store(true, Ordering::SeqCst);
        let is_undecided = self.undecided.is_any();
        self.order(|orders| {
            orders.decide |= is_undecided;
            orders.find_again = true;
        });
    }

    /// All keys of tapes were asked for once since the start, or none is needed. `any`: what was left
    /// undecided before is looked at, and what seemed to be LOST.
    pub fn asked_for_keys(&self, any: bool) {
        if !self.keys_asked.swap(true, Ordering::SeqCst) && any {
            self.some_lost.store(true, Ordering::SeqCst);
            let is_undecided = self.undecided.is_any();
            self.order(|orders| {
                orders.decide |= is_undecided;
                orders.find |= is_undecided;
                orders.find_again = true;
            });
        }
    }

    /// Whether a key of tapes that is not at hand is known to be missing: all were asked for since the start.
    pub fn has_asked_for_keys(&self) -> bool {
        self.keys_asked.load(Ordering::SeqCst)
    }

    /// Decides about what was left undecided: each file is read once more.
    pub(crate) fn decide(&self) -> Result<Declared, ArchiveError> {
        let files: Vec<FileId> = self.undecided.take().into_iter().collect();
        let mut all = Declared::default();
        for (page, from) in files.chunks(PAGE).zip((0..).step_by(PAGE)) {
            match self.decide_page(page) {
                Ok(declared) => all.add(declared),
                Err(error) => {
                    self.undecided.note(files.into_iter().skip(from));
                    return Err(error);
                }
            }
            if self.stopping() {
                break;
            }
        }
        Ok(all)
    }

    fn decide_page(&self, page: &[FileId]) -> Result<Declared, ArchiveError> {
        let files = self.read(|view| {
            let mut files = Vec::with_capacity(page.len());
            for id in page {
                let file = view.file(*id)?;
                let file = file.filter(|file| file.state == FileState::Live && file.is_online());
                files.extend(file.map(|file| (*id, file)));
            }
            Ok(files)
        })?;
        lost::declare_unreadable(self, &files)
    }
}
