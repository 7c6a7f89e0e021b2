//! Buckets, versions and holds.

use base::{DirId, FileId, Name};

use super::Check;
use crate::error::ReadError;
use crate::record::{BucketRecord, Entry, FileRecord, Hold, Version, Versioning};
use crate::table::Table;

impl Check<'_> {
    pub(super) fn versions(&mut self) -> Result<(), ReadError> {
        self.walk(Table::Bucket, |check, mut parts, key, bucket: BucketRecord| {
            let id = DirId(parts.u64()?);
            let directory = check.view.directory(id)?;
            let is_top = directory.is_some_and(|directory| directory.parent == DirId::ROOT);
            check.expect(is_top && id != DirId::ROOT, Table::Bucket, key, "no directory of the root is set");
            let rises = bucket.numbered.is_sorted_by(|one, next| one < next);
            let is_numbering = !bucket.numbered.len().is_multiple_of(2);
            let is_right = rises && is_numbering == (bucket.settings.versioning == Versioning::Enabled);
            check.expect(is_right, Table::Bucket, key, "the turns of versioning contradict one another");
            Ok(())
        })?;
        let mut last: Option<(DirId, Name, u32)> = None;
        self.walk(Table::Version, |check, mut parts, key, version: Version| {
            let parent = DirId(parts.u64()?);
            let (name, id) = parts.version()?;
            let nulls = match &last {
                Some((dir, of, nulls)) if (*dir, of) == (parent, &name) => Some(*nulls),
                _ => None,
            };
            let nulls = check.version((parent, &name), id, version, (nulls, key))?;
            last = Some((parent, name, nulls));
            Ok(())
        })?;
        self.walk(Table::Hold, |check, mut parts, key, hold: Hold| {
            let file = check.view.file(FileId(parts.u64()?))?;
            let is_named = file.is_some_and(|file| file.is_named());
            check.expect(is_named, Table::Hold, key, "what is held does not exist");
            check.expect(hold != Hold::default(), Table::Hold, key, "nothing holds it");
            Ok(())
        })
    }

    /// `nulls`: the versions without a number among the newer ones of the name; `None` for the newest row.
    fn version(
        &mut self,
        (parent, name): (DirId, &Name),
        id: FileId,
        version: Version,
        (nulls, key): (Option<u32>, &[u8]),
    ) -> Result<u32, ReadError> {
        const T: Table = Table::Version;
        let current = match self.view.entry(parent, name)? {
            Some(Entry::File(current)) => Some(current),
            _ => None,
        };
        let bucket = match self.view.bucket_of(parent) {
            Ok(found) => found.map(|(_, bucket)| bucket),
            // A directory above is missing, which is found where its name is.
            Err(ReadError::Inconsistent { .. }) => None,
            Err(error) => return Err(error),
        };
        let keeps = bucket.as_ref().is_some_and(BucketRecord::keeps_versions);
        self.expect(keeps, T, key, "the version stands in no bucket that keeps versions");
        if version == Version::File {
            let file = self.view.file(id)?;
            let is_it = |file: FileRecord| file.is_named() && file.parent == parent && file.name == *name;
            self.expect(file.is_some_and(is_it), T, key, "the version does not say so");
        } else {
            self.expect(self.view.file(id)?.is_none(), T, key, "the marker is a file");
        }
        let is_older = current.is_none_or(|current| id < current);
        self.expect(is_older, T, key, "the version is not older than the current one");
        let is_hidden = nulls.is_some() || current.is_some() || version != Version::File;
        self.expect(is_hidden, T, key, "the newest version of a name is a file and not its current one");
        let is_null = |id: FileId| bucket.as_ref().is_some_and(|bucket| bucket.is_null(id));
        let newer = nulls.unwrap_or_else(|| u32::from(current.is_some_and(is_null)));
        let nulls = newer + u32::from(is_null(id));
        self.expect(nulls <= 1 || !is_null(id), T, key, "a name has two versions without a number");
        Ok(nulls)
    }
}
