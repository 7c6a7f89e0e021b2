//! The engine: ingest, migrate, recall, evict. It knows no HTTP and no JSON.

mod access;
mod access_log;
mod api;
mod archive;
mod away;
mod bases;
mod bases_on_tapes;
mod bell;
mod buckets;
mod change_log;
mod chores;
mod classes;
mod clone;
mod conductor;
mod dissolve;
mod download;
mod engine;
mod error;
mod evictable;
mod flow;
mod foresight;
mod forget;
mod gate;
mod glacier;
mod haste;
mod health;
mod ingest;
mod inventory;
mod keep_time;
mod keys;
mod libraries;
mod lifecycle;
mod lost;
mod lost_files;
mod machines;
mod mount_log;
mod multipart;
mod namespace;
mod objects;
mod objects_api;
mod offline;
mod open_parts;
mod operate;
mod part_upload;
mod placing;
mod policy;
mod pool_drives;
mod pool_gaps;
mod pool_rebuild;
mod quotas;
mod reasons;
mod repack;
mod requests;
mod resume;
mod scrub;
mod scrub_info;
mod seal;
mod segment_use;
mod select;
mod settings;
mod settle;
mod settling_info;
mod small;
mod space;
mod suspects;
mod sweep;
mod tape;
mod tapes;
mod tracks;
mod trees;
mod unknown;
mod verify;
mod versions;
mod warnings;
mod why;

pub use access_log::{ACCESSES_WAITING_MAX, UsageReading};
pub use api::*;
pub use archive::Archive;
pub use backup::BackupStatus;
pub use catalogue::{
    ACL_ENTRIES_MAX, AccessChain, AclEntry, DirectoryOwner, PRIORITY_MAX, PRIORITY_USUAL, QuotaCounting,
    QuotaLimits, QuotaRecord, RESTORE_JUMP,
};
pub use change_log::{ChangeLogInfo, LogKept};
pub use download::Download;
pub use drive::DriveLocation;
pub use error::{ArchiveError, ErrorKind, OpenError, UploadError, WhyNotAtOnce};
pub use evictable::PoolHolders;
pub use flow::{FlowInfo, RecallRoom};
pub use health::HealthProblem;
pub use ingest::{PutCallback, SMALL_BYTES_MAX, Upload};
pub use journal::{
    AccessLog, AccessLogFiles, AccessLogRead, AccessReading, DayReading, DayTotal, MotionRecord, MountKind,
    MountLog, MountLogFiles, MountLogRead, MountRecord, MountReport, MountSessionEnd, QueueAtMount, ReportBy,
    ReportRow, SessionRecord, Spread, USAGE_STEP_BYTES, UsageReport,
};
pub use lost::LossForeseen;
pub use lost_files::LostFilesInfo;
pub use machines::{
    Machines, PoolDrive, PoolShape, create_catalogue, open_libraries, open_library, pool_seen,
};
pub use mount_log::{QueueAge, TapeReport, WaitingFor};
pub use multipart::{MULTIPART_PAGE_MAX, UPLOAD_XATTRS};
pub use namespace::LIST_PAGE_MAX;
pub use objects_api::*;
pub use offline::MachineTimes;
pub use operate::TAPE_PAGE_MAX;
pub use part_upload::PartUpload;
pub use pool_drives::{PoolHealth, ReplacedDrive};
pub use quotas::{QuotaInfo, QuotaOf};
pub use requests::{REFUSALS_SHOWN_MAX, REQUEST_PAGE_MAX};
pub use scheduler::SUSPECT_FAILURES_MAX;
pub use scheduler::{Expected, Reason, TimeRange};
pub use scrub_info::{ScrubInfo, UpkeepSettings};
pub use segment_use::SegmentUse;
pub use select::SELECTION_PATHS_MAX;
pub use session::PACK_MEMBERS_MAX;
pub use session::order::Aim;
pub use settings::{
    ChangeLogSettings, ClassSettings, DriveLimits, FlowSettings, LibraryKind, LibrarySettings, MountSettings,
    PoolDriveSettings, PoolSettings, Settings, ShareSettings, TapePoolSettings, TapeSettings, TimingSettings,
    VirtualLibrarySettings,
};
pub use settling_info::{SettlingInfo, SettlingStage, time_left};
pub use store::Refused;
pub use tapes::{
    CHECK_TAPES_MAX, CheckState, DAMAGE_TOLD_MAX, DamagedPart, TapeCheck, TapeDamage, TapeRepack,
};
pub use trees::{RemovalWait, RemoveTree, TreeRemoval};
pub use unknown::{KeptExtents, UnknownKept};
pub use verify::{CatalogueFinding, VERIFY_BYTES_MAX, VerifyDone};
pub use why::refusal_text;
