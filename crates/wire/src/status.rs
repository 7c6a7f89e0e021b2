//! Classes, queues, the counters of the archive.

use serde::{Deserialize, Serialize};

use crate::{ExpectedReply, ReasonReply};

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
    /// The group of drives that gets its files; empty: none.
    #[serde(default)]
    pub pool_group: String,
    /// What nobody has used for so long moves from there to the drives in no group; `null`: only what the
    /// group has no room for moves.
    #[serde(default)]
    pub pool_group_seconds: Option<u64>,
    /// Recalls bring no more of it into the pool than leaves it at so many bytes; `null`: no limit.
    #[serde(default)]
    pub pool_max: Option<u64>,
    /// So many bytes of it do not leave the pool by themselves; `null`: none.
    #[serde(default)]
    pub pool_min: Option<u64>,
    /// Files smaller than this do not leave it by themselves; `null`: all may.
    #[serde(default)]
    pub evict_min: Option<u64>,
    /// How long its files stay in the pool once all their copies are on tape: `pool` (until their room is
    /// needed), `tape` (they leave at once) or `unused` (until nobody has used them for `residency_seconds`).
    #[serde(default)]
    pub residency: String,
    /// See `residency`; `null` unless that is `unused`.
    #[serde(default)]
    pub residency_seconds: Option<u64>,
}

/// Something that waits.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct QueueReply {
    /// What.
    pub what: String,
    /// Files to be sealed; copies of containers to be written to this tape pool; wanted files with a copy on
    /// this tape: one with copies on several tapes stands in the line of each; containers that stand on this
    /// tape and are to leave it (`repack`); or damaged copies whose bytes come from other tapes (`repair`).
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
    /// Of those, such that work; full ones do.
    #[serde(default)]
    pub pool_drives_up: u64,
    /// Of these, such that take no new files only because they are full.
    #[serde(default)]
    pub pool_drives_full: u64,
    /// Why changes are refused, or do not get to tape: the words of `/healthz`, such as `pool-full`; empty if
    /// none are.
    #[serde(default)]
    pub refuses: Vec<String>,
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
    /// So many more could be evicted but for pins.
    #[serde(default)]
    pub pinned_files: u64,
    /// Their bytes.
    #[serde(default)]
    pub pinned_bytes: u64,
    /// What waits until somebody does something about it, and why: the first lines of the queue.
    #[serde(default)]
    pub waiting: Vec<QueueReply>,
    /// Files of which no copy can be read; `kist scrub` names the first ones. Absent: an older server.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lost_files: Option<u64>,
    /// Whether all files were looked at for that since the server was started: else there may be more.
    #[serde(default)]
    pub lost_files_counted: bool,
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
    /// Containers on tapes that are repacked.
    #[serde(default)]
    pub repack_containers: u64,
    /// Damaged copies of containers that are written anew, and whose bytes are being had from other tapes.
    #[serde(default)]
    pub repair_containers: u64,
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
    /// What the engine's threads do; empty: an older server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<ThreadReply>,
}

/// A thread of the engine.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ThreadReply {
    /// Its name, as in the table of threads of the reference.
    pub name: String,
    /// What it does now, such as `waiting`, `sealing`, `recalling`; `ended` if it has nothing more to do.
    pub doing: String,
    /// Since when.
    pub since: String,
    /// When something failed for the last time; whether it goes on is said by `doing`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// What that was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
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
    /// Tapes on which a session was open at the point, and that no library has or that failed too often: it
    /// goes on by itself when they are back.
    #[serde(default)]
    pub absent: Vec<String>,
    /// Disabled tapes that could not be searched for files that nothing else has.
    #[serde(default)]
    pub unsearched: Vec<String>,
    /// Files that these tapes alone may have: they are not LOST, and the restore is not settled.
    #[serde(default)]
    pub missing: u64,
}

/// `POST /api/v1/migrate`: do not wait for bytes or age.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema, Default)]
pub struct MigrateBody {
    /// Only this class.
    #[serde(default)]
    pub class: Option<String>,
}
