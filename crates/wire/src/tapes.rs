//! Tapes: what stands on them, and what operators do with them.

use serde::{Deserialize, Serialize};

use crate::ReasonReply;

/// A tape.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TapeReply {
    /// The tape.
    pub vid: String,
    /// `scratch`, `labelling`, `active`, `full`, `read-only`, `suspect`, `disabled`, `repacking` or
    /// `retired`; `unidentified` if its library cannot identify it.
    pub state: String,
    /// Why.
    pub reason: String,
    /// Its pool.
    pub tape_pool: Option<String>,
    /// Its library.
    #[serde(default)]
    pub library: String,
    /// The volume's UUID.
    pub uuid: Option<String>,
    /// Native capacity.
    pub capacity: u64,
    /// Bytes written.
    pub written: u64,
    /// Bytes of committed containers.
    pub committed: u64,
    /// Bytes of torn sessions.
    pub torn: u64,
    /// Containers.
    pub containers: u64,
    /// Newest index generation.
    pub generation: u64,
    /// Next block.
    pub end_of_data: u64,
    /// Sessions.
    pub mounts: u64,
    /// The drive it is in.
    pub drive: Option<String>,
    /// No library holds it.
    #[serde(default)]
    pub away: bool,
    /// It is to be exported, and goes out when its drive has given it back.
    #[serde(default)]
    pub leaving: bool,
    /// `exported` or `off-site`: so by an operator's word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub away_as: Option<String>,
    /// Where it is kept, in the operator's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Since when it is exported or off-site.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub away_since: Option<String>,
    /// The import/export element of its library in which it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub element: Option<u32>,
    /// The id of the key that all behind its labels is encrypted with; absent: it stands there in clear.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What tells it from another key of that id: 12 hex digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_check: Option<String>,
    /// Whether that key is at hand: without it nothing on the tape can be read. Absent without a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_at_hand: Option<bool>,
    /// Its pool writes with another key, or has none: nothing new goes to it. Absent: it is not so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub key_outdated: bool,
    /// Files wanted from it.
    pub wanted_files: u64,
    /// Their bytes.
    pub wanted_bytes: u64,
    /// Newest change on it.
    pub changes_through: u64,
    /// Its failures, if it failed since the last session on it that went well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<TapeHistoryReply>,
}

/// The failures of a tape.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TapeHistoryReply {
    /// Its state before, which it gets back when it is found well.
    pub before: String,
    /// How often it failed in a row.
    pub failures: u32,
    /// When it is tried again; absent: not before an operator decides, or it is in use.
    pub retry: Option<String>,
    /// What the last failure speaks against: `unknown`, `cartridge`, `drive`, `robot` or `path`.
    pub cause: String,
}

/// A page of a tape's content.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TapeContentReply {
    /// The tape.
    pub tape: TapeReply,
    /// Containers in block order.
    pub containers: Vec<ContainerReply>,
    /// Ask again with `from=` this block; absent at the end.
    pub next: Option<u64>,
}

/// A container on a tape.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ContainerReply {
    /// First block.
    pub block: u64,
    /// The container.
    pub container: u64,
    /// `pack`, `file` or `segment`.
    pub kind: String,
    /// Length.
    pub length: u64,
    /// Path in the volume.
    pub tape_path: String,
    /// Members with a name.
    pub live_members: u32,
    /// Their bytes.
    pub live_bytes: u64,
}

/// `POST /api/v1/tapes/{vid}`: what may be done with a tape from now on.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TapeBody {
    /// `active`, `read-only`, `disabled` or `off-site`.
    pub state: String,
    /// Why, for other operators.
    #[serde(default)]
    pub reason: String,
    /// Of one that is off-site: where it is kept, in at most 256 bytes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub place: String,
}

/// How far the export of a tape is.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TapeExportReply {
    /// The tape.
    pub vid: String,
    /// `done`: it stands in an import/export element; `waiting`: a drive has it, and it goes out by itself.
    pub state: String,
    /// Its library, once it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library: Option<String>,
    /// The element from which it is taken, once it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub element: Option<u32>,
    /// What it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `POST /api/v1/library/import`: which cartridges are brought in.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema, Default)]
pub struct TapeImportBody {
    /// The import/export element; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub element: Option<u32>,
}

/// A cartridge that stood in an import/export element.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TapeImportReply {
    /// The tape.
    pub vid: String,
    /// Its library.
    pub library: String,
    /// The element.
    pub element: u32,
    /// The slot in which it is now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<u32>,
    /// Why it is still in the element.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// `POST /api/v1/library/inventory`: how libraries look.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema, Default)]
pub struct InventoryBody {
    /// Robots look at all slots with their own eyes, which can take minutes.
    #[serde(default)]
    pub scan: bool,
}

/// What changed.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct InventoryReply {
    /// Tapes that came, went, or can be used otherwise than before.
    pub changed: Vec<String>,
    /// The cleaning cartridges that are there.
    #[serde(default)]
    pub cleaning: Vec<CleaningCartridgeReply>,
}

/// The states of tapes, as [`TapeReply::state`](crate::TapeReply::state) says them.
pub const TAPE_STATES: [&str; 10] = [
    "scratch",
    "labelling",
    "active",
    "full",
    "read-only",
    "suspect",
    "disabled",
    "repacking",
    "retired",
    "unidentified",
];

/// The states of tape drives, as [`DriveReply::state`](crate::DriveReply::state) says them.
pub const TAPE_DRIVE_STATES: [&str; 10] = [
    "down",
    "looking",
    "empty",
    "mounting",
    "idle",
    "migrating",
    "recalling",
    "maintaining",
    "unmounting",
    "cleaning",
];

/// `POST /api/v1/drives/{name}/clean`.
#[derive(Clone, Default, Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CleanBody {
    /// The cleaning cartridge; any that may be used if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with: Option<String>,
}

/// A cleaning cartridge.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CleaningCartridgeReply {
    /// Its volume identifier.
    pub vid: String,
    /// Its library.
    pub library: String,
    /// The drive that it is in.
    pub drive: Option<String>,
    /// The slot, or the import/export element, that it is in.
    pub slot: Option<u32>,
    /// How often it was used.
    pub uses: u32,
    /// How often it is used at most; null: as often as an operator says.
    pub uses_max: Option<u32>,
    /// Why it is used no more.
    pub unfit: Option<String>,
}

/// `POST /api/v1/tapes/verify`: tapes that are read and checked; all of them, or none is begun.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TapeCheckBody {
    /// Which; at most a thousand.
    pub vids: Vec<String>,
}

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
    /// `none`, `waiting`, `running`, `done`, `failed` (the tape cannot be mounted before somebody does
    /// something about it) or `stopped` (an operator has called it off).
    pub state: String,
    /// Why it waits, or has ended before all was read.
    pub reason: String,
    /// When it was asked for.
    pub asked: Option<String>,
    /// When reading began.
    pub began: Option<String>,
    /// When all was read, or it ended before that.
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
    /// What the next of them waits for, behind the word `wait`: to be read, written or read back, and why it
    /// is not done yet.
    #[serde(default)]
    pub waiting: Option<String>,
    /// Why, for programs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cause: Option<ReasonReply>,
}
