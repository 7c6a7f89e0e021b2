//! What the door needs of the engine. `archive::Archive` is one; tests have their own.

use archive::{
    About, ArchiveError, BackupStatus, CatalogueFinding, Cause, ClassInfo, EvictDone, FileStat, Listed,
    PoolHealth, PoolInfo, PutCallback, PutDone, PutOptions, QueueLine, ReplacedDrive, ReportBy, RequestFile,
    RequestInfo, RequestOutlook, ScrubInfo, Selection, StageOptions, Stat, TapeCheck, TapeContent,
    TapeDriveInfo, TapeInfo, TapeRepack, TapeReport, TapeUse, Totals, UsageReport, VerifyDone,
};
use base::{ArchivePath, BlockAddress, Duration, Name, RequestId, Uuid, Vid};
use bytes::Bytes;
use catalogue::Attributes;

/// The engine as the door sees it. Every call may block; the door calls from threads of its own.
///
/// Each method means what the method of the same name of `archive::Archive` means.
#[allow(missing_docs)]
pub trait Engine: Send + Sync + 'static {
    fn instance(&self) -> Uuid;
    fn stat(&self, path: &ArchivePath) -> Result<Stat, ArchiveError>;
    fn list(
        &self,
        path: &ArchivePath,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<(Vec<Listed>, bool), ArchiveError>;
    fn make_directory(
        &self,
        path: &ArchivePath,
        attributes: Attributes,
        class: Option<&str>,
        parents: bool,
    ) -> Result<(), ArchiveError>;
    fn rename(&self, from: &ArchivePath, to: &ArchivePath, replace: bool) -> Result<(), ArchiveError>;
    fn remove(&self, path: &ArchivePath) -> Result<(), ArchiveError>;
    fn begin_put(&self, path: &ArchivePath, options: PutOptions) -> Result<Box<dyn Upload>, ArchiveError>;
    fn open_read(&self, path: &ArchivePath) -> Result<Box<dyn Download>, ArchiveError>;
    /// As `open_read`, on behalf of somebody whose name goes into the access log.
    fn open_read_for(&self, path: &ArchivePath, _who: &str) -> Result<Box<dyn Download>, ArchiveError> {
        self.open_read(path)
    }
    fn stage(&self, selection: &Selection, options: StageOptions) -> Result<RequestId, ArchiveError>;
    fn request(&self, request: RequestId) -> Result<RequestInfo, ArchiveError>;
    fn requests(&self, before: Option<RequestId>, limit: usize) -> Result<Vec<RequestInfo>, ArchiveError>;
    fn request_files(
        &self,
        request: RequestId,
        from: u32,
        limit: usize,
    ) -> Result<(Vec<RequestFile>, Option<u32>), ArchiveError>;
    fn set_priority(&self, request: RequestId, priority: u8) -> Result<(), ArchiveError>;
    fn cancel_request(&self, request: RequestId) -> Result<(), ArchiveError>;
    fn release(&self, request: RequestId, paths: Option<&[ArchivePath]>) -> Result<(), ArchiveError>;
    fn evict(&self, selection: &Selection) -> Result<EvictDone, ArchiveError>;
    fn explain(&self, about: &About) -> Result<Vec<Cause>, ArchiveError>;
    fn request_outlook(&self, request: RequestId) -> Result<RequestOutlook, ArchiveError>;
    fn tapes(&self) -> Result<Vec<TapeInfo>, ArchiveError>;
    fn tape(&self, vid: Vid) -> Result<TapeInfo, ArchiveError>;
    fn tape_content(
        &self,
        vid: Vid,
        from: BlockAddress,
        limit: usize,
    ) -> Result<(Vec<TapeContent>, Option<BlockAddress>), ArchiveError>;
    fn tape_drives(&self) -> Vec<TapeDriveInfo>;
    fn pool_info(&self) -> Result<PoolInfo, ArchiveError>;
    fn classes(&self) -> Result<Vec<ClassInfo>, ArchiveError>;
    fn queue(&self) -> Result<Vec<QueueLine>, ArchiveError>;
    fn totals(&self) -> Result<Totals, ArchiveError>;
    fn set_tape(&self, vid: Vid, use_as: TapeUse, reason: &str) -> Result<(), ArchiveError>;
    fn drive_up(&self, drive: &str) -> Result<(), ArchiveError>;
    fn drive_down(&self, drive: &str, reason: &str) -> Result<(), ArchiveError>;
    fn check_tapes(&self, vids: &[Vid]) -> Result<(), ArchiveError>;
    fn tape_check(&self, vid: Vid) -> Result<Option<TapeCheck>, ArchiveError>;
    fn repack_tape(&self, vid: Vid, reason: &str) -> Result<(), ArchiveError>;
    fn tape_repack(&self, vid: Vid) -> Result<Option<TapeRepack>, ArchiveError>;
    fn reclaim_tape(&self, vid: Vid) -> Result<(), ArchiveError>;
    fn tape_report(&self, window: Duration, by: ReportBy) -> Result<TapeReport, ArchiveError>;
    fn usage(&self, window: Duration, class: Option<&str>) -> Result<UsageReport, ArchiveError>;
    fn migrate_now(&self, class: Option<&str>) -> Result<(), ArchiveError>;
    fn backup_status(&self) -> Option<BackupStatus> {
        None
    }
    fn backup_now(&self) -> Option<u64> {
        None
    }
    /// Extents in quarantine; `None` if there is none.
    fn quarantined(&self) -> Result<Option<u64>, ArchiveError> {
        Ok(None)
    }
    fn end_quarantine(&self) -> Result<(), ArchiveError> {
        Ok(())
    }
    fn pool_health(&self) -> Result<PoolHealth, ArchiveError>;
    fn scrub_info(&self) -> ScrubInfo;
    fn scrub_now(&self);
    fn verify(&self, path: &ArchivePath, offset: u64, length: u64) -> Result<VerifyDone, ArchiveError>;
    fn verify_catalogue(&self) -> Result<Vec<CatalogueFinding>, ArchiveError>;
    fn pool_rebuild(&self, drive: Option<u16>) -> Result<(), ArchiveError>;
    fn pool_drive_lost(&self, drive: u16) -> Result<(), ArchiveError>;
    /// `new`: a directory that is not there is made.
    fn pool_drive_replace(&self, drive: u16, new: bool) -> Result<ReplacedDrive, ArchiveError>;
}

/// A file on its way in. Dropping it before `finish` leaves nothing behind.
pub trait Upload: Send {
    /// Takes the next bytes.
    ///
    /// # Errors
    /// If they cannot be stored; the upload is over then.
    fn write(&mut self, bytes: &[u8]) -> Result<(), ArchiveError>;

    /// Makes the file durable and gives it its name.
    ///
    /// # Errors
    /// If length or checksum are not as announced, or it cannot be stored. Nothing is stored then.
    fn finish(self: Box<Self>) -> Result<PutDone, ArchiveError>;

    /// As `finish`, but `done` gets what it returns, at once or later, perhaps on another thread. It may be
    /// dropped uncalled only if that thread panicked.
    fn finish_then(self: Box<Self>, done: PutCallback) {
        done(self.finish());
    }
}

/// A file on its way out.
pub trait Download: Send {
    /// What file it is.
    fn stat(&self) -> &FileStat;

    /// Reads only `length` bytes from `offset` on; to be called before the first `next`.
    ///
    /// # Errors
    /// If the range is not within the file.
    fn select(&mut self, offset: u64, length: u64) -> Result<(), ArchiveError>;

    /// Whether drives answer that hold what is to be read; nothing is read for it.
    ///
    /// # Errors
    /// If too few of them do.
    fn check_drives(&self) -> Result<(), ArchiveError> {
        Ok(())
    }

    /// The next verified bytes, at most 1 MiB; `None` at the end. Of a whole file the last bytes come only
    /// after its checksum agreed.
    ///
    /// # Errors
    /// If the bytes cannot be read, or are not those that were stored.
    fn next(&mut self) -> Result<Option<Bytes>, ArchiveError>;

    /// Gives back what the engine holds ready for this download; the next `next` goes on where it was.
    fn pause(&mut self);
}
