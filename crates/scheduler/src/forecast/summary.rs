//! What a forecast looks at, and what it finds.

use std::collections::BTreeMap;

use base::{ByteCount, ClassId, FileId, TapePoolId, Timestamp, Vid};

use super::calibration::Nominal;
use super::pace::Pace;
use super::world::World;
use crate::recall::{Gathered, WantedGroup};
use crate::scheduler::Scheduler;
use crate::{DriveName, Reason};

/// What a drive has been doing, as far as its events tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Activity {
    pub(crate) since: Timestamp,
    pub(crate) files: u64,
    pub(crate) bytes: ByteCount,
}

/// A scheduler's state in small, taken in time proportional to its tapes and not to its files: it can be run
/// forward elsewhere while the scheduler goes on.
#[derive(Clone, Debug)]
pub struct Summary {
    pub(crate) scheduler: Scheduler,
    pub(crate) made: Timestamp,
    /// What each file of the small scheduler stands for.
    pub(crate) groups: BTreeMap<FileId, (WantedGroup, Gathered)>,
    pub(crate) pace: Pace,
    pub(crate) activities: BTreeMap<DriveName, Activity>,
    pub(crate) sealing: BTreeMap<ClassId, Timestamp>,
    /// What comes of each class: files and bytes a second.
    pub(crate) inflow: BTreeMap<ClassId, (f64, f64)>,
    /// Files whose forecast is to be remembered.
    pub(crate) sample: Vec<(FileId, WantedGroup)>,
}

impl Summary {
    pub(crate) fn take(scheduler: &mut Scheduler, made: Timestamp, pace: Pace) -> Self {
        // Everything but the wanted files is copied as it stands, whatever the scheduler comes to hold.
        let whole = std::mem::take(&mut scheduler.recall);
        let mut small = scheduler.clone();
        let (recall, groups) = whole.summary(made, &scheduler.policy, &scheduler.libraries_up);
        scheduler.recall = whole;
        small.recall = recall;
        small.wake = None;
        Summary {
            scheduler: small,
            made,
            groups,
            pace,
            activities: BTreeMap::new(),
            sealing: BTreeMap::new(),
            inflow: BTreeMap::new(),
            sample: Vec::new(),
        }
    }

    /// Runs the scheduler forward until everything that waits now is done, or until
    /// [`FORECAST_STEPS_MAX`](crate::FORECAST_STEPS_MAX) or [`FORECAST_HORIZON`](crate::FORECAST_HORIZON).
    #[must_use]
    pub fn run(self) -> Outlook {
        World::new(self).run()
    }
}

/// What becomes of something that waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// It is being worked on in this span.
    Done { begin: Timestamp, end: Timestamp },
    /// Not within the horizon.
    Late,
    /// Not before somebody does something about it.
    Never(Reason),
}

/// What would happen if nothing else came and everything took its usual time.
#[derive(Clone, PartialEq, Debug)]
pub struct Outlook {
    pub(crate) made: Timestamp,
    pub(crate) groups: BTreeMap<WantedGroup, Fate>,
    pub(crate) tapes: BTreeMap<Vid, Fate>,
    pub(crate) tape_pools: BTreeMap<TapePoolId, Fate>,
    pub(crate) classes: BTreeMap<ClassId, Fate>,
    pub(crate) drives: BTreeMap<DriveName, Fate>,
    pub(crate) steps: usize,
    pub(crate) sample: Vec<(FileId, WantedGroup)>,
}

impl Outlook {
    /// The wait for the end of something.
    pub(crate) fn nominal(&self, fate: &Fate) -> Option<Nominal> {
        match fate {
            Fate::Done { begin, end } => {
                Some(Nominal { wait: end.since(self.made), running: *begin <= self.made })
            }
            Fate::Late | Fate::Never(_) => None,
        }
    }

    /// Events that the forecast went through.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Groups of wanted files that it looked at.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.groups.len()
    }
}
