//! What the engine says to the doors: plain data, no HTTP, no JSON.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use base::{
    ArchivePath, BlockAddress, ByteCount, Checksums, ContainerId, DirId, Duration, FileId, Name, RequestId,
    TimeStanding, Timestamp, Vid,
};
use catalogue::{
    Attributes, ContainerKind, Entry, EvictRefusal, FileKind, RequestRecord, RequestState, TapeState,
    TimeMove,
};
use scheduler::{Expected, Reason};

/// Where a file's bytes are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Locality {
    /// In the pool only.
    Online,
    /// In the pool and on all its tapes.
    OnlineAndNearline,
    /// On tape only: stage it before reading.
    Nearline,
    /// Neither in the pool nor on a readable tape.
    Lost,
}

impl Locality {
    /// The word for it, as gfal2 has it too (`user.status`).
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Locality::Online => "ONLINE",
            Locality::OnlineAndNearline => "ONLINE_AND_NEARLINE",
            Locality::Nearline => "NEARLINE",
            Locality::Lost => "LOST",
        }
    }
}

/// How far one tape copy of (a part of) a file is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CopyInfo {
    /// The tape pool's name.
    pub tape_pool: String,
    /// `queued`, `writing`, `flushed` or `indexed` in order; see `catalogue::CopyState`.
    pub state: CopyProgress,
    /// The tape, once it is planned; of a queued copy the one that a repack takes it off, where it can still
    /// be read.
    pub vid: Option<Vid>,
    /// No library holds this tape where a robot can take it.
    pub away: bool,
    /// Where the tape is by an operator's word, if it is away and one has said so.
    pub away_as: Option<catalogue::TapeAway>,
    /// First block of the container on the data partition.
    pub block: Option<BlockAddress>,
    /// The container and what it is.
    pub container: ContainerId,
    /// Pack, file or segment.
    pub container_kind: ContainerKind,
    /// Its path in the LTFS volume.
    pub tape_path: String,
    /// Where the file's bytes begin in the container.
    pub offset: ByteCount,
    /// Bytes of the file there.
    pub length: ByteCount,
}

/// How far a tape copy is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CopyProgress {
    /// Waits for a tape.
    Queued,
    /// Planned in a running session.
    Writing,
    /// Confirmed by the drive.
    Flushed,
    /// Confirmed and under a synced index.
    Indexed,
}

/// All about a file or directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stat {
    /// A directory.
    Directory(DirectoryStat),
    /// A file.
    File(Box<FileStat>),
}

/// What a rename was looked at for, by ids: names may come to stand for something else at any time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RenameOf {
    /// The file or directory.
    pub source: Entry,
    /// The directory that it is to leave.
    pub from_parent: DirId,
    /// The directory that it is to come into.
    pub to_parent: DirId,
    /// Whether a file that has the new name is replaced.
    pub replace: bool,
}

/// All about a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirectoryStat {
    /// Its path.
    pub path: ArchivePath,
    /// When it was made.
    pub created: Timestamp,
    /// The user's attributes.
    pub attributes: Attributes,
    /// The class that it gives to files below, if it names one itself.
    pub class: Option<String>,
}

/// All about a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileStat {
    /// Its path.
    pub path: ArchivePath,
    /// Its id; a new version has a new one.
    pub file: FileId,
    /// Bytes or link.
    pub kind: FileKind,
    /// Size.
    pub size: ByteCount,
    /// When it was acknowledged.
    pub created: Timestamp,
    /// The user's attributes.
    pub attributes: Attributes,
    /// Checksums of its bytes.
    pub checksums: Checksums,
    /// Its class.
    pub class: String,
    /// Where its bytes are.
    pub locality: Locality,
    /// Its tape copies; empty until it is sealed into a container. For a segmented file one for each part and
    /// copy.
    pub copies: Vec<CopyInfo>,
    /// How many tape copies its class asks for.
    pub copies_wanted: u32,
    /// Requests that pin it, and until when; of many the oldest hundred.
    pub pins: Vec<(RequestId, Timestamp)>,
}

impl FileStat {
    /// Whether some part of it is on tapes that no library holds, and on no other: nothing can be read of it
    /// from tape before one of them is brought back.
    #[must_use]
    pub fn is_away(&self) -> bool {
        let mut by_part: BTreeMap<ContainerId, bool> = BTreeMap::new();
        for copy in self.copies.iter().filter(|copy| copy.vid.is_some()) {
            *by_part.entry(copy.container).or_insert(true) &= copy.away;
        }
        by_part.values().any(|all_away| *all_away)
    }
}

/// A line of a directory listing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// The name in the directory.
    pub name: Name,
    /// What it is.
    pub what: ListedKind,
    /// Size; 0 for a directory.
    pub size: ByteCount,
    /// The user's attributes.
    pub attributes: Attributes,
}

/// What a listed name is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ListedKind {
    /// A directory.
    Directory,
    /// A file or link.
    File {
        /// Its id.
        file: FileId,
        /// Bytes or link.
        kind: FileKind,
        /// Its class.
        class: String,
        /// Where its bytes are.
        locality: Locality,
        /// The BLAKE3 of its bytes.
        blake3: base::Blake3,
    },
}

/// What comes with a put.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PutOptions {
    /// The client's length; a body of another length is refused. `None`: unknown.
    pub length: Option<ByteCount>,
    /// The client's checksum; another one is refused before anything is committed.
    pub adler32: Option<base::Adler32>,
    /// The client's BLAKE3; likewise.
    pub blake3: Option<base::Blake3>,
    /// The user's attributes.
    pub attributes: Attributes,
    /// The class by name; `None`: the directory's, else by size.
    pub class: Option<String>,
    /// Bytes or link.
    pub link_target: Option<String>,
    /// Refuse if the name is taken.
    pub keep_existing: bool,
    /// Refuse unless this version has the name when the put is committed.
    pub if_current: Option<FileId>,
    /// What keeps the new version; the default of its bucket, if none is named.
    pub hold: Option<crate::Hold>,
    /// Mark directories that are made for it, so that a delete of the last object below removes them again.
    pub implied_parents: bool,
    /// Make missing directories.
    pub make_parents: bool,
    /// The client's idempotency key and its principal.
    pub idempotency: Option<(String, String)>,
    /// Collocation hint: files of one hint stand together on tape. `None`: the directory.
    pub dataset: Option<String>,
    /// Whose put it is, for the access log.
    pub who: Option<String>,
}

/// What a put did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PutDone {
    /// The file.
    pub file: FileId,
    /// Whether this put made it; `false` if it is a repeat or the same content.
    pub created: bool,
    /// Whether it took the name from an older version.
    pub replaced: bool,
    /// Size.
    pub size: ByteCount,
    /// Checksums.
    pub checksums: Checksums,
    /// Its class.
    pub class: String,
}

/// A request and how it stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestInfo {
    /// Its id.
    pub request: RequestId,
    /// All else.
    pub record: RequestRecord,
    /// How urgent it is, from 0 to [`catalogue::PRIORITY_MAX`].
    pub priority: u8,
}

/// One file of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestFile {
    /// Its path now.
    pub path: String,
    /// Its size.
    pub size: ByteCount,
    /// How it stands.
    pub state: catalogue::ItemState,
    /// If it failed: what keeps it from being had, as the file stands now.
    pub failure: Option<ItemFailure>,
    /// When work on it began, if it has and that is known.
    pub started: Option<Timestamp>,
    /// When it came, failed or was cancelled, if it has and that is known.
    pub ended: Option<Timestamp>,
}

/// What keeps a file of a request from being brought online.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ItemFailure {
    /// No copy of it can be read.
    Lost,
    /// It was removed, or another one stands in its place.
    Removed,
    /// Its tapes could not be read; it may be asked for again.
    NotReadable,
    /// Its path was refused when it was asked for.
    Refused,
}

impl ItemFailure {
    /// The same word for the same failure, for programs.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            ItemFailure::Lost => "lost",
            ItemFailure::Removed => "removed",
            ItemFailure::NotReadable => "not-readable",
            ItemFailure::Refused => "refused",
        }
    }
}

/// What happened to each path of an evict.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EvictDone {
    /// Files evicted.
    pub evicted: u64,
    /// Their bytes.
    pub bytes: ByteCount,
    /// Files that were not online before.
    pub already: u64,
    /// Files refused, the first `REFUSALS_SHOWN_MAX` of them.
    pub refused: Vec<(String, EvictRefusal)>,
    /// Files refused in all.
    pub refused_count: u64,
    /// How many of them for each reason; of `REFUSAL_REASONS_MAX` reasons at most, more are in the sum only.
    pub reasons: Vec<(EvictRefusal, u64)>,
    /// Which requests hold those that are refused since they are pinned, of `REFUSAL_REASONS_MAX` requests at
    /// most. A file that two requests hold counts with both.
    pub holding: BTreeMap<RequestId, Holding>,
}

/// Files that an evict leaves in the pool since a request holds them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holding {
    /// How many.
    pub files: u64,
    /// Until when the last of them is held.
    pub until: Timestamp,
}

/// Reasons of refused files that are counted apart. Only the tapes that they name make them many.
pub const REFUSAL_REASONS_MAX: usize = 100;

impl EvictDone {
    /// Counts a pin of a file that is refused for its pins.
    pub fn held(&mut self, request: RequestId, until: Timestamp) {
        let has_room = self.holding.len() < REFUSAL_REASONS_MAX;
        match self.holding.get_mut(&request) {
            Some(known) => *known = Holding { files: known.files + 1, until: known.until.max(until) },
            None if has_room => drop(self.holding.insert(request, Holding { files: 1, until })),
            None => {}
        }
    }

    /// Counts a file that is refused.
    pub fn refuse(&mut self, why: &EvictRefusal) {
        self.refused_count += 1;
        let has_room = self.reasons.len() < REFUSAL_REASONS_MAX;
        match self.reasons.iter_mut().find(|(known, _)| known == why) {
            Some((_, count)) => *count += 1,
            None if has_room => self.reasons.push((why.clone(), 1)),
            None => {}
        }
    }
}

/// A tape as operators see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TapeInfo {
    /// The tape.
    pub vid: Vid,
    /// What may be done with it.
    pub state: TapeState,
    /// Its library cannot identify it: whatever its state, nothing is written there or read.
    pub unidentified: bool,
    /// Why.
    pub reason: String,
    /// Its pool's name.
    pub tape_pool: Option<String>,
    /// The name of its library.
    pub library: String,
    /// The volume's UUID.
    pub uuid: Option<base::Uuid>,
    /// Native capacity.
    pub capacity: ByteCount,
    /// Bytes written.
    pub written: ByteCount,
    /// Bytes of committed containers.
    pub committed: ByteCount,
    /// Bytes of torn runs.
    pub torn: ByteCount,
    /// Containers.
    pub containers: u64,
    /// Newest index generation.
    pub generation: u64,
    /// Next block.
    pub end_of_data: BlockAddress,
    /// Sessions.
    pub mounts: u64,
    /// The drive it is in.
    pub drive: Option<String>,
    /// No library holds it.
    pub away: bool,
    /// It is to be exported, and goes out when its drive has given it back.
    pub leaving: bool,
    /// Where it is by an operator's word, if one has said so.
    pub away_as: Option<catalogue::TapeAway>,
    /// The import/export element in which it stands.
    pub element: Option<u32>,
    /// The key that all behind its labels is encrypted with; `None`: it stands there in clear.
    pub key: Option<base::TapeKey>,
    /// Its key, if it has one, is at hand: else nothing on it can be read now.
    pub key_at_hand: bool,
    /// Its pool writes with another key, or has none: nothing new goes to it.
    pub key_outdated: bool,
    /// Files wanted from it.
    pub wanted: catalogue::Tally,
    /// Newest change on it.
    pub changes_through: u64,
    /// Its failures, if it failed since the last session on it that went well.
    pub history: Option<catalogue::TapeHistory>,
}

/// How far the export of a tape is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TapeExport {
    /// It stands in an import/export element, from which it is taken.
    Done {
        /// The name of the library.
        library: String,
        /// The element.
        element: u32,
    },
    /// A drive has it; nothing new is begun on it, and it goes out when the drive has given it back.
    Waiting {
        /// What it waits for.
        reason: String,
        /// It has begun to wait with this call.
        begins: bool,
    },
}

/// A cartridge that stood in an import/export element.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TapeImport {
    /// The cartridge.
    pub vid: Vid,
    /// The name of the library.
    pub library: String,
    /// The element.
    pub element: u32,
    /// The slot in which it is now, or why it is not in one.
    pub slot: Result<u32, String>,
}

/// What an operator may make of a tape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TapeUse {
    /// Readable and writable again.
    Active,
    /// Readable; not to be written any more.
    ReadOnly,
    /// Not to be used at all.
    Disabled,
}

/// A container on a tape, for `tape show`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TapeContent {
    /// First block.
    pub block: BlockAddress,
    /// The container.
    pub container: ContainerId,
    /// What it is.
    pub kind: ContainerKind,
    /// Length.
    pub length: ByteCount,
    /// Path in the volume.
    pub tape_path: String,
    /// Members with a name.
    pub live_members: u32,
    /// Their bytes.
    pub live_bytes: ByteCount,
}

/// A tape drive as operators see it.
#[derive(Clone, PartialEq, Debug)]
pub struct TapeDriveInfo {
    /// Its name.
    pub name: String,
    /// `down`, `empty`, `mounting`, `idle`, `migrating`, `recalling`, `unmounting` or `cleaning`.
    pub state: String,
    /// The tape in it.
    pub vid: Option<Vid>,
    /// The tape's pool.
    pub tape_pool: Option<String>,
    /// The name of its library.
    pub library: String,
    /// Since when it does what it does; `None` if it was not used since the start.
    pub since: Option<Timestamp>,
    /// Containers or files in this session.
    pub files: u64,
    /// Bytes in this session.
    pub bytes: ByteCount,
    /// Bytes a second of this session.
    pub rate: f64,
    /// Why it is down or idle.
    pub reason: String,
    /// What it does, or why it does nothing.
    pub cause: Option<Reason>,
    /// When it has done what it does.
    pub expected: Option<Expected>,
    /// What it did in its last session that is over, if it counts.
    pub motion: Option<TapeMotionInfo>,
    /// Where it stands and what it can do.
    pub place: library::DrivePlace,
}

/// Cleaning cartridges, and what is known of the cleaning of drives.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct CleaningInfo {
    /// The cleaning cartridges in the libraries, by VID.
    pub cleaners: Vec<CleaningCartridgeInfo>,
    /// Drives that ask to be cleaned or were, by name.
    pub drives: Vec<(String, catalogue::DriveCleaning)>,
}

/// A cleaning cartridge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CleaningCartridgeInfo {
    /// Its volume identifier.
    pub vid: Vid,
    /// The name of its library.
    pub library: String,
    /// The drive that it is in.
    pub drive: Option<String>,
    /// The slot or import/export element that it is in.
    pub slot: Option<u32>,
    /// How often it was used.
    pub uses: u32,
    /// How often it is used at most; `None`: as often as an operator says.
    pub uses_max: Option<u32>,
    /// Why it is used no more.
    pub unfit: Option<String>,
}

/// What a tape drive did in a session.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TapeMotionInfo {
    /// `migrate`, `recall` or `maintain`.
    pub session: &'static str,
    /// The tape.
    pub vid: Vid,
    /// Bytes of containers or files: what it was for.
    pub bytes: ByteCount,
    /// What the drive counted meanwhile.
    pub motion: mechanics::MotionReport,
}

/// A drive of the pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolDriveInfo {
    /// Its number.
    pub id: u16,
    /// Its directory.
    pub path: String,
    /// The machine that it stands in.
    pub host: String,
    /// The group that it is in; empty: none.
    pub group: String,
    /// `up`, `full`, `draining`, `suspect`, `away`, `wiped`, `missing`, `lost` or `removed`.
    pub state: &'static str,
    /// What happened to one that is `suspect`, `away` or `wiped`, or that the settings do not name any more;
    /// else empty.
    pub reason: String,
    /// Whether it works; one that is full does.
    pub up: bool,
    /// Whether only a lack of room keeps new files from it.
    pub full: bool,
    /// It was away, or put back from an old copy, and may lack what was written after this change of the
    /// catalogue: what is missing is being looked for and written anew.
    pub gaps_after: Option<u64>,
    /// It is new, and the shards that should be on it are being written there.
    pub filling: bool,
    /// How many times as long as the others it takes, if it is much slower: new data goes to those.
    pub slow: Option<u64>,
    /// The burn-in of which its place has a record.
    pub burn_in: Option<drive::BurnInRecord>,
    /// How it is read and written, and how many reads, and how many writes, at one time; `None` if it is not
    /// there.
    pub queue: Option<(drive::QueueEngine, usize)>,
    /// How far it is emptied, if it is to be.
    pub drain: Option<crate::DrainInfo>,
    /// On which disk it is, as far as that was ever told.
    pub disk: Option<crate::DriveDiskInfo>,
    /// Bytes it can hold.
    pub capacity: ByteCount,
    /// Bytes used by Kist.
    pub used: ByteCount,
    /// Bytes read since the start.
    pub read: ByteCount,
    /// Bytes written since the start.
    pub written: ByteCount,
    /// Errors since the start.
    pub errors: u64,
}

/// The pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolInfo {
    /// Data shards.
    pub data: u8,
    /// Local parity shards; 0 if the code is Reed-Solomon.
    pub local_parity: u8,
    /// Parity shards of all data.
    pub parity: u8,
    /// Copies of a small value.
    pub segment_copies: u8,
    /// Why new files are refused, if they are.
    pub refuses: Option<crate::HealthProblem>,
    /// The drives.
    pub drives: Vec<PoolDriveInfo>,
    /// Files in the pool.
    pub online: catalogue::Tally,
    /// Cells rebuilt on read since the start.
    pub reconstructed: u64,
    /// Blobs or values that wait for removal.
    pub garbage: u64,
    /// What small values take, as last measured; `None`: not yet since the start.
    pub small: Option<crate::SegmentUse>,
    /// What leaves it by itself.
    pub evictor: crate::EvictorInfo,
    /// How far the rebuild is that is under way; `None`: none is.
    pub rebuild: Option<crate::RebuildInfo>,
    /// How far a rebalance is, or the last one since the start came; `None`: there was none.
    pub rebalance: Option<crate::RebalanceInfo>,
    /// How far a change of code is, or the last one since the start came; `None`: there was none.
    pub recoding: Option<crate::RecodingInfo>,
    /// The groups of drives.
    pub groups: Vec<crate::GroupInfo>,
}

/// A storage class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClassInfo {
    /// Its name.
    pub name: String,
    /// Files up to this size get it if neither client nor directory name one; `None`: any size.
    pub up_to: Option<ByteCount>,
    /// The tape pools, one a copy.
    pub copies: Vec<String>,
    /// Pack limit.
    pub pack_bytes: ByteCount,
    /// Files from this size on are containers of their own.
    pub large_bytes: ByteCount,
    /// Live files.
    pub live: catalogue::Tally,
    /// Of those in the pool.
    pub online: catalogue::Tally,
    /// Not in a container yet.
    pub todo: catalogue::Tally,
    /// Its files leave the pool as soon as all their copies are on tape.
    pub cold: bool,
    /// Which drives hold its files.
    pub placing: crate::PlacingSettings,
    /// Recalls bring no more of it into the pool than leaves it at this.
    pub pool_max: Option<ByteCount>,
    /// Which of its files leave the pool by themselves.
    pub leaving: crate::LeavingSettings,
}

/// A line of `kist queue`: something that waits, how much, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueLine {
    /// `seal CLASS`, `migrate TAPEPOOL`, `recall VID`, `repack VID`, `repair`.
    pub what: String,
    /// Files or containers.
    pub items: u64,
    /// Their bytes.
    pub bytes: ByteCount,
    /// Since when the oldest waits; of a very long queue, of its first ones.
    pub oldest: Option<Timestamp>,
    /// How long that is.
    pub age: Option<Duration>,
    /// Why it waits.
    pub reason: String,
    /// The same for programs.
    pub cause: Option<Reason>,
    /// When all of it is done.
    pub expected: Option<Expected>,
}

/// One reason why something waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cause {
    /// In words.
    pub text: String,
    /// For programs; `None`: no machine is waited for.
    pub reason: Option<Reason>,
    /// When it is over.
    pub expected: Option<Expected>,
}

/// What `kist why` is asked about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum About {
    /// A file or directory.
    Path(base::ArchivePath),
    /// A request.
    Request(base::RequestId),
    /// A tape.
    Tape(Vid),
    /// A tape drive.
    Drive(String),
    /// A tape pool: what waits to be written to its tapes.
    TapePool(String),
    /// A storage class: what waits to be gathered, and for its tape pools.
    Class(String),
}

/// How far a request is and what is to come.
#[derive(Clone, PartialEq, Debug)]
pub struct RequestOutlook {
    /// Files that are still waited for.
    pub waiting: u64,
    /// Files that were looked at for `expected` and `tail`.
    pub looked_at: u64,
    /// Bytes that came online a second since the request was made.
    pub rate: f64,
    /// When the last file is online; `None` if nothing can be said or nothing is waited for.
    pub expected: Option<Expected>,
    /// At most ten files that come last, the last first.
    pub tail: Vec<TailFile>,
}

/// A file that a request waits for to the last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TailFile {
    /// Its path now.
    pub path: String,
    /// Its bytes.
    pub size: ByteCount,
    /// The tape that is to deliver it, or all that could.
    pub tapes: Vec<Vid>,
    /// Why it is not online.
    pub reason: Reason,
    /// When it and those like it are online.
    pub expected: Option<Expected>,
}

/// Counters since the start of the server, for summaries and metrics.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Totals {
    /// Live files and bytes of all classes.
    pub live: catalogue::Tally,
    /// Of those in the pool.
    pub online: catalogue::Tally,
    /// What could be evicted of that, and who holds the rest.
    pub holders: crate::PoolHolders,
    /// Lines of the queue that wait until somebody does something about it; the first ones.
    pub stuck: Vec<QueueLine>,
    /// Files that are LOST.
    pub lost: crate::LostFilesInfo,
    /// Files not in a container yet.
    pub todo: catalogue::Tally,
    /// Containers waiting for a tape, over all tape pools: one that waits for two counts twice.
    pub queued: catalogue::Tally,
    /// Files that somebody waits for, each once, on however many tapes it has copies.
    pub wanted: catalogue::Tally,
    /// Containers on tapes that are repacked.
    pub repacked: u64,
    /// Damaged copies of containers whose bytes are being had from other tapes.
    pub repairs: catalogue::Tally,
    /// Containers flushed but not under an index yet.
    pub unindexed: u64,
    /// Mounts of all tapes, ever.
    pub mounts: u64,
    /// Packs sealed, ever.
    pub packs: u64,
    /// Synchronous flushes committed, ever, and the bytes they covered.
    pub flushes: catalogue::Tally,
    /// Data-partition indexes written, ever.
    pub indexes: u64,
    /// Bytes on tape, indexes and garbage included.
    pub tape_written: ByteCount,
    /// Size of the file systems of the pool's drives, those that several drives share counted for each.
    pub pool_capacity: ByteCount,
    /// What is taken of it, by whomever.
    pub pool_used: ByteCount,
    /// Drives of the pool.
    pub pool_drives: u64,
    /// Of those, such that work; full ones do.
    pub pool_drives_up: u64,
    /// Of these, such that take no new files only because they are full.
    pub pool_drives_full: u64,
    /// What an operator should know, in words; empty if all is well.
    pub warnings: Vec<String>,
    /// What keeps the server from taking changes; in words it is among the warnings.
    pub problems: Vec<crate::HealthProblem>,
    /// How far a restored catalogue was compared with pool and tapes; `None` if that is no matter.
    pub settling: Option<crate::SettlingInfo>,
    /// How the trusted time and the system's clock stand to each other; `None` if only one is kept.
    pub clock: Option<TimeStanding>,
    /// What the engine's threads do.
    pub threads: Vec<crate::WorkerInfo>,
}

/// What is known of the time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClockInfo {
    /// Both clocks.
    pub standing: TimeStanding,
    /// Since when, in trusted time, the difference puts the time in doubt.
    pub doubted: Option<Timestamp>,
    /// The next start goes back to this time.
    pub planned_back: Option<Timestamp>,
    /// When the time leapt after a doubt, oldest first.
    pub moves: Vec<TimeMove>,
}

/// Paths of a stage, evict or release.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Selection {
    /// Files or directories.
    pub paths: Vec<ArchivePath>,
    /// Take all files below directories; without it a directory is an error.
    pub recursive: bool,
}

/// How a request is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StageOptions {
    /// Who asks.
    pub owner: String,
    /// For how long the files are pinned once online.
    pub pin: Duration,
    /// How urgent it is, from 0 to [`catalogue::PRIORITY_MAX`]; usually [`catalogue::PRIORITY_USUAL`].
    pub priority: u8,
}

/// Whether a request has ended.
#[must_use]
pub fn has_ended(state: RequestState) -> bool {
    matches!(state, RequestState::Completed | RequestState::Cancelled | RequestState::Forgetting)
}

/// How far a call over many files is; whoever gave it may look while it runs.
#[derive(Default, Debug)]
pub struct CallProgress {
    /// Files that were looked at so far.
    files: AtomicU64,
    /// The request that it fills; 0 while there is none.
    request: AtomicU64,
    /// Bytes of a log that were read, and that there are.
    bytes: AtomicU64,
    bytes_total: AtomicU64,
}

impl CallProgress {
    /// Bytes of a log that were read, and that there are; 0 of 0 if none is read.
    #[must_use]
    pub fn bytes(&self) -> (u64, u64) {
        (self.bytes.load(Ordering::Relaxed), self.bytes_total.load(Ordering::Relaxed))
    }

    /// So many bytes of a log were read, of so many; of none nothing is told.
    pub fn reads(&self, (bytes, total): (u64, u64)) {
        if total > 0 {
            self.bytes.store(bytes, Ordering::Relaxed);
            self.bytes_total.store(total, Ordering::Relaxed);
        }
    }

    /// Files that were looked at so far.
    #[must_use]
    pub fn files(&self) -> u64 {
        self.files.load(Ordering::Relaxed)
    }

    /// The request that it fills, once there is one.
    #[must_use]
    pub fn request(&self) -> Option<RequestId> {
        Some(RequestId(self.request.load(Ordering::Relaxed))).filter(|request| request.0 > 0)
    }

    /// So many more were looked at.
    pub fn add_files(&self, files: usize) {
        self.files.fetch_add(files as u64, Ordering::Relaxed);
    }

    /// It fills this request.
    pub fn fills(&self, request: RequestId) {
        self.request.store(request.0, Ordering::Relaxed);
    }
}
