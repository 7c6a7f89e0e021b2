//! What commands say of files, and of their bytes in the pool.

use base::{BlobDescription, BlobPiece, ByteCount, Checksums, ClassId, ContainerId, DirId, FileId, Name};

use crate::record::{Attributes, FileKind, FileRecord, Hold};

/// Bytes of a new file in the pool; they are synced there before the command is given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolData {
    /// The blobs that hold the pieces, each once; recorded with their stripe sets if new.
    pub blobs: Vec<BlobDescription>,
    /// The pieces, in the order of the file; their lengths add up to its size.
    pub pieces: Vec<BlobPiece>,
}

/// What to do if the name is taken by a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Replace {
    /// The new version takes the name.
    Allowed,
    /// The command is refused.
    Refused,
}

/// A new file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PutFile {
    /// The directory.
    pub parent: DirId,
    /// The name in it.
    pub name: Name,
    /// Bytes or link.
    pub kind: FileKind,
    /// Size in bytes.
    pub size: ByteCount,
    /// The user's attributes.
    pub attributes: Attributes,
    /// Checksums of the bytes.
    pub checksums: Checksums,
    /// The storage class.
    pub class: ClassId,
    /// Orders the migration queue.
    pub dataset: u64,
    /// The bytes in the pool; `None` for links and empty files.
    pub data: Option<PoolData>,
    /// If the name is taken.
    pub replace: Replace,
    /// The client's idempotency key, hashed together with the principal; a repeat gets the first answer.
    pub idempotency: Option<[u8; 32]>,
}

/// A new file as an object: with a condition on what it replaces and what keeps it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PutObject {
    /// The file.
    pub put: PutFile,
    /// Refused unless this version has the name.
    pub if_current: Option<FileId>,
    /// What keeps it; `None`: the default retention of its bucket, counted from the command's time.
    pub hold: Option<Hold>,
    /// The same bytes under the same name make a new version too, with these attributes.
    pub always: bool,
}

/// A file that shares the bytes of another one in the pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CloneFile {
    /// Whose bytes; a named file in the pool, none of whose pieces lies in a segment: the bytes of small
    /// values are too few to be shared.
    pub source: FileId,
    /// The directory of the new file.
    pub parent: DirId,
    /// Its name there.
    pub name: Name,
    /// Its attributes; `None`: those of the source.
    pub attributes: Option<Attributes>,
    /// Its storage class.
    pub class: ClassId,
    /// Orders the migration queue.
    pub dataset: u64,
    /// If the name is taken.
    pub replace: Replace,
    /// Refused unless this version has the name.
    pub if_current: Option<FileId>,
    /// What keeps it; `None`: the default retention of its bucket, counted from the command's time.
    pub hold: Option<Hold>,
}

/// What a file had in the pool when somebody looked at it. By the time of the command it may have something
/// else there: a repeated put or a recall brings new bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolCopy {
    /// The file.
    pub file: FileId,
    /// All its pieces then. Places in blobs are never used again, so that they tell one copy from the next.
    pub pieces: Vec<BlobPiece>,
}

impl PoolCopy {
    /// The pool copy of a file as this record has it.
    #[must_use]
    pub fn of(file: FileId, record: &FileRecord) -> Self {
        PoolCopy { file, pieces: record.pieces.clone() }
    }

    /// Whether it is what the file has in the pool by this record.
    #[must_use]
    pub fn is_of(&self, record: &FileRecord) -> bool {
        self.pieces == record.pieces
    }
}

/// Files and parts of files of a recall that are in the pool now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartsRecalled {
    /// The blobs that hold them, synced.
    pub blobs: Vec<BlobDescription>,
    /// Each whole file with all its pieces.
    pub files: Vec<(FileId, Vec<BlobPiece>)>,
    /// Each part, by its container: the segment.
    pub parts: Vec<(ContainerId, BlobPiece)>,
}

/// Files of a recall that are in the pool now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecallDone {
    /// The blobs that hold them, synced.
    pub blobs: Vec<BlobDescription>,
    /// Each file with all its pieces.
    pub files: Vec<(FileId, Vec<BlobPiece>)>,
}
