//! What users did, written down: a bounded queue that holds nobody up, a thread that writes, the analysis.

mod file;
mod queue;
mod report;
mod state;
mod write;

pub use file::{ACCESS_LOG_BYTES_MAX, ACCESS_LOG_FILES_MAX, AccessLog, AccessLogFiles, AccessLogRead};
pub use queue::ACCESSES_WAITING_MAX;
pub use report::UsageReport;

pub(crate) use queue::{AccessQueue, Notice};
pub(crate) use write::{refused, run, wanted_since};
