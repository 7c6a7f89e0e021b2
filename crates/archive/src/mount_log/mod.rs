//! What is remembered of mounts: each mount as it goes on, a log of those that are over, and reports on them.

mod ages;
mod file;
mod flow;
mod line;
mod record;
mod report;
mod track;
mod watch;

pub use ages::{QueueAge, WaitingFor};
pub use file::{MOUNT_LOG_BYTES_MAX, MOUNT_LOG_FILES_MAX, MountLog, MountLogFiles, MountLogRead};
pub use record::{
    MOUNT_REASON_MAX, MOUNT_SESSIONS_MAX, MotionRecord, MountKind, MountRecord, MountSessionEnd,
    QueueAtMount, SessionRecord,
};
pub use report::{MountReport, ReportBy, ReportRow, Spread, TapeReport};

pub(crate) use ages::{RowsLeft, oldest_wanted};
pub(crate) use line::check_line;
pub(crate) use track::{MountTracker, Mounts};
