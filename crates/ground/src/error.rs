//! What the engine refuses, and why.

use base::{ArchivePath, ByteCount, RequestId, Timestamp, Vid};
use catalogue::{ReadError, Rejection};
use scheduler::Reason;
use std::fmt;
use std::path::PathBuf;

mod kind;
mod upload;

pub use kind::ErrorKind;
pub use upload::UploadError;

/// An error of an engine operation, in the words of its user.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The path is malformed.
    #[error(transparent)]
    Name(#[from] base::NameError),
    /// Nothing of that name.
    #[error("{0}: no such file or directory")]
    NotFound(ArchivePath),
    /// A directory where a file is needed.
    #[error("{0} is a directory")]
    IsADirectory(ArchivePath),
    /// A file where a directory is needed.
    #[error("{0} is a file, not a directory")]
    NotADirectory(ArchivePath),
    /// The name is taken.
    #[error("{0} exists already")]
    Exists(ArchivePath),
    /// Another version has the name than the client expects.
    #[error("{0} was changed meanwhile: look at it again and repeat")]
    NotCurrent(ArchivePath),
    /// The version asked for only says that the name was deleted.
    #[error("{path} was deleted: version {version} is a delete marker")]
    DeleteMarker {
        /// The path.
        path: ArchivePath,
        /// The marker.
        version: base::FileId,
    },
    /// A retention or a legal hold keeps a version.
    #[error("{path}: {held}")]
    Held {
        /// The path.
        path: ArchivePath,
        /// What keeps it, until when, and what to do.
        held: String,
    },
    /// A client has locked it.
    #[error(
        "{root} is locked by {by}: whoever holds the lock sends its token with the change; others wait until \
         it ends, or an admin ends it: kist lock ls, kist lock rm"
    )]
    Locked {
        /// What the lock was taken on: it, or a directory above it.
        root: ArchivePath,
        /// Whose it is.
        by: String,
    },
    /// Another lock stands in the way of one that is to be taken, or there are too many.
    #[error("no lock can be taken on {path}: {why}")]
    NoLock {
        /// What was to be locked.
        path: ArchivePath,
        /// Why not.
        why: WhyNoLock,
    },
    /// There is no such lock there.
    #[error("{0} has no such lock: it has ended, or was never taken there by this caller")]
    NoSuchLock(ArchivePath),
    /// Only empty directories can be removed.
    #[error("{0} is not empty: remove what is in it first, or all of it: kist rm -r {0}")]
    NotEmpty(ArchivePath),
    /// No name is left in a directory, but its bucket keeps versions or markers there.
    #[error(
        "{0} has no names any more, but earlier versions or delete markers of its bucket: delete these by \
         S3 (ListObjectVersions, then DeleteObject of each version), or have a rule of its lifecycle do it \
         (NoncurrentVersionExpiration, ExpiredObjectDeleteMarker); then remove it"
    )]
    HoldsVersions(ArchivePath),
    /// A directory would leave a directory with a quota, or come below one, and nobody knows how much is in
    /// it.
    #[error(
        "{from} cannot be moved to {to}, across the border of a directory with a quota: move its files one \
         by one, or end the quota, move, and set it anew"
    )]
    AcrossQuota {
        /// The directory.
        from: ArchivePath,
        /// Where to.
        to: ArchivePath,
    },
    /// A directory cannot be moved below itself.
    #[error("{from} cannot be moved to {to}, which is in it: choose another target")]
    IntoItself {
        /// The directory.
        from: ArchivePath,
        /// Where to.
        to: ArchivePath,
    },
    /// The bytes are on tape only.
    #[error("{path} is NEARLINE, on {}: {}", vids_text(.vids), recall_text(path, recall.as_deref()))]
    Nearline {
        /// The file.
        path: ArchivePath,
        /// The tapes that hold it.
        vids: Vec<Vid>,
        /// Why it is not back yet, if somebody wants it.
        recall: Option<Box<Reason>>,
    },
    /// All its tapes have the file; the pool has it too but cannot give it, since drives do not answer.
    #[error(
        "{path} is NEARLINE as long as {} of the pool that hold it do not answer; {} it: bring them back, or \
         stage it: kist stage {path}",
        drives_text(.drives), vids_hold(.vids)
    )]
    NearlineAway {
        /// The file.
        path: ArchivePath,
        /// The drives that do not answer.
        drives: Vec<u16>,
        /// The tapes that hold it.
        vids: Vec<Vid>,
    },
    /// Only the pool has all of the file, and drives that hold it do not answer.
    #[error(
        "{path} cannot be read as long as {} of the pool that hold it do not answer: bring them back; see \
         kist pool show{}",
        drives_text(.drives), copies_text(.vids)
    )]
    DrivesAway {
        /// The file.
        path: ArchivePath,
        /// The drives that do not answer.
        drives: Vec<u16>,
        /// The tapes that hold some copies of it.
        vids: Vec<Vid>,
    },
    /// The pool does not give it, and since the catalogue was restored nobody knows yet what does.
    #[error(
        "{path} cannot be read from the pool now, and the catalogue was restored: whether a tape has it is \
         not known yet: try again later (kist status says how far that is)"
    )]
    NotSettled {
        /// The file.
        path: ArchivePath,
    },
    /// Neither in the pool nor on tape.
    #[error("{0} is LOST: neither the pool nor a tape holds a readable copy")]
    Lost(ArchivePath),
    /// The body's length is not what was announced.
    #[error("the body has {actual} bytes, {expected} were announced: nothing was stored")]
    LengthMismatch {
        /// Announced.
        expected: u64,
        /// Received.
        actual: u64,
    },
    /// The body's checksum is not what was announced.
    #[error("the body's {kind} is {actual}, {expected} was announced: nothing was stored")]
    DigestMismatch {
        /// Which checksum.
        kind: &'static str,
        /// Announced.
        expected: String,
        /// Computed.
        actual: String,
    },
    /// No such storage class.
    #[error("there is no storage class '{name}'; there are: {known}")]
    NoSuchClass {
        /// The name asked for.
        name: String,
        /// Those that exist.
        known: String,
    },
    /// The idempotency key came with another request before.
    #[error("the idempotency key was used before for another path, size or content: use a new key")]
    IdempotencyKeyReused,
    /// The caller may not.
    #[error("{who} may not {verb} {what}: {why}")]
    Denied {
        /// Who.
        who: String,
        /// What they wanted to do: a word.
        verb: &'static str,
        /// With what.
        what: String,
        /// Why not.
        why: String,
    },
    /// A list that nobody could read.
    #[error("the access control list of {path} is not taken: {reason}")]
    BadAcl {
        /// The directory.
        path: ArchivePath,
        /// What is wrong with it.
        reason: String,
    },
    /// This engine does not do that.
    #[error("{0} is not offered")]
    NotOffered(&'static str),
    /// Something is wrong with an upload in parts.
    #[error(transparent)]
    Upload(#[from] UploadError),
    /// A directory is not removed at once with all that is in it; nothing was done.
    #[error("{path} is not removed at once: {why}. Remove what is in it name by name")]
    NotAtOnce {
        /// The directory.
        path: ArchivePath,
        /// Why not.
        why: WhyNotAtOnce,
    },
    /// No such removal of a directory.
    #[error("there is no removal {0}: it never was, or ended before 1,000 others")]
    NoSuchRemoval(base::DirId),
    /// No such request.
    #[error("there is no request {0}")]
    NoSuchRequest(RequestId),
    /// A caller has as many requests that have not ended as one may have.
    #[error(
        "{limit} requests of this caller have not ended, which is the most: wait for one to end, cancel one, \
         or name more files in each"
    )]
    TooManyRequests {
        /// The most.
        limit: u64,
    },
    /// Requests of a caller keep as many bytes of paths as those of one may.
    #[error(
        "the requests of this caller keep paths of {limit} bytes, which is the most: delete some, or give \
         back what they hold (release), after which the oldest go by themselves; or wait until pins run out"
    )]
    TooManyPathBytes {
        /// The most.
        limit: u64,
    },
    /// A path that is not one of a request's.
    #[error("request {request} does not name {path}: nothing was done")]
    NotInRequest {
        /// The request.
        request: RequestId,
        /// The path as it was written.
        path: String,
    },
    /// No such tape.
    #[error("there is no tape {0} in the library")]
    NoSuchTape(Vid),
    /// No tape of this VID is known, and not all libraries were reached since the start.
    #[error(
        "tape {vid} is not known, but what stands in {} is not known either, which was not reached since the \
         start: kist status tells why; ask again when it is reached",
        unreached.join(", ")
    )]
    TapeNotSeen {
        /// The tape.
        vid: Vid,
        /// Those libraries, as they are named to people.
        unreached: Vec<String>,
    },
    /// Nothing was ever written to the tape.
    #[error("tape {0} is not labelled: there is nothing on it to be checked")]
    TapeNotLabelled(Vid),
    /// The tape is being written.
    #[error(
        "tape {0} is being written: kist tape repack {0} ends that and empties it (--show: how far it is)"
    )]
    TapeInUse(Vid),
    /// What the backup keeps is not known.
    #[error("the backup cannot be looked at: {0}")]
    Backup(Box<backup::BackupError>),
    /// Points of before a restore can still be gone back to, and need what is in quarantine.
    #[error(
        "the backup can still go back to before the restore, to which what is in quarantine belongs: {}. \
         When nobody will go back there, remove {}, then try again",
        older_text(.directories.len(), *.line), directories_text(.directories)
    )]
    QuarantineNeeded {
        /// The lines of the backup that are kept and are older than the one that is being written: their
        /// directories, the oldest first.
        directories: Vec<PathBuf>,
        /// The line that is being written; 0 if none was begun yet.
        line: u32,
    },
    /// The tape is the only one of its pool with some change-log segments, or with the base behind them.
    #[error(
        "tape {vid} is the only one of its pool with some change-log segments or a base of the catalogue: {}",
        owed_text(.other, .full)
    )]
    SegmentsOwed {
        /// The tape.
        vid: Vid,
        /// The tape that they are being written to.
        other: Option<Vid>,
        /// If there is none: the tapes that could take them but for their room.
        full: Vec<Vid>,
    },
    /// No such drive of the pool.
    #[error(
        "there is no drive {0} in the pool: kist pool show lists them, kist pool drive add PATH adds one"
    )]
    NoSuchPoolDrive(u16),
    /// The directory of a drive that is to be put in is not there.
    #[error(
        "drive {drive}: its directory {at} is not there: mount its disk; if a new drive is to be made there, \
         say kist pool drive replace {drive} --new"
    )]
    NoDriveDirectory {
        /// The drive.
        drive: u16,
        /// Where it should be.
        at: drive::DriveLocation,
    },
    /// What is at a place does not become one more drive of the pool.
    #[error("{at} is not added to the pool: {reason}")]
    NoNewDrive {
        /// The place.
        at: drive::DriveLocation,
        /// Why not, and what to do.
        reason: String,
    },
    /// No such tape drive.
    #[error("there is no tape drive '{0}': see kist drive ls")]
    NoSuchDrive(String),
    /// No such cleaning cartridge in the library of the drive.
    #[error("the library of drive {drive} has no cleaning cartridge {vid}: see kist library inventory")]
    NoSuchCleaner {
        /// What was named.
        vid: Vid,
        /// The drive.
        drive: String,
    },
    /// The library of the drive has no cleaning cartridge that may be used.
    #[error(
        "the library of drive {drive} has no cleaning cartridge that may be used: put one in, or name one \
         (kist library inventory, kist drive clean {drive} --with VID)"
    )]
    NoCleaner {
        /// The drive.
        drive: String,
    },
    /// A drive that is out of use is not cleaned.
    #[error("drive {drive} is out of use ({reason}): kist drive up {drive} first")]
    DriveOutOfUse {
        /// The drive.
        drive: String,
        /// Why.
        reason: String,
    },
    /// No such tape pool.
    #[error("there is no tape pool '{0}': kist class ls names them")]
    NoSuchTapePool(String),
    /// Paths of a stage or evict are not there; nothing was done.
    #[error("{} not exist, the first is {first}: nothing was done", paths_text(*.count))]
    SomeNotFound {
        /// How many.
        count: usize,
        /// The first one.
        first: ArchivePath,
    },
    /// An operator vouches for the system's clock, which shows another day.
    #[error(
        "the system's clock shows {system}, which is not {today:.10}: set it right first, or name the \
         date that it shows, if that is today's"
    )]
    OtherDate {
        /// What it shows.
        system: Timestamp,
        /// The date that was named.
        today: Timestamp,
    },
    /// An operator vouches for the system's clock, which is behind the trusted time.
    #[error(
        "the system's clock shows {system} and is behind the trusted time, {trusted}: if that was never \
         true, allow it to go back (kist clock accept --back), which it does at the next start"
    )]
    ClockBehind {
        /// What it shows.
        system: Timestamp,
        /// The trusted time.
        trusted: Timestamp,
    },
    /// A range that does not touch the file.
    #[error("the range begins at byte {offset}, the file has {size} bytes")]
    RangeBeyondEnd {
        /// Where it begins.
        offset: u64,
        /// The file's size.
        size: ByteCount,
    },
    /// A quota does not allow it.
    #[error(
        "the quota of {of} is {limit}, {used} are used: delete something there, or have it raised",
        limit = counted(*.limit, .what),
        used = counted(*.used, .what)
    )]
    QuotaExceeded {
        /// Whose quota.
        of: String,
        /// `bytes` or `files`.
        what: &'static str,
        /// How many are allowed.
        limit: u64,
        /// How many are used without this.
        used: u64,
    },
    /// No such quota.
    #[error("there is no quota of {0}: kist quota ls lists them")]
    NoSuchQuota(String),
    /// A named limit.
    #[error("{what}: the limit is {limit}")]
    Limit {
        /// What is limited.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// The catalogue refuses.
    #[error(transparent)]
    Rejected(Rejection),
    /// The catalogue cannot be read.
    #[error("the catalogue is damaged: {0}")]
    Catalogue(#[from] ReadError),
    /// The copy of the catalogue that is verified cannot be made or read.
    #[error(
        "the catalogue cannot be verified: {0}: look for room beside it; if there is, restore its backup"
    )]
    Verify(store::SnapshotError),
    /// The catalogue's writer cannot work.
    #[error("the catalogue cannot be written: {0}")]
    Store(store::ExecuteError),
    /// The pool refuses or fails.
    #[error("the pool: {0}")]
    Pool(pool::PoolError),
    /// The store of blobs refuses or fails, in its own words.
    #[error("the pool: {0}")]
    Blob(blob::BlobError),
    /// Bytes in the pool fail their checksum and could not be repaired.
    #[error(
        "{path}: the bytes read do not have the file's checksum: the transfer is broken off before its end"
    )]
    Corrupt {
        /// The file.
        path: ArchivePath,
    },
    /// The bytes of a container cannot be had for writing it to tape.
    #[error("container {container} cannot be written: {reason}")]
    ContainerBytes {
        /// The container.
        container: base::ContainerId,
        /// Why, for people.
        reason: String,
    },
    /// A file that is larger than a tape cannot be sealed now.
    #[error("file {file} cannot be sealed: {reason}")]
    FileNotSealed {
        /// The file.
        file: base::FileId,
        /// Why, for people.
        reason: String,
    },
    /// A pack cannot be sealed.
    #[error("pack {container} cannot be sealed: {source}")]
    Pack {
        /// The container.
        container: base::ContainerId,
        /// Why.
        source: ltfs::pack::SealError,
    },
    /// The tape library refuses or fails.
    #[error("the tape library: {0}")]
    Library(#[from] library::LibraryError),
    /// The system gives no random numbers.
    #[error("the system gives no random numbers")]
    NoEntropy,
    /// The files meant are being deleted while they are looked up.
    #[error("the tree changes faster than it can be read: try again")]
    TreeChanges,
    /// Too little space is left in the pool to take new files; what is there still goes to tape.
    #[error(
        "the pool is full but for what migration and recall need: evict or remove files, wait for migration, \
         or add drives; kist status tells what holds the room"
    )]
    PoolFull,
    /// The pool takes new files, but none as large as this one.
    #[error(
        "the file has {size} and the pool has room for {room} of new files now: evict or remove files, wait \
         for migration, or add drives; kist status tells what holds the room"
    )]
    TooLittleRoom {
        /// Its size, or what is known of it.
        size: ByteCount,
        /// What the pool takes.
        room: ByteCount,
    },
    /// The pool has no room for the file now, and room comes by itself: files leave the pool, or are on
    /// their way to tapes and leave then.
    #[error(
        "the pool has no room for the file now; room is being made, as files go to tape and leave the \
         pool: try again in a while"
    )]
    RoomIsBeingMade {
        /// Its size, or what is known of it.
        size: ByteCount,
    },
    /// Drives would be given up that hold the only copy of files that can be read.
    #[error(
        "that makes these files LOST, of which the pool has the only copy that can be read: {0}; nothing was \
         done: bring the drive back if it can be read, or tapes that are suspect or disabled back into use, \
         or go on with --accept-loss"
    )]
    WouldLose(crate::LossForeseen),
    /// What a change is written down in has no room, so that the change is not made.
    #[error(
        "the audit log in {0} has no room: until there is some, only what makes room is taken, and nothing \
         that cannot be written down"
    )]
    AuditFull(std::path::PathBuf),
    /// A file that recalls can never bring into the pool.
    #[error(
        "{path} has {size}, more than {what} ({limit}): it can never be staged; raise the limit or add drives"
    )]
    NeverFits {
        /// The file.
        path: String,
        /// Its size.
        size: ByteCount,
        /// Which limit.
        what: String,
        /// The limit.
        limit: ByteCount,
    },
    /// A repeat of a put whose first bytes cannot be read any more; the new bytes were not kept either.
    #[error(
        "{path}: the same content is kept already but cannot be read ({source}): remove it, then put it again"
    )]
    KeptUnreadable {
        /// The file.
        path: ArchivePath,
        /// Why it cannot be read.
        source: pool::PoolError,
    },
    /// The server is stopping.
    #[error("the server is stopping: try again later")]
    Stopping,
}

impl ArchiveError {
    /// Whether a command that failed with this has certainly changed nothing, so that the bytes stored for it
    /// are referred to by nobody.
    #[must_use]
    pub fn is_certain_refusal(&self) -> bool {
        match self {
            ArchiveError::Store(error) => error.is_certain_refusal(),
            _ => true,
        }
    }
}

fn owed_text(other: &Option<Vid>, full: &[Vid]) -> String {
    let why = match (other, full) {
        (Some(other), _) => {
            return format!("they are being written to {other}; try again when that has ended");
        }
        (None, []) => "no other tape of it can take them".to_owned(),
        (None, [vid]) => format!("no other tape of it can take them ({vid} has no room for them)"),
        (None, vids) => {
            let vids: Vec<&str> = vids.iter().map(Vid::as_str).collect();
            format!("no other tape of it can take them ({} have no room for them)", vids.join(", "))
        }
    };
    format!(
        "{why}. They go to the next tape that is labelled for this pool, when something is migrated: put in \
         a blank one if the library has none, or give one with room back to use (kist tape set VID active), \
         then try again"
    )
}

fn paths_text(count: usize) -> String {
    if count == 1 { "1 of the paths does".to_owned() } else { format!("{count} of the paths do") }
}

/// `drive 3`, `drives 1, 2 and 3`.
fn drives_text(drives: &[u16]) -> String {
    let names: Vec<String> = drives.iter().map(u16::to_string).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("drives {} and {last}", rest.join(", ")),
        _ => format!("drive {}", names.concat()),
    }
}

/// What else can be done about a file that waits for drives.
fn copies_text(vids: &[Vid]) -> String {
    if vids.is_empty() {
        return "; no tape has it".to_owned();
    }
    format!(
        "; {} some copies of it: kist pool drive lost gives a drive up for good, then they are used",
        vids_hold(vids)
    )
}

fn vids_hold(vids: &[Vid]) -> String {
    format!("{} {}", vids_text(vids), if vids.len() == 1 { "has" } else { "have" })
}

/// What to do about a file that is on tape only, or why it is not back yet.
fn recall_text(path: &ArchivePath, recall: Option<&Reason>) -> String {
    match recall {
        Some(reason) => format!("it is being staged: {reason}"),
        None => format!("stage it first: kist stage {path}"),
    }
}

fn vids_text(vids: &[Vid]) -> String {
    let names = vids.iter().map(Vid::as_str).collect::<Vec<_>>().join(" and ");
    format!("{} {names}", if vids.len() == 1 { "tape" } else { "tapes" })
}

impl From<blob::BlobError> for ArchiveError {
    /// A full store is called a full pool.
    fn from(error: blob::BlobError) -> Self {
        match error.fault {
            blob::BlobFault::Full => ArchiveError::PoolFull,
            _ => ArchiveError::Blob(error),
        }
    }
}

impl From<pool::PoolError> for ArchiveError {
    /// A full pool is called that, however it was found out.
    fn from(error: pool::PoolError) -> Self {
        if error.is_full() { ArchiveError::PoolFull } else { ArchiveError::Pool(error) }
    }
}

impl From<store::VerifyError> for ArchiveError {
    fn from(error: store::VerifyError) -> Self {
        match error {
            store::VerifyError::Read(error) => ArchiveError::Catalogue(error),
            store::VerifyError::Snapshot(error) => ArchiveError::Verify(error),
            other => ArchiveError::Verify(store::SnapshotError::Engine {
                path: std::path::PathBuf::new(),
                reason: other.to_string(),
            }),
        }
    }
}

/// Why the engine cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A class names a tape pool that is not configured.
    #[error("class '{class}' wants a copy in tape pool '{tape_pool}', which is not configured: add the pool")]
    UnknownTapePool {
        /// The class.
        class: String,
        /// The tape pool.
        tape_pool: String,
    },
    /// A tape pool names a library that is not configured.
    #[error(
        "tape pool '{tape_pool}' wants tapes of library '{library}', which is not configured: add the library"
    )]
    UnknownLibrary {
        /// The tape pool.
        tape_pool: String,
        /// The library.
        library: String,
    },
    /// There is no catalogue. A start never makes one: an empty one would hide that all is lost.
    #[error(
        "there is no catalogue in {directory}: mount its disk; or get it back with 'kist restore' or 'kist \
         rebuild --from-tapes'; or make a new instance with 'kist init'",
        directory = .directory.display()
    )]
    NoCatalogue {
        /// Where it should be.
        directory: std::path::PathBuf,
    },
    /// The catalogue is empty.
    #[error("the catalogue is empty: make an instance with 'kist init'")]
    NotInitialised,
    /// A restored catalogue cannot be compared with pool and tapes.
    #[error("the restored catalogue cannot be settled with pool and tapes: {0}")]
    Settle(Box<ArchiveError>),
    /// The library is to take the time of a drive or robot that is not known.
    #[error(transparent)]
    UnknownModel(#[from] mechanics::UnknownModel),
    /// No class at all.
    #[error("no storage class is configured: add at least one")]
    NoClass,
    /// The catalogue cannot be opened.
    #[error(transparent)]
    Catalogue(#[from] store::OpenError),
    /// The catalogue cannot be read.
    #[error("the catalogue is damaged: {0}")]
    Read(#[from] ReadError),
    /// The catalogue refuses or cannot be written.
    #[error("the catalogue cannot be written: {0}")]
    Execute(#[from] store::ExecuteError),
    /// The pool cannot be opened.
    #[error("the pool cannot be opened: {0}")]
    Pool(#[from] pool::PoolError),
    /// The drive map is impossible.
    #[error("the pool's drives: {0}")]
    Map(#[from] cluster::MapError),
    /// A drive of the pool is another one's, or of another instance.
    #[error("pool drive {id}: {source}")]
    Drive {
        /// Its number in the configuration.
        id: u16,
        /// Why.
        source: drive::DriveOpenError,
    },
    /// The tape library cannot be opened.
    #[error("the tape library: {0}")]
    Library(#[from] library::LibraryError),
    /// The secret for iSCSI targets cannot be read.
    #[error("the CHAP secret in {path} cannot be read: {source}")]
    ChapSecretFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The secret for iSCSI targets is none.
    #[error("{path}: {source}")]
    ChapSecret {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: library::scsi::ChapAccountError,
    },
    /// This machine's name makes no name of an initiator.
    #[error("{0}: write initiator = \"iqn.…\" into the library's configuration")]
    Initiator(library::scsi::IscsiNameError),
    /// A tape drive has an impossible name.
    #[error(transparent)]
    DriveName(#[from] library::DriveNameError),
    /// A thread cannot be started.
    #[error("a thread cannot be started: {0}")]
    Thread(std::io::Error),
    /// The system gives no random numbers.
    #[error("the system gives no random numbers")]
    NoEntropy,
    /// The pool's drives have seen a later state than the catalogue: it is an older copy.
    #[error(
        "the catalogue is at change {catalogue}, drive {drive} has seen {seen}: it is an older copy: \
         put the newest one back, or restore from the backup with: kist restore --from DIR INSTANCE"
    )]
    CatalogueTooOld {
        /// The catalogue's newest change.
        catalogue: u64,
        /// The drive.
        drive: u16,
        /// The newest change that it has seen.
        seen: u64,
    },
    /// The backup has changes that the catalogue has not: it is an older copy.
    #[error(
        "the catalogue is at change {catalogue}, its backup in {directory} has {shipped}: it is an older \
         copy: put the newest one back, or restore it with: kist restore --from {directory} INSTANCE. To go \
         on without those changes, move that backup away first"
    )]
    BackupAhead {
        /// The catalogue's newest change.
        catalogue: u64,
        /// The backup.
        directory: PathBuf,
        /// Its newest change.
        shipped: u64,
    },
}

impl OpenError {
    /// Whether the catalogue is damaged, or older than what was written with it.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        use store::OpenError::{Damaged, DamagedFormat, Unreadable};
        match self {
            OpenError::Catalogue(error) => {
                matches!(error, Damaged { .. } | DamagedFormat(_) | Unreadable { .. })
            }
            OpenError::Read(_) | OpenError::CatalogueTooOld { .. } | OpenError::BackupAhead { .. } => true,
            _ => false,
        }
    }
}

/// Directories that are named in one message; there is one for each restore.
const DIRECTORIES_SHOWN_MAX: usize = 20;

/// All that are to be removed: one after the other, each would be named only when the one before is gone.
fn directories_text(directories: &[PathBuf]) -> String {
    let shown: Vec<String> =
        directories.iter().take(DIRECTORIES_SHOWN_MAX).map(|it| it.display().to_string()).collect();
    let more = match directories.len().saturating_sub(DIRECTORIES_SHOWN_MAX) {
        0 => String::new(),
        more => format!(" and the next {more}"),
    };
    format!("{}{more}", shown.join(" "))
}

fn older_text(lines: usize, line: u32) -> String {
    match line {
        0 => "it has not begun a line of its own since then".to_owned(),
        line => format!("{lines} of its lines are older than line {line}, which it has written since then"),
    }
}

/// Why a lock is not to be had.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WhyNoLock {
    /// Another one is there, on it, above it or below it.
    #[error("{root} is locked by {by} already")]
    Other {
        /// What that one was taken on.
        root: ArchivePath,
        /// Whose it is.
        by: String,
    },
    /// The caller has as many as one may have.
    #[error("{0} locks are the most that one caller may hold: give some back first")]
    OfCaller(usize),
    /// There are as many as can be on one path.
    #[error("{0} shared locks are the most that can be on one path")]
    OfPath(usize),
    /// There are as many as can be.
    #[error("{0} locks are held by all callers, and no more can be: try again when some have ended")]
    OfAll(usize),
    /// The server has no clock by which it could end.
    #[error("this server has no clock by which it would end")]
    NoClock,
}

/// Why a directory is not removed at once. What is in it is named to those who may list it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum WhyNotAtOnce {
    /// This file is held.
    Held(Option<ArchivePath>),
    /// This directory has an access control list of its own, which may not allow it.
    List(Option<ArchivePath>),
    /// Something that is about nothing in it.
    Other(String),
}

impl WhyNotAtOnce {
    /// What it names.
    #[must_use]
    pub fn named(&self) -> Option<&ArchivePath> {
        match self {
            WhyNotAtOnce::Held(named) | WhyNotAtOnce::List(named) => named.as_ref(),
            WhyNotAtOnce::Other(_) => None,
        }
    }

    /// The same for those who may not know the name.
    #[must_use]
    pub fn unnamed(self) -> Self {
        match self {
            WhyNotAtOnce::Held(_) => WhyNotAtOnce::Held(None),
            WhyNotAtOnce::List(_) => WhyNotAtOnce::List(None),
            other @ WhyNotAtOnce::Other(_) => other,
        }
    }
}

impl fmt::Display for WhyNotAtOnce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WhyNotAtOnce::Held(Some(file)) => write!(f, "{file} has a retention or a legal hold"),
            WhyNotAtOnce::Held(None) => write!(f, "a file in it has a retention or a legal hold"),
            WhyNotAtOnce::List(Some(directory)) => {
                write!(f, "{directory} has an access control list of its own")
            }
            WhyNotAtOnce::List(None) => write!(f, "a directory in it has an access control list of its own"),
            WhyNotAtOnce::Other(why) => f.write_str(why),
        }
    }
}

/// What a quota counts, for people.
fn counted(number: u64, what: &str) -> String {
    if what == "bytes" { ByteCount(number).to_string() } else { format!("{number} {what}") }
}
