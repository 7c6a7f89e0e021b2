//! The trusted time and the system's clock.

use serde::{Deserialize, Serialize};

/// `GET /api/v1/clock`: how the trusted time and the system's clock stand to each other.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ClockReply {
    /// The time that retentions, lifecycle rules and pins go by.
    pub trusted: String,
    /// What the system's clock shows.
    pub system: String,
    /// By how many seconds the system's clock is ahead; negative: behind.
    pub ahead_seconds: i64,
    /// Whether the trusted time follows the system's clock.
    pub follows: bool,
    /// Whether the kernel says that a time server disciplines the system's clock.
    pub synchronised: bool,
    /// Since when, in trusted time, the difference puts the time in doubt.
    pub doubted_since: Option<String>,
    /// The trusted time goes back to this time at the next start.
    pub planned_back: Option<String>,
    /// Leaps of the trusted time after a doubt, oldest first.
    pub moves: Vec<TimeMoveReply>,
}

/// A leap of the trusted time. What was made at times in doubt counts as made when it was over.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TimeMoveReply {
    /// Times from there on
    pub since: String,
    /// up to there were in doubt.
    pub before: String,
    /// The time after the leap.
    pub after: String,
}

/// `POST /api/v1/clock/accept`: an operator vouches for the system's clock.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AcceptClockBody {
    /// Today's date, as `2026-11-23`.
    pub today: String,
    /// Whether the trusted time may go back, which it does at the next start.
    #[serde(default)]
    pub back: bool,
}
