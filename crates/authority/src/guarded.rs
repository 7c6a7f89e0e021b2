//! The engine as one caller may use it: every call asks for the right that it needs, and changes are written
//! down. Each method stands here; one that is forgotten is not offered to anybody.

use std::collections::BTreeMap;
use std::sync::Arc;

use archive::{
    About, AccessChain, AclEntry, ArchiveError, BackupStatus, BucketInfo, BucketSettings, CallProgress,
    CatalogueFinding, Cause, ChangeLogInfo, ClassInfo, ClockInfo, CloneOptions, CompleteOptions, EvictDone,
    HealthProblem, Hold, KeptExtents, KeyLine, KeyPage, KeyQuery, Listed, MultipartInfo, ObjectRemoved,
    ObjectStat, PartInfo, PoolHealth, PoolInfo, PutDone, PutOptions, QueueLine, QuotaInfo, QuotaLimits,
    QuotaOf, RemoveTree, ReplacedDrive, ReportBy, RequestFile, RequestInfo, RequestOutlook, ScrubInfo,
    Selection, StageOptions, Stat, TapeCheck, TapeContent, TapeDriveInfo, TapeInfo, TapeRepack, TapeReport,
    TapeUse, Totals, TreeRemoval, UnknownKept, UsageReport, VerifyDone, VersionPage, VersionQuery, Which,
};
use base::{
    ArchivePath, BlockAddress, ByteCount, DirId, Duration, Name, RequestId, Timestamp, UploadId, Uuid, Vid,
};
use catalogue::{Attributes, Entry};
use identity::Rights;

use crate::authority::Ledger;
use crate::notices::Notices;
use crate::rule::{Putting, Rule, read_acl};
use crate::seam::{Download, Engine, PartUpload, Upload, UsageSteps};
use crate::transfers::{AuditedPart, AuditedUpload};

/// Pages of requests that are looked through for those of one caller before a page is given as it is.
const REQUEST_PAGES_MAX: usize = 256;

/// How often rights are looked at for a call while the tree changes under it.
const TREE_LOOKS_MAX: usize = 4;

/// An engine for one caller.
pub(crate) struct Guarded {
    engine: Arc<dyn Engine>,
    rule: Rule,
    notices: Notices,
}

impl Guarded {
    pub(crate) fn new(engine: Arc<dyn Engine>, ledger: Ledger, notices: Notices) -> Self {
        let rule = Rule { engine: engine.clone(), ledger };
        Guarded { engine, rule, notices }
    }

    /// The upload, if the caller may put its parts.
    fn upload(&self, verb: &'static str, upload: UploadId) -> Result<MultipartInfo, ArchiveError> {
        let info = self.engine.multipart(upload)?;
        if !self.rule.is_admin() && info.owner != self.rule.ledger.caller.name {
            self.rule.may(verb, Rights::MODIFY, &info.path)?;
        }
        self.rule.putting(verb, &info.path, true)?;
        Ok(info)
    }

    /// Opens a file for reading, if the caller may read it. Between the look at its owner and lists and the
    /// opening its name may come to stand for another file, which somebody with the right to rename may have
    /// put there just for that.
    fn opened(
        &self,
        path: &ArchivePath,
        which: Which,
        open: impl Fn() -> Result<Box<dyn Download>, ArchiveError>,
    ) -> Result<Box<dyn Download>, ArchiveError> {
        until_unchanged(|| {
            let seen = self.rule.may_version("read", Rights::READ, path, which)?;
            let download = open()?;
            let is_it = self.rule.is_admin() || seen == Some(Entry::File(download.stat().file));
            if is_it { Ok(download) } else { Err(ArchiveError::TreeChanges) }
        })
    }

    /// Whether the caller may see what has this path now, or how it stands. What is no path names nothing.
    fn is_visible(&self, path: &str) -> Result<bool, ArchiveError> {
        let Ok(path) = ArchivePath::new(path) else { return Ok(true) };
        Ok(self.rule.has(Rights::STAT, &path)? || self.rule.has(Rights::POLL, &path)?)
    }

    /// Whether the caller may list a directory; what is `known` is not asked again.
    fn is_listable(
        &self,
        directory: Option<ArchivePath>,
        known: &mut BTreeMap<ArchivePath, bool>,
    ) -> Result<bool, ArchiveError> {
        let directory = directory.unwrap_or_else(ArchivePath::root);
        if let Some(may) = known.get(&directory) {
            return Ok(*may);
        }
        let may = self.rule.has(Rights::LIST, &directory)?;
        known.insert(directory, may);
        Ok(may)
    }

    /// A refusal without a name in it that the caller does not get by listing either.
    fn without_names(&self, error: ArchiveError) -> ArchiveError {
        let ArchiveError::NotAtOnce { path, why } = error else { return error };
        let may_know = why.named().is_none_or(|named| self.is_listed(&path, named).unwrap_or(false));
        ArchiveError::NotAtOnce { path, why: if may_know { why } else { why.unnamed() } }
    }

    /// Whether the caller may list each directory on the way from one to what stands below it.
    fn is_listed(&self, from: &ArchivePath, below: &ArchivePath) -> Result<bool, ArchiveError> {
        let mut at = below.clone();
        while at != *from {
            let Some((above, _)) = at.split() else { return Ok(true) };
            if !self.rule.has(Rights::LIST, &above)? {
                return Ok(false);
            }
            at = above;
        }
        Ok(true)
    }

    /// Leaves out lines of directories below that the caller may not list.
    fn keep_listable(&self, bucket: &ArchivePath, lines: &mut Vec<KeyLine>) -> Result<(), ArchiveError> {
        if self.rule.is_admin() {
            return Ok(());
        }
        let mut known = BTreeMap::new();
        let mut kept = Vec::with_capacity(lines.len());
        for line in lines.drain(..) {
            if self.is_listable(Some(directory_of(bucket, &line)?), &mut known)? {
                kept.push(line);
            }
        }
        *lines = kept;
        Ok(())
    }

    /// Where a listing of keys looks: the directory that its prefix names, as far as it is one.
    fn may_list_keys(&self, verb: &'static str, query: &KeyQuery) -> Result<(), ArchiveError> {
        let directory = query.prefix.rsplit_once('/').map_or("", |(directory, _)| directory);
        let below = format!("{}/{directory}", query.bucket.as_str().trim_end_matches('/'));
        // A prefix that is no path is asked for at its bucket, where the right holds for all below.
        let below = if directory.is_empty() { None } else { ArchivePath::new(&below).ok() };
        self.rule.may(verb, Rights::LIST, below.as_ref().unwrap_or(&query.bucket))
    }
}

/// The directory that a line of a listing stands in.
fn directory_of(bucket: &ArchivePath, line: &KeyLine) -> Result<ArchivePath, ArchiveError> {
    let key = match line {
        KeyLine::Prefix(prefix) => prefix.as_str(),
        KeyLine::Object(object) => object.key.as_str(),
    };
    let directory = key.rsplit_once('/').map_or("", |(directory, _)| directory);
    if directory.is_empty() {
        return Ok(bucket.clone());
    }
    Ok(ArchivePath::new(&format!("{}/{directory}", bucket.as_str().trim_end_matches('/')))?)
}

/// Tries again what found that the tree has changed since it was looked at.
fn until_unchanged<T>(mut attempt: impl FnMut() -> Result<T, ArchiveError>) -> Result<T, ArchiveError> {
    for _ in 1..TREE_LOOKS_MAX {
        match attempt() {
            Err(ArchiveError::TreeChanges) => {}
            other => return other,
        }
    }
    attempt()
}

fn bucket_path(name: &Name) -> Result<ArchivePath, ArchiveError> {
    Ok(ArchivePath::root().join(name)?)
}

impl Engine for Guarded {
    fn instance(&self) -> Uuid {
        self.engine.instance()
    }

    fn may_look(&self) -> Result<(), ArchiveError> {
        self.rule.looks("look at", "machines")
    }

    fn may_administrate(&self) -> Result<(), ArchiveError> {
        self.rule.admin("run", "machines")
    }

    fn health(&self) -> Vec<HealthProblem> {
        let mut problems = self.engine.health();
        problems.extend(self.rule.ledger.problem());
        problems
    }

    fn stat(&self, path: &ArchivePath) -> Result<Stat, ArchiveError> {
        self.rule.may("stat", Rights::STAT, path)?;
        self.engine.stat(path)
    }

    fn list(
        &self,
        path: &ArchivePath,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<(Vec<Listed>, bool), ArchiveError> {
        self.rule.may("list", Rights::LIST, path)?;
        self.engine.list(path, after, limit)
    }

    fn make_directory(
        &self,
        path: &ArchivePath,
        mut attributes: Attributes,
        class: Option<&str>,
        parents: bool,
    ) -> Result<(), ArchiveError> {
        self.rule.may_make("mkdir", path)?;
        self.rule.own_up(&mut attributes);
        self.rule.done("mkdir", path, || self.engine.make_directory(path, attributes, class, parents))
    }

    fn rename(&self, from: &ArchivePath, to: &ArchivePath, replace: bool) -> Result<(), ArchiveError> {
        let what = format!("{from} to {to}");
        if self.rule.is_admin() {
            return self.rule.done("rename", what, || self.engine.rename(from, to, replace));
        }
        self.rule.ledger.admit("rename")?;
        let renamed = until_unchanged(|| {
            let of = self.rule.may_rename("rename", from, to, replace)?;
            self.engine.rename_entry(from, to, &of)
        });
        // What is refused was written down there.
        if !matches!(renamed, Err(ArchiveError::Denied { .. })) {
            self.rule.ledger.outcome("rename", &what, &renamed);
        }
        renamed
    }

    fn remove(&self, path: &ArchivePath) -> Result<(), ArchiveError> {
        self.rule.may("remove", Rights::MODIFY, path)?;
        self.rule.done("remove", path, || self.engine.remove(path))
    }

    /// The rights that the removal name by name would need, which hold for all below a directory but for what
    /// lists in it say; those have the engine refuse it, unless they do not concern the caller.
    fn remove_tree(&self, path: &ArchivePath, how: RemoveTree) -> Result<TreeRemoval, ArchiveError> {
        let owner = self.rule.acting(&how.owner);
        if self.rule.is_admin() {
            let how = RemoveTree { owner, directory: None, with_lists: true };
            return self.rule.done("remove-tree", path, || self.engine.remove_tree(path, how));
        }
        let with_lists = self.rule.ledger.caller.is_confined();
        until_unchanged(|| {
            let rights = Rights::MODIFY | Rights::LIST;
            let seen = self.rule.may_version("remove-tree", rights, path, Which::Current)?;
            let directory = match seen {
                Some(Entry::Directory(directory)) => Some(directory),
                Some(Entry::File(_)) => return Err(ArchiveError::NotADirectory(path.clone())),
                None => return Err(ArchiveError::NotFound(path.clone())),
            };
            let how = RemoveTree { owner: owner.clone(), directory, with_lists };
            let removal = self.rule.done("remove-tree", path, || self.engine.remove_tree(path, how));
            removal.map_err(|error| self.without_names(error))
        })
    }

    fn tree_removal(&self, id: DirId) -> Result<TreeRemoval, ArchiveError> {
        let removal = self.engine.tree_removal(id)?;
        if self.rule.sees(&removal.record.owner) { Ok(removal) } else { Err(ArchiveError::NoSuchRemoval(id)) }
    }

    fn tree_removals(&self) -> Result<Vec<TreeRemoval>, ArchiveError> {
        let mut removals = self.engine.tree_removals()?;
        removals.retain(|removal| self.rule.sees(&removal.record.owner));
        Ok(removals)
    }

    fn begin_put(
        &self,
        path: &ArchivePath,
        mut options: PutOptions,
    ) -> Result<Box<dyn Upload>, ArchiveError> {
        // A repeat by its idempotency key gets the first answer and replaces nothing.
        let keeps = options.if_current.is_none() && (options.keep_existing || options.idempotency.is_some());
        let putting = self.rule.putting("put", path, keeps)?;
        if options.hold.is_some() {
            self.rule.may("hold", Rights::MANAGE, path)?;
        }
        options.keep_existing |= putting == Putting::Create;
        self.rule.own_up(&mut options.attributes);
        options.who = Some(self.rule.acting(options.who.as_deref().unwrap_or_default()));
        if let Some((_, principal)) = &mut options.idempotency {
            *principal = self.rule.acting(principal);
        }
        self.rule.ledger.admit("put")?;
        let begun = self.engine.begin_put(path, options);
        let inner = begun.inspect_err(|error| self.rule.ledger.failed("put", path.as_str(), error))?;
        Ok(Box::new(AuditedUpload { inner, ledger: self.rule.ledger.clone(), what: path.to_string() }))
    }

    fn open_read(&self, path: &ArchivePath) -> Result<Box<dyn Download>, ArchiveError> {
        self.open_read_for(path, "")
    }

    fn open_read_for(&self, path: &ArchivePath, who: &str) -> Result<Box<dyn Download>, ArchiveError> {
        let who = self.rule.acting(who);
        self.opened(path, Which::Current, || self.engine.open_read_for(path, &who))
    }

    fn stage(&self, selection: &Selection, options: StageOptions) -> Result<RequestId, ArchiveError> {
        self.stage_told(selection, options, &CallProgress::default())
    }

    fn stage_told(
        &self,
        selection: &Selection,
        mut options: StageOptions,
        progress: &CallProgress,
    ) -> Result<RequestId, ArchiveError> {
        for path in &selection.paths {
            self.rule.may("stage", Rights::STAGE, path)?;
        }
        options.owner = self.rule.acting(&options.owner);
        self.rule.done("stage", named(selection), || self.engine.stage_told(selection, options, progress))
    }

    fn request(&self, request: RequestId) -> Result<RequestInfo, ArchiveError> {
        self.rule.own("request", request, true)
    }

    fn requests(&self, before: Option<RequestId>, limit: usize) -> Result<Vec<RequestInfo>, ArchiveError> {
        if self.rule.is_admin() {
            return self.engine.requests(before, limit);
        }
        let (mut before, mut found) = (before, Vec::new());
        for _ in 0..REQUEST_PAGES_MAX {
            let page = self.engine.requests(before, limit)?;
            let Some(last) = page.last() else { break };
            before = Some(last.request);
            found.extend(page.into_iter().filter(|info| self.rule.owns(info, true)));
            if found.len() >= limit {
                break;
            }
        }
        found.truncate(limit);
        Ok(found)
    }

    fn request_files(
        &self,
        request: RequestId,
        from: u32,
        limit: usize,
    ) -> Result<(Vec<RequestFile>, Option<u32>), ArchiveError> {
        self.rule.own("request", request, true)?;
        let (mut files, next) = self.engine.request_files(request, from, limit)?;
        // Whoever has a directory staged may not see all that is below it.
        let mut kept = Vec::with_capacity(files.len());
        for file in files.drain(..) {
            if self.is_visible(&file.path)? {
                kept.push(file);
            }
        }
        Ok((kept, next))
    }

    fn set_priority(&self, request: RequestId, priority: u8) -> Result<(), ArchiveError> {
        self.rule.own("priority", request, false)?;
        self.rule
            .done("priority", format!("request {request}"), || self.engine.set_priority(request, priority))
    }

    fn cancel_request(&self, request: RequestId) -> Result<(), ArchiveError> {
        self.cancel_request_told(request, &CallProgress::default())
    }

    fn cancel_request_told(&self, request: RequestId, progress: &CallProgress) -> Result<(), ArchiveError> {
        self.rule.own("cancel", request, false)?;
        let cancel = || self.engine.cancel_request_told(request, progress);
        self.rule.done("cancel", format!("request {request}"), cancel)
    }

    fn release(&self, request: RequestId, paths: Option<&[ArchivePath]>) -> Result<(), ArchiveError> {
        self.release_told(request, paths, &CallProgress::default())
    }

    fn release_told(
        &self,
        request: RequestId,
        paths: Option<&[ArchivePath]>,
        progress: &CallProgress,
    ) -> Result<(), ArchiveError> {
        self.rule.own("release", request, false)?;
        let release = || self.engine.release_told(request, paths, progress);
        self.rule.done("release", format!("request {request}"), release)
    }

    fn evict(&self, selection: &Selection) -> Result<EvictDone, ArchiveError> {
        self.evict_told(selection, &CallProgress::default())
    }

    fn evict_told(&self, selection: &Selection, progress: &CallProgress) -> Result<EvictDone, ArchiveError> {
        for path in &selection.paths {
            self.rule.may("evict", Rights::STAGE, path)?;
        }
        let evict = || self.engine.evict_told(selection, progress);
        let mut done = self.rule.done("evict", named(selection), evict)?;
        let mut refused = Vec::with_capacity(done.refused.len());
        for (path, refusal) in done.refused.drain(..) {
            if self.is_visible(&path)? {
                refused.push((path, refusal));
            }
        }
        done.refused = refused;
        Ok(done)
    }

    fn explain(&self, about: &About) -> Result<Vec<Cause>, ArchiveError> {
        match about {
            About::Path(path) => self.rule.may("explain", Rights::STAT, path)?,
            About::Request(request) => drop(self.rule.own("explain", *request, true)?),
            About::Tape(vid) => self.rule.looks("explain", vid)?,
            About::Drive(name) | About::TapePool(name) | About::Class(name) => {
                self.rule.looks("explain", name)?;
            }
        }
        self.engine.explain(about)
    }

    fn request_outlook(&self, request: RequestId) -> Result<RequestOutlook, ArchiveError> {
        self.rule.own("request", request, true)?;
        self.engine.request_outlook(request)
    }

    fn tapes(&self) -> Result<Vec<TapeInfo>, ArchiveError> {
        self.rule.looks("list", "tapes")?;
        self.engine.tapes()
    }

    fn tape(&self, vid: Vid) -> Result<TapeInfo, ArchiveError> {
        self.rule.looks("look at", vid)?;
        self.engine.tape(vid)
    }

    fn tape_content(
        &self,
        vid: Vid,
        from: BlockAddress,
        limit: usize,
    ) -> Result<(Vec<TapeContent>, Option<BlockAddress>), ArchiveError> {
        self.rule.looks("look at", vid)?;
        self.engine.tape_content(vid, from, limit)
    }

    fn tape_drives(&self) -> Vec<TapeDriveInfo> {
        if self.rule.looks("list", "drives").is_ok() { self.engine.tape_drives() } else { Vec::new() }
    }

    fn pool_info(&self) -> Result<PoolInfo, ArchiveError> {
        self.rule.looks("look at", "the pool")?;
        self.engine.pool_info()
    }

    /// Everybody needs the names of classes to put something.
    fn classes(&self) -> Result<Vec<ClassInfo>, ArchiveError> {
        self.engine.classes()
    }

    fn queue(&self) -> Result<Vec<QueueLine>, ArchiveError> {
        self.rule.looks("look at", "the queue")?;
        self.engine.queue()
    }

    fn totals(&self) -> Result<Totals, ArchiveError> {
        self.rule.looks("look at", "the totals")?;
        let mut totals = self.engine.totals()?;
        if let Some(problem) = self.rule.ledger.problem() {
            totals.warnings.push(problem.to_string());
            totals.problems.push(problem);
        }
        totals.warnings.extend(self.notices.all());
        Ok(totals)
    }

    fn set_tape(&self, vid: Vid, use_as: TapeUse, reason: &str) -> Result<(), ArchiveError> {
        self.rule.admin("set-tape", vid)?;
        let to = match use_as {
            TapeUse::Active => "active",
            TapeUse::ReadOnly => "read-only",
            TapeUse::Disabled => "disabled",
        };
        let what = with_reason(&format!("{vid} {to}"), reason);
        self.rule.done("set-tape", what, || self.engine.set_tape(vid, use_as, reason))
    }

    fn drive_up(&self, drive: &str) -> Result<(), ArchiveError> {
        self.rule.admin("drive-up", drive)?;
        self.rule.done("drive-up", drive, || self.engine.drive_up(drive))
    }

    fn drive_down(&self, drive: &str, reason: &str) -> Result<(), ArchiveError> {
        self.rule.admin("drive-down", drive)?;
        self.rule.done("drive-down", with_reason(drive, reason), || self.engine.drive_down(drive, reason))
    }

    fn check_tapes(&self, vids: &[Vid]) -> Result<(), ArchiveError> {
        let what = vids.first().map(ToString::to_string).unwrap_or_default();
        self.rule.admin("check-tapes", &what)?;
        self.rule.done("check-tapes", what, || self.engine.check_tapes(vids))
    }

    fn tape_check(&self, vid: Vid) -> Result<Option<TapeCheck>, ArchiveError> {
        self.rule.looks("look at", vid)?;
        self.engine.tape_check(vid)
    }

    fn repack_tape(&self, vid: Vid, reason: &str) -> Result<(), ArchiveError> {
        self.rule.admin("repack-tape", vid)?;
        self.rule.done("repack-tape", with_reason(&vid.to_string(), reason), || {
            self.engine.repack_tape(vid, reason)
        })
    }

    fn tape_repack(&self, vid: Vid) -> Result<Option<TapeRepack>, ArchiveError> {
        self.rule.looks("look at", vid)?;
        self.engine.tape_repack(vid)
    }

    fn reclaim_tape(&self, vid: Vid) -> Result<(), ArchiveError> {
        self.rule.admin("reclaim-tape", vid)?;
        self.rule.done("reclaim-tape", vid, || self.engine.reclaim_tape(vid))
    }

    fn tape_report(&self, window: Duration, by: ReportBy) -> Result<TapeReport, ArchiveError> {
        self.rule.looks("look at", "the report of tapes")?;
        self.engine.tape_report(window, by)
    }

    fn usage(&self, window: Duration, class: Option<&str>) -> Result<UsageReport, ArchiveError> {
        self.rule.looks("look at", "the report of usage")?;
        self.engine.usage(window, class)
    }

    fn begin_usage(
        &self,
        window: Duration,
        class: Option<&str>,
    ) -> Result<Box<dyn UsageSteps>, ArchiveError> {
        self.rule.looks("look at", "the report of usage")?;
        self.engine.begin_usage(window, class)
    }

    fn migrate_now(&self, class: Option<&str>) -> Result<(), ArchiveError> {
        let what = class.unwrap_or("all classes");
        self.rule.admin("migrate", what)?;
        self.rule.done("migrate", what, || self.engine.migrate_now(class))
    }

    fn backup_status(&self) -> Option<BackupStatus> {
        self.rule.looks("look at", "the backup").ok()?;
        self.engine.backup_status()
    }

    fn change_log(&self) -> Result<Option<ChangeLogInfo>, ArchiveError> {
        self.rule.looks("look at", "the log of changes")?;
        self.engine.change_log()
    }

    fn backup_now(&self) -> Option<u64> {
        self.rule.admin("backup", "").ok()?;
        self.rule.done("backup", "", || Ok(self.engine.backup_now())).ok()?
    }

    fn quarantined(&self) -> Result<Option<KeptExtents>, ArchiveError> {
        self.rule.looks("look at", "the quarantine")?;
        self.engine.quarantined()
    }

    fn unknown_kept(&self) -> Result<UnknownKept, ArchiveError> {
        self.rule.looks("look at", "the quarantine")?;
        self.engine.unknown_kept()
    }

    fn end_quarantine(&self) -> Result<(), ArchiveError> {
        self.rule.admin("end-quarantine", "")?;
        self.rule.done("end-quarantine", "", || self.engine.end_quarantine())
    }

    fn clock_info(&self) -> Result<ClockInfo, ArchiveError> {
        self.rule.looks("look at", "the clock")?;
        self.engine.clock_info()
    }

    fn accept_time(&self, today: Timestamp, back: bool) -> Result<ClockInfo, ArchiveError> {
        let what = if back { "the system's clock, also back" } else { "the system's clock" };
        self.rule.admin("accept-time", what)?;
        self.rule.done("accept-time", what, || self.engine.accept_time(today, back))
    }

    fn pool_health(&self) -> Result<PoolHealth, ArchiveError> {
        self.rule.looks("look at", "the pool")?;
        self.engine.pool_health()
    }

    fn scrub_info(&self) -> ScrubInfo {
        if self.rule.looks("look at", "the scrub").is_ok() {
            self.engine.scrub_info()
        } else {
            ScrubInfo::default()
        }
    }

    fn scrub_now(&self) {
        if self.rule.admin("scrub", "").is_ok() {
            let _ = self.rule.done("scrub", "", || {
                self.engine.scrub_now();
                Ok(())
            });
        }
    }

    fn verify(&self, path: &ArchivePath, offset: u64, length: u64) -> Result<VerifyDone, ArchiveError> {
        self.rule.may("verify", Rights::READ, path)?;
        self.engine.verify(path, offset, length)
    }

    fn verify_catalogue(&self) -> Result<Vec<CatalogueFinding>, ArchiveError> {
        self.rule.admin("verify", "the catalogue")?;
        self.engine.verify_catalogue()
    }

    fn pool_rebuild(&self, drive: Option<u16>, accept_loss: bool) -> Result<(), ArchiveError> {
        let what = drive.map_or("all".to_owned(), |drive| format!("drive {drive}"));
        self.rule.admin("rebuild", &what)?;
        self.rule.done("rebuild", what, || self.engine.pool_rebuild(drive, accept_loss))
    }

    fn pool_drive_lost(&self, drive: u16, accept_loss: bool) -> Result<(), ArchiveError> {
        self.rule.admin("drive-lost", drive)?;
        self.rule.done("drive-lost", drive, || self.engine.pool_drive_lost(drive, accept_loss))
    }

    fn pool_drive_replace(
        &self,
        drive: u16,
        new: bool,
        accept_loss: bool,
    ) -> Result<ReplacedDrive, ArchiveError> {
        self.rule.admin("drive-replace", drive)?;
        self.rule.done("drive-replace", drive, || self.engine.pool_drive_replace(drive, new, accept_loss))
    }

    fn buckets(&self) -> Result<Vec<BucketInfo>, ArchiveError> {
        let mut found = Vec::new();
        for bucket in self.engine.buckets()? {
            if self.rule.has(Rights::STAT, &bucket_path(&bucket.name)?)? {
                found.push(bucket);
            }
        }
        Ok(found)
    }

    fn bucket(&self, name: &Name) -> Result<BucketInfo, ArchiveError> {
        self.rule.may("stat", Rights::STAT, &bucket_path(name)?)?;
        self.engine.bucket(name)
    }

    fn make_bucket(&self, name: &Name, owner: &str, set: &BucketSettings) -> Result<(), ArchiveError> {
        let path = bucket_path(name)?;
        self.rule.may_make("make-bucket", &path)?;
        let owner = self.rule.acting(owner);
        self.rule.done("make-bucket", path, || self.engine.make_bucket(name, &owner, set))
    }

    fn set_bucket(&self, name: &Name, settings: &BucketSettings) -> Result<(), ArchiveError> {
        let path = bucket_path(name)?;
        self.rule.may("set-bucket", Rights::MANAGE, &path)?;
        self.rule.done("set-bucket", path, || self.engine.set_bucket(name, settings))
    }

    fn remove_bucket(&self, name: &Name) -> Result<(), ArchiveError> {
        let path = bucket_path(name)?;
        self.rule.may("remove-bucket", Rights::MODIFY, &path)?;
        self.rule.done("remove-bucket", path, || self.engine.remove_bucket(name))
    }

    fn object(&self, path: &ArchivePath, which: Which) -> Result<ObjectStat, ArchiveError> {
        self.rule.may_version("stat", Rights::STAT, path, which)?;
        self.engine.object(path, which)
    }

    fn open_object(
        &self,
        path: &ArchivePath,
        which: Which,
        who: &str,
    ) -> Result<Box<dyn Download>, ArchiveError> {
        let who = self.rule.acting(who);
        self.opened(path, which, || self.engine.open_object(path, which, &who))
    }

    fn remove_object(
        &self,
        path: &ArchivePath,
        which: Which,
        bypass: bool,
    ) -> Result<ObjectRemoved, ArchiveError> {
        let rights = if bypass { Rights::MODIFY | Rights::MANAGE } else { Rights::MODIFY };
        self.rule.may_version("remove", rights, path, which)?;
        self.rule.done("remove", versioned(path, which), || self.engine.remove_object(path, which, bypass))
    }

    fn list_keys(&self, query: &KeyQuery) -> Result<KeyPage, ArchiveError> {
        self.may_list_keys("list", query)?;
        let mut page = self.engine.list_keys(query)?;
        self.keep_listable(&query.bucket, &mut page.lines)?;
        Ok(page)
    }

    fn list_versions(&self, query: &VersionQuery) -> Result<VersionPage, ArchiveError> {
        self.may_list_keys("list-versions", &query.keys)?;
        let mut page = self.engine.list_versions(query)?;
        self.keep_listable(&query.keys.bucket, &mut page.lines)?;
        Ok(page)
    }

    fn set_xattrs(
        &self,
        path: &ArchivePath,
        which: Which,
        changes: &[(String, Option<Vec<u8>>)],
    ) -> Result<(), ArchiveError> {
        self.rule.may_version("set-attributes", Rights::MODIFY, path, which)?;
        let what = versioned(path, which);
        self.rule.done("set-attributes", what, || self.engine.set_xattrs(path, which, changes))
    }

    fn set_hold(
        &self,
        path: &ArchivePath,
        which: Which,
        hold: Hold,
        bypass: bool,
    ) -> Result<(), ArchiveError> {
        self.rule.may_version("hold", Rights::MANAGE, path, which)?;
        self.rule.done("hold", versioned(path, which), || self.engine.set_hold(path, which, hold, bypass))
    }

    /// A copy may replace what is there, and nothing says that it may not: so creating is not enough.
    fn clone_object(
        &self,
        from: &ArchivePath,
        which: Which,
        to: &ArchivePath,
        mut options: CloneOptions,
    ) -> Result<PutDone, ArchiveError> {
        // The file that was looked at, whatever has its name by now.
        let which = match self.rule.may_version("read", Rights::READ, from, which)? {
            Some(Entry::File(file)) => Which::Version(file),
            Some(Entry::Directory(_)) => return Err(ArchiveError::IsADirectory(from.clone())),
            None => which,
        };
        self.rule.may("copy", Rights::MODIFY, to)?;
        if options.hold.is_some() {
            self.rule.may("hold", Rights::MANAGE, to)?;
        }
        options.who = self.rule.acting(&options.who);
        if !self.rule.is_admin() && options.attributes.is_none() {
            options.attributes = Some(self.engine.object(from, which)?.file.attributes);
        }
        if let Some(attributes) = &mut options.attributes {
            self.rule.own_up(attributes);
        }
        let what = format!("{} to {to}", versioned(from, which));
        self.rule.done("copy", what, || self.engine.clone_object(from, which, to, options))
    }

    fn change_class(&self, path: &ArchivePath, class: &str) -> Result<(), ArchiveError> {
        self.rule.may("change-class", Rights::MODIFY, path)?;
        self.rule.done("change-class", path, || self.engine.change_class(path, class))
    }

    fn restore_object(
        &self,
        path: &ArchivePath,
        which: Which,
        mut options: StageOptions,
    ) -> Result<bool, ArchiveError> {
        self.rule.may_version("restore", Rights::STAGE, path, which)?;
        options.owner = self.rule.acting(&options.owner);
        self.rule.done("restore", versioned(path, which), || self.engine.restore_object(path, which, options))
    }

    fn access_chain(&self, path: &ArchivePath) -> Result<AccessChain, ArchiveError> {
        self.rule.may("stat", Rights::STAT, path)?;
        self.engine.access_chain(path)
    }

    fn acl(&self, path: &ArchivePath) -> Result<Option<Vec<AclEntry>>, ArchiveError> {
        self.rule.may("acl-get", Rights::STAT, path)?;
        self.engine.acl(path)
    }

    /// A list that could not be read would lock everybody out, so it is not taken from anybody.
    fn set_acl(&self, path: &ArchivePath, entries: Option<Vec<AclEntry>>) -> Result<(), ArchiveError> {
        let seen = self.rule.may_version("acl-set", Rights::MANAGE, path, Which::Current)?;
        if let Some(entries) = &entries {
            let read = read_acl(entries);
            read.map_err(|error| ArchiveError::BadAcl { path: path.clone(), reason: error.to_string() })?;
        }
        self.rule.done("acl-set", path, || match seen {
            Some(Entry::Directory(directory)) => self.engine.set_acl_of(path, directory, entries),
            Some(Entry::File(_)) => Err(ArchiveError::NotADirectory(path.clone())),
            None if self.rule.is_admin() => self.engine.set_acl(path, entries),
            None => Err(ArchiveError::NotFound(path.clone())),
        })
    }

    fn set_owner(
        &self,
        path: &ArchivePath,
        owner: Option<&str>,
        group: Option<&str>,
    ) -> Result<(), ArchiveError> {
        self.rule.admin("chown", path)?;
        self.rule.done("chown", path, || self.engine.set_owner(path, owner, group))
    }

    fn quotas(&self) -> Result<Vec<QuotaInfo>, ArchiveError> {
        self.rule.looks("list", "quotas")?;
        self.engine.quotas()
    }

    fn set_quota(&self, of: &QuotaOf, limits: QuotaLimits) -> Result<(), ArchiveError> {
        self.rule.admin("quota-set", of)?;
        self.rule.done("quota-set", of, || self.engine.set_quota(of, limits))
    }

    fn remove_quota(&self, of: &QuotaOf) -> Result<(), ArchiveError> {
        self.rule.admin("quota-rm", of)?;
        self.rule.done("quota-rm", of, || self.engine.remove_quota(of))
    }

    fn open_multipart(&self, path: &ArchivePath, mut options: PutOptions) -> Result<UploadId, ArchiveError> {
        self.rule.putting("open-upload", path, options.keep_existing)?;
        if options.hold.is_some() {
            self.rule.may("hold", Rights::MANAGE, path)?;
        }
        self.rule.own_up(&mut options.attributes);
        options.who = Some(self.rule.acting(options.who.as_deref().unwrap_or_default()));
        self.rule.done("open-upload", path, || self.engine.open_multipart(path, options))
    }

    fn multipart(&self, upload: UploadId) -> Result<MultipartInfo, ArchiveError> {
        self.upload("look at upload", upload)
    }

    fn multiparts(
        &self,
        bucket: &Name,
        prefix: &str,
        after: Option<(&str, UploadId)>,
        limit: usize,
    ) -> Result<(Vec<MultipartInfo>, bool), ArchiveError> {
        let directory = bucket_path(bucket)?;
        self.rule.may("list-uploads", Rights::LIST, &directory)?;
        if self.rule.is_admin() {
            return self.engine.multiparts(bucket, prefix, after, limit);
        }
        let mut after = after.map(|(key, upload)| (key.to_owned(), upload));
        let (mut known, mut found) = (BTreeMap::new(), Vec::new());
        // Whoever asks goes on behind what they see: a page of which they see nothing would come again.
        loop {
            let from = after.as_ref().map(|(key, upload)| (key.as_str(), *upload));
            let (page, more) = self.engine.multiparts(bucket, prefix, from, limit)?;
            let Some(last) = page.last() else { return Ok((found, false)) };
            let key = last.path.as_str().strip_prefix(directory.as_str()).unwrap_or_default();
            after = Some((key.trim_start_matches('/').to_owned(), last.upload));
            for info in page {
                if self.is_listable(info.path.split().map(|(above, _)| above), &mut known)? {
                    found.push(info);
                }
            }
            if !more || found.len() >= limit {
                let more = more || found.len() > limit;
                found.truncate(limit);
                return Ok((found, more));
            }
        }
    }

    fn parts(
        &self,
        upload: UploadId,
        after: u16,
        limit: usize,
    ) -> Result<(Vec<PartInfo>, bool), ArchiveError> {
        self.upload("list-parts", upload)?;
        self.engine.parts(upload, after, limit)
    }

    fn begin_part(
        &self,
        upload: UploadId,
        number: u16,
        length: Option<ByteCount>,
        who: &str,
    ) -> Result<Box<dyn PartUpload>, ArchiveError> {
        let path = self.upload("put-part", upload)?.path;
        self.rule.ledger.admit("put-part")?;
        let inner = self.engine.begin_part(upload, number, length, &self.rule.acting(who))?;
        let what = format!("part {number} of {path}");
        Ok(Box::new(AuditedPart { inner, ledger: self.rule.ledger.clone(), what }))
    }

    fn complete_multipart(
        &self,
        upload: UploadId,
        parts: &[u16],
        mut options: CompleteOptions,
    ) -> Result<PutDone, ArchiveError> {
        let path = self.upload("complete-upload", upload)?.path;
        // A repeat gets the first answer and replaces nothing; the engine refuses whatever else is there.
        let putting = self.rule.putting("complete-upload", &path, options.if_current.is_none())?;
        options.keep_existing |= putting == Putting::Create;
        options.who = self.rule.acting(&options.who);
        self.rule.done("complete-upload", path, || self.engine.complete_multipart(upload, parts, options))
    }

    fn completed_multipart(&self, path: &ArchivePath, upload: UploadId) -> Result<PutDone, ArchiveError> {
        self.rule.putting("complete-upload", path, true)?;
        self.engine.completed_multipart(path, upload)
    }

    fn abort_multipart(&self, upload: UploadId) -> Result<(), ArchiveError> {
        let path = self.upload("abort-upload", upload)?.path;
        self.rule.done("abort-upload", path, || self.engine.abort_multipart(upload))
    }
}

fn named(selection: &Selection) -> String {
    let first = selection.paths.first().map(ToString::to_string).unwrap_or_default();
    match selection.paths.len() {
        0 | 1 => first,
        more => format!("{first} and {} more", more - 1),
    }
}

fn versioned(path: &ArchivePath, which: Which) -> String {
    match which {
        Which::Current => path.to_string(),
        Which::Null => format!("{path} version null"),
        Which::Version(file) => format!("{path} version {:016x}", file.0),
    }
}

#[cfg(test)]
mod tests;

/// What was changed, and why as its operator says.
fn with_reason(what: &str, reason: &str) -> String {
    if reason.is_empty() { what.to_owned() } else { format!("{what}: {reason}") }
}
