//! An engine in memory, with buckets, objects and listings made the simplest way.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use archive::*;
use authority::{Bytes as _, Download, Upload};
use base::{ArchivePath, ByteCount, Checksums, FileId, Name, Timestamp, UploadId};
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

    fn finish_then(self: Box<Self>, done: PutCallback) {
        done(self.finish());
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

    fn check_drives(&self) -> Result<(), ArchiveError> {
        Ok(())
    }
}

impl authority::Access for Fake {
    fn access_chain(&self, _: &ArchivePath) -> Result<AccessChain, ArchiveError> {
        unreachable!("no test asks the fake for this")
    }
}

impl authority::Namespace for Fake {
    fn space_left(&self, _: &ArchivePath, _: &str) -> Result<archive::SpaceLeft, ArchiveError> {
        unreachable!("nobody asks for it here")
    }

    fn stat(&self, path: &ArchivePath) -> Outcome<Stat> {
        if let Some(attributes) = self.tree().directories.get(path.as_str()) {
            let (path, attributes) = (path.clone(), attributes.clone());
            return Ok(Stat::Directory(DirectoryStat { path, created: CREATED, attributes, class: None }));
        }
        Ok(Stat::File(Box::new(self.file(path)?.stat)))
    }

    fn list(&self, _: &ArchivePath, _: Option<&Name>, _: usize) -> Result<(Vec<Listed>, bool), ArchiveError> {
        unreachable!("no test asks the fake for this")
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

    fn rename(&self, _: &ArchivePath, _: &ArchivePath, _: bool) -> Result<(), ArchiveError> {
        unreachable!("no test asks the fake for this")
    }

    fn rename_entry(&self, _: &ArchivePath, _: &ArchivePath, _: &RenameOf) -> Result<(), ArchiveError> {
        unreachable!("no test asks the fake for this")
    }

    fn remove(&self, path: &ArchivePath) -> Outcome<()> {
        let mut tree = self.tree();
        let below = format!("{path}/");
        if tree.files.keys().any(|known| known.starts_with(&below)) {
            return Err(ArchiveError::NotEmpty(path.clone()));
        }
        tree.directories.remove(path.as_str()).map(drop).ok_or_else(|| ArchiveError::NotFound(path.clone()))
    }
}

impl authority::Bytes for Fake {
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

    fn upload_haste(&self, _: &str) -> u64 {
        unreachable!("no test asks the fake for this")
    }

    fn open_read_for(&self, path: &ArchivePath, _: &str) -> Outcome<Box<dyn Download>> {
        let stored = self.file(path)?;
        if stored.stat.locality == Locality::Nearline {
            return Err(ArchiveError::Nearline { path: path.clone(), vids: vec![], recall: None });
        }
        let end = stored.bytes.len();
        Ok(Box::new(FakeDownload { stored, at: 0, end }))
    }

    fn verify(&self, _: &ArchivePath, _: u64, _: u64) -> Result<VerifyDone, ArchiveError> {
        unreachable!("no test asks the fake for this")
    }
}

impl authority::Objects for Fake {
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
        self.open_read_for(path, "")
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

    fn list_versions(&self, _: &VersionQuery) -> Result<VersionPage, ArchiveError> {
        unreachable!("no test asks the fake for this")
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

    fn set_hold(&self, _: &ArchivePath, _: Which, _: Hold, _: bool) -> Result<(), ArchiveError> {
        unreachable!("no test asks the fake for this")
    }

    fn clone_object(
        &self,
        _: &ArchivePath,
        _: Which,
        _: &ArchivePath,
        _: CloneOptions,
    ) -> Result<PutDone, ArchiveError> {
        unreachable!("no test asks the fake for this")
    }

    fn change_class(&self, _: &ArchivePath, _: &str) -> Result<(), ArchiveError> {
        unreachable!("no test asks the fake for this")
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
}

impl authority::Parts for Fake {
    fn open_multipart(&self, _: &ArchivePath, _: PutOptions) -> Result<UploadId, ArchiveError> {
        unreachable!("no test asks the fake for this")
    }

    fn multipart(&self, _: UploadId) -> Result<MultipartInfo, ArchiveError> {
        unreachable!("no test asks the fake for this")
    }

    fn multiparts(
        &self,
        _: &Name,
        _: &str,
        _: Option<(&str, UploadId)>,
        _: usize,
    ) -> Result<(Vec<MultipartInfo>, bool), ArchiveError> {
        unreachable!("no test asks the fake for this")
    }

    fn parts(&self, _: UploadId, _: u16, _: usize) -> Result<(Vec<PartInfo>, bool), ArchiveError> {
        unreachable!("no test asks the fake for this")
    }

    fn begin_part(
        &self,
        _: UploadId,
        _: u16,
        _: Option<ByteCount>,
        _: &str,
    ) -> Result<Box<dyn authority::PartUpload>, ArchiveError> {
        unreachable!("no test asks the fake for this")
    }

    fn complete_multipart(
        &self,
        _: UploadId,
        _: &[u16],
        _: CompleteOptions,
    ) -> Result<PutDone, ArchiveError> {
        unreachable!("no test asks the fake for this")
    }

    fn completed_multipart(&self, _: &ArchivePath, _: UploadId) -> Result<PutDone, ArchiveError> {
        unreachable!("no test asks the fake for this")
    }

    fn abort_multipart(&self, _: UploadId) -> Result<(), ArchiveError> {
        unreachable!("no test asks the fake for this")
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
