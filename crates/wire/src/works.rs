//! Calls that go on without their connection.

use serde::{Deserialize, Serialize};

use crate::Problem;

/// A call over many files, or a report.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WorkReply {
    /// Its number, until the server is started anew.
    pub id: u64,
    /// Who called.
    pub owner: String,
    /// `stage`, `cancel`, `release`, `evict`, `verify` (of the catalogue) or `usage` (a report).
    pub what: String,
    /// The paths or the request that it is about.
    pub about: String,
    /// `running`, `done` or `failed`.
    pub state: String,
    /// For how long it has been running, or ran, in seconds.
    pub seconds: f64,
    /// Files that were looked at so far.
    pub files: u64,
    /// Bytes of the log that a report has read so far.
    pub bytes: u64,
    /// How many there are; 0 if none is read.
    pub bytes_total: u64,
    /// The request that a stage fills, once there is one.
    pub request: Option<u64>,
    /// Once it is done: the status that the call would have been answered with.
    pub status: Option<u16>,
    /// Once it is done: the body that the call would have been answered with, if it has one.
    pub reply: Option<serde_json::Value>,
    /// Once it has failed: why.
    pub problem: Option<Problem>,
}
