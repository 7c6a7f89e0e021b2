//! The versions of a bucket's keys, in the order of S3: by key, the newest first.

use base::{DirId, FileId, Name};
use catalogue::{BucketRecord, Entry, ReadError, Version, View};

use crate::keys::{Child, Current, CurrentKeys, Describe, Is, KEY_ROWS_MAX, KeySource, Line, Lines, Start};
use crate::{LIST_PAGE_MAX, Namespace};
use ground::Ground;
use ground::{ArchiveError, KeyLine, VersionPage, VersionQuery};

/// Names that have a version or a marker, current or not.
struct VersionKeys<'v, 'a>(&'v View<'a>);

/// A name with versions.
struct Versions {
    directory: DirId,
    name: Name,
    current: Option<FileId>,
}

impl KeySource for VersionKeys<'_, '_> {
    type Leaf = Versions;

    fn children(
        &self,
        directory: DirId,
        from: &[u8],
        limit: usize,
    ) -> Result<Vec<(Name, Child<Versions>)>, ReadError> {
        let entries = self.0.names_from(directory, from, limit)?;
        let versioned = self.0.versioned_names_from(directory, from, limit)?;
        // Of a list that was cut off, what follows its last name is not known.
        let end = |last: Option<&Name>, length| last.filter(|_| length >= limit).cloned();
        let ends = [
            end(entries.last().map(|(name, _)| name), entries.len()),
            end(versioned.last(), versioned.len()),
        ];
        let end = ends.into_iter().flatten().min();
        let mut found = Vec::with_capacity(entries.len());
        let mut entries = entries.into_iter().peekable();
        let mut versioned = versioned.into_iter().peekable();
        loop {
            let name = match (entries.peek(), versioned.peek()) {
                (Some((one, _)), Some(other)) => one.min(other).clone(),
                (Some((name, _)), None) | (None, Some(name)) => name.clone(),
                (None, None) => return Ok(found),
            };
            if end.as_ref().is_some_and(|end| name > *end) {
                return Ok(found);
            }
            let entry = entries.next_if(|(one, _)| *one == name).map(|(_, entry)| entry);
            let has_rows = versioned.next_if_eq(&name).is_some();
            let current = match entry {
                Some(Entry::File(file)) => Some(file),
                _ => None,
            };
            if current.is_some() || has_rows {
                found.push((name.clone(), Child::Leaf(Versions { directory, name: name.clone(), current })));
            }
            if let Some(Entry::Directory(below)) = entry {
                found.push((name, Child::Directory(below)));
            }
        }
    }

    fn directory(&self, parent: DirId, name: &str) -> Result<Option<DirId>, ReadError> {
        CurrentKeys(self.0).directory(parent, name)
    }

    fn is_key(&self, directory: DirId) -> Result<bool, ReadError> {
        CurrentKeys(self.0).is_key(directory)
    }
}

impl Namespace {
    /// A page of the versions and markers of a bucket, at most [`LIST_PAGE_MAX`] lines. Else as
    /// [`Namespace::list_keys`].
    ///
    /// # Errors
    /// [`ArchiveError::NotFound`], [`ArchiveError::NotADirectory`].
    pub fn list_versions(&self, query: &VersionQuery) -> Result<VersionPage, ArchiveError> {
        let ground = &*self.ground;
        let root = self.directory_id(&query.keys.bucket)?;
        ground.read(|view| Page::new(ground, view, root, query)?.fill(view, root, query))
    }
}

/// A page that is being filled.
struct Page<'e, 'v, 'a> {
    page: VersionPage,
    limit: usize,
    bucket: BucketRecord,
    describe: Describe<'e, 'v, 'a>,
    /// Where the next page begins if this one is full.
    last: (String, Option<FileId>),
}

impl<'e, 'v, 'a> Page<'e, 'v, 'a> {
    fn new(
        ground: &'e Ground,
        view: &'v View<'a>,
        root: DirId,
        query: &VersionQuery,
    ) -> Result<Self, ReadError> {
        Ok(Page {
            page: VersionPage::default(),
            limit: query.keys.limit.min(LIST_PAGE_MAX),
            bucket: view.bucket_of(root)?.map(|(_, bucket)| bucket).unwrap_or_default(),
            describe: Describe::below(ground, view, root)?,
            last: (query.keys.after.clone(), query.after_version),
        })
    }

    fn fill(mut self, view: &View<'_>, root: DirId, query: &VersionQuery) -> Result<VersionPage, ReadError> {
        if self.limit == 0 {
            return Ok(self.page);
        }
        let (keys, source) = (&query.keys, VersionKeys(view));
        let start = match query.after_version {
            Some(_) => Start::At(&keys.after),
            None => Start::Behind(&keys.after),
        };
        let what = (keys.prefix.as_str(), keys.delimiter.as_deref());
        let mut lines = Lines::new(&source, root, what, start, KEY_ROWS_MAX)?;
        loop {
            match lines.next()? {
                Line::End => return Ok(self.page),
                Line::Pause(at) => {
                    self.page.next = Some((at, None));
                    return Ok(self.page);
                }
                _ if self.is_full() => break,
                Line::Prefix(prefix) => self.push((prefix.clone(), None), KeyLine::Prefix(prefix)),
                Line::Directory(key, directory) => {
                    let line = self.describe.directory(key.clone(), directory)?;
                    self.push((key, None), line);
                }
                Line::Leaf(key, versions) => {
                    let before = query.after_version.filter(|_| key == keys.after);
                    if !self.versions(view, &key, &versions, before)? {
                        break;
                    }
                }
            }
        }
        self.page.next = Some(self.last);
        Ok(self.page)
    }

    fn is_full(&self) -> bool {
        self.page.lines.len() >= self.limit || self.describe.is_heavy()
    }

    fn push(&mut self, at: (String, Option<FileId>), line: KeyLine) {
        self.page.lines.push(line);
        self.last = at;
    }

    /// The versions of a key older than `before`; whether they all had room.
    fn versions(
        &mut self,
        view: &View<'_>,
        key: &str,
        versions: &Versions,
        before: Option<FileId>,
    ) -> Result<bool, ReadError> {
        let room = self.limit - self.page.lines.len();
        let current = versions.current.filter(|current| before.is_none_or(|before| *current < before));
        let rows = view.versions(versions.directory, &versions.name, before, room + 1)?;
        // Without a current file the newest row, a marker, is the current version.
        let is_topmost = before.is_none() && versions.current.is_none();
        let topmost = rows.first().filter(|_| is_topmost).map(|(id, _)| *id);
        for (id, version) in current.map(|current| (current, Version::File)).into_iter().chain(rows) {
            if self.is_full() {
                return Ok(false);
            }
            let is = Is { current: current.or(topmost) == Some(id), null: self.bucket.is_null(id) };
            let leaf = Current { directory: versions.directory, file: id };
            let line = self.describe.version(key.to_owned(), leaf, version, is)?;
            self.push((key.to_owned(), Some(id)), line);
        }
        self.last = (key.to_owned(), None);
        Ok(true)
    }
}
