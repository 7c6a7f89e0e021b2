//! Uploads in parts that are not complete yet.

use base::{BlobPiece, ByteCount, ClassId, DirId, PartHash, StreamChecksums, Timestamp};

use super::{Attributes, Hold};

/// An upload in parts: what the file will be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UploadRecord {
    /// The directory of the root below which the file will stand.
    pub bucket: DirId,
    /// The path below that directory, without a slash before it.
    pub key: String,
    /// Who began it; at most 64 bytes.
    pub owner: String,
    /// When.
    pub created: Timestamp,
    /// It is being given up: takes no parts, cannot be completed, is listed no more.
    pub ending: bool,
    /// What the file will be.
    pub plan: UploadPlan,
}

/// What was said of the file when its upload began.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct UploadPlan {
    /// The user's attributes.
    pub attributes: Attributes,
    /// Its storage class, if one was named.
    pub class: Option<ClassId>,
    /// The collocation hint, if there was one; at most 1,024 bytes.
    pub dataset: Option<String>,
    /// Missing directories are made at the end.
    pub make_parents: bool,
    /// Those are marked as made for it.
    pub implied_parents: bool,
    /// It is refused if the name is taken then.
    pub keep_existing: bool,
    /// What keeps it.
    pub hold: Option<Hold>,
}

/// How the parts of an upload count for quotas.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UploadUse {
    /// They count for this directory and those above it: the nearest to the file to be that was there when
    /// the upload began. If it is removed, the one above it takes its place.
    pub directory: DirId,
    /// The bytes of all parts that are stored.
    pub bytes: ByteCount,
}

/// A part of an upload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UploadPart {
    /// The change that stored it; one that is put again has another.
    pub stamp: u64,
    /// When it was acknowledged.
    pub stored: Timestamp,
    /// Its size.
    pub size: ByteCount,
    /// The checksums of its bytes.
    pub checksums: StreamChecksums,
    /// What its BLAKE3 merges from.
    pub hash: PartHash,
    /// What a door keeps of it; at most 4 KiB.
    pub attributes: Vec<(String, Vec<u8>)>,
    /// Where its bytes are in the pool, in order; empty if it has none.
    pub pieces: Vec<BlobPiece>,
}
