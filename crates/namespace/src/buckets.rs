//! Buckets: directories of the root.

use base::{ArchivePath, DirId, Name};
use catalogue::{Attributes, Command, DirectoryRecord, Entry, Followed, ReadError, View};

use crate::names::in_words;
use crate::{LIST_PAGE_MAX, Namespace};
use ground::{ArchiveError, BucketInfo, BucketSettings};

fn path_of(name: &Name) -> ArchivePath {
    // One component is never too long.
    ArchivePath::root().join(name).unwrap_or_else(|_| ArchivePath::root())
}

fn info(view: &View<'_>, name: Name, id: DirId, record: DirectoryRecord) -> Result<BucketInfo, ReadError> {
    let settings = view.bucket(id)?.map(|bucket| bucket.settings).unwrap_or_default();
    Ok(BucketInfo { name, owner: record.attributes.owner, created: record.created, settings })
}

impl Namespace {
    /// All buckets in the order of their names: every directory of the root is one.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn buckets(&self) -> Result<Vec<BucketInfo>, ArchiveError> {
        self.ground.read(|view| {
            let mut buckets = Vec::new();
            let mut after: Option<Name> = None;
            loop {
                let page = view.list(DirId::ROOT, after.as_ref(), LIST_PAGE_MAX)?;
                let is_last = page.len() < LIST_PAGE_MAX;
                after = page.last().map(|(name, _)| name.clone());
                for (name, entry) in page {
                    if let Entry::Directory(id) = entry {
                        let record = view.directory_at(DirId::ROOT, name.as_str(), id)?;
                        buckets.push(info(view, name, id, record)?);
                    }
                }
                if is_last {
                    return Ok(buckets);
                }
            }
        })
    }

    /// A bucket.
    ///
    /// # Errors
    /// [`ArchiveError::NotFound`], also for a file of the root.
    pub fn bucket(&self, name: &Name) -> Result<BucketInfo, ArchiveError> {
        let found = self.ground.read(|view| match view.entry(DirId::ROOT, name)? {
            Some(Entry::Directory(id)) => {
                let record = view.directory_at(DirId::ROOT, name.as_str(), id)?;
                info(view, name.clone(), id, record).map(Some)
            }
            Some(Entry::File(_)) | None => Ok(None),
        })?;
        found.ok_or_else(|| ArchiveError::NotFound(path_of(name)))
    }

    fn bucket_id(&self, name: &Name) -> Result<DirId, ArchiveError> {
        match self.ground.read(|view| view.find(&path_of(name)))? {
            Some(Followed::Directory(id, _)) => Ok(id),
            _ => Err(ArchiveError::NotFound(path_of(name))),
        }
    }

    /// Makes a bucket of this owner, at once set as told.
    ///
    /// # Errors
    /// [`ArchiveError::Exists`]; [`ArchiveError::Rejected`] if the settings contradict one another.
    pub fn make_bucket(&self, name: &Name, owner: &str, set: &BucketSettings) -> Result<(), ArchiveError> {
        let mtime = self.ground.now();
        let attributes = Attributes { mtime, mode: 0o755, owner: owner.to_owned(), ..Attributes::default() };
        let settings = Box::new(set.clone());
        let command = Command::MakeBucket { name: name.clone(), attributes, settings };
        self.ground.execute(command).map_err(|error| in_words(error, &path_of(name)))
    }

    /// Sets a bucket: all its settings anew.
    ///
    /// # Errors
    /// [`ArchiveError::NotFound`]; [`ArchiveError::Rejected`] if object lock or versioning would be taken
    /// back, or the settings contradict one another.
    pub fn set_bucket(&self, name: &Name, settings: &BucketSettings) -> Result<(), ArchiveError> {
        let dir = self.bucket_id(name)?;
        let command = Command::SetBucket { dir, settings: Box::new(settings.clone()) };
        self.ground.execute(command).map_err(|error| in_words(error, &path_of(name)))?;
        self.ground.lifecycle.ring();
        Ok(())
    }

    /// Removes a bucket in which nothing stands any more; directories made for objects only go with it.
    ///
    /// # Errors
    /// [`ArchiveError::NotFound`], [`ArchiveError::NotEmpty`] while there is an object, a version, a marker
    /// or an upload.
    pub fn remove_bucket(&self, name: &Name) -> Result<(), ArchiveError> {
        let (id, path) = (self.bucket_id(name)?, path_of(name));
        self.prune_below(id)?;
        let command = Command::RemoveDirectory { parent: DirId::ROOT, name: name.clone() };
        self.ground.execute(command).map_err(|error| self.what_holds(in_words(error, &path)))
    }
}
