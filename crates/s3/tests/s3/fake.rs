//! An engine in memory, with buckets, objects and listings made the simplest way.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use archive::*;
use authority::{Download, Engine, Upload};
use base::{
    ArchivePath, BlockAddress, ByteCount, Checksums, Duration, FileId, Name, RequestId, Timestamp, Uuid, Vid,
};
use bytes::Bytes;
use catalogue::{Attributes, FileKind};

/// When everything was made.
pub const CREATED: Timestamp = Timestamp(1_795_292_940_000_000_000);

#[derive(Clone)]
pub struct Stored {
    pub stat: FileStat,
    pub bytes: Bytes,
    pub restore: RestoreState,
}

#[derive(Default)]
pub struct Tree {
    pub buckets: BTreeMap<String, BucketInfo>,
    pub directories: BTreeMap<String, Attributes>,
    pub files: BTreeMap<String, Stored>,
    /// The priorities of restores that were asked for.
    pub restores: Vec<u8>,
}

#[derive(Clone, Default)]
pub struct Fake {
    tree: Arc<Mutex<Tree>>,
    next: Arc<AtomicU64>,
}

type Outcome<T> = Result<T, ArchiveError>;

impl Fake {
    pub fn tree(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Paths of all files and directories but buckets.
    pub fn everything(&self) -> Vec<String> {
        let tree = self.tree();
        tree.files.keys().chain(tree.directories.keys()).cloned().collect()
    }

    fn file(&self, path: &ArchivePath) -> Outcome<Stored> {
        let tree = self.tree();
        if tree.directories.contains_key(path.as_str()) || tree.buckets.contains_key(&path.as_str()[1..]) {
            return Err(ArchiveError::IsADirectory(path.clone()));
        }
        tree.files.get(path.as_str()).cloned().ok_or_else(|| ArchiveError::NotFound(path.clone()))
    }
}

struct FakeUpload {
    fake: Fake,
    path: ArchivePath,
    options: PutOptions,
    bytes: Vec<u8>,
}

impl Upload for FakeUpload {
    fn write(&mut self, bytes: &[u8]) -> Outcome<()> {
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn pause(&mut self) {}

    fn attribute(&mut self, name: String, value: Vec<u8>) {
        self.options.attributes.xattrs.push((name, value));
    }

    fn finish(self: Box<Self>) -> Outcome<PutDone> {
        let FakeUpload { fake, path, options, bytes } = *self;
        let actual = bytes.len() as u64;
        if let Some(expected) = options.length.map(|l| l.0).filter(|l| *l != actual) {
            return Err(ArchiveError::LengthMismatch { expected, actual });
        }
        let mut tree = fake.tree();
        let old = tree.files.get(path.as_str());
        if options.keep_existing && old.is_some() {
            return Err(ArchiveError::Exists(path));
        }
        if options.if_current.is_some() && old.map(|old| old.stat.file) != options.if_current {
            return Err(ArchiveError::Exists(path));
        }
        let replaced = old.is_some();
        let mut parent = path.clone();
        while let Some((up, _)) = parent.split().filter(|(up, _)| up.components().count() > 1) {
            tree.directories.entry(up.as_str().to_owned()).or_default();
            parent = up;
        }
        let (file, checksums) = (FileId(fake.next.fetch_add(1, SeqCst) + 7), Checksums::of(&bytes));
        let class = options.class.unwrap_or_else(|| "standard".to_owned());
        let stat = FileStat {
            path: path.clone(),
            file,
            kind: FileKind::Regular,
            size: ByteCount(actual),
            created: CREATED,
            attributes: options.attributes,
            checksums,
            class: class.clone(),
            locality: Locality::Online,
            copies: vec![],
            copies_wanted: 1,
            pins: vec![],
        };
        let stored = Stored { stat, bytes: bytes.into(), restore: RestoreState::No };
        tree.files.insert(path.as_str().to_owned(), stored);
        Ok(PutDone { file, created: true, replaced, size: ByteCount(actual), checksums, class })
    }
}

struct FakeDownload {
    stored: Stored,
    at: usize,
    end: usize,
}

impl Download for FakeDownload {
    fn stat(&self) -> &FileStat {
        &self.stored.stat
    }

    fn select(&mut self, offset: u64, length: u64) -> Outcome<()> {
        (self.at, self.end) = (offset as usize, (offset + length) as usize);
        Ok(())
    }

    fn next(&mut self) -> Outcome<Option<Bytes>> {
        if self.at == self.end {
            return Ok(None);
        }
        let to = self.end.min(self.at + (64 << 10));
        let piece = self.stored.bytes.slice(self.at..to);
        self.at = to;
        Ok(Some(piece))
    }

    fn pause(&mut self) {}
}

impl Engine for Fake {
    fn instance(&self) -> Uuid {
        Uuid([7; 16])
    }

    fn stat(&self, path: &ArchivePath) -> Outcome<Stat> {
        if let Some(attributes) = self.tree().directories.get(path.as_str()) {
            let (path, attributes) = (path.clone(), attributes.clone());
            return Ok(Stat::Directory(DirectoryStat { path, created: CREATED, attributes, class: None }));
        }
        Ok(Stat::File(Box::new(self.file(path)?.stat)))
    }

    fn make_directory(
        &self,
        path: &ArchivePath,
        attributes: Attributes,
        _: Option<&str>,
        _: bool,
    ) -> Outcome<()> {
        let mut tree = self.tree();
        if tree.directories.contains_key(path.as_str()) || tree.files.contains_key(path.as_str()) {
            return Err(ArchiveError::Exists(path.clone()));
        }
        tree.directories.insert(path.as_str().to_owned(), attributes);
        Ok(())
    }

    fn remove(&self, path: &ArchivePath) -> Outcome<()> {
        let mut tree = self.tree();
        let below = format!("{path}/");
        if tree.files.keys().any(|known| known.starts_with(&below)) {
            return Err(ArchiveError::NotEmpty(path.clone()));
        }
        tree.directories.remove(path.as_str()).map(drop).ok_or_else(|| ArchiveError::NotFound(path.clone()))
    }

    fn begin_put(&self, path: &ArchivePath, options: PutOptions) -> Outcome<Box<dyn Upload>> {
        match self.file(path) {
            Err(error @ ArchiveError::IsADirectory(_)) => return Err(error),
            Ok(_) if options.keep_existing => return Err(ArchiveError::Exists(path.clone())),
            _ => {}
        }
        let mut parent = path.clone();
        while let Some((up, _)) = parent.split() {
            if self.tree().files.contains_key(up.as_str()) {
                return Err(ArchiveError::NotADirectory(up));
            }
            parent = up;
        }
        Ok(Box::new(FakeUpload { fake: self.clone(), path: path.clone(), options, bytes: vec![] }))
    }

    fn open_read(&self, path: &ArchivePath) -> Outcome<Box<dyn Download>> {
        let stored = self.file(path)?;
        if stored.stat.locality == Locality::Nearline {
            return Err(ArchiveError::Nearline { path: path.clone(), vids: vec![], recall: None });
        }
        let end = stored.bytes.len();
        Ok(Box::new(FakeDownload { stored, at: 0, end }))
    }

    fn buckets(&self) -> Outcome<Vec<BucketInfo>> {
        Ok(self.tree().buckets.values().cloned().collect())
    }

    fn bucket(&self, name: &Name) -> Outcome<BucketInfo> {
        let missing = || ArchiveError::NotFound(ArchivePath::root().join(name).unwrap());
        self.tree().buckets.get(name.as_str()).cloned().ok_or_else(missing)
    }

    fn make_bucket(&self, name: &Name, owner: &str, settings: &BucketSettings) -> Outcome<()> {
        if self.bucket(name).is_ok() {
            return Err(ArchiveError::Exists(ArchivePath::root().join(name).unwrap()));
        }
        let (owner, settings) = (owner.to_owned(), settings.clone());
        let info = BucketInfo { name: name.clone(), owner, created: CREATED, settings };
        self.tree().buckets.insert(name.as_str().to_owned(), info);
        Ok(())
    }

    fn set_bucket(&self, name: &Name, settings: &BucketSettings) -> Outcome<()> {
        self.bucket(name)?;
        self.tree().buckets.get_mut(name.as_str()).unwrap().settings = settings.clone();
        Ok(())
    }

    fn remove_bucket(&self, name: &Name) -> Outcome<()> {
        self.bucket(name)?;
        let below = format!("/{name}/");
        let mut tree = self.tree();
        if tree.files.keys().any(|known| known.starts_with(&below)) {
            return Err(ArchiveError::NotEmpty(ArchivePath::root().join(name).unwrap()));
        }
        tree.buckets.remove(name.as_str());
        Ok(())
    }

    fn object(&self, path: &ArchivePath, which: Which) -> Outcome<ObjectStat> {
        let stored = self.file(path)?;
        if let Which::Version(file) = which
            && file != stored.stat.file
        {
            return Err(ArchiveError::NotFound(path.clone()));
        }
        let Stored { stat: file, restore, .. } = stored;
        Ok(ObjectStat { file, is_current: true, is_null: true, restore, hold: Hold::default() })
    }

    fn open_object(&self, path: &ArchivePath, which: Which, _: &str) -> Outcome<Box<dyn Download>> {
        self.object(path, which)?;
        self.open_read(path)
    }

    fn remove_object(&self, path: &ArchivePath, which: Which, _: bool) -> Outcome<ObjectRemoved> {
        self.object(path, which)?;
        self.tree().files.remove(path.as_str());
        Ok(ObjectRemoved::default())
    }

    fn list_keys(&self, query: &KeyQuery) -> Outcome<KeyPage> {
        let tree = self.tree();
        let root = format!("{}/", query.bucket);
        let files = tree.files.iter().filter_map(|(path, file)| Some((path.strip_prefix(&root)?, file)));
        let mut page = KeyPage::default();
        for (key, stored) in files {
            if !key.starts_with(&query.prefix) || key <= query.after.as_str() {
                continue;
            }
            let cut = query.delimiter.as_ref().and_then(|delimiter| {
                let rest = &key[query.prefix.len()..];
                rest.find(delimiter.as_str()).map(|at| query.prefix.len() + at + delimiter.len())
            });
            let line = match cut.map(|cut| key[..cut].to_owned()) {
                Some(prefix) if query.after.starts_with(&prefix) => continue,
                Some(prefix) => KeyLine::Prefix(prefix),
                None => KeyLine::Object(Box::new(line(key, stored))),
            };
            if page.lines.last() == Some(&line) {
                continue;
            }
            if page.lines.len() == query.limit {
                page.next = page.lines.last().map(|line| match line {
                    KeyLine::Prefix(prefix) => prefix.clone(),
                    KeyLine::Object(object) => object.key.clone(),
                });
                return Ok(page);
            }
            page.lines.push(line);
        }
        Ok(page)
    }

    fn restore_object(&self, path: &ArchivePath, _: Which, options: StageOptions) -> Outcome<bool> {
        let mut tree = self.tree();
        tree.restores.push(options.priority);
        let stored = tree.files.get_mut(path.as_str()).ok_or_else(|| ArchiveError::NotFound(path.clone()))?;
        let is_there = stored.stat.locality != Locality::Nearline;
        let until = CREATED.plus(options.pin);
        stored.restore = if is_there { RestoreState::Until(until) } else { RestoreState::Ongoing };
        Ok(is_there)
    }

    fn set_xattrs(&self, path: &ArchivePath, _: Which, changes: &[(String, Option<Vec<u8>>)]) -> Outcome<()> {
        let mut tree = self.tree();
        let tree = &mut *tree;
        let attributes = match tree.files.get_mut(path.as_str()) {
            Some(stored) => &mut stored.stat.attributes,
            None => {
                tree.directories.get_mut(path.as_str()).ok_or_else(|| ArchiveError::NotFound(path.clone()))?
            }
        };
        for (name, value) in changes {
            attributes.xattrs.retain(|(known, _)| known != name);
            attributes.xattrs.extend(value.clone().map(|value| (name.clone(), value)));
        }
        Ok(())
    }

    fn list(
        &self,
        _path: &ArchivePath,
        _after: Option<&Name>,
        _limit: usize,
    ) -> Result<(Vec<Listed>, bool), ArchiveError> {
        unreachable!("S3 does not ask for this")
    }
    fn rename(&self, _from: &ArchivePath, _to: &ArchivePath, _replace: bool) -> Result<(), ArchiveError> {
        unreachable!("S3 does not ask for this")
    }
    fn stage(&self, _selection: &Selection, _options: StageOptions) -> Result<RequestId, ArchiveError> {
        unreachable!("S3 does not ask for this")
    }
    fn request(&self, _request: RequestId) -> Result<RequestInfo, ArchiveError> {
        unreachable!("S3 does not ask for this")
    }
    fn requests(&self, _before: Option<RequestId>, _limit: usize) -> Result<Vec<RequestInfo>, ArchiveError> {
        unreachable!("S3 does not ask for this")
    }
    fn request_files(
        &self,
        _request: RequestId,
        _from: u32,
        _limit: usize,
    ) -> Result<(Vec<RequestFile>, Option<u32>), ArchiveError> {
        unreachable!("S3 does not ask for this")
    }
    fn set_priority(&self, _request: RequestId, _priority: u8) -> Result<(), ArchiveError> {
        unreachable!("S3 does not ask for this")
    }
    fn cancel_request(&self, _request: RequestId) -> Result<(), ArchiveError> {
        unreachable!("S3 does not ask for this")
    }
    fn release(&self, _request: RequestId, _paths: Option<&[ArchivePath]>) -> Result<(), ArchiveError> {
        unreachable!("S3 does not ask for this")
    }
    fn evict(&self, _selection: &Selection) -> Result<EvictDone, ArchiveError> {
        unreachable!("S3 does not ask for this")
    }
    fn explain(&self, _about: &About) -> Result<Vec<Cause>, ArchiveError> {
        unreachable!("S3 does not ask for this")
    }
    fn request_outlook(&self, _request: RequestId) -> Result<RequestOutlook, ArchiveError> {
        unreachable!("S3 does not ask for this")
    }
    fn tapes(&self) -> Result<Vec<TapeInfo>, ArchiveError> {
        unreachable!("S3 does not ask for this")
    }
    fn tape(&self, _vid: Vid) -> Result<TapeInfo, ArchiveError> {
        unreachable!("S3 does not ask for this")
    }
    fn tape_content(
        &self,
        _vid: Vid,
        _from: BlockAddress,
        _limit: usize,
    ) -> Result<(Vec<TapeContent>, Option<BlockAddress>), ArchiveError> {
        unreachable!("S3 does not ask for this")
    }
    fn tape_drives(&self) -> Vec<TapeDriveInfo> {
        unreachable!("S3 does not ask for this")
    }
    fn pool_info(&self) -> Result<PoolInfo, ArchiveError> {
        unreachable!("S3 does not ask for this")
    }
    fn classes(&self) -> Result<Vec<ClassInfo>, ArchiveError> {
        unreachable!("S3 does not ask for this")
    }
    fn queue(&self) -> Result<Vec<QueueLine>, ArchiveError> {
        unreachable!("S3 does not ask for this")
    }
    fn totals(&self) -> Result<Totals, ArchiveError> {
        unreachable!("S3 does not ask for this")
    }
    fn set_tape(&self, _vid: Vid, _use_as: TapeUse, _reason: &str) -> Result<(), ArchiveError> {
        unreachable!("S3 does not ask for this")
    }
    fn drive_up(&self, _drive: &str) -> Result<(), ArchiveError> {
        unreachable!("S3 does not ask for this")
    }
    fn drive_down(&self, _drive: &str, _reason: &str) -> Result<(), ArchiveError> {
        unreachable!("S3 does not ask for this")
    }
    fn check_tapes(&self, _vids: &[Vid]) -> Result<(), ArchiveError> {
        unreachable!("S3 does not ask for this")
    }
    fn tape_check(&self, _vid: Vid) -> Result<Option<TapeCheck>, ArchiveError> {
        unreachable!("S3 does not ask for this")
    }
    fn repack_tape(&self, _vid: Vid, _reason: &str) -> Result<(), ArchiveError> {
        unreachable!("S3 does not ask for this")
    }
    fn tape_repack(&self, _vid: Vid) -> Result<Option<TapeRepack>, ArchiveError> {
        unreachable!("S3 does not ask for this")
    }
    fn reclaim_tape(&self, _vid: Vid) -> Result<(), ArchiveError> {
        unreachable!("S3 does not ask for this")
    }
    fn tape_report(&self, _window: Duration, _by: ReportBy) -> Result<TapeReport, ArchiveError> {
        unreachable!("S3 does not ask for this")
    }
    fn usage(&self, _window: Duration, _class: Option<&str>) -> Result<UsageReport, ArchiveError> {
        unreachable!("S3 does not ask for this")
    }
    fn migrate_now(&self, _class: Option<&str>) -> Result<(), ArchiveError> {
        unreachable!("S3 does not ask for this")
    }
    fn pool_health(&self) -> Result<PoolHealth, ArchiveError> {
        unreachable!("S3 does not ask for this")
    }
    fn scrub_info(&self) -> ScrubInfo {
        unreachable!("S3 does not ask for this")
    }
    fn scrub_now(&self) {
        unreachable!("S3 does not ask for this")
    }
    fn verify(&self, _path: &ArchivePath, _offset: u64, _length: u64) -> Result<VerifyDone, ArchiveError> {
        unreachable!("S3 does not ask for this")
    }
    fn verify_catalogue(&self) -> Result<Vec<CatalogueFinding>, ArchiveError> {
        unreachable!("S3 does not ask for this")
    }
    fn pool_rebuild(&self, _drive: Option<u16>, _accept_loss: bool) -> Result<(), ArchiveError> {
        unreachable!("S3 does not ask for this")
    }
    fn pool_drive_lost(&self, _drive: u16, _accept_loss: bool) -> Result<(), ArchiveError> {
        unreachable!("S3 does not ask for this")
    }
    fn pool_drive_replace(
        &self,
        _drive: u16,
        _new: bool,
        _accept_loss: bool,
    ) -> Result<ReplacedDrive, ArchiveError> {
        unreachable!("S3 does not ask for this")
    }
}

fn line(key: &str, stored: &Stored) -> ObjectLine {
    let stat = &stored.stat;
    ObjectLine {
        key: key.to_owned(),
        file: stat.file,
        size: stat.size,
        created: stat.created,
        attributes: stat.attributes.clone(),
        class: stat.class.clone(),
        blake3: stat.checksums.blake3,
        locality: stat.locality,
        restore: stored.restore,
        is_current: true,
        is_null: true,
        is_marker: false,
    }
}
