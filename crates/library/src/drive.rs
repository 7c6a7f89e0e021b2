//! What a tape drive can do.

use std::{fmt, io};

use base::{BlockAddress, ByteCount, FailureCause, Partition, TapePosition, Vid};
use mechanics::{MotionReport, Track};

use crate::encryption::{BlockEncryption, TapeEncryption};
use crate::{DeviceError, DriveCounters, Sense, TapeAlert};

/// The name of a tape drive: 1 to 64 characters of `A-Z a-z 0-9 . _ -`, for example `vdrive0`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DriveName(String);

/// Why a text is no drive name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a drive name: use 1 to 64 characters of A-Z, a-z, 0-9, '.', '_' and '-'")]
pub struct DriveNameError(pub String);

impl DriveName {
    /// The longest name in characters.
    pub const LENGTH_MAX: usize = 64;

    /// Checks a name.
    ///
    /// # Errors
    /// If it is empty, too long, or has other characters.
    pub fn new(text: &str) -> Result<Self, DriveNameError> {
        let length_fits = (1..=Self::LENGTH_MAX).contains(&text.len());
        let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        if length_fits && text.bytes().all(allowed) {
            Ok(DriveName(text.to_owned()))
        } else {
            Err(DriveNameError(text.to_owned()))
        }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DriveName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for DriveName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DriveName({})", self.0)
    }
}

/// What a read found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadBlock {
    /// A record of so many bytes; the tape now stands behind it.
    Data(usize),
    /// A file mark; the tape now stands behind it.
    FileMark,
    /// The end of what was written; the tape did not move.
    EndOfData,
}

/// What a write that succeeded has to add.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WriteResult {
    /// The partition is filled up to its early warning: finish soon and write the index.
    pub early_warning: bool,
}

/// Why a drive did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TapeError {
    /// There is no cartridge in the drive.
    #[error("drive {drive} holds no cartridge: mount one first")]
    NotLoaded {
        /// The drive.
        drive: DriveName,
    },
    /// The cartridge is write protected.
    #[error("cartridge {vid} is write protected: take another, or move its switch")]
    WriteProtected {
        /// The cartridge.
        vid: Vid,
    },
    /// What is written on it stays. An LTFS volume needs two partitions, which drives make on no WORM
    /// cartridge, and an index partition that is written again.
    #[error(
        "cartridge {vid} is a WORM cartridge, which holds no LTFS volume and is not written: take it out, \
         and take another"
    )]
    Worm {
        /// The cartridge.
        vid: Vid,
    },
    /// The partition is full; nothing was written and the tape did not move.
    #[error(
        "cartridge {vid} is full at partition {} block {}: go on with another",
        .at.partition.ltfs_id(), .at.block
    )]
    EndOfMedium {
        /// The cartridge.
        vid: Vid,
        /// Where the block would have stood.
        at: TapePosition,
    },
    /// A block to write has no bytes, or more than the drive takes.
    #[error("a block of {length} bytes cannot be written: a block has 1 to {max} bytes")]
    BlockLength {
        /// Its bytes.
        length: usize,
        /// The most that the drive takes.
        max: usize,
    },
    /// More file marks than one command may write.
    #[error("{count} file marks cannot be written at once: the limit is {max}")]
    FileMarkCount {
        /// What was asked for.
        count: u32,
        /// The most that one command writes.
        max: u32,
    },
    /// The record is longer than the buffer; the tape did not move.
    #[error(
        "the record of {record} bytes does not fit the buffer of {buffer} bytes: read it with a larger one"
    )]
    BufferTooSmall {
        /// Bytes of the record.
        record: usize,
        /// Bytes of the buffer.
        buffer: usize,
    },
    /// The record is damaged; the tape did not move, and its neighbours may still be readable: locate behind
    /// it.
    #[error(
        "cartridge {vid}: partition {} block {} is unreadable: use another copy",
        .at.partition.ltfs_id(), .at.block
    )]
    Unreadable {
        /// The cartridge.
        vid: Vid,
        /// The damaged record.
        at: TapePosition,
    },
    /// The block is encrypted, and the drive has no key to decrypt it; the tape did not move.
    #[error(
        "cartridge {vid}: partition {} block {} is encrypted and the drive has no key: give it the key of \
         the cartridge",
        .at.partition.ltfs_id(), .at.block
    )]
    KeyMissing {
        /// The cartridge.
        vid: Vid,
        /// The block.
        at: TapePosition,
    },
    /// The block was encrypted with another key than the drive has; the tape did not move.
    #[error(
        "cartridge {vid}: partition {} block {} is encrypted with another key: give the drive the key of \
         the cartridge",
        .at.partition.ltfs_id(), .at.block
    )]
    WrongKey {
        /// The cartridge.
        vid: Vid,
        /// The block.
        at: TapePosition,
    },
    /// The block is not encrypted, and only encrypted ones were to be read; the tape did not move.
    #[error("cartridge {vid}: partition {} block {} is not encrypted", .at.partition.ltfs_id(), .at.block)]
    NotEncrypted {
        /// The cartridge.
        vid: Vid,
        /// The block.
        at: TapePosition,
    },
    /// The drive does not encrypt as it is to: nothing was written.
    #[error("drive {drive} does not encrypt as it is to: it has no AES-256-GCM, or others control it")]
    EncryptionUnsupported {
        /// The drive.
        drive: DriveName,
    },
    /// The target of a locate lies behind the end of data; the tape did not move.
    #[error(
        "cartridge {vid}: block {} is beyond the end of data of partition {}, which is at block {}",
        .to.block, .to.partition.ltfs_id(), .end.block
    )]
    BeyondEndOfData {
        /// The cartridge.
        vid: Vid,
        /// What was asked for.
        to: TapePosition,
        /// The end of data of that partition.
        end: TapePosition,
    },
    /// Writing or reading the medium failed. After a failed write or flush nothing more is written until the
    /// cartridge was unmounted and mounted again, and only what was flushed before may be relied upon.
    #[error("cartridge {vid}: {operation} failed: {source}")]
    Medium {
        /// The cartridge.
        vid: Vid,
        /// What failed: `write`, `flush`, `read`.
        operation: &'static str,
        /// What was heard of it.
        source: DeviceError,
    },
    /// The drive itself does not work: this says nothing about the cartridge in it.
    #[error(
        "drive {drive} failed at {operation} ({source}): look at the drive; what is in it can be read \
         elsewhere"
    )]
    DriveFailed {
        /// The drive.
        drive: DriveName,
        /// The command that failed.
        operation: &'static str,
        /// What was heard of it.
        source: DeviceError,
    },
    /// The drive does not work on before it is cleaned; nothing was carried out.
    #[error("drive {drive} must be cleaned: {sense}")]
    CleaningNeeded {
        /// The drive.
        drive: DriveName,
        /// What it said.
        sense: Sense,
    },
    /// Drive and host do not reach each other: a cable, a switch or an adapter. Whether the last command was
    /// carried out is unknown.
    #[error("drive {drive} is not reached at {operation} ({source}): look at the cables and switches to it")]
    Path {
        /// The drive.
        drive: DriveName,
        /// The command that failed.
        operation: &'static str,
        /// What was heard of it.
        source: DeviceError,
    },
    /// Another host has reserved the drive; nothing was carried out.
    #[error("drive {drive} is reserved by another host: end its use there")]
    Reserved {
        /// The drive.
        drive: DriveName,
    },
    /// This host cannot carry out commands, for any drive.
    #[error("this host cannot do {operation} ({source}): {}", host_advice(source))]
    Host {
        /// The command that failed.
        operation: &'static str,
        /// What was heard of it.
        source: DeviceError,
    },
    /// The drive is becoming ready, or busy; nothing was carried out. It is tried again.
    #[error("drive {drive} is not ready yet ({sense}): it is tried again")]
    NotReady {
        /// The drive.
        drive: DriveName,
        /// What it said.
        sense: Sense,
    },
    /// The drive was reset, or somebody else has loaded it (unit attention): nothing was carried out. Where
    /// the tape stands, and which it is, must be looked at anew: by a new mount.
    #[error("drive {drive} was reset or its cartridge changed ({sense}): it is mounted anew")]
    Interrupted {
        /// The drive.
        drive: DriveName,
        /// What it said.
        sense: Sense,
    },
    /// The drive does not know where the tape stands; nothing was written. A locate or a new mount helps.
    #[error("cartridge {vid}: the drive has lost its position: unmount it and mount it again")]
    PositionUnknown {
        /// The cartridge.
        vid: Vid,
    },
    /// An earlier write or flush failed, so that nothing more may be written.
    #[error("cartridge {vid} takes no writes since one failed: unmount it, then look at the end of data")]
    Poisoned {
        /// The cartridge.
        vid: Vid,
    },
    /// The attribute cannot be set by the host.
    #[error("attribute 0x{id:04X} of the cartridge memory belongs to the drive and cannot be written")]
    AttributeReadOnly {
        /// The attribute.
        id: u16,
    },
    /// The attribute's value is too long.
    #[error("attribute 0x{id:04X} of {length} bytes is too long: the limit is {max}")]
    AttributeLength {
        /// The attribute.
        id: u16,
        /// Its bytes.
        length: usize,
        /// The limit.
        max: usize,
    },
    /// More segments than the drive orders at once.
    #[error("{count} segments cannot be ordered at once: the limit is {max}")]
    SegmentCount {
        /// What was asked for.
        count: usize,
        /// The most that the drive orders.
        max: usize,
    },
    /// What the drive recommends is no order of what it was asked.
    #[error("drive {drive} does not name each segment once in the access order that it recommends")]
    NotAnOrder {
        /// The drive.
        drive: DriveName,
    },
    /// The cartridge memory is full.
    #[error("the memory of cartridge {vid} is full: {max} attributes")]
    AttributesFull {
        /// The cartridge.
        vid: Vid,
        /// The limit.
        max: usize,
    },
}

/// What to look at when this host fails.
fn host_advice(source: &DeviceError) -> &'static str {
    match source {
        DeviceError::System(error) if is_for_want_of_space(error) => "make room for the library",
        _ => "look at its adapter and its memory",
    }
}

/// Whether a file system is full: that of the library, whose cartridges are files.
pub(crate) fn is_for_want_of_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

impl TapeError {
    /// What it speaks against; `None`: nothing failed, but what was asked for cannot be done, or not now.
    #[must_use]
    pub fn cause(&self) -> Option<FailureCause> {
        match self {
            TapeError::DriveFailed { .. }
            | TapeError::CleaningNeeded { .. }
            | TapeError::PositionUnknown { .. }
            // Another drive may do.
            | TapeError::EncryptionUnsupported { .. } => Some(FailureCause::Drive),
            // One that another host keeps is a drive that cannot be reached.
            TapeError::Path { .. } | TapeError::Reserved { .. } => Some(FailureCause::Path),
            TapeError::Host { .. } => Some(FailureCause::Host),
            TapeError::WriteProtected { .. }
            | TapeError::Worm { .. }
            | TapeError::EndOfMedium { .. }
            | TapeError::BeyondEndOfData { .. } => Some(FailureCause::Cartridge),
            // Dirt on the head looks like a bad medium.
            TapeError::NotLoaded { .. }
            | TapeError::Unreadable { .. }
            | TapeError::Medium { .. }
            | TapeError::Poisoned { .. } => Some(FailureCause::Unknown),
            TapeError::NotReady { .. }
            | TapeError::Interrupted { .. }
            | TapeError::BlockLength { .. }
            | TapeError::FileMarkCount { .. }
            | TapeError::BufferTooSmall { .. }
            | TapeError::AttributeReadOnly { .. }
            | TapeError::AttributeLength { .. }
            | TapeError::SegmentCount { .. }
            // It costs nothing but the order.
            | TapeError::NotAnOrder { .. }
            | TapeError::AttributesFull { .. }
            // The key is the host's affair.
            | TapeError::KeyMissing { .. }
            | TapeError::WrongKey { .. }
            | TapeError::NotEncrypted { .. } => None,
        }
    }

    /// Whether the drive is of no use before somebody has looked at it.
    #[must_use]
    pub fn is_of_the_drive(&self) -> bool {
        matches!(self, TapeError::DriveFailed { .. } | TapeError::CleaningNeeded { .. })
    }

    /// Whether a block was there and could not be given for want of its key, or of encryption.
    #[must_use]
    pub fn is_of_the_key(&self) -> bool {
        use TapeError::{KeyMissing, NotEncrypted, WrongKey};
        matches!(self, KeyMissing { .. } | WrongKey { .. } | NotEncrypted { .. })
    }

    /// Whether it says nothing about the medium under the head, so that what stands there may be read
    /// elsewhere, or later.
    #[must_use]
    pub fn spares_the_medium(&self) -> bool {
        match self {
            TapeError::NotReady { .. } | TapeError::Interrupted { .. } => true,
            error if error.is_of_the_key() => true,
            other => matches!(
                other.cause(),
                Some(FailureCause::Drive | FailureCause::Path | FailureCause::Robot | FailureCause::Host)
            ),
        }
    }
}

/// Whether the host may set an attribute of the cartridge memory (SPC-5, 7.4.1): the others are the drive's
/// and the maker's.
#[must_use]
pub(crate) fn is_host_attribute(id: u16) -> bool {
    (0x0800..=0x0bff).contains(&id) || (0x1400..=0x17ff).contains(&id)
}

/// One tape drive. Blocking; used by one thread at a time, the mover's. The cartridge is moved by the
/// library.
///
/// Records and file marks are the *objects* of a partition, counted from 0. After a mount the tape stands at
/// object 0 of the index partition. Writing anywhere but at the end of data cuts off everything behind, as
/// tape does. A call that fails leaves the tape where it stood, unless the error says otherwise. No call has
/// a default: whoever wraps a drive decides about each.
pub trait TapeDrive: Send {
    /// The drive's name.
    fn id(&self) -> &DriveName;

    /// Reads the object under the head into the front of `buffer`, verified. What is behind it is undefined.
    ///
    /// # Errors
    /// [`TapeError::BufferTooSmall`], [`TapeError::Unreadable`], [`TapeError::NotLoaded`],
    /// [`TapeError::Medium`]. After each of them the buffer's content is undefined.
    fn read_block(&mut self, buffer: &mut [u8]) -> Result<ReadBlock, TapeError>;

    /// Writes one record. It is durable only after the next [`TapeDrive::write_filemarks`].
    ///
    /// # Errors
    /// [`TapeError::EndOfMedium`] if it does not fit (nothing is written); others as the variants say.
    fn write_block(&mut self, block: &[u8]) -> Result<WriteResult, TapeError>;

    /// Writes `count` file marks, which may be 0, and returns when all that was written before, in both
    /// partitions, is durable.
    ///
    /// # Errors
    /// After a failure nothing since the last success may be relied upon.
    fn write_filemarks(&mut self, count: u32) -> Result<WriteResult, TapeError>;

    /// Moves to `to`, which may be the end of data.
    ///
    /// # Errors
    /// [`TapeError::BeyondEndOfData`].
    fn locate(&mut self, to: TapePosition) -> Result<(), TapeError>;

    /// Moves behind the last object of `partition` and says where that is.
    ///
    /// # Errors
    /// As the variants say.
    fn space_to_end_of_data(&mut self, partition: Partition) -> Result<TapePosition, TapeError>;

    /// The object that the next read or write touches.
    ///
    /// # Errors
    /// [`TapeError::NotLoaded`].
    fn position(&mut self) -> Result<TapePosition, TapeError>;

    /// Moves to object 0 of the current partition.
    ///
    /// # Errors
    /// [`TapeError::NotLoaded`].
    fn rewind(&mut self) -> Result<(), TapeError>;

    /// Whether there is a cartridge in the drive.
    fn loaded(&self) -> bool;

    /// Makes two empty partitions and moves to the start of the index partition. *Destroys everything on the
    /// cartridge*: only for a blank one, or one that was explicitly chosen. Durable on return.
    ///
    /// # Errors
    /// After a failure the content is undefined; format again.
    fn format_partitions(&mut self) -> Result<(), TapeError>;

    /// Reads an attribute of the cartridge memory; `None` if it is not set. 0x0009, the volume change
    /// reference, is a big-endian number of 4 bytes that never comes back to an older value. It rises with
    /// the first object written after a load, with the first one written after it was read, and whenever
    /// objects are written over or formatted away (SSC-4, volume change reference).
    ///
    /// # Errors
    /// [`TapeError::NotLoaded`], [`TapeError::Medium`].
    fn read_attribute(&mut self, partition: Partition, id: u16) -> Result<Option<Vec<u8>>, TapeError>;

    /// Sets an attribute of the cartridge memory; an empty value removes it. Durable on return.
    ///
    /// # Errors
    /// [`TapeError::AttributeReadOnly`] outside of the host's ranges 0x0800-0x0BFF and 0x1400-0x17FF.
    fn write_attribute(&mut self, partition: Partition, id: u16, value: &[u8]) -> Result<(), TapeError>;

    /// How many more bytes of records the data partition takes.
    ///
    /// # Errors
    /// [`TapeError::NotLoaded`], [`TapeError::Medium`].
    fn remaining(&mut self) -> Result<ByteCount, TapeError>;

    /// How many bytes of records the data partition of the cartridge takes at least from its early warning
    /// ([`WriteResult::early_warning`]) to its end. `None` if that is not known: then the warning says that
    /// the end comes, and not when.
    fn early_warning_room(&mut self) -> Option<ByteCount> {
        None
    }

    /// Where the wraps of the data partition end: the first block behind each wrap that has data, ascending.
    /// The last one is the end of data, which need not be the wrap's. It is what READ END OF WRAP POSITION
    /// reports with its bit for all wraps. Empty without data; `None` if the drive does not tell.
    ///
    /// # Errors
    /// [`TapeError::NotLoaded`], [`TapeError::Medium`].
    fn end_of_wrap_positions(&mut self) -> Result<Option<Vec<BlockAddress>>, TapeError>;

    /// The order in which the drive would read these segments of the data partition from where it stands, as
    /// indexes into `segments`; each is a first block and the one behind its last. `None` if the drive
    /// recommends no order (RAO).
    ///
    /// # Errors
    /// [`TapeError::SegmentCount`], [`TapeError::NotAnOrder`], [`TapeError::BeyondEndOfData`],
    /// [`TapeError::NotLoaded`].
    fn recommended_order(
        &mut self,
        segments: &[(BlockAddress, BlockAddress)],
    ) -> Result<Option<Vec<usize>>, TapeError>;

    /// What the ways on the data partition of the tape in the drive cost, if it holds blocks of `block_size`
    /// bytes. `None` if nothing is known of the drive's timing.
    ///
    /// # Errors
    /// [`TapeError::NotLoaded`], [`TapeError::Medium`].
    fn track(&mut self, block_size: u32) -> Result<Option<Track>, TapeError>;

    /// What the drive did since the mount, also if the tape was unloaded meanwhile; the bounds of the
    /// transfers are those since this was last asked. `None` if the drive does not count.
    fn motion_report(&mut self) -> Option<MotionReport>;

    /// Sets how blocks are encrypted and decrypted from here on, `None`: not. It holds until the cartridge is
    /// unloaded, over resets of the drive: what is to be encrypted is never written in clear.
    ///
    /// # Errors
    /// [`TapeError::EncryptionUnsupported`], [`TapeError::NotLoaded`] and what a command may fail of. Nothing
    /// is written then before this, or another setting, was taken.
    fn set_encryption(&mut self, encryption: Option<&TapeEncryption>) -> Result<(), TapeError>;

    /// How the block under the head is encrypted, and with which key.
    ///
    /// # Errors
    /// [`TapeError::NotLoaded`], [`TapeError::Medium`].
    fn block_encryption(&mut self) -> Result<BlockEncryption, TapeError>;

    /// The flags that the drive has raised about itself or the medium since this was last asked; empty if it
    /// raises none.
    ///
    /// # Errors
    /// If the drive cannot be asked.
    fn alerts(&mut self) -> Result<Vec<TapeAlert>, TapeError>;

    /// What the drive counts of its transfers and errors, and what it is. Nothing is waited for but the
    /// answer itself: a drive that is busy with something else is not asked.
    ///
    /// # Errors
    /// [`TapeError::NotLoaded`], or if the drive cannot be asked.
    fn counters(&mut self) -> Result<DriveCounters, TapeError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Story: a library whose disk was full was told as a matter of the adapter and the memory of this host.
    #[test]
    fn what_helps_a_host_is_by_what_it_lacks() {
        let told = |kind: io::ErrorKind| {
            TapeError::Host { operation: "write", source: io::Error::from(kind).into() }.to_string()
        };
        for full in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded] {
            assert!(told(full).ends_with(": make room for the library"), "{}", told(full));
        }
        let memory = told(io::ErrorKind::OutOfMemory);
        assert!(memory.ends_with(": look at its adapter and its memory"), "{memory}");
    }
}
