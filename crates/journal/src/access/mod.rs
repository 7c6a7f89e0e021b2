//! The access log: what users did.

mod days;
mod files;
mod line;
mod place;
mod report;
mod turn;

pub use days::{DAYS_KEPT_MAX, DayReading, DayTotal};
pub use files::{
    ACCESS_LOG_BYTES_MAX, ACCESS_LOG_FILES_MAX, AccessLog, AccessLogFiles, AccessLogRead, AccessReading,
};
pub use line::{ACCESS_LINE_BYTES_MAX, ACCESS_ORDER_SLACK};
pub use report::{LINES_WINDOW_MAX, USAGE_STEP_BYTES, UsageReport, UsageSource, summarise_days};
pub use turn::{LogReader, ReadingTurn};
