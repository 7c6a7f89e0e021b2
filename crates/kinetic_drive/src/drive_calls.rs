//! The drive as the pool sees it.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::{ByteCount, DriveId, Epoch, Uuid};
use bytes::{Bytes, BytesMut};
use drive::{
    BurnInRecord, DriveError, DriveOpenError, DriveQueue, DriveStatus, ExtentId, ExtentWriter, ObjectDrive,
    PAGE, QueueEngine, QueuedExtent, ReadOperation, SharedPage, Stamp, WriteOperation, WriteStep,
};
use kinetic::{Answer, LogType, Request, StatusCode};
use threads::mpsc;

use crate::head::Head;
use crate::inner::{self, Inner};
use crate::keys::{self, Named, Piece, PieceVersion};
use crate::place::{KineticPlace, OPEN_WITHIN};
use crate::read::{self, keys_of};
use crate::stamp::Superblock;
use crate::write::Writer;
use crate::{piece, write};

/// The most reads, and the most operations of writing, that it is handed at one time.
pub const QUEUE_DEPTH: usize = 16;
/// The page of a probe.
const PROBE: u8 = 0xa5;

/// A Kinetic drive that is open. Any number of processes may open it: the drive itself refuses all but those
/// of the newest epoch.
pub struct KineticDrive {
    inner: Arc<Inner>,
    superblock: Superblock,
}

struct Queue {
    inner: Arc<Inner>,
}

impl KineticDrive {
    /// Opens a drive.
    ///
    /// # Errors
    /// If it is not reached, is no drive, is damaged, of an unknown version, another instance or another id.
    pub fn open(place: &KineticPlace, instance: Uuid, id: DriveId) -> Result<Self, DriveOpenError> {
        let (link, value_bytes) = place.connect()?;
        let path = || PathBuf::from(place.name());
        let pages = place.pages(&link)?;
        let is_its = |stamp: &Stamp| stamp.instance == instance && stamp.drive == id;
        let its = pages.iter().flatten().filter_map(|page| page.as_ref().ok()).filter(|stamp| is_its(stamp));
        let stamp = match its.max_by_key(|stamp| stamp.age()) {
            Some(stamp) => *stamp,
            None => place.newest(pages)?,
        };
        if stamp.instance != instance {
            let (found, expected) = (stamp.instance, instance);
            return Err(DriveOpenError::OtherInstance { path: path(), found, expected });
        }
        if stamp.drive != id {
            return Err(DriveOpenError::OtherDrive { path: path(), found: stamp.drive, expected: id });
        }
        let inner = Inner::new(id, instance, place.name(), link, value_bytes);
        place.clear_replacements(&inner)?;
        let superblock = Superblock::new(&inner, stamp);
        Ok(KineticDrive { inner, superblock })
    }

    /// What is known of an extent, by the drive's own word.
    fn head(&self, id: ExtentId) -> Result<Arc<Head>, DriveError> {
        let (send, receive) = mpsc::sync_channel(1);
        read::with_head(&self.inner, id, Box::new(move |head| drop(send.send(head))));
        receive.recv().unwrap_or_else(|_| Err(self.gone(id)))
    }

    fn gone(&self, id: ExtentId) -> DriveError {
        self.inner.io(id, "reading", io::Error::other("the connection was closed"))
    }

    fn check(
        &self,
        id: ExtentId,
        operation: &'static str,
        request: Request,
    ) -> Result<kinetic_client::Answered, DriveError> {
        self.inner.check(id, operation, self.inner.link.call(request))
    }

    /// Asks for all of these at once; the answers in their order.
    fn check_all(
        &self,
        id: ExtentId,
        operation: &'static str,
        requests: impl IntoIterator<Item = Request>,
    ) -> Result<Vec<kinetic_client::Answered>, DriveError> {
        let requests: Vec<Request> = requests.into_iter().collect();
        let asked = requests.len();
        // Room for all: whoever tells must not wait.
        let (send, receive) = mpsc::sync_channel(asked.max(1));
        for (number, request) in requests.into_iter().enumerate() {
            let send = send.clone();
            self.inner.submit(request, move |result| drop(send.send((number, result))));
        }
        drop(send);
        let mut answers = BTreeMap::new();
        while let Ok((number, result)) = receive.recv() {
            answers.insert(number, result);
        }
        assert_eq!(answers.len(), asked, "every request has an outcome");
        answers.into_values().map(|result| self.inner.check(id, operation, result)).collect()
    }

    /// All keys of an extent, of whatever writing.
    fn keys(&self, id: ExtentId) -> Result<Vec<Bytes>, DriveError> {
        let (mut start, end) = keys::all_of(id);
        let mut all = Vec::new();
        loop {
            let keys = keys_of(self.check(id, "listing", inner::range(start, end.clone()))?);
            let Some(last) = keys.last() else { return Ok(all) };
            start = Bytes::from([last.as_ref(), &[0]].concat());
            all.extend(keys);
        }
    }

    /// Whether this process writes it: then nothing of it is given back.
    fn is_written(&self, id: ExtentId) -> bool {
        self.inner.writer_of(id).is_some()
    }

    /// Writes a piece anew with zeros in it. Says first, in the head, that there may be holes.
    fn rewrite(
        &self,
        id: ExtentId,
        piece: Piece,
        change: impl FnOnce(&mut [u8]) -> bool,
    ) -> Result<(), DriveError> {
        let head = self.head(id)?;
        let key = keys::piece(id, head.generation, piece);
        let answered = self.inner.link.call(inner::get(key.clone()));
        let before = match &answered {
            Ok(answered) => match &answered.response.answer {
                Answer::Entry(entry) => entry.metadata.version.clone(),
                _ => Bytes::new(),
            },
            Err(_) => Bytes::new(),
        };
        let whole = read::value(&self.inner, id, &head, piece, answered)?;
        let mut whole = BytesMut::from(whole.as_ref());
        if !change(&mut whole) {
            return Ok(());
        }
        let stored = keys::read_piece_version(&before, self.inner.instance, id, head.generation, piece);
        let stored = stored.unwrap_or(PieceVersion::whole(piece));
        let (value, kept) = piece::encode(&whole);
        if kept == stored.kept {
            return Ok(());
        }
        if head.is_sealed && !head.is_punched {
            self.say_punched(id, &head)?;
        }
        let next = PieceVersion { change: stored.change + 1, kept };
        let version = keys::piece_version(self.inner.instance, id, head.generation, piece, next);
        self.check(id, "punching a hole", inner::put(key, before, version, value))?;
        // Its head is as it was; its value is not.
        self.inner.forget(id);
        Ok(())
    }

    fn say_punched(&self, id: ExtentId, head: &Head) -> Result<(), DriveError> {
        let before = keys::head_version(self.inner.instance, id, head.generation, head.change);
        let next = Head { change: head.change + 1, is_punched: true, ..head.clone() };
        let version = keys::head_version(self.inner.instance, id, next.generation, next.change);
        let value = next.encode(self.inner.instance, id);
        self.check(id, "punching a hole", inner::put(keys::head(id), before, version, value))?;
        self.inner.remember(id, Arc::new(next));
        Ok(())
    }

    fn capacity(&self) -> io::Result<(u64, u64)> {
        let request = Request::GetLog { types: vec![LogType::Capacities], device: None };
        let answered = self.inner.link.call(request).map_err(io::Error::other)?;
        if !answered.response.status.is_success() {
            return Err(io::Error::other(inner::Refused(answered.response.status)));
        }
        let log = match answered.response.answer {
            Answer::Log { log, .. } => log.capacity,
            _ => None,
        };
        let log = log.ok_or_else(|| io::Error::other("it does not say how much it holds"))?;
        let full = f64::from(log.portion_full.clamp(0.0, 1.0));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of the capacity")]
        let used = (log.nominal_bytes as f64 * full) as u64;
        let free = log.nominal_bytes.saturating_sub(used);
        self.inner.free.store(free, Ordering::Relaxed);
        Ok((log.nominal_bytes, free))
    }

    fn try_page(&self) -> Result<(), io::Error> {
        let call = |request| -> io::Result<Answer> {
            let answered = self.inner.link.call(request).map_err(io::Error::other)?;
            match answered.response.status.code {
                StatusCode::Success => Ok(answered.response.answer),
                StatusCode::NoSpace => Err(io::ErrorKind::StorageFull.into()),
                _ => Err(io::Error::other(inner::Refused(answered.response.status))),
            }
        };
        let key = Bytes::from_static(keys::PROBE);
        call(inner::removal(key.clone()))?;
        let version = keys::superblock_version(
            self.inner.instance,
            self.inner.id,
            getrandom::u64().unwrap_or_default(),
        );
        let page = Bytes::from(vec![PROBE; PAGE]);
        call(inner::put_durably(key.clone(), Bytes::new(), version, page.clone()))?;
        let read = call(inner::get(key.clone()))?;
        call(inner::removal(key))?;
        match read {
            Answer::Entry(entry) if entry.value == page => Ok(()),
            _ => Err(io::Error::other("a page reads back otherwise than it was written")),
        }
    }

    fn probe_failed(&self, source: io::Error) -> DriveError {
        DriveError::Probe { drive: self.inner.id, path: self.inner.path.clone(), source }
    }

    fn writer(
        &self,
        id: ExtentId,
        preallocate: ByteCount,
        replaces: bool,
    ) -> Result<Box<dyn ExtentWriter>, DriveError> {
        let writer = Writer::new(&self.inner, id, preallocate, replaces);
        let mut writer = BlockingWriter { drive: self.inner.id, id, writer, is_poisoned: false };
        // Makes the head, or says why that cannot be.
        writer.step(Step::Append(Vec::new()))?;
        Ok(Box::new(writer))
    }
}

impl ObjectDrive for KineticDrive {
    fn id(&self) -> DriveId {
        self.inner.id
    }

    fn name(&self) -> String {
        self.inner.path.display().to_string()
    }

    fn burn_in(&self) -> Option<BurnInRecord> {
        None
    }

    fn queue(&self) -> Option<Arc<dyn DriveQueue>> {
        Some(Arc::new(Queue { inner: Arc::clone(&self.inner) }))
    }

    fn create(&self, id: ExtentId, preallocate: ByteCount) -> Result<Box<dyn ExtentWriter>, DriveError> {
        self.writer(id, preallocate, false)
    }

    fn replace(&self, id: ExtentId, preallocate: ByteCount) -> Result<Box<dyn ExtentWriter>, DriveError> {
        self.writer(id, preallocate, true)
    }

    fn read_at(&self, id: ExtentId, offset: ByteCount, into: &mut [u8]) -> Result<(), DriveError> {
        let (send, receive) = mpsc::sync_channel(1);
        let memory = vec![0; into.len()];
        read::read(&self.inner, Box::new(BlockingRead { id, offset, memory, send }));
        let read = receive.recv().unwrap_or_else(|_| Err(self.gone(id)))?;
        into.copy_from_slice(&read);
        Ok(())
    }

    fn punch(&self, id: ExtentId, offset: ByteCount, length: ByteCount) -> Result<(), DriveError> {
        let head = self.head(id)?;
        if length.0 == 0 || self.is_written(id) {
            return Ok(());
        }
        let page = PAGE as u64;
        let (from, to) = (offset.0.div_ceil(page), offset.0.saturating_add(length.0) / page);
        for piece in &head.pieces {
            let (first, last) = (from.max(u64::from(piece.from)), to.min(piece.end()));
            if first >= last {
                continue;
            }
            self.rewrite(id, *piece, |bytes| {
                let at = |number: u64| (number - u64::from(piece.from)) as usize * PAGE;
                if let Some(range) = bytes.get_mut(at(first)..at(last)) {
                    range.fill(0);
                }
                true
            })?;
        }
        Ok(())
    }

    fn punch_unneeded(&self, id: ExtentId, pages: &[SharedPage]) -> Result<Vec<u32>, DriveError> {
        let head = self.head(id)?;
        let mut given_back = Vec::new();
        if self.is_written(id) {
            return Ok(given_back);
        }
        for piece in &head.pieces {
            let is_in =
                |page: &&SharedPage| (u64::from(piece.from)..piece.end()).contains(&u64::from(page.number));
            let asked: Vec<&SharedPage> = pages.iter().filter(is_in).collect();
            if asked.is_empty() {
                continue;
            }
            let mut given = Vec::new();
            self.rewrite(id, *piece, |bytes| {
                for page in asked {
                    let at = (page.number - piece.from) as usize * PAGE;
                    let Some(bytes) = bytes.get_mut(at..at + PAGE) else { continue };
                    if page.is_unneeded(bytes) {
                        bytes.fill(0);
                        given.push(page.number);
                    }
                }
                !given.is_empty()
            })?;
            given_back.extend(given);
        }
        Ok(given_back)
    }

    /// What a crash left that is not of the extent: pieces of other writings, and those behind a gap.
    fn trim(&self, id: ExtentId) -> Result<(), DriveError> {
        if self.is_written(id) {
            return Ok(());
        }
        self.inner.forget(id);
        let head = self.head(id)?;
        let is_left = |key: &Bytes| match keys::read(key) {
            Some(Named::Piece(_, generation, piece)) => {
                generation != head.generation || head.pieces.binary_search(&piece).is_err()
            }
            _ => false,
        };
        let left: Vec<Bytes> = self.keys(id)?.into_iter().filter(is_left).collect();
        self.check_all(id, "removal", left.into_iter().map(inner::removal))?;
        Ok(())
    }

    fn allocated(&self, id: ExtentId) -> Result<ByteCount, DriveError> {
        let head = self.head(id)?;
        let mut pages = head.pages();
        if head.is_punched || !head.is_sealed {
            let of = |piece: &Piece| Request::GetVersion { key: keys::piece(id, head.generation, *piece) };
            let versions = self.check_all(id, "looking", head.pieces.iter().map(of))?;
            pages = 0;
            for (piece, answered) in head.pieces.iter().zip(versions) {
                let stored = match &answered.response.answer {
                    Answer::Version(version) => {
                        keys::read_piece_version(version, self.inner.instance, id, head.generation, *piece)
                    }
                    _ => None,
                };
                pages += u64::from(stored.map_or(piece.pages, |stored| stored.kept));
            }
        }
        Ok(ByteCount(pages * PAGE as u64))
    }

    fn length(&self, id: ExtentId) -> Result<ByteCount, DriveError> {
        Ok(ByteCount(self.head(id)?.pages() * PAGE as u64))
    }

    fn delete(&self, id: ExtentId) -> Result<(), DriveError> {
        if let Some(writer) = self.inner.writer_of(id) {
            writer.remove();
        }
        self.inner.forget(id);
        let keys = self.keys(id)?;
        // The head is the first of them: what has none is not there.
        if let Some(first) = keys.first() {
            self.check(id, "deletion", inner::removal(first.clone()))?;
        }
        self.check_all(id, "deletion", keys.into_iter().skip(1).map(inner::removal))?;
        self.inner.forget(id);
        Ok(())
    }

    fn list(&self, after: Option<ExtentId>, limit: usize) -> Result<Vec<ExtentId>, DriveError> {
        let mut found: Vec<ExtentId> = Vec::new();
        let mut after = after;
        while found.len() < limit {
            let (start, end) = keys::extents_after(after);
            let failed =
                |source| DriveError::List { drive: self.inner.id, path: self.inner.path.clone(), source };
            let answered = self.inner.link.call(inner::range(start, end)).map_err(io::Error::other);
            let answered = answered.map_err(failed)?;
            match answered.response.status.code {
                StatusCode::Success => {}
                StatusCode::VersionFailure => return Err(self.inner.fenced(&answered)),
                _ => return Err(failed(io::Error::other(inner::Refused(answered.response.status)))),
            }
            let keys = keys_of(answered);
            if keys.is_empty() {
                break;
            }
            let before = found.len();
            for id in keys.iter().filter_map(|key| keys::read(key)).map(Named::id) {
                if found.last() != Some(&id) {
                    found.push(id);
                }
            }
            after = found.last().copied();
            if found.len() == before {
                // Keys that are none of ours, where only ours should be.
                return Err(failed(io::Error::other("keys stand among its extents that are not Kist's")));
            }
        }
        found.truncate(limit);
        Ok(found)
    }

    fn status(&self) -> Result<DriveStatus, DriveError> {
        let (capacity, free) = self.capacity().map_err(|source| DriveError::Status {
            drive: self.inner.id,
            path: self.inner.path.clone(),
            source,
        })?;
        Ok(DriveStatus {
            capacity: ByteCount(capacity),
            used: ByteCount(capacity - free),
            free: ByteCount(free),
            suspect: self.inner.is_suspect(),
            file_system: None,
        })
    }

    fn stamp(&self) -> Stamp {
        self.superblock.stamp()
    }

    fn set_stamp(&self, epoch: Epoch, commit: u64) -> Result<(), DriveError> {
        self.superblock.fence(epoch)?;
        self.superblock.renew(|stamp| Stamp { epoch, commit, ..stamp })
    }

    fn set_gaps(&self, gaps_after: Option<u64>) -> Result<(), DriveError> {
        self.superblock.renew(|stamp| Stamp { gaps_after, ..stamp })
    }

    fn check_stamp(&self) -> Result<(), DriveError> {
        self.superblock.check_stamp()
    }

    fn check_place(&self) -> Result<(), DriveError> {
        self.superblock.check_place()
    }

    fn probe(&self) -> Result<(), DriveError> {
        self.inner.link.open(OPEN_WITHIN).map_err(|error| self.probe_failed(io::Error::other(error)))?;
        self.superblock.identify().map_err(|error| match error {
            DriveError::Stamp { source, .. } => self.probe_failed(source),
            other => self.probe_failed(io::Error::other(other)),
        })?;
        self.try_page().map_err(|source| self.probe_failed(source))?;
        // What was known of before it was away may be of another drive's time.
        self.inner.forget_all();
        self.inner.set_suspect(false);
        Ok(())
    }

    fn probe_room(&self, bytes: ByteCount) -> Result<(), DriveError> {
        let (_, free) = self.capacity().map_err(|source| self.probe_failed(source))?;
        if bytes.0 <= free {
            return Ok(());
        }
        Err(self.probe_failed(io::ErrorKind::StorageFull.into()))
    }
}

impl DriveQueue for Queue {
    fn depth(&self) -> usize {
        QUEUE_DEPTH
    }

    fn engine(&self) -> QueueEngine {
        QueueEngine::Own
    }

    fn read(&self, read: Box<dyn ReadOperation>) {
        read::read(&self.inner, read);
    }

    fn extent(&self, id: ExtentId, preallocate: ByteCount, replaces: bool) -> Box<dyn QueuedExtent> {
        Box::new(write::Writer::new(&self.inner, id, preallocate, replaces))
    }
}

/// A read that somebody waits for.
struct BlockingRead {
    id: ExtentId,
    offset: ByteCount,
    memory: Vec<u8>,
    send: mpsc::SyncSender<Result<Vec<u8>, DriveError>>,
}

impl ReadOperation for BlockingRead {
    fn extent(&self) -> ExtentId {
        self.id
    }

    fn part(&mut self, number: usize) -> Option<(ByteCount, &mut [u8])> {
        (number == 0).then_some((self.offset, self.memory.as_mut_slice()))
    }

    fn done(self: Box<Self>, result: Result<(), DriveError>) {
        let BlockingRead { memory, send, .. } = *self;
        let _ = send.send(result.map(|()| memory));
    }
}

/// A step that somebody waits for.
enum Step {
    Append(Vec<u8>),
    Sync,
    Seal,
}

struct BlockingStep {
    step: Step,
    send: mpsc::SyncSender<Result<(), DriveError>>,
}

impl WriteOperation for BlockingStep {
    fn step(&self) -> WriteStep<'_> {
        match &self.step {
            Step::Append(bytes) => WriteStep::Append(bytes),
            Step::Sync => WriteStep::Sync,
            Step::Seal => WriteStep::Seal,
        }
    }

    fn done(self: Box<Self>, result: Result<(), DriveError>) {
        let _ = self.send.send(result);
    }
}

struct BlockingWriter {
    drive: DriveId,
    id: ExtentId,
    writer: Writer,
    is_poisoned: bool,
}

impl BlockingWriter {
    fn step(&mut self, step: Step) -> Result<(), DriveError> {
        let poisoned = DriveError::Poisoned { drive: self.drive, extent: self.id };
        if self.is_poisoned {
            return Err(poisoned);
        }
        let (send, receive) = mpsc::sync_channel(1);
        self.writer.submit(Box::new(BlockingStep { step, send }));
        let result = receive.recv().unwrap_or(Err(poisoned));
        self.is_poisoned = result.is_err();
        result
    }
}

impl ExtentWriter for BlockingWriter {
    fn append(&mut self, bytes: &[u8]) -> Result<(), DriveError> {
        if !bytes.len().is_multiple_of(PAGE) {
            let length = bytes.len();
            return Err(DriveError::Unaligned { drive: self.drive, extent: self.id, length });
        }
        self.step(Step::Append(bytes.to_vec()))
    }

    fn sync(&mut self) -> Result<(), DriveError> {
        self.step(Step::Sync)
    }

    fn seal(mut self: Box<Self>) -> Result<(), DriveError> {
        self.step(Step::Seal)
    }
}
