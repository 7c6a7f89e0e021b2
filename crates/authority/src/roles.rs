//! What doors need of the engine, by role: each door names the roles that it asks for, and a fake has those
//! and no others. No role has a method with a body, so that nothing is refused, or left out, because somebody
//! forgot it. [`Archive`] has all roles, and [`Guarded`](crate::Guarded) each that the engine behind it has.

use std::collections::BTreeSet;
use std::sync::Arc;

use archive::{
    About, AccessChain, AclEntry, AddedDrive, Archive, ArchiveError, BackupStatus, BucketInfo,
    BucketSettings, CallProgress, CatalogueFinding, Cause, ChangeLogInfo, ClassInfo, CleaningInfo, ClockInfo,
    CloneOptions, CompleteOptions, DiskReport, DiskWatch, DriveFitRecord, EvictDone, HealthProblem,
    HealthReport, Hold, KeptExtents, KeyPage, KeyQuery, Listed, MountSample, MultipartInfo, NewDrive,
    ObjectRemoved, ObjectStat, PartInfo, PathLocality, PathRequest, PathSubmission, PoolHealth, PoolInfo,
    PutDone, PutOptions, QuarantineEnded, QueueLine, QuotaInfo, QuotaLimits, QuotaOf, RemoveTree, RenameOf,
    ReplacedDrive, ReportBy, RequestFile, RequestInfo, RequestOutlook, ScrubInfo, Selection, SpaceLeft,
    StageOptions, Stat, SubmittedPath, TakeOver, TapeCheck, TapeContent, TapeDriveInfo, TapeExport,
    TapeImport, TapeInfo, TapeRepack, TapeReport, TapeUse, Totals, TreeRemoval, UnknownKept, VerifyDone,
    VersionPage, VersionQuery, Which,
};
use base::{
    ArchivePath, BlockAddress, ByteCount, DirId, Duration, Name, PercentPoints, RequestId, StripeCode,
    Timestamp, UploadId, Uuid, Vid,
};
use catalogue::{Attributes, DriveSlot};

use crate::seam::{Download, PartUpload, Upload, UsageSteps};

/// A role, and how [`Archive`] has it: by its method of the same name, or as is said behind `=`.
macro_rules! role {
    ($(#[$about:meta])* $role:ident {$(
        $(#[$doc:meta])*
        fn $name:ident(&$me:ident $(, $arg:ident: $type:ty)*) $(-> $ret:ty)? $(= $how:expr)?;
    )*}) => {
        $(#[$about])*
        ///
        /// Every call may block; doors call from threads of their own. Each method means what the method of
        /// the same name of [`Archive`] means.
        #[allow(missing_docs)]
        pub trait $role: Send + Sync + 'static {
            $($(#[$doc])* fn $name(&self $(, $arg: $type)*) $(-> $ret)?;)*
        }

        impl $role for Archive {
            $(fn $name(&$me $(, $arg: $type)*) $(-> $ret)? {
                role!(@ $me $name($($arg),*) $($how)?)
            })*
        }
    };
    (@ $me:ident $name:ident($($arg:ident),*)) => { Archive::$name($me $(, $arg)*) };
    (@ $me:ident $name:ident($($arg:ident),*) $how:expr) => { $how };
}

role! {
    /// What decides about a path: owners and lists. Every guard asks for it before it lets a call through.
    Access {
        fn access_chain(&self, path: &ArchivePath) -> Result<AccessChain, ArchiveError>;
    }
}

role! {
    /// Names: directories and the files in them.
    Namespace {
        fn stat(&self, path: &ArchivePath) -> Result<Stat, ArchiveError>;
        /// How much somebody of this group may still put into a directory, or beside a file.
        fn space_left(&self, path: &ArchivePath, group: &str) -> Result<SpaceLeft, ArchiveError>;
        fn list(
            &self, path: &ArchivePath, after: Option<&Name>, limit: usize
        ) -> Result<(Vec<Listed>, bool), ArchiveError>;
        fn make_directory(
            &self, path: &ArchivePath, attributes: Attributes, class: Option<&str>, parents: bool
        ) -> Result<(), ArchiveError>;
        fn rename(&self, from: &ArchivePath, to: &ArchivePath, replace: bool) -> Result<(), ArchiveError>;
        /// The same, but only of what was looked at.
        fn rename_entry(
            &self, from: &ArchivePath, to: &ArchivePath, of: &RenameOf
        ) -> Result<(), ArchiveError>;
        fn remove(&self, path: &ArchivePath) -> Result<(), ArchiveError>;
    }
}

role! {
    /// Directories with all that is in them.
    Trees {
        /// Removes a directory at once with all that is in it, which goes behind.
        fn remove_tree(&self, path: &ArchivePath, how: RemoveTree) -> Result<TreeRemoval, ArchiveError>;
        /// A removal that is under way, or ended lately.
        fn tree_removal(&self, id: DirId) -> Result<TreeRemoval, ArchiveError>;
        /// All of them, newest first.
        fn tree_removals(&self) -> Result<Vec<TreeRemoval>, ArchiveError>;
    }
}

role! {
    /// Whose files are, who may use them, and how much of them there may be.
    Owners {
        fn acl(&self, path: &ArchivePath) -> Result<Option<Vec<AclEntry>>, ArchiveError>;
        fn set_acl(&self, path: &ArchivePath, entries: Option<Vec<AclEntry>>) -> Result<(), ArchiveError>;
        /// The same, but of the directory that was looked at.
        fn set_acl_of(
            &self, path: &ArchivePath, directory: DirId, entries: Option<Vec<AclEntry>>
        ) -> Result<(), ArchiveError>;
        /// `None`: as before.
        fn set_owner(
            &self, path: &ArchivePath, owner: Option<&str>, group: Option<&str>
        ) -> Result<(), ArchiveError>;
        fn quotas(&self) -> Result<Vec<QuotaInfo>, ArchiveError>;
        fn set_quota(&self, of: &QuotaOf, limits: QuotaLimits) -> Result<(), ArchiveError>;
        fn remove_quota(&self, of: &QuotaOf) -> Result<(), ArchiveError>;
    }
}

role! {
    /// The bytes of files: in, out, verified.
    Bytes {
        fn begin_put(
            &self, path: &ArchivePath, options: PutOptions
        ) -> Result<Box<dyn Upload>, ArchiveError> = Ok(Box::new(Archive::begin_put(self, path, options)?));
        /// How many times the lowest rate of a client is due of the uploads of this caller: as many times as
        /// they hold memory for while others lack it, else once.
        fn upload_haste(&self, caller: &str) -> u64;
        /// As `open_read`, on behalf of somebody whose name goes into the access log.
        fn open_read_for(&self, path: &ArchivePath, who: &str) -> Result<Box<dyn Download>, ArchiveError>
            = Ok(Box::new(Archive::open_read_for(self, path, Some(who))?));
        fn verify(&self, path: &ArchivePath, offset: u64, length: u64) -> Result<VerifyDone, ArchiveError>;
    }
}

role! {
    /// Buckets and what S3 knows of files beside their bytes: versions, holds, listings by key.
    Objects {
        fn buckets(&self) -> Result<Vec<BucketInfo>, ArchiveError>;
        fn bucket(&self, name: &Name) -> Result<BucketInfo, ArchiveError>;
        /// Makes a directory of the root a bucket of this owner.
        fn make_bucket(&self, name: &Name, owner: &str, set: &BucketSettings) -> Result<(), ArchiveError>;
        fn set_bucket(&self, name: &Name, settings: &BucketSettings) -> Result<(), ArchiveError>;
        /// Only an empty one: no object, no version, no upload.
        fn remove_bucket(&self, name: &Name) -> Result<(), ArchiveError>;
        fn object(&self, path: &ArchivePath, which: Which) -> Result<ObjectStat, ArchiveError>;
        fn open_object(
            &self, path: &ArchivePath, which: Which, who: &str
        ) -> Result<Box<dyn Download>, ArchiveError>
            = Ok(Box::new(Archive::open_object(self, path, which, who)?));
        /// Deletes an object or makes a marker, as its bucket is set; one that is not there is no error.
        /// `bypass`: ends a retention of mode governance.
        fn remove_object(
            &self, path: &ArchivePath, which: Which, bypass: bool
        ) -> Result<ObjectRemoved, ArchiveError>;
        fn list_keys(&self, query: &KeyQuery) -> Result<KeyPage, ArchiveError>;
        fn list_versions(&self, query: &VersionQuery) -> Result<VersionPage, ArchiveError>;
        /// Sets (`Some`) or removes (`None`) extended attributes of a version that is there.
        fn set_xattrs(
            &self, path: &ArchivePath, which: Which, changes: &[(String, Option<Vec<u8>>)]
        ) -> Result<(), ArchiveError>;
        /// Holds a version. `bypass`: shortens or ends a retention of mode governance.
        fn set_hold(
            &self, path: &ArchivePath, which: Which, hold: Hold, bypass: bool
        ) -> Result<(), ArchiveError>;
        /// A copy that shares the bytes in the pool; the source has to be online.
        fn clone_object(
            &self, from: &ArchivePath, which: Which, to: &ArchivePath, options: CloneOptions
        ) -> Result<PutDone, ArchiveError>;
        fn change_class(&self, path: &ArchivePath, class: &str) -> Result<(), ArchiveError>;
        /// Has a version brought back from tape and kept in the pool for `pin`; one that is there already is
        /// kept longer. Gives whether it was there already.
        fn restore_object(
            &self, path: &ArchivePath, which: Which, options: StageOptions
        ) -> Result<bool, ArchiveError>;
    }
}

role! {
    /// Uploads in parts.
    Parts {
        /// Begins an upload in parts. Of the options, length and checksums are not looked at.
        fn open_multipart(&self, path: &ArchivePath, options: PutOptions) -> Result<UploadId, ArchiveError>;
        fn multipart(&self, upload: UploadId) -> Result<MultipartInfo, ArchiveError>;
        /// Uploads of a bucket in the order of key and id, from behind a key and id on; and whether there is
        /// more.
        fn multiparts(
            &self, bucket: &Name, prefix: &str, after: Option<(&str, UploadId)>, limit: usize
        ) -> Result<(Vec<MultipartInfo>, bool), ArchiveError>;
        /// Parts behind a number; and whether there is more.
        fn parts(
            &self, upload: UploadId, after: u16, limit: usize
        ) -> Result<(Vec<PartInfo>, bool), ArchiveError>;
        /// A part, sent by a client of somebody of this name.
        fn begin_part(
            &self, upload: UploadId, number: u16, length: Option<ByteCount>, who: &str
        ) -> Result<Box<dyn PartUpload>, ArchiveError>
            = Ok(Box::new(Archive::begin_part(self, upload, number, length)?.sent_by(who)));
        /// Makes the file of these parts, in order; no byte is moved. A repeat gets the first answer.
        fn complete_multipart(
            &self, upload: UploadId, parts: &[u16], options: CompleteOptions
        ) -> Result<PutDone, ArchiveError>;
        /// The first answer to an upload of this path that was completed.
        fn completed_multipart(
            &self, path: &ArchivePath, upload: UploadId
        ) -> Result<PutDone, ArchiveError>;
        fn abort_multipart(&self, upload: UploadId) -> Result<(), ArchiveError>;
    }
}

role! {
    /// What is brought back from tape or leaves the pool, and why it waits.
    Staging {
        /// As `stage`, telling how far it is.
        fn stage_told(
            &self, selection: &Selection, options: StageOptions, progress: &CallProgress
        ) -> Result<RequestId, ArchiveError>;
        fn request(&self, request: RequestId) -> Result<RequestInfo, ArchiveError>;
        fn requests(
            &self, before: Option<RequestId>, limit: usize
        ) -> Result<Vec<RequestInfo>, ArchiveError>;
        fn request_files(
            &self, request: RequestId, from: u32, limit: usize
        ) -> Result<(Vec<RequestFile>, Option<u32>), ArchiveError>;
        fn set_priority(&self, request: RequestId, priority: u8) -> Result<(), ArchiveError>;
        /// As `cancel_request`, telling how far it is.
        fn cancel_request_told(
            &self, request: RequestId, progress: &CallProgress
        ) -> Result<(), ArchiveError>;
        /// As `release`, telling how far it is.
        fn release_told(
            &self, request: RequestId, paths: Option<&[ArchivePath]>, progress: &CallProgress
        ) -> Result<(), ArchiveError>;
        /// As `evict`, telling how far it is.
        fn evict_told(
            &self, selection: &Selection, progress: &CallProgress
        ) -> Result<EvictDone, ArchiveError>;
        fn explain(&self, about: &About) -> Result<Vec<Cause>, ArchiveError>;
        fn request_outlook(&self, request: RequestId) -> Result<RequestOutlook, ArchiveError>;
    }
}

role! {
    /// Paths that are asked for one by one, as the grid does: each has its own fate.
    PathRequests {
        fn stage_paths(&self, submission: PathSubmission) -> Result<RequestId, ArchiveError>;
        fn path_request(&self, request: RequestId) -> Result<PathRequest, ArchiveError>;
        fn cancel_paths(
            &self, request: RequestId, paths: &[SubmittedPath]
        ) -> Result<(), ArchiveError>;
        fn release_paths(
            &self, request: RequestId, paths: &[SubmittedPath]
        ) -> Result<(), ArchiveError>;
        fn delete_request(&self, request: RequestId) -> Result<(), ArchiveError>;
        fn localities(&self, paths: &[ArchivePath]) -> Result<Vec<PathLocality>, ArchiveError>;
    }
}

role! {
    /// The machines: tapes, drives, pool, catalogue, and reports about them.
    Operation {
        fn instance(&self) -> Uuid;
        /// Whether the caller may look at machines and reports.
        fn may_look(&self) -> Result<(), ArchiveError> = Ok(());
        /// Whether the caller may run machines.
        fn may_administrate(&self) -> Result<(), ArchiveError> = Ok(());
        /// What keeps changes from being taken.
        fn health(&self) -> Vec<HealthProblem>;
        fn tapes(&self) -> Result<Vec<TapeInfo>, ArchiveError>;
        fn tape(&self, vid: Vid) -> Result<TapeInfo, ArchiveError>;
        fn tape_content(
            &self, vid: Vid, from: BlockAddress, limit: usize
        ) -> Result<(Vec<TapeContent>, Option<BlockAddress>), ArchiveError>;
        fn tape_drives(&self) -> Vec<TapeDriveInfo>;
        fn pool_info(&self) -> Result<PoolInfo, ArchiveError>;
        fn classes(&self) -> Result<Vec<ClassInfo>, ArchiveError>;
        fn queue(&self) -> Result<Vec<QueueLine>, ArchiveError>;
        fn totals(&self) -> Result<Totals, ArchiveError>;
        fn set_tape(&self, vid: Vid, use_as: TapeUse, reason: &str) -> Result<(), ArchiveError>;
        fn drive_up(&self, drive: &str) -> Result<(), ArchiveError>;
        fn drive_down(&self, drive: &str, reason: &str) -> Result<(), ArchiveError>;
        fn clean_drive(&self, drive: &str, with: Option<Vid>) -> Result<(), ArchiveError>;
        fn cleaning(&self) -> Result<CleaningInfo, ArchiveError>;
        fn check_tapes(&self, vids: &[Vid]) -> Result<(), ArchiveError>;
        fn stop_checks(&self, vids: &[Vid]) -> Result<(), ArchiveError>;
        fn tape_check(&self, vid: Vid) -> Result<Option<TapeCheck>, ArchiveError>;
        fn repack_tape(&self, vid: Vid, reason: &str) -> Result<(), ArchiveError>;
        fn tape_repack(&self, vid: Vid) -> Result<Option<TapeRepack>, ArchiveError>;
        fn reclaim_tape(&self, vid: Vid) -> Result<(), ArchiveError>;
        fn export_tape(&self, vid: Vid) -> Result<TapeExport, ArchiveError>;
        fn import_tapes(&self, element: Option<u32>) -> Result<Vec<TapeImport>, ArchiveError>;
        fn set_tape_off_site(&self, vid: Vid, place: &str) -> Result<(), ArchiveError>;
        fn add_tape(&self, vid: Vid) -> Result<(), ArchiveError>;
        fn retire_tape(&self, vid: Vid, reason: &str) -> Result<(), ArchiveError>;
        /// Has the libraries say now what they hold; gives what changed.
        fn refresh_inventory(&self, scan: bool) -> Result<BTreeSet<Vid>, ArchiveError>;
        /// What the mounts of the last months say of drives and tapes.
        fn machine_health(&self) -> Result<Arc<HealthReport>, ArchiveError>
            = Ok(Archive::machine_health(self));
        /// The last mounts of a drive, the newest first.
        fn drive_mounts(&self, drive: &str) -> Result<Vec<MountSample>, ArchiveError>;
        /// By what the model was fitted to a drive.
        fn drive_fits(&self, drive: &str) -> Result<Vec<DriveFitRecord>, ArchiveError>;
        fn tape_report(&self, window: Duration, by: ReportBy) -> Result<TapeReport, ArchiveError>;
        /// The same in steps.
        fn begin_usage(
            &self, window: Duration, class: Option<&str>
        ) -> Result<Box<dyn UsageSteps>, ArchiveError>
            = Ok(Box::new(Archive::begin_usage(self, window, class)?));
        fn migrate_now(&self, class: Option<&str>) -> Result<(), ArchiveError>;
        fn backup_status(&self) -> Option<BackupStatus>;
        fn backup_now(&self) -> Option<u64>;
        /// How long the catalogue's log of changes is, and why; `None`: there is no catalogue.
        fn change_log(&self) -> Result<Option<ChangeLogInfo>, ArchiveError>
            = Archive::change_log(self).map(Some);
        /// What is in quarantine; `None` if there is none.
        fn quarantined(&self) -> Result<Option<KeptExtents>, ArchiveError>;
        /// What nothing names and is kept for a while.
        fn unknown_kept(&self) -> Result<UnknownKept, ArchiveError>;
        fn end_quarantine(&self) -> Result<QuarantineEnded, ArchiveError>;
        /// The trusted time and the system's clock.
        fn clock_info(&self) -> Result<ClockInfo, ArchiveError>;
        /// An operator vouches for the system's clock.
        fn accept_time(&self, today: Timestamp, back: bool) -> Result<ClockInfo, ArchiveError>;
        fn pool_health(&self) -> Result<PoolHealth, ArchiveError>;
        fn scrub_info(&self) -> ScrubInfo;
        fn scrub_now(&self);
        fn verify_catalogue(&self) -> Result<Vec<CatalogueFinding>, ArchiveError>;
        /// `accept_loss`: also if files are LOST by it, as with the next.
        fn pool_rebuild(&self, drive: Option<u16>, accept_loss: bool) -> Result<(), ArchiveError>;
        /// What is stored moves until the drives are about equally full.
        fn pool_rebalance(&self, to: PercentPoints) -> Result<(), ArchiveError>;
        /// Whether one was under way.
        fn pool_rebalance_end(&self) -> Result<bool, ArchiveError>;
        /// Has what is stored in another code than the pool's written anew in that.
        fn pool_recode(&self) -> Result<StripeCode, ArchiveError>;
        /// Ends a change of code; whether one was under way.
        fn pool_recode_end(&self) -> Result<bool, ArchiveError>;
        fn pool_drive_lost(&self, drive: u16, accept_loss: bool) -> Result<(), ArchiveError>;
        fn pool_drive_drain(&self, drive: u16) -> Result<(), ArchiveError>;
        /// Ends a drain.
        fn pool_drive_keep(&self, drive: u16) -> Result<(), ArchiveError>;
        fn pool_drive_remove(&self, drive: u16) -> Result<(), ArchiveError>;
        /// One more, which the operator's file names from then on.
        fn pool_drive_add(&self, wanted: &NewDrive) -> Result<AddedDrive, ArchiveError>;
        /// What who watches the disks of this machine needs.
        fn disk_watch(&self) -> Result<DiskWatch, ArchiveError>;
        /// What a look at them has shown; gives the drive that is emptied from now on for that.
        fn disks_found(&self, reports: Vec<DiskReport>) -> Result<Option<u16>, ArchiveError>;
        /// Which light is switched on for a drive.
        fn drive_light(&self, drive: u16, slot: Option<DriveSlot>) -> Result<(), ArchiveError>;
        /// Another disk in its slot takes the place of a lost one.
        fn drive_taken_over(
            &self, drive: u16, by: &TakeOver
        ) -> Result<ReplacedDrive, ArchiveError>;
        /// `new`: a directory that is not there is made.
        fn pool_drive_replace(
            &self, drive: u16, new: bool, accept_loss: bool
        ) -> Result<ReplacedDrive, ArchiveError>;
    }
}
