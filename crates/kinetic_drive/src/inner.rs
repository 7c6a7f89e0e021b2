//! What a drive, its writers and its reads share.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, Weak};

use base::{DriveId, Uuid};
use bytes::Bytes;
use drive::{DriveError, ExtentId};
use kinetic::client::Options;
use kinetic::{
    Algorithm, Change, Delete, KeyRange, Metadata, Put, Request, Status, StatusCode, Synchronization, Which,
    crc32c_tag,
};
use kinetic_client::{Answered, CallError, Link, Work};
use threads::{Mutex, MutexGuard};

use crate::flush::Flusher;
use crate::head::Head;
use crate::keys::{Generation, Piece};
use crate::write::Extent;

/// Pieces whose places in their extents are remembered: eight bytes each.
const PIECES_REMEMBERED_MAX: usize = 1 << 20;
/// Values that are kept of which only a part was wanted: who reads on wants the next part.
const VALUES_KEPT_MAX: usize = 4;
/// Keys that are asked for at one time.
pub(crate) const KEYS_AT_ONCE: u32 = 200;

/// Why an answer of the drive is no success.
#[derive(Debug, thiserror::Error)]
#[error("the drive says {:?} ({}) {}", .0.code, .0.number, .0.text)]
pub(crate) struct Refused(pub(crate) Status);

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a drive, its writers and its reads share. The connection is closed with the last of them.
pub(crate) struct Inner {
    pub(crate) id: DriveId,
    pub(crate) instance: Uuid,
    pub(crate) path: PathBuf,
    pub(crate) link: Link,
    pub(crate) flusher: Flusher,
    /// Pages of the longest value that the drive takes.
    pub(crate) piece_pages: u16,
    suspect: AtomicBool,
    /// Bytes that were free when it was last asked; `u64::MAX`: not asked yet.
    pub(crate) free: AtomicU64,
    /// Extents that this process writes.
    open: Mutex<HashMap<ExtentId, Weak<Extent>>>,
    heads: Mutex<Heads>,
    values: Mutex<VecDeque<(ValueName, Bytes)>>,
}

type ValueName = (ExtentId, Generation, Piece);

#[derive(Default)]
struct Heads {
    clock: u64,
    pieces: usize,
    all: HashMap<ExtentId, (u64, Arc<Head>)>,
    oldest: BTreeMap<u64, ExtentId>,
}

impl Inner {
    pub(crate) fn new(id: DriveId, instance: Uuid, name: &str, link: Link, value_bytes: u32) -> Arc<Self> {
        let most = crate::piece::PAGES_MAX.min(value_bytes as usize / drive::PAGE).max(1);
        Arc::new(Inner {
            id,
            instance,
            path: PathBuf::from(name),
            link,
            flusher: Flusher::default(),
            piece_pages: u16::try_from(most).unwrap_or(u16::MAX),
            suspect: AtomicBool::new(false),
            free: AtomicU64::new(u64::MAX),
            open: Mutex::default(),
            heads: Mutex::default(),
            values: Mutex::default(),
        })
    }

    pub(crate) fn is_suspect(&self) -> bool {
        self.suspect.load(Ordering::Relaxed)
    }

    pub(crate) fn set_suspect(&self, is_suspect: bool) {
        self.suspect.store(is_suspect, Ordering::Relaxed);
    }

    pub(crate) fn submit(
        &self,
        request: Request,
        then: impl FnOnce(Result<Answered, CallError>) + Send + 'static,
    ) {
        self.link.submit(Work::Request(request), Options::default(), then);
    }

    /// The error of an operation on an extent.
    pub(crate) fn io(&self, extent: ExtentId, operation: &'static str, source: io::Error) -> DriveError {
        DriveError::Io { drive: self.id, extent, operation, source }
    }

    pub(crate) fn fenced(&self, answered: &Answered) -> DriveError {
        let epoch = answered.response.cluster_version.map_or(-1, |version| version.0);
        DriveError::Fenced { drive: self.id, path: self.path.clone(), epoch }
    }

    /// What came of an operation on an extent. An entry that is not there is so on the word of the drive.
    pub(crate) fn check(
        &self,
        extent: ExtentId,
        operation: &'static str,
        result: Result<Answered, CallError>,
    ) -> Result<Answered, DriveError> {
        let drive = self.id;
        let answered = result.map_err(|error| self.io(extent, operation, io::Error::other(error)))?;
        match answered.response.status.code {
            StatusCode::Success => Ok(answered),
            StatusCode::NotFound => Err(DriveError::NotFound { drive, extent }),
            StatusCode::NoSpace => Err(DriveError::Full { drive, extent }),
            StatusCode::VersionFailure => Err(self.fenced(&answered)),
            _ => {
                let refused = io::Error::other(Refused(answered.response.status));
                Err(self.io(extent, operation, refused))
            }
        }
    }

    pub(crate) fn written(&self, id: ExtentId, extent: &Arc<Extent>) {
        lock(&self.open).insert(id, Arc::downgrade(extent));
    }

    pub(crate) fn writer_of(&self, id: ExtentId) -> Option<Arc<Extent>> {
        lock(&self.open).get(&id).and_then(Weak::upgrade)
    }

    /// This writing of an extent has ended; a later one stays.
    pub(crate) fn written_no_more(&self, id: ExtentId, extent: *const Extent) {
        let mut open = lock(&self.open);
        if open.get(&id).is_some_and(|known| std::ptr::eq(known.as_ptr(), extent)) {
            open.remove(&id);
        }
    }

    pub(crate) fn head(&self, id: ExtentId) -> Option<Arc<Head>> {
        let mut heads = lock(&self.heads);
        heads.clock += 1;
        let now = heads.clock;
        let (used, head) = heads.all.get_mut(&id)?;
        let (before, head) = (std::mem::replace(used, now), Arc::clone(head));
        heads.oldest.remove(&before);
        heads.oldest.insert(now, id);
        Some(head)
    }

    pub(crate) fn remember(&self, id: ExtentId, head: Arc<Head>) {
        self.forget(id);
        let mut heads = lock(&self.heads);
        heads.clock += 1;
        let now = heads.clock;
        heads.pieces += head.pieces.len() + 1;
        heads.all.insert(id, (now, head));
        heads.oldest.insert(now, id);
        while heads.pieces > PIECES_REMEMBERED_MAX {
            let Some((_, oldest)) = heads.oldest.pop_first() else { break };
            if let Some((_, head)) = heads.all.remove(&oldest) {
                heads.pieces -= head.pieces.len() + 1;
            }
        }
    }

    /// What is known of an extent holds no more.
    pub(crate) fn forget(&self, id: ExtentId) {
        lock(&self.values).retain(|((kept, ..), _)| *kept != id);
        let mut heads = lock(&self.heads);
        if let Some((used, head)) = heads.all.remove(&id) {
            heads.pieces -= head.pieces.len() + 1;
            heads.oldest.remove(&used);
        }
    }

    pub(crate) fn forget_all(&self) {
        lock(&self.values).clear();
        *lock(&self.heads) = Heads::default();
    }

    pub(crate) fn kept(&self, name: ValueName) -> Option<Bytes> {
        let values = lock(&self.values);
        values.iter().find(|(kept, _)| *kept == name).map(|(_, value)| value.clone())
    }

    pub(crate) fn keep(&self, name: ValueName, value: Bytes) {
        let mut values = lock(&self.values);
        values.retain(|(kept, _)| *kept != name);
        while values.len() >= VALUES_KEPT_MAX {
            values.pop_front();
        }
        values.push_back((name, value));
    }
}

/// A put with a tag that the drive can check.
pub(crate) fn put(key: Bytes, db_version: Bytes, version: Bytes, value: Bytes) -> Request {
    let tag = crc32c_tag(&value);
    Request::Change(Change::Put(Put {
        key,
        metadata: Metadata { version, tag, algorithm: Some(Algorithm::CRC32C) },
        db_version,
        force: false,
        synchronization: Synchronization::WriteBack,
        value,
    }))
}

/// The same, durable when it is answered.
pub(crate) fn put_durably(key: Bytes, db_version: Bytes, version: Bytes, value: Bytes) -> Request {
    let mut request = put(key, db_version, version, value);
    if let Request::Change(Change::Put(put)) = &mut request {
        put.synchronization = Synchronization::WriteThrough;
    }
    request
}

/// A removal whatever stands there.
pub(crate) fn removal(key: Bytes) -> Request {
    Request::Change(Change::Delete(Delete {
        key,
        db_version: Bytes::new(),
        force: true,
        synchronization: Synchronization::WriteBack,
    }))
}

pub(crate) fn get(key: Bytes) -> Request {
    Request::Get { which: Which::Exact, key, metadata_only: false }
}

/// The keys from `start` on, before `end`.
pub(crate) fn range(start: Bytes, end: Bytes) -> Request {
    Request::GetKeyRange(KeyRange {
        start,
        start_inclusive: true,
        end,
        end_inclusive: false,
        max_returned: KEYS_AT_ONCE,
        reverse: false,
    })
}
