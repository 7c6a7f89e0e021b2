//! What users did, written down: a bounded queue that holds nobody up, a thread that writes, the analysis.

mod days;
mod file;
mod place;
mod queue;
mod report;
mod state;
mod write;

pub use days::{DAYS_KEPT_MAX, DayReading, DayTotal};
pub use file::{
    ACCESS_LOG_BYTES_MAX, ACCESS_LOG_FILES_MAX, AccessLog, AccessLogFiles, AccessLogRead, AccessReading,
};
pub use queue::ACCESSES_WAITING_MAX;
pub use report::{LINES_WINDOW_MAX, USAGE_STEP_BYTES, UsageReading, UsageReport};

pub(crate) use queue::{AccessQueue, Notice};
pub(crate) use write::{refused, run, wanted_since};
