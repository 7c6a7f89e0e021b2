//! One of each error of the engine, and of each that it passes on from the catalogue, the store and the pool,
//! with its row of `table.txt`. Included by the tests of all crates that say what an error means.
#![allow(dead_code, reason = "each crate uses a part of it")]

use archive::{ArchiveError, DriveLocation, UploadError};
use base::{
    ArchivePath, BlobId, ByteCount, ClassId, ContainerId, DirId, DriveId, Epoch, FileId, Name, RequestId,
    RunId, StripeSetId, TapePoolId, Timestamp, UploadId, Vid,
};
use blob::{BlobError, BlobFault};
use catalogue::{Hold, NotAtOnce, Object, QuotaSubject, ReadError, Rejection, Table};
use drive::DriveError;
use pool::PoolError;
use std::sync::Arc;
use store::{ExecuteError, Shortage, SnapshotError};

/// What `table.txt` says of all errors: the name of the error, what a caller can do, the word and status of
/// HTTP, the code and status of S3.
const TABLE: &str = include_str!("table.txt");

/// Compares a column (0 is the name) with what is found of each error.
pub fn check_column(column: usize, found: impl Fn(ArchiveError) -> String) {
    let rows = TABLE.lines().filter(|line| !line.starts_with('#'));
    let rows: Vec<Vec<&str>> = rows.map(|line| line.split('|').map(str::trim).collect()).collect();
    let errors = every_error();
    let names: Vec<&str> = rows.iter().filter_map(|row| row.first().copied()).collect();
    assert_eq!(names, errors.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), "rows of the table");
    let mut differ = Vec::new();
    for (row, (name, error)) in rows.iter().zip(errors) {
        let said = row.get(column).copied().unwrap_or_default();
        let found = found(error);
        if said != found {
            differ.push(format!("{name}: the table has '{said}', it is '{found}'"));
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

/// All errors by their names.
pub fn every_error() -> Vec<(String, ArchiveError)> {
    let mut all: Vec<(String, ArchiveError)> = of_the_engine().into_iter().map(named).collect();
    all.extend(rejections().into_iter().map(|error| named(ArchiveError::Rejected(error))));
    all.extend(execute_errors().into_iter().map(|error| named(ArchiveError::Store(error))));
    all.extend(pool_errors().into_iter().map(|error| named(ArchiveError::Pool(error))));
    all.extend(blob_errors().into_iter().map(|error| named(ArchiveError::Blob(error))));
    all
}

fn named(error: ArchiveError) -> (String, ArchiveError) {
    let inner = match &error {
        ArchiveError::Rejected(inner) => Some(name_of(inner)),
        ArchiveError::Store(inner) => Some(name_of(inner)),
        ArchiveError::Pool(inner) => Some(name_of(inner)),
        ArchiveError::Blob(inner) => Some(name_of(&inner.fault)),
        ArchiveError::Upload(inner) => Some(name_of(inner)),
        _ => None,
    };
    let name = variant_of(&error);
    (inner.map_or(name.clone(), |inner| format!("{name}({inner})")), error)
}

/// The variant; of what was not found, and of what a group failed with, also that.
fn name_of(error: &impl std::fmt::Debug) -> String {
    let text = format!("{error:?}");
    for outer in ["NotFound", "Rejected", "GroupCommit"] {
        if let Some(inner) = text.strip_prefix(outer).and_then(|rest| rest.strip_prefix('(')) {
            return format!("{outer}({})", first_word(inner));
        }
    }
    first_word(&text)
}

/// The name of the variant of an error.
pub fn variant_of(error: &impl std::fmt::Debug) -> String {
    first_word(&format!("{error:?}"))
}

fn first_word(text: &str) -> String {
    text.chars().take_while(|character| character.is_ascii_alphanumeric()).collect()
}

fn at() -> ArchivePath {
    ArchivePath::new("/a").expect("a path")
}

fn name() -> Name {
    Name::new("a").expect("a name")
}

fn vid() -> Vid {
    Vid::new("KS0001").expect("a vid")
}

fn damaged() -> ReadError {
    ReadError::Damaged { table: Table::File, key: "00".into() }
}

/// One of each variant of [`ArchiveError`] but of those that hold an error of another crate.
pub fn of_the_engine() -> Vec<ArchiveError> {
    use ArchiveError as E;
    let (path, upload, who) = (at, UploadId(1), || "anna".to_owned());
    vec![
        E::Name(base::NameError::Nul),
        E::NotFound(at()),
        E::IsADirectory(at()),
        E::NotADirectory(at()),
        E::Exists(at()),
        E::NotCurrent(at()),
        E::DeleteMarker { path: path(), version: FileId(3) },
        E::Held { path: path(), held: "a hold".into() },
        E::Locked { root: path(), by: who() },
        E::NoLock { path: path(), why: archive::WhyNoLock::OfAll(1) },
        E::NoSuchLock(at()),
        E::NotEmpty(at()),
        E::HoldsVersions(at()),
        E::AcrossQuota { from: at(), to: at() },
        E::IntoItself { from: at(), to: at() },
        E::Nearline { path: path(), vids: vec![], recall: None },
        E::NearlineAway { path: path(), drives: vec![1, 3], vids: vec![vid()] },
        E::DrivesAway { path: path(), drives: vec![1], vids: vec![] },
        E::NotSettled { path: path() },
        E::Lost(at()),
        E::LengthMismatch { expected: 1, actual: 2 },
        E::DigestMismatch { kind: "adler32", expected: "1".into(), actual: "2".into() },
        E::NoSuchClass { name: "x".into(), known: "y".into() },
        E::IdempotencyKeyReused,
        E::Denied { who: who(), verb: "put", what: "/a".into(), why: "the list".into() },
        E::BadAcl { path: path(), reason: "it".into() },
        E::NotOffered("it"),
        E::Upload(UploadError::NoSuchUpload(upload)),
        E::Upload(UploadError::NoSuchPart { upload, number: 2 }),
        E::Upload(UploadError::PartChanged { upload, number: 2 }),
        E::NotAtOnce { path: path(), why: archive::WhyNotAtOnce::List(None) },
        E::NoSuchRemoval(DirId(7)),
        E::NoSuchRequest(RequestId(1)),
        E::TooManyRequests { limit: 5_000 },
        E::TooManyPathBytes { limit: 4 << 30 },
        E::NotInRequest { request: RequestId(1), path: "/a".into() },
        E::NoSuchTape(vid()),
        E::TapeNotSeen { vid: vid(), unreached: vec!["library b".to_owned()] },
        E::TapeNotLabelled(vid()),
        E::TapeInUse(vid()),
        E::Backup(Box::new(backup::BackupError::NotABackup("/b".into()))),
        E::QuarantineNeeded { directories: vec!["/b/line-0001".into()], line: 2 },
        E::SegmentsOwed { vid: vid(), other: None, full: Vec::new() },
        E::NoSuchPoolDrive(99),
        E::NoDriveDirectory { drive: 3, at: DriveLocation::Directory("/mnt/d3".into()) },
        E::NoNewDrive { at: DriveLocation::Directory("/mnt/d3".into()), reason: "x".into() },
        E::NoSuchDrive("x".into()),
        E::NoSuchCleaner { vid: vid(), drive: "x".into() },
        E::NoCleaner { drive: "x".into() },
        E::DriveOutOfUse { drive: "x".into(), reason: "x".into() },
        E::NoSuchTapePool("x".into()),
        E::SomeNotFound { count: 2, first: at() },
        E::OtherDate { system: Timestamp(1), today: Timestamp(2) },
        E::ClockBehind { system: Timestamp(1), trusted: Timestamp(2) },
        E::RangeBeyondEnd { offset: 9, size: ByteCount(3) },
        E::QuotaExceeded { of: who(), what: "bytes", limit: 1, used: 1 },
        E::NoSuchQuota("x".into()),
        E::Limit { what: "paths", limit: 3 },
        E::Catalogue(damaged()),
        E::Verify(SnapshotError::Engine { path: "/c".into(), reason: "it".into() }),
        E::Corrupt { path: path() },
        E::ContainerBytes { container: ContainerId(1), reason: "it".into() },
        E::FileNotSealed { file: FileId(1), reason: "it".into() },
        E::Pack { container: ContainerId(1), source: ltfs::pack::SealError::Members(0) },
        E::Library(library::LibraryError::UnknownCartridge { vid: vid() }),
        E::NoEntropy,
        E::TreeChanges,
        E::PoolFull,
        E::TooLittleRoom { size: ByteCount::gib(2), room: ByteCount::gib(1) },
        E::RoomIsBeingMade { size: ByteCount::gib(2) },
        E::WouldLose(archive::LossForeseen::default()),
        E::AuditFull("log".into()),
        E::NeverFits { path: "/a".into(), size: ByteCount(2), what: "it".into(), limit: ByteCount(1) },
        E::KeptUnreadable { path: path(), source: PoolError::Closed },
        E::Stopping,
    ]
}

/// What the catalogue does not find: each kind of object.
fn objects() -> Vec<Object> {
    vec![
        Object::Directory(DirId(2)),
        Object::Name(DirId(1), name()),
        Object::File(FileId(3)),
        Object::Class(ClassId(6)),
        Object::TapePool(TapePoolId(1)),
        Object::Blob(BlobId(5)),
        Object::Container(ContainerId(1)),
        Object::Tape(vid()),
        Object::Drive("x".into()),
        Object::PoolDrive(DriveId(3)),
        Object::Run(RunId(1)),
        Object::Request(RequestId(7)),
        Object::RequestFile(RequestId(7), FileId(3)),
        Object::Change(1),
        Object::Upload(UploadId(4)),
        Object::UploadPart(UploadId(4), 2),
        Object::Quota(QuotaSubject::Group("x".into())),
        Object::Catalogue,
        Object::Clock,
    ]
}

/// One of each [`Rejection`], of what is not found one for each kind of object.
pub fn rejections() -> Vec<Rejection> {
    use Rejection as R;
    let (parent, object) = (DirId(1), || Object::File(FileId(3)));
    let mut all = vec![R::NotInitialised, R::AlreadyInitialised];
    all.extend(objects().into_iter().map(R::NotFound));
    all.extend([
        R::IsADirectory { parent, name: name() },
        R::NotADirectory { parent, name: name() },
        R::NameTaken { parent, name: name() },
        R::ReservedName,
        R::DirectoryNotEmpty { parent, name: name() },
        R::IntoItself { directory: parent, to: parent },
        R::IdempotencyKeyReused { file: FileId(3) },
        R::PathTooLong { bytes: 5_000 },
        R::WrongState { object: object(), state: "so", needed: "other" },
        R::QuotaExceeded { subject: QuotaSubject::Group("x".into()), what: "bytes", limit: 1, used: 1 },
        R::AcrossQuota(parent),
        R::LimitExceeded { what: "files", limit: 3 },
        R::Held { file: FileId(3), name: name(), hold: Hold { retention: None, legal: true } },
        R::TimeDoubted { name: name() },
        R::NotCurrent { parent, name: name(), current: None },
        R::KeepsVersions { parent, name: name(), what: "it" },
        R::NotAtOnce { parent, name: name(), why: NotAtOnce::Versions },
        R::Malformed { object: object(), what: "it" },
        R::StripeSetDiffers(StripeSetId(1)),
        R::BlobDiffers(BlobId(5)),
        R::BlobIsGarbage(BlobId(5)),
        R::Read(damaged()),
    ]);
    all
}

/// One of each [`ExecuteError`].
pub fn execute_errors() -> Vec<ExecuteError> {
    vec![
        ExecuteError::Rejected(Rejection::ReservedName),
        ExecuteError::TooMany { found: 2, limit: 1 },
        ExecuteError::MapFull,
        ExecuteError::DiskFull,
        ExecuteError::MapRead,
        ExecuteError::InPart(Shortage::Map),
        ExecuteError::InPartNotNow("it".into()),
        ExecuteError::NotNow("it".into()),
        ExecuteError::Engine("it".into()),
        ExecuteError::Stopped,
        ExecuteError::WrongOutcome(Box::new(catalogue::Outcome::Done)),
    ]
}

/// One of each fault of a store of blobs.
pub fn blob_errors() -> Vec<BlobError> {
    let unreadable = BlobFault::Unreadable(BlobId(5));
    [BlobFault::Full, BlobFault::NoPlace, unreadable, BlobFault::Shortage, BlobFault::Other]
        .map(|fault| BlobError::new(fault, PoolError::Closed))
        .into()
}

/// One of each [`PoolError`]; of a group that failed also the ones that are told apart.
pub fn pool_errors() -> Vec<PoolError> {
    use PoolError as P;
    let (blob, drive) = (BlobId(5), DriveId(1));
    let few = || P::Placement(cluster::PlacementError::TooFewDrives { width: 6, writable: 5 });
    let full = || P::Full { width: 6, writable: 0 };
    let (offset, length) = (ByteCount(0), ByteCount(1));
    vec![
        P::Config(pool::ConfigError::CellSize),
        P::DriveList(drive),
        P::EpochUsed { drive, found: Epoch(2), given: Epoch(1) },
        P::IdsExhausted(Epoch(1)),
        few(),
        full(),
        P::WriteLost { blob, stripe: 0, lost: 3, borne: 2 },
        P::WriterFailed(blob),
        P::ReaderFailed(blob),
        P::Drive(DriveError::NotFound { drive, extent: drive::ExtentId { blob, stripe: 0, shard: 0 } }),
        P::Code(erasure::CodecError::EmptyCell),
        P::TooLarge { length, limit: offset },
        P::OutOfRange { blob, offset, length, blob_length: length },
        P::Description(blob),
        P::Unrecoverable { blob, offset, length, found: 1, needed: 4 },
        P::Shortage { blob, reason: "it".into() },
        P::DriveState { drive, reason: "it".into() },
        P::SegmentOpen(blob),
        P::ArenaTooSmall { blob, needed: 2, available: 1 },
        P::GroupCommit(Arc::new(few())),
        P::GroupCommit(Arc::new(full())),
        P::GroupCommit(Arc::new(P::Closed)),
        P::NotAnOrphan(blob),
        P::RewrittenOtherwise(blob),
        P::WrittenAnewLacks { blob, what: "a drive does not answer" },
        P::Closed,
    ]
}
