//! What an error means to the one who called: one table for all who answer callers.

use super::{ArchiveError, UploadError};
use blob::BlobFault;
use catalogue::{Object, Rejection};
use pool::PoolError;
use store::ExecuteError;

/// What a caller can do about an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    // Say it otherwise.
    /// The path is no path.
    BadPath,
    /// Something that was given is no such thing.
    BadArgument,
    /// The request contradicts itself, or asks for what cannot be.
    Malformed,
    /// The storage class is not known.
    NoSuchClass,
    /// Not as many bytes as announced.
    LengthMismatch,
    /// Not the bytes announced.
    DigestMismatch,
    /// The range does not touch the file.
    Range,
    /// The idempotency key stands for something else.
    KeyReused,
    /// More of something than is allowed.
    Limit,
    /// The file is too large to ever be done with.
    TooLarge,
    /// The engine does not do that.
    NotOffered,

    // Look again at what is there.
    /// No file or directory of that name.
    NotFound,
    /// No upload in parts of that number.
    NoSuchUpload,
    /// No such part of an upload, or another one.
    NoSuchPart,
    /// Nothing else of that name or number.
    NoSuchObject,
    /// The name is taken.
    Exists,
    /// A directory where a file is needed.
    IsADirectory,
    /// A file where a directory is needed.
    NotADirectory,
    /// The directory is not empty.
    NotEmpty,
    /// The directory must be removed name by name.
    NotAtOnce,
    /// Another version has the name than the caller expects.
    Changed,

    // Do something else first.
    /// A retention or a legal hold keeps it.
    Held,
    /// The object is in another state than it must be in.
    WrongState,
    /// A client holds a lock on it.
    Locked,
    /// It would break up the versions that a bucket keeps.
    KeepsVersions,
    /// Something stands in the way, and the error says what to do.
    Refused,
    /// The bytes are on tape only: have them staged.
    Nearline,
    /// The caller may not.
    Denied,
    /// A quota does not allow it.
    QuotaExceeded,

    // Try again later.
    /// As much of something goes on as one caller may have.
    TooMany,
    /// The pool has no room.
    PoolFull,
    /// The pool has no room, and some comes by itself.
    RoomIsBeingMade,
    /// Where the server writes down what it keeps there is no room.
    ServerFull,
    /// Drives that hold the file do not answer.
    DrivesAway,
    /// What the file is read from is not known yet.
    NotSettled,
    /// Something passes that was in the way.
    Busy,
    /// A device or the machine fails at present.
    Unavailable,

    // Have an operator look.
    /// No copy is left.
    Lost,
    /// Bytes or records are damaged.
    Damaged,
    /// A fault of the engine.
    Internal,
}

impl ArchiveError {
    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            ArchiveError::Name(_) => ErrorKind::BadPath,
            ArchiveError::BadAcl { .. } | ArchiveError::NotInRequest { .. } => ErrorKind::BadArgument,
            ArchiveError::NoSuchClass { .. } => ErrorKind::NoSuchClass,
            ArchiveError::LengthMismatch { .. } => ErrorKind::LengthMismatch,
            ArchiveError::DigestMismatch { .. } => ErrorKind::DigestMismatch,
            ArchiveError::RangeBeyondEnd { .. } => ErrorKind::Range,
            ArchiveError::IdempotencyKeyReused => ErrorKind::KeyReused,
            ArchiveError::Limit { .. } => ErrorKind::Limit,
            ArchiveError::NeverFits { .. } => ErrorKind::TooLarge,
            ArchiveError::NotOffered(_) => ErrorKind::NotOffered,
            ArchiveError::NotFound(_)
            | ArchiveError::SomeNotFound { .. }
            | ArchiveError::DeleteMarker { .. } => ErrorKind::NotFound,
            ArchiveError::Upload(UploadError::NoSuchUpload(_)) => ErrorKind::NoSuchUpload,
            ArchiveError::Upload(_) => ErrorKind::NoSuchPart,
            ArchiveError::NoSuchRequest(_)
            | ArchiveError::NoSuchRemoval(_)
            | ArchiveError::NoSuchTape(_)
            | ArchiveError::NoSuchDrive(_)
            | ArchiveError::NoSuchCleaner { .. }
            | ArchiveError::NoSuchTapePool(_)
            | ArchiveError::NoSuchPoolDrive(_)
            | ArchiveError::NoSuchQuota(_) => ErrorKind::NoSuchObject,
            ArchiveError::Exists(_) => ErrorKind::Exists,
            ArchiveError::IsADirectory(_) => ErrorKind::IsADirectory,
            ArchiveError::NotADirectory(_) => ErrorKind::NotADirectory,
            ArchiveError::NotEmpty(_) | ArchiveError::HoldsVersions(_) => ErrorKind::NotEmpty,
            ArchiveError::NotAtOnce { .. } => ErrorKind::NotAtOnce,
            ArchiveError::NotCurrent(_) => ErrorKind::Changed,
            ArchiveError::Held { .. } => ErrorKind::Held,
            ArchiveError::Locked { .. } | ArchiveError::NoLock { .. } => ErrorKind::Locked,
            ArchiveError::NoSuchLock(_) => ErrorKind::Changed,
            ArchiveError::TapeNotLabelled(_)
            | ArchiveError::TapeInUse(_)
            | ArchiveError::SegmentsOwed { .. }
            | ArchiveError::QuarantineNeeded { .. }
            | ArchiveError::Backup(_)
            | ArchiveError::OtherDate { .. }
            | ArchiveError::ClockBehind { .. }
            | ArchiveError::WouldLose(_)
            | ArchiveError::IntoItself { .. }
            | ArchiveError::AcrossQuota { .. }
            | ArchiveError::NoDriveDirectory { .. }
            | ArchiveError::NoNewDrive { .. }
            | ArchiveError::NoCleaner { .. }
            | ArchiveError::TapeNotSeen { .. }
            | ArchiveError::DriveOutOfUse { .. } => ErrorKind::Refused,
            ArchiveError::Nearline { .. } | ArchiveError::NearlineAway { .. } => ErrorKind::Nearline,
            ArchiveError::Denied { .. } => ErrorKind::Denied,
            ArchiveError::QuotaExceeded { .. } => ErrorKind::QuotaExceeded,
            ArchiveError::TooManyRequests { .. } | ArchiveError::TooManyPathBytes { .. } => {
                ErrorKind::TooMany
            }
            ArchiveError::PoolFull | ArchiveError::TooLittleRoom { .. } => ErrorKind::PoolFull,
            ArchiveError::RoomIsBeingMade { .. } => ErrorKind::RoomIsBeingMade,
            ArchiveError::AuditFull(_) => ErrorKind::ServerFull,
            ArchiveError::DrivesAway { .. } => ErrorKind::DrivesAway,
            ArchiveError::NotSettled { .. } => ErrorKind::NotSettled,
            ArchiveError::TreeChanges | ArchiveError::Stopping => ErrorKind::Busy,
            ArchiveError::Library(_) | ArchiveError::NoEntropy => ErrorKind::Unavailable,
            ArchiveError::Lost(_) => ErrorKind::Lost,
            ArchiveError::Catalogue(_)
            | ArchiveError::Corrupt { .. }
            | ArchiveError::KeptUnreadable { .. } => ErrorKind::Damaged,
            // Nothing of what the caller said brings these about, nor helps against them.
            ArchiveError::Verify(_)
            | ArchiveError::ContainerBytes { .. }
            | ArchiveError::FileNotSealed { .. }
            | ArchiveError::Pack { .. } => ErrorKind::Internal,
            ArchiveError::Rejected(rejection) => of_rejection(rejection),
            ArchiveError::Store(error) => of_execute(error),
            ArchiveError::Pool(error) => of_pool(error),
            ArchiveError::Blob(error) => of_blob(error.fault),
        }
    }
}

fn of_rejection(rejection: &Rejection) -> ErrorKind {
    match rejection {
        Rejection::NotFound(object) => of_missing(object),
        Rejection::IsADirectory { .. } => ErrorKind::IsADirectory,
        Rejection::NotADirectory { .. } => ErrorKind::NotADirectory,
        Rejection::NameTaken { .. } => ErrorKind::Exists,
        Rejection::NotCurrent { .. } => ErrorKind::Changed,
        Rejection::ReservedName | Rejection::PathTooLong { .. } => ErrorKind::BadPath,
        Rejection::DirectoryNotEmpty { .. } => ErrorKind::NotEmpty,
        Rejection::Malformed { .. } => ErrorKind::Malformed,
        Rejection::WrongState { .. } => ErrorKind::WrongState,
        Rejection::Held { .. } => ErrorKind::Held,
        Rejection::KeepsVersions { .. } => ErrorKind::KeepsVersions,
        Rejection::IntoItself { .. } | Rejection::AcrossQuota(_) => ErrorKind::Refused,
        Rejection::QuotaExceeded { .. } => ErrorKind::QuotaExceeded,
        Rejection::TimeDoubted { .. } => ErrorKind::Busy,
        Rejection::IdempotencyKeyReused { .. } => ErrorKind::KeyReused,
        Rejection::LimitExceeded { .. } => ErrorKind::Limit,
        Rejection::Read(_) => ErrorKind::Damaged,
        // The rest are commands that the engine put together wrongly.
        _ => ErrorKind::Internal,
    }
}

/// What the catalogue did not find. Only what a path names is absent for a client; what is missing of the
/// catalogue's own, such as a blob or a request, says nothing about the path.
fn of_missing(object: &Object) -> ErrorKind {
    match object {
        Object::Name(..) | Object::Directory(_) | Object::File(_) => ErrorKind::NotFound,
        Object::Upload(_) => ErrorKind::NoSuchUpload,
        Object::UploadPart(..) => ErrorKind::NoSuchPart,
        _ => ErrorKind::NoSuchObject,
    }
}

fn of_execute(error: &ExecuteError) -> ErrorKind {
    match error {
        ExecuteError::Rejected(rejection) => of_rejection(rejection),
        ExecuteError::TooMany { .. } => ErrorKind::Limit,
        ExecuteError::DiskFull | ExecuteError::MapFull | ExecuteError::MapRead | ExecuteError::InPart(_) => {
            ErrorKind::ServerFull
        }
        ExecuteError::WrongOutcome(_) => ErrorKind::Internal,
        _ => ErrorKind::Unavailable,
    }
}

fn of_blob(fault: BlobFault) -> ErrorKind {
    match fault {
        BlobFault::Full => ErrorKind::PoolFull,
        BlobFault::NoPlace => ErrorKind::DrivesAway,
        BlobFault::Unreadable(_) => ErrorKind::Damaged,
        BlobFault::Shortage | BlobFault::Other => ErrorKind::Unavailable,
    }
}

fn of_pool(error: &PoolError) -> ErrorKind {
    match error {
        error if error.is_full() => ErrorKind::PoolFull,
        PoolError::Placement(_) => ErrorKind::DrivesAway,
        PoolError::GroupCommit(error) => of_pool(error),
        PoolError::Unrecoverable { .. } => ErrorKind::Damaged,
        PoolError::DriveState { .. } => ErrorKind::Refused,
        PoolError::Description(_) | PoolError::OutOfRange { .. } => ErrorKind::Internal,
        _ => ErrorKind::Unavailable,
    }
}
