//! What can go wrong, by what is done about it.

use std::fmt;
use std::io;
use std::path::PathBuf;

use base::{ByteCount, Uuid};
use drive::DriveOpenError;

use crate::limits::Layout;

/// Why a place could not be made a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// No store can be made so.
    #[error(
        "a store with segments of {} and values of up to {} cannot be made: {why}",
        layout.segment, layout.value_max
    )]
    Layout {
        /// What was asked for.
        layout: Layout,
        /// Why not.
        why: &'static str,
    },
    /// It is too small, or larger than a store can be.
    #[error("{room} are no room for a store with segments of {segment}: it needs {least} to 2^24 segments")]
    Room {
        /// What there is.
        room: ByteCount,
        /// The size of a segment.
        segment: ByteCount,
        /// The fewest segments.
        least: u32,
    },
    /// Something stands there.
    #[error("{0} is not empty; give an empty place, or say that what stands there may be lost")]
    NotEmpty(PathBuf),
    /// Somebody has it.
    #[error("{0} is in use by another process; stop that one first")]
    Locked(PathBuf),
    /// The operating system refused.
    #[error("{operation} of {path} failed: {source}")]
    Io {
        /// What is to be the store.
        path: PathBuf,
        /// What was tried.
        operation: &'static str,
        /// The reason.
        source: io::Error,
    },
}

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no store.
    #[error("{0} is no store of values; make it one first")]
    NotAStore(PathBuf),
    /// Both superblocks are damaged.
    #[error("both superblocks of the store at {0} are damaged: what it held is gone, make it anew")]
    Damaged(PathBuf),
    /// It was made by a later program.
    #[error(
        "the store at {path} has format version {version}, which this program does not know: use a newer one"
    )]
    Version {
        /// The place.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// It is another store.
    #[error("at {path} is the store {found}, not {expected}: give the right place")]
    OtherStore {
        /// The place.
        path: PathBuf,
        /// What is there.
        found: Uuid,
        /// What was to be there.
        expected: Uuid,
    },
    /// It is smaller than it was made.
    #[error("the store at {path} has lost room: it was made of {expected} and has {found}")]
    Shrunk {
        /// The place.
        path: PathBuf,
        /// What there is.
        found: ByteCount,
        /// What there was.
        expected: ByteCount,
    },
    /// Somebody has it.
    #[error("the store at {0} is in use by another process; stop that one first")]
    Locked(PathBuf),
    /// Direct I/O was demanded and is not to be had.
    #[error("{0} cannot be read and written past the page cache; allow the page cache")]
    NoDirectIo(PathBuf),
    /// The operating system refused.
    #[error("{operation} of the store at {path} failed: {source}")]
    Io {
        /// The place.
        path: PathBuf,
        /// What was tried.
        operation: &'static str,
        /// The reason.
        source: io::Error,
    },
}

/// Why an operation was not done. Nothing is left of one that failed, unless it says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// There is no such key.
    #[error("there is no such key")]
    NotFound,
    /// Another version stands there than was expected.
    #[error("another version stands there; read it and try again")]
    VersionMismatch,
    /// Something is longer than it may be.
    #[error("{what}: {length} are more than {most}; split it")]
    TooLarge {
        /// Of what.
        what: &'static str,
        /// How much it is.
        length: usize,
        /// How much it may be.
        most: usize,
    },
    /// A key without a byte.
    #[error("a key has at least one byte")]
    EmptyKey,
    /// A part was asked for that the value does not have.
    #[error("a part that ends at byte {end} was asked for of a value of {length} bytes")]
    BeyondEnd {
        /// The end of the part.
        end: u64,
        /// The length of the value.
        length: u64,
    },
    /// There is no room on the disk.
    #[error("the store is full; delete something")]
    NoSpace,
    /// There is no room in memory for more keys.
    #[error("the index has {used} of at most {most}; delete keys, or let it have more memory")]
    IndexFull {
        /// What the index takes.
        used: ByteCount,
        /// What it may take.
        most: ByteCount,
    },
    /// A change of a batch cannot be made, so none was.
    #[error("change {place} of the batch: {source}")]
    Batch {
        /// Its place, from 0.
        place: usize,
        /// Why.
        source: Box<LogError>,
    },
    /// What stands there is damaged; a put over it makes it good.
    #[error("{0}; put it again from another copy")]
    Damaged(Box<Damage>),
    /// A write or a sync failed, now or before: nothing more is taken until the store is opened again. It is
    /// not known whether the operation will be found done then.
    #[error(
        "a write or sync of the store has failed, it takes no more changes; check the disk and open it again"
    )]
    Poisoned,
    /// The store is closed.
    #[error("the store is closed")]
    Closed,
}

impl LogError {
    /// Whether room must be made first, on the disk or in memory.
    #[must_use]
    pub fn is_full(&self) -> bool {
        match self {
            LogError::NoSpace | LogError::IndexFull { .. } => true,
            LogError::Batch { source, .. } => source.is_full(),
            _ => false,
        }
    }
}

/// What is wrong with a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DamageKind {
    /// Its header is no header: a torn write or flipped bits.
    Header,
    /// A whole header of another record, place, use of the segment or store: a lost or misdirected write.
    Identity,
    /// A block of the value, from 0.
    Block(u32),
    /// The disk does not give it.
    Unreadable,
    /// A record that was durable is gone; nobody knows of which key.
    Lost,
}

/// Damage that was met.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    /// Of what key, if that is known.
    pub key: Option<Box<[u8]>>,
    /// In which segment.
    pub segment: u32,
    /// Where in it.
    pub offset: ByteCount,
    /// What.
    pub kind: DamageKind,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.key {
            Some(key) => write!(f, "the record of key '{}'", key.escape_ascii())?,
            None => f.write_str("a record")?,
        }
        write!(f, " in segment {} at {} B is damaged: ", self.segment, self.offset.0)?;
        match self.kind {
            DamageKind::Header => f.write_str("it has no header"),
            DamageKind::Identity => f.write_str("another record stands there"),
            DamageKind::Block(block) => write!(f, "the checksum of block {block} does not agree"),
            DamageKind::Unreadable => f.write_str("it cannot be read"),
            DamageKind::Lost => f.write_str("it was durable and is gone"),
        }
    }
}

/// What a lock of `drive` says, in the words of this crate.
pub(crate) fn of_lock(error: DriveOpenError) -> io::Error {
    match error {
        DriveOpenError::Locked(_) => io::ErrorKind::ResourceBusy.into(),
        DriveOpenError::Io { source, .. } => source,
        other => io::Error::other(other),
    }
}
