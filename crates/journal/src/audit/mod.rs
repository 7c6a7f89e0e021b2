//! The audit log: who did what and who was refused, each line chained to the one before it.

mod line;

pub use line::{
    AUDIT_BYTES_MAX, AUDIT_FILES_MAX, AUDIT_OTHER_KIND, AUDIT_OTHER_VERSION, AuditEntry, AuditLine,
    ChainLink, Outcome,
};

#[cfg(test)]
pub(crate) use line::tests;
