//! All that happened to all machines, in one order, and the worlds that a crash at any point leaves.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{DriveId, Vid};
use store::MemoryChange;

use super::disk_state::DiskEffect;
use super::tape_state::TapeEffect;
use super::{Contents, Dice, MachineConfig, Pace, SimMachines};

/// A change of one machine.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    Disk(DriveId, DiskEffect),
    Tape(Vid, TapeEffect),
    Catalogue(Arc<[MemoryChange]>),
}

/// The changes of all machines of a world in the order in which they happened. Clones are one.
#[derive(Clone, Default)]
pub struct Journal(Arc<Mutex<Vec<Effect>>>);

impl Journal {
    /// How many changes there were so far: a point at which the history may be cut.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether nothing happened yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn push(&self, effect: Effect) {
        self.lock().push(effect);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Effect>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Goes through a history from its beginning and gives images of it.
pub struct Replay {
    config: MachineConfig,
    journal: Journal,
    contents: Contents,
    at: usize,
}

impl Replay {
    pub(crate) fn new(config: MachineConfig, journal: Journal, contents: Contents) -> Self {
        Replay { config, journal, contents, at: 0 }
    }

    /// Goes on to a point of the history, which must not lie before the last one.
    ///
    /// # Panics
    /// If it does.
    pub fn advance(&mut self, to: usize) {
        assert!(to >= self.at, "a replay goes forward");
        let effects = self.journal.lock();
        for effect in effects.iter().take(to).skip(self.at) {
            self.contents.apply(effect);
        }
        self.at = to;
    }

    /// The machines as a loss of power at this point may have left them: what was not synced is lost, torn or
    /// there, as the dice fall. With a journal of what follows, if that is to be cut again.
    #[must_use]
    pub fn image(&self, dice: &mut Dice, pace: Arc<dyn Pace>, journal: Option<Journal>) -> SimMachines {
        let mut contents = self.contents.fork();
        contents.power_loss(dice);
        SimMachines::with_contents(&self.config, contents, pace, journal)
    }
}
