//! What the doors need of the engine. `archive::Archive` is one; tests have their own.

use archive::{
    About, AccessChain, AclEntry, ArchiveError, BackupStatus, BucketInfo, BucketSettings, CallProgress,
    CatalogueFinding, Cause, ChangeLogInfo, ClassInfo, ClockInfo, CloneOptions, CompleteOptions, EvictDone,
    FileStat, HealthProblem, Hold, KeptExtents, KeyPage, KeyQuery, Listed, MultipartInfo, ObjectRemoved,
    ObjectStat, PartInfo, PoolHealth, PoolInfo, PutCallback, PutDone, PutOptions, QueueLine, QuotaInfo,
    QuotaLimits, QuotaOf, RemoveTree, RenameOf, ReplacedDrive, ReportBy, RequestFile, RequestInfo,
    RequestOutlook, ScrubInfo, Selection, StageOptions, Stat, TapeCheck, TapeContent, TapeDriveInfo,
    TapeInfo, TapeRepack, TapeReport, TapeUse, Totals, TreeRemoval, UnknownKept, UsageReport, VerifyDone,
    VersionPage, VersionQuery, Which,
};
use base::{
    ArchivePath, BlockAddress, ByteCount, DirId, Duration, Name, RequestId, Timestamp, UploadId, Uuid, Vid,
};
use bytes::Bytes;
use catalogue::Attributes;

/// The engine as the doors see it. Every call may block; doors call from threads of their own.
///
/// Each method means what the method of the same name of `archive::Archive` means.
#[allow(missing_docs)]
pub trait Engine: Send + Sync + 'static {
    fn instance(&self) -> Uuid;
    /// Whether the caller may look at machines and reports.
    fn may_look(&self) -> Result<(), ArchiveError> {
        Ok(())
    }
    /// Whether the caller may run machines.
    fn may_administrate(&self) -> Result<(), ArchiveError> {
        Ok(())
    }
    /// What keeps changes from being taken.
    fn health(&self) -> Vec<HealthProblem> {
        Vec::new()
    }
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
    /// The same, but only of what was looked at.
    fn rename_entry(
        &self,
        _from: &ArchivePath,
        _to: &ArchivePath,
        _of: &RenameOf,
    ) -> Result<(), ArchiveError> {
        Err(ArchiveError::NotOffered("a rename of what was looked at"))
    }
    fn remove(&self, path: &ArchivePath) -> Result<(), ArchiveError>;
    /// Removes a directory at once with all that is in it, which goes behind.
    fn remove_tree(&self, _path: &ArchivePath, _how: RemoveTree) -> Result<TreeRemoval, ArchiveError> {
        Err(ArchiveError::NotOffered("the removal of directories with all that is in them"))
    }
    /// A removal that is under way, or ended lately.
    fn tree_removal(&self, id: DirId) -> Result<TreeRemoval, ArchiveError> {
        Err(ArchiveError::NoSuchRemoval(id))
    }
    /// All of them, newest first.
    fn tree_removals(&self) -> Result<Vec<TreeRemoval>, ArchiveError> {
        Ok(Vec::new())
    }
    fn begin_put(&self, path: &ArchivePath, options: PutOptions) -> Result<Box<dyn Upload>, ArchiveError>;
    /// How many times the lowest rate of a client is due of the uploads of this caller: as many times as they
    /// hold memory for while others lack it, else once.
    fn upload_haste(&self, _caller: &str) -> u64 {
        1
    }
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
    /// As `stage`, telling how far it is.
    fn stage_told(
        &self,
        selection: &Selection,
        options: StageOptions,
        _progress: &CallProgress,
    ) -> Result<RequestId, ArchiveError> {
        self.stage(selection, options)
    }
    /// As `cancel_request`, telling how far it is.
    fn cancel_request_told(&self, request: RequestId, _progress: &CallProgress) -> Result<(), ArchiveError> {
        self.cancel_request(request)
    }
    /// As `release`, telling how far it is.
    fn release_told(
        &self,
        request: RequestId,
        paths: Option<&[ArchivePath]>,
        _progress: &CallProgress,
    ) -> Result<(), ArchiveError> {
        self.release(request, paths)
    }
    /// As `evict`, telling how far it is.
    fn evict_told(&self, selection: &Selection, _progress: &CallProgress) -> Result<EvictDone, ArchiveError> {
        self.evict(selection)
    }
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
    /// The same in steps.
    fn begin_usage(
        &self,
        window: Duration,
        class: Option<&str>,
    ) -> Result<Box<dyn UsageSteps>, ArchiveError> {
        Ok(Box::new(OneStep(self.usage(window, class)?)))
    }
    fn migrate_now(&self, class: Option<&str>) -> Result<(), ArchiveError>;
    fn backup_status(&self) -> Option<BackupStatus> {
        None
    }
    fn backup_now(&self) -> Option<u64> {
        None
    }
    /// How long the catalogue's log of changes is, and why; `None`: there is no catalogue.
    fn change_log(&self) -> Result<Option<ChangeLogInfo>, ArchiveError> {
        Ok(None)
    }
    /// What is in quarantine; `None` if there is none.
    fn quarantined(&self) -> Result<Option<KeptExtents>, ArchiveError> {
        Ok(None)
    }
    /// What nothing names and is kept for a while.
    fn unknown_kept(&self) -> Result<UnknownKept, ArchiveError> {
        Ok(UnknownKept::default())
    }
    fn end_quarantine(&self) -> Result<(), ArchiveError> {
        Ok(())
    }
    /// The trusted time and the system's clock.
    fn clock_info(&self) -> Result<ClockInfo, ArchiveError> {
        Err(ArchiveError::NotOffered("a trusted time"))
    }
    /// An operator vouches for the system's clock.
    fn accept_time(&self, _today: Timestamp, _back: bool) -> Result<ClockInfo, ArchiveError> {
        Err(ArchiveError::NotOffered("a trusted time"))
    }
    fn pool_health(&self) -> Result<PoolHealth, ArchiveError>;
    fn scrub_info(&self) -> ScrubInfo;
    fn scrub_now(&self);
    fn verify(&self, path: &ArchivePath, offset: u64, length: u64) -> Result<VerifyDone, ArchiveError>;
    fn verify_catalogue(&self) -> Result<Vec<CatalogueFinding>, ArchiveError>;
    /// `accept_loss`: also if files are LOST by it, as with the next.
    fn pool_rebuild(&self, drive: Option<u16>, accept_loss: bool) -> Result<(), ArchiveError>;
    fn pool_drive_lost(&self, drive: u16, accept_loss: bool) -> Result<(), ArchiveError>;
    /// `new`: a directory that is not there is made.
    fn pool_drive_replace(
        &self,
        drive: u16,
        new: bool,
        accept_loss: bool,
    ) -> Result<ReplacedDrive, ArchiveError>;

    fn buckets(&self) -> Result<Vec<BucketInfo>, ArchiveError> {
        Err(ArchiveError::NotOffered("the listing of buckets"))
    }
    fn bucket(&self, _name: &Name) -> Result<BucketInfo, ArchiveError> {
        Err(ArchiveError::NotOffered("a bucket"))
    }
    /// Makes a directory of the root a bucket of this owner.
    fn make_bucket(&self, _name: &Name, _owner: &str, _set: &BucketSettings) -> Result<(), ArchiveError> {
        Err(ArchiveError::NotOffered("the making of buckets"))
    }
    fn set_bucket(&self, _name: &Name, _settings: &BucketSettings) -> Result<(), ArchiveError> {
        Err(ArchiveError::NotOffered("the setting of buckets"))
    }
    /// Only an empty one: no object, no version, no upload.
    fn remove_bucket(&self, _name: &Name) -> Result<(), ArchiveError> {
        Err(ArchiveError::NotOffered("the removal of buckets"))
    }
    fn object(&self, _path: &ArchivePath, _which: Which) -> Result<ObjectStat, ArchiveError> {
        Err(ArchiveError::NotOffered("an object"))
    }
    fn open_object(
        &self,
        _path: &ArchivePath,
        _which: Which,
        _who: &str,
    ) -> Result<Box<dyn Download>, ArchiveError> {
        Err(ArchiveError::NotOffered("the reading of a version"))
    }
    /// Deletes an object or makes a marker, as its bucket is set; one that is not there is no error.
    /// `bypass`: ends a retention of mode governance.
    fn remove_object(
        &self,
        _path: &ArchivePath,
        _which: Which,
        _bypass: bool,
    ) -> Result<ObjectRemoved, ArchiveError> {
        Err(ArchiveError::NotOffered("the removal of objects"))
    }
    fn list_keys(&self, _query: &KeyQuery) -> Result<KeyPage, ArchiveError> {
        Err(ArchiveError::NotOffered("the listing of keys"))
    }
    fn list_versions(&self, _query: &VersionQuery) -> Result<VersionPage, ArchiveError> {
        Err(ArchiveError::NotOffered("the listing of versions"))
    }
    /// Sets (`Some`) or removes (`None`) extended attributes of a version that is there.
    fn set_xattrs(
        &self,
        _path: &ArchivePath,
        _which: Which,
        _changes: &[(String, Option<Vec<u8>>)],
    ) -> Result<(), ArchiveError> {
        Err(ArchiveError::NotOffered("the change of attributes"))
    }
    /// Holds a version. `bypass`: shortens or ends a retention of mode governance.
    fn set_hold(
        &self,
        _path: &ArchivePath,
        _which: Which,
        _hold: Hold,
        _bypass: bool,
    ) -> Result<(), ArchiveError> {
        Err(ArchiveError::NotOffered("the holding of versions"))
    }
    /// A copy that shares the bytes in the pool; the source has to be online.
    fn clone_object(
        &self,
        _from: &ArchivePath,
        _which: Which,
        _to: &ArchivePath,
        _options: CloneOptions,
    ) -> Result<PutDone, ArchiveError> {
        Err(ArchiveError::NotOffered("the copying of objects"))
    }
    fn change_class(&self, _path: &ArchivePath, _class: &str) -> Result<(), ArchiveError> {
        Err(ArchiveError::NotOffered("the change of a class"))
    }
    /// Has a version brought back from tape and kept in the pool for `pin`; one that is there already is kept
    /// longer. Gives whether it was there already.
    fn restore_object(
        &self,
        _path: &ArchivePath,
        _which: Which,
        _options: StageOptions,
    ) -> Result<bool, ArchiveError> {
        Err(ArchiveError::NotOffered("the restoring of objects"))
    }

    fn access_chain(&self, _path: &ArchivePath) -> Result<AccessChain, ArchiveError> {
        Err(ArchiveError::NotOffered("the look at owners and lists"))
    }
    fn acl(&self, _path: &ArchivePath) -> Result<Option<Vec<AclEntry>>, ArchiveError> {
        Err(ArchiveError::NotOffered("an access control list"))
    }
    fn set_acl(&self, _path: &ArchivePath, _entries: Option<Vec<AclEntry>>) -> Result<(), ArchiveError> {
        Err(ArchiveError::NotOffered("the change of an access control list"))
    }
    /// The same, but of the directory that was looked at.
    fn set_acl_of(
        &self,
        _path: &ArchivePath,
        _directory: DirId,
        _entries: Option<Vec<AclEntry>>,
    ) -> Result<(), ArchiveError> {
        Err(ArchiveError::NotOffered("an access control list"))
    }
    /// `None`: as before.
    fn set_owner(
        &self,
        _path: &ArchivePath,
        _owner: Option<&str>,
        _group: Option<&str>,
    ) -> Result<(), ArchiveError> {
        Err(ArchiveError::NotOffered("the change of owners"))
    }
    fn quotas(&self) -> Result<Vec<QuotaInfo>, ArchiveError> {
        Err(ArchiveError::NotOffered("the listing of quotas"))
    }
    fn set_quota(&self, _of: &QuotaOf, _limits: QuotaLimits) -> Result<(), ArchiveError> {
        Err(ArchiveError::NotOffered("the setting of quotas"))
    }
    fn remove_quota(&self, _of: &QuotaOf) -> Result<(), ArchiveError> {
        Err(ArchiveError::NotOffered("the removal of quotas"))
    }

    /// Begins an upload in parts. Of the options, length and checksums are not looked at.
    fn open_multipart(&self, _path: &ArchivePath, _options: PutOptions) -> Result<UploadId, ArchiveError> {
        Err(ArchiveError::NotOffered("uploads in parts"))
    }
    fn multipart(&self, _upload: UploadId) -> Result<MultipartInfo, ArchiveError> {
        Err(ArchiveError::NotOffered("uploads in parts"))
    }
    /// Uploads of a bucket in the order of key and id, from behind a key and id on; and whether there is
    /// more.
    fn multiparts(
        &self,
        _bucket: &Name,
        _prefix: &str,
        _after: Option<(&str, UploadId)>,
        _limit: usize,
    ) -> Result<(Vec<MultipartInfo>, bool), ArchiveError> {
        Err(ArchiveError::NotOffered("uploads in parts"))
    }
    /// Parts behind a number; and whether there is more.
    fn parts(
        &self,
        _upload: UploadId,
        _after: u16,
        _limit: usize,
    ) -> Result<(Vec<PartInfo>, bool), ArchiveError> {
        Err(ArchiveError::NotOffered("uploads in parts"))
    }
    /// A part, sent by a client of somebody of this name.
    fn begin_part(
        &self,
        _upload: UploadId,
        _number: u16,
        _length: Option<ByteCount>,
        _who: &str,
    ) -> Result<Box<dyn PartUpload>, ArchiveError> {
        Err(ArchiveError::NotOffered("uploads in parts"))
    }
    /// Makes the file of these parts, in order; no byte is moved. A repeat gets the first answer.
    fn complete_multipart(
        &self,
        _upload: UploadId,
        _parts: &[u16],
        _options: CompleteOptions,
    ) -> Result<PutDone, ArchiveError> {
        Err(ArchiveError::NotOffered("uploads in parts"))
    }
    /// The first answer to an upload of this path that was completed.
    fn completed_multipart(&self, _path: &ArchivePath, _upload: UploadId) -> Result<PutDone, ArchiveError> {
        Err(ArchiveError::NotOffered("uploads in parts"))
    }
    fn abort_multipart(&self, _upload: UploadId) -> Result<(), ArchiveError> {
        Err(ArchiveError::NotOffered("uploads in parts"))
    }
}

/// A usage report in the making, of which each step takes a bounded time.
pub trait UsageSteps: Send {
    /// Goes on; the report at the end.
    fn step(&mut self) -> Option<UsageReport>;

    /// Bytes that were read, and that there are.
    fn progress(&self) -> (u64, u64);
}

/// A report that was made at once.
struct OneStep(UsageReport);

impl UsageSteps for OneStep {
    fn step(&mut self) -> Option<UsageReport> {
        Some(self.0.clone())
    }

    fn progress(&self) -> (u64, u64) {
        (0, 0)
    }
}

/// A client that sends no piece of a file for this long is slow: see [`Upload::pause`].
pub const UPLOAD_SLOW_AFTER: Duration = Duration::from_millis(250);

/// A part on its way in. Dropping it before `finish` leaves nothing behind.
pub trait PartUpload: Send {
    /// Takes the next bytes.
    ///
    /// # Errors
    /// If they cannot be stored; the part is over then.
    fn write(&mut self, bytes: &[u8]) -> Result<(), ArchiveError>;

    /// The client has sent nothing for a while ([`UPLOAD_SLOW_AFTER`]): gives back memory of the engine that
    /// others need meanwhile.
    fn pause(&mut self);

    /// Makes the part durable, with what the door keeps of it, in place of one of its number.
    ///
    /// # Errors
    /// If it cannot be stored, or the upload has ended. Nothing is stored then.
    fn finish(self: Box<Self>, attributes: Vec<(String, Vec<u8>)>) -> Result<PartInfo, ArchiveError>;
}

/// A file on its way in. Dropping it before `finish` leaves nothing behind.
pub trait Upload: Send {
    /// Takes the next bytes.
    ///
    /// # Errors
    /// If they cannot be stored; the upload is over then.
    fn write(&mut self, bytes: &[u8]) -> Result<(), ArchiveError>;

    /// The client has sent nothing for a while ([`UPLOAD_SLOW_AFTER`]): gives back memory of the engine that
    /// others need meanwhile.
    fn pause(&mut self);

    /// Gives the file an extended attribute that is known only when its bytes have gone by.
    fn attribute(&mut self, name: String, value: Vec<u8>);

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
