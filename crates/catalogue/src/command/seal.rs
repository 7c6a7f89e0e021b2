//! What is said of containers at their sealing.

use base::{ByteCount, ClassId, ContainerId, StreamChecksums};

use super::PoolData;
use crate::record::{ContainerKind, MemberRecord};

/// A container at its sealing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SealContainer {
    /// The id, taken beforehand with `ReserveContainer`, since the name and the manifest carry it.
    pub container: ContainerId,
    /// Pack, file or segment.
    pub kind: ContainerKind,
    /// The class of all members.
    pub class: ClassId,
    /// The members in the order of their offsets.
    pub members: Vec<MemberRecord>,
    /// Length on tape.
    pub length: ByteCount,
    /// Checksums over that length.
    pub checksums: StreamChecksums,
    /// Path in the LTFS volume.
    pub tape_path: String,
    /// A pack's skeleton in the pool.
    pub skeleton: Option<PoolData>,
}

/// A pack whose members follow in pieces; all else is as in [`SealContainer`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenPack {
    /// The id, taken beforehand.
    pub container: ContainerId,
    /// The class of all members.
    pub class: ClassId,
    /// How many members it will have.
    pub members: u32,
    /// Length on tape.
    pub length: ByteCount,
    /// Checksums over that length.
    pub checksums: StreamChecksums,
    /// Path in the LTFS volume.
    pub tape_path: String,
    /// Its skeleton in the pool.
    pub skeleton: PoolData,
}
