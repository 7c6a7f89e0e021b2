//! Why a session cannot go on.

use base::{BlobId, BlockAddress, ContainerId, FailureCause, Generation, TapePosition, Uuid, Vid};
use blob::{BlobError, BlobFault};
use library::{KeyError, TapeError};

use crate::Found;

/// A mounted volume is not what it should be. Nothing was written after this was found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VolumeError {
    /// The drive or medium failed.
    #[error(transparent)]
    Tape(#[from] TapeError),
    /// A cartridge that was to be labelled holds something.
    #[error(
        "cartridge {vid} is not blank: {found}; take it out of the library, or erase it if nobody needs it"
    )]
    NotBlank {
        /// The cartridge.
        vid: Vid,
        /// What it holds.
        found: Found,
    },
    /// The label is that of another volume.
    #[error(
        "cartridge {vid} holds {found}, expected volume {expected}: the wrong cartridge, or a foreign one"
    )]
    WrongLabel {
        /// The cartridge.
        vid: Vid,
        /// What it holds.
        found: Found,
        /// The volume that should be there.
        expected: Uuid,
    },
    /// The index that the catalogue knows is not where it should be.
    #[error(
        "cartridge {vid}: the index of generation {generation} at block {block} cannot be used: {reason}"
    )]
    Index {
        /// The cartridge.
        vid: Vid,
        /// Its generation.
        generation: Generation,
        /// Where it should begin.
        block: BlockAddress,
        /// What is wrong with it.
        reason: String,
    },
    /// The tape ends elsewhere than the catalogue says.
    #[error("cartridge {vid}: its data ends at block {actual}, the catalogue says {expected}")]
    EndOfData {
        /// The cartridge.
        vid: Vid,
        /// What the catalogue says.
        expected: BlockAddress,
        /// Where it ends.
        actual: BlockAddress,
    },
    /// The drive stands elsewhere than it should before a write; nothing was written.
    #[error(
        "cartridge {vid}: the drive stands at {} and not at {} before a write", place(*.actual),
        place(*.expected)
    )]
    Position {
        /// The cartridge.
        vid: Vid,
        /// Where it should stand.
        expected: TapePosition,
        /// Where it stands.
        actual: TapePosition,
    },
    /// What stands behind the labels of a cartridge cannot be read, or not be written as it is to be, for
    /// want of its key.
    #[error("cartridge {vid}: {source}")]
    Key {
        /// The cartridge.
        vid: Vid,
        /// Why.
        source: KeyError,
    },
    /// A path cannot be on tape.
    #[error("container {container} has no place in the index of {vid}: {source}")]
    Path {
        /// The cartridge.
        vid: Vid,
        /// The container.
        container: ContainerId,
        /// Why.
        source: ltfs::InsertError,
    },
}

impl VolumeError {
    /// What it speaks against; `None`: nothing failed, but what was asked for cannot be done. What the drive
    /// has read well, and is not what it should be, says nothing about the drive.
    #[must_use]
    pub fn cause(&self) -> Option<FailureCause> {
        match self {
            VolumeError::Tape(error) => error.cause(),
            // It is as well as before: somebody is to give its key.
            VolumeError::Key { source, .. } if source.is_missing() => None,
            VolumeError::Key { .. }
            | VolumeError::NotBlank { .. }
            | VolumeError::WrongLabel { .. }
            | VolumeError::Index { .. }
            | VolumeError::EndOfData { .. }
            | VolumeError::Path { .. } => Some(FailureCause::Cartridge),
            // What it wrote before may stand elsewhere too.
            VolumeError::Position { .. } => Some(FailureCause::Unknown),
        }
    }
}

impl VolumeError {
    /// Whether it is for want of a key, or of the right one, and says nothing of drive and cartridge.
    #[must_use]
    pub fn is_of_the_key(&self) -> bool {
        match self {
            VolumeError::Key { source, .. } => source.is_missing(),
            VolumeError::Tape(error) => error.is_of_the_key(),
            _ => false,
        }
    }
}

impl MoverError {
    /// Whether it tells nothing of the bytes: this machine was short of something.
    #[must_use]
    pub fn is_shortage(&self) -> bool {
        matches!(self, MoverError::Store { source, .. } if source.fault == BlobFault::Shortage)
    }

    /// The blob that could not be read, if it is known.
    #[must_use]
    pub fn blob(&self) -> Option<BlobId> {
        match self {
            MoverError::Store { source, .. } => match source.fault {
                BlobFault::Unreadable(blob) => Some(blob),
                _ => None,
            },
            MoverError::Length { blob, .. } => Some(*blob),
            MoverError::Checksum { .. } => None,
        }
    }
}

/// Bytes for a container cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MoverError {
    /// The store cannot give them.
    #[error("container {container}: {source}")]
    Store {
        /// The container.
        container: ContainerId,
        /// Why.
        source: BlobError,
    },
    /// The bytes are not those that were sealed.
    #[error("container {container}: the bytes in the pool do not have the checksum of its sealing")]
    Checksum {
        /// The container.
        container: ContainerId,
    },
    /// The store gave fewer or more bytes than a piece has.
    #[error("container {container}: the pool's blob {blob} gave {actual} bytes for a piece of {expected}")]
    Length {
        /// The container.
        container: ContainerId,
        /// The blob.
        blob: BlobId,
        /// Bytes of the piece.
        expected: u64,
        /// Bytes given.
        actual: u64,
    },
}

/// A position for operators: `block 12 of partition b`.
fn place(at: TapePosition) -> String {
    format!("block {} of partition {}", at.block, at.partition.ltfs_id())
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Partition;

    /// Story: positions stood in the reason of a tape as `TapePosition { partition: Data, .. }`.
    #[test]
    fn positions_are_told_as_tapes_have_them() {
        let at = |block| TapePosition { partition: Partition::Data, block: BlockAddress(block) };
        let (vid, expected, actual) = (Vid::new("KT0001").unwrap(), at(12), at(7));
        let said = VolumeError::Position { vid, expected, actual }.to_string();
        assert!(said.contains("at block 7 of partition b and not at block 12 of partition b"), "{said}");
    }
}
