//! What is written down beside the catalogue: the access log, the mount log and the audit log.
//!
//! The three are text files in the directory `log` of an instance, and have in common:
//!
//! - *Files* ([`LogFiles`]): a bounded number of files of a bounded length, of which one grows. When it is
//!   full the next line goes to a new file, and the oldest file is removed.
//! - *Appending* ([`Appender`]): whole lines, at the end, by one writer. A last line that a crash tore is
//!   ended or cut off when the file is opened, so that the next line stands by itself.
//! - *Reading* ([`LineReader`]): in the order of writing, in memory that is bounded by the longest line; a
//!   reader passes over a last line that is not whole yet.
//! - *Lines* (`line.rs`): a checksum, a version, fields `name=value` with texts escaped, a line feed. What a
//!   line says is a [`Record`].
//! - *A bounded queue* ([`Queue`]) before the thread that writes, for the two logs that have a thread.
//!
//! What differs is said once, in [`Record`] and its [`LogForm`]:
//!
//! | | access log | mount log | audit log |
//! |---|---|---|---|
//! | record | `usage::Access` | [`MountRecord`] | [`AuditLine`] |
//! | files | `access.log`, renamed by age | `mounts.log`, renamed by age | `audit.000001.log`, numbered |
//! | limits | 16 × 64 MiB | 8 × 4 MiB | 256 × 16 MiB |
//! | longest line | 128 KiB | 256 KiB | 32 KiB |
//! | checksum | CRC-32C of the line | CRC-32C of the line | BLAKE3, chained to the line before |
//! | first line of a file | state, from the engine | | number of the file, hash before it |
//! | torn last line | is ended | is ended | is cut off |
//! | durable | never | never | within a second |
//! | full disk | lines are counted, not written | lines are left out | blocks in reserve; changes refused |
//! | full queue | lines are left out and counted | no queue | who records waits |
//! | a line's fields | any order, unknown ones passed over | the same | all of them, in one order |
//!
//! The access log and the mount log are statistics: nothing depends on them, and nobody waits for them
//! (`statistics.rs`). The audit log is evidence: nothing is left out of it, and changes are refused while
//! it has no room. Its rules (what is audited, how the chain is checked) are in the crate `authority`; what
//! asks the engine (who hands records over, the state that begins a file) is in the crate `archive`.
//!
//! Beside them stands one small file that is written anew each time: by what the models of drives were fitted
//! (`fits.rs`).
//!
//! `docs/format` has the formats to the byte.

mod access;
mod appender;
mod audit;
mod files;
mod fits;
mod form;
mod line;
mod lines;
mod mount;
mod queue;
mod statistics;

pub use access::{
    ACCESS_LINE_BYTES_MAX, ACCESS_LOG_BYTES_MAX, ACCESS_LOG_FILES_MAX, ACCESS_ORDER_SLACK, AccessLog,
    AccessLogFiles, AccessLogRead, AccessReading, DAYS_KEPT_MAX, DayReading, DayTotal, LINES_WINDOW_MAX,
    LogReader, ReadingTurn, USAGE_STEP_BYTES, UsageReport, UsageSource, summarise_days,
};
pub use appender::{Appender, Room};
pub use audit::{
    AUDIT_BYTES_MAX, AUDIT_FILES_MAX, AUDIT_OTHER_KIND, AUDIT_OTHER_VERSION, AuditEntry, AuditLine,
    ChainLink, Outcome,
};
pub use files::{LogFiles, TEMPORARY, write_durable};
pub use fits::{DRIVE_FITS_FILE, DRIVE_FITS_MAX, DriveFitFile, DriveFitRecord, DriveFits};
pub use form::{LogForm, Naming, Record, Reserve, TornEnd};
pub use line::{LineFault, check_line, decode, encode};
pub use lines::{LineReader, Piece};
pub use mount::{
    CounterRecord, ErrorRecord, MOUNT_LOG_BYTES_MAX, MOUNT_LOG_FILES_MAX, MOUNT_REASON_MAX,
    MOUNT_SESSIONS_MAX, MotionRecord, MountKind, MountLog, MountLogFiles, MountLogRead, MountRecord,
    MountReport, MountSessionEnd, OrderRecord, ProductRecord, QueueAtMount, ReportBy, ReportRow,
    SessionRecord, Spread,
};
pub use queue::{Queue, QueueForm, Queued, Taken};
