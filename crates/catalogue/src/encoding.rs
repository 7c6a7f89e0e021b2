//! The bytes of every record and command, in the order of the fields. `docs/format/catalogue.md` is the
//! contract.

use base::{
    BlobDescription, BlobId, BlobPiece, Checksums, ClassId, Epoch, FailureCause, Layout, StreamChecksums,
    StripeCode, StripeSet, TapePoolId, Uuid,
};

use crate::codec::{Codec, Reader, choice, grown_record, record};
use crate::command::{
    AdoptContainer, AskedFor, AskedPath, CloneFile, Command, Envelope, OpenPack, PartsRecalled,
    PlannedContainer, PoolCopy, PoolData, PutFile, PutObject, RecallDone, Replace, SealContainer, TapeFound,
    Work,
};
use crate::record::{
    AclEntry, Attributes, AwayKind, BaseRecord, BlobRecord, BucketRecord, BucketSettings, ClassRecord,
    CleanerRecord, CleaningAsk, ClockRecord, ContainerCopy, ContainerKind, ContainerRecord, CopyState,
    Counter, DirectoryRecord, DriveCleaning, DriveDisk, DriveDiskRecord, DriveSlot, Entry, FileKind,
    FileState, Garbage, Hold, IdempotencyRecord, ItemState, LeapsBelieved, LifecycleCursor, LifecycleRule,
    MemberRecord, PathList, PathPlace, PathRefusal, PathTarget, PoolDriveRecord, PoolDriveState,
    QueuedContainer, QuotaCounting, QuotaLimits, QuotaRecord, QuotaSubject, RebalanceRecord, RecallItem,
    RecodingRecord, RequestPath, RequestState, Retention, RetentionMode, Rule, RunEnd, RunItem, RunRecord,
    SealingRecord, Tally, TapeAway, TapeHistory, TapePlace, TapeRecord, TapeState, TimeMove, TodoFile,
    TreeRecord, UnknownExtent, UnneededSectors, Version, Versioning,
};
use base::{ByteCount, ContainerId};

mod file;
mod request;
mod upload;

/// The format version of envelopes written by this Kist.
pub const ENVELOPE_VERSION: u8 = 2;
/// The longest envelope in bytes.
pub const ENVELOPE_BYTES_MAX: usize = 64 << 20;

/// Why bytes are no envelope.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// Too long.
    #[error("the change has {0} bytes, more than any change may have: the change log is damaged")]
    TooLong(usize),
    /// Another version.
    #[error("the change has version {0}, which this Kist does not know: upgrade Kist")]
    UnknownVersion(u8),
    /// Not the bytes of any command.
    #[error("the change is malformed: the change log is damaged, take another copy of it")]
    Malformed,
}

impl Envelope {
    /// The bytes of this change: version, time, tag of the command, its fields.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(192);
        out.push(ENVELOPE_VERSION);
        self.at.put(&mut out);
        self.command.put(&mut out);
        out
    }

    /// Reads a change. Memory stays within a constant times the length of `bytes`.
    ///
    /// # Errors
    /// If the bytes are not exactly one change of a known version.
    pub fn decode(bytes: &[u8]) -> Result<Envelope, DecodeError> {
        if bytes.len() > ENVELOPE_BYTES_MAX {
            return Err(DecodeError::TooLong(bytes.len()));
        }
        let mut reader = Reader::new(bytes);
        match reader.byte() {
            Some(ENVELOPE_VERSION) => {}
            Some(version) => return Err(DecodeError::UnknownVersion(version)),
            None => return Err(DecodeError::Malformed),
        }
        let at = Codec::take(&mut reader).ok_or(DecodeError::Malformed)?;
        let command = Codec::take(&mut reader).ok_or(DecodeError::Malformed)?;
        if reader.is_empty() { Ok(Envelope { at, command }) } else { Err(DecodeError::Malformed) }
    }
}

/// The one record of the table `meta`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Meta {
    pub(crate) instance: Uuid,
    pub(crate) epoch: Epoch,
    /// The next id of files and directories.
    pub(crate) next_file: u64,
    pub(crate) next_container: u64,
    pub(crate) next_request: u64,
    pub(crate) next_run: u64,
    pub(crate) next_class: u16,
    pub(crate) next_tape_pool: u16,
    pub(crate) next_change: u64,
    /// Blobs of this epoch and older that the catalogue does not know are kept.
    pub(crate) quarantine: Option<Epoch>,
    /// Restored or rebuilt, and not yet checked against pool and tapes.
    pub(crate) restored: bool,
}

impl Meta {
    /// All that is counted on, each the next that is given.
    pub(crate) fn ids(&self) -> [u64; 7] {
        let (class, tape_pool) = (u64::from(self.next_class), u64::from(self.next_tape_pool));
        [
            self.next_file,
            self.next_container,
            self.next_request,
            self.next_run,
            self.next_change,
            class,
            tape_pool,
        ]
    }
}

/// Where a part of a file lies; the member record there says the rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PartRecord {
    pub(crate) container: ContainerId,
    pub(crate) data_offset: ByteCount,
}

/// What the table `member` keeps; file and data offset stand in the key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MemberValue {
    /// Bytes between the header and the data.
    pub(crate) header_length: ByteCount,
    pub(crate) length: ByteCount,
    pub(crate) file_offset: ByteCount,
}

/// The record of tables whose key says it all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Nothing;

impl Codec for Nothing {
    fn put(&self, _: &mut Vec<u8>) {}
    fn take(_: &mut Reader<'_>) -> Option<Self> {
        Some(Nothing)
    }
}

/// The form of a layout in records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum StoredLayout {
    ReedSolomon {
        data: u8,
        parity: u8,
    },
    Segment {
        copies: u8,
    },
    Local {
        data: u8,
        local: u8,
        global: u8,
    },
    /// Striped, written anew: its extents have this id on drives.
    Anew {
        code: StripeCode,
        extents: BlobId,
    },
}

impl StoredLayout {
    fn of(layout: Layout, stands_as: Option<BlobId>) -> StoredLayout {
        match (layout, stands_as) {
            (Layout::Striped { code: StripeCode { data, local: 0, global } }, None) => {
                StoredLayout::ReedSolomon { data, parity: global }
            }
            (Layout::Striped { code: StripeCode { data, local, global } }, None) => {
                StoredLayout::Local { data, local, global }
            }
            (Layout::Striped { code }, Some(extents)) => StoredLayout::Anew { code, extents },
            // What is in a segment is never written anew: values of it are removed one by one.
            (Layout::Segment { copies }, _) => StoredLayout::Segment { copies },
        }
    }

    /// `None` if there is no such layout; one layout has one form.
    fn layout(self) -> Option<(Layout, Option<BlobId>)> {
        match self {
            StoredLayout::ReedSolomon { data, parity } => {
                Some((Layout::Striped { code: StripeCode::reed_solomon(data, parity) }, None))
            }
            StoredLayout::Local { local: 0, .. } => None,
            StoredLayout::Local { data, local, global } => {
                let code = StripeCode { data, local, global };
                code.exists().then_some((Layout::Striped { code }, None))
            }
            StoredLayout::Anew { code, extents } => Some((Layout::Striped { code }, Some(extents))),
            StoredLayout::Segment { copies } => Some((Layout::Segment { copies }, None)),
        }
    }
}

impl Codec for StripeCode {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend([self.data, self.local, self.global]);
    }

    fn take(input: &mut Reader<'_>) -> Option<Self> {
        let code = StripeCode { data: input.byte()?, local: input.byte()?, global: input.byte()? };
        code.exists().then_some(code)
    }
}

impl Codec for BlobDescription {
    fn put(&self, out: &mut Vec<u8>) {
        let BlobDescription { id, stands_as, layout, length, stripes } = self;
        id.put(out);
        StoredLayout::of(*layout, *stands_as).put(out);
        length.put(out);
        stripes.put(out);
    }

    fn take(input: &mut Reader<'_>) -> Option<Self> {
        let id = Codec::take(input)?;
        let (layout, stands_as) = StoredLayout::take(input)?.layout()?;
        let (length, stripes) = (Codec::take(input)?, Codec::take(input)?);
        Some(BlobDescription { id, stands_as, layout, length, stripes })
    }
}

impl Codec for BlobRecord {
    fn put(&self, out: &mut Vec<u8>) {
        let BlobRecord { stands_as, layout, length, stripes, references, live } = self;
        StoredLayout::of(*layout, *stands_as).put(out);
        length.put(out);
        stripes.put(out);
        references.put(out);
        live.put(out);
    }

    fn take(input: &mut Reader<'_>) -> Option<Self> {
        let (layout, stands_as) = StoredLayout::take(input)?.layout()?;
        let (length, stripes) = (Codec::take(input)?, Codec::take(input)?);
        let (references, live) = (Codec::take(input)?, Codec::take(input)?);
        Some(BlobRecord { stands_as, layout, length, stripes, references, live })
    }
}

record!(Meta {
    instance,
    epoch,
    next_file,
    next_container,
    next_request,
    next_run,
    next_class,
    next_tape_pool,
    next_change,
    quarantine,
    restored,
});
record!(PartRecord { container, data_offset });
record!(MemberValue { header_length, length, file_offset });

choice!(StoredLayout {
    0 = ReedSolomon { data, parity },
    1 = Segment { copies },
    2 = Local { data, local, global },
    3 = Anew { code, extents },
});
record!(StripeSet { id, drives });
record!(BlobPiece { blob, offset, length });
record!(StreamChecksums { adler32, crc32c });
record!(Checksums { stream, blake3 });

choice!(Entry { 0 = Directory(id), 1 = File(id) });
record!(Attributes { mtime, mode, owner, group, xattrs });
record!(DirectoryRecord { parent, name, created, attributes, class });
choice!(FileKind { 0 = Regular, 1 = Symlink(target) });
choice!(FileState { 0 = Live, 1 = Condemned(at), 2 = Lost(at) });
record!(ClassRecord { name, copies });
choice!(ContainerKind { 0 = Pack, 1 = File(file), 2 = Segment { file, file_offset } });
choice!(CopyState {
    0 = Queued,
    1 = Planned { run, vid, block },
    2 = Flushed { run, vid, block },
    3 = Indexed { vid, block },
});
record!(TapePlace { vid, block });
record!(ContainerCopy { tape_pool, state, source });
record!(ContainerRecord {
    kind,
    class,
    length,
    checksums,
    sealed,
    tape_path,
    skeleton,
    image,
    copies,
    live_members,
    live_bytes,
    condemned_members,
});
record!(MemberRecord { file, header_offset, data_offset, length, file_offset });
choice!(TapeState {
    0 = Scratch, 1 = Labelling, 2 = Active, 3 = Full, 4 = ReadOnly, 5 = Suspect, 6 = Disabled,
    7 = Repacking, 8 = Retired,
});
choice!(AwayKind { 0 = Exported, 1 = OffSite });
record!(TapeAway { kind, place, since });
grown_record!(TapeRecord {
    state,
    reason,
    tape_pool,
    uuid,
    capacity,
    end_of_data,
    written,
    committed,
    torn,
    containers,
    generation,
    index_block,
    run,
    mounts,
    changes_through,
    replaces,
} history, away, key);
record!(CleanerRecord { uses, unfit });
record!(CleaningAsk { urgent, since });
record!(DriveCleaning { asks, cleaned });
choice!(PoolDriveState { 0 = Draining, 1 = Removed, 2 = Leaving, 3 = Lost });
record!(PoolDriveRecord { state, since });
record!(DriveSlot { enclosure, number });
record!(DriveDisk { disk, slot, light, drained, kept });
record!(DriveDiskRecord { known, since });
record!(RebalanceRecord { to, since });
record!(RecodingRecord { to, since });
record!(TapeHistory { before, wrote, failures, retry, cause });
choice!(FailureCause { 0 = Unknown, 1 = Cartridge, 2 = Drive, 3 = Robot, 4 = Path, 5 = Host });
choice!(RunEnd { 0 = Finished, 1 = TapeFull, 2 = Failed, 3 = Torn });
record!(RunRecord { vid, drive, tape_pool, generation, start, started, planned, committed, indexed, ended });
record!(RunItem { container, block, blocks });
record!(QueuedContainer { length, since });
record!(TodoFile { size, since });
choice!(RequestState {
    0 = Filling, 1 = Active, 2 = Completed, 3 = Cancelled, 4 = Cancelling, 5 = Forgetting,
});
choice!(ItemState {
    0 = Waiting,
    1 = Done(at),
    2 = Failed(reason),
    3 = Cancelled,
    4 = Released,
    5 = WaitingUnpinned,
});
record!(PathList { paths, refused, submission });
choice!(PathRefusal {
    0 = NotFound, 1 = Directory, 2 = NoData, 3 = NoPath, 4 = NotAllowed, 5 = NeverFits,
});
choice!(PathTarget { 0 = Item(number), 1 = Refused(why) });
record!(RequestPath { path, target });
record!(PathPlace { request, number });
choice!(AskedFor { 0 = File(file), 1 = Refused(why) });
record!(AskedPath { path, file, pin });
record!(RecallItem { container, length, since });
record!(Tally { files, bytes });
record!(LifecycleCursor { rule, through });
choice!(Garbage { 0 = Blob(blob), 1 = Value(blob, piece) });
record!(IdempotencyRecord { file, request, at });

choice!(RetentionMode { 0 = Governance, 1 = Compliance });
record!(Retention { mode, until });
record!(Hold { retention, legal });
choice!(Versioning { 0 = Off, 1 = Enabled, 2 = Suspended });
record!(LifecycleRule { id, enabled, prefix, transition, expiration, abort_uploads });
record!(BucketSettings { versioning, object_lock, default_retention, lifecycle, documents });
record!(BucketRecord { settings, numbered });
choice!(Version { 0 = File, 1 = Marker(at) });
choice!(QuotaSubject { 0 = Directory(id), 1 = Group(group) });
record!(QuotaLimits { bytes, files });
record!(QuotaCounting { next, until });
record!(QuotaRecord { limits, used, counting });
record!(AclEntry { subject, rights });
record!(UnknownExtent { drive, blob, stripe, shard });
record!(UnneededSectors { blob, page, sectors });
record!(LeapsBelieved { sum, at });
record!(TimeMove { since, before, after, below });
record!(ClockRecord { noted, doubted, planned_back, moves });
record!(TreeRecord { owner, path, condemned, ended, files, bytes, directories });

record!(PoolData { blobs, pieces });
record!(PoolCopy { file, pieces });
choice!(Replace { 0 = Allowed, 1 = Refused });
record!(PutFile {
    parent,
    name,
    kind,
    size,
    attributes,
    checksums,
    class,
    dataset,
    data,
    replace,
    idempotency,
});
record!(PutObject { put, if_current, hold, always });
record!(CloneFile { source, parent, name, attributes, class, dataset, replace, if_current, hold });
record!(OpenPack { container, class, members, length, checksums, tape_path, skeleton });
record!(SealingRecord { members, added, end });
record!(BaseRecord { parts, bytes, written });
record!(SealContainer { container, kind, class, members, length, checksums, tape_path, skeleton });
record!(TapeFound { vid, uuid, tape_pool, generation, index_block, end_of_data, reason });
record!(AdoptContainer { container, kind, class, members, length, checksums, sealed, tape_path, places });
record!(PlannedContainer { container, block, blocks });
record!(RecallDone { blobs, files });
record!(PartsRecalled { blobs, files, parts });

choice!(Rule {
    0 = ReadableIfEvicted, 1 = KeyAtHand, 2 = OneKeyOfAnId, 3 = AnotherGives, 4 = UrgentAnew,
    5 = KeysAskedFirst, 6 = OrderedByUse, 7 = RequestTimes, 8 = PathsCounted
});

choice!(Work {
    0 = CancelRequest(request),
    1 = ForgetRequest(request),
    2 = ExpirePins,
    3 = ExpireIdempotency,
    4 = EvictCold,
    5 = TrimChanges(through),
    6 = DissolvePack(container),
    7 = OrderByUse,
    10 = RemoveTree(tree),
    11 = CountPaths,
});

choice!(Command {
    0 = Initialise { instance },
    1 = OpenEpoch,
    2 = DefineTapePool { name },
    3 = DefineClass { name, copies },
    4 = MakeDirectory { parent, name, attributes, class },
    5 = PutFile(put),
    6 = Rename { from_parent, from_name, to_parent, to_name, replace },
    7 = RemoveFile { parent, name },
    8 = RemoveDirectory { parent, name },
    9 = ReserveContainer,
    10 = SealContainer(seal),
    11 = RegisterTape { vid, capacity },
    12 = AssignTape { vid, tape_pool, uuid },
    13 = TapeLabelled { vid, generation, index_block, end_of_data },
    14 = SetTapeState { vid, state, reason },
    15 = CountMount { vid },
    16 = BeginRun { vid, drive, start },
    17 = AppendToRun { run, containers },
    18 = CommitRun { run, committed, end_of_data, written },
    19 = IndexWritten { run, generation, index_block, end_of_data, written, changes },
    20 = EndRun { run, end, tape_state, reason, end_of_data, torn },
    21 = OpenRequest { owner, pin },
    22 = AddToRequest { request, files },
    23 = CloseRequest { request },
    24 = CancelRequest { request },
    25 = Release { request, files },
    26 = ForgetRequest { request },
    27 = RecallDone(recall),
    28 = RecallFailed { file, reason },
    29 = RecallCopyFailed { file, vid, reason },
    30 = Evict { files },
    31 = ExpirePins,
    32 = ExpireIdempotency,
    33 = GarbageRemoved { blobs, values },
    34 = TrimChanges { through },
    35 = MoveStripe { blob, stripe, from, to },
    36 = PoolCopyLost { files },
    37 = PoolCopyFound { files },
    38 = CopyDamaged { container, vid, block, reason },
    39 = StoreImage { container, image },
    40 = DropImage { container },
    41 = RequeueCopy { container, vid },
    42 = CopyVerified { container, vid, block },
    43 = ReclaimTape { vid },
    44 = AdoptRun { run, committed, end_of_data },
    45 = AcceptRestore { epoch, after, seen },
    46 = RestoreSettled,
    47 = EndQuarantine,
    48 = MendCopy { container, vid, block, reason, image },
    49 = DissolvePack { container },
    56 = TapeFound(found),
    57 = AdoptContainer(found),
    50 = SetDriveDown { drive, down },
    51 = SetRequestPriority { request, priority },
    52 = Unpin { request, files },
    80 = OpenUpload(open),
    81 = PutPart(part),
    82 = CompleteUpload(complete),
    83 = AbortUpload { upload },
    84 = BeginUpload(open),
    60 = SetBucket { dir, settings },
    61 = MakeBucket { name, attributes, settings },
    62 = PutObject(put),
    63 = CloneFile(clone),
    64 = RemoveObject { parent, name, if_current },
    65 = RemoveVersion { parent, name, version, bypass },
    66 = SetHold { file, hold, bypass },
    67 = SetXattrs { file, changes },
    68 = SetDirectoryXattrs { dir, changes },
    70 = SetResidency { class, cold },
    71 = EvictCold,
    72 = ChangeClass { file, class },
    73 = SetLifecycleCursor { dir, rule, action, cursor },
    90 = SetAcl { directory, entries },
    91 = SetOwner { entry, owner, group },
    92 = SetQuota { subject, limits },
    93 = CountQuota { subject },
    94 = RenameEntry { source, from_parent, from_name, to_parent, to_name, replace },
    100 = NoteTime { doubted },
    101 = MoveTimeForward { to },
    102 = PlanTimeBack { to },
    103 = TimeMovedBack { from },
    104 = NoteLeap { by },
    110 = NoteUnknown { found, gone },
    120 = DoSome { work, most },
    130 = ValuesRemoved { values, pages },
    131 = OpenPack(open),
    132 = AddMembers { container, members },
    133 = ClosePack { container },
    134 = CondemnTree { parent, name, directory, owner, with_lists },
    135 = TapeFailed { vid, cause, wrote, reason, retry },
    136 = ForgetTapeFailures { vid, doubts },
    137 = BaseOnTape { vid, change, parts, bytes },
    138 = AdoptRule { rule },
    139 = PoolCopiesLost { copies },
    140 = PoolCopiesFound { copies },
    141 = ImageLost { container, image },
    142 = KeepCopy { container, vid },
    143 = DropUnneededCopies { container },
    144 = PartsRecalled(done),
    145 = RecallPlaceFailed { vid, block, reason },
    146 = BeginHistoryRun { vid, drive, start },
    147 = SetDriveCleaning { drive, urgent },
    148 = CountCleaning { vid, anew },
    149 = CleaningEnded { vid, drive, unfit },
    150 = SetTapeKey { vid, key },
    151 = SetPoolDrive { drive, state },
    152 = GiveUpPlace { container, vid, block, reason },
    153 = SetTapeAway { vid, kind, place },
    154 = RetireTape { vid },
    155 = AddTape { vid },
    156 = SetKeyAtHand { key, at_hand },
    157 = SetTapeLeaving { vid, leaving },
    158 = SetRebalance { to },
    159 = SetRecoding { to },
    160 = UncountCleaning { vid },
    161 = NoteUse { files },
    162 = BlobRecoded { from, to },
    163 = SetDriveDisk { drive, disk },
    165 = CopySegment { blob, from, to },
    164 = SetTapeCapacity { vid, capacity },
    166 = OpenPathRequest { owner, pin },
    170 = AddPaths { request, paths },
    171 = ClosePathRequest { request, submission },
    172 = CancelFiles { request, files },
    173 = RecallStarted { files },
});

impl Command {
    /// The first byte of each kind of command in the change log.
    pub const TAGS: &'static [u8] = <Self as Codec>::TAGS;
}

/// The key of a counter: its kind, then its object.
pub(crate) fn counter_key(counter: Counter) -> Vec<u8> {
    let with = |kind: u8, object: &[u8]| [&[kind], object].concat();
    let class = |kind, id: ClassId| with(kind, &id.0.to_be_bytes());
    match counter {
        Counter::Class(id) => class(0, id),
        Counter::Online(id) => class(1, id),
        Counter::Todo(id) => class(2, id),
        Counter::Queued(TapePoolId(id)) => with(3, &id.to_be_bytes()),
        Counter::Wanted(vid) => with(4, vid.as_bytes()),
        Counter::PacksSealed => with(5, &[]),
        Counter::Flushes => with(6, &[]),
        Counter::Indexes => with(7, &[]),
        Counter::Uploads => with(16, &[]),
        Counter::Quotas => with(42, &[]),
        Counter::Acls => with(43, &[]),
        Counter::QuotasCounting => with(44, &[]),
        Counter::Trees => with(60, &[]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_keep_their_form_and_have_one() {
        let bytes = |(layout, stands_as)| {
            let mut out = Vec::new();
            StoredLayout::of(layout, stands_as).put(&mut out);
            out
        };
        let read = |form: &[u8]| StoredLayout::take(&mut Reader::new(form)).and_then(StoredLayout::layout);
        let striped = |data, local, global| Layout::Striped { code: StripeCode { data, local, global } };
        let mut anew = vec![3, 16, 0, 4];
        BlobId(7).put(&mut anew);
        for (layout, form) in [
            ((striped(4, 0, 2), None), &[0, 4, 2][..]),
            ((Layout::Segment { copies: 3 }, None), &[1, 3]),
            ((striped(12, 2, 2), None), &[2, 12, 2, 2]),
            ((striped(16, 0, 4), Some(BlobId(7))), &anew),
        ] {
            assert_eq!(bytes(layout), form);
            assert_eq!(read(form), Some(layout));
        }
        assert_eq!(read(&[2, 12, 0, 2]), None);
        assert_eq!(read(&[2, 4, 5, 1]), None, "more local parity than data");
        assert_eq!(read(&[4, 12, 2, 2]), None);
    }
}
