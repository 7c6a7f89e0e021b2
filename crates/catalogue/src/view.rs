//! Reading: typed records of one consistent snapshot.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::ControlFlow;

use base::{
    ArchivePath, Blake3, BlobDescription, BlobId, ByteCount, ClassId, DirId, Epoch, FileId, Name, RequestId,
    StripeSet, StripeSetId, TapePoolId, Timestamp, Uuid,
};

use crate::codec::Codec;
use crate::command::Envelope;
use crate::encoding::{Meta, counter_key};
use crate::error::ReadError;
use crate::frame;
use crate::key::{self, KeyReader};
use crate::kv::{KvError, Snapshot};
use crate::record::{
    BlobRecord, ClassRecord, ClockRecord, Counter, DirectoryRecord, Entry, FileRecord, LeapsBelieved,
    PathPlace, RequestItem, RequestPath, RequestRecord, Rule, Tally, Want,
};
use crate::table::Table;

mod access;
mod by_use;
mod cold;
mod follow;
mod names;
mod pool;
mod tape;
mod tree;
mod upload;
mod version;

pub use follow::Followed;
pub(crate) use tape::recall_key;
pub use tape::{TodoRow, merged_ranges};

/// The most directories above a file; a path of 4,096 bytes has half as many. Ends the walk of a damaged
/// tree.
const DEPTH_MAX: usize = 1 << 16;

/// Most directories that a view remembers.
const DIRECTORIES_KEPT: usize = 4096;

/// Reads one consistent snapshot. Every record is verified by its checksum on every read.
pub struct View<'a> {
    snapshot: &'a dyn Snapshot,
    /// Directories resolved so far, since the next path often stands in one of them.
    directories: RefCell<HashMap<String, DirId>>,
}

impl<'a> View<'a> {
    /// A view of `snapshot`.
    #[must_use]
    pub fn new(snapshot: &'a dyn Snapshot) -> Self {
        View { snapshot, directories: RefCell::default() }
    }

    pub(crate) fn get<T: Codec>(&self, table: Table, key: &[u8]) -> Result<Option<T>, ReadError> {
        match self.snapshot.get(table, key)? {
            Some(value) => frame::open(table, key, value).map(Some),
            None => Ok(None),
        }
    }

    /// Whether there is a record; its checksum is verified, its fields are not read.
    pub(crate) fn has(&self, table: Table, key: &[u8]) -> Result<bool, ReadError> {
        match self.snapshot.get(table, key)? {
            Some(value) => frame::open_bytes(table, key, value).map(|_| true),
            None => Ok(false),
        }
    }

    /// As [`View::get`] where another record says that there is one.
    pub(crate) fn expect<T: Codec>(&self, table: Table, key: &[u8]) -> Result<T, ReadError> {
        self.get(table, key)?.ok_or_else(|| ReadError::inconsistent(table, key))
    }

    /// Rows from `from` up to `to`, at most `limit`.
    pub(crate) fn rows<T>(
        &self,
        table: Table,
        from: &[u8],
        to: Option<&[u8]>,
        limit: usize,
        mut read: impl FnMut(KeyReader<'_>, &[u8], &[u8]) -> Result<T, ReadError>,
    ) -> Result<Vec<T>, ReadError> {
        let mut rows = Vec::new();
        self.each(table, from, to, |key, value| {
            if rows.len() >= limit {
                return Ok(ControlFlow::Break(()));
            }
            rows.push(read(KeyReader::new(table, key), key, value)?);
            Ok(if rows.len() >= limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        assert!(rows.len() <= limit, "no more rows than were asked for");
        Ok(rows)
    }

    /// All rows whose key begins with `prefix`, from `after` (not itself) on, at most `limit`.
    pub(crate) fn rows_within<T>(
        &self,
        table: Table,
        prefix: &[u8],
        after: Option<Vec<u8>>,
        limit: usize,
        read: impl FnMut(KeyReader<'_>, &[u8], &[u8]) -> Result<T, ReadError>,
    ) -> Result<Vec<T>, ReadError> {
        let from = after.map_or_else(|| prefix.to_vec(), key::behind);
        self.rows(table, &from, key::prefix_end(prefix).as_deref(), limit, read)
    }

    pub(crate) fn each(
        &self,
        table: Table,
        from: &[u8],
        to: Option<&[u8]>,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>, ReadError>,
    ) -> Result<(), ReadError> {
        let mut failure = None;
        self.snapshot.scan(table, from, to, &mut |key, value| match visit(key, value) {
            Ok(flow) => flow,
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        })?;
        failure.map_or(Ok(()), Err)
    }

    pub(crate) fn meta(&self) -> Result<Option<Meta>, ReadError> {
        self.get(Table::Meta, key::META)
    }

    /// The instance's id; `None` while the catalogue is empty.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn instance(&self) -> Result<Option<Uuid>, ReadError> {
        Ok(self.meta()?.map(|meta| meta.instance))
    }

    /// The epoch of the newest writer; 0 before the first.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn epoch(&self) -> Result<Epoch, ReadError> {
        Ok(self.meta()?.map_or(Epoch(0), |meta| meta.epoch))
    }

    /// Blobs of this epoch and older are kept even if the catalogue does not know them; after a restore.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn quarantine(&self) -> Result<Option<Epoch>, ReadError> {
        Ok(self.meta()?.and_then(|meta| meta.quarantine))
    }

    /// Whether the catalogue was restored or rebuilt and does not agree with pool and tapes yet.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn is_restored(&self) -> Result<bool, ReadError> {
        Ok(self.meta()?.is_some_and(|meta| meta.restored))
    }

    /// The number of the newest change; 0 before the first.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn last_change(&self) -> Result<u64, ReadError> {
        Ok(self.meta()?.map_or(0, |meta| meta.next_change.saturating_sub(1)))
    }

    /// What is known of the time.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn clock(&self) -> Result<ClockRecord, ReadError> {
        Ok(self.get(Table::Clock, key::CLOCK)?.unwrap_or_default())
    }

    /// How far starts have let the time leap on nobody's word.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn leaps(&self) -> Result<LeapsBelieved, ReadError> {
        Ok(self.get(Table::Leaps, key::CLOCK)?.unwrap_or_default())
    }

    /// The newest trusted time: that of the newest change, or to which it let the time leap. `None` in an
    /// empty catalogue.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn newest_time(&self) -> Result<Option<Timestamp>, ReadError> {
        let newest = self.changes(self.last_change()?, 1, 0)?;
        let newest = newest.first().and_then(|(_, bytes)| Envelope::decode(bytes).ok());
        Ok(newest.map(|envelope| envelope.time_after()))
    }

    /// The number of the oldest change that is still kept; one more than the newest if none is.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn first_change(&self) -> Result<u64, ReadError> {
        let first = self.rows(Table::Change, &[], None, 1, |mut key, _, _| key.u64())?;
        match first.first() {
            Some(first) => Ok(*first),
            None => Ok(self.last_change()? + 1),
        }
    }

    /// What a path stands for. `None` only if the directories on the way are whole.
    ///
    /// # Errors
    /// [`ReadError::Dangling`]; if the catalogue cannot be read.
    pub fn resolve(&self, path: &ArchivePath) -> Result<Option<Entry>, ReadError> {
        let Some((parent, name)) = follow::split(path) else {
            return Ok(Some(Entry::Directory(DirId::ROOT)));
        };
        if let Some(directory) = self.known_directory(parent)?
            && let Some(entry) = self.entry_of(directory, name)?
        {
            return Ok(Some(entry));
        }
        self.check_way(parent)?;
        Ok(None)
    }

    /// The directory of a path, remembered for the next one in it.
    fn known_directory(&self, path: &str) -> Result<Option<DirId>, ReadError> {
        if let Some(known) = self.directories.borrow().get(path).copied() {
            return Ok(Some(known));
        }
        let Some(directory) = self.walk(path)? else { return Ok(None) };
        let mut directories = self.directories.borrow_mut();
        if directories.len() < DIRECTORIES_KEPT {
            directories.insert(path.to_owned(), directory);
        }
        Ok(Some(directory))
    }

    fn walk(&self, path: &str) -> Result<Option<DirId>, ReadError> {
        let mut directory = DirId::ROOT;
        for component in path.split('/').filter(|component| !component.is_empty()) {
            match self.entry_of(directory, component)? {
                Some(Entry::Directory(below)) => directory = below,
                Some(Entry::File(_)) | None => return Ok(None),
            }
        }
        Ok(Some(directory))
    }

    pub(crate) fn entry_of(&self, directory: DirId, name: &str) -> Result<Option<Entry>, ReadError> {
        let mut bytes = [0u8; 8 + 256];
        let length = 8 + name.len();
        match bytes.get_mut(..length) {
            Some(key) => {
                let (head, tail) = key.split_at_mut(8);
                head.copy_from_slice(&directory.0.to_be_bytes());
                tail.copy_from_slice(name.as_bytes());
                self.get(Table::Entry, key)
            }
            None => Ok(None),
        }
    }

    /// What a name in a directory stands for.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn entry(&self, directory: DirId, name: &Name) -> Result<Option<Entry>, ReadError> {
        self.entry_of(directory, name.as_str())
    }

    /// A directory.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn directory(&self, id: DirId) -> Result<Option<DirectoryRecord>, ReadError> {
        self.get(Table::Directory, &key::directory(id))
    }

    /// A file, live, lost or condemned.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn file(&self, id: FileId) -> Result<Option<FileRecord>, ReadError> {
        self.get(Table::File, &key::file(id))
    }

    /// The path of a directory, `/` for the root.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn path_of_directory(&self, id: DirId) -> Result<Option<String>, ReadError> {
        let mut names = Vec::new();
        let mut at = id;
        for _ in 0..DEPTH_MAX {
            let Some(directory) = self.directory(at)? else { return Ok(None) };
            let Some(name) = directory.name else {
                names.reverse();
                return Ok(Some(format!("/{}", names.join("/"))));
            };
            names.push(name.as_str().to_owned());
            at = directory.parent;
        }
        Err(ReadError::inconsistent(Table::Directory, &key::directory(id)))
    }

    /// The path of a file; of a condemned one, where it last stood. `None` if there is no such file, or its
    /// directory is
    /// gone.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn path_of_file(&self, id: FileId) -> Result<Option<String>, ReadError> {
        let Some(file) = self.file(id)? else { return Ok(None) };
        let directory = self.path_of_directory(file.parent)?;
        Ok(directory.map(|path| {
            if path == "/" { format!("/{}", file.name) } else { format!("{path}/{}", file.name) }
        }))
    }

    /// Names in a directory in the order of their bytes, those behind `after`, at most `limit`.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn list(
        &self,
        directory: DirId,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<(Name, Entry)>, ReadError> {
        let after = after.map(|name| key::entry(directory, name.as_str()));
        let within = key::directory(directory);
        let names: Vec<(Name, Entry)> =
            self.rows_within(Table::Entry, &within, after, limit, |mut parts, key, value| {
                parts.u64()?;
                Ok((parts.name()?, frame::open(Table::Entry, key, value)?))
            })?;
        debug_assert!(
            names.is_sorted_by(|(one, _), (next, _)| one < next),
            "names are listed in order, each once"
        );
        Ok(names)
    }

    /// A blob with the drives of its stripe sets.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn blob(&self, id: BlobId) -> Result<Option<BlobDescription>, ReadError> {
        self.blob_record(id)?.map(|blob| self.describe(id, &blob)).transpose()
    }

    pub(crate) fn describe(&self, id: BlobId, blob: &BlobRecord) -> Result<BlobDescription, ReadError> {
        // A long blob repeats its few sets over and over.
        let mut sets: std::collections::BTreeMap<StripeSetId, StripeSet> = std::collections::BTreeMap::new();
        let mut stripes = Vec::with_capacity(blob.stripes.len());
        for set in &blob.stripes {
            let known = match sets.get(set) {
                Some(known) => known.clone(),
                None => {
                    let drives = self.expect(Table::StripeSet, &key::stripe_set(*set))?;
                    sets.entry(*set).or_insert(StripeSet { id: *set, drives }).clone()
                }
            };
            stripes.push(known);
        }
        assert_eq!(stripes.len(), blob.stripes.len(), "each stripe of a blob is described");
        assert!(sets.len() <= stripes.len(), "a blob has no set that none of its stripes stands on");
        let BlobRecord { stands_as, layout, length, .. } = *blob;
        Ok(BlobDescription { id, stands_as, layout, length, stripes })
    }

    /// A blob and how much of it is in use.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn blob_record(&self, id: BlobId) -> Result<Option<BlobRecord>, ReadError> {
        self.get(Table::Blob, &key::blob(id))
    }

    /// Whether the pool must keep extents of this id for now: of a blob that is in use, of garbage that is
    /// handed out by [`View::garbage`], or in quarantine. What else is of an older epoch is garbage of a
    /// crashed writer, or was left when a blob was written anew.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn is_known_blob(&self, extents: BlobId) -> Result<bool, ReadError> {
        let is_kept = self.quarantine()?.is_some_and(|epoch| extents.epoch() <= epoch);
        Ok(is_kept || self.blob_of_extents(extents)?.is_some())
    }

    /// Whether a blob has this id, or extents of one have it: no other gets it.
    pub(crate) fn is_taken(&self, id: BlobId) -> Result<bool, ReadError> {
        let stands_as = self.has(Table::StandsAs, &key::blob(id))?;
        Ok(stands_as || self.blob_record(id)?.is_some() || self.is_garbage(id)?)
    }

    /// Whether a blob or a value of it waits for removal.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn is_garbage(&self, id: BlobId) -> Result<bool, ReadError> {
        self.has(Table::Garbage, &key::garbage(id, key::WHOLE_BLOB))
    }

    /// All storage classes.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn classes(&self) -> Result<Vec<(ClassId, ClassRecord)>, ReadError> {
        self.rows(Table::Class, &[], None, usize::MAX, |mut parts, key, value| {
            Ok((ClassId(parts.u16()?), frame::open(Table::Class, key, value)?))
        })
    }

    /// All tape pools with their names.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn tape_pools(&self) -> Result<Vec<(TapePoolId, String)>, ReadError> {
        self.rows(Table::TapePool, &[], None, usize::MAX, |mut parts, key, value| {
            Ok((TapePoolId(parts.u16()?), frame::open(Table::TapePool, key, value)?))
        })
    }

    /// All stripe sets that were ever used.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn stripe_sets(&self) -> Result<Vec<StripeSet>, ReadError> {
        self.rows(Table::StripeSet, &[], None, usize::MAX, |mut parts, key, value| {
            Ok(StripeSet {
                id: StripeSetId(parts.u32()?),
                drives: frame::open(Table::StripeSet, key, value)?,
            })
        })
    }

    /// The requests that wait for a file.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn wants(&self, file: FileId) -> Result<Vec<Want>, ReadError> {
        self.rows_within(Table::Want, &key::file(file), None, usize::MAX, |mut parts, key, value| {
            parts.u64()?;
            Ok(Want { request: RequestId(parts.u64()?), item: frame::open(Table::Want, key, value)? })
        })
    }

    /// The first files that are pinned, by id, at most `limit` pins of them.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn pinned_files(&self, limit: usize) -> Result<Vec<FileId>, ReadError> {
        let mut files = self.rows(Table::Pin, &[], None, limit, |mut parts, key, value| {
            let _: Timestamp = frame::open(Table::Pin, key, value)?;
            Ok(FileId(parts.u64()?))
        })?;
        files.dedup();
        Ok(files)
    }

    /// Who holds a file in the pool, and until when.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn pins(&self, file: FileId) -> Result<Vec<(RequestId, Timestamp)>, ReadError> {
        self.some_pins(file, usize::MAX)
    }

    /// The same of at most so many requests, the oldest ones.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn some_pins(&self, file: FileId, most: usize) -> Result<Vec<(RequestId, Timestamp)>, ReadError> {
        self.rows_within(Table::Pin, &key::file(file), None, most, |mut parts, key, value| {
            parts.u64()?;
            Ok((RequestId(parts.u64()?), frame::open(Table::Pin, key, value)?))
        })
    }

    /// Until when a request holds a file in the pool; `None`: it does not.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn pin(&self, file: FileId, holder: RequestId) -> Result<Option<Timestamp>, ReadError> {
        self.get(Table::Pin, &key::pin(file, holder))
    }

    /// A request.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn request(&self, id: RequestId) -> Result<Option<RequestRecord>, ReadError> {
        self.get(Table::Request, &key::request(id))
    }

    /// Requests, newest first: those older than `before`, at most `limit`.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn requests(
        &self,
        before: Option<RequestId>,
        limit: usize,
    ) -> Result<Vec<(RequestId, RequestRecord)>, ReadError> {
        let after = before.map(key::request);
        self.rows_within(Table::Request, &[], after, limit, |mut parts, key, value| {
            Ok((RequestId(!parts.u64()?), frame::open(Table::Request, key, value)?))
        })
    }

    /// The items of a request from number `from` on, at most `limit`.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn request_items(
        &self,
        id: RequestId,
        from: u32,
        limit: usize,
    ) -> Result<Vec<(u32, RequestItem)>, ReadError> {
        let to = key::prefix_end(&id.0.to_be_bytes());
        let from = key::request_item(id, from);
        self.rows(Table::RequestItem, &from, to.as_deref(), limit, |mut parts, key, value| {
            parts.u64()?;
            Ok((parts.u32()?, frame::open(Table::RequestItem, key, value)?))
        })
    }

    /// The paths of a request that names them one by one, from number `from` on, at most `limit`.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn request_paths(
        &self,
        id: RequestId,
        from: u32,
        limit: usize,
    ) -> Result<Vec<RequestPath>, ReadError> {
        let to = key::prefix_end(&id.0.to_be_bytes());
        let from = key::request_path(id, from);
        self.rows(Table::RequestPath, &from, to.as_deref(), limit, |_, key, value| {
            frame::open(Table::RequestPath, key, value)
        })
    }

    /// The request that has not ended of those that were submitted so.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn submitted(&self, submission: &Blake3) -> Result<Option<RequestId>, ReadError> {
        self.get(Table::Submission, &key::submission(submission))
    }

    /// How many requests of an owner that name paths one by one have not ended.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn open_requests(&self, owner: &str) -> Result<u32, ReadError> {
        Ok(self.get(Table::OpenRequests, &key::open_requests(owner))?.unwrap_or(0))
    }

    /// How many bytes the paths have that all requests of an owner keep, as far as they are counted by now
    /// (see [`View::has_uncounted_paths`]).
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn path_bytes(&self, owner: &str) -> Result<u64, ReadError> {
        Ok(self.get(Table::PathBytes, &key::path_bytes(owner))?.unwrap_or(0))
    }

    /// Whether requests may keep paths that are older than their count, and are still to be counted.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn has_uncounted_paths(&self) -> Result<bool, ReadError> {
        Ok(self.path_bytes_behind()?.is_some())
    }

    /// The next path to be counted of those that are older than their count, if they are not through.
    pub(crate) fn path_bytes_behind(&self) -> Result<Option<PathPlace>, ReadError> {
        self.get(Table::PathBytesBehind, key::CLOCK)
    }

    /// Tells of paths by where they stand whether they are counted by now.
    pub(crate) fn counted_paths(&self) -> Result<impl Fn(RequestId, u32) -> bool + use<>, ReadError> {
        let (holds, behind) = (self.holds(Rule::PathsCounted)?, self.path_bytes_behind()?);
        let is_counted = move |place| holds && behind.is_none_or(|behind| place < behind);
        Ok(move |request, number| is_counted(PathPlace { request, number }))
    }

    /// Whether any request names paths.
    pub(crate) fn has_paths(&self) -> Result<bool, ReadError> {
        Ok(!self.rows(Table::RequestPath, &[], None, 1, |_, _, _| Ok(()))?.is_empty())
    }

    /// A tally; zero if nothing was counted yet.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn tally(&self, counter: Counter) -> Result<Tally, ReadError> {
        Ok(self.get(Table::Counter, &counter_key(counter))?.unwrap_or_default())
    }

    /// Encoded changes from number `from` on: at most `limit`, and no more than `bytes_max` bytes in all
    /// unless the first
    /// alone is longer.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn changes(
        &self,
        from: u64,
        limit: usize,
        bytes_max: usize,
    ) -> Result<Vec<(u64, Vec<u8>)>, ReadError> {
        let mut changes = Vec::new();
        let mut bytes = 0usize;
        self.each(Table::Change, &key::change(from), None, |key, value| {
            let change = frame::open_bytes(Table::Change, key, value)?;
            bytes = bytes.saturating_add(change.len());
            if changes.len() >= limit || (bytes > bytes_max && !changes.is_empty()) {
                return Ok(ControlFlow::Break(()));
            }
            changes.push((KeyReader::new(Table::Change, key).u64()?, change.to_vec()));
            Ok(ControlFlow::Continue(()))
        })?;
        assert!(changes.len() <= limit, "no more changes than were asked for");
        assert!(changes.is_sorted_by_key(|(number, _)| *number), "changes are in their order");
        assert!(
            changes.first().is_none_or(|(first, _)| *first >= from),
            "no change before the first asked for"
        );
        Ok(changes)
    }

    /// How many records a table holds, and their bytes with keys and checksums. Reads the whole table.
    ///
    /// # Errors
    /// If the engine fails.
    pub fn size(&self, table: Table) -> Result<(u64, ByteCount), KvError> {
        let (mut count, mut bytes) = (0, 0);
        self.snapshot.scan(table, &[], None, &mut |key, value| {
            count += 1;
            bytes += key.len() as u64 + value.len() as u64;
            ControlFlow::Continue(())
        })?;
        Ok((count, ByteCount(bytes)))
    }
}
