//! The JSON of verifying, scrubbing and the pool's drives.

use serde::{Deserialize, Serialize};

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
    /// Cells that did not come in time since the start.
    pub late_cells: u64,
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
    /// Blobs and values on the list of what reads have found damaged.
    pub waiting: u64,
    /// What was found and done, newest last.
    pub findings: Vec<String>,
    /// Files that the pool cannot give.
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
}

/// `POST /api/v1/pool/drives/{id}/replace`.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema, Default)]
pub struct ReplaceBody {
    /// Make the directory if it is not there.
    #[serde(default)]
    pub new: bool,
}

/// The answer to `POST /api/v1/pool/drives/{id}/replace`.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ReplaceReply {
    /// `new` or `returned`.
    pub what: String,
}
