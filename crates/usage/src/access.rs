//! What the access log remembers: statistics, no truth.

use base::{BlockAddress, ByteCount, ContainerId, Duration, FileId, RequestId, Timestamp, Vid};

/// Tape copies of one wanted file that are written down; further ones are left out.
pub const STAGE_COPIES_MAX: usize = 64;
/// Longest name of a user, class, tape pool, library or drive, in bytes; the rest is cut off.
pub const ACCESS_NAME_MAX: usize = 256;
/// Tape pools of one class that are written down; further ones are left out.
pub const CLASS_POOLS_MAX: usize = 64;

/// One line of the access log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Access {
    /// When it was over: a put acknowledged, the last byte of a get handed on, a recalled file committed.
    pub at: Timestamp,
    /// The storage class; `None` of what has none, or where it is not known any more.
    pub class: Option<String>,
    /// Whose key it was; `None` where the server did it by itself, or nobody told.
    pub who: Option<String>,
    /// What happened.
    pub what: What,
}

/// What happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum What {
    /// A file was stored.
    Put(Put),
    /// A file was read, whole or a range of it, or was refused since it is on tape only.
    Get(Get),
    /// A file was asked for in a recall request.
    Stage(Stage),
    /// A file came back from tape.
    Recalled(Recalled),
    /// A file left the pool; its tape copies stay.
    Evicted(FileSize),
    /// A version lost its name.
    Deleted(FileSize),
    /// A container was written to tape and confirmed by a synchronous flush.
    Migrated(Migrated),
    /// The server began, or a new file of the log: lines of its state follow, at the same time.
    Start(Start),
    /// State: a tape.
    Tape(TapeState),
    /// State: a tape drive.
    Drive(DriveState),
    /// State: the class of the line.
    Class(ClassState),
    /// Lines that were left out, since the log was slower than what happened, or could not be written.
    Dropped {
        /// How many.
        count: u64,
    },
}

/// A put that made a new version. A repeat of one is none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Put {
    /// The new file.
    pub file: FileId,
    /// Its size.
    pub bytes: ByteCount,
    /// What it belongs to: its directory, a directory above it, or the client's hint; files of one set go to
    /// tape together.
    pub set: u64,
    /// From the first look at the path to the acknowledgement.
    pub took: Duration,
}

/// A get, of more than no bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Get {
    /// The file.
    pub file: FileId,
    /// Its size.
    pub bytes: ByteCount,
    /// Where the asked range begins.
    pub offset: ByteCount,
    /// Bytes asked for.
    pub asked: ByteCount,
    /// Bytes handed on: fewer than asked if the client went away or bytes could not be read.
    pub sent: ByteCount,
    /// Whether the pool had it; `false`: it was refused as NEARLINE.
    pub online: bool,
    /// From the look into the catalogue to the last byte.
    pub took: Duration,
}

/// One file of a recall request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stage {
    /// The file.
    pub file: FileId,
    /// Its size.
    pub bytes: ByteCount,
    /// The request.
    pub request: RequestId,
    /// How urgent the request was when it was made.
    pub priority: u8,
    /// Whether the pool had it already.
    pub online: bool,
    /// If not: every place where it can be read. Of a file in several parts those of all parts.
    pub copies: Vec<CopyPlace>,
}

/// Where a copy of (a part of) a file stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CopyPlace {
    /// The tape pool.
    pub pool: String,
    /// The tape.
    pub vid: Vid,
    /// The container.
    pub container: ContainerId,
    /// Its first block on the data partition.
    pub block: BlockAddress,
    /// Its length.
    pub container_length: ByteCount,
    /// Where the file's bytes begin in it.
    pub offset: ByteCount,
    /// Bytes of the file there.
    pub length: ByteCount,
}

/// A file that came back from tape.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recalled {
    /// The file.
    pub file: FileId,
    /// Its size.
    pub bytes: ByteCount,
    /// The tape it was read from.
    pub vid: Vid,
    /// How long it had been wanted; `None` if nobody had asked for it: its class recalls packs as a whole.
    pub wait: Option<Duration>,
}

/// A file and its size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileSize {
    /// The file.
    pub file: FileId,
    /// Its size; `None` if it was not known any more.
    pub bytes: Option<ByteCount>,
}

/// One tape copy of a container.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Migrated {
    /// The container.
    pub container: ContainerId,
    /// The tape pool.
    pub pool: String,
    /// The tape.
    pub vid: Vid,
    /// Its first block on the data partition.
    pub block: BlockAddress,
    /// Its length on tape.
    pub length: ByteCount,
    /// Files in it that have a name.
    pub members: u32,
    /// Whether a repack moved it off another tape.
    pub repack: bool,
}

/// Why lines of state follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Begins {
    /// The server was started.
    Server,
    /// An older file of the log was full.
    File,
}

/// The beginning of lines of state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Start {
    /// Why.
    pub begins: Begins,
    /// Tapes of which lines follow.
    pub tapes: u32,
    /// Tape drives of which lines follow.
    pub drives: u32,
    /// Bytes of files that the pool takes when it is empty.
    pub pool: ByteCount,
    /// Size of the blocks of tapes that are labelled from now on.
    pub block_size: ByteCount,
}

/// How a tape stood.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TapeState {
    /// The tape.
    pub vid: Vid,
    /// Its tape pool, once it has one.
    pub pool: Option<String>,
    /// The name of its library.
    pub library: String,
    /// `scratch`, `labelling`, `active`, `full`, `read-only`, `suspect`, `disabled` or `repacking`.
    pub state: String,
    /// Native capacity of the data partition.
    pub capacity: ByteCount,
    /// Bytes written to it, indexes and garbage included.
    pub written: ByteCount,
    /// What a run may still write to it: capacity less what is written and the room kept for indexes.
    pub free: ByteCount,
    /// Where the next block goes.
    pub end_of_data: BlockAddress,
}

/// How a tape drive stood.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriveState {
    /// Its name.
    pub drive: String,
    /// The name of its library.
    pub library: String,
    /// Whether it is in use; `false`: an operator has taken it out.
    pub up: bool,
}

/// A storage class as it was configured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClassState {
    /// The tape pools that get a copy each.
    pub pools: Vec<String>,
    /// The most of the pool that recalls fill with it; `None`: all.
    pub pool_max: Option<ByteCount>,
}

impl Access {
    /// Whether this line tells how something stood, not what somebody did.
    #[must_use]
    pub fn is_state(&self) -> bool {
        matches!(self.what, What::Start(_) | What::Tape(_) | What::Drive(_) | What::Class(_))
    }
}
