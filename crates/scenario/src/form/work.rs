//! `[workload.NAME]` and `[fault.NAME]`.

use serde::{Deserialize, Serialize};

use quantity::{Bytes, Count, Share, Span};

/// `[workload.NAME]`, by `kind`.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// All at once, or in a window.
    Campaign(Campaign),
    /// In parts.
    Carousel(Carousel),
    /// At random.
    Users(Users),
    /// New files.
    Ingest(Ingest),
    /// New files every period.
    Backup(Backup),
    /// Random reads and writes of the pool.
    Saturate(Saturate),
    /// As it was.
    Recorded(Recorded),
}

/// `kind = "campaign"`.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Campaign {
    /// With what.
    pub class: String,
    /// From when on.
    #[serde(default)]
    pub begin: Span,
    /// Until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Span>,
    /// 0 to 9.
    #[serde(default)]
    pub priority: u32,
    /// How many files; all if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<Count>,
    /// Whole data sets, or single files.
    #[serde(default = "yes")]
    pub data_sets: bool,
    /// Of what is chosen, this share.
    #[serde(default = "all")]
    pub share: Share,
    /// In any order, or as they were put.
    #[serde(default)]
    pub shuffled: bool,
    /// Of the first so many tapes; of all if 0.
    #[serde(default)]
    pub tapes: u32,
    /// Most files asked for and not there; 0: any number.
    #[serde(default)]
    pub window: Count,
}

/// `kind = "carousel"`.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Carousel {
    /// With what.
    pub class: String,
    /// From when on.
    #[serde(default)]
    pub begin: Span,
    /// Until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Span>,
    /// 0 to 9.
    #[serde(default)]
    pub priority: u32,
    /// How many files; all if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<Count>,
    /// Whole data sets, or single files.
    #[serde(default = "yes")]
    pub data_sets: bool,
    /// Of what is chosen, this share.
    #[serde(default = "all")]
    pub share: Share,
    /// In any order, or as they were put.
    #[serde(default)]
    pub shuffled: bool,
    /// Of the first so many tapes; of all if 0.
    #[serde(default)]
    pub tapes: u32,
    /// Files of a part.
    pub part_files: Count,
    /// The next part is asked for when only this share of the one before is not there.
    #[serde(default = "tenth")]
    pub overlap: Share,
}

/// `kind = "users"`.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Users {
    /// With what.
    pub class: String,
    /// From when on.
    #[serde(default)]
    pub begin: Span,
    /// Until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Span>,
    /// 0 to 9.
    #[serde(default)]
    pub priority: u32,
    /// Visits a day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_day: Option<f64>,
    /// What they ask for a day, in the place of `per_day`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_day: Option<Bytes>,
    /// More by day and less by night.
    #[serde(default)]
    pub day_swing: Share,
    /// What is left at weekends.
    #[serde(default = "all")]
    pub weekend: Share,
    /// Storms a year.
    #[serde(default)]
    pub storms_per_year: f64,
    /// How much more then.
    #[serde(default = "ten")]
    pub storm_factor: f64,
    /// How long.
    #[serde(default = "day")]
    pub storm_length: Span,
    /// Files of a visit.
    #[serde(default = "one")]
    pub files: u32,
    /// Exponent of a Zipf law over data sets.
    #[serde(default)]
    pub popularity: f64,
    /// Visits that go where someone was lately.
    #[serde(default)]
    pub repeat: Share,
}

/// `kind = "ingest"`.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Ingest {
    /// With what.
    pub class: String,
    /// From when on.
    #[serde(default)]
    pub begin: Span,
    /// Until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Span>,
    /// Bursts a day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_day: Option<f64>,
    /// What comes a day, in the place of `per_day`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_day: Option<Bytes>,
    /// More by day and less by night.
    #[serde(default)]
    pub day_swing: Share,
    /// What is left at weekends.
    #[serde(default = "all")]
    pub weekend: Share,
    /// Storms a year.
    #[serde(default)]
    pub storms_per_year: f64,
    /// How much more then.
    #[serde(default = "ten")]
    pub storm_factor: f64,
    /// How long.
    #[serde(default = "day")]
    pub storm_length: Span,
    /// Files put together.
    #[serde(default = "one")]
    pub burst: u32,
}

/// `kind = "backup"`.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Backup {
    /// With what.
    pub class: String,
    /// From when on.
    #[serde(default)]
    pub begin: Span,
    /// Until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Span>,
    /// 0 to 9, of the restore.
    #[serde(default)]
    pub priority: u32,
    /// Between two.
    #[serde(default = "day")]
    pub period: Span,
    /// How long one takes to come.
    #[serde(default = "night")]
    pub window: Span,
    /// Files of each.
    pub files: Count,
    /// When it is read back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore_at: Option<Span>,
    /// The newest so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore_files: Option<Count>,
}

/// `kind = "saturate"`.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Saturate {
    /// With what.
    pub class: String,
    /// From when on.
    #[serde(default)]
    pub begin: Span,
    /// Until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Span>,
    /// Reading streams.
    #[serde(default)]
    pub readers: u32,
    /// Writing streams.
    #[serde(default)]
    pub writers: u32,
}

/// `kind = "recorded"`.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    /// With what.
    pub class: String,
    /// From when on.
    #[serde(default)]
    pub begin: Span,
    /// Until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Span>,
    /// 0 to 9.
    #[serde(default)]
    pub priority: u32,
    /// When files are put, ascending.
    #[serde(default)]
    pub puts: Vec<Span>,
    /// When files are asked for, ascending.
    #[serde(default)]
    pub stages: Vec<Span>,
    /// Their numbers in the class, one for each of `stages`.
    #[serde(default)]
    pub stage_files: Vec<u64>,
}

/// `[fault.NAME]`.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// What, by the names that the model gives.
    pub kind: String,
    /// Mean time between two.
    pub every: Span,
    /// How long, in the mean.
    #[serde(default)]
    pub lasts: Span,
    /// None before this.
    #[serde(default)]
    pub begin: Span,
}

fn yes() -> bool {
    true
}

fn one() -> u32 {
    1
}

fn ten() -> f64 {
    10.0
}

fn all() -> Share {
    Share(1.0)
}

fn tenth() -> Share {
    Share(0.1)
}

fn day() -> Span {
    Span(86_400_000_000)
}

fn night() -> Span {
    Span(8 * 3_600_000_000)
}
