//! Tape drives.

use serde::{Deserialize, Serialize};

use crate::{ExpectedReply, ReasonReply};

/// A tape drive.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DriveReply {
    /// Its name.
    pub name: String,
    /// `down`, `empty`, `mounting`, `idle`, `migrating`, `recalling` or `unmounting`.
    pub state: String,
    /// The tape in it.
    pub vid: Option<String>,
    /// The tape's pool.
    pub tape_pool: Option<String>,
    /// The name of its library.
    #[serde(default)]
    pub library: String,
    /// Since when; `null` of a drive that was not used since the server's start.
    pub since: Option<String>,
    /// Files moved in this session; of a container that is being written, those whose bytes are on tape.
    pub files: u64,
    /// Bytes in this session.
    pub bytes: u64,
    /// Bytes a second.
    pub rate: f64,
    /// Why it is down or idle.
    pub reason: String,
    /// What it does, or why it does nothing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cause: Option<ReasonReply>,
    /// When it has done what it does.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub expected: Option<ExpectedReply>,
    /// What it did in its last session that is over, if it counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub motion: Option<DriveMotionReply>,
}

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
