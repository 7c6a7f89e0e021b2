//! The JSON of `/api/v1`: what the server says and the program `kist` reads. Sizes are bytes, times are UTC
//! in RFC 3339, spans are seconds. Fields are only ever added.

use serde::{Deserialize, Serialize};

mod motion;
mod upkeep;

pub use crate::wire_access::*;
pub use crate::wire_forecast::*;
pub use crate::wire_keys::*;
pub use crate::wire_removals::*;
pub use crate::wire_report::*;
pub use crate::wire_tapes::*;
pub use crate::wire_usage::*;
pub use crate::wire_works::*;
pub use motion::DriveMotionReply;
pub use upkeep::{
    PoolHealthReply, RebuildBody, ReplaceBody, ReplaceReply, ScrubReply, VerifyCatalogueReply, VerifyReply,
};

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

/// A file or directory.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct StatReply {
    /// The path.
    pub path: String,
    /// `file`, `link` or `directory`.
    pub kind: String,
    /// Size.
    pub size: u64,
    /// Permission bits in octal, as `0644`.
    pub mode: String,
    /// Owner's name.
    pub owner: String,
    /// Group's name.
    pub group: String,
    /// Modification time.
    pub mtime: String,
    /// When it was acknowledged.
    pub created: String,
    /// A link's target.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub target: Option<String>,
    /// The class.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub class: Option<String>,
    /// Only for files and links.
    #[serde(flatten, skip_serializing_if = "Option::is_none", default)]
    pub file: Option<FileReply>,
}

/// What only files have.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct FileReply {
    /// The id of this version.
    pub file_id: u64,
    /// `ONLINE`, `ONLINE_AND_NEARLINE`, `NEARLINE` or `LOST`.
    pub locality: String,
    /// Eight hexadecimal digits.
    pub adler32: String,
    /// Eight hexadecimal digits.
    pub crc32c: String,
    /// 64 hexadecimal digits.
    pub blake3: String,
    /// How many tape copies the class asks for.
    pub copies_wanted: u32,
    /// The tape copies.
    pub copies: Vec<CopyReply>,
    /// Pins.
    pub pins: Vec<PinReply>,
}

/// A tape copy of a file.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CopyReply {
    /// Its tape pool.
    pub tape_pool: String,
    /// `queued`, `writing`, `flushed` or `indexed`.
    pub state: String,
    /// The tape.
    pub vid: Option<String>,
    /// First block of the container.
    pub block: Option<u64>,
    /// The container.
    pub container: u64,
    /// `pack`, `file` or `segment`.
    pub container_kind: String,
    /// Its path in the LTFS volume.
    pub tape_path: String,
    /// Where the file's bytes begin in it.
    pub offset: u64,
    /// How many of the file's bytes.
    pub length: u64,
}

/// A pin.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PinReply {
    /// The request that holds it.
    pub request: u64,
    /// Until when.
    pub until: String,
}

/// A directory listing; ask again with `after=<last name>` while `more` is true.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ListReply {
    /// The names, in byte order.
    pub entries: Vec<ListEntry>,
    /// Whether there are more.
    pub more: bool,
}

/// A line of a listing.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ListEntry {
    /// The name.
    pub name: String,
    /// `file`, `link` or `directory`.
    pub kind: String,
    /// Size.
    pub size: u64,
    /// Permission bits in octal.
    pub mode: String,
    /// Owner's name.
    pub owner: String,
    /// Group's name.
    pub group: String,
    /// Modification time.
    pub mtime: String,
    /// A link's target.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub target: Option<String>,
    /// The class of a file.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub class: Option<String>,
    /// The locality of a file.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub locality: Option<String>,
    /// The BLAKE3 of a file: lets a client skip what is there already.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub blake3: Option<String>,
}

/// The answer to `PUT /data/...`.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PutReply {
    /// The file.
    pub file_id: u64,
    /// Whether this put made it.
    pub created: bool,
    /// Whether an older version lost the name.
    pub replaced: bool,
    /// Size.
    pub size: u64,
    /// Checksum.
    pub adler32: String,
    /// Checksum.
    pub blake3: String,
    /// The class.
    pub class: String,
}

/// `POST /api/v1/mkdir`.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MakeDirectoryBody {
    /// The directory.
    pub path: String,
    /// Make missing parents, and be content if it is there.
    #[serde(default)]
    pub parents: bool,
    /// Permission bits in octal.
    #[serde(default)]
    pub mode: Option<String>,
    /// Modification time.
    #[serde(default)]
    pub mtime: Option<String>,
    /// Owner's name.
    #[serde(default)]
    pub owner: Option<String>,
    /// Group's name.
    #[serde(default)]
    pub group: Option<String>,
    /// The class of files below.
    #[serde(default)]
    pub class: Option<String>,
}

/// `POST /api/v1/rename`.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RenameBody {
    /// From.
    pub from: String,
    /// To.
    pub to: String,
    /// Whether an existing file may be replaced.
    #[serde(default)]
    pub replace: bool,
}

/// `POST /api/v1/requests`, `/evict`.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SelectionBody {
    /// Files or directories.
    pub paths: Vec<String>,
    /// All files below directories.
    #[serde(default)]
    pub recursive: bool,
    /// For requests: pin for this many seconds; default one day.
    #[serde(default)]
    pub pin_seconds: Option<u64>,
    /// For requests: how urgent, from 0 to 9; default 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
}

/// `POST /api/v1/requests/{id}/priority`.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PriorityBody {
    /// From 0 to 9.
    pub priority: u8,
}

/// `POST /api/v1/requests/{id}/release`.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema, Default)]
pub struct ReleaseBody {
    /// Only these; absent: all files of the request.
    #[serde(default)]
    pub paths: Option<Vec<String>>,
}

/// A request.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RequestReply {
    /// Its id.
    pub id: u64,
    /// Who asked.
    pub owner: String,
    /// `filling`, `active`, `completed` or `cancelled`.
    pub state: String,
    /// When.
    pub created: String,
    /// When the last file ended.
    pub ended: Option<String>,
    /// Seconds.
    pub pin_seconds: u64,
    /// How urgent it is, from 0 to 9; 5 is usual.
    pub priority: u8,
    /// Files in it.
    pub files: u32,
    /// Their bytes.
    pub bytes: u64,
    /// Files online by it.
    pub done: u32,
    /// Their bytes.
    pub done_bytes: u64,
    /// Files that failed.
    pub failed: u32,
    /// Files cancelled.
    pub cancelled: u32,
    /// What is to come of it; only where one request is asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub outlook: Option<OutlookReply>,
}

/// A page of a request's files.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RequestFilesReply {
    /// The files.
    pub files: Vec<RequestFileReply>,
    /// Ask again with `from=` this number; absent at the end.
    pub next: Option<u32>,
}

/// One file of a request.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RequestFileReply {
    /// Its path now.
    pub path: String,
    /// Its size.
    pub size: u64,
    /// `waiting`, `done`, `failed`, `cancelled` or `released`.
    pub state: String,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
}

/// What an evict did.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct EvictReply {
    /// Files evicted.
    pub evicted: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files that were NEARLINE before.
    pub already: u64,
    /// Files refused in all.
    pub refused_count: u64,
    /// The first of them.
    pub refused: Vec<RefusedReply>,
}

/// A file that was not evicted.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RefusedReply {
    /// The file.
    pub path: String,
    /// Why.
    pub reason: String,
}

/// Why something waits.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WhyReply {
    /// What was asked about.
    pub subject: String,
    /// One sentence each, the nearest cause first.
    pub reasons: Vec<String>,
    /// The same for programs, with the time at which each is over.
    #[serde(default)]
    pub causes: Vec<CauseReply>,
}

/// A tape.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TapeReply {
    /// The tape.
    pub vid: String,
    /// `scratch`, `labelling`, `active`, `full`, `read-only`, `suspect` or `disabled`.
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
    /// Containers or files in this session.
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

/// The pool.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PoolReply {
    /// Data shards.
    pub data: u8,
    /// Local parity shards; 0 if the code is Reed-Solomon.
    pub local_parity: u8,
    /// Parity shards of all data.
    pub parity: u8,
    /// Copies of small values.
    pub segment_copies: u8,
    /// Files in it.
    pub online_files: u64,
    /// Their bytes.
    pub online_bytes: u64,
    /// Cells rebuilt on read since the start.
    pub reconstructed: u64,
    /// Garbage waiting for removal.
    pub garbage: u64,
    /// What small files take, as last measured; none: not yet since the start.
    #[serde(default)]
    pub small: Option<SmallFilesReply>,
    /// The drives.
    pub drives: Vec<PoolDriveReply>,
}

/// What small files take of the pool. Segments that are written still do not count.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SmallFilesReply {
    /// Segments that they share.
    pub segments: u64,
    /// Files, or parts of uploads, in them.
    pub values: u64,
    /// Their bytes, once.
    pub bytes: u64,
    /// Their bytes, in all copies.
    pub copied: u64,
    /// What the segments take on all drives.
    pub taken: u64,
    /// `taken` for each byte of `copied`; none if no file is in them.
    pub amplification: Option<f64>,
    /// When that was measured.
    pub at: String,
}

/// A drive of the pool.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PoolDriveReply {
    /// Its number.
    pub id: u16,
    /// Its directory.
    pub path: String,
    /// `up`, `full`, `missing` or `lost`; or `suspect`, `away` or `wiped`, a colon and the reason.
    pub state: String,
    /// It was away, or put back from an old copy, and may lack what was written after this change: what is
    /// missing is being looked for and written anew.
    #[serde(default)]
    pub gaps_after: Option<u64>,
    /// Bytes it can hold.
    pub capacity: u64,
    /// Bytes used.
    pub used: u64,
    /// Bytes read since the start.
    pub read: u64,
    /// Bytes written since the start.
    pub written: u64,
    /// Errors since the start.
    pub errors: u64,
}

/// A storage class.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ClassReply {
    /// Its name.
    pub name: String,
    /// Default for files up to this size; `null`: any.
    pub up_to: Option<u64>,
    /// Tape pools.
    pub copies: Vec<String>,
    /// Pack limit.
    pub pack_bytes: u64,
    /// Files from this size on are not packed.
    pub large_bytes: u64,
    /// Live files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files in the pool.
    pub online_files: u64,
    /// Their bytes.
    pub online_bytes: u64,
    /// Files not in a container yet.
    pub todo_files: u64,
    /// Their bytes.
    pub todo_bytes: u64,
}

/// Something that waits.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct QueueReply {
    /// What.
    pub what: String,
    /// Files to be sealed; copies of containers to be written to this tape pool; or wanted files with a copy
    /// on this tape: one with copies on several tapes stands in the line of each.
    pub items: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Since when the oldest of them waits.
    pub oldest: Option<String>,
    /// How many seconds that is.
    #[serde(default)]
    pub oldest_seconds: Option<u64>,
    /// Why.
    pub reason: String,
    /// The same for programs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cause: Option<ReasonReply>,
    /// When all of it is done.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub expected: Option<ExpectedReply>,
}

/// Counters, for summaries.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct StatusReply {
    /// The server's version.
    pub version: String,
    /// The instance.
    pub instance: String,
    /// What an operator should know, in words; empty if all is well.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Bytes of the file systems of the pool's drives; one that several share is counted once.
    #[serde(default)]
    pub pool_capacity: u64,
    /// What is taken of them, by whomever.
    #[serde(default)]
    pub pool_used: u64,
    /// Drives of the pool.
    #[serde(default)]
    pub pool_drives: u64,
    /// Of those, such that are read and written.
    #[serde(default)]
    pub pool_drives_up: u64,
    /// Files archived.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files in the pool.
    pub online_files: u64,
    /// Their bytes.
    pub online_bytes: u64,
    /// At most so many of those files could be evicted now: tapes have them and nobody pins them.
    #[serde(default)]
    pub evictable_files: u64,
    /// Their bytes.
    #[serde(default)]
    pub evictable_bytes: u64,
    /// What waits until somebody does something about it, and why: the first lines of the queue.
    #[serde(default)]
    pub waiting: Vec<QueueReply>,
    /// Files not in a container yet.
    pub todo_files: u64,
    /// Copies of containers waiting for a tape: a container that waits for two counts twice.
    pub queued_containers: u64,
    /// Bytes of those.
    pub queued_bytes: u64,
    /// Files that somebody waits for, each once, on however many tapes it has copies; absent: an older
    /// server.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub wanted_files: Option<u64>,
    /// Their bytes.
    #[serde(default)]
    pub wanted_bytes: u64,
    /// Container copies flushed but not under an index yet.
    pub unindexed_containers: u64,
    /// Tape mounts so far.
    pub mounts: u64,
    /// Packs sealed so far.
    pub packs: u64,
    /// Flush points so far.
    pub flushes: u64,
    /// Data-partition indexes so far.
    pub indexes: u64,
    /// Bytes on tape.
    pub tape_written: u64,
    /// The server's resident anonymous memory in bytes.
    pub memory_anonymous: u64,
    /// How far a restored catalogue was compared with pool and tapes, if the server was started on one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settling: Option<SettlingReply>,
}

/// How far a restored catalogue was compared with pool and tapes.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SettlingReply {
    /// `written-tapes`, `pool`, `other-tapes`, `missing-files`; at last `settled`, or `unsettled` if not all
    /// could be looked at.
    pub stage: String,
    /// When the server began with it.
    pub began: String,
    /// Tapes to be looked at, as far as is known.
    pub tapes: u64,
    /// Of those, such that were looked at.
    pub tapes_done: u64,
    /// Files of before the restore.
    pub files: u64,
    /// Of those, such that were looked for in the pool.
    pub files_done: u64,
    /// Seconds until the present stage is done, at the rate so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_seconds: Option<u64>,
    /// Tapes that could not be looked at, and decide on files.
    #[serde(default)]
    pub unseen: Vec<String>,
}

/// `POST /api/v1/tapes/{vid}`: what may be done with a tape from now on.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TapeBody {
    /// `active`, `read-only` or `disabled`.
    pub state: String,
    /// Why, for other operators.
    #[serde(default)]
    pub reason: String,
}

/// `POST /api/v1/migrate`: do not wait for bytes or age.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema, Default)]
pub struct MigrateBody {
    /// Only this class.
    #[serde(default)]
    pub class: Option<String>,
}

/// The answer to a `POST` that makes something with an id.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CreatedReply {
    /// The id.
    pub id: u64,
}
