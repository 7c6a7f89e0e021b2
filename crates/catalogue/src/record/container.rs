//! Containers, what they hold, and how far their tape copies are.

use base::{
    BlobPiece, BlockAddress, ByteCount, ClassId, FileId, RunId, StreamChecksums, TapePoolId, Timestamp, Vid,
};

/// What stands in a container.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ContainerKind {
    /// A tar pack of small files.
    Pack,
    /// One whole large file.
    File(FileId),
    /// A part of a file that is larger than a tape.
    Segment {
        /// The file.
        file: FileId,
        /// Where the part begins in it.
        file_offset: ByteCount,
    },
}

/// How far one tape copy of a container is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CopyState {
    /// In the migration queue of its tape pool.
    Queued,
    /// Planned at this place of an open run; on tape or not is unknown until the flush.
    Planned {
        /// The run.
        run: RunId,
        /// The tape.
        vid: Vid,
        /// First block on the data partition.
        block: BlockAddress,
    },
    /// Confirmed by a synchronous flush, not yet under an index.
    Flushed {
        /// The run.
        run: RunId,
        /// The tape.
        vid: Vid,
        /// First block on the data partition.
        block: BlockAddress,
    },
    /// Under a synced index of the data partition.
    Indexed {
        /// The tape.
        vid: Vid,
        /// First block on the data partition.
        block: BlockAddress,
    },
}

impl CopyState {
    /// The tape and first block, if the copy can be read there.
    #[must_use]
    pub fn place(self) -> Option<(Vid, BlockAddress)> {
        match self {
            CopyState::Flushed { vid, block, .. } | CopyState::Indexed { vid, block } => Some((vid, block)),
            CopyState::Queued | CopyState::Planned { .. } => None,
        }
    }
}

/// Where a copy stands on tape.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TapePlace {
    /// The tape.
    pub vid: Vid,
    /// First block on the data partition.
    pub block: BlockAddress,
}

/// One tape copy of a container.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ContainerCopy {
    /// The tape pool it goes to.
    pub tape_pool: TapePoolId,
    /// How far it is.
    pub state: CopyState,
    /// An older place of this copy, still readable; released when its successor was verified.
    pub source: Option<TapePlace>,
}

impl ContainerCopy {
    /// A copy that is still to be written.
    #[must_use]
    pub fn queued(tape_pool: TapePoolId) -> ContainerCopy {
        ContainerCopy { tape_pool, state: CopyState::Queued, source: None }
    }

    /// Whether it waits to be written elsewhere since a repack takes it off this tape, where it still stands.
    #[must_use]
    pub fn is_leaving(&self, vid: Vid) -> bool {
        self.state == CopyState::Queued && self.source.is_some_and(|source| source.vid == vid)
    }

    /// Every place where this copy can be read: the present one first, then its source.
    pub fn places(&self) -> impl Iterator<Item = (Vid, BlockAddress)> + use<> {
        self.state.place().into_iter().chain(self.source.map(|source| (source.vid, source.block)))
    }

    /// The tapes on which the copy is under a synced index, at its present or its older place.
    pub fn safe_on(&self) -> impl Iterator<Item = Vid> + use<> {
        let present = match self.state {
            CopyState::Indexed { vid, .. } => Some(vid),
            _ => None,
        };
        present.into_iter().chain(self.source.map(|source| source.vid))
    }

    /// Whether the copy is under a synced index, at its present or its older place.
    #[must_use]
    pub fn is_safe(&self) -> bool {
        self.safe_on().next().is_some()
    }
}

/// What is written to tape as one LTFS file; sealed once, equal on every tape.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ContainerRecord {
    /// Pack, file or segment.
    pub kind: ContainerKind,
    /// The class of its members.
    pub class: ClassId,
    /// Length on tape.
    pub length: ByteCount,
    /// Checksums over that length.
    pub checksums: StreamChecksums,
    /// When its membership was fixed.
    pub sealed: Timestamp,
    /// Its path in the LTFS volume, from the root, with a leading slash.
    pub tape_path: String,
    /// Where the pool keeps a pack's skeleton until all copies are under an index.
    pub skeleton: Option<BlobPiece>,
    /// The container's whole bytes in the pool, so that a copy can be written although members are not
    /// online. Given up like the skeleton; of a part of a file that somebody waits for, when nobody does any
    /// more, or when all parts came and the file has them.
    pub image: Option<BlobPiece>,
    /// The tape copies, in the order of the class.
    pub copies: Vec<ContainerCopy>,
    /// Members that still have a name.
    pub live_members: u32,
    /// Bytes of those members.
    pub live_bytes: ByteCount,
    /// Members condemned while copies were outstanding; finished when all are under an index.
    pub condemned_members: u32,
}

impl ContainerRecord {
    /// Whether nobody needs what it holds: no file of it has a name any more.
    #[must_use]
    pub fn is_unneeded(&self) -> bool {
        self.live_members == 0
    }

    /// Whether every copy that the class asks for is under a synced index, at its present or an older place.
    #[must_use]
    pub fn is_safe(&self) -> bool {
        !self.copies.is_empty() && self.copies.iter().all(ContainerCopy::is_safe)
    }

    /// Whether nothing is left to be written: every copy is under a synced index at its present place, and
    /// none has an older one.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let is_settled =
            |copy: &ContainerCopy| matches!(copy.state, CopyState::Indexed { .. }) && copy.source.is_none();
        !self.copies.is_empty() && self.copies.iter().all(is_settled)
    }

    /// Whether every copy is at least confirmed by a flush.
    #[must_use]
    pub fn is_on_tape(&self) -> bool {
        !self.copies.is_empty() && self.copies.iter().all(|copy| copy.places().next().is_some())
    }

    /// Every place on tape where the container can be read.
    pub fn places(&self) -> impl Iterator<Item = (Vid, BlockAddress)> + '_ {
        self.copies.iter().flat_map(ContainerCopy::places)
    }

    /// Whether it holds no file that anybody needs: neither a named nor a condemned one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.live_members == 0 && self.condemned_members == 0
    }
}

/// Where a member stands in its container.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemberRecord {
    /// The file.
    pub file: FileId,
    /// Where the member's header begins in the container; equal to `data_offset` outside of packs.
    pub header_offset: ByteCount,
    /// Where its bytes begin in the container.
    pub data_offset: ByteCount,
    /// Bytes of the file there.
    pub length: ByteCount,
    /// Where these bytes begin in the file; 0 but for segments.
    pub file_offset: ByteCount,
}
