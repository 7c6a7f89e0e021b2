//! Faults on demand. Only with the feature `faults`, which a released daemon is built without.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{BlockAddress, TapePosition, Vid};

/// The faults planned for a library's cartridges. Clones share one plan.
#[derive(Clone, Default)]
pub struct Faults(Arc<Mutex<Plan>>);

#[derive(Default)]
struct Plan {
    write_errors: BTreeSet<(Vid, TapePosition)>,
    ends: BTreeSet<(Vid, TapePosition)>,
    unreadable: BTreeSet<(Vid, TapePosition)>,
    jams: BTreeSet<Vid>,
    fired: usize,
}

impl Faults {
    /// Writing this block fails with an input/output error.
    pub fn plan_write_error(&self, vid: Vid, at: TapePosition) {
        self.lock().write_errors.insert((vid, at));
    }

    /// The partition ends at this block.
    pub fn plan_end(&self, vid: Vid, at: TapePosition) {
        self.lock().ends.insert((vid, at));
    }

    /// This block is unreadable.
    pub fn plan_unreadable(&self, vid: Vid, at: TapePosition) {
        self.lock().unreadable.insert((vid, at));
    }

    /// The next mount of this cartridge jams the robot.
    pub fn plan_jam(&self, vid: Vid) {
        self.lock().jams.insert(vid);
    }

    /// Forgets all plans.
    pub fn clear(&self) {
        let fired = self.fired();
        *self.lock() = Plan { fired, ..Plan::default() };
    }

    /// How many faults have happened: a test of a fault asserts that this rose.
    #[must_use]
    pub fn fired(&self) -> usize {
        self.lock().fired
    }

    pub(super) fn write_at(&self, vid: Vid, at: TapePosition) -> io::Result<()> {
        let mut plan = self.lock();
        if plan.write_errors.contains(&(vid, at)) {
            plan.fired += 1;
            return Err(io::Error::from_raw_os_error(5));
        }
        Ok(())
    }

    pub(super) fn is_end(&self, vid: Vid, at: TapePosition) -> bool {
        let mut plan = self.lock();
        let first = TapePosition { block: BlockAddress(0), ..at };
        let ends = plan.ends.range((vid, first)..=(vid, at)).next().is_some();
        plan.fired += usize::from(ends);
        ends
    }

    pub(super) fn is_unreadable(&self, vid: Vid, at: TapePosition) -> bool {
        let mut plan = self.lock();
        let unreadable = plan.unreadable.contains(&(vid, at));
        plan.fired += usize::from(unreadable);
        unreadable
    }

    pub(super) fn jams(&self, vid: Vid) -> bool {
        let mut plan = self.lock();
        let jams = plan.jams.remove(&vid);
        plan.fired += usize::from(jams);
        jams
    }

    fn lock(&self) -> MutexGuard<'_, Plan> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
