//! The keys of a bucket, in the order of S3.
//!
//! A key is the path of a file within the bucket. Not every key that S3 allows can be a path; refused are
//! those with an empty component (`a//b`, a leading slash), with the components `.` and `..`, with a
//! component over 255 bytes, with a NUL, and those that make a path of over 4,096 bytes with their bucket.

mod lines;
mod restore_state;
mod walk;

#[cfg(test)]
mod tests;

use base::{DirId, FileId, Name};
use catalogue::{Attributes, BucketRecord, Entry, FileRecord, ReadError, Version, View};

pub(crate) use lines::{Line, Lines, Start};
pub(crate) use restore_state::restore_state;
pub(crate) use walk::{Child, KeySource};

use crate::Namespace;
use crate::names::{Containers, LIST_PAGE_BYTES, LIST_PAGE_MAX, locality_now, weight};
use ground::Ground;
use ground::{ArchiveError, KeyLine, KeyPage, KeyQuery, ObjectLine};

/// The attribute of a directory that was put as an object: its key is its path and a slash.
pub(crate) const MARKER_XATTR: &str = "kist.s3.marker";

/// Names looked at for one page; one that needs more ends early, and says where to go on.
pub(crate) const KEY_ROWS_MAX: usize = 100_000;

/// The current version of a key: where its name stands, and what it leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Current {
    pub(crate) directory: DirId,
    pub(crate) file: FileId,
}

/// The current versions of files.
pub(crate) struct CurrentKeys<'v, 'a>(pub(crate) &'v View<'a>);

impl KeySource for CurrentKeys<'_, '_> {
    type Leaf = Current;

    fn children(
        &self,
        directory: DirId,
        from: &[u8],
        limit: usize,
    ) -> Result<Vec<(Name, Child<Current>)>, ReadError> {
        let names = self.0.names_from(directory, from, limit)?;
        let child = |entry| match entry {
            Entry::File(file) => Child::Leaf(Current { directory, file }),
            Entry::Directory(directory) => Child::Directory(directory),
        };
        Ok(names.into_iter().map(|(name, entry)| (name, child(entry))).collect())
    }

    fn directory(&self, parent: DirId, name: &str) -> Result<Option<DirId>, ReadError> {
        Ok(match self.0.entry_named(parent, name)? {
            Some(Entry::Directory(directory)) => Some(directory),
            Some(Entry::File(_)) | None => None,
        })
    }

    fn is_key(&self, directory: DirId) -> Result<bool, ReadError> {
        let record = self.0.existing_directory(directory)?;
        Ok(record.attributes.xattrs.iter().any(|(name, _)| name == MARKER_XATTR))
    }
}

impl Namespace {
    /// A page of the keys of a directory in the order of their bytes, at most [`LIST_PAGE_MAX`] lines. What
    /// has the delimiter behind the prefix is rolled up to one line. A page that looked at very many names
    /// without finding keys, or has [`LIST_PAGE_BYTES`] of attributes, ends early; only [`KeyPage::next`]
    /// says whether there is more.
    ///
    /// Seeking (`after`, `prefix`, past what is rolled up) costs a few look-ups a component of the key. A
    /// page is read from one state of the catalogue, the next page from a later one.
    ///
    /// # Errors
    /// [`ArchiveError::NotFound`], [`ArchiveError::NotADirectory`].
    pub fn list_keys(&self, query: &KeyQuery) -> Result<KeyPage, ArchiveError> {
        let ground = &*self.ground;
        let root = self.directory_id(&query.bucket)?;
        ground.read(|view| page(ground, view, root, query))
    }
}

fn page(ground: &Ground, view: &View<'_>, root: DirId, query: &KeyQuery) -> Result<KeyPage, ReadError> {
    let mut page = KeyPage::default();
    let limit = query.limit.min(LIST_PAGE_MAX);
    if limit == 0 {
        return Ok(page);
    }
    let source = CurrentKeys(view);
    let what = (query.prefix.as_str(), query.delimiter.as_deref());
    let mut lines = Lines::new(&source, root, what, Start::Behind(&query.after), KEY_ROWS_MAX)?;
    let mut describe = Describe::below(ground, view, root)?;
    let mut last = String::new();
    loop {
        let is_full = page.lines.len() >= limit || describe.is_heavy();
        let (key, line) = match lines.next()? {
            Line::End => return Ok(page),
            Line::Pause(at) => {
                page.next = Some(at);
                return Ok(page);
            }
            _ if is_full => {
                page.next = Some(last);
                return Ok(page);
            }
            Line::Prefix(prefix) => (prefix.clone(), KeyLine::Prefix(prefix)),
            Line::Leaf(key, leaf) => (key.clone(), describe.file(key, leaf)?),
            Line::Directory(key, directory) => (key.clone(), describe.directory(key, directory)?),
        };
        page.lines.push(line);
        last = key;
    }
}

/// What a version is among those of its key.
#[derive(Clone, Copy)]
pub(crate) struct Is {
    /// The current one.
    pub(crate) current: bool,
    /// The one without a number.
    pub(crate) null: bool,
}

/// Says all about the objects of one page.
pub(crate) struct Describe<'e, 'v, 'a> {
    ground: &'e Ground,
    view: &'v View<'a>,
    containers: Containers,
    bucket: BucketRecord,
    /// Bytes of attributes so far.
    bytes: usize,
}

impl<'e, 'v, 'a> Describe<'e, 'v, 'a> {
    /// For objects below this directory.
    pub(crate) fn below(ground: &'e Ground, view: &'v View<'a>, root: DirId) -> Result<Self, ReadError> {
        let bucket = view.bucket_of(root)?.map(|(_, bucket)| bucket).unwrap_or_default();
        Ok(Describe { ground, view, containers: Containers::default(), bucket, bytes: 0 })
    }

    /// Whether the page has as many bytes as a page may.
    pub(crate) fn is_heavy(&self) -> bool {
        self.bytes >= LIST_PAGE_BYTES
    }

    /// The line of a file that is the current version.
    pub(crate) fn file(&mut self, key: String, leaf: Current) -> Result<KeyLine, ReadError> {
        let Current { directory, file } = leaf;
        let record = self.view.file_at(directory, name_of(&key), file)?;
        let is = Is { current: true, null: self.bucket.is_null(file) };
        self.record(key, file, record, is)
    }

    /// The line of any version.
    pub(crate) fn version(
        &mut self,
        key: String,
        leaf: Current,
        version: Version,
        is: Is,
    ) -> Result<KeyLine, ReadError> {
        let Current { directory, file } = leaf;
        let at = match version {
            Version::Marker(at) => at,
            Version::File => {
                let record = self.view.file_at(directory, name_of(&key), file)?;
                return self.record(key, file, record, is);
            }
        };
        Ok(KeyLine::Object(Box::new(ObjectLine {
            key,
            file,
            size: base::ByteCount(0),
            created: at,
            attributes: Attributes::default(),
            class: String::new(),
            blake3: base::Blake3::of(&[]),
            locality: ground::Locality::Online,
            restore: ground::RestoreState::No,
            is_current: is.current,
            is_null: is.null,
            is_marker: true,
        })))
    }

    fn record(
        &mut self,
        key: String,
        file: FileId,
        record: FileRecord,
        is: Is,
    ) -> Result<KeyLine, ReadError> {
        let locality = locality_now(self.ground, self.view, &mut self.containers, file, &record)?;
        // What has no tape to come from is never brought back.
        let may_be_brought =
            self.ground.classes.get(record.class).is_none_or(|class| !class.copies.is_empty());
        let restore = match may_be_brought && record.has_data() {
            true => restore_state(self.view, file, &record)?,
            false => ground::RestoreState::No,
        };
        self.bytes += weight(&record.attributes);
        Ok(KeyLine::Object(Box::new(ObjectLine {
            key,
            file,
            size: record.size,
            created: record.created,
            class: self.ground.classes.name(record.class),
            blake3: record.checksums.blake3,
            locality,
            restore,
            attributes: record.attributes,
            is_current: is.current,
            is_null: is.null,
            is_marker: false,
        })))
    }

    /// The line of a directory that was put as an object.
    pub(crate) fn directory(&mut self, key: String, directory: DirId) -> Result<KeyLine, ReadError> {
        let record = self.view.existing_directory(directory)?;
        self.bytes += weight(&record.attributes);
        let classes = &self.ground.classes;
        Ok(KeyLine::Object(Box::new(ObjectLine {
            key,
            file: FileId(directory.0),
            size: base::ByteCount(0),
            created: record.created,
            attributes: record.attributes,
            class: record.class.map(|class| classes.name(class)).unwrap_or_default(),
            blake3: base::Blake3::of(&[]),
            locality: ground::Locality::Online,
            restore: ground::RestoreState::No,
            is_current: true,
            is_null: true,
            is_marker: false,
        })))
    }
}

/// The last name of a key.
fn name_of(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or(key)
}
