//! What tape drives did.

use serde::{Deserialize, Serialize};

/// What a tape drive did in a session; spans in seconds.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DriveMotionReply {
    /// `migrate`, `recall` or `maintain`.
    pub session: String,
    /// The tape.
    pub vid: String,
    /// Bytes of containers or files: what it was for.
    pub bytes: u64,
    /// Bytes of blocks that the drive gave.
    pub read: u64,
    /// Bytes of blocks that it took.
    pub written: u64,
    /// Bytes that passed its head.
    pub streamed: u64,
    /// From the first byte to the last.
    pub seconds: f64,
    /// `bytes` a second of these.
    pub rate: f64,
    /// The tape ran, reading or writing.
    pub streaming: f64,
    /// It went elsewhere.
    pub locating: f64,
    /// How often.
    pub locates: u64,
    /// Flushes, apart from the streaming that they wait for.
    pub flushing: f64,
    /// The drive stopped because of a slow host, and went back to start again.
    pub backhitching: f64,
    /// How often.
    pub backhitches: u64,
    /// The tape stood still because the host gave or took nothing.
    pub waiting: f64,
}
