//! What the tables of a scenario file hold, typed. Defaults of what the server's configuration has too are
//! those that `kist init` writes.

mod class;
mod library;
mod named;
mod pool;
mod run;
mod sample;
mod tape;
mod work;

pub use class::{
    ClassForm, Exponential, GatherForm, Holding, Law, Lognormal, Mix, MixPart, Quantiles, Recall, Sizes,
    Uniform,
};
pub use library::{Drives, Library, Locate};
pub use named::{Named, OneOrMore};
pub use pool::{DataPath, Disks, Network, Pool};
pub use run::{Run, Seeds};
pub use sample::Sample;
pub use tape::{CopyRule, Foreign, Labels, Marks, ReadOrder, Tape, TapePool};
pub use work::{Backup, Campaign, Carousel, Fault, Ingest, Recorded, Saturate, Users, Workload};

use serde::{Deserialize, Serialize};

/// Keys that are read before the others: they say what the tree is made of.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
pub enum Absent {}

/// A scenario, or one of its variants.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// In a few words.
    pub title: String,
    /// What it is about, in sentences.
    #[serde(default)]
    pub text: String,
    /// Read before.
    #[serde(default, skip_serializing)]
    pub site: Option<Absent>,
    /// How long, how often.
    pub run: Run,
    /// What is described is one of so many units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<Sample>,
    /// Tape libraries.
    pub library: Named<Library>,
    /// Tape pools.
    #[serde(default)]
    pub tape_pool: Named<TapePool>,
    /// Storage classes.
    pub class: Named<ClassForm>,
    /// What is on tape at the beginning.
    #[serde(default)]
    pub holding: Named<Holding>,
    /// The disk pool.
    pub pool: Pool,
    /// The way to the clients.
    #[serde(default)]
    pub network: Network,
    /// The way between pool and tape.
    #[serde(default)]
    pub path: DataPath,
    /// How tapes are mounted, written and read.
    #[serde(default)]
    pub tape: Tape,
    /// What another system does differently.
    #[serde(default)]
    pub foreign: Foreign,
    /// What users do.
    #[serde(default)]
    pub workload: Named<Workload>,
    /// What goes wrong.
    #[serde(default)]
    pub fault: Named<Fault>,
    /// Read before.
    #[serde(default, skip_serializing)]
    pub variant: Option<Absent>,
    /// Read before.
    #[serde(default, skip_serializing)]
    pub provenance: Option<Absent>,
}
