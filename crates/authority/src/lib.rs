//! The engine as the doors see it, and the one place where every call of a door is authorised and audited.

mod allowances;
mod audit;
mod authority;
mod connection;
mod guard;
mod guarded;
mod keyring;
mod locks;
#[cfg(test)]
mod macaroon_tests;
mod macaroons;
mod notices;
mod roles;
mod rule;
mod seam;
mod secret_file;
mod strangers;
mod transfers;

pub use allowances::{Allowance, AllowanceSettings, Allowances, Exceeded, Rate};
pub use audit::{AUDIT_QUEUE_MAX, Audit, AuditFault, AuditSummary, read_audit};
pub use authority::{Authority, AuthoritySettings, Denied, Identities, Refusing};
pub use connection::{ClientCertificate, Encrypted, Peer};
pub use guard::Guard;
pub use guarded::Guarded;
pub use journal::{AuditEntry, AuditLine, Outcome};
pub use keyring::{AccessKey, KEY_GROUPS_MAX, KEYS_MAX, KeyError, KeyInfo, KeyRequest, NewKey};
pub use locks::{
    LOCK_NOTE_BYTES_MAX, LOCK_SECONDS_MAX, LOCKS_MAX, LOCKS_OF_CALLER_MAX, LOCKS_OF_PATH_MAX, Lock,
    LockRequest,
};
pub use notices::Notices;
pub use roles::{Access, Bytes, Namespace, Objects, Operation, Owners, Parts, PathRequests, Staging, Trees};
pub use seam::{Download, PartUpload, UPLOAD_SLOW_AFTER, Upload, UsageSteps};
