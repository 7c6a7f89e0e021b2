//! What users did: the records of the access log, and what follows from them.
//!
//! Pure: records come in, figures go out. How a record is a line of text is in `journal`.

mod access;
mod analysis;
mod day;
mod figures;
mod files;
mod histogram;
mod reads;
mod residency;
mod series;
mod stored;
mod total;
mod tracker;

pub use access::{
    ACCESS_NAME_MAX, Access, Begins, CLASS_POOLS_MAX, ClassState, CopyPlace, DriveState, FileSize, Get,
    Migrated, Put, Recalled, STAGE_COPIES_MAX, Stage, Start, TapeState, What,
};
pub use analysis::{ANALYSIS_CLASSES_MAX, Analysis, OTHER_CLASSES};
pub use day::{Day, DayNumber};
pub use figures::{
    CacheLife, ClassUsage, ClassWorkload, Count, Daily, Movement, QUANTILES, SizeBucket, Sizes, Spans, Usage,
    Window,
};
pub use residency::Residency;
pub use series::{DAYS_MAX, Moved, Peak};
pub use total::Total;
pub use tracker::Tracker;
