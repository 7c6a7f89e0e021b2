//! Why something waits, and when it is expected.

use serde::{Deserialize, Serialize};

/// Why something waits, for programs.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ReasonReply {
    /// One word that never changes its meaning, such as `waiting-for-drive`; new ones may be added.
    pub kind: String,
    /// The sentence for people.
    pub text: String,
    /// The tapes that it names.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub tapes: Vec<String>,
    /// The drives that it names.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub drives: Vec<String>,
    /// When it ends by itself at the latest, where that is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub until: Option<String>,
    /// Whether it lasts until somebody does something about it.
    pub needs_an_operator: bool,
}

/// When something is done.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ExpectedReply {
    /// In this range, nine times of ten.
    Within {
        /// Hardly before.
        earliest: String,
        /// As often before as after.
        likely: String,
        /// Hardly after.
        latest: String,
    },
    /// Not within so many seconds.
    NotWithin {
        /// The span that was looked at.
        seconds: u64,
    },
    /// Not before somebody does something about this.
    Never {
        /// What stands in the way.
        reason: ReasonReply,
    },
}

/// One reason why something waits.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CauseReply {
    /// In words.
    pub text: String,
    /// For programs; absent if no machine is waited for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<ReasonReply>,
    /// When it is over.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub expected: Option<ExpectedReply>,
}

/// What is to come of a request.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct OutlookReply {
    /// Files that are still waited for.
    pub waiting: u64,
    /// Files that were looked at for `expected` and `tail`.
    pub looked_at: u64,
    /// Bytes that came online a second since the request was made.
    pub rate: f64,
    /// When the last file is online.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub expected: Option<ExpectedReply>,
    /// At most ten files that come last, the last first.
    pub tail: Vec<TailFileReply>,
}

/// A file that a request waits for to the last.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TailFileReply {
    /// Its path now.
    pub path: String,
    /// Its size.
    pub size: u64,
    /// The tape that is to deliver it, or all that could.
    pub tapes: Vec<String>,
    /// Why it is not online.
    pub reason: ReasonReply,
    /// When it and those like it are online.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub expected: Option<ExpectedReply>,
}
