//! The tables.

/// A table of the catalogue. Its number is part of every record's checksum and is never given to another
/// table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Table {
    /// One record: instance, epoch, next ids.
    Meta = 0,
    /// Directory id → directory.
    Directory = 1,
    /// Directory id, name → what the name stands for.
    Entry = 2,
    /// File id → file.
    File = 3,
    /// Class id → storage class.
    Class = 4,
    /// Tape pool id → its name.
    TapePool = 5,
    /// Stripe set id → its drives.
    StripeSet = 6,
    /// Blob id → blob.
    Blob = 7,
    /// Blob id, offset → garbage; offset 2^64 - 1 is the whole blob.
    Garbage = 8,
    /// Container id → container.
    Container = 9,
    /// Container id, data offset, file id → member.
    Member = 10,
    /// File id, offset in the file → container and data offset there.
    Part = 11,
    /// VID, block → container.
    Content = 12,
    /// Class id, data set, file id → a file to be sealed.
    Todo = 13,
    /// Tape pool id, container id → a container to be written.
    Queue = 14,
    /// VID → tape.
    Tape = 15,
    /// Run id → run.
    Run = 16,
    /// Run id, number → item.
    RunItem = 17,
    /// Run id → VID, of open runs.
    OpenRun = 18,
    /// Request id, all bits inverted so that the newest comes first → request.
    Request = 19,
    /// Request id, number → item.
    RequestItem = 20,
    /// Request id, file id → number of the item.
    RequestFile = 21,
    /// File id, request id → number of the item that waits.
    Want = 22,
    /// VID, block, data offset, file id → what is to be read.
    Recall = 23,
    /// File id, request id → until when.
    Pin = 24,
    /// Until when, file id, request id → nothing.
    PinExpiry = 25,
    /// Kind of counter, its object → tally.
    Counter = 26,
    /// Idempotency key → first answer.
    Idempotency = 27,
    /// When, idempotency key → nothing.
    IdempotencyAge = 28,
    /// Sequence number → encoded envelope.
    Change = 29,
    /// VID, first change → last change of a change-log segment on that tape.
    Segment = 30,
    /// Name of a tape drive that an operator has taken out of use → why.
    DriveDown = 31,
    /// Request → its priority, if that is not the usual one.
    RequestPriority = 32,
    /// Directory id of a directory of the root → what the bucket is set to.
    Bucket = 33,
    /// Directory id, name, 0, file id with all bits inverted so that the newest comes first → a version
    /// that
    /// is not the current one, or a delete marker.
    Version = 34,
    /// File id → what keeps it from being deleted.
    Hold = 35,
    /// Class id → nothing: its files leave the pool by themselves.
    Residency = 36,
    /// Container id → from which offset on its members are still to be looked at: those of cold classes
    /// leave
    /// the pool.
    Cold = 37,
    /// Directory id, action, name of a rule → how far it has come.
    Lifecycle = 38,
    /// Upload id → upload in parts.
    Upload = 39,
    /// Directory id of a directory of the root, the first 400 bytes of the path below it, 0, upload id →
    /// nothing.
    UploadName = 40,
    /// Upload id, number → part.
    UploadPart = 41,
    /// Whom a quota limits → limits and use.
    Quota = 42,
    /// Directory id → who may do what in it and below.
    Acl = 43,
    /// One record: what is known of the time.
    Clock = 50,
    /// Drive, blob, stripe, shard of an extent that nothing here names → since when that is known.
    Unknown = 51,
    /// One record: how far starts have let the time leap on nobody's word.
    Leaps = 52,
    /// Upload id → where its parts count for quotas, and how many bytes they have. Uploads that a Kist
    /// without this table began have no row.
    UploadUse = 53,
    /// Directory id, upload id → nothing: the uploads whose parts count there.
    UploadIn = 54,
    /// Blob id of a segment, number of 64 pages of it → which of their sectors nobody needs any more, of
    /// pages that hold something else too.
    Unneeded = 60,
    /// Container id of a pack that is sealed, or given up, in pieces → how far that is.
    Sealing = 61,
    /// Directory id → condemned tree.
    Tree = 62,
    /// VID, change → a base of the catalogue on that tape: its rows as they were after that change.
    Base = 63,
    /// One record: how far the log was trimmed.
    Trimmed = 64,
    /// Rule → nothing: it holds for all changes from the one that wrote the row on.
    Rule = 65,
    /// VID of a tape that cannot give what it has, container id → nothing: members of cold classes stay in
    /// the pool until it can.
    ColdWait = 66,
    /// VID of a cleaning cartridge that was used → how often, and why it is used no more.
    Cleaner = 67,
    /// Name of a tape drive → whether it asks to be cleaned, and when it was.
    DriveCleaning = 68,
    /// Check value and id of a key of tapes → nothing: it was found since the newest start of the writer, and
    /// not missed since.
    KeyAtHand = 69,
    /// Pool drive → that it is to be emptied, or was taken out; no row: it is in use.
    PoolDrive = 70,
    /// VID → nothing: the tape is to be exported as soon as no drive has it.
    TapeLeaving = 71,
    /// One record: what is stored moves between pool drives until they are about equally full; no row: it
    /// stays where it is.
    Rebalance = 72,
    /// Class, hour of the last use, file in the pool → nothing.
    ByUse = 73,
    /// File in the pool that was used later than in the hour of its making → the hour.
    LastUse = 74,
    /// One record: the last file that was looked at to stand by its use, of those that came into the pool
    /// before there was that order. No row: all do.
    ByUseBehind = 75,
    /// One record: what is stored in another code is written anew in this one; no row: it stays as it is.
    Recoding = 76,
    /// Id that extents of a blob have on drives, if it was written anew → the blob. It may be garbage.
    StandsAs = 77,
    /// Drive of the pool → the disk that it is on, the slot that this is in, and the light that is on for it.
    DriveDisk = 78,
    /// Request id, number → a path of a request that names paths one by one.
    RequestPath = 79,
    /// Digest of a submission of such paths → the request that has them, as long as it has not ended.
    Submission = 80,
    /// 0, who asks → how many such requests of theirs have not ended; no row: none.
    OpenRequests = 81,
    /// 0, who asks → how many bytes the paths have that all requests of theirs keep; no row: none.
    PathBytes = 82,
    /// One record, while paths are older than their count: behind which ones it goes on.
    PathBytesBehind = 83,
}

impl Table {
    /// How many tables there are.
    pub const COUNT: usize = 73;

    /// All tables in the order of their numbers.
    pub const ALL: [Table; Table::COUNT] = [
        Table::Meta,
        Table::Directory,
        Table::Entry,
        Table::File,
        Table::Class,
        Table::TapePool,
        Table::StripeSet,
        Table::Blob,
        Table::Garbage,
        Table::Container,
        Table::Member,
        Table::Part,
        Table::Content,
        Table::Todo,
        Table::Queue,
        Table::Tape,
        Table::Run,
        Table::RunItem,
        Table::OpenRun,
        Table::Request,
        Table::RequestItem,
        Table::RequestFile,
        Table::Want,
        Table::Recall,
        Table::Pin,
        Table::PinExpiry,
        Table::Counter,
        Table::Idempotency,
        Table::IdempotencyAge,
        Table::Change,
        Table::Segment,
        Table::DriveDown,
        Table::RequestPriority,
        Table::Bucket,
        Table::Version,
        Table::Hold,
        Table::Residency,
        Table::Cold,
        Table::Lifecycle,
        Table::Upload,
        Table::UploadName,
        Table::UploadPart,
        Table::Quota,
        Table::Acl,
        Table::Clock,
        Table::Unknown,
        Table::Leaps,
        Table::UploadUse,
        Table::UploadIn,
        Table::Unneeded,
        Table::Sealing,
        Table::Tree,
        Table::Base,
        Table::Trimmed,
        Table::Rule,
        Table::ColdWait,
        Table::Cleaner,
        Table::DriveCleaning,
        Table::KeyAtHand,
        Table::PoolDrive,
        Table::TapeLeaving,
        Table::Rebalance,
        Table::ByUse,
        Table::LastUse,
        Table::ByUseBehind,
        Table::Recoding,
        Table::StandsAs,
        Table::DriveDisk,
        Table::RequestPath,
        Table::Submission,
        Table::OpenRequests,
        Table::PathBytes,
        Table::PathBytesBehind,
    ];

    /// The table's name in the engine.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Table::Meta => "meta",
            Table::Directory => "directory",
            Table::Entry => "entry",
            Table::File => "file",
            Table::Class => "class",
            Table::TapePool => "tape_pool",
            Table::StripeSet => "stripe_set",
            Table::Blob => "blob",
            Table::Garbage => "garbage",
            Table::Container => "container",
            Table::Member => "member",
            Table::Part => "part",
            Table::Content => "content",
            Table::Todo => "todo",
            Table::Queue => "queue",
            Table::Tape => "tape",
            Table::Run => "run",
            Table::RunItem => "run_item",
            Table::OpenRun => "open_run",
            Table::Request => "request",
            Table::RequestItem => "request_item",
            Table::RequestFile => "request_file",
            Table::Want => "want",
            Table::Recall => "recall",
            Table::Pin => "pin",
            Table::PinExpiry => "pin_expiry",
            Table::Counter => "counter",
            Table::Idempotency => "idempotency",
            Table::IdempotencyAge => "idempotency_age",
            Table::Change => "change",
            Table::Segment => "segment",
            Table::DriveDown => "drive_down",
            Table::RequestPriority => "request_priority",
            Table::Bucket => "bucket",
            Table::Version => "version",
            Table::Hold => "hold",
            Table::Residency => "residency",
            Table::Cold => "cold",
            Table::Lifecycle => "lifecycle",
            Table::Upload => "upload",
            Table::UploadName => "upload_name",
            Table::UploadPart => "upload_part",
            Table::Quota => "quota",
            Table::Acl => "acl",
            Table::Clock => "clock",
            Table::Unknown => "unknown",
            Table::Leaps => "leaps",
            Table::UploadUse => "upload_use",
            Table::UploadIn => "upload_in",
            Table::Unneeded => "unneeded",
            Table::Sealing => "sealing",
            Table::Tree => "tree",
            Table::Base => "base",
            Table::Trimmed => "trimmed",
            Table::Rule => "rule",
            Table::ColdWait => "cold_wait",
            Table::Cleaner => "cleaner",
            Table::DriveCleaning => "drive_cleaning",
            Table::KeyAtHand => "key_at_hand",
            Table::PoolDrive => "pool_drive",
            Table::TapeLeaving => "tape_leaving",
            Table::ByUse => "by_use",
            Table::LastUse => "last_use",
            Table::ByUseBehind => "by_use_behind",
            Table::Rebalance => "rebalance",
            Table::Recoding => "recoding",
            Table::StandsAs => "stands_as",
            Table::DriveDisk => "drive_disk",
            Table::RequestPath => "request_path",
            Table::Submission => "submission",
            Table::OpenRequests => "open_requests",
            Table::PathBytes => "path_bytes",
            Table::PathBytesBehind => "path_bytes_behind",
        }
    }

    /// The table's number.
    #[must_use]
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The table's place in [`Table::ALL`].
    #[must_use]
    pub fn index(self) -> usize {
        PLACES[usize::from(self as u8)]
    }
}

/// The place in [`Table::ALL`] of each number, since some numbers are left out.
const PLACES: [usize; 256] = {
    let mut places = [0; 256];
    let mut place = 0;
    while place < Table::COUNT {
        assert!(place == 0 || (Table::ALL[place - 1] as u8) < Table::ALL[place] as u8, "numbers ascend");
        places[Table::ALL[place] as usize] = place;
        place += 1;
    }
    places
};

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn each_table_stands_at_its_place_and_numbers_ascend() {
        assert!(Table::ALL.iter().enumerate().all(|(place, table)| table.index() == place));
        assert!(Table::ALL.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
