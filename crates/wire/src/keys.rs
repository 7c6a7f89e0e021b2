//! Keys that are given out.

use serde::{Deserialize, Serialize};

/// `POST /api/v1/keys`.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyBody {
    /// Whom it stands for.
    pub name: String,
    /// Their groups; the first one is the group of what they make.
    #[serde(default)]
    pub groups: Vec<String>,
    /// Whether everything is allowed.
    #[serde(default)]
    pub admin: bool,
    /// Whether everything may be looked at.
    #[serde(default)]
    pub operator: bool,
    /// After how many seconds it ends; never, if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_seconds: Option<u64>,
    /// Whether it signs requests (S3); otherwise it is borne.
    #[serde(default)]
    pub s3: bool,
}

/// A key, without its secret.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct KeyReply {
    /// Its id; of a key that signs the access key id.
    pub id: String,
    /// Whom it stands for.
    pub name: String,
    /// Their groups.
    pub groups: Vec<String>,
    /// Whether it is an admin's.
    pub admin: bool,
    /// Whether everything may be looked at.
    pub operator: bool,
    /// Whether it signs requests (S3).
    pub s3: bool,
    /// When it was made.
    pub created: String,
    /// When it ends.
    pub expires: Option<String>,
    /// Whether it was disabled.
    pub disabled: bool,
}

/// The reply to `POST /api/v1/keys`: the only one that has the secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct NewKeyReply {
    /// The key.
    #[serde(flatten)]
    pub key: KeyReply,
    /// Its secret, shown this once.
    pub secret: String,
}
