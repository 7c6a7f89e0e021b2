//! `archive::Archive` behind the door's seam.

use archive::{
    About, Archive, ArchiveError, BackupStatus, CatalogueFinding, Cause, ClassInfo, EvictDone, FileStat,
    Listed, PoolHealth, PoolInfo, PutCallback, PutDone, PutOptions, QueueLine, ReplacedDrive, ReportBy,
    RequestFile, RequestInfo, RequestOutlook, ScrubInfo, Selection, StageOptions, Stat, TapeCheck,
    TapeContent, TapeDriveInfo, TapeInfo, TapeRepack, TapeReport, TapeUse, Totals, UsageReport, VerifyDone,
};
use base::{ArchivePath, BlockAddress, Duration, Name, RequestId, Uuid, Vid};
use bytes::Bytes;
use catalogue::Attributes;

use crate::seam::{Download, Engine, Upload};

impl Engine for Archive {
    fn instance(&self) -> Uuid {
        Archive::instance(self)
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

    fn remove(&self, path: &ArchivePath) -> Result<(), ArchiveError> {
        Archive::remove(self, path)
    }

    fn begin_put(&self, path: &ArchivePath, options: PutOptions) -> Result<Box<dyn Upload>, ArchiveError> {
        Ok(Box::new(Archive::begin_put(self, path, options)?))
    }

    fn open_read(&self, path: &ArchivePath) -> Result<Box<dyn Download>, ArchiveError> {
        Ok(Box::new(Archive::open_read(self, path)?))
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

    fn quarantined(&self) -> Result<Option<u64>, ArchiveError> {
        match Archive::quarantine(self)? {
            Some(_) => Archive::count_quarantined(self).map(Some),
            None => Ok(None),
        }
    }

    fn end_quarantine(&self) -> Result<(), ArchiveError> {
        Archive::end_quarantine(self).map(drop)
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

    fn pool_rebuild(&self, drive: Option<u16>) -> Result<(), ArchiveError> {
        Archive::pool_rebuild(self, drive)
    }

    fn pool_drive_lost(&self, drive: u16) -> Result<(), ArchiveError> {
        Archive::pool_drive_lost(self, drive)
    }

    fn pool_drive_replace(&self, drive: u16, new: bool) -> Result<ReplacedDrive, ArchiveError> {
        Archive::pool_drive_replace(self, drive, new)
    }
}

impl Upload for archive::Upload {
    fn write(&mut self, bytes: &[u8]) -> Result<(), ArchiveError> {
        archive::Upload::write(self, bytes)
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
