//! The audit log: who did what and who was refused, each line chained to the one before it.

mod files;
mod line;
mod read;
mod writer;

pub(crate) use line::check_line;

pub(crate) use files::AuditRoom;
pub use files::{AUDIT_BYTES_MAX, AUDIT_FILES_MAX};
pub use line::{AuditEntry, AuditLine, Outcome};
pub use read::{AuditFault, AuditSummary, read_audit};
pub use writer::{AUDIT_QUEUE_MAX, Audit};
