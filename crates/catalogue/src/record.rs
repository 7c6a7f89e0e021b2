//! What the catalogue knows, one type a table. `docs/format/catalogue.md` gives the bytes.

mod access;
mod base_on_tape;
mod bucket;
mod cleaning;
mod clock;
mod cold;
mod container;
mod hold;
mod pool_drive;
mod quota;
mod request;
mod rule;
mod sealing;
mod segment;
mod tape_away;
mod tape_history;
mod tree;
mod unknown;
mod upload;
mod use_hour;

pub use access::{ACL_ENTRIES_MAX, AccessChain, AclEntry, DirectoryOwner};
pub use quota::{QuotaCounting, QuotaLimits, QuotaRecord, QuotaSubject};

pub use base_on_tape::BaseRecord;
pub use bucket::{BucketRecord, BucketSettings, LifecycleRule, Version};
pub use cleaning::{CleanerRecord, CleaningAsk, DriveCleaning};
pub use clock::{ClockRecord, LeapsBelieved, TimeMove};
pub use hold::{Hold, Retention, RetentionMode, Versioning};
pub use pool_drive::{
    DriveDisk, DriveDiskRecord, DriveSlot, PoolDriveRecord, PoolDriveState, RebalanceRecord, RecodingRecord,
};
pub(crate) use request::PathPlace;
pub use request::{
    ItemState, PathList, PathRefusal, PathTarget, RequestItem, RequestPath, RequestRecord, RequestState,
};
pub use rule::Rule;
pub use sealing::SealingRecord;
pub use segment::UnneededSectors;
pub(crate) use segment::{PAGES as SEGMENT_PAGES, Sectors};
pub use tape_away::{AwayKind, TapeAway};
pub use tape_history::TapeHistory;
pub use tree::TreeRecord;
pub use unknown::UnknownExtent;
pub use upload::{UploadPart, UploadPlan, UploadRecord, UploadUse};
pub use use_hour::UseHour;

pub use cold::LifecycleCursor;
pub use container::{ContainerCopy, ContainerKind, ContainerRecord, CopyState, MemberRecord, TapePlace};

use base::{
    BlobId, BlobPiece, BlockAddress, BlockCount, ByteCount, Checksums, ClassId, ContainerId, DirId, FileId,
    Generation, Layout, Name, RequestId, RunId, StripeSetId, TapeKey, TapePoolId, Timestamp, Uuid, Vid,
};

/// What a name stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// A directory.
    Directory(DirId),
    /// The current version of a file.
    File(FileId),
}

/// What Kist keeps of the user's inode, beside size and content.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Attributes {
    /// Modification time.
    pub mtime: Timestamp,
    /// Permission bits, 0 to 0o7777.
    pub mode: u32,
    /// Owner's name; may be empty. At most 64 bytes.
    pub owner: String,
    /// Group's name; may be empty. At most 64 bytes.
    pub group: String,
    /// Extended attributes, at most 64 KiB in all.
    pub xattrs: Vec<(String, Vec<u8>)>,
}

/// A directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirectoryRecord {
    /// The directory it stands in; the root stands in itself.
    pub parent: DirId,
    /// Its name; `None` for the root.
    pub name: Option<Name>,
    /// When it was made.
    pub created: Timestamp,
    /// The user's attributes.
    pub attributes: Attributes,
    /// The class of files put below it that name none; inherited.
    pub class: Option<ClassId>,
}

/// What kind of file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FileKind {
    /// Bytes.
    Regular,
    /// A symbolic link to this target, 1 to 4,095 bytes. Always online.
    Symlink(String),
}

/// Whether a file is still somebody's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileState {
    /// It has a name.
    Live,
    /// Deleted or replaced at this time; kept because a container that holds it has not all its copies yet.
    Condemned(Timestamp),
    /// It has a name, but since this time no copy of all its bytes can be read, neither in the pool nor on
    /// tape. Its pieces are kept, so that it can be found again.
    Lost(Timestamp),
}

/// One version of one file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileRecord {
    /// The directory it stands (or last stood) in.
    pub parent: DirId,
    /// Its name there.
    pub name: Name,
    /// Bytes or a link.
    pub kind: FileKind,
    /// Live, condemned or lost.
    pub state: FileState,
    /// Size in bytes; 0 for a link.
    pub size: ByteCount,
    /// When it was acknowledged.
    pub created: Timestamp,
    /// The user's attributes.
    pub attributes: Attributes,
    /// The checksums of its bytes.
    pub checksums: Checksums,
    /// Its storage class.
    pub class: ClassId,
    /// Orders the migration queue: files of one data set stand together on tape.
    pub dataset: u64,
    /// Where its bytes are in the pool, in order; empty if NEARLINE, and for links and empty files. Those of
    /// a lost file cannot be read.
    pub pieces: Vec<BlobPiece>,
}

impl FileRecord {
    /// Whether the file has bytes at all; links and empty files are always online and never go to tape by
    /// themselves.
    #[must_use]
    pub fn has_data(&self) -> bool {
        self.size.0 > 0
    }

    /// Whether the bytes can be read from the pool.
    #[must_use]
    pub fn is_online(&self) -> bool {
        !self.has_data() || (!self.pieces.is_empty() && !self.is_lost())
    }

    /// Whether quotas count it: as long as it can be named, and not while it only waits for its container.
    #[must_use]
    pub fn counts_for_quotas(&self) -> bool {
        self.is_named()
    }

    /// Whether a name stands for it: live or lost.
    #[must_use]
    pub fn is_named(&self) -> bool {
        matches!(self.state, FileState::Live | FileState::Lost(_))
    }

    /// Whether no copy of it can be read.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self.state, FileState::Lost(_))
    }
}

/// A storage class: what copies a file gets. Sizes and ages are policy and stand in the configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClassRecord {
    /// Its name, 1 to 32 bytes.
    pub name: String,
    /// The tape pools that get a copy each, in order, distinct. May be empty: disk only.
    pub copies: Vec<TapePoolId>,
}

/// A blob of the pool and how much of it is in use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlobRecord {
    /// The id that its extents have on drives, if that is another one.
    pub stands_as: Option<BlobId>,
    /// How its bytes lie on drives.
    pub layout: Layout,
    /// Its length; 0 for a segment.
    pub length: ByteCount,
    /// The stripe set of each stripe.
    pub stripes: Vec<StripeSetId>,
    /// How many pieces refer to it. At 0 it is garbage.
    pub references: u64,
    /// The sum of their lengths.
    pub live: ByteCount,
}

impl BlobRecord {
    /// Whether it is a blob of this length that was written anew.
    pub(crate) fn was_written_anew(&self, length: ByteCount) -> bool {
        self.stands_as.is_some() && self.length == length
    }
}

/// What may be done with a tape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TapeState {
    /// Blank and without a tape pool.
    Scratch,
    /// Given to a tape pool with a UUID; its labels may or may not be written yet.
    Labelling,
    /// Readable and writable.
    Active,
    /// Readable; its end was reached.
    Full,
    /// Readable; must not be written, for the recorded reason.
    ReadOnly,
    /// Set aside by Kist after an error, for the recorded reason.
    Suspect,
    /// Set aside by an operator.
    Disabled,
    /// Readable; not written. Its containers are being copied to other tapes.
    Repacking,
    /// Never to be used again, by an operator's word: it holds nothing, and is no scratch tape.
    Retired,
}

impl TapeState {
    /// Whether its data are not read for now, by Kist's doubt or an operator's word.
    #[must_use]
    pub fn is_set_aside(self) -> bool {
        matches!(self, TapeState::Suspect | TapeState::Disabled)
    }

    /// The word for it in all answers, reports and reasons.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            TapeState::Scratch => "scratch",
            TapeState::Labelling => "labelling",
            TapeState::Active => "active",
            TapeState::Full => "full",
            TapeState::ReadOnly => "read-only",
            TapeState::Suspect => "suspect",
            TapeState::Disabled => "disabled",
            TapeState::Repacking => "repacking",
            TapeState::Retired => "retired",
        }
    }
}

/// A cartridge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TapeRecord {
    /// What may be done with it.
    pub state: TapeState,
    /// Why it is in that state, in words for an operator; at most 512 bytes.
    pub reason: String,
    /// Its tape pool, once it has one.
    pub tape_pool: Option<TapePoolId>,
    /// The LTFS volume's UUID, once it has one.
    pub uuid: Option<Uuid>,
    /// Native capacity of the data partition.
    pub capacity: ByteCount,
    /// Where the next block of the data partition goes: end of data after the last commit.
    pub end_of_data: BlockAddress,
    /// Bytes written to the data partition, indexes and garbage included.
    pub written: ByteCount,
    /// Bytes of containers on it that were committed.
    pub committed: ByteCount,
    /// Bytes left behind by torn runs.
    pub torn: ByteCount,
    /// Containers on it.
    pub containers: u64,
    /// Generation of the newest index.
    pub generation: Generation,
    /// Where the newest index of the data partition begins.
    pub index_block: BlockAddress,
    /// The open run, if any.
    pub run: Option<RunId>,
    /// Sessions so far.
    pub mounts: u64,
    /// The newest change whose segment is on this tape.
    pub changes_through: u64,
    /// After a reclaim: the old volume, which the next labelling may destroy.
    pub replaces: Option<Uuid>,
    /// Its failures; `None`: none since a session on it went well or an operator cleared it.
    pub history: Option<TapeHistory>,
    /// Where it is by an operator's word; `None`: in a library, or nobody knows.
    pub away: Option<TapeAway>,
    /// The key that all behind its labels is encrypted with; `None`: it stands there in clear.
    pub key: Option<TapeKey>,
}

impl TapeRecord {
    /// Whether the archive has nothing on it and no use for it yet.
    #[must_use]
    pub fn is_unused(&self) -> bool {
        self.state == TapeState::Scratch && self.uuid.is_none() && self.containers == 0
    }

    /// A tape of which nothing is known but its size, in bytes of the data partition.
    #[must_use]
    pub fn scratch(capacity: ByteCount) -> Self {
        TapeRecord {
            state: TapeState::Scratch,
            reason: String::new(),
            tape_pool: None,
            uuid: None,
            capacity,
            end_of_data: BlockAddress(0),
            written: ByteCount(0),
            committed: ByteCount(0),
            torn: ByteCount(0),
            containers: 0,
            generation: Generation(0),
            index_block: BlockAddress(0),
            run: None,
            mounts: 0,
            changes_through: 0,
            replaces: None,
            history: None,
            away: None,
            key: None,
        }
    }

    /// Whether it failed: its copies are read only while no others can be had.
    #[must_use]
    pub fn is_doubted(&self) -> bool {
        self.history.is_some()
    }

    /// Whether it may be written as it stands here, so that after a restore more may be on it than this
    /// catalogue knows.
    #[must_use]
    pub fn may_be_written(&self) -> bool {
        matches!(self.state, TapeState::Active | TapeState::Labelling) || self.run.is_some()
    }

    /// What it was before it failed, if it is suspect.
    #[must_use]
    pub fn before_failure(&self) -> Option<TapeState> {
        let known = self.history.map_or(TapeState::ReadOnly, |history| history.before);
        (self.state == TapeState::Suspect).then_some(known)
    }

    /// What it becomes when it is found well again, if it is suspect.
    #[must_use]
    pub fn when_well(&self) -> Option<TapeState> {
        let known = self.history.map_or(TapeState::ReadOnly, |history| history.after());
        (self.state == TapeState::Suspect).then_some(known)
    }

    /// Whether nobody lacks it while no library holds it: it is away by an operator's word, or gives and
    /// takes nothing.
    #[must_use]
    pub fn may_be_away(&self) -> bool {
        let is_of_no_use =
            matches!(self.state, TapeState::Disabled | TapeState::Scratch | TapeState::Retired);
        self.away.is_some() || is_of_no_use
    }

    /// Why it is in its state, for people: with what a suspect tape was and when it is tried again.
    #[must_use]
    pub fn told(&self, vid: Vid) -> String {
        match &self.history {
            Some(history) if self.state == TapeState::Suspect => {
                format!("{} ({})", self.reason, history.told(vid))
            }
            _ => self.reason.clone(),
        }
    }

    /// Another state. Only a suspect tape is to be tried again.
    pub(crate) fn enter(&mut self, state: TapeState, reason: String) {
        (self.state, self.reason) = (state, reason);
        if state != TapeState::Suspect
            && let Some(history) = &mut self.history
        {
            history.retry = None;
        }
        let retries = self.history.is_some_and(|history| history.retry.is_some());
        assert!(!retries || self.state == TapeState::Suspect, "only a suspect tape is tried again");
    }
}

/// Why a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunEnd {
    /// Nothing more to write for now.
    Finished,
    /// The tape's end was reached.
    TapeFull,
    /// A drive, robot or medium error.
    Failed,
    /// The server died; closed at the next start.
    Torn,
}

/// A tape session that writes: what was meant to be written, durable before the first block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunRecord {
    /// The tape.
    pub vid: Vid,
    /// The tape drive's name.
    pub drive: String,
    /// The tape pool.
    pub tape_pool: TapePoolId,
    /// The index generation at the start.
    pub generation: Generation,
    /// Where the first block goes.
    pub start: BlockAddress,
    /// When it began.
    pub started: Timestamp,
    /// How many items were planned.
    pub planned: u32,
    /// How many of them, from the first on, are flushed and committed.
    pub committed: u32,
    /// How many of them, from the first on, are under an index.
    pub indexed: u32,
    /// When and why it ended.
    pub ended: Option<(Timestamp, RunEnd)>,
}

/// One container in a run, in the order of writing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunItem {
    /// The container.
    pub container: ContainerId,
    /// Its first block.
    pub block: BlockAddress,
    /// Its blocks; the last one is short unless the length is a multiple of the block size.
    pub blocks: BlockCount,
}

/// A container waiting for a copy in a tape pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueuedContainer {
    /// Its length.
    pub length: ByteCount,
    /// Since when it waits.
    pub since: Timestamp,
}

/// A file waiting to be sealed into a container.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TodoFile {
    /// Its size.
    pub size: ByteCount,
    /// Since when it waits.
    pub since: Timestamp,
}

/// A file to be read from one tape, by the order on that tape; a file with two copies stands in two tapes'
/// sets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RecallKey {
    /// The tape.
    pub vid: Vid,
    /// The first block of the container.
    pub block: BlockAddress,
    /// Where the member's bytes begin in the container.
    pub data_offset: ByteCount,
    /// The file.
    pub file: FileId,
}

/// What is to be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecallItem {
    /// The container.
    pub container: ContainerId,
    /// Bytes of the file there.
    pub length: ByteCount,
    /// Since when it is wanted.
    pub since: Timestamp,
}

/// Files and bytes counted together.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Tally {
    /// How many.
    pub files: u64,
    /// Their bytes.
    pub bytes: ByteCount,
}

/// What is tallied.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Counter {
    /// Named files of a class: live ones and lost ones.
    Class(ClassId),
    /// Live files of a class that can be read from the pool, links and empty files among them.
    Online(ClassId),
    /// Files of a class that are not yet sealed into a container.
    Todo(ClassId),
    /// Containers queued for a tape pool.
    Queued(TapePoolId),
    /// Files wanted from a tape: rows of its recall set (a file with two copies counts on both).
    Wanted(Vid),
    /// Containers sealed so far, by kind: packs.
    PacksSealed,
    /// Flushes committed so far (`files`) and bytes flushed.
    Flushes,
    /// Data-partition indexes so far.
    Indexes,
    /// Uploads in parts that are open.
    Uploads,
    /// Quotas that are set.
    Quotas,
    /// Quotas whose files are still being counted.
    QuotasCounting,
    /// Directories with an access control list.
    Acls,
    /// Condemned trees that are still being removed.
    Trees,
}

/// Pool bytes that nobody refers to any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Garbage {
    /// A whole blob.
    Blob(base::BlobDescription),
    /// One value of a segment that holds others.
    Value(base::BlobDescription, BlobPiece),
}

impl Garbage {
    /// The blob that it is, or is in.
    #[must_use]
    pub fn blob(&self) -> base::BlobId {
        match self {
            Garbage::Blob(blob) | Garbage::Value(blob, _) => blob.id,
        }
    }
}

/// The first answer to a put, kept for repeats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IdempotencyRecord {
    /// The file that the first put made (or found).
    pub file: FileId,
    /// Digest of the first put's target path, size and content; a repeat must agree.
    pub request: [u8; 16],
    /// When.
    pub at: Timestamp,
}

/// How a request relates to a file: used by `why`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Want {
    /// The request.
    pub request: RequestId,
    /// Its item.
    pub item: u32,
}
