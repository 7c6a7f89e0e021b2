//! The JSON of what operators have done with tapes and drives.

use serde::{Deserialize, Serialize};

/// The states of tapes, as [`TapeReply::state`](crate::wire::TapeReply::state) says them.
pub const TAPE_STATES: [&str; 8] =
    ["scratch", "labelling", "active", "full", "read-only", "suspect", "disabled", "repacking"];
/// The states of tape drives, as [`DriveReply::state`](crate::wire::DriveReply::state) says them.
pub const TAPE_DRIVE_STATES: [&str; 8] =
    ["down", "empty", "mounting", "idle", "migrating", "recalling", "maintaining", "unmounting"];
/// The states of requests, as [`RequestReply::state`](crate::wire::RequestReply::state) says them.
pub const REQUEST_STATES: [&str; 6] =
    ["filling", "active", "completed", "cancelling", "cancelled", "forgetting"];

/// `POST /api/v1/drives/{name}/down`, `POST /api/v1/tapes/{vid}/repack`: why, for other operators.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema, Default)]
pub struct ReasonBody {
    /// Why.
    #[serde(default)]
    pub reason: String,
}

/// A place on a tape that does not hold what it should.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TapeDamageReply {
    /// `label`, `index`, `segment`, `base`, `memory`, `container` or `block`.
    pub part: String,
    /// The block.
    pub block: u64,
    /// The container.
    pub container: Option<u64>,
    /// Its path on tape.
    pub tape_path: String,
    /// Files that are hit.
    pub files: Vec<String>,
    /// How many more there are.
    pub more_files: u64,
    /// What is wrong.
    pub reason: String,
}

/// The check of a tape.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TapeCheckReply {
    /// The tape.
    pub vid: String,
    /// `none`, `waiting`, `running` or `done`.
    pub state: String,
    /// Why it waits.
    pub reason: String,
    /// When it was asked for.
    pub asked: Option<String>,
    /// When reading began.
    pub began: Option<String>,
    /// When all was read.
    pub ended: Option<String>,
    /// Containers on the tape.
    pub containers: u64,
    /// Containers read.
    pub containers_checked: u64,
    /// Bytes of all containers.
    pub bytes: u64,
    /// Bytes of those that were read.
    pub bytes_checked: u64,
    /// Bytes a second while it was read; 0 while that is not known.
    pub rate: f64,
    /// Seconds that the rest takes at this rate.
    pub left: Option<u64>,
    /// Whole indexes on both partitions.
    pub indexes: u64,
    /// Whole change-log segments.
    pub segments: u64,
    /// Blocks that sessions cut short have left; no damage.
    pub torn_blocks: u64,
    /// Damage, the first thousand places.
    pub damage: Vec<TapeDamageReply>,
    /// All places of damage.
    pub damage_count: u64,
}

/// The repack of a tape.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TapeRepackReply {
    /// The tape.
    pub vid: String,
    /// `none`, `running` or `done`.
    pub state: String,
    /// Containers that stand on other tapes now, read back, since the server started.
    pub moved: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Containers that nobody needed.
    pub dropped: u64,
    /// Containers that no tape can give now.
    pub stuck: u64,
    /// Containers on their way.
    pub under_way: u64,
    /// Containers still on the tape.
    pub left: u64,
    /// What those on their way wait for, if they are to be written to other tapes.
    #[serde(default)]
    pub waiting: Option<String>,
}
