//! The ground that all rooms of the engine stand on, and that none of them owns: settings, classes, the
//! catalogue and the pool, the gate of readers, the notifier, threads, errors, and the plain values that
//! callers get.

pub mod access;
mod api;
mod classes;
mod disks;
mod error;
mod figures;
mod gate;
mod ground;
mod health;
mod leaving;
pub mod libraries;
mod loss;
pub mod notifier;
mod objects_api;
mod offline;
mod path_requests;
mod policy;
mod pool_drives;
mod quota;
mod scrub_info;
mod settings;
mod settled;
mod settling_info;
mod space;
mod tapes;
mod uploads;
mod upward;
mod uses;
mod worker;

pub use access::{ACCESSES_WAITING_MAX, AccessQueue, Selected, Wanted};
pub use api::*;
pub use classes::{Class, Classes};
pub use disks::{
    DISK_REASONS_MAX, DISK_TEXT_BYTES_MAX, DiskPolicy, DiskReason, DiskReport, DiskWatch, DriveDiskInfo,
    FoundDisk, PredictedFailure, ReplaceLost, TakeOver, Waits, WatchedDrive,
};
pub use error::{ArchiveError, ErrorKind, OpenError, UploadError, WhyNoLock, WhyNotAtOnce};
pub use figures::{EvictorInfo, LostFilesInfo, PoolHolders, SegmentUse};
pub use gate::{HeldBlobs, ReadGate, Reading};
pub use ground::{Ground, PoolDrive, truncated};
pub use health::HealthProblem;
pub use leaving::{LeavingCause, LeavingCauses, LeavingSignal};
pub use libraries::Libraries;
pub use loss::LossForeseen;
pub use notifier::Notifier;
pub use objects_api::*;
pub use offline::MachineTimes;
pub use path_requests::{PathLocality, PathRequest, PathState, PathSubmission, SubmittedPath};
pub use policy::ROBOT_MODEL;
pub use pool_drives::{DriveFileError, NameDrive, PoolDriveFile, PoolDriveList};
pub use quota::{QuotaInfo, QuotaOf, SpaceLeft, named};
pub use scrub_info::{
    DrainInfo, GroupInfo, PoolWork, RebalanceInfo, RebuildInfo, RecodingInfo, ScrubInfo, UpkeepSettings,
};
pub use settings::{
    ChangeLogSettings, ChapSettings, ClassSettings, CleaningSettings, DriveLimits, FlowSettings,
    GroupSettings, LeavingSettings, LibraryKind, LibrarySettings, MountSettings, PlacingSettings,
    PoolDriveSettings, PoolEncryption, PoolSettings, ScsiLibrarySettings, Settings, ShareSettings,
    TapePoolSettings, TapeSettings, TimingSettings, VirtualLibrarySettings,
};
pub use settled::Settled;
pub use settling_info::{SettlingInfo, SettlingStage, time_left};
pub use space::{BlobRoom, SMALL_BYTES_MAX};
pub use tapes::{
    SMALLEST_TAPE, WARNING_LEAST, WARNING_PART, capacity_of_empty, is_readable, is_unidentified,
    largest_container, reserve, room_left, summary, useful_room,
};
pub use uploads::{each_upload, path_of_upload};
pub use upward::Upward;
pub use uses::Uses;
pub use worker::{Duty, Ends, Worker, WorkerInfo, Workers};
