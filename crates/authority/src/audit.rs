//! The audit log: what is written down of callers, when calls are refused for want of room, and how the chain
//! of lines is checked. Lines and files are in `journal`.

mod read;
mod writer;

pub use read::{AuditFault, AuditSummary, read_audit};
pub use writer::{AUDIT_QUEUE_MAX, Audit};
