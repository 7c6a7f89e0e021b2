//! What is simulated, in checked values: made from a scenario file, or by a program.

mod fault;
mod file;
mod foreign;
mod pool;
mod site;
mod workload;

pub use fault::{Fault, FaultKind};
pub use file::{ClassIndex, FileNumber, SEQUENCE_MAX, SizeLaw, scatter};
pub use foreign::{CopyRule, Foreign, LABEL_GROUP_BYTES, Labels, Marks, ReadOrder};
pub use pool::{DataPath, Disks, Network, OneWay, PoolModel};
pub use site::{
    ClassModel, DriveGroup, GatherBy, Holding, LibraryIndex, LibraryModel, Site, TapeModel, TapePoolModel,
    TapeWork,
};
pub use workload::{Arrivals, Choice, Workload, WorkloadKind};

use base::Duration;
use scheduler::Policy;

/// One variant of a scenario: everything that a run needs but its seed.
#[derive(Clone, PartialEq, Debug)]
pub struct Model {
    /// The variant's name, for people.
    pub name: String,
    /// Hardware, classes, and what stands on the tapes at the beginning.
    pub site: Site,
    /// The very policy that the scheduler of a server would be given.
    pub policy: Policy,
    /// What another system would do differently.
    pub foreign: Foreign,
    /// What users do.
    pub workloads: Vec<Workload>,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// How long a run lasts at most.
    pub span: Duration,
    /// Whether it ends when all workloads have ended and everything that was asked for is done.
    pub until_done: bool,
    /// What happens before this does not count in means; nothing: found by the twin (steady state).
    pub warm_up: Option<Duration>,
    /// The width of a bin of the series of an outcome.
    pub step: Duration,
    /// One run each.
    pub seeds: Vec<u64>,
}
