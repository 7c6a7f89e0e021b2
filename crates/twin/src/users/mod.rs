//! What users do next.

use base::Duration;

use crate::holdings::Holdings;
use crate::model::{FileNumber, Model};
use crate::moment::Moment;

/// Most acts of one call of [`Users::act`].
pub const ACTS_MAX: usize = 10_000;

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
    end: Duration,
}

impl Users {
    /// The users of a model. Different seeds give different users.
    #[must_use]
    pub fn new(model: &Model, _seed: u64) -> Users {
        Users { end: model.span }
    }

    /// When [`Users::act`] is to be called next. `None`: nothing until something is [`Users::done`].
    #[must_use]
    pub fn next(&self) -> Option<Moment> {
        None
    }

    /// Everything that is due at `now`, at most [`ACTS_MAX`] acts; if there is more, [`Users::next`] is `now`.
    pub fn act(&mut self, _now: Moment, _holdings: &mut Holdings, _acts: &mut Vec<Act>) {}

    /// A wanted file was served or refused.
    pub fn done(&mut self, _now: Moment, _workload: usize, _file: FileNumber) {}

    /// Users ask so many times as much from now on; 1.0 ends it.
    pub fn storm(&mut self, _now: Moment, _factor: f64) {}

    /// Whether no workload will ever do anything again.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.end.is_zero()
    }
}
