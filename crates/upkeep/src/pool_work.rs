//! What is told of work on the whole pool that goes on for long: how far it is, or the last one since the
//! start came. What lasts is the word in the catalogue by which it was asked for.

use std::sync::PoisonError;

use base::Timestamp;
use ground::PoolWork;
use threads::{Mutex, MutexGuard};

/// How far such work is.
pub(crate) trait Progress: Clone {
    /// The word by which it was asked for.
    type Word: Copy;

    /// Of work that has not begun.
    fn of(word: Self::Word) -> Self;

    /// Whether it is of the work that was asked for by this word.
    fn is_of(&self, word: Self::Word) -> bool;

    /// What it does.
    fn state(&mut self) -> &mut PoolWork;

    /// Works out rate and time left.
    fn estimate(&mut self, now: Timestamp);
}

/// What is known of it.
pub(crate) struct Told<P> {
    progress: Mutex<Option<P>>,
    saying: Mutex<()>,
}

impl<P> Default for Told<P> {
    fn default() -> Self {
        Told { progress: Mutex::new(None), saying: Mutex::new(()) }
    }
}

impl<P: Progress> Told<P> {
    fn lock(&self) -> MutexGuard<'_, Option<P>> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Held while a word about it is given: what is ended is the one that was meant.
    pub(crate) fn says(&self) -> MutexGuard<'_, ()> {
        self.saying.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another one begins.
    pub(crate) fn begin(&self, word: P::Word) {
        *self.lock() = Some(P::of(word));
    }

    /// Takes note of how far it is; what is told of one that has ended comes too late.
    pub(crate) fn note(&self, change: impl FnOnce(&mut P)) {
        if let Some(progress) = self.lock().as_mut()
            && !matches!(progress.state(), PoolWork::Ended(_))
        {
            change(progress);
        }
    }

    /// What it does now.
    pub(crate) fn state(&self, state: PoolWork) {
        self.note(|progress| *progress.state() = state);
    }

    /// The one that was asked for by this word has ended; `last` is what changes of its figures by that.
    pub(crate) fn end(&self, word: P::Word, why: &str, last: impl FnOnce(&mut P)) {
        let mut known = self.lock();
        let mut progress = known.take().filter(|known| known.is_of(word)).unwrap_or_else(|| P::of(word));
        last(&mut progress);
        *progress.state() = PoolWork::Ended(why.to_owned());
        *known = Some(progress);
    }

    /// How far it is, or the last one came; `said`: the word that the catalogue has.
    pub(crate) fn seen(&self, said: Option<P::Word>, now: Timestamp) -> Option<P> {
        let known = self.lock().clone();
        // Of another word the scrubber has not heard yet.
        let mut progress = match said {
            Some(word) => Some(known.filter(|known| known.is_of(word)).unwrap_or_else(|| P::of(word))),
            None => known,
        };
        if let Some(progress) = &mut progress {
            progress.estimate(now);
        }
        progress
    }
}
