//! What commands say of tapes.

use base::{
    BlockAddress, BlockCount, ByteCount, ClassId, ContainerId, Generation, StreamChecksums, TapePoolId,
    Timestamp, Uuid, Vid,
};

use crate::record::{ContainerKind, MemberRecord, TapePlace};

/// A container's place in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlannedContainer {
    /// The container; it must be queued in the run's tape pool.
    pub container: ContainerId,
    /// Its first block.
    pub block: BlockAddress,
    /// Its number of blocks.
    pub blocks: BlockCount,
}

/// What a look at a tape has found that a restored catalogue does not know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TapeFound {
    /// The tape.
    pub vid: Vid,
    /// The volume on it.
    pub uuid: Uuid,
    /// The tape pool that it is counted in.
    pub tape_pool: TapePoolId,
    /// Generation of its newest index.
    pub generation: Generation,
    /// Where that begins on the data partition.
    pub index_block: BlockAddress,
    /// Where the data partition ends.
    pub end_of_data: BlockAddress,
    /// Why the tape is only read, for an operator.
    pub reason: String,
}

/// A container as it stands on tapes, for the files of a restored catalogue that it holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AdoptContainer {
    /// Its id.
    pub container: ContainerId,
    /// Pack, file or segment.
    pub kind: ContainerKind,
    /// The class of all members.
    pub class: ClassId,
    /// The members that the catalogue has, in the order of their offsets. Not looked at if it has the
    /// container.
    pub members: Vec<MemberRecord>,
    /// Length on tape.
    pub length: ByteCount,
    /// Checksums over that length.
    pub checksums: StreamChecksums,
    /// When it was sealed.
    pub sealed: Timestamp,
    /// Path in the LTFS volume.
    pub tape_path: String,
    /// Where it stands, under an index.
    pub places: Vec<TapePlace>,
}
