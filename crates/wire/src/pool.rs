//! The disk pool: its drives, scrubs, repairs.

use serde::{Deserialize, Serialize};

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
    /// Too few drives have room for new files, which are refused.
    #[serde(default)]
    pub full: bool,
    /// Why new files are refused, if they are: `pool-full` or `drives-away`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refuses: Option<String>,
    /// The same for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refuses_text: Option<String>,
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
    /// What leaves it by itself.
    #[serde(default)]
    pub evictor: EvictorReply,
    /// How far the rebuild is that is under way; none: none is.
    #[serde(default)]
    pub rebuild: Option<RebuildReply>,
    /// How far a rebalance is, or the last one since the start came; none: there was none.
    #[serde(default)]
    pub rebalance: Option<RebalanceReply>,
    /// How far a change of code is, or the last one since the start came; none: there was none.
    #[serde(default)]
    pub recoding: Option<RecodingReply>,
    /// The groups of drives.
    #[serde(default)]
    pub groups: Vec<PoolGroupReply>,
    /// The drives.
    pub drives: Vec<PoolDriveReply>,
}

/// Files that leave the pool by themselves.
#[derive(Clone, Debug, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct EvictorReply {
    /// They leave for want of room when it is fuller than this, in percent; none: they do not.
    pub high_water_percent: Option<u8>,
    /// Down to this.
    pub low_water_percent: Option<u8>,
    /// Bytes of files in the pool when it was looked last.
    pub online_bytes: u64,
    /// Those, and what was free for files.
    pub room_bytes: u64,
    /// Files that left by themselves since the start.
    pub evicted_files: u64,
    /// Their bytes.
    pub evicted_bytes: u64,
    /// When the last one did.
    pub last: Option<String>,
    /// More is to leave than may: it is pinned, held, or not on all its tapes.
    pub held_up: bool,
    /// Room is being made: files leave, or what has left is being removed from the drives.
    #[serde(default)]
    pub makes_room: bool,
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
    /// The machine that it stands in: drives of one fail together.
    #[serde(default)]
    pub host: String,
    /// The group that it is in; empty: none.
    #[serde(default)]
    pub group: String,
    /// `up`, `full`, `draining`, `suspect`, `away`, `wiped`, `missing`, `lost` or `removed`.
    pub state: String,
    /// What happened to one that is `suspect`, `away` or `wiped`, or that `kist.toml` does not name any more;
    /// else empty.
    #[serde(default)]
    pub reason: String,
    /// Whether it works; one that is full does.
    #[serde(default)]
    pub up: bool,
    /// Whether only a lack of room keeps new files from it.
    #[serde(default)]
    pub full: bool,
    /// It was away, or put back from an old copy, and may lack what was written after this change: what is
    /// missing is being looked for and written anew.
    #[serde(default)]
    pub gaps_after: Option<u64>,
    /// It is new, and the shards that should be on it are being written; `gaps_after` says no more then.
    #[serde(default)]
    pub filling: bool,
    /// How many times as long as the others it takes, if it is much slower: new data goes to those as long as
    /// there are enough of them.
    #[serde(default)]
    pub slow: Option<u64>,
    /// The burn-in of which its place has a record; none: it has none, or the drive does not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burn_in: Option<BurnInReply>,
    /// How it is read and written: `threads`, `uring`, or `own` of a drive with a queue of its own; empty if
    /// it is not there.
    #[serde(default)]
    pub io: String,
    /// So many reads, and as many writes, are under way there at one time; 0 if it is not there.
    #[serde(default)]
    pub depth: u64,
    /// How far it is emptied, if it is to be.
    #[serde(default)]
    pub drain: Option<DrainReply>,
    /// The disk that it is on, or was; none: nobody has told of it yet (`kist disk watch`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<crate::DriveDiskReply>,
    /// Bytes it can hold.
    pub capacity: u64,
    /// Bytes used.
    pub used: u64,
    /// Bytes read since the start.
    pub read: u64,
    /// Bytes written since the start.
    pub written: u64,
    /// Errors since the start; that it was full is none.
    pub errors: u64,
}

/// What the burn-in of a drive said, before its first use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BurnInReply {
    /// Which it was: 16 hexadecimal digits.
    pub id: String,
    /// `passed`, `slow` or `faulty`.
    pub verdict: String,
    /// When it ended, by the clock of the command's machine.
    pub ended: String,
    /// Bytes that were written and read.
    pub bytes: u64,
    /// Bytes of the file system that they are part of.
    pub capacity: u64,
    /// Bytes a second that were written in order.
    pub write_rate: u64,
    /// Bytes a second that were read in order.
    pub read_rate: u64,
    /// The highest median latency of a zone.
    pub median_seconds_max: f64,
    /// The longest latency of a zone that 99 of 100 reads kept.
    pub p99_seconds_max: f64,
    /// Operations that failed.
    pub faults: u64,
    /// Places that are slow.
    pub slow_places: u32,
    /// Whether the kernel's cache was passed by.
    pub is_direct: bool,
    /// Whether there were zones enough to compare places.
    pub is_judged_by_place: bool,
    /// Why it does not prove its disk, in words; empty: it does.
    #[serde(default)]
    pub doubts: Vec<String>,
}

/// How far a drive is emptied. What was counted and moved is since the start of the server.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DrainReply {
    /// Since when it is to be emptied.
    pub since: String,
    /// Shards that stood on it when they were counted.
    pub shards: u64,
    /// About their bytes.
    pub bytes: u64,
    /// Shards that were moved since.
    pub moved: u64,
    /// Bytes that were written for that.
    pub moved_bytes: u64,
    /// Shards that could not be moved by the last round over all; they are tried again.
    pub stuck: u64,
    /// Why the first of them could not.
    pub reason: Option<String>,
    /// Nothing stands on it, as far as the last round has seen: it can be taken out.
    pub empty: bool,
    /// Bytes a second.
    pub rate: u64,
    /// Seconds until all is moved, if it goes on so.
    pub remaining_seconds: Option<f64>,
}

/// How far what is stored has moved from the fuller drives to the emptier ones. What was moved is since the
/// start of the server.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RebalanceReply {
    /// `counting`, `moving`, `waiting` or `ended`.
    pub state: String,
    /// Why it waits, or has ended.
    pub reason: Option<String>,
    /// It ends when the fullest drive and the emptiest are no more percentage points apart.
    pub to: u8,
    /// Since when it is asked for.
    pub since: String,
    /// How many percentage points of their sizes they are apart; none: not counted yet.
    pub spread: Option<f64>,
    /// Shards that were moved.
    pub moved: u64,
    /// Bytes that were written for that.
    pub moved_bytes: u64,
    /// About the bytes that are to be moved still.
    pub left_bytes: u64,
    /// Bytes a second.
    pub rate: u64,
    /// Seconds until all is moved, if it goes on so.
    pub remaining_seconds: Option<f64>,
}

/// A group of drives of the pool. What has moved is since the start of the server.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PoolGroupReply {
    /// Its name.
    pub name: String,
    /// The code of what it gets, such as `4+2`.
    pub code: String,
    /// Drives.
    pub drives: u64,
    /// Those that take new files.
    pub drives_taking: u64,
    /// Size of those that work.
    pub capacity: u64,
    /// Taken of that, by whomever.
    pub used: u64,
    /// Above this, in percent, what was not used for longest leaves it.
    pub high_water_percent: u8,
    /// It leaves down to this.
    pub low_water_percent: u8,
    /// Bytes of files that went to the drives in no group.
    pub left_bytes: u64,
    /// Bytes of files that were used again and came back.
    pub came_bytes: u64,
    /// Of all groups: `moving`, `waiting`, `counting` (it looks) or `ended` (nothing is to
    /// move).
    pub state: String,
    /// Why; for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How far what is stored in another code is written anew. What was written is since the start of the server.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RecodingReply {
    /// `counting`, `writing`, `waiting` or `ended`.
    pub state: String,
    /// Why it waits, or has ended.
    pub reason: Option<String>,
    /// The code that all gets, such as `16+4`.
    pub to: String,
    /// Since when it is asked for.
    pub since: String,
    /// Blobs that were written anew: a large file is one, or many files that were recalled together.
    pub blobs: u64,
    /// About how many there will be.
    pub blobs_total: u64,
    /// Their bytes, parity not counted.
    pub bytes: u64,
    /// About how many there will be.
    pub bytes_total: u64,
    /// Bytes a second.
    pub rate: u64,
    /// Seconds until all is written, if it goes on so.
    pub remaining_seconds: Option<f64>,
}

/// How redundant the content of the pool is: `GET /api/v1/pool/health`.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PoolHealthReply {
    /// Stripes and segments; 0 if every drive answers.
    pub stripes: u64,
    /// Readable, with a shard or copy on a drive that does not answer.
    pub degraded: u64,
    /// Of these, such that bear no further loss.
    pub critical: u64,
    /// Such that cannot be read whole.
    pub unreadable: u64,
    /// Such that no drive holds enough of any more, as far as repairs have found them since the start.
    pub lost: u64,
    /// Drives that do not answer.
    pub silent_drives: u64,
    /// Blobs and values found damaged, to be repaired soon.
    pub repairs_waiting: u64,
    /// Of these, such that were tried in vain: each rests, and is tried again, ever more seldom.
    #[serde(default)]
    pub repairs_failed: u64,
    /// Cells that did not come in time since the start.
    pub late_cells: u64,
}

/// How far a rebuild is of what lost drives held: in `GET /api/v1/scrub` and `GET /api/v1/pool`. It is
/// counted anew when one begins, also after a restart.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RebuildReply {
    /// When it began.
    pub began: String,
    /// Stripes and segments that were rebuilt, or could not be.
    pub stripes: u64,
    /// How many there are; until all are counted, how many were found.
    pub stripes_total: u64,
    /// Bytes that were written for that.
    pub bytes: u64,
    /// About how many there will be.
    pub bytes_total: u64,
    /// Whether all are counted.
    pub counted: bool,
    /// The stripes that are rebuilt now bear so many further losses: the fewest go first.
    pub bears: u64,
    /// Of these so many were rebuilt, or could not be.
    pub level_stripes: u64,
    /// How many of these there are.
    pub level_total: u64,
    /// Bytes a second.
    pub rate: u64,
    /// Seconds until all is rebuilt, if it goes on so; none until all are counted.
    pub remaining_seconds: Option<f64>,
}

/// How far the scrubber is: `GET /api/v1/scrub`.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ScrubReply {
    /// `idle`, `blobs`, `values`, `rebuilding`, `looking for lost files` or `repairing`.
    pub phase: String,
    /// Whether a pass is under way.
    pub running: bool,
    /// Whether it goes as fast as clients let it.
    pub hurried: bool,
    /// Passes that ended since the server started.
    pub passes: u64,
    /// When the present or last pass began.
    pub began: Option<String>,
    /// When the last pass ended.
    pub ended: Option<String>,
    /// Blobs checked in this pass.
    pub blobs: u64,
    /// Blobs there were at its beginning.
    pub blobs_total: u64,
    /// Small values checked in this pass.
    pub values: u64,
    /// Bytes read in this pass.
    pub bytes: u64,
    /// About how many there will be.
    pub bytes_total: u64,
    /// Bytes a second.
    pub rate: f64,
    /// Seconds that the pass goes on, about.
    pub remaining: Option<u64>,
    /// How far the rebuild is that is under way; none: none is.
    #[serde(default)]
    pub rebuild: Option<RebuildReply>,
    /// Cells, records, shards and superblocks found wrong.
    pub found: u64,
    /// Shards written anew in their place.
    pub repaired: u64,
    /// Stripes of which shards went to other drives.
    pub moved: u64,
    /// Shards that could not be repaired.
    pub failed: u64,
    /// Files that the pool cannot give and that are recalled from tape.
    pub nearline: u64,
    /// Files of which no copy can be read.
    pub lost: u64,
    /// Lost files that could be read again.
    pub found_again: u64,
    /// Blobs and values that reads have found damaged, to be repaired: `repairs_waiting` of the health.
    pub waiting: u64,
    /// Of these, such that were tried in vain, and rest before they are tried again.
    #[serde(default)]
    pub waiting_failed: u64,
    /// What was found and done, newest last: like things of a blob are one line with their number.
    pub findings: Vec<String>,
    /// Files that the pool cannot give now, LOST or NEARLINE; those that are online again are none.
    pub files: Vec<String>,
}

/// A part of a file was read and agreed with the pool's checksums: `GET /api/v1/verify`.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct VerifyReply {
    /// The id of the version.
    pub file_id: u64,
    /// The file's size.
    pub size: u64,
    /// Where the part begins.
    pub offset: u64,
    /// Bytes read; 0 only of an empty file.
    pub length: u64,
    /// Adler-32 of these bytes, eight hexadecimal digits.
    pub adler32: String,
    /// CRC-32C of these bytes.
    pub crc32c: String,
    /// Adler-32 of the whole file, as it was put.
    pub file_adler32: String,
    /// CRC-32C of the whole file.
    pub file_crc32c: String,
}

/// What the full check of the catalogue found: `POST /api/v1/verify/catalogue`.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct VerifyCatalogueReply {
    /// Records that contradict others, or cannot be; empty if all is well.
    pub findings: Vec<String>,
}

/// `POST /api/v1/pool/rebuild`.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema, Default)]
pub struct RebuildBody {
    /// Only what this drive held.
    #[serde(default)]
    pub drive: Option<u16>,
    /// Go on although files are LOST by it.
    #[serde(default)]
    pub accept_loss: bool,
}

/// `POST /api/v1/pool/rebalance`.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema, Default)]
pub struct RebalanceBody {
    /// It ends when the fullest drive and the emptiest are no more percentage points apart, 0 to 100; none:
    /// 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<u8>,
}

/// The answer to `POST /api/v1/pool/rebalance/end`.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RebalanceEndReply {
    /// Whether one was under way.
    pub was_on: bool,
}

/// The answer to `POST /api/v1/pool/recode`.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RecodeBegunReply {
    /// The code that all gets.
    pub to: String,
}

/// The answer to `POST /api/v1/pool/recode/end`.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RecodeEndReply {
    /// Whether one was under way.
    pub was_on: bool,
}

/// `POST /api/v1/pool/drives/{id}/lost`.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema, Default)]
pub struct DriveLostBody {
    /// Go on although files are LOST by it.
    #[serde(default)]
    pub accept_loss: bool,
}

/// `POST /api/v1/pool/drives`.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema, Default)]
pub struct AddDriveBody {
    /// Its directory on the server's machine, absolute, or its `file:///` URL.
    pub path: String,
    /// The machine that it stands in, if that is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Its failure domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enclosure: Option<String>,
    /// The group that it is in, as `kist.toml` has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Make the directory if it is not there.
    #[serde(default)]
    pub new: bool,
    /// The burn-in that its directory must have a record of, and that must have passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burn_in: Option<String>,
    /// Accept a burn-in that does not prove its disk, and where none is named, also one that has not passed.
    #[serde(default)]
    pub accept_burn_in: bool,
    /// Only look whether it could become a new drive, before its disk is burnt in.
    #[serde(default)]
    pub check: bool,
}

/// The answer to `POST /api/v1/pool/drives`.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AddDriveReply {
    /// The number of the drive.
    pub id: u16,
    /// `new`, `returned` or `in-use`; of a check, `possible`.
    pub what: String,
}

/// `POST /api/v1/pool/drives/{id}/replace`.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema, Default)]
pub struct ReplaceBody {
    /// Make the directory if it is not there.
    #[serde(default)]
    pub new: bool,
    /// Go on although files are LOST by it.
    #[serde(default)]
    pub accept_loss: bool,
}

/// The answer to `POST /api/v1/pool/drives/{id}/replace`.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ReplaceReply {
    /// `new` or `returned`.
    pub what: String,
}
