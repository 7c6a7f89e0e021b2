//! What users do next.
//!
//! Each workload knows when it acts next; nothing is polled, and nothing is kept for a file that is not
//! outstanding. Each has a random sequence of its own, so that one does not disturb another.

mod arrivals;
mod selection;
#[cfg(test)]
mod tests;
mod worker;
mod zipf;

use std::collections::BTreeSet;

use durability::SplitMix;

use crate::holdings::Holdings;
use crate::moment::Moment;
use scenario::model::{FileNumber, Model, scatter};
use worker::{Recent, Sink, Worker};

/// Most acts of one call of [`Users::act`].
pub const ACTS_MAX: usize = 10_000;

/// What the seed of a run is mixed with for users.
const SEED: u64 = 0x7573_6572_7300_0001;

/// Something that users do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    /// A new file is put.
    Put {
        /// Index of the workload.
        workload: usize,
        /// The file; it has its number from [`Holdings::put`].
        file: FileNumber,
    },
    /// A file is asked for.
    Want {
        /// Index of the workload.
        workload: usize,
        /// The file.
        file: FileNumber,
    },
    /// A carousel has read the file and needs it no more.
    Release {
        /// The file.
        file: FileNumber,
    },
    /// A file is asked for no more.
    Cancel {
        /// Index of the workload.
        workload: usize,
        /// The file.
        file: FileNumber,
    },
    /// So many streams read and write the pool at random from now on.
    Streams {
        /// Index of the workload.
        workload: usize,
        /// Reading streams.
        readers: u32,
        /// Writing streams.
        writers: u32,
    },
}

/// All users of a run.
pub struct Users {
    workers: Vec<Worker>,
    due: BTreeSet<(Moment, usize)>,
    recent: Vec<Recent>,
}

impl Users {
    /// The users of a model. Different seeds give different users.
    #[must_use]
    pub fn new(model: &Model, seed: u64) -> Users {
        let mut users = Users { workers: Vec::new(), due: BTreeSet::new(), recent: Vec::new() };
        users.recent.resize_with(model.site.classes.len(), Recent::default);
        for (index, workload) in model.workloads.iter().enumerate() {
            let random = SplitMix::new(scatter(seed ^ SEED) ^ scatter(index as u64));
            let class = model.site.classes.get(usize::from(workload.class.0));
            let data_set = class.map_or(1, |class| class.data_set_files.max(1));
            users.workers.push(Worker::new(workload, data_set, random));
            users.plan(index, None);
        }
        users
    }

    /// When [`Users::act`] is to be called next. `None`: nothing until something is [`Users::done`].
    #[must_use]
    pub fn next(&self) -> Option<Moment> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Everything that is due at `now`, at most [`ACTS_MAX`] acts; if there is more, [`Users::next`] is `now`
    /// or earlier.
    pub fn act(&mut self, now: Moment, holdings: &mut Holdings, acts: &mut Vec<Act>) {
        let full = acts.len() + ACTS_MAX;
        while let Some((due, index)) = self.due.first().copied() {
            if due > now || acts.len() >= full {
                return;
            }
            let worker = &mut self.workers[index];
            let recent = &mut self.recent[usize::from(worker.class().0)];
            worker.act(now, &mut Sink { workload: index, holdings, acts, full, recent });
            self.plan(index, Some(due));
        }
    }

    /// A wanted file was served or refused: once for each [`Act::Want`].
    pub fn done(&mut self, now: Moment, workload: usize, file: FileNumber) {
        let Some(worker) = self.workers.get_mut(workload) else { return };
        let before = worker.due();
        worker.done(now, file);
        self.plan(workload, before);
    }

    /// Visitors ([`WorkloadKind::Users`](scenario::model::WorkloadKind::Users)) come so many times as often
    /// from now on; 1.0 ends it.
    pub fn storm(&mut self, now: Moment, factor: f64) {
        for index in 0..self.workers.len() {
            let before = self.workers[index].due();
            self.workers[index].storm(now, factor);
            self.plan(index, before);
        }
    }

    /// Whether no workload will ever do anything again. Saturating clients without an end do nothing new.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.due.is_empty() && self.workers.iter().all(|worker| !worker.waits())
    }

    fn plan(&mut self, index: usize, before: Option<Moment>) {
        let due = self.workers[index].due();
        if due != before {
            self.due.extend(due.map(|due| (due, index)));
            if let Some(before) = before {
                self.due.remove(&(before, index));
            }
        }
    }
}
