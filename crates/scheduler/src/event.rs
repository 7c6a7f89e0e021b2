//! What the scheduler is told.

use base::{ByteCount, ClassId, FailureCause, FileId, LibraryId, ShareId, TapePoolId, Timestamp, Vid};

use crate::{CleaningDue, CleaningEnd, DriveName};

/// How much waits, and since when.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Backlog {
    /// Files (for `Todo`) or containers (for `Queued`).
    pub items: u64,
    /// Their bytes.
    pub bytes: ByteCount,
    /// Since when the oldest waits; `None` if nothing does.
    pub oldest: Option<Timestamp>,
}

/// What the scheduler must know of a tape.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct TapeSummary {
    /// Its tape pool; `None`: scratch.
    pub tape_pool: Option<TapePoolId>,
    /// Whether it may be read.
    pub readable: bool,
    /// Whether it may be appended to (a scratch tape: labelled and appended to).
    pub writable: bool,
    /// Bytes that still fit.
    pub free: ByteCount,
    /// Bytes that stand on it, from its beginning to the end of its data: nothing that is read lies farther
    /// apart. 0: not known.
    pub written: ByteCount,
    /// Whether it has labels: if not, although it is of a pool, its labelling was cut short or failed.
    pub labelled: bool,
    /// How often it was mounted: of tapes that hold alike the least used one is taken, so that a bad one that
    /// is given back again and again does not keep the others from being tried.
    pub mounts: u64,
    /// Nothing may be done with it until somebody says so: a drive that has it gives it back at once. Not of
    /// one that its library does not show: it may be seen again in a moment.
    pub leaves: bool,
    /// The library that holds it: drives of others do not take it.
    pub library: LibraryId,
    /// Its copies are read only if no other copy of a file can be had.
    pub suspect: bool,
    /// Why it is not readable or writable, for people.
    pub reason: String,
}

/// Why a mount or a session did not end well.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// For people.
    pub reason: String,
    /// What it speaks against; `None`: nothing was wrong, but what was to be done cannot be done.
    pub cause: Option<FailureCause>,
    /// The tape is suspect since, but with a failure that a bad drive shows too: if others fail in the drive
    /// like this, they are to be cleared of it ([`Action::Clear`]).
    pub suspect: bool,
}

impl From<String> for Failure {
    /// One of which nobody knows whose it is.
    fn from(reason: String) -> Self {
        Failure { reason, cause: Some(FailureCause::Unknown), suspect: false }
    }
}

impl From<&str> for Failure {
    fn from(reason: &str) -> Self {
        reason.to_owned().into()
    }
}

/// How a session ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SessionEnd {
    /// Its queue or set is empty.
    Drained,
    /// A migration that found nothing that it could write, and wrote nothing.
    Idle,
    /// The tape is full; the queue is not empty.
    TapeFull,
    /// It was asked to stop.
    Stopped,
    /// A recall whose other files find no room in the pool. A `PoolSpace` event with what is left comes
    /// first.
    NoRoom,
    /// It failed; the tape's new summary and the drive's state come as their own events.
    Failed(Failure),
}

impl From<session::SessionEnd> for SessionEnd {
    fn from(end: session::SessionEnd) -> Self {
        match end {
            session::SessionEnd::Drained => SessionEnd::Drained,
            session::SessionEnd::TapeFull => SessionEnd::TapeFull,
            session::SessionEnd::Stopped => SessionEnd::Stopped,
            session::SessionEnd::NoRoom => SessionEnd::NoRoom,
        }
    }
}

/// Something that happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A tape drive exists and may be used.
    DriveUp(DriveName),
    /// A tape drive must not be used; sessions on it have ended.
    DriveDown(DriveName, String),
    /// A tape drive failed; sessions on it have ended. It is tried again after a rest, which doubles.
    DriveFailed(DriveName, String),
    /// An operator takes a drive out of use: as soon as it is empty, and until `DriveUp`.
    RetireDrive(DriveName, String),
    /// A tape drive is to be cleaned, or not any more.
    CleanDrive(DriveName, Option<CleaningDue>),
    /// The cleaning of a drive ended; the drive is empty.
    Cleaned(DriveName, CleaningEnd),
    /// All cleaning cartridges that may be used, and in which library, the first to be used first.
    CleaningCartridges(Vec<(LibraryId, Vid)>),
    /// A tape drive belongs to a library; one that was never told of here belongs to library 0.
    DriveIn(DriveName, LibraryId),
    /// A tape has, or has no longer, work to be done on it for which nobody waits.
    Maintain(Vid, bool),
    /// A tape is known, or something about it changed.
    Tape(Vid, TapeSummary),
    /// Files of a class that are not in a container yet: the whole backlog as it stands now.
    Todo(ClassId, Backlog),
    /// Containers queued for a tape pool: the whole backlog as it stands now.
    Queued(TapePoolId, Backlog),
    /// Do not wait for bytes or age: migrate what is there now (of one class or of all).
    MigrateNow(Option<ClassId>),
    /// Something waits for room in the disk pool, and what these classes and tape pools have makes some when
    /// it is on tape: it does not wait for bytes or age. What rests, rests.
    MigrateForRoom {
        /// Their files are gathered.
        classes: Vec<ClassId>,
        /// What is queued for them is written.
        tape_pools: Vec<TapePoolId>,
    },
    /// A `Seal` action was carried out; `Todo` and `Queued` events with the new figures come first.
    SealEnded(ClassId),
    /// A file is wanted and lies on these tapes.
    Wanted {
        /// The file.
        file: FileId,
        /// Its bytes.
        bytes: ByteCount,
        /// Since when.
        since: Timestamp,
        /// From 0 to [`PRIORITY_MAX`](crate::PRIORITY_MAX): within a share, tapes with higher ones go first.
        priority: u8,
        /// On whose behalf.
        share: ShareId,
        /// Every tape with a copy.
        copies: Vec<Vid>,
    },
    /// A file is not wanted any more: recalled, cancelled, failed or deleted.
    NotWanted(FileId),
    /// One copy cannot be read for now.
    CopyFailed(FileId, Vid),
    /// A mount ended well; the label was checked.
    Mounted(DriveName, Vid),
    /// A mount did not end well; the drive is empty again.
    MountFailed(DriveName, Vid, Failure),
    /// A migration session ended; the tape is still in the drive.
    MigrationEnded(DriveName, SessionEnd),
    /// A recall session ended; the tape is still in the drive.
    RecallEnded(DriveName, SessionEnd),
    /// A session of maintenance ended; the tape is still in the drive. `Stopped`: there is more to do.
    MaintenanceEnded(DriveName, SessionEnd),
    /// The drive is empty.
    Unmounted(DriveName),
    /// An operator has looked at a tape that was set aside after failures: it is used again.
    TapeReleased(Vid),
    /// So much of the pool is free for what is recalled, in all or for one share. Nothing is limited by what
    /// was never told; `u64::MAX` lifts a limit.
    PoolSpace {
        /// `None`: for all.
        share: Option<ShareId>,
        /// Bytes that can be written now.
        free: ByteCount,
    },
    /// What waited for room in the pool fits now: tapes whose last session found none may be mounted for it.
    RoomMade,
    /// The pool can feed so many tape streams, reading and writing together, at the drives' own rate.
    Streams {
        /// Most sessions at once; checks of tapes do not count.
        max: usize,
    },
    /// Time has passed.
    Tick,
}

/// What the engine is to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Seal containers of a class: every large file and every full pack; with `partial` also what does not
    /// fill one.
    Seal {
        /// The class.
        class: ClassId,
        /// Also a last pack that is not full.
        partial: bool,
    },
    /// Mount a tape and check its label. A scratch tape is to be given to `assign` and labelled first.
    Mount {
        /// The drive, empty.
        drive: DriveName,
        /// The tape.
        vid: Vid,
        /// The pool that a scratch tape is given to.
        assign: Option<TapePoolId>,
    },
    /// Write queued containers of this pool to the mounted tape until the queue is empty or the tape full.
    Migrate {
        /// The drive.
        drive: DriveName,
        /// The mounted tape.
        vid: Vid,
        /// Its pool.
        tape_pool: TapePoolId,
    },
    /// Read the wanted files of the mounted tape.
    Recall {
        /// The drive.
        drive: DriveName,
        /// The mounted tape.
        vid: Vid,
    },
    /// Do what is to be done on the mounted tape until nothing is left or
    /// [`Scheduler::must_yield`](crate::Scheduler::must_yield).
    Maintain {
        /// The drive.
        drive: DriveName,
        /// The mounted tape.
        vid: Vid,
    },
    /// Bring a cleaning cartridge into an empty drive, wait until the drive is clean, and bring it back.
    Clean {
        /// The drive, empty.
        drive: DriveName,
        /// The cleaning cartridge.
        vid: Vid,
    },
    /// Write the indexes if anything was written, and unmount.
    Unmount {
        /// The drive.
        drive: DriveName,
    },
    /// A tape is suspect because it failed in this drive, as others did: it becomes what it was.
    Clear {
        /// The drive, which is taken out of use.
        drive: DriveName,
        /// The tape.
        vid: Vid,
    },
    /// Send a `Tick` at this time (the earliest one wins).
    WakeAt(Timestamp),
}
