//! Directories that are removed.

use serde::{Deserialize, Serialize};

/// `POST /api/v1/removals`: a directory.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RemovalBody {
    /// Its path.
    pub path: String,
}

/// A removal. The directory's path stands for nothing from the moment on at which it is answered; what was in
/// it is removed behind.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RemovalReply {
    /// Its number.
    pub id: u64,
    /// Who removed it.
    pub owner: String,
    /// The path that it had.
    pub path: String,
    /// `removing` or `done`.
    pub state: String,
    /// Since when it is gone.
    pub since: String,
    /// Why nothing is removed for now.
    pub waits: Option<String>,
    /// When the last directory of it was removed.
    pub ended: Option<String>,
    /// Files removed so far.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Directories removed so far, itself included.
    pub directories: u64,
}
