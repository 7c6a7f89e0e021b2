//! The mount log: what tapes and drives did.

mod files;
mod health;
mod line;
mod record;
mod report;

pub use files::{MOUNT_LOG_BYTES_MAX, MOUNT_LOG_FILES_MAX, MountLog, MountLogFiles, MountLogRead};
pub use health::{CounterRecord, ErrorRecord, ProductRecord};
pub use record::{
    MOUNT_REASON_MAX, MOUNT_SESSIONS_MAX, MotionRecord, MountKind, MountRecord, MountSessionEnd, OrderRecord,
    QueueAtMount, SessionRecord,
};
pub use report::{MountReport, ReportBy, ReportRow, Spread};
