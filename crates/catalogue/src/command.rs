//! Every change of the catalogue is one of these commands. They are deterministic: time comes with the
//! envelope, ids are drawn from the catalogue's own counters, nothing else is read.

use base::{
    Blake3, BlobDescription, BlobId, BlobPiece, BlockAddress, ByteCount, ClassId, ContainerId, DirId,
    DriveId, Duration, Epoch, FailureCause, FileId, Generation, Name, PercentPoints, RequestId, RunId,
    StripeCode, StripeSet, StripeSetId, TapeKey, TapePoolId, Timestamp, UploadId, Uuid, Vid,
};

mod envelope;
mod file;
mod limits;
mod outcome;
mod request;
mod seal;
mod tape;
mod upload;
mod work;

pub use envelope::Envelope;
pub use file::{CloneFile, PartsRecalled, PoolCopy, PoolData, PutFile, PutObject, RecallDone, Replace};
pub use limits::{
    BATCH_FILES_MAX, BULK_FILES, CONTAINER_MEMBERS_MAX, IDEMPOTENCY_KEPT, KEPT_PATH_BYTES_MAX,
    OPEN_REQUESTS_MAX, PRIORITY_MAX, PRIORITY_USUAL, QUOTAS_MAX, REQUEST_FILES_MAX, REQUEST_PATHS_MAX,
    SEGMENTS_MAX, TREE_ROWS_LOOKED_MAX, TREES_MAX, UNKNOWN_BATCH_MAX,
};
pub use outcome::{EvictRefusal, Outcome, PoolLoss, PutOutcome, Removal, RemovedFile, Requeue};
pub use request::{AskedFor, AskedPath};
pub use seal::{OpenPack, SealContainer};
pub use tape::{AdoptContainer, PlannedContainer, TapeFound};
pub use upload::{
    ABORT_PARTS_MAX, BUCKET_UPLOADS_MAX, CompleteUpload, OpenUpload, PARTS_MAX, PutPart, UPLOADS_MAX,
    completion_key,
};
pub use work::Work;

use crate::record::{
    AclEntry, Attributes, AwayKind, BucketSettings, DriveDisk, Entry, Hold, LifecycleCursor, MemberRecord,
    PoolDriveState, QuotaLimits, QuotaSubject, Rule, RunEnd, TapeState, UnknownExtent, UnneededSectors,
};

/// All commands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Makes a new catalogue: root directory and instance id. Only on an empty store.
    Initialise {
        /// The instance.
        instance: Uuid,
    },
    /// A writer starts: the epoch rises by one. Runs left open by the last writer are not touched.
    OpenEpoch,
    /// Makes a tape pool known, or finds it by name.
    DefineTapePool {
        /// Its name, 1 to 32 bytes.
        name: String,
    },
    /// Makes a storage class known, finds it by name, or changes the tape pools of copies sealed from now on.
    DefineClass {
        /// Its name.
        name: String,
        /// The tape pools that get a copy each.
        copies: Vec<TapePoolId>,
    },
    /// Makes a directory.
    MakeDirectory {
        /// Where.
        parent: DirId,
        /// Its name.
        name: Name,
        /// The user's attributes.
        attributes: Attributes,
        /// The class of files below that name none.
        class: Option<ClassId>,
    },
    /// Commits a file whose bytes are safe in the pool. After this command is durable the put is
    /// acknowledged.
    PutFile(Box<PutFile>),
    /// Changes a name, of a file or of a directory with all below it; data never moves.
    Rename {
        /// From this directory.
        from_parent: DirId,
        /// This name.
        from_name: Name,
        /// To this directory.
        to_parent: DirId,
        /// This name.
        to_name: Name,
        /// If the new name is a file (a directory is never replaced).
        replace: Replace,
    },
    /// The same, refused unless the name is that of this file or directory.
    RenameEntry {
        /// What is meant.
        source: Entry,
        /// From this directory.
        from_parent: DirId,
        /// This name.
        from_name: Name,
        /// To this directory.
        to_parent: DirId,
        /// This name.
        to_name: Name,
        /// If the new name is a file (a directory is never replaced).
        replace: Replace,
    },
    /// Deletes a file's name and condemns its version.
    RemoveFile {
        /// The directory.
        parent: DirId,
        /// The name.
        name: Name,
    },
    /// Deletes an empty directory.
    RemoveDirectory {
        /// The directory it stands in.
        parent: DirId,
        /// Its name.
        name: Name,
    },
    /// Takes a container id.
    ReserveContainer,
    /// Fixes what a container holds and queues it for each tape pool of its class.
    SealContainer(Box<SealContainer>),
    /// Begins to seal a pack in pieces. It waits for no tape until it is closed.
    OpenPack(Box<OpenPack>),
    /// Makes files the next members of a pack that is being sealed, in the order of their offsets.
    AddMembers {
        /// The pack.
        container: ContainerId,
        /// The members, at most `BATCH_FILES_MAX`.
        members: Vec<MemberRecord>,
    },
    /// Ends the sealing of a pack that has all its members: it waits for its tapes.
    ClosePack {
        /// The pack.
        container: ContainerId,
    },
    /// Makes a cartridge of the library known; no effect if it is.
    RegisterTape {
        /// The tape.
        vid: Vid,
        /// Native capacity of its data partition.
        capacity: ByteCount,
    },
    /// Gives a scratch tape to a pool, before its labels are written.
    AssignTape {
        /// The tape.
        vid: Vid,
        /// The tape pool.
        tape_pool: TapePoolId,
        /// The UUID that its labels will carry.
        uuid: Uuid,
    },
    /// The labels and first indexes are on tape and synced.
    TapeLabelled {
        /// The tape.
        vid: Vid,
        /// The generation of its first index.
        generation: Generation,
        /// Where that index begins on the data partition.
        index_block: BlockAddress,
        /// Where the next block goes.
        end_of_data: BlockAddress,
    },
    /// An operator or Kist itself changes what may be done with a tape.
    SetTapeState {
        /// The tape.
        vid: Vid,
        /// The new state; Active only from Full, ReadOnly, Suspect or Disabled of a labelled tape, Scratch
        /// from those of an unlabelled one, and so Labelling, if it was assigned: it keeps pool and UUID.
        state: TapeState,
        /// Why.
        reason: String,
    },
    /// A tape was mounted: counts.
    CountMount {
        /// The tape.
        vid: Vid,
    },
    /// The durable intent to write: before the first block of a session.
    BeginRun {
        /// The tape, Active and without an open run.
        vid: Vid,
        /// The tape drive.
        drive: String,
        /// Where the first block will go; must be the tape's recorded end of data.
        start: BlockAddress,
    },
    /// As `BeginRun`, on a tape to which no container is written any more: only the catalogue's history and
    /// indexes are. The tape stays in its state.
    BeginHistoryRun {
        /// The tape, Full, or Repacking and without containers; without an open run.
        vid: Vid,
        /// The tape drive.
        drive: String,
        /// Where the first block will go; must be the tape's recorded end of data.
        start: BlockAddress,
    },
    /// More containers for an open run, durable before their first block. Their blocks follow one another.
    AppendToRun {
        /// The run.
        run: RunId,
        /// In order.
        containers: Vec<PlannedContainer>,
    },
    /// The drive confirmed a synchronous flush past the first `committed` items, and their checksums agreed.
    CommitRun {
        /// The run.
        run: RunId,
        /// Items from the first on that are safe.
        committed: u32,
        /// End of data now.
        end_of_data: BlockAddress,
        /// Bytes written to the data partition since the run's last commit or index.
        written: ByteCount,
    },
    /// An index of the data partition is synced; it covers all committed items.
    IndexWritten {
        /// The run.
        run: RunId,
        /// Its generation, higher than the tape's last.
        generation: Generation,
        /// Where it begins.
        index_block: BlockAddress,
        /// End of data behind it.
        end_of_data: BlockAddress,
        /// Bytes written since the run's last commit or index.
        written: ByteCount,
        /// The ranges of changes, first and last, whose segments stand before this index and before no
        /// earlier one; ascending, not overlapping, at most [`SEGMENTS_MAX`].
        changes: Vec<(u64, u64)>,
    },
    /// Ends a run. Items planned but not committed go back to their queue; Flushed items that no index
    /// covers stay Flushed.
    EndRun {
        /// The run.
        run: RunId,
        /// Why.
        end: RunEnd,
        /// What the tape is from now on: Active, Full, ReadOnly or Suspect.
        tape_state: TapeState,
        /// Why, if not Active.
        reason: String,
        /// End of data, if known.
        end_of_data: Option<BlockAddress>,
        /// Bytes on tape that belong to no committed item.
        torn: ByteCount,
    },
    /// Opens a recall request.
    OpenRequest {
        /// Who asks.
        owner: String,
        /// For how long files are pinned once online.
        pin: Duration,
    },
    /// Adds files to a request that is being filled. Files that are online are done (and pinned) at once.
    AddToRequest {
        /// The request.
        request: RequestId,
        /// The files; live, each once in a request (repeats are ignored).
        files: Vec<FileId>,
    },
    /// No more files will be added.
    CloseRequest {
        /// The request.
        request: RequestId,
    },
    /// Cancels what still waits in a request and gives back its pins, at most [`BATCH_FILES_MAX`] items at a
    /// time: to be given again while the outcome is `More(true)`. From the first batch on the request takes
    /// no more files; a cancel that was interrupted goes on where it was.
    CancelRequest {
        /// The request.
        request: RequestId,
    },
    /// Gives back the pins of some or all files of a request.
    Release {
        /// The request.
        request: RequestId,
        /// Which files; `None`: all, of a request with no more than [`BATCH_FILES_MAX`].
        files: Option<Vec<FileId>>,
    },
    /// Files in the pool were used in the hour of this change. Those that were deleted or left the pool
    /// meanwhile are skipped.
    NoteUse {
        /// The files, at most [`BATCH_FILES_MAX`].
        files: Vec<FileId>,
    },
    /// Does a part of work that may be long: what the command named would do, with at most `most` items
    /// instead of [`BATCH_FILES_MAX`].
    DoSome {
        /// What.
        work: Work,
        /// At least 1, at most [`BATCH_FILES_MAX`].
        most: u32,
    },
    /// Deletes the record of a request that has ended, with its items and pins, at most [`BATCH_FILES_MAX`]
    /// items at a time: to be given again while the outcome is `More(true)`.
    ForgetRequest {
        /// The request.
        request: RequestId,
    },
    /// Recalled files are in the pool, synced and verified. Files that were deleted or came online meanwhile
    /// are skipped.
    RecallDone(Box<RecallDone>),
    /// As [`Command::RecallDone`], with parts of files that are larger than a tape. A part becomes the image
    /// of its container and is read from no other tape; with the last one the file is online, its pieces in
    /// the order of their offsets. A part for which nobody waits any more is skipped.
    PartsRecalled(Box<PartsRecalled>),
    /// What stands at this place of a tape cannot be read from there: who waits for it waits for its other
    /// copies, and fails if there is none. As [`Command::RecallCopyFailed`], of a part of a file.
    RecallPlaceFailed {
        /// The tape.
        vid: Vid,
        /// First block of the container.
        block: BlockAddress,
        /// Why.
        reason: String,
    },
    /// A file cannot be read from any of its copies; its waiting items fail.
    RecallFailed {
        /// The file.
        file: FileId,
        /// Why, for the user.
        reason: String,
    },
    /// One copy of a file cannot be read for now: it leaves that tape's set; the other copies stay wanted.
    RecallCopyFailed {
        /// The file.
        file: FileId,
        /// The tape that could not give it.
        vid: Vid,
        /// Why.
        reason: String,
    },
    /// Removes files from the pool; each only if all its tape copies are under an index, no pin holds it and,
    /// by [`Rule::ReadableIfEvicted`], tapes that can give it have all of it.
    Evict {
        /// The files.
        files: Vec<FileId>,
    },
    /// Removes pins that ran out at or before the envelope's time; at most `BATCH_FILES_MAX` of them.
    ExpirePins,
    /// Drops answers kept longer than `IDEMPOTENCY_KEPT`; at most `BATCH_FILES_MAX` of them.
    ExpireIdempotency,
    /// The pool has removed this garbage.
    GarbageRemoved {
        /// Whole blobs.
        blobs: Vec<BlobId>,
        /// Single values of segments.
        values: Vec<BlobPiece>,
    },
    /// The pool has removed values of segments, and given back pages in which nothing is needed any more.
    ValuesRemoved {
        /// The values.
        values: Vec<BlobPiece>,
        /// What is unneeded from now on of pages in which they lay; at most 100,000 with the values.
        pages: Vec<UnneededSectors>,
    },
    /// Drops changes up to this one from the change log, at most 100,000 of them; they stand elsewhere.
    TrimChanges {
        /// The last one to drop.
        through: u64,
    },
    /// The shards of one stripe stand on another set of drives now, synced. Refused if the stripe's set is
    /// not `from`, or the blob is not in use.
    MoveStripe {
        /// The blob.
        blob: BlobId,
        /// The stripe's number.
        stripe: u32,
        /// The set it stood on.
        from: StripeSetId,
        /// The set it stands on; recorded if new.
        to: StripeSet,
    },
    /// A segment has further copies, synced: on the drives behind those of the set on which it stood, which
    /// stay the first. Refused if it stands on another one, or is not in use.
    CopySegment {
        /// The segment.
        blob: BlobId,
        /// The set it stood on.
        from: StripeSetId,
        /// The set it stands on; recorded if new.
        to: StripeSet,
    },
    /// A striped blob was written anew, synced: its extents have another id now, which none had before, and
    /// perhaps another code. Refused if it stands as something else than `from`, or is not in use.
    BlobRecoded {
        /// What its extents were known by, if not by its own id.
        from: Option<BlobId>,
        /// How it stands now.
        to: BlobDescription,
    },
    /// As [`Command::PoolCopiesLost`], whatever the files have in the pool by then and whatever state their
    /// tapes have: only in change logs of a Kist of before.
    PoolCopyLost {
        /// The files, at most [`BATCH_FILES_MAX`].
        files: Vec<FileId>,
    },
    /// As [`Command::PoolCopiesFound`], whatever the files have in the pool by then: only in change logs of a
    /// Kist of before.
    PoolCopyFound {
        /// The files, at most [`BATCH_FILES_MAX`].
        files: Vec<FileId>,
    },
    /// The pool cannot give these copies. If every byte of the file is in containers with a place under a
    /// synced index on a tape that is neither suspect nor disabled, the pieces become garbage and the file is
    /// NEARLINE; else the file is lost, its pieces are kept, and it waits no more to be sealed. Given again
    /// for a lost file, it is decided anew: a copy may have come to tape meanwhile, or a tape be in use
    /// again. Pins stay. A file that has another copy in the pool by now is not concerned.
    PoolCopiesLost {
        /// What was looked at, of at most [`BATCH_FILES_MAX`] files.
        copies: Vec<PoolCopy>,
    },
    /// These copies were read whole from the pool again: lost files that have them still become live, and
    /// wait to be sealed as far as they are not. Others are passed over.
    PoolCopiesFound {
        /// What was looked at, of at most [`BATCH_FILES_MAX`] files.
        copies: Vec<PoolCopy>,
    },
    /// The copy at this place cannot be read. Nothing is expected there any more: its recall rows go, and
    /// items that no copy serves fail. The present place of a copy goes back to the queue, its source is
    /// kept; a source is dropped. NEARLINE members of a container without any readable place are lost. A
    /// container without named or condemned members is not written again: the copy is dropped. No effect if
    /// the container has no copy at this place.
    CopyDamaged {
        /// The container.
        container: ContainerId,
        /// The tape.
        vid: Vid,
        /// First block of the copy.
        block: BlockAddress,
        /// Why, for those who wait.
        reason: String,
    },
    /// As [`Command::CopyDamaged`], but refused if a member would be lost by it, or left to tapes that are
    /// set aside: the bytes were in the pool when the place was looked at, and may have been evicted since.
    GiveUpPlace {
        /// The container.
        container: ContainerId,
        /// The tape.
        vid: Vid,
        /// First block of the copy.
        block: BlockAddress,
        /// Why, for those who wait.
        reason: String,
    },
    /// The container's whole bytes are in the pool. Refused if it has an image, or nothing is left to be
    /// written.
    StoreImage {
        /// The container.
        container: ContainerId,
        /// One piece, as long as the container.
        image: PoolData,
    },
    /// A damaged copy is to be written again and the container's whole bytes are in the pool: both are
    /// recorded, or neither, so that no copy is given up before its bytes are safe. Refused like
    /// [`Command::StoreImage`].
    MendCopy {
        /// The container.
        container: ContainerId,
        /// The tape of the damaged copy.
        vid: Vid,
        /// First block of that copy.
        block: BlockAddress,
        /// Why, for those who wait.
        reason: String,
        /// One piece, as long as the container.
        image: PoolData,
    },
    /// As [`Command::ImageLost`], whichever image the container has by then: only in change logs of a Kist
    /// of before.
    DropImage {
        /// The container.
        container: ContainerId,
    },
    /// A container's image cannot be read: its piece becomes garbage. No effect if the container has another
    /// image by now, or none.
    ImageLost {
        /// The container.
        container: ContainerId,
        /// What was looked at.
        image: BlobPiece,
    },
    /// A repack takes a container's copy off a tape: its place under an index becomes the copy's source, and
    /// the copy is queued. The copy of a container without named or condemned members is dropped instead.
    /// Refused for a copy that no index covers, while the copy has a source already, and while the tape has
    /// an open run.
    RequeueCopy {
        /// The container.
        container: ContainerId,
        /// The tape.
        vid: Vid,
    },
    /// A copy that is queued, and whose source stands on the tape that would be written, stays where it is:
    /// the source is its place under an index again. No effect if it is not queued, or has no source there.
    KeepCopy {
        /// The container.
        container: ContainerId,
        /// The tape.
        vid: Vid,
    },
    /// Nobody needs a container any more ([`crate::ContainerRecord::is_unneeded`]): those of its copies that
    /// are queued are not written. One with a source stands there under an index again, any other one is
    /// dropped. No effect if none is queued. Refused if a file of it has a name, and if no copy would be
    /// left: then it is given up ([`Command::DissolvePack`]).
    DropUnneededCopies {
        /// The container.
        container: ContainerId,
    },
    /// The copy under an index at this place was read back and agreed: its source is released. No effect if
    /// it is not there or has no source.
    CopyVerified {
        /// The container.
        container: ContainerId,
        /// The tape.
        vid: Vid,
        /// First block of the copy.
        block: BlockAddress,
    },
    /// A labelled tape without containers and open run becomes scratch; what the next labelling destroys is
    /// recorded in `replaces`. How often it was mounted is kept.
    ReclaimTape {
        /// The tape: Repacking, Full, ReadOnly, Suspect or Disabled.
        vid: Vid,
    },
    /// An operator says where a tape is that no library holds, or that it is here again.
    SetTapeAway {
        /// The tape, not in a run.
        vid: Vid,
        /// How it came to be away; `None`: it is here.
        kind: Option<AwayKind>,
        /// Where it is; at most [`TapeAway::PLACE_MAX`](crate::TapeAway::PLACE_MAX) bytes, empty if it is
        /// here.
        place: String,
    },
    /// With which key all behind the labels of a tape is encrypted. Said before it is labelled, or when a
    /// labelled tape is found to be encrypted of which the catalogue did not know that.
    SetTapeKey {
        /// The tape: Labelling, or labelled with no key known or this one.
        vid: Vid,
        /// The key; `None`: in clear.
        key: Option<TapeKey>,
    },
    /// What an empty tape holds: its medium's name promises it, and the drive that labels it says what is
    /// true. Of tapes that are scratch also what the one labelled last has shown of their medium.
    SetTapeCapacity {
        /// The tape, not retired.
        vid: Vid,
        /// Native capacity of its data partition, more than 0.
        capacity: ByteCount,
    },
    /// Whether a key of tapes can be had now. Without this word, since the newest [`Command::OpenEpoch`], it
    /// cannot: nothing is given up on the word of an earlier start. By [`Rule::KeyAtHand`](crate::Rule) a
    /// tape can give nothing while its key cannot be had.
    SetKeyAtHand {
        /// The key.
        key: TapeKey,
        /// Whether it was found when it was asked for last.
        at_hand: bool,
    },
    /// A tape is to be exported as soon as no drive has it, or not any more.
    SetTapeLeaving {
        /// The tape.
        vid: Vid,
        /// Whether it is to be exported.
        leaving: bool,
    },
    /// A tape that may be reclaimed, or was never labelled, is never used again. As with a reclaim
    /// `replaces` tells which volume is on it.
    RetireTape {
        /// The tape: as for [`Command::ReclaimTape`], or Scratch, or unlabelled and Suspect or Disabled.
        vid: Vid,
    },
    /// A retired tape is scratch again.
    AddTape {
        /// The tape.
        vid: Vid,
    },
    /// As `CommitRun` for items of a torn run: they were read back and agreed. Their bytes count as written.
    AdoptRun {
        /// The run.
        run: RunId,
        /// Items from the first on that are safe.
        committed: u32,
        /// End of data, as the drive found it.
        end_of_data: BlockAddress,
    },
    /// The first command on a restored or rebuilt catalogue: the next epoch is higher than `epoch` and than
    /// any the catalogue knows; blobs of those epochs are quarantined; the next ids, change numbers among
    /// them, go on behind the next multiple of 2^32 above them all and above `seen`, so that none that the
    /// lost history used is given again. Open runs stay open.
    AcceptRestore {
        /// The highest epoch that pool or tapes know of.
        epoch: Epoch,
        /// The newest change of the catalogue; refused if it is another: so a history that is replayed from
        /// tapes follows the one line of changes that led here.
        after: u64,
        /// The highest change that pool or tapes have seen, of whatever history.
        seen: u64,
    },
    /// A tape holds a volume, or a newer index of the one that is known, of which the restored catalogue
    /// does not know. The tape is only read from now on. Refused unless the catalogue is restored and not
    /// settled; of another volume than the one that is known, unless no container is said to stand on the
    /// tape.
    TapeFound(TapeFound),
    /// A container stands on tapes at places that the restored catalogue does not know. Its queued copies
    /// get them; one that is not known is taken over with the members that are named. Those leave
    /// containers that stand on no tape; lost ones are decided anew. Refused unless the catalogue is
    /// restored and not settled.
    AdoptContainer(Box<AdoptContainer>),
    /// A restored catalogue agrees with pool and tapes again.
    RestoreSettled,
    /// Blobs that the catalogue does not know may be removed again.
    EndQuarantine,
    /// A pack that no tape has cannot be written: the pool does not give its skeleton or one of its members;
    /// or no file of a container has a name any more ([`crate::ContainerRecord::is_unneeded`]).
    /// It is given up, with its skeleton. Its live members that are in the pool wait to be sealed anew, as
    /// far as their class goes to tape; condemned ones are gone. Refused unless it is a pack, the container
    /// of a file that is in the pool, which no tape takes, or needed by nobody; without an image, and all
    /// copies queued without a source.
    DissolvePack {
        /// The container.
        container: ContainerId,
    },
    /// An operator takes a tape drive out of use, or gives it back to use; the last word counts. No effect if
    /// it says what is recorded.
    SetDriveDown {
        /// The drive's name, 1 to 128 bytes.
        drive: String,
        /// Why it is out of use; `None`: it is in use.
        down: Option<String>,
    },
    /// An operator has a drive of the pool emptied, takes it out, or gives it back to use. No effect if that
    /// is recorded. Whoever takes it out looks afterwards whether a stripe stands on it: from this change on
    /// no other can come to.
    SetPoolDrive {
        /// The drive.
        drive: DriveId,
        /// What is wanted of it; `None`: it is in use.
        state: Option<PoolDriveState>,
    },
    /// It is known on which disk a drive of the pool is, or what became of that; the last word counts. No
    /// effect if that is recorded.
    SetDriveDisk {
        /// The drive.
        drive: DriveId,
        /// What is known; `None`: nothing any more.
        disk: Option<DriveDisk>,
    },
    /// An operator has what is stored moved between the drives of the pool until they are about equally full,
    /// or that has ended, by itself or by an operator's word. No effect if that is recorded.
    SetRebalance {
        /// How far apart the fullest and the emptiest may be; `None`: nothing is moved.
        to: Option<PercentPoints>,
    },
    /// An operator has what is stored in other codes written anew, or that has ended, by itself or by an
    /// operator's word. No effect if that is recorded.
    SetRecoding {
        /// The code; `None`: what is stored stays as it is.
        to: Option<StripeCode>,
    },
    /// A tape drive asks to be cleaned (`urgent`: before it is used), or does not any more; the last word
    /// counts, and one that asks goes on asking since when it first did, or first had to be cleaned.
    SetDriveCleaning {
        /// The drive's name, 1 to 128 bytes.
        drive: String,
        /// Whether it must be cleaned before it is used; `None`: it does not ask.
        urgent: Option<bool>,
    },
    /// A cleaning cartridge is about to be brought into a drive: a use is counted, whatever comes of it; or
    /// what was counted of it is forgotten.
    CountCleaning {
        /// The cleaning cartridge.
        vid: Vid,
        /// Forgotten, by an operator's word, so that it is used again: the next use is its first.
        anew: bool,
    },
    /// A use that [`Command::CountCleaning`] has counted was none: the cleaning cartridge did not come into
    /// the drive. No effect if none is counted.
    UncountCleaning {
        /// The cleaning cartridge.
        vid: Vid,
    },
    /// The cleaning of a drive ended.
    CleaningEnded {
        /// The cleaning cartridge.
        vid: Vid,
        /// The drive, as in `SetDriveCleaning`.
        drive: String,
        /// Why the cartridge is used no more; `None`: the drive is clean, and asks no more.
        unfit: Option<String>,
    },
    /// How urgent a request is; the last word counts. Refused once the request has ended.
    SetRequestPriority {
        /// The request.
        request: RequestId,
        /// From 0 to [`PRIORITY_MAX`]; a request of which nothing is said has [`PRIORITY_USUAL`].
        priority: u8,
    },
    /// Files of a request are needed no more: pins on those that have come are given back, and those that are
    /// waited for still get none when they come.
    Unpin {
        /// The request.
        request: RequestId,
        /// At most [`BATCH_FILES_MAX`].
        files: Vec<FileId>,
    },
    /// Opens a request that names paths one by one: refused ones stay in it, with why. At most
    /// [`OPEN_REQUESTS_MAX`] of one owner, until they end.
    OpenPathRequest {
        /// Who asks.
        owner: String,
        /// For how long files are pinned once online, if nothing else is said of them.
        pin: Duration,
    },
    /// Adds paths to such a request while it is being filled. A file that does not exist any more is refused
    /// by itself, the command is not. Refused if all paths that requests of this owner keep would have more
    /// than [`KEPT_PATH_BYTES_MAX`] bytes ([`Rule::PathsCounted`](crate::Rule)).
    AddPaths {
        /// The request.
        request: RequestId,
        /// At most [`BATCH_FILES_MAX`].
        paths: Vec<AskedPath>,
    },
    /// No more paths will be added. If the same submission stands for a request that has not ended, that one
    /// is the outcome, and nothing is changed.
    ClosePathRequest {
        /// The request.
        request: RequestId,
        /// What stands for all that was asked for, and by whom.
        submission: Blake3,
    },
    /// Cancels some files of a request: those that wait come no more, and the pins of others are given back.
    /// Refused, with nothing done, if one is not in it.
    CancelFiles {
        /// The request.
        request: RequestId,
        /// At most [`BATCH_FILES_MAX`].
        files: Vec<FileId>,
    },
    /// A drive begins to read files. Only for those who look at their requests: nothing else depends on it.
    RecallStarted {
        /// At most [`BATCH_FILES_MAX`]; those for which nobody waits are skipped.
        files: Vec<FileId>,
    },
    /// Begins an upload in parts that count for no quota: only in change logs of a Kist of before.
    OpenUpload(Box<OpenUpload>),
    /// Begins an upload in parts. Stored parts count for quotas as bytes of the file that they are to make.
    BeginUpload(Box<OpenUpload>),
    /// A part whose bytes are safe in the pool, in place of one of its number.
    PutPart(Box<PutPart>),
    /// Makes a file of the bytes of parts; none is moved. The upload is gone then, with its other parts.
    /// Refused if a part is not the one that was named.
    CompleteUpload(Box<CompleteUpload>),
    /// Gives up an upload, [`ABORT_PARTS_MAX`] parts at a time: to be given again while the outcome is
    /// `More(true)`. From the first batch on it takes no parts and cannot be completed.
    AbortUpload {
        /// The upload.
        upload: UploadId,
    },
    /// Sets a directory of the root as a bucket. Object lock stays on once it is on and needs versioning
    /// enabled; versioning never goes back to off.
    SetBucket {
        /// The directory.
        dir: DirId,
        /// All that it is set to.
        settings: Box<BucketSettings>,
    },
    /// Makes a directory of the root that is set as a bucket.
    MakeBucket {
        /// Its name.
        name: Name,
        /// Its attributes.
        attributes: Attributes,
        /// All that it is set to.
        settings: Box<BucketSettings>,
    },
    /// As `PutFile`, with conditions.
    PutObject(Box<PutObject>),
    /// Makes a file of the bytes of another one; nothing is copied.
    CloneFile(Box<CloneFile>),
    /// As `RemoveFile`, but a name that is not there is no error; in a bucket with versions it gets a marker
    /// all the same.
    RemoveObject {
        /// The directory.
        parent: DirId,
        /// The name.
        name: Name,
        /// Refused unless this file has the name: who decided to delete it has seen no other.
        if_current: Option<FileId>,
    },
    /// Deletes one version or marker for good. If it was the newest one, the next one becomes current. No
    /// effect if there is none.
    RemoveVersion {
        /// The directory.
        parent: DirId,
        /// The name.
        name: Name,
        /// Which; `None`: the one without a number.
        version: Option<FileId>,
        /// Ends a retention of mode governance.
        bypass: bool,
    },
    /// Sets what keeps a file from being deleted, by anybody. A retention of mode compliance is never
    /// shortened, one of mode governance only with `bypass`.
    SetHold {
        /// The file: live or lost, current or not.
        file: FileId,
        /// What keeps it from now on.
        hold: Hold,
        /// Shortens or ends a retention of mode governance.
        bypass: bool,
    },
    /// Sets (`Some`) or removes (`None`) extended attributes of a file. Its copies on tape keep those that it
    /// had when they were written.
    SetXattrs {
        /// The file: live or lost, current or not.
        file: FileId,
        /// In order; names are not empty.
        changes: Vec<(String, Option<Vec<u8>>)>,
    },
    /// As `SetXattrs`, of a directory.
    SetDirectoryXattrs {
        /// The directory.
        dir: DirId,
        /// In order; names are not empty.
        changes: Vec<(String, Option<Vec<u8>>)>,
    },
    /// Whether files of a class leave the pool by themselves, once all their tape copies are under an index
    /// and no pin holds them. Concerns what comes under an index or loses its last pin from now on.
    SetResidency {
        /// The class.
        class: ClassId,
        /// Whether they do.
        cold: bool,
    },
    /// Removes files of cold classes from the pool that are in containers which have all their copies, at
    /// most [`BATCH_FILES_MAX`] files at a time: to be given again while the outcome is `More(true)`. No
    /// effect while a restored catalogue is not settled.
    EvictCold,
    /// Gives a file another class. One that is in containers keeps them and their copies; one that is not
    /// waits to be sealed as its new class has it. One that may leave the pool now does. Refused for a lost
    /// file, and for one on tape only if the class has no tape.
    ChangeClass {
        /// The file: live, current or not.
        file: FileId,
        /// Its class from now on.
        class: ClassId,
    },
    /// How far a rule of a bucket has come through the files; `None`: it is gone.
    SetLifecycleCursor {
        /// The bucket's directory.
        dir: DirId,
        /// The rule's name, at most 255 bytes.
        rule: String,
        /// Which of the things that one rule may do.
        action: u8,
        /// How far.
        cursor: Option<LifecycleCursor>,
    },
    /// Says who may do what in a directory and below. No effect if it is what is recorded.
    SetAcl {
        /// The directory.
        directory: DirId,
        /// At most [`ACL_ENTRIES_MAX`](crate::ACL_ENTRIES_MAX), each subject once; `None`: what holds above
        /// holds here.
        entries: Option<Vec<AclEntry>>,
    },
    /// Gives a directory or a file another owner or group. Members on tape keep in their headers what they
    /// were written with. Refused if it would exceed the quota of the new group.
    SetOwner {
        /// What: a directory, or a file that has a name.
        entry: Entry,
        /// Whose it is now; `None`: as before.
        owner: Option<String>,
        /// Its group now; `None`: as before.
        group: Option<String>,
    },
    /// Limits how much may be kept. Of a new quota, files made from now on are counted as they come, those
    /// that are there by `CountQuota`. Less than what is used is no error: then nothing more is taken.
    SetQuota {
        /// Whose files.
        subject: QuotaSubject,
        /// How much; `None`: the quota ends.
        limits: Option<QuotaLimits>,
    },
    /// Counts files of a new quota that were there before it, at most [`BATCH_FILES_MAX`] files of the
    /// catalogue at a time: to be given again while the outcome is `More(true)`.
    CountQuota {
        /// Whose files; there must be a quota.
        subject: QuotaSubject,
    },
    /// The time is that of the command. It is noted so that the next start knows it although nothing else
    /// has changed.
    NoteTime {
        /// Whether the system's clock contradicts it. What is made from then on is of unknown age.
        doubted: bool,
    },
    /// The time leaps from that of the command to a later one, which the next command may carry. What was
    /// made in doubt counts as made then. Refused if `to` is not later.
    MoveTimeForward {
        /// The time after it.
        to: Timestamp,
    },
    /// The next start goes back to an earlier time, since the recorded one was never true.
    PlanTimeBack {
        /// The time; `None`: it does not go back after all. Refused if it is not earlier.
        to: Option<Timestamp>,
    },
    /// The first command after the time went back, at the new time. What was made at later times counts as
    /// made now. Refused unless it was planned.
    TimeMovedBack {
        /// The time before it.
        from: Timestamp,
    },
    /// A start is about to let the time leap ahead on the word of a system's clock that nobody vouches for.
    NoteLeap {
        /// By so much.
        by: Duration,
    },
    /// Extents on the pool's drives that nothing in the catalogue names. They are kept from now on for as
    /// long as the pool is told to. Those that are noted already keep their time.
    NoteUnknown {
        /// At most [`UNKNOWN_BATCH_MAX`] that were found.
        found: Vec<UnknownExtent>,
        /// At most as many that are removed, gone with their drives, or named after all.
        gone: Vec<UnknownExtent>,
    },
    /// A directory loses its name, and nothing in it can be named any more, nor put, held or renamed; what is
    /// in it is removed by [`Work::RemoveTree`]. Until then its files count in the tallies and quotas above.
    /// Refused with [`Rejection::NotAtOnce`](crate::Rejection::NotAtOnce) unless it is known, without reading
    /// the tree, that nothing in it must stay.
    CondemnTree {
        /// The directory it stands in.
        parent: DirId,
        /// Its name.
        name: Name,
        /// Which directory is meant; refused if the name is not its.
        directory: DirId,
        /// Who removes it; at most 64 bytes.
        owner: String,
        /// Whether that may be done although directories in it have access control lists of their own.
        with_lists: bool,
    },
    /// A tape failed: it is suspect, and what it was before stands in its history. Refused of one that an
    /// operator has disabled.
    TapeFailed {
        /// The tape.
        vid: Vid,
        /// What the failure speaks against.
        cause: FailureCause,
        /// Whether a write failed: it is only read again then.
        wrote: bool,
        /// The error, for people.
        reason: String,
        /// When it is tried again; `None`: when an operator says so.
        retry: Option<Timestamp>,
    },
    /// A session on a tape went well, or an operator has looked at it: its failures do not count any more. A
    /// tape that is kept for reading stays doubted.
    ForgetTapeFailures {
        /// The tape.
        vid: Vid,
        /// Also what a tape that is kept for reading is doubted for.
        doubts: bool,
    },
    /// A base of the catalogue is whole on a tape, under an index of its data partition that is durable; or
    /// one that was there is not to be counted on any more.
    BaseOnTape {
        /// The tape.
        vid: Vid,
        /// The newest change that the base holds.
        change: u64,
        /// In how many files it is; 0: it is not there.
        parts: u32,
        /// How long they are together.
        bytes: ByteCount,
    },
    /// A rule holds from now on. No effect if it does already.
    AdoptRule {
        /// Which.
        rule: Rule,
    },
}
