//! What commands answer.

use base::{
    ByteCount, ClassId, ContainerId, DirId, Epoch, FileId, RequestId, RunId, TapePoolId, UploadId, Vid,
};

use crate::record::Entry;

/// What a delete of an object did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Removal {
    /// The version that was deleted, or the marker that was made or deleted; `None`: there was nothing.
    pub version: Option<FileId>,
    /// Whether that is a marker.
    pub marker: bool,
    /// The file that is kept no more.
    pub gone: Option<FileId>,
}

/// A file that was removed with its tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemovedFile {
    /// The file.
    pub file: FileId,
    /// Its class.
    pub class: ClassId,
    /// Its size.
    pub size: ByteCount,
    /// Whether somebody waited for it.
    pub wanted: bool,
}

/// What became of a file that the pool cannot give.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PoolLoss {
    /// It can be read from tape: NEARLINE from now on.
    Nearline,
    /// No copy of it can be read.
    Lost,
    /// It does not exist, has no bytes, or was not in the pool.
    NotConcerned,
}

/// What became of a copy that a repack takes off its tape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Requeue {
    /// It is to be written to another tape.
    Queued,
    /// Nobody needs the container: this copy is gone.
    Dropped,
    /// The tape has no copy of the container.
    NotThere,
}

/// What a command did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Nothing to tell.
    Done,
    /// A file lost its name.
    Removed(FileId),
    /// A version was deleted, or hidden by a marker.
    RemovedVersion(Removal),
    /// What has the name now, and the file that had it before.
    Renamed {
        /// What was moved.
        moved: Entry,
        /// The version that lost its name.
        replaced: Option<FileId>,
    },
    /// For each file of [`Command::PoolCopiesLost`](crate::Command::PoolCopiesLost), in order: what became of
    /// it.
    PoolCopyLost(Vec<PoolLoss>),
    /// A copy taken off its tape.
    Requeued(Requeue),
    /// Whether the command must be given again to go on.
    More(bool),
    /// The writer's epoch.
    Epoch(Epoch),
    /// A tape pool.
    TapePool(TapePoolId),
    /// A class.
    Class(ClassId),
    /// A directory.
    Directory(DirId),
    /// A file.
    Put(PutOutcome),
    /// A container id.
    Container(ContainerId),
    /// A run.
    Run(RunId),
    /// A request.
    Request(RequestId),
    /// For each file asked for, in order: evicted, or why not.
    Evicted(Vec<Result<(), EvictRefusal>>),
    /// How many pins, answers or changes were dropped.
    Dropped(u32),
    /// Files of a `RecallDone`, and parts of a `PartsRecalled`, that were taken.
    Recalled(u32),
    /// An upload in parts.
    Upload(UploadId),
    /// The stamp of a part.
    Part(u64),
    /// A part of a condemned tree was removed.
    TreeRemoved {
        /// Its files.
        files: Vec<RemovedFile>,
        /// Whether the work must be given again to go on.
        more: bool,
    },
}

/// What a put did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PutOutcome {
    /// The file now under the name (of a repeat: the one that the first put made).
    pub file: FileId,
    /// Whether this command made it. If not, its pool data is not referred to and must be removed by the
    /// caller.
    pub created: bool,
    /// The version that lost its name and is kept no more; not one that its bucket keeps.
    pub replaced: Option<FileId>,
}

/// Why a file stays in the pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EvictRefusal {
    /// No such live file.
    NotFound,
    /// It is not in the pool.
    NotOnline,
    /// It has no bytes and is always online.
    NoData,
    /// Its class has no tape copies.
    DiskOnly,
    /// Not all of its tape copies are under a synced index yet.
    NotSafeOnTape,
    /// A request holds it.
    Pinned,
    /// No copy of it can be read.
    Lost,
    /// Not all tapes were looked at since the catalogue was restored: its copies may be gone.
    NotSettled,
    /// All copies of a part of it are on these tapes, which are suspect or disabled: the pool has the only
    /// bytes that can be read now.
    TapesSetAside(Vec<Vid>),
    /// All copies of a part of it are on tapes that cannot be read now, and these of them but for their key,
    /// which nobody gives: the pool has the only bytes that can be read now.
    KeyMissing(Vec<Vid>),
    /// All copies of a part of it that tapes in use have are on these tapes, which no library holds: the pool
    /// has the only bytes that can be read now. The catalogue does not know; who gives the command says so.
    NotInLibrary(Vec<Vid>),
}
