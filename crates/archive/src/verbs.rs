//! The verbs of the archive that a room has: who calls need not know which.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::{
    ArchivePath, BlockAddress, ByteCount, DirId, Duration, Name, PercentPoints, RequestId, StripeCode,
    Timestamp, UploadId, Vid,
};
use catalogue::{AccessChain, AclEntry, Attributes, DriveSlot, QuotaLimits};
use ingest::Ingest;
use namespace::Namespace;
use tape::Tape;
use upkeep::Upkeep;

use crate::{
    About, AddedDrive, Archive, ArchiveError, BucketInfo, BucketSettings, CallProgress, CatalogueFinding,
    Cause, ChangeLogInfo, ClassInfo, CleaningInfo, ClockInfo, CloneOptions, CompleteOptions, DiskReport,
    DiskWatch, Download, DriveFitRecord, EvictDone, FlowInfo, HealthProblem, HealthReport, Hold, KeyPage,
    KeyQuery, Listed, MountSample, MultipartInfo, NewDrive, ObjectRemoved, ObjectStat, PartInfo, PartUpload,
    PathLocality, PathRequest, PathSubmission, PoolHealth, PoolInfo, PutDone, PutOptions, QueueLine,
    QuotaInfo, QuotaOf, RemoveTree, RenameOf, ReplacedDrive, ReportBy, RequestFile, RequestInfo,
    RequestOutlook, ScrubInfo, Selection, SpaceLeft, StageOptions, Stat, SubmittedPath, TakeOver, TapeCheck,
    TapeContent, TapeDriveInfo, TapeExport, TapeImport, TapeInfo, TapeRepack, TapeReport, TapeUse, Totals,
    TreeRemoval, UpkeepSettings, Upload, VerifyDone, VersionPage, VersionQuery, Which,
};

/// Gives the archive the methods of a room, by the same names.
macro_rules! verbs {
    ($room:ident: $of:ident { $(fn $name:ident(&self $(, $arg:ident: $type:ty)*) $(-> $out:ty)?;)* }) => {
        impl Archive {
            $(
                #[doc = concat!("[`", stringify!($of), "::", stringify!($name), "`].")]
                pub fn $name(&self $(, $arg: $type)*) $(-> $out)? {
                    let room: &$of = &self.0.$room;
                    room.$name($($arg),*)
                }
            )*
        }
    };
}

verbs! { namespace: Namespace {
    fn stat(&self, path: &ArchivePath) -> Result<Stat, ArchiveError>;
    fn space_left(&self, path: &ArchivePath, group: &str) -> Result<SpaceLeft, ArchiveError>;
    fn list(
        &self, path: &ArchivePath, after: Option<&Name>, limit: usize
    ) -> Result<(Vec<Listed>, bool), ArchiveError>;
    fn make_directory(
        &self, path: &ArchivePath, attributes: Attributes, class: Option<&str>, parents: bool
    ) -> Result<(), ArchiveError>;
    fn rename(&self, from: &ArchivePath, to: &ArchivePath, replace: bool) -> Result<(), ArchiveError>;
    fn rename_entry(&self, from: &ArchivePath, to: &ArchivePath, of: &RenameOf) -> Result<(), ArchiveError>;
    fn remove(&self, path: &ArchivePath) -> Result<(), ArchiveError>;
    fn access_chain(&self, path: &ArchivePath) -> Result<AccessChain, ArchiveError>;
    fn acl(&self, path: &ArchivePath) -> Result<Option<Vec<AclEntry>>, ArchiveError>;
    fn set_acl(&self, path: &ArchivePath, entries: Option<Vec<AclEntry>>) -> Result<(), ArchiveError>;
    fn set_acl_of(
        &self, path: &ArchivePath, directory: DirId, entries: Option<Vec<AclEntry>>
    ) -> Result<(), ArchiveError>;
    fn set_owner(
        &self, path: &ArchivePath, owner: Option<&str>, group: Option<&str>
    ) -> Result<(), ArchiveError>;
    fn quotas(&self) -> Result<Vec<QuotaInfo>, ArchiveError>;
    fn set_quota(&self, of: &QuotaOf, limits: QuotaLimits) -> Result<(), ArchiveError>;
    fn remove_quota(&self, of: &QuotaOf) -> Result<(), ArchiveError>;
    fn remove_tree(&self, path: &ArchivePath, how: RemoveTree) -> Result<TreeRemoval, ArchiveError>;
    fn tree_removal(&self, id: DirId) -> Result<TreeRemoval, ArchiveError>;
    fn tree_removals(&self) -> Result<Vec<TreeRemoval>, ArchiveError>;
    fn object(&self, path: &ArchivePath, which: Which) -> Result<ObjectStat, ArchiveError>;
    fn remove_object(
        &self, path: &ArchivePath, which: Which, bypass: bool
    ) -> Result<ObjectRemoved, ArchiveError>;
    fn set_xattrs(
        &self, path: &ArchivePath, which: Which, changes: &[(String, Option<Vec<u8>>)]
    ) -> Result<(), ArchiveError>;
    fn set_hold(
        &self, path: &ArchivePath, which: Which, hold: Hold, bypass: bool
    ) -> Result<(), ArchiveError>;
    fn buckets(&self) -> Result<Vec<BucketInfo>, ArchiveError>;
    fn bucket(&self, name: &Name) -> Result<BucketInfo, ArchiveError>;
    fn make_bucket(&self, name: &Name, owner: &str, set: &BucketSettings) -> Result<(), ArchiveError>;
    fn set_bucket(&self, name: &Name, settings: &BucketSettings) -> Result<(), ArchiveError>;
    fn remove_bucket(&self, name: &Name) -> Result<(), ArchiveError>;
    fn list_keys(&self, query: &KeyQuery) -> Result<KeyPage, ArchiveError>;
    fn list_versions(&self, query: &VersionQuery) -> Result<VersionPage, ArchiveError>;
} }

verbs! { upkeep: Upkeep {
    fn set_upkeep(&self, settings: UpkeepSettings);
    fn scrub_info(&self) -> ScrubInfo;
    fn scrub_now(&self);
    fn pool_health(&self) -> Result<PoolHealth, ArchiveError>;
    fn pool_drive_lost(&self, id: u16, accept_loss: bool) -> Result<(), ArchiveError>;
    fn pool_drive_drain(&self, id: u16) -> Result<(), ArchiveError>;
    fn pool_drive_keep(&self, id: u16) -> Result<(), ArchiveError>;
    fn pool_drive_remove(&self, id: u16) -> Result<(), ArchiveError>;
    fn pool_rebalance(&self, to: PercentPoints) -> Result<(), ArchiveError>;
    fn pool_rebalance_end(&self) -> Result<bool, ArchiveError>;
    fn pool_recode(&self) -> Result<StripeCode, ArchiveError>;
    fn pool_recode_end(&self) -> Result<bool, ArchiveError>;
    fn pool_rebuild(&self, id: Option<u16>, accept_loss: bool) -> Result<(), ArchiveError>;
    fn pool_drive_add(&self, wanted: &NewDrive) -> Result<AddedDrive, ArchiveError>;
    fn disk_watch(&self) -> Result<DiskWatch, ArchiveError>;
    fn disks_found(&self, reports: Vec<DiskReport>) -> Result<Option<u16>, ArchiveError>;
    fn drive_light(&self, id: u16, slot: Option<DriveSlot>) -> Result<(), ArchiveError>;
    fn drive_taken_over(&self, id: u16, by: &TakeOver) -> Result<ReplacedDrive, ArchiveError>;
    fn pool_drive_replace(
        &self, id: u16, new: bool, accept_loss: bool
    ) -> Result<ReplacedDrive, ArchiveError>;
    fn clock_info(&self) -> Result<ClockInfo, ArchiveError>;
    fn accept_time(&self, today: Timestamp, back: bool) -> Result<ClockInfo, ArchiveError>;
    fn verify_catalogue(&self) -> Result<Vec<CatalogueFinding>, ArchiveError>;
} }

verbs! { ingest: Ingest {
    fn begin_put(&self, path: &ArchivePath, options: PutOptions) -> Result<Upload, ArchiveError>;
    fn begin_part(
        &self, upload: UploadId, number: u16, length: Option<ByteCount>
    ) -> Result<PartUpload, ArchiveError>;
    fn open_multipart(&self, path: &ArchivePath, options: PutOptions) -> Result<UploadId, ArchiveError>;
    fn multipart(&self, upload: UploadId) -> Result<MultipartInfo, ArchiveError>;
    fn multiparts(
        &self, bucket: &Name, prefix: &str, after: Option<(&str, UploadId)>, limit: usize
    ) -> Result<(Vec<MultipartInfo>, bool), ArchiveError>;
    fn multiparts_before(
        &self, before: Timestamp, after: Option<UploadId>, limit: usize
    ) -> Result<Vec<MultipartInfo>, ArchiveError>;
    fn parts(
        &self, upload: UploadId, after: u16, limit: usize
    ) -> Result<(Vec<PartInfo>, bool), ArchiveError>;
    fn complete_multipart(
        &self, upload: UploadId, parts: &[u16], options: CompleteOptions
    ) -> Result<PutDone, ArchiveError>;
    fn completed_multipart(&self, path: &ArchivePath, upload: UploadId) -> Result<PutDone, ArchiveError>;
    fn abort_multipart(&self, upload: UploadId) -> Result<(), ArchiveError>;
    fn clone_object(
        &self, from: &ArchivePath, which: Which, to: &ArchivePath, options: CloneOptions
    ) -> Result<PutDone, ArchiveError>;
    fn open_read(&self, path: &ArchivePath) -> Result<Download, ArchiveError>;
    fn open_read_for(&self, path: &ArchivePath, who: Option<&str>) -> Result<Download, ArchiveError>;
    fn open_object(&self, path: &ArchivePath, which: Which, who: &str) -> Result<Download, ArchiveError>;
    fn verify(&self, path: &ArchivePath, offset: u64, length: u64) -> Result<VerifyDone, ArchiveError>;
} }

verbs! { tape: Tape {
    fn change_log(&self) -> Result<ChangeLogInfo, ArchiveError>;
    fn upload_haste(&self, caller: &str) -> u64;
    fn flow(&self) -> Result<FlowInfo, ArchiveError>;
    fn request_outlook(&self, request: RequestId) -> Result<RequestOutlook, ArchiveError>;
    fn restore_object(
        &self, path: &ArchivePath, which: Which, options: StageOptions
    ) -> Result<bool, ArchiveError>;
    fn change_class(&self, path: &ArchivePath, class: &str) -> Result<(), ArchiveError>;
    fn migrate_now(&self, class: Option<&str>) -> Result<(), ArchiveError>;
    fn take_inventory(&self) -> Result<BTreeSet<Vid>, ArchiveError>;
    fn refresh_inventory(&self, scan: bool) -> Result<BTreeSet<Vid>, ArchiveError>;
    fn export_tape(&self, vid: Vid) -> Result<TapeExport, ArchiveError>;
    fn import_tapes(&self, element: Option<u32>) -> Result<Vec<TapeImport>, ArchiveError>;
    fn set_tape_off_site(&self, vid: Vid, place: &str) -> Result<(), ArchiveError>;
    fn add_tape(&self, vid: Vid) -> Result<(), ArchiveError>;
    fn retire_tape(&self, vid: Vid, reason: &str) -> Result<(), ArchiveError>;
    fn tape_report(&self, window: Duration, by: ReportBy) -> Result<TapeReport, ArchiveError>;
    fn machine_health(&self) -> Arc<HealthReport>;
    fn drive_mounts(&self, drive: &str) -> Result<Vec<MountSample>, ArchiveError>;
    fn drive_fits(&self, drive: &str) -> Result<Vec<DriveFitRecord>, ArchiveError>;
    fn tapes(&self) -> Result<Vec<TapeInfo>, ArchiveError>;
    fn tape_content(
        &self, vid: Vid, from: BlockAddress, limit: usize
    ) -> Result<(Vec<TapeContent>, Option<BlockAddress>), ArchiveError>;
    fn tape_drives(&self) -> Vec<TapeDriveInfo>;
    fn make_room_now(&self);
    fn pool_info(&self) -> Result<PoolInfo, ArchiveError>;
    fn classes(&self) -> Result<Vec<ClassInfo>, ArchiveError>;
    fn queue(&self) -> Result<Vec<QueueLine>, ArchiveError>;
    fn totals(&self) -> Result<Totals, ArchiveError>;
    fn health(&self) -> Vec<HealthProblem>;
    fn set_tape(&self, vid: Vid, use_as: TapeUse, reason: &str) -> Result<(), ArchiveError>;
    fn drive_up(&self, drive: &str) -> Result<(), ArchiveError>;
    fn stage(&self, selection: &Selection, options: StageOptions) -> Result<RequestId, ArchiveError>;
    fn stage_told(
        &self, selection: &Selection, options: StageOptions, progress: &CallProgress
    ) -> Result<RequestId, ArchiveError>;
    fn stage_paths(&self, submission: PathSubmission) -> Result<RequestId, ArchiveError>;
    fn path_request(&self, request: RequestId) -> Result<PathRequest, ArchiveError>;
    fn cancel_paths(&self, request: RequestId, paths: &[SubmittedPath]) -> Result<(), ArchiveError>;
    fn release_paths(&self, request: RequestId, paths: &[SubmittedPath]) -> Result<(), ArchiveError>;
    fn delete_request(&self, request: RequestId) -> Result<(), ArchiveError>;
    fn localities(&self, paths: &[ArchivePath]) -> Result<Vec<PathLocality>, ArchiveError>;
    fn set_priority(&self, request: RequestId, priority: u8) -> Result<(), ArchiveError>;
    fn request(&self, request: RequestId) -> Result<RequestInfo, ArchiveError>;
    fn requests(&self, before: Option<RequestId>, limit: usize) -> Result<Vec<RequestInfo>, ArchiveError>;
    fn request_files(
        &self, request: RequestId, from: u32, limit: usize
    ) -> Result<(Vec<RequestFile>, Option<u32>), ArchiveError>;
    fn cancel_request(&self, request: RequestId) -> Result<(), ArchiveError>;
    fn cancel_request_told(&self, request: RequestId, progress: &CallProgress) -> Result<(), ArchiveError>;
    fn release(&self, request: RequestId, paths: Option<&[ArchivePath]>) -> Result<(), ArchiveError>;
    fn release_told(
        &self, request: RequestId, paths: Option<&[ArchivePath]>, progress: &CallProgress
    ) -> Result<(), ArchiveError>;
    fn evict(&self, selection: &Selection) -> Result<EvictDone, ArchiveError>;
    fn evict_told(&self, selection: &Selection, progress: &CallProgress) -> Result<EvictDone, ArchiveError>;
    fn check_tapes(&self, vids: &[Vid]) -> Result<(), ArchiveError>;
    fn stop_checks(&self, vids: &[Vid]) -> Result<(), ArchiveError>;
    fn tape_check(&self, vid: Vid) -> Result<Option<TapeCheck>, ArchiveError>;
    fn repack_tape(&self, vid: Vid, reason: &str) -> Result<(), ArchiveError>;
    fn tape_repack(&self, vid: Vid) -> Result<Option<TapeRepack>, ArchiveError>;
    fn reclaim_tape(&self, vid: Vid) -> Result<(), ArchiveError>;
    fn drive_down(&self, drive: &str, reason: &str) -> Result<(), ArchiveError>;
    fn clean_drive(&self, drive: &str, with: Option<Vid>) -> Result<(), ArchiveError>;
    fn cleaning(&self) -> Result<CleaningInfo, ArchiveError>;
    fn why_path(&self, path: &ArchivePath) -> Result<Vec<String>, ArchiveError>;
    fn why_request(&self, request: RequestId) -> Result<Vec<String>, ArchiveError>;
    fn explain(&self, about: &About) -> Result<Vec<Cause>, ArchiveError>;
} }

impl Archive {
    /// [`Tape::tape_info`].
    pub fn tape(&self, vid: Vid) -> Result<TapeInfo, ArchiveError> {
        self.0.tape.tape_info(vid)
    }
}
