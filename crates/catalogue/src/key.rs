//! Keys: big-endian parts one behind the other, so that the order of the bytes is the order of the meaning.

use base::{
    Blake3, BlobId, BlockAddress, ByteCount, ClassId, ContainerId, DirId, DriveId, FileId, KeyCheck, KeyId,
    NAME_BYTES_MAX, Name, RequestId, RunId, StripeSetId, TapeKey, TapePoolId, Timestamp, UploadId, Vid,
};

use crate::codec::Reader;
use crate::error::ReadError;
use crate::record::{QuotaSubject, RecallKey, Rule, SEGMENT_PAGES, Sectors, UnknownExtent, UseHour};
use crate::table::Table;

pub(crate) type Key = Vec<u8>;

/// The key of the only record of `meta`.
pub(crate) const META: &[u8] = &[0];
/// The offset that stands for a whole blob in `garbage`.
pub(crate) const WHOLE_BLOB: ByteCount = ByteCount(u64::MAX);

fn join2(first: u64, second: u64) -> Key {
    let mut key = Vec::with_capacity(16);
    key.extend_from_slice(&first.to_be_bytes());
    key.extend_from_slice(&second.to_be_bytes());
    key
}

pub(crate) fn directory(id: DirId) -> Key {
    id.0.to_be_bytes().to_vec()
}

pub(crate) fn entry(directory: DirId, name: &str) -> Key {
    let mut key = Vec::with_capacity(8 + name.len());
    key.extend_from_slice(&directory.0.to_be_bytes());
    key.extend_from_slice(name.as_bytes());
    key
}

pub(crate) fn file(id: FileId) -> Key {
    id.0.to_be_bytes().to_vec()
}

pub(crate) fn class(id: ClassId) -> Key {
    id.0.to_be_bytes().to_vec()
}

pub(crate) fn lifecycle(dir: DirId, action: u8, rule: &str) -> Key {
    let mut key = dir.0.to_be_bytes().to_vec();
    key.push(action);
    key.extend_from_slice(rule.as_bytes());
    key
}

pub(crate) fn tape_pool(id: TapePoolId) -> Key {
    id.0.to_be_bytes().to_vec()
}

pub(crate) fn stripe_set(id: StripeSetId) -> Key {
    id.0.to_be_bytes().to_vec()
}

pub(crate) fn blob(id: BlobId) -> Key {
    id.0.to_be_bytes().to_vec()
}

/// The length of a key of `unknown`.
pub(crate) const UNKNOWN_BYTES: usize = 2 + 8 + 4 + 1;

pub(crate) fn unknown(extent: &UnknownExtent) -> Key {
    let UnknownExtent { drive, blob, stripe, shard } = extent;
    let mut key = drive.0.to_be_bytes().to_vec();
    key.extend_from_slice(&blob.0.to_be_bytes());
    key.extend_from_slice(&stripe.to_be_bytes());
    key.push(*shard);
    assert_eq!(key.len(), UNKNOWN_BYTES, "the parts of an extent's key have their widths");
    key
}

pub(crate) fn garbage(blob: BlobId, offset: ByteCount) -> Key {
    join2(blob.0, offset.0)
}

/// The key of the sectors of a page of a segment, and the page's place among those in the record.
pub(crate) fn unneeded(blob: BlobId, page: u32) -> (Key, usize) {
    let mut key = blob.0.to_be_bytes().to_vec();
    key.extend_from_slice(&(page / SEGMENT_PAGES).to_be_bytes());
    let place = (page % SEGMENT_PAGES) as usize;
    assert!(place < std::mem::size_of::<Sectors>(), "each page of a segment has a place in a row");
    (key, place)
}

pub(crate) fn container(id: ContainerId) -> Key {
    id.0.to_be_bytes().to_vec()
}

pub(crate) fn member(container: ContainerId, data_offset: ByteCount, file: FileId) -> Key {
    let mut key = join2(container.0, data_offset.0);
    key.extend_from_slice(&file.0.to_be_bytes());
    key
}

pub(crate) fn part(file: FileId, file_offset: ByteCount) -> Key {
    join2(file.0, file_offset.0)
}

pub(crate) fn content(vid: Vid, block: BlockAddress) -> Key {
    let mut key = vid.as_bytes().to_vec();
    key.extend_from_slice(&block.0.to_be_bytes());
    key
}

pub(crate) fn todo(class: ClassId, dataset: u64, file: FileId) -> Key {
    let mut key = class.0.to_be_bytes().to_vec();
    key.extend_from_slice(&dataset.to_be_bytes());
    key.extend_from_slice(&file.0.to_be_bytes());
    key
}

pub(crate) fn by_use(class: ClassId, hour: UseHour, file: FileId) -> Key {
    let mut key = class.0.to_be_bytes().to_vec();
    key.extend_from_slice(&hour.0.to_be_bytes());
    key.extend_from_slice(&file.0.to_be_bytes());
    key
}

pub(crate) fn queue(tape_pool: TapePoolId, container: ContainerId) -> Key {
    let mut key = tape_pool.0.to_be_bytes().to_vec();
    key.extend_from_slice(&container.0.to_be_bytes());
    key
}

pub(crate) fn tape(vid: Vid) -> Key {
    vid.as_bytes().to_vec()
}

pub(crate) fn run(id: RunId) -> Key {
    id.0.to_be_bytes().to_vec()
}

pub(crate) fn run_item(run: RunId, number: u32) -> Key {
    let mut key = run.0.to_be_bytes().to_vec();
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// Inverted, so that the newest request comes first.
pub(crate) fn request(id: RequestId) -> Key {
    (!id.0).to_be_bytes().to_vec()
}

pub(crate) fn request_item(request: RequestId, number: u32) -> Key {
    let mut key = request.0.to_be_bytes().to_vec();
    key.extend_from_slice(&number.to_be_bytes());
    key
}

pub(crate) fn request_path(request: RequestId, number: u32) -> Key {
    request_item(request, number)
}

pub(crate) fn submission(digest: &Blake3) -> Key {
    digest.0.to_vec()
}

/// An owner may have no name, a key must not be empty.
pub(crate) fn open_requests(owner: &str) -> Key {
    [&[0], owner.as_bytes()].concat()
}

pub(crate) fn path_bytes(owner: &str) -> Key {
    open_requests(owner)
}

pub(crate) fn request_file(request: RequestId, file: FileId) -> Key {
    join2(request.0, file.0)
}

pub(crate) fn want(file: FileId, request: RequestId) -> Key {
    join2(file.0, request.0)
}

pub(crate) fn recall(key: &RecallKey) -> Key {
    let mut out = key.vid.as_bytes().to_vec();
    out.extend_from_slice(&key.block.0.to_be_bytes());
    out.extend_from_slice(&key.data_offset.0.to_be_bytes());
    out.extend_from_slice(&key.file.0.to_be_bytes());
    out
}

pub(crate) fn pin(file: FileId, request: RequestId) -> Key {
    join2(file.0, request.0)
}

/// The time with its sign bit inverted, so that times before 1970 come before those after.
pub(crate) fn time_bytes(at: Timestamp) -> [u8; 8] {
    let bytes = ((at.0 as u64) ^ (1 << 63)).to_be_bytes();
    assert_eq!(at < Timestamp(0), bytes < [0x80, 0, 0, 0, 0, 0, 0, 0], "what is before 1970 sorts before it");
    bytes
}

pub(crate) fn pin_expiry(until: Timestamp, file: FileId, request: RequestId) -> Key {
    let mut key = time_bytes(until).to_vec();
    key.extend_from_slice(&file.0.to_be_bytes());
    key.extend_from_slice(&request.0.to_be_bytes());
    key
}

/// Where the pins begin that run out after `at`.
pub(crate) fn pin_expiry_end(at: Timestamp) -> Option<Key> {
    prefix_end(&time_bytes(at))
}

pub(crate) fn idempotency_age(at: Timestamp, idempotency: &[u8; 32]) -> Key {
    let mut key = time_bytes(at).to_vec();
    key.extend_from_slice(idempotency);
    key
}

pub(crate) fn change(sequence: u64) -> Key {
    sequence.to_be_bytes().to_vec()
}

pub(crate) fn segment(vid: Vid, first: u64) -> Key {
    let mut key = vid.as_bytes().to_vec();
    key.extend_from_slice(&first.to_be_bytes());
    key
}

pub(crate) fn base(vid: Vid, change: u64) -> Key {
    segment(vid, change)
}

/// The key of the one record of `clock`, of `leaps`, of `trimmed`, of `by_use_behind` and of
/// `path_bytes_behind`.
pub(crate) const CLOCK: &[u8] = &[0];

pub(crate) fn rule(rule: Rule) -> Key {
    vec![rule as u8]
}

pub(crate) fn cold_wait(vid: Vid, container: ContainerId) -> Key {
    [&vid.as_bytes()[..], &container.0.to_be_bytes()].concat()
}

pub(crate) fn drive(name: &str) -> Key {
    name.as_bytes().to_vec()
}

/// The check value first, since it has a fixed length.
pub(crate) fn tape_key(key: &TapeKey) -> Key {
    [&key.check.0[..], key.id.as_str().as_bytes()].concat()
}

/// Of [`Table::Rebalance`] and [`Table::Recoding`].
pub(crate) const REBALANCE: &[u8] = &[0];

pub(crate) fn pool_drive(id: DriveId) -> Key {
    id.0.to_be_bytes().to_vec()
}

pub(crate) fn upload(id: UploadId) -> Key {
    id.0.to_be_bytes().to_vec()
}

pub(crate) fn upload_part(id: UploadId, number: u16) -> Key {
    let mut key = upload(id);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

pub(crate) fn upload_in(directory: DirId, id: UploadId) -> Key {
    join2(directory.0, id.0)
}

/// So many bytes of an upload's path stand in its key, since keys are at most 511 bytes long.
const UPLOAD_PATH_BYTES: usize = 400;

/// Where the uploads begin whose paths begin with `path`, as far as keys tell.
pub(crate) fn upload_name_prefix(bucket: DirId, path: &str) -> Key {
    let mut key = directory(bucket);
    key.extend(path.bytes().take(UPLOAD_PATH_BYTES));
    key
}

/// No path has the byte 0, so that a path comes before those that it is the beginning of.
pub(crate) fn upload_name(bucket: DirId, path: &str, id: UploadId) -> Key {
    let mut key = upload_name_prefix(bucket, path);
    let beginning = key.len();
    key.push(0);
    key.extend_from_slice(&id.0.to_be_bytes());
    let again = split_upload_name(&key);
    assert!(again.is_some_and(|(name, of)| name.len() == beginning && of == id), "the key names its upload");
    key
}

/// Bucket and path of an upload as its key has them, and its id.
pub(crate) fn split_upload_name(key: &[u8]) -> Option<(&[u8], UploadId)> {
    let (name, id) = key.split_last_chunk::<8>()?;
    Some((name.strip_suffix(&[0])?, UploadId(u64::from_be_bytes(*id))))
}

/// What all versions of a name begin with. No name has a NUL, so that names keep their order.
pub(crate) fn versions(directory: DirId, name: &str) -> Key {
    let mut key = entry(directory, name);
    key.push(0);
    key
}

/// Inverted, so that the newest version comes first.
pub(crate) fn version(directory: DirId, name: &str, id: FileId) -> Key {
    let mut key = versions(directory, name);
    key.extend_from_slice(&(!id.0).to_be_bytes());
    debug_assert!(
        KeyReader::new(Table::Version, key.get(8..).unwrap_or_default())
            .version()
            .is_ok_and(|(of, again)| of.as_str() == name && again == id),
        "the key of a version names it"
    );
    key
}

/// Directories come before groups.
pub(crate) fn quota(subject: &QuotaSubject) -> Key {
    let (kind, rest) = match subject {
        QuotaSubject::Directory(id) => (0, &id.0.to_be_bytes()[..]),
        QuotaSubject::Group(group) => (1, group.as_bytes()),
    };
    let mut key = vec![kind];
    key.extend_from_slice(rest);
    debug_assert!(
        KeyReader::new(Table::Quota, &key).quota().is_ok_and(|again| again == *subject),
        "the key of a quota names whom it limits"
    );
    key
}

pub(crate) fn acl(directory: DirId) -> Key {
    directory.0.to_be_bytes().to_vec()
}

/// The least key behind `key`.
pub(crate) fn behind(mut key: Key) -> Key {
    key.push(0);
    key
}

/// The least key behind all that begin with `prefix`; `None` if there is none.
pub(crate) fn prefix_end(prefix: &[u8]) -> Option<Key> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            assert!(!end.starts_with(prefix) && *end > *prefix, "the end is behind all that has the prefix");
            return Some(end);
        }
    }
    None
}

/// Whether a key has the shape of the keys of this table, so that no row is written under another table's.
pub(crate) fn fits(table: Table, key: &[u8]) -> bool {
    const NAMES: std::ops::RangeInclusive<usize> = 1..=NAME_BYTES_MAX;
    let length = key.len();
    let rest = |fixed: usize| length.wrapping_sub(fixed);
    match table {
        Table::Meta
        | Table::Clock
        | Table::Leaps
        | Table::Trimmed
        | Table::Rule
        | Table::Rebalance
        | Table::Recoding
        | Table::ByUseBehind
        | Table::PathBytesBehind => length == 1,
        Table::Class | Table::TapePool | Table::Residency | Table::PoolDrive | Table::DriveDisk => {
            length == 2
        }
        Table::StripeSet => length == 4,
        Table::Tape | Table::Cleaner | Table::TapeLeaving => length == 6,
        Table::Directory
        | Table::File
        | Table::Blob
        | Table::Container
        | Table::Run
        | Table::OpenRun
        | Table::Request
        | Table::RequestPriority
        | Table::Change
        | Table::Bucket
        | Table::Hold
        | Table::Cold
        | Table::Upload
        | Table::UploadUse
        | Table::Acl
        | Table::Sealing
        | Table::Tree
        | Table::StandsAs
        | Table::LastUse => length == 8,
        Table::Queue | Table::UploadPart => length == 10,
        Table::RunItem | Table::RequestItem | Table::RequestPath | Table::Unneeded => length == 12,
        Table::Content | Table::Segment | Table::Base | Table::ColdWait | Table::ByUse => length == 14,
        Table::Unknown => length == UNKNOWN_BYTES,
        Table::Garbage | Table::Part | Table::RequestFile | Table::Want | Table::Pin | Table::UploadIn => {
            length == 16
        }
        Table::Todo => length == 18,
        Table::Member | Table::PinExpiry => length == 24,
        Table::Recall => length == 30,
        Table::Idempotency | Table::Submission => length == 32,
        Table::IdempotencyAge => length == 40,
        Table::Entry => NAMES.contains(&rest(8)),
        Table::Version => NAMES.contains(&rest(8 + 9)),
        Table::Lifecycle => rest(9) <= NAME_BYTES_MAX,
        Table::UploadName => (1..=UPLOAD_PATH_BYTES).contains(&rest(8 + 9)),
        Table::Counter
        | Table::Quota
        | Table::DriveDown
        | Table::DriveCleaning
        | Table::OpenRequests
        | Table::PathBytes => length > 0,
        Table::KeyAtHand => (1..=KeyId::BYTES_MAX).contains(&rest(KeyCheck::BYTES)),
    }
}

/// Reads the parts of a key that came from a table.
pub(crate) struct KeyReader<'a> {
    table: Table,
    key: &'a [u8],
    rest: Reader<'a>,
}

impl<'a> KeyReader<'a> {
    pub(crate) fn new(table: Table, key: &'a [u8]) -> Self {
        KeyReader { table, key, rest: Reader::new(key) }
    }

    fn checked<T>(&self, part: Option<T>) -> Result<T, ReadError> {
        part.ok_or_else(|| ReadError::damaged(self.table, self.key))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, ReadError> {
        let part = self.rest.array().map(u64::from_be_bytes);
        self.checked(part)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, ReadError> {
        let part = self.rest.array().map(u32::from_be_bytes);
        self.checked(part)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, ReadError> {
        let part = self.rest.array().map(u8::from_be_bytes);
        self.checked(part)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, ReadError> {
        let part = self.rest.array().map(u16::from_be_bytes);
        self.checked(part)
    }

    pub(crate) fn vid(&mut self) -> Result<Vid, ReadError> {
        let part = self.rest.take(6).and_then(|text| std::str::from_utf8(text).ok());
        let part = part.and_then(|text| Vid::new(text).ok());
        self.checked(part)
    }

    pub(crate) fn tape_key(&mut self) -> Result<TapeKey, ReadError> {
        let check = self.rest.array().map(KeyCheck);
        let check = self.checked(check)?;
        let id = KeyId::new(&self.text()?).ok();
        Ok(TapeKey { id: self.checked(id)?, check })
    }

    pub(crate) fn time(&mut self) -> Result<Timestamp, ReadError> {
        Ok(Timestamp((self.u64()? ^ (1 << 63)) as i64))
    }

    pub(crate) fn digest(&mut self) -> Result<[u8; 32], ReadError> {
        let part = self.rest.array();
        self.checked(part)
    }

    /// The rest as text.
    pub(crate) fn text(&mut self) -> Result<String, ReadError> {
        let rest = self.rest.take(self.rest.remaining());
        self.checked(rest.and_then(|text| std::str::from_utf8(text).ok()).map(str::to_owned))
    }

    /// A name and, behind a NUL, the inverted id of a version: all the rest.
    pub(crate) fn version(&mut self) -> Result<(Name, FileId), ReadError> {
        let rest = self.rest.take(self.rest.remaining());
        let parts = rest.and_then(|rest| {
            let (name, id) = rest.split_at_checked(rest.len().checked_sub(9)?)?;
            let (zero, id) = id.split_first()?;
            let name = Name::new(std::str::from_utf8(name).ok()?).ok()?;
            let id = u64::from_be_bytes(id.try_into().ok()?);
            (*zero == 0).then_some((name, FileId(!id)))
        });
        self.checked(parts)
    }

    pub(crate) fn quota(&mut self) -> Result<QuotaSubject, ReadError> {
        let kind = self.rest.byte();
        match self.checked(kind)? {
            0 => Ok(QuotaSubject::Directory(DirId(self.u64()?))),
            1 => Ok(QuotaSubject::Group(self.text()?)),
            _ => self.checked(None),
        }
    }

    pub(crate) fn name(&mut self) -> Result<Name, ReadError> {
        let rest = self.rest.take(self.rest.remaining());
        let part = rest.and_then(|text| std::str::from_utf8(text).ok()).and_then(|text| Name::new(text).ok());
        self.checked(part)
    }
}
