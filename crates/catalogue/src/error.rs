//! What can go wrong when the catalogue is read or changed.

use std::fmt;

use base::{
    BlobId, ClassId, ContainerId, DirId, DriveId, FileId, Name, PATH_BYTES_MAX, RequestId, RunId,
    StripeSetId, TapePoolId, UploadId, Vid,
};

use crate::kv::KvError;
use crate::record::QuotaSubject;
use crate::table::Table;

/// Why the catalogue could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// A record does not agree with its checksum, or is not of a known form.
    #[error("the record {key} of table {} is damaged: restore the catalogue from its backup", table.name())]
    Damaged {
        /// The table.
        table: Table,
        /// The key in hexadecimal digits.
        key: String,
    },
    /// A record was written by a newer Kist.
    #[error("the record {key} of table {} has version {version}, unknown here: upgrade Kist", table.name())]
    Newer {
        /// The table.
        table: Table,
        /// The key in hexadecimal digits.
        key: String,
        /// The version found.
        version: u8,
    },
    /// A record that another one refers to is not there, or two records contradict each other.
    #[error("the record {key} of table {} is missing or contradicts another: restore the backup",
        table.name())]
    Inconsistent {
        /// The table.
        table: Table,
        /// The key in hexadecimal digits.
        key: String,
    },
    /// A name leads to a record that is not there, or that stands elsewhere. The name is not absent: nobody
    /// knows what it stood for.
    #[error(
        "'{name}' in directory {directory} leads to {to}, {found}: nothing is answered as absent; stop the \
         server and restore the catalogue from its backup"
    )]
    Dangling {
        /// The directory that the name stands in.
        directory: DirId,
        /// The name.
        name: String,
        /// What it leads to.
        to: Object,
        /// What was found there.
        found: &'static str,
    },
    /// The engine failed.
    #[error(transparent)]
    Kv(#[from] KvError),
}

impl ReadError {
    pub(crate) fn damaged(table: Table, key: &[u8]) -> Self {
        ReadError::Damaged { table, key: hex(key) }
    }

    pub(crate) fn inconsistent(table: Table, key: &[u8]) -> Self {
        ReadError::Inconsistent { table, key: hex(key) }
    }
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The object of a rejection.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Object {
    /// A directory.
    Directory(DirId),
    /// A name in a directory.
    Name(DirId, Name),
    /// A file.
    File(FileId),
    /// A storage class.
    Class(ClassId),
    /// A tape pool.
    TapePool(TapePoolId),
    /// A blob of the pool.
    Blob(BlobId),
    /// A container.
    Container(ContainerId),
    /// A tape.
    Tape(Vid),
    /// A tape drive.
    Drive(String),
    /// A drive of the pool.
    PoolDrive(DriveId),
    /// A run.
    Run(RunId),
    /// A request.
    Request(RequestId),
    /// A file of a request.
    RequestFile(RequestId, FileId),
    /// A change of the log.
    Change(u64),
    /// An upload in parts.
    Upload(UploadId),
    /// A part of an upload.
    UploadPart(UploadId, u16),
    /// A quota.
    Quota(QuotaSubject),
    /// The catalogue itself.
    Catalogue,
    /// The time.
    Clock,
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Object::Catalogue => f.write_str("the catalogue"),
            Object::Directory(id) => write!(f, "directory {id}"),
            Object::Name(directory, name) => write!(f, "'{name}' in directory {directory}"),
            Object::File(id) => write!(f, "file {id}"),
            Object::Class(id) => write!(f, "storage class {id}"),
            Object::TapePool(id) => write!(f, "tape pool {id}"),
            Object::Blob(id) => write!(f, "blob {id}"),
            Object::Container(id) => write!(f, "container {id}"),
            Object::Tape(vid) => write!(f, "tape {vid}"),
            Object::PoolDrive(id) => write!(f, "pool drive {id}"),
            Object::Drive(name) => write!(f, "tape drive '{name}'"),
            Object::Run(id) => write!(f, "run {id}"),
            Object::Request(id) => write!(f, "request {id}"),
            Object::Upload(id) => write!(f, "upload {id}"),
            Object::UploadPart(id, number) => write!(f, "part {number} of upload {id}"),
            Object::Change(number) => write!(f, "change {number}"),
            Object::Quota(subject) => write!(f, "the quota of {subject}"),
            Object::Clock => write!(f, "the time"),
            Object::RequestFile(request, file) => write!(f, "file {file} of request {request}"),
        }
    }
}

/// Why a tree is not condemned with one command. All of it can be removed name by name, as far as it may be.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotAtOnce {
    /// Deleted names would leave versions there.
    #[error("it stands in a bucket that keeps versions")]
    Versions,
    /// A retention, also one that has ended, or a legal hold.
    #[error("file {file} in it, '{name}', has a retention or a legal hold")]
    Held {
        /// The file.
        file: FileId,
        /// Its name in its directory.
        name: Name,
    },
    /// Too many files are held, and too many names are in it, for a look at all of either.
    #[error(
        "it has more than {0} names, and as many files of the archive are held: any of them may be in it"
    )]
    ManyHeld(usize),
    /// A directory has a list of its own, which may not allow it.
    #[error("directory {0} in it has an access control list of its own")]
    List(DirId),
    /// Too many directories have lists, and too many names are in it, for a look at all of either.
    #[error(
        "it has more than {0} names, and as many directories of the archive have access control lists: any \
         of them may be in it"
    )]
    ManyLists(usize),
    /// Its uploads are not over.
    #[error("uploads in parts are open below it")]
    Uploads,
    /// Too many trees are being removed.
    #[error("{0} trees are being removed: wait until one is gone")]
    ManyTrees(usize),
}

/// Why a command was refused. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// The catalogue is empty.
    #[error("the catalogue is empty: initialise it first")]
    NotInitialised,
    /// The catalogue is not empty.
    #[error("the catalogue is already initialised: choose an empty directory")]
    AlreadyInitialised,
    /// The object does not exist.
    #[error("{0} does not exist")]
    NotFound(Object),
    /// A file is asked for, but the name is a directory.
    #[error("'{name}' in directory {parent} is a directory: name a file")]
    IsADirectory {
        /// The directory it stands in.
        parent: DirId,
        /// Its name.
        name: Name,
    },
    /// A directory is asked for, but the name is a file.
    #[error("'{name}' in directory {parent} is a file: name a directory")]
    NotADirectory {
        /// The directory it stands in.
        parent: DirId,
        /// Its name.
        name: Name,
    },
    /// The name is taken.
    #[error(
        "'{name}' in directory {parent} exists already: choose another name or allow replacement of a file"
    )]
    NameTaken {
        /// The directory.
        parent: DirId,
        /// The name.
        name: Name,
    },
    /// The name is Kist's own.
    #[error("'/.kist' is reserved for Kist's own files on tape: choose another name")]
    ReservedName,
    /// The directory is not empty.
    #[error("directory '{name}' in directory {parent} is not empty: delete what is in it first")]
    DirectoryNotEmpty {
        /// The directory it stands in.
        parent: DirId,
        /// Its name.
        name: Name,
    },
    /// A directory cannot be moved below itself.
    #[error("directory {directory} cannot be moved into {to}, which stands below it: choose another target")]
    IntoItself {
        /// The directory.
        directory: DirId,
        /// Where to.
        to: DirId,
    },
    /// The idempotency key belongs to another put.
    #[error("the idempotency key was used for another put, which made file {file}: use a new key")]
    IdempotencyKeyReused {
        /// The file that the key stands for.
        file: FileId,
    },
    /// The new path would be longer than any path may be. What stands below a directory is not looked at.
    #[error(
        "the new path would have {bytes} bytes: at most {PATH_BYTES_MAX} are allowed, choose a shorter one"
    )]
    PathTooLong {
        /// Its length.
        bytes: usize,
    },
    /// The object's state does not allow this.
    #[error("{object} is {state}, but must be {needed}")]
    WrongState {
        /// The object.
        object: Object,
        /// Its state.
        state: &'static str,
        /// The state it must be in.
        needed: &'static str,
    },
    /// A quota does not allow it.
    #[error("the quota of {subject} is {limit} {what}, {used} are used: delete something, or have it raised")]
    QuotaExceeded {
        /// Whose quota.
        subject: QuotaSubject,
        /// `bytes` or `files`.
        what: &'static str,
        /// How many are allowed.
        limit: u64,
        /// How many are used without this.
        used: u64,
    },
    /// A directory would leave a directory with a quota, or come below one, and nobody knows how much is in
    /// it.
    #[error(
        "directory {0} cannot be moved across the border of a directory with a quota: move its files one by \
         one, or end the quota, move, and set it anew"
    )]
    AcrossQuota(DirId),
    /// A limit.
    #[error("{what}: more than the limit of {limit}")]
    LimitExceeded {
        /// What there is too much of.
        what: &'static str,
        /// How much is allowed.
        limit: u64,
    },
    /// A retention or a legal hold keeps the file.
    #[error("file {file} ('{name}') is held {}: {}", held_text(hold), held_way(hold))]
    Held {
        /// The file.
        file: FileId,
        /// Its name in its directory.
        name: Name,
        /// What keeps it.
        hold: crate::record::Hold,
    },
    /// A default retention cannot be given, since nobody knows what time it is.
    #[error(
        "the bucket of '{name}' retains what is put for a while from now on, but the server's clock is in \
         doubt: name a retention with its end, or have an operator look at kist clock"
    )]
    TimeDoubted {
        /// The new file's name in its directory.
        name: Name,
    },
    /// Another version has the name than the one expected.
    #[error("'{name}' in directory {parent} was changed meanwhile: look at it again and repeat")]
    NotCurrent {
        /// The directory.
        parent: DirId,
        /// The name.
        name: Name,
        /// What has it now.
        current: Option<FileId>,
    },
    /// A rename would break up what a bucket keeps.
    #[error("'{name}' in directory {parent} stands in a bucket that keeps versions: {what}")]
    KeepsVersions {
        /// The directory.
        parent: DirId,
        /// The name.
        name: Name,
        /// What cannot be done, and what to do.
        what: &'static str,
    },
    /// A directory is not removed at once with all that is in it.
    #[error("directory '{name}' in directory {parent} is not removed at once: {why}")]
    NotAtOnce {
        /// The directory it stands in.
        parent: DirId,
        /// Its name.
        name: Name,
        /// Why.
        why: NotAtOnce,
    },
    /// The command contradicts itself.
    #[error("{object}: {what}")]
    Malformed {
        /// The object.
        object: Object,
        /// What is wrong.
        what: &'static str,
    },
    /// A stripe set's id is already that of other drives.
    #[error("stripe set {0} is already recorded with other drives: take a new id")]
    StripeSetDiffers(StripeSetId),
    /// A blob is already recorded with another layout, length or other stripes.
    #[error(
        "blob {0} is already recorded with another layout, length or other stripes: write the bytes anew"
    )]
    BlobDiffers(BlobId),
    /// The blob is about to be removed.
    #[error("blob {0} is garbage and about to be removed: write the bytes into another blob")]
    BlobIsGarbage(BlobId),
    /// The catalogue could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Until when a file is held, in words.
fn held_text(hold: &crate::record::Hold) -> String {
    let retention = hold.retention.map(|retention| {
        let mode = match retention.mode {
            crate::record::RetentionMode::Governance => "governance",
            crate::record::RetentionMode::Compliance => "compliance",
        };
        format!("in mode {mode} until {}", retention.until)
    });
    let legal = hold.legal.then(|| "by a legal hold".to_owned());
    retention.into_iter().chain(legal).collect::<Vec<_>>().join(" and ")
}

fn held_way(hold: &crate::record::Hold) -> &'static str {
    use crate::record::RetentionMode::Governance;
    match hold.retention {
        _ if hold.legal => "take the legal hold off first",
        Some(retention) if retention.mode == Governance => "wait, or bypass the retention if you may",
        _ => "wait",
    }
}

impl From<KvError> for Rejection {
    fn from(error: KvError) -> Self {
        Rejection::Read(ReadError::Kv(error))
    }
}

impl Rejection {
    /// Whether the engine itself failed, so that the whole transaction must be dropped.
    #[must_use]
    pub fn is_engine_failure(&self) -> bool {
        matches!(self, Rejection::Read(ReadError::Kv(_)))
    }
}
