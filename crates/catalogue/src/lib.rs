//! The one truth about names, files, copies, tapes and requests.
//!
//! Commands change it ([`apply()`]), a [`View`] reads it, both over a narrow ordered key-value seam
//! ([`Snapshot`], [`Transaction`]). `docs/format/catalogue.md` gives every byte.

// Casts that lose something are no way to take what comes from outside; tests may.
#![cfg_attr(not(test), warn(clippy::cast_possible_truncation))]

mod apply;
mod check;
mod codec;
mod command;
mod draft;
mod encoding;
mod error;
mod frame;
#[doc(hidden)]
pub mod fuzz;
mod growth;
mod key;
mod kv;
mod memory;
mod overlay;
mod record;
mod table;
pub mod typed;
mod view;

pub use apply::{Batch, CLASS_COPIES_MAX, LABEL_BYTES_MAX, RESTORE_JUMP, apply, changes_behind};
pub use check::Inconsistency;
pub use command::{
    ABORT_PARTS_MAX, AdoptContainer, AskedFor, AskedPath, BATCH_FILES_MAX, BUCKET_UPLOADS_MAX, BULK_FILES,
    CONTAINER_MEMBERS_MAX, CloneFile, Command, CompleteUpload, Envelope, EvictRefusal, IDEMPOTENCY_KEPT,
    KEPT_PATH_BYTES_MAX, OPEN_REQUESTS_MAX, OpenPack, OpenUpload, Outcome, PARTS_MAX, PRIORITY_MAX,
    PRIORITY_USUAL, PartsRecalled, PlannedContainer, PoolCopy, PoolData, PoolLoss, PutFile, PutObject,
    PutOutcome, PutPart, QUOTAS_MAX, REQUEST_FILES_MAX, REQUEST_PATHS_MAX, RecallDone, Removal, RemovedFile,
    Replace, Requeue, SEGMENTS_MAX, SealContainer, TREE_ROWS_LOOKED_MAX, TREES_MAX, TapeFound,
    UNKNOWN_BATCH_MAX, UPLOADS_MAX, Work, completion_key,
};
pub use encoding::{DecodeError, ENVELOPE_BYTES_MAX, ENVELOPE_VERSION};
pub use error::{NotAtOnce, Object, ReadError, Rejection};
pub use frame::{RECORD_VERSION, check_record};
pub use growth::Need;
pub use kv::{KvError, Snapshot, Transaction, Visit};
pub use memory::MemoryStore;
pub use overlay::{Overlay, Rows, scan_overlaid, scan_rows};
pub use record::{
    ACL_ENTRIES_MAX, AccessChain, AclEntry, Attributes, AwayKind, BaseRecord, BlobRecord, BucketRecord,
    BucketSettings, ClassRecord, CleanerRecord, CleaningAsk, ClockRecord, ContainerCopy, ContainerKind,
    ContainerRecord, CopyState, Counter, DirectoryOwner, DirectoryRecord, DriveCleaning, DriveDisk,
    DriveDiskRecord, DriveSlot, Entry, FileKind, FileRecord, FileState, Garbage, Hold, IdempotencyRecord,
    ItemState, LeapsBelieved, LifecycleCursor, LifecycleRule, MemberRecord, PathList, PathRefusal,
    PathTarget, PoolDriveRecord, PoolDriveState, QueuedContainer, QuotaCounting, QuotaLimits, QuotaRecord,
    QuotaSubject, RebalanceRecord, RecallItem, RecallKey, RecodingRecord, RequestItem, RequestPath,
    RequestRecord, RequestState, Retention, RetentionMode, Rule, RunEnd, RunItem, RunRecord, SealingRecord,
    Tally, TapeAway, TapeHistory, TapePlace, TapeRecord, TapeState, TimeMove, TodoFile, TreeRecord,
    UnknownExtent, UnneededSectors, UploadPart, UploadPlan, UploadRecord, UploadUse, UseHour, Version,
    Versioning, Want,
};
pub use table::Table;
pub use typed::TypedCommand;
pub use view::{Followed, TodoRow, View, merged_ranges};
