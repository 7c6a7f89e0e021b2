//! Requests, and what they are about.

use serde::{Deserialize, Serialize};

use crate::{CauseReply, OutlookReply};

/// The states of requests, as [`RequestReply::state`](crate::RequestReply::state) says them.
pub const REQUEST_STATES: [&str; 6] =
    ["filling", "active", "completed", "cancelling", "cancelled", "forgetting"];

/// `POST /api/v1/requests`, `/evict`.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SelectionBody {
    /// Files or directories.
    pub paths: Vec<String>,
    /// All files below directories.
    #[serde(default)]
    pub recursive: bool,
    /// For requests: pin for this many seconds; default one day.
    #[serde(default)]
    pub pin_seconds: Option<u64>,
    /// For requests: how urgent, from 0 to 9; default 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
}

/// `POST /api/v1/requests/{id}/priority`.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PriorityBody {
    /// From 0 to 9.
    pub priority: u8,
}

/// `POST /api/v1/requests/{id}/release`.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema, Default)]
pub struct ReleaseBody {
    /// Only these; absent: all files of the request.
    #[serde(default)]
    pub paths: Option<Vec<String>>,
}

/// A request.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RequestReply {
    /// Its id.
    pub id: u64,
    /// Who asked.
    pub owner: String,
    /// `filling`, `active`, `completed` or `cancelled`.
    pub state: String,
    /// When.
    pub created: String,
    /// When work on the first of its files began, if it has and that is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub started: Option<String>,
    /// When the last file ended.
    pub ended: Option<String>,
    /// Seconds.
    pub pin_seconds: u64,
    /// How urgent it is, from 0 to 9; 5 is usual.
    pub priority: u8,
    /// Files in it.
    pub files: u32,
    /// Their bytes.
    pub bytes: u64,
    /// Files online by it.
    pub done: u32,
    /// Their bytes.
    pub done_bytes: u64,
    /// Files that failed.
    pub failed: u32,
    /// Files cancelled.
    pub cancelled: u32,
    /// Paths that were refused when they were asked for, of a request that names paths one by one (Tape REST
    /// API). They stand behind its files.
    #[serde(default)]
    pub refused: u32,
    /// What is to come of it; only where one request is asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub outlook: Option<OutlookReply>,
}

/// A page of a request's files.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RequestFilesReply {
    /// The files.
    pub files: Vec<RequestFileReply>,
    /// Ask again with `from=` this number; absent at the end.
    pub next: Option<u32>,
}

/// One file of a request.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RequestFileReply {
    /// Its path now.
    pub path: String,
    /// Its size.
    pub size: u64,
    /// `waiting`, `done`, `failed`, `cancelled` or `released`.
    pub state: String,
    /// Why it failed, in words.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
    /// If it failed, what keeps it from being had as it stands now: `lost`, `removed`, `not-readable` or
    /// `refused`; more words may be added.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cause: Option<String>,
    /// When work on it began, if it has and that is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub started: Option<String>,
    /// When it came, failed or was cancelled, if it has and that is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ended: Option<String>,
}

/// What an evict did.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct EvictReply {
    /// Files evicted.
    pub evicted: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files that were NEARLINE before.
    pub already: u64,
    /// Files refused in all.
    pub refused_count: u64,
    /// The first of them.
    pub refused: Vec<RefusedReply>,
    /// How many for each reason; at most a hundred reasons.
    #[serde(default)]
    pub reasons: Vec<RefusalCountReply>,
}

/// How many files were not evicted for a reason.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RefusalCountReply {
    /// Why.
    pub reason: String,
    /// So many.
    pub files: u64,
    /// If requests hold them: which, at most a hundred. A file that several hold counts with each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_by: Vec<HeldByReply>,
}

/// A request that holds files which were not evicted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct HeldByReply {
    /// Its number.
    pub request: u64,
    /// How many of the files.
    pub files: u64,
    /// Until when it holds the last of them.
    pub until: String,
}

/// A file that was not evicted.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RefusedReply {
    /// The file.
    pub path: String,
    /// Why.
    pub reason: String,
}

/// Why something waits.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WhyReply {
    /// What was asked about.
    pub subject: String,
    /// One sentence each, the nearest cause first.
    pub reasons: Vec<String>,
    /// The same for programs, with the time at which each is over.
    #[serde(default)]
    pub causes: Vec<CauseReply>,
}

/// The answer to a `POST` that makes something with an id.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CreatedReply {
    /// The id.
    pub id: u64,
}
