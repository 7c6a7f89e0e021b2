//! The JSON of `/api/v1`: what the server says and the program `kist` reads. Sizes are bytes, times are UTC
//! in RFC 3339, spans are seconds. Fields are only ever added. It is data alone: the door makes it from what
//! the engine says, and a client needs nothing of the server to read it.

mod access;
mod clock;
mod disks;
mod drives;
mod files;
mod health;
mod keys;
mod locks;
mod pool;
mod problem;
mod protection;
mod reasons;
mod removals;
mod report;
mod requests;
mod status;
mod tapes;
mod usage;
mod works;

pub use access::{AclBody, AclLine, AclReply, OwnerBody, QuotaBody, QuotaReply};
pub use clock::{AcceptClockBody, ClockReply, TimeMoveReply};
pub use disks::{
    DiskReasonWire, DiskReportBody, DiskWaitsWire, DiskWatchReply, DisksFoundBody, DisksFoundReply,
    DriveDiskReply, DriveLightBody, DriveSlotWire, FoundDiskBody, TakeOverBody, WatchedDriveReply,
};
pub use drives::{DriveMotionReply, DriveReply};
pub use files::{
    CopyReply, FileReply, ListEntry, ListReply, MakeDirectoryBody, PinReply, PutReply, RenameBody, StatReply,
};
pub use health::{
    AlertReply, DriveContentReply, DriveFitReply, DriveMountReply, DriveProductReply, HealthPairReply,
    HealthReply, HealthRowReply, SymptomReply,
};
pub use keys::{KeyBody, KeyReply, NewKeyReply};
pub use locks::{LockBody, LockReply};
pub use pool::{
    AddDriveBody, AddDriveReply, BurnInReply, DrainReply, DriveLostBody, EvictorReply, PoolDriveReply,
    PoolGroupReply, PoolHealthReply, PoolReply, RebalanceBody, RebalanceEndReply, RebalanceReply,
    RebuildBody, RebuildReply, RecodeBegunReply, RecodeEndReply, RecodingReply, ReplaceBody, ReplaceReply,
    ScrubReply, SmallFilesReply, VerifyCatalogueReply, VerifyReply,
};
pub use problem::Problem;
pub use protection::{
    BackupReply, ChangeLogReply, QuarantineEndReply, QuarantineLeftReply, QuarantineReply, SnapshotReply,
};
pub use reasons::{CauseReply, ExpectedReply, OutlookReply, ReasonReply, TailFileReply};
pub use removals::{RemovalBody, RemovalReply};
pub use report::{
    MountsForReply, QueueAgeReply, ReadOrderReply, ReportRowReply, SpreadReply, TapeReportReply,
};
pub use requests::{
    CreatedReply, EvictReply, HeldByReply, PriorityBody, REQUEST_STATES, RefusalCountReply, RefusedReply,
    ReleaseBody, RequestFileReply, RequestFilesReply, RequestReply, SelectionBody, WhyReply,
};
pub use status::{ClassReply, MigrateBody, QueueReply, SettlingReply, StatusReply, ThreadReply};
pub use tapes::{
    CleanBody, CleaningCartridgeReply, ContainerReply, InventoryBody, InventoryReply, ReasonBody,
    TAPE_DRIVE_STATES, TAPE_STATES, TapeBody, TapeCheckBody, TapeCheckReply, TapeContentReply,
    TapeDamageReply, TapeExportReply, TapeHistoryReply, TapeImportBody, TapeImportReply, TapeRepackReply,
    TapeReply,
};
pub use usage::{
    CacheLifeReply, ClassUsageReply, DailyReply, DayReply, HitRateReply, MovementReply, PeakReply,
    ResidencyReply, SizeBucketReply, SizesReply, UsageCountReply, UsageReply, UsageSpansReply, WorkloadReply,
};
pub use works::WorkReply;
