//! The engine: ingest, migrate, recall, evict. It knows no HTTP and no JSON.

mod access_log;
mod archive;
mod lifecycle;
mod machines;
mod running;
mod verbs;

pub use access_log::UsageReading;
pub use archive::Archive;
pub use backup::BackupStatus;
pub use catalogue::{
    ACL_ENTRIES_MAX, AccessChain, AclEntry, DirectoryOwner, PRIORITY_MAX, PRIORITY_USUAL, QuotaCounting,
    QuotaLimits, QuotaRecord, RESTORE_JUMP,
};
pub use drive::{BurnInId, BurnInRecord, BurnInVerdict};
pub use ground::{
    ACCESSES_WAITING_MAX, About, ArchiveError, BucketInfo, BucketSettings, CallProgress, Cause,
    ChangeLogSettings, ChapSettings, ClassInfo, ClassSettings, CleaningCartridgeInfo, CleaningInfo,
    CleaningSettings, ClockInfo, CloneOptions, CompleteOptions, CopyInfo, CopyProgress, DirectoryStat,
    DiskPolicy, DiskReason, DiskReport, DiskWatch, DrainInfo, DriveDiskInfo, DriveFileError, DriveLimits,
    ErrorKind, EvictDone, EvictorInfo, FileStat, FlowSettings, FoundDisk, GroupInfo, GroupSettings,
    HealthProblem, Hold, Holding, ItemFailure, KeyLine, KeyPage, KeyQuery, LeavingSettings, LibraryKind,
    LibrarySettings, LifecycleRule, Listed, ListedKind, Locality, LossForeseen, LostFilesInfo, MachineTimes,
    MountSettings, MultipartInfo, NameDrive, ObjectLine, ObjectRemoved, ObjectStat, OpenError, PartInfo,
    PathLocality, PathRequest, PathState, PathSubmission, PlacingSettings, PoolDrive, PoolDriveFile,
    PoolDriveInfo, PoolDriveSettings, PoolEncryption, PoolHolders, PoolInfo, PoolSettings, PoolWork,
    PredictedFailure, PutDone, PutOptions, QueueLine, QuotaInfo, QuotaOf, RebalanceInfo, RebuildInfo,
    RecodingInfo, RenameOf, ReplaceLost, RequestFile, RequestInfo, RequestOutlook, RestoreState, Retention,
    RetentionMode, SMALL_BYTES_MAX, SMALLEST_TAPE, ScrubInfo, ScsiLibrarySettings, SegmentUse, Selection,
    Settings, SettlingInfo, SettlingStage, ShareSettings, SpaceLeft, StageOptions, Stat, SubmittedPath,
    TailFile, TakeOver, TapeContent, TapeDriveInfo, TapeExport, TapeImport, TapeInfo, TapeMotionInfo,
    TapePoolSettings, TapeSettings, TapeUse, TimingSettings, Totals, UpkeepSettings, UploadError,
    VersionPage, VersionQuery, Versioning, VirtualLibrarySettings, Waits, WatchedDrive, Which, WhyNoLock,
    WhyNotAtOnce, WorkerInfo, has_ended, time_left,
};
pub use ingest::{
    Download, MULTIPART_PAGE_MAX, PartUpload, PutCallback, UPLOAD_XATTRS, Upload, VERIFY_BYTES_MAX,
    VerifyDone,
};
pub use journal::{
    AccessLog, AccessLogFiles, AccessLogRead, AccessReading, CounterRecord, DayReading, DayTotal,
    DriveFitFile, DriveFitRecord, DriveFits, ErrorRecord, MotionRecord, MountKind, MountLog, MountLogFiles,
    MountLogRead, MountRecord, MountReport, MountSessionEnd, OrderRecord, ProductRecord, QueueAtMount,
    ReportBy, ReportRow, SessionRecord, Spread, USAGE_STEP_BYTES, UsageReport,
};
pub use library::{KeySource, TapeKeys};
pub use location::DriveLocation;
pub use machines::{
    Machines, PoolShape, create_catalogue, open_libraries, open_library, open_scsi_library, pool_seen,
    reservation_key, scsi_drive, scsi_driver, scsi_sources, scsi_ways, seated,
};
pub use mounts::{
    HealthReport, HealthRules, Judgement, MountSample, PairHealth, QueueAge, Symptom, TapeReport, Verdict,
    VerdictReason, WaitingFor,
};
pub use namespace::{LIST_PAGE_MAX, RemovalWait, RemoveTree, SELECTION_PATHS_MAX, TreeRemoval};
pub use pool::GROUPS_MAX as POOL_GROUPS_MAX;
pub use scheduler::SUSPECT_FAILURES_MAX;
pub use scheduler::{Expected, Reason, TimeRange};
pub use session::PACK_MEMBERS_MAX;
pub use session::Water;
pub use session::order::{Aim, OrderFrom};
pub use store::Refused;
pub use tape::{
    CHECK_TAPES_MAX, ChangeLogInfo, CheckState, DAMAGE_TOLD_MAX, DamagedPart, FlowInfo, LogKept,
    REFUSALS_SHOWN_MAX, REQUEST_PAGE_MAX, RecallRoom, RepackStep, RepackWait, TAPE_PAGE_MAX, TapeCheck,
    TapeDamage, TapeRepack, refusal_text,
};
pub use upkeep::{
    AddedDrive, AddedWhat, CatalogueFinding, KeptExtents, NewDrive, PoolHealth, QuarantineEnded,
    ReplacedDrive, UnknownKept, WhyLeft,
};
