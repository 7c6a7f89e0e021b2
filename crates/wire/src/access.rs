//! Owners, access lists, quotas.

use serde::{Deserialize, Serialize};

/// A line of an access control list.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AclLine {
    /// `user:NAME`, `group:NAME`, `authenticated` or `anyone`.
    pub subject: String,
    /// Letters: `t` stat, `l` list, `r` read, `c` create, `w` write, `s` stage, `p` poll, `m` manage.
    pub rights: String,
}

/// `GET /api/v1/acl`.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AclReply {
    /// The directory.
    pub path: String,
    /// Its list; null if it has none.
    pub entries: Option<Vec<AclLine>>,
    /// The list that holds there: its own, or that of the nearest directory above; null if none has one.
    pub effective: Option<Vec<AclLine>>,
    /// Whose list that is.
    pub effective_path: Option<String>,
    /// The directory's owner.
    pub owner: String,
    /// Its group.
    pub group: String,
}

/// `POST /api/v1/acl`.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AclBody {
    /// The directory.
    pub path: String,
    /// Its list from now on; null: what holds above holds there.
    pub entries: Option<Vec<AclLine>>,
}

/// `POST /api/v1/owner`. What is absent stays.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OwnerBody {
    /// The file or directory.
    pub path: String,
    /// Its owner from now on.
    #[serde(default)]
    pub owner: Option<String>,
    /// Its group from now on.
    #[serde(default)]
    pub group: Option<String>,
}

/// `POST /api/v1/quotas` and `POST /api/v1/quotas/remove`: a path or a virtual organisation, not both.
#[derive(Clone, Debug, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QuotaBody {
    /// A directory: all below it.
    #[serde(default)]
    pub path: Option<String>,
    /// A virtual organisation: the group of files.
    #[serde(default)]
    pub vo: Option<String>,
    /// Most bytes; absent: as many as there is room for.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// Most files; absent: any number.
    #[serde(default)]
    pub files: Option<u64>,
}

/// A quota in `GET /api/v1/quotas`.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct QuotaReply {
    /// The directory, or null.
    pub path: Option<String>,
    /// The virtual organisation, or null.
    pub vo: Option<String>,
    /// Most bytes, or null.
    pub bytes: Option<u64>,
    /// Most files, or null.
    pub files: Option<u64>,
    /// Bytes that are used; while files are being counted: counted so far.
    pub bytes_used: u64,
    /// Files that are used, likewise.
    pub files_used: u64,
    /// Whether files that were there before the quota are still being counted.
    pub counting: bool,
    /// How much of that is done, from 0 to 1; 1 once it is.
    pub counted: f64,
}
