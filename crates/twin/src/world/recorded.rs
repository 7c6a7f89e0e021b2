//! Runs over a record: given holdings, evictions at given times, and a trace of what happened.

use base::FileId;

use super::agenda::What;
use super::{Trace, World};
use crate::holdings::{Holdings, TapeIndex};
use crate::moment::Moment;
use report::outcome::Outcome;
use scenario::model::{FileNumber, Model};

/// How a tape that is not as any other stands at the beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TapeIs {
    /// Nothing more goes onto it.
    Full,
    /// Nothing is written to it, and it is read.
    ReadOnly,
    /// Nothing is read from it.
    Unreadable,
}

/// How a file was recorded to leave the pool.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Leaves {
    /// Its copies stay.
    Evicted,
    /// It is no more.
    Removed,
}

/// Runs a model over holdings that stand where they were recorded to. `evictions` ascend by time; at each
/// time of `migrate_now` everything that waits to be written is due.
#[must_use]
pub fn run_recorded(
    model: &Model,
    holdings: Holdings,
    tapes: &[(TapeIndex, TapeIs)],
    evictions: Vec<(Moment, FileId, Leaves)>,
    migrate_now: &[Moment],
) -> (Outcome, Trace) {
    let running = || {
        let mut world = World::over(model, 1, None, holdings);
        world.cache.keep_all();
        world.set_tapes(tapes);
        world.begin();
        world.evictions = evictions.into();
        world.plan_evictions();
        for at in migrate_now {
            world.agenda.enter(*at, What::MigrateNow);
        }
        world.begin_trace();
        while world.step() {}
        let trace = world.take_trace();
        (world.finish(), trace)
    };
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(running)).unwrap_or_else(|cause| {
        let text = cause.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| cause.downcast_ref::<&str>().copied()).unwrap_or("?");
        let violation = Some(format!("an assertion failed: {text}"));
        (Outcome { variant: model.name.clone(), seed: 1, violation, ..Outcome::default() }, Trace::default())
    })
}

impl World<'_> {
    fn set_tapes(&mut self, tapes: &[(TapeIndex, TapeIs)]) {
        for (tape, how) in tapes {
            let Some(state) = self.tapes.get_mut(tape.0 as usize) else { continue };
            match how {
                TapeIs::Full => state.is_full = true,
                TapeIs::ReadOnly => state.is_read_only = true,
                TapeIs::Unreadable => state.is_unreadable = true,
            }
        }
    }

    fn plan_evictions(&mut self) {
        if let Some((at, ..)) = self.evictions.front() {
            let at = (*at).max(self.now);
            self.agenda.enter(at, What::EvictRecorded);
        }
    }

    /// Files leave the pool as they were recorded to.
    pub(super) fn evict_recorded(&mut self) {
        let mut has_room = false;
        while let Some(&(at, id, how)) = self.evictions.front() {
            if at > self.now {
                break;
            }
            self.evictions.pop_front();
            let file = FileNumber::of(id);
            has_room |= match how {
                Leaves::Evicted => self.leaves(file),
                Leaves::Removed => self.remove(file),
            };
        }
        if has_room {
            self.room_was_made();
        }
        self.plan_evictions();
    }

    /// A file is removed, as by the server: nobody waits for it any more, and if it is in no container yet it
    /// waits for none. One that was sealed stays until its container has all its copies. Whether there is
    /// more room now.
    fn remove(&mut self, file: FileNumber) -> bool {
        self.wanted_by_nobody(file);
        let todo = &self.migration.todo[usize::from(file.class.0)];
        if file.sequence < todo.begin || todo.safe.get(file.sequence) {
            return self.leaves(file);
        }
        if self.drop_unsealed(file) {
            return true;
        }
        // Sealed, or not wholly there: the run may be behind its record.
        self.removed.insert(file.id());
        self.overdue.insert(file.id());
        false
    }

    /// A file that was put is wholly in the pool, and was recorded to have been removed by now.
    pub(super) fn removed_late(&mut self, file: FileNumber) -> bool {
        let is_removed = !self.removed.is_empty() && self.removed.remove(&file.id());
        if is_removed && self.drop_unsealed(file) {
            self.overdue.remove(&file.id());
            self.room_was_made();
        }
        is_removed
    }

    /// A file that was recorded to leave the pool does, or is to as soon as it has come and has all its
    /// copies: the run may be behind its record. Whether it has left.
    fn leaves(&mut self, file: FileNumber) -> bool {
        let todo = &self.migration.todo[usize::from(file.class.0)];
        let is_here = self.cache.contains(file);
        let was_put = file.sequence >= todo.begin;
        if is_here && (!was_put || todo.safe.get(file.sequence)) {
            self.cache.drop_file(file);
            return true;
        }
        if is_here || self.wants.get(file.id()).is_some() || (was_put && !todo.safe.get(file.sequence)) {
            self.overdue.insert(file.id());
        }
        false
    }

    /// A file has come, or has all its copies: it leaves if it was recorded to have left by now.
    pub(super) fn leaves_late(&mut self, file: FileNumber) {
        if self.overdue.remove(&file.id()) && self.leaves(file) {
            self.room_was_made();
        }
    }
}
