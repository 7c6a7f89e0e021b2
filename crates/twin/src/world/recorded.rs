//! Runs over a record: given holdings, evictions at given times, and a trace of what happened.

use base::{Duration, FileId};

use super::agenda::What;
use super::{Trace, World};
use crate::holdings::{Holdings, TapeIndex};
use crate::model::{FileNumber, Model};
use crate::moment::Moment;
use crate::outcome::Outcome;

/// A file that may not go yet is looked at again after so long.
const EVICT_AGAIN: Duration = Duration::from_secs(1);

/// How a tape that is not as any other stands at the beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TapeIs {
    Full,
    ReadOnly,
    Unreadable,
}

/// Runs a model over holdings that stand where they were recorded to. `evictions` ascend by time; at each
/// time of `migrate_now` everything that waits to be written is due.
pub(crate) fn run_recorded(
    model: &Model,
    holdings: Holdings,
    tapes: &[(TapeIndex, TapeIs)],
    evictions: Vec<(Moment, FileId)>,
    migrate_now: &[Moment],
) -> (Outcome, Trace) {
    let running = || {
        let mut world = World::over(model, 1, None, holdings);
        world.set_tapes(tapes);
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
            self.tell_tape(*tape);
        }
    }

    fn plan_evictions(&mut self) {
        if let Some((at, _)) = self.evictions.front() {
            let at = (*at).max(self.now);
            self.agenda.enter(at, What::EvictRecorded);
        }
    }

    /// Files leave the pool as they were recorded to, as soon as they have all their copies.
    pub(super) fn evict_recorded(&mut self) {
        let mut later = Vec::new();
        while let Some(&(at, id)) = self.evictions.front() {
            if at > self.now {
                break;
            }
            self.evictions.pop_front();
            let file = FileNumber::of(id);
            if !self.cache.contains(file) {
                continue;
            }
            let todo = &self.migration.todo[usize::from(file.class.0)];
            if file.sequence >= todo.begin && !todo.safe.get(file.sequence) {
                later.push(id);
            } else {
                self.cache.drop_file(file);
            }
        }
        if !later.is_empty() {
            let again = self.now.plus(EVICT_AGAIN);
            let at = self.evictions.partition_point(|(at, _)| *at <= again);
            for id in later {
                self.evictions.insert(at, (again, id));
            }
        }
        self.is_level_new = true;
        self.plan_evictions();
    }
}
