//! What is said of uploads in parts.

use base::{Blake3, ByteCount, DirId, PartHash, StreamChecksums, UploadId};

use super::{PoolData, PutObject};
use crate::record::UploadPlan;

/// Most parts of one upload, and the highest number of a part.
pub const PARTS_MAX: u16 = 10_000;
/// Most uploads that may be open at a time.
pub const UPLOADS_MAX: u64 = 100_000;
/// Most uploads that may be open at a time in one directory of the root.
pub const BUCKET_UPLOADS_MAX: usize = 20_000;
/// Parts that are given up by one `AbortUpload`.
pub const ABORT_PARTS_MAX: usize = 1_000;
const _: () = assert!(ABORT_PARTS_MAX > 0, "each part of an abort gets on, or it would not end");
const _: () =
    assert!(BUCKET_UPLOADS_MAX as u64 <= UPLOADS_MAX, "one bucket has no more uploads than all have");

/// The beginning of an upload in parts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenUpload {
    /// The directory of the root below which the file will stand.
    pub bucket: DirId,
    /// The path below it, without a slash before it.
    pub key: String,
    /// Who begins it; at most 64 bytes.
    pub owner: String,
    /// What the file will be.
    pub plan: UploadPlan,
}

/// A part whose bytes are safe in the pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PutPart {
    /// The upload.
    pub upload: UploadId,
    /// From 1 to [`PARTS_MAX`].
    pub number: u16,
    /// Its size.
    pub size: ByteCount,
    /// The checksums of its bytes.
    pub checksums: StreamChecksums,
    /// What its BLAKE3 merges from.
    pub hash: PartHash,
    /// What a door keeps of it; at most 4 KiB.
    pub attributes: Vec<(String, Vec<u8>)>,
    /// Its bytes in the pool; `None` if it has none.
    pub data: Option<PoolData>,
}

/// The end of an upload in parts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompleteUpload {
    /// The upload.
    pub upload: UploadId,
    /// The parts that the file is made of, in order, by number and stamp. All others are given up.
    pub parts: Vec<(u16, u64)>,
    /// The file, without bytes: they are those of the parts. Its idempotency key must be
    /// [`completion_key`].
    pub object: PutObject,
}

/// The idempotency key of the end of an upload: by it a repeat finds the first answer.
#[must_use]
pub fn completion_key(upload: UploadId) -> [u8; 32] {
    let mut text = b"kist upload in parts ".to_vec();
    text.extend_from_slice(&upload.0.to_le_bytes());
    Blake3::of(&text).0
}
