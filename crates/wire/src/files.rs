//! Files and directories.

use serde::{Deserialize, Serialize};

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
    /// No library holds any tape that has it, or a part of it: it cannot be recalled before one is back.
    #[serde(default)]
    pub tapes_away: bool,
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
    /// No library holds this tape where a robot can take it.
    #[serde(default)]
    pub away: bool,
    /// How and where it is by an operator's word, as `off-site (vault 3)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub away_as: Option<String>,
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
    /// Where they begin in the file: of a segment, which is a part of a file that is larger than a tape.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub file_offset: Option<u64>,
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
