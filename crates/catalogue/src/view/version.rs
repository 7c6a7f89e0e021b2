//! Reading buckets, their versions, and what keeps files.

use std::ops::ControlFlow;

use base::{DirId, FileId, NAME_BYTES_MAX, Name};

use super::{DEPTH_MAX, View};
use crate::error::ReadError;
use crate::frame;
use crate::key;
use crate::record::{BucketRecord, Hold, Version};
use crate::table::Table;

impl View<'_> {
    /// What a directory of the root is set to; `None`: nothing was ever set.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn bucket(&self, directory: DirId) -> Result<Option<BucketRecord>, ReadError> {
        self.get(Table::Bucket, &key::directory(directory))
    }

    /// Whether any bucket was ever set.
    fn has_buckets(&self) -> Result<bool, ReadError> {
        let mut is_any = false;
        self.each(Table::Bucket, &[], None, |_, _| {
            is_any = true;
            Ok(ControlFlow::Break(()))
        })?;
        Ok(is_any)
    }

    /// The bucket that a directory is or stands in, with what it is set to; `None` for the root, and if
    /// nothing was ever set there.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn bucket_of(&self, directory: DirId) -> Result<Option<(DirId, BucketRecord)>, ReadError> {
        if directory == DirId::ROOT || !self.has_buckets()? {
            return Ok(None);
        }
        let mut at = directory;
        for _ in 0..DEPTH_MAX {
            let Some(record) = self.directory_or_gone(at, directory)? else { return Ok(None) };
            if record.parent == DirId::ROOT {
                return Ok(self.bucket(at)?.map(|bucket| (at, bucket)));
            }
            at = record.parent;
        }
        Err(ReadError::inconsistent(Table::Directory, &key::directory(directory)))
    }

    /// The versions of a name that are not the current one, newest first: those older than `before`, at most
    /// `limit`.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn versions(
        &self,
        directory: DirId,
        name: &Name,
        before: Option<FileId>,
        limit: usize,
    ) -> Result<Vec<(FileId, Version)>, ReadError> {
        let after = before.map(|id| key::version(directory, name.as_str(), id));
        let prefix = key::versions(directory, name.as_str());
        self.rows_within(Table::Version, &prefix, after, limit, |mut parts, key, value| {
            parts.u64()?;
            Ok((parts.version()?.1, frame::open(Table::Version, key, value)?))
        })
    }

    /// A version that is not the current one.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn version(&self, directory: DirId, name: &Name, id: FileId) -> Result<Option<Version>, ReadError> {
        self.get(Table::Version, &key::version(directory, name.as_str(), id))
    }

    /// The version or marker without a number among those of a name that are not the current one.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn null_version(
        &self,
        bucket: &BucketRecord,
        directory: DirId,
        name: &Name,
    ) -> Result<Option<(FileId, Version)>, ReadError> {
        // The ids without a number lie in few ranges, each looked at once: [0, a), [b, c), ...
        let bounds: Vec<FileId> = std::iter::once(FileId(0)).chain(bucket.numbered.iter().copied()).collect();
        for range in bounds.chunks(2).rev() {
            let (from, to) = (range.first().copied(), range.get(1).copied());
            let newest = self.versions(directory, name, to, 1)?;
            if let Some(found) = newest.first().filter(|(id, _)| from.is_some_and(|from| *id >= from)) {
                return Ok(Some(*found));
            }
        }
        Ok(None)
    }

    /// Names of a directory that have versions beside the current one, with each of them: in the order of
    /// the names, newest first, from behind `after`, at most `limit`.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn versions_in(
        &self,
        directory: DirId,
        after: Option<(&Name, FileId)>,
        limit: usize,
    ) -> Result<Vec<(Name, FileId, Version)>, ReadError> {
        let after = after.map(|(name, id)| key::version(directory, name.as_str(), id));
        let prefix = key::directory(directory);
        self.rows_within(Table::Version, &prefix, after, limit, |mut parts, key, value| {
            parts.u64()?;
            let (name, id) = parts.version()?;
            Ok((name, id, frame::open(Table::Version, key, value)?))
        })
    }

    /// Names of a directory that have versions beside the current one, in the order of their bytes, from
    /// `from` (itself included, any bytes) on, at most `limit`. Each costs a look-up, however many versions
    /// it has.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn versioned_names_from(
        &self,
        directory: DirId,
        from: &[u8],
        limit: usize,
    ) -> Result<Vec<Name>, ReadError> {
        let from = from.get(..=NAME_BYTES_MAX).unwrap_or(from);
        let mut start = Some([&key::directory(directory)[..], from].concat());
        let end = key::prefix_end(&key::directory(directory));
        let mut names: Vec<Name> = Vec::new();
        while let Some(at) = start.filter(|_| names.len() < limit) {
            let next = self.rows(Table::Version, &at, end.as_deref(), 1, |mut parts, _, _| {
                parts.u64()?;
                Ok(parts.version()?.0)
            })?;
            let Some(name) = next.into_iter().next() else { break };
            start = key::prefix_end(&key::versions(directory, name.as_str()));
            // `a` and a NUL is behind the name `a`, but not behind its versions.
            if name.as_str().as_bytes() >= from {
                names.push(name);
            }
        }
        assert!(names.is_sorted_by(|one, next| one < next), "each name is told once, in order");
        Ok(names)
    }

    /// What keeps a file from being deleted.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn hold(&self, file: FileId) -> Result<Hold, ReadError> {
        Ok(self.get(Table::Hold, &key::file(file))?.unwrap_or_default())
    }
}
