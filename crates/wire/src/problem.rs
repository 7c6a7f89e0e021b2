//! Errors.

use serde::{Deserialize, Serialize};

/// An error, as RFC 9457 problem details.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Problem {
    /// A short stable word: `not-found`, `nearline`, `unauthorized`, ...
    #[serde(rename = "type")]
    pub kind: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened, on which object, and what to do.
    pub detail: String,
}
