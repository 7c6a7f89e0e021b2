//! `archive::Archive` as the doors see it.

use archive::{
    About, AccessChain, AclEntry, Archive, ArchiveError, BackupStatus, BucketInfo, BucketSettings,
    CallProgress, CatalogueFinding, Cause, ChangeLogInfo, ClassInfo, ClockInfo, CloneOptions,
    CompleteOptions, EvictDone, FileStat, HealthProblem, Hold, KeptExtents, KeyPage, KeyQuery, Listed,
    MultipartInfo, ObjectRemoved, ObjectStat, PartInfo, PoolHealth, PoolInfo, PutCallback, PutDone,
    PutOptions, QueueLine, QuotaInfo, QuotaLimits, QuotaOf, RemoveTree, RenameOf, ReplacedDrive, ReportBy,
    RequestFile, RequestInfo, RequestOutlook, ScrubInfo, Selection, StageOptions, Stat, TapeCheck,
    TapeContent, TapeDriveInfo, TapeInfo, TapeRepack, TapeReport, TapeUse, Totals, TreeRemoval, UnknownKept,
    UsageReport, VerifyDone, VersionPage, VersionQuery, Which,
};
use base::{
    ArchivePath, BlockAddress, ByteCount, DirId, Duration, Name, RequestId, Timestamp, UploadId, Uuid, Vid,
};
use bytes::Bytes;
use catalogue::Attributes;

use crate::seam::{Download, Engine, PartUpload, Upload, UsageSteps};

impl Engine for Archive {
    fn instance(&self) -> Uuid {
        Archive::instance(self)
    }

    fn health(&self) -> Vec<HealthProblem> {
        Archive::health(self)
    }

    fn stat(&self, path: &ArchivePath) -> Result<Stat, ArchiveError> {
        Archive::stat(self, path)
    }

    fn list(
        &self,
        path: &ArchivePath,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<(Vec<Listed>, bool), ArchiveError> {
        Archive::list(self, path, after, limit)
    }

    fn make_directory(
        &self,
        path: &ArchivePath,
        attributes: Attributes,
        class: Option<&str>,
        parents: bool,
    ) -> Result<(), ArchiveError> {
        Archive::make_directory(self, path, attributes, class, parents)
    }

    fn rename(&self, from: &ArchivePath, to: &ArchivePath, replace: bool) -> Result<(), ArchiveError> {
        Archive::rename(self, from, to, replace)
    }

    fn rename_entry(&self, from: &ArchivePath, to: &ArchivePath, of: &RenameOf) -> Result<(), ArchiveError> {
        Archive::rename_entry(self, from, to, of)
    }

    fn remove(&self, path: &ArchivePath) -> Result<(), ArchiveError> {
        Archive::remove(self, path)
    }

    fn remove_tree(&self, path: &ArchivePath, how: RemoveTree) -> Result<TreeRemoval, ArchiveError> {
        Archive::remove_tree(self, path, how)
    }

    fn tree_removal(&self, id: DirId) -> Result<TreeRemoval, ArchiveError> {
        Archive::tree_removal(self, id)
    }

    fn tree_removals(&self) -> Result<Vec<TreeRemoval>, ArchiveError> {
        Archive::tree_removals(self)
    }

    fn begin_put(&self, path: &ArchivePath, options: PutOptions) -> Result<Box<dyn Upload>, ArchiveError> {
        Ok(Box::new(Archive::begin_put(self, path, options)?))
    }

    fn open_read(&self, path: &ArchivePath) -> Result<Box<dyn Download>, ArchiveError> {
        Ok(Box::new(Archive::open_read(self, path)?))
    }

    fn upload_haste(&self, caller: &str) -> u64 {
        Archive::upload_haste(self, caller)
    }

    fn open_read_for(&self, path: &ArchivePath, who: &str) -> Result<Box<dyn Download>, ArchiveError> {
        Ok(Box::new(Archive::open_read_for(self, path, Some(who))?))
    }

    fn stage(&self, selection: &Selection, options: StageOptions) -> Result<RequestId, ArchiveError> {
        Archive::stage(self, selection, options)
    }

    fn request(&self, request: RequestId) -> Result<RequestInfo, ArchiveError> {
        Archive::request(self, request)
    }

    fn requests(&self, before: Option<RequestId>, limit: usize) -> Result<Vec<RequestInfo>, ArchiveError> {
        Archive::requests(self, before, limit)
    }

    fn request_files(
        &self,
        request: RequestId,
        from: u32,
        limit: usize,
    ) -> Result<(Vec<RequestFile>, Option<u32>), ArchiveError> {
        Archive::request_files(self, request, from, limit)
    }

    fn set_priority(&self, request: RequestId, priority: u8) -> Result<(), ArchiveError> {
        Archive::set_priority(self, request, priority)
    }

    fn cancel_request(&self, request: RequestId) -> Result<(), ArchiveError> {
        Archive::cancel_request(self, request)
    }

    fn release(&self, request: RequestId, paths: Option<&[ArchivePath]>) -> Result<(), ArchiveError> {
        Archive::release(self, request, paths)
    }

    fn evict(&self, selection: &Selection) -> Result<EvictDone, ArchiveError> {
        Archive::evict(self, selection)
    }

    fn stage_told(
        &self,
        selection: &Selection,
        options: StageOptions,
        progress: &CallProgress,
    ) -> Result<RequestId, ArchiveError> {
        Archive::stage_told(self, selection, options, progress)
    }

    fn cancel_request_told(&self, request: RequestId, progress: &CallProgress) -> Result<(), ArchiveError> {
        Archive::cancel_request_told(self, request, progress)
    }

    fn release_told(
        &self,
        request: RequestId,
        paths: Option<&[ArchivePath]>,
        progress: &CallProgress,
    ) -> Result<(), ArchiveError> {
        Archive::release_told(self, request, paths, progress)
    }

    fn evict_told(&self, selection: &Selection, progress: &CallProgress) -> Result<EvictDone, ArchiveError> {
        Archive::evict_told(self, selection, progress)
    }

    fn explain(&self, about: &About) -> Result<Vec<Cause>, ArchiveError> {
        Archive::explain(self, about)
    }

    fn request_outlook(&self, request: RequestId) -> Result<RequestOutlook, ArchiveError> {
        Archive::request_outlook(self, request)
    }

    fn tapes(&self) -> Result<Vec<TapeInfo>, ArchiveError> {
        Archive::tapes(self)
    }

    fn tape(&self, vid: Vid) -> Result<TapeInfo, ArchiveError> {
        Archive::tape(self, vid)
    }

    fn tape_content(
        &self,
        vid: Vid,
        from: BlockAddress,
        limit: usize,
    ) -> Result<(Vec<TapeContent>, Option<BlockAddress>), ArchiveError> {
        Archive::tape_content(self, vid, from, limit)
    }

    fn tape_drives(&self) -> Vec<TapeDriveInfo> {
        Archive::tape_drives(self)
    }

    fn pool_info(&self) -> Result<PoolInfo, ArchiveError> {
        Archive::pool_info(self)
    }

    fn classes(&self) -> Result<Vec<ClassInfo>, ArchiveError> {
        Archive::classes(self)
    }

    fn queue(&self) -> Result<Vec<QueueLine>, ArchiveError> {
        Archive::queue(self)
    }

    fn totals(&self) -> Result<Totals, ArchiveError> {
        Archive::totals(self)
    }

    fn set_tape(&self, vid: Vid, use_as: TapeUse, reason: &str) -> Result<(), ArchiveError> {
        Archive::set_tape(self, vid, use_as, reason)
    }

    fn drive_up(&self, drive: &str) -> Result<(), ArchiveError> {
        Archive::drive_up(self, drive)
    }

    fn backup_status(&self) -> Option<BackupStatus> {
        Archive::backup_status(self)
    }

    fn backup_now(&self) -> Option<u64> {
        Archive::backup_now(self)
    }

    fn change_log(&self) -> Result<Option<ChangeLogInfo>, ArchiveError> {
        Archive::change_log(self).map(Some)
    }

    fn quarantined(&self) -> Result<Option<KeptExtents>, ArchiveError> {
        Archive::quarantined(self)
    }

    fn unknown_kept(&self) -> Result<UnknownKept, ArchiveError> {
        Archive::unknown_kept(self)
    }

    fn end_quarantine(&self) -> Result<(), ArchiveError> {
        Archive::end_quarantine(self).map(drop)
    }

    fn clock_info(&self) -> Result<ClockInfo, ArchiveError> {
        Archive::clock_info(self)
    }

    fn accept_time(&self, today: Timestamp, back: bool) -> Result<ClockInfo, ArchiveError> {
        Archive::accept_time(self, today, back)
    }

    fn drive_down(&self, drive: &str, reason: &str) -> Result<(), ArchiveError> {
        Archive::drive_down(self, drive, reason)
    }

    fn check_tapes(&self, vids: &[Vid]) -> Result<(), ArchiveError> {
        Archive::check_tapes(self, vids)
    }

    fn tape_check(&self, vid: Vid) -> Result<Option<TapeCheck>, ArchiveError> {
        Archive::tape_check(self, vid)
    }

    fn repack_tape(&self, vid: Vid, reason: &str) -> Result<(), ArchiveError> {
        Archive::repack_tape(self, vid, reason)
    }

    fn tape_repack(&self, vid: Vid) -> Result<Option<TapeRepack>, ArchiveError> {
        Archive::tape_repack(self, vid)
    }

    fn reclaim_tape(&self, vid: Vid) -> Result<(), ArchiveError> {
        Archive::reclaim_tape(self, vid)
    }

    fn tape_report(&self, window: Duration, by: ReportBy) -> Result<TapeReport, ArchiveError> {
        Archive::tape_report(self, window, by)
    }

    fn usage(&self, window: Duration, class: Option<&str>) -> Result<UsageReport, ArchiveError> {
        Archive::usage(self, window, class)
    }

    fn begin_usage(
        &self,
        window: Duration,
        class: Option<&str>,
    ) -> Result<Box<dyn UsageSteps>, ArchiveError> {
        Ok(Box::new(Archive::begin_usage(self, window, class)?))
    }

    fn migrate_now(&self, class: Option<&str>) -> Result<(), ArchiveError> {
        Archive::migrate_now(self, class)
    }

    fn pool_health(&self) -> Result<PoolHealth, ArchiveError> {
        Archive::pool_health(self)
    }

    fn scrub_info(&self) -> ScrubInfo {
        Archive::scrub_info(self)
    }

    fn scrub_now(&self) {
        Archive::scrub_now(self);
    }

    fn verify(&self, path: &ArchivePath, offset: u64, length: u64) -> Result<VerifyDone, ArchiveError> {
        Archive::verify(self, path, offset, length)
    }

    fn verify_catalogue(&self) -> Result<Vec<CatalogueFinding>, ArchiveError> {
        Archive::verify_catalogue(self)
    }

    fn buckets(&self) -> Result<Vec<BucketInfo>, ArchiveError> {
        Archive::buckets(self)
    }

    fn bucket(&self, name: &Name) -> Result<BucketInfo, ArchiveError> {
        Archive::bucket(self, name)
    }

    fn make_bucket(&self, name: &Name, owner: &str, set: &BucketSettings) -> Result<(), ArchiveError> {
        Archive::make_bucket(self, name, owner, set)
    }

    fn set_bucket(&self, name: &Name, settings: &BucketSettings) -> Result<(), ArchiveError> {
        Archive::set_bucket(self, name, settings)
    }

    fn remove_bucket(&self, name: &Name) -> Result<(), ArchiveError> {
        Archive::remove_bucket(self, name)
    }

    fn object(&self, path: &ArchivePath, which: Which) -> Result<ObjectStat, ArchiveError> {
        Archive::object(self, path, which)
    }

    fn open_object(
        &self,
        path: &ArchivePath,
        which: Which,
        who: &str,
    ) -> Result<Box<dyn Download>, ArchiveError> {
        Ok(Box::new(Archive::open_object(self, path, which, who)?))
    }

    fn remove_object(
        &self,
        path: &ArchivePath,
        which: Which,
        bypass: bool,
    ) -> Result<ObjectRemoved, ArchiveError> {
        Archive::remove_object(self, path, which, bypass)
    }

    fn list_versions(&self, query: &VersionQuery) -> Result<VersionPage, ArchiveError> {
        Archive::list_versions(self, query)
    }

    fn set_xattrs(
        &self,
        path: &ArchivePath,
        which: Which,
        changes: &[(String, Option<Vec<u8>>)],
    ) -> Result<(), ArchiveError> {
        Archive::set_xattrs(self, path, which, changes)
    }

    fn set_hold(
        &self,
        path: &ArchivePath,
        which: Which,
        hold: Hold,
        bypass: bool,
    ) -> Result<(), ArchiveError> {
        Archive::set_hold(self, path, which, hold, bypass)
    }

    fn clone_object(
        &self,
        from: &ArchivePath,
        which: Which,
        to: &ArchivePath,
        options: CloneOptions,
    ) -> Result<PutDone, ArchiveError> {
        Archive::clone_object(self, from, which, to, options)
    }

    fn pool_rebuild(&self, drive: Option<u16>, accept_loss: bool) -> Result<(), ArchiveError> {
        Archive::pool_rebuild(self, drive, accept_loss)
    }

    fn access_chain(&self, path: &ArchivePath) -> Result<AccessChain, ArchiveError> {
        Archive::access_chain(self, path)
    }

    fn acl(&self, path: &ArchivePath) -> Result<Option<Vec<AclEntry>>, ArchiveError> {
        Archive::acl(self, path)
    }

    fn set_acl(&self, path: &ArchivePath, entries: Option<Vec<AclEntry>>) -> Result<(), ArchiveError> {
        Archive::set_acl(self, path, entries)
    }

    fn set_acl_of(
        &self,
        path: &ArchivePath,
        directory: DirId,
        entries: Option<Vec<AclEntry>>,
    ) -> Result<(), ArchiveError> {
        Archive::set_acl_of(self, path, directory, entries)
    }

    fn set_owner(
        &self,
        path: &ArchivePath,
        owner: Option<&str>,
        group: Option<&str>,
    ) -> Result<(), ArchiveError> {
        Archive::set_owner(self, path, owner, group)
    }

    fn quotas(&self) -> Result<Vec<QuotaInfo>, ArchiveError> {
        Archive::quotas(self)
    }

    fn set_quota(&self, of: &QuotaOf, limits: QuotaLimits) -> Result<(), ArchiveError> {
        Archive::set_quota(self, of, limits)
    }

    fn remove_quota(&self, of: &QuotaOf) -> Result<(), ArchiveError> {
        Archive::remove_quota(self, of)
    }

    fn pool_drive_lost(&self, drive: u16, accept_loss: bool) -> Result<(), ArchiveError> {
        Archive::pool_drive_lost(self, drive, accept_loss)
    }

    fn pool_drive_replace(
        &self,
        drive: u16,
        new: bool,
        accept_loss: bool,
    ) -> Result<ReplacedDrive, ArchiveError> {
        Archive::pool_drive_replace(self, drive, new, accept_loss)
    }

    fn change_class(&self, path: &ArchivePath, class: &str) -> Result<(), ArchiveError> {
        Archive::change_class(self, path, class)
    }

    fn restore_object(
        &self,
        path: &ArchivePath,
        which: Which,
        options: StageOptions,
    ) -> Result<bool, ArchiveError> {
        Archive::restore_object(self, path, which, options)
    }

    fn list_keys(&self, query: &KeyQuery) -> Result<KeyPage, ArchiveError> {
        Archive::list_keys(self, query)
    }

    fn open_multipart(&self, path: &ArchivePath, options: PutOptions) -> Result<UploadId, ArchiveError> {
        Archive::open_multipart(self, path, options)
    }

    fn multipart(&self, upload: UploadId) -> Result<MultipartInfo, ArchiveError> {
        Archive::multipart(self, upload)
    }

    fn multiparts(
        &self,
        bucket: &Name,
        prefix: &str,
        after: Option<(&str, UploadId)>,
        limit: usize,
    ) -> Result<(Vec<MultipartInfo>, bool), ArchiveError> {
        Archive::multiparts(self, bucket, prefix, after, limit)
    }

    fn parts(
        &self,
        upload: UploadId,
        after: u16,
        limit: usize,
    ) -> Result<(Vec<PartInfo>, bool), ArchiveError> {
        Archive::parts(self, upload, after, limit)
    }

    fn begin_part(
        &self,
        upload: UploadId,
        number: u16,
        length: Option<ByteCount>,
        who: &str,
    ) -> Result<Box<dyn PartUpload>, ArchiveError> {
        Ok(Box::new(Archive::begin_part(self, upload, number, length)?.sent_by(who)))
    }

    fn complete_multipart(
        &self,
        upload: UploadId,
        parts: &[u16],
        options: CompleteOptions,
    ) -> Result<PutDone, ArchiveError> {
        Archive::complete_multipart(self, upload, parts, options)
    }

    fn completed_multipart(&self, path: &ArchivePath, upload: UploadId) -> Result<PutDone, ArchiveError> {
        Archive::completed_multipart(self, path, upload)
    }

    fn abort_multipart(&self, upload: UploadId) -> Result<(), ArchiveError> {
        Archive::abort_multipart(self, upload)
    }
}

impl UsageSteps for archive::UsageReading {
    fn step(&mut self) -> Option<UsageReport> {
        archive::UsageReading::step(self)
    }

    fn progress(&self) -> (u64, u64) {
        archive::UsageReading::progress(self)
    }
}

impl PartUpload for archive::PartUpload {
    fn write(&mut self, bytes: &[u8]) -> Result<(), ArchiveError> {
        archive::PartUpload::write(self, bytes)
    }

    fn pause(&mut self) {
        archive::PartUpload::pause(self);
    }

    fn finish(self: Box<Self>, attributes: Vec<(String, Vec<u8>)>) -> Result<PartInfo, ArchiveError> {
        archive::PartUpload::finish(*self, attributes)
    }
}

impl Upload for archive::Upload {
    fn attribute(&mut self, name: String, value: Vec<u8>) {
        archive::Upload::attribute(self, name, value);
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), ArchiveError> {
        archive::Upload::write(self, bytes)
    }

    fn pause(&mut self) {
        archive::Upload::pause(self);
    }

    fn finish(self: Box<Self>) -> Result<PutDone, ArchiveError> {
        archive::Upload::finish(*self)
    }

    fn finish_then(self: Box<Self>, done: PutCallback) {
        archive::Upload::finish_then(*self, done);
    }
}

impl Download for archive::Download {
    fn stat(&self) -> &FileStat {
        archive::Download::stat(self)
    }

    fn select(&mut self, offset: u64, length: u64) -> Result<(), ArchiveError> {
        archive::Download::select(self, offset, length)
    }

    fn check_drives(&self) -> Result<(), ArchiveError> {
        archive::Download::check_drives(self)
    }

    fn next(&mut self) -> Result<Option<Bytes>, ArchiveError> {
        // The pool's buffer goes back to its arena when the connection has sent it.
        Ok(archive::Download::next(self)?.map(Bytes::from_owner))
    }

    fn pause(&mut self) {
        archive::Download::pause(self);
    }
}
