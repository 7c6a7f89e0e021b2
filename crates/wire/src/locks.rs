//! Locks that clients of WebDAV hold.

use serde::{Deserialize, Serialize};

/// A lock. Its token is its holder's alone and is not told.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LockReply {
    /// What it was taken on.
    pub path: String,
    /// Whose it is.
    pub owner: String,
    /// Whether nobody else may have one beside it.
    pub exclusive: bool,
    /// Whether it holds for all below a directory.
    pub deep: bool,
    /// In how many seconds it ends, if it is not refreshed.
    pub ends_seconds: u64,
}

/// `POST /api/v1/locks/remove`.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LockBody {
    /// What the locks were taken on.
    pub path: String,
}
