//! Writing an extent: its pieces go to the drive as they come, many at a time, and each step is told when the
//! drive has it.
//!
//! What a drive answered with WRITEBACK is not durable, and a connection that broke may be a drive that broke
//! down and lost it. So a step of syncing flushes, and asks for everything that was answered over another
//! connection than the flush: what stands there behind the flush, on the same connection, is durable.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use base::ByteCount;
use bytes::Bytes;
use drive::{DriveError, ExtentId, PAGE, QueuedExtent, WriteOperation, WriteStep};
use kinetic::{Answer, Request, StatusCode};
use kinetic_client::{Answered, CallError};
use threads::Mutex;

use crate::flush::flush;
use crate::head::{Head, PIECES_MAX};
use crate::inner::{self, Inner, lock};
use crate::keys::{self, Generation, Piece, PieceVersion};
use crate::read;

/// How often a sync begins anew because connections break meanwhile.
const SYNC_ROUNDS_MAX: u32 = 5;

type Then = Box<dyn FnOnce(Result<(), DriveError>) + Send>;

/// An extent that is written.
pub(crate) struct Extent {
    inner: Arc<Inner>,
    id: ExtentId,
    generation: Generation,
    replaces: bool,
    preallocate: ByteCount,
    state: Mutex<State>,
}

struct State {
    steps: VecDeque<Step>,
    /// The number of the first of them.
    first: u64,
    pages: u64,
    pieces: Vec<Piece>,
    /// Pieces whose appends were told of.
    told: usize,
    /// What the drive has and may lose.
    known: Vec<Known>,
    begin: Begin,
    has_failed: bool,
    is_removed: bool,
    is_sealed: bool,
    is_dropped: bool,
    /// A thread tells of what has ended; another one has come by meanwhile.
    is_telling: bool,
    is_called: bool,
}

/// What comes before the first piece: the head, or the mark of a replacement.
enum Begin {
    New,
    Sent,
    Stands,
    Failed,
}

/// Something that stands on the drive, as was known over this connection.
#[derive(Clone)]
struct Known {
    key: Bytes,
    version: Bytes,
    connection: u64,
}

struct Step {
    kind: Kind,
    /// Away while the connection has its bytes.
    operation: Option<Box<dyn WriteOperation>>,
    /// Answers that are owed.
    waits: usize,
    error: Option<DriveError>,
    /// Pieces of the extent with this step.
    pieces: usize,
    has_begun: bool,
    is_done: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Append,
    Sync,
    Seal,
}

/// The bytes of an append, for as long as the connection needs them.
struct Lent {
    operation: Option<Box<dyn WriteOperation>>,
    extent: Arc<Extent>,
    number: u64,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        match self.operation.as_ref().map(|operation| operation.step()) {
            Some(WriteStep::Append(bytes)) => bytes,
            _ => &[],
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(operation) = self.operation.take() {
            self.extent.returned(self.number, operation);
        }
    }
}

/// Hands over the operations of one extent.
pub(crate) struct Writer(Arc<Extent>);

impl Writer {
    pub(crate) fn new(inner: &Arc<Inner>, id: ExtentId, preallocate: ByteCount, replaces: bool) -> Self {
        let state = State {
            steps: VecDeque::new(),
            first: 0,
            pages: 0,
            pieces: Vec::new(),
            told: 0,
            known: Vec::new(),
            begin: Begin::New,
            has_failed: false,
            is_removed: false,
            is_sealed: false,
            is_dropped: false,
            is_telling: false,
            is_called: false,
        };
        let generation = Generation(getrandom::u64().unwrap_or_else(|_| clock_number()));
        let (inner, state) = (Arc::clone(inner), Mutex::new(state));
        Writer(Arc::new(Extent { inner, id, generation, replaces, preallocate, state }))
    }
}

/// A number for a generation where the system has no random ones.
fn clock_number() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let next = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    u64::from(std::process::id()) << 32 | next
}

impl QueuedExtent for Writer {
    fn submit(&mut self, operation: Box<dyn WriteOperation>) {
        self.0.submit(operation);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        lock(&self.0.state).is_dropped = true;
        self.0.go_on();
    }
}

impl Drop for Extent {
    fn drop(&mut self) {
        self.inner.written_no_more(self.id, self);
    }
}

impl Extent {
    /// What can be read of it: what was told to be appended.
    pub(crate) fn readable(&self) -> Option<Head> {
        let state = lock(&self.state);
        if state.is_removed || self.replaces || !matches!(state.begin, Begin::Stands) {
            return None;
        }
        Some(Head {
            generation: self.generation,
            change: 0,
            is_sealed: false,
            is_punched: false,
            pieces: state.pieces.get(..state.told).unwrap_or_default().to_vec(),
        })
    }

    /// Somebody removes it: what is written of it is gone, and nothing of it is acknowledged any more.
    pub(crate) fn remove(&self) {
        lock(&self.state).is_removed = true;
    }

    fn submit(self: &Arc<Self>, operation: Box<dyn WriteOperation>) {
        let (kind, length) = match operation.step() {
            WriteStep::Append(bytes) => (Kind::Append, bytes.len()),
            WriteStep::Sync => (Kind::Sync, 0),
            WriteStep::Seal => (Kind::Seal, 0),
        };
        let (drive, extent) = (self.inner.id, self.id);
        let mut state = lock(&self.state);
        let number = state.first + state.steps.len() as u64;
        let mut error = None;
        if state.has_failed {
            error = Some(DriveError::Poisoned { drive, extent });
        } else if !length.is_multiple_of(PAGE) {
            error = Some(DriveError::Unaligned { drive, extent, length });
        } else if matches!(state.begin, Begin::New)
            && self.preallocate.0 > self.inner.free.load(std::sync::atomic::Ordering::Relaxed)
        {
            error = Some(DriveError::Full { drive, extent });
        }
        let mut fresh = Vec::new();
        if error.is_none() {
            fresh = cut(state.pages, (length / PAGE) as u64, self.inner.piece_pages);
            if state.pieces.len() + fresh.len() > PIECES_MAX || fresh.is_empty() != (length == 0) {
                let source = io::Error::other("it has too many pieces");
                error = Some(self.inner.io(extent, "write", source));
                fresh.clear();
            }
        }
        state.pages += fresh.iter().map(|piece| u64::from(piece.pages)).sum::<u64>();
        state.pieces.extend(&fresh);
        state.has_failed |= error.is_some();
        let is_first = error.is_none() && matches!(state.begin, Begin::New);
        if is_first {
            state.begin = Begin::Sent;
        }
        let is_lent = !fresh.is_empty();
        let (lent, operation) = if is_lent { (Some(operation), None) } else { (None, Some(operation)) };
        let (waits, pieces) = (fresh.len(), state.pieces.len());
        let step = Step { kind, operation, waits, error, pieces, has_begun: false, is_done: false };
        state.steps.push_back(step);
        drop(state);
        if is_first {
            self.begin();
        }
        if is_lent {
            let lent = Bytes::from_owner(Lent { operation: lent, extent: Arc::clone(self), number });
            self.send(number, &fresh, &lent);
        }
        self.go_on();
    }

    fn send(self: &Arc<Self>, number: u64, pieces: &[Piece], bytes: &Bytes) {
        let mut from = 0;
        for piece in pieces {
            let to = from + usize::from(piece.pages) * PAGE;
            let key = keys::piece(self.id, self.generation, *piece);
            let stored = PieceVersion::whole(*piece);
            let version = keys::piece_version(self.inner.instance, self.id, self.generation, *piece, stored);
            let request = inner::put(key.clone(), Bytes::new(), version.clone(), bytes.slice(from..to));
            let this = Arc::clone(self);
            self.inner.submit(request, move |result| this.answered(number, key, version, result));
            from = to;
        }
        assert_eq!(from, bytes.len(), "the pieces are the whole append");
    }

    fn begin(self: &Arc<Self>) {
        let (key, value) = if self.replaces {
            (keys::replacement(self.id, self.generation), Bytes::new())
        } else {
            self.inner.written(self.id, self);
            (keys::head(self.id), self.head(false).encode(self.inner.instance, self.id))
        };
        let version = keys::head_version(self.inner.instance, self.id, self.generation, 0);
        let request = inner::put(key.clone(), Bytes::new(), version.clone(), value);
        let this = Arc::clone(self);
        self.inner.submit(request, move |result| {
            let (drive, extent) = (this.inner.id, this.id);
            let is_there = matches!(&result, Err(CallError::Overtaken(_)))
                || matches!(&result, Ok(answered)
                    if answered.response.status.code == StatusCode::VersionMismatch);
            let result = match result {
                _ if is_there => Err(DriveError::Exists { drive, extent }),
                result => this.inner.check(extent, "creation", result),
            };
            let mut state = lock(&this.state);
            match result {
                Ok(Answered { connection, .. }) => {
                    state.begin = Begin::Stands;
                    state.known.push(Known { key, version, connection });
                }
                Err(error) => {
                    if !matches!(error, DriveError::Exists { .. } | DriveError::Full { .. }) {
                        this.inner.set_suspect(true);
                    }
                    (state.has_failed, state.begin) = (true, Begin::Failed);
                    // The first step that has not been told of is the first one.
                    if let Some(step) = state.steps.front_mut() {
                        step.error.get_or_insert(error);
                    }
                }
            }
            drop(state);
            this.go_on();
        });
    }

    /// The head with all pieces so far, or as it is while they come.
    fn head(&self, is_sealed: bool) -> Head {
        let pieces = if is_sealed { lock(&self.state).pieces.clone() } else { Vec::new() };
        let change = u32::from(is_sealed && !self.replaces);
        Head { generation: self.generation, change, is_sealed, is_punched: false, pieces }
    }

    /// A piece was answered.
    fn answered(
        self: &Arc<Self>,
        number: u64,
        key: Bytes,
        version: Bytes,
        result: Result<Answered, CallError>,
    ) {
        let result = self.inner.check(self.id, "write", result);
        let mut state = lock(&self.state);
        let known = match result {
            Ok(Answered { connection, .. }) => Ok(Known { key, version, connection }),
            Err(error) => Err(error),
        };
        let place = usize::try_from(number.saturating_sub(state.first)).unwrap_or(usize::MAX);
        match known {
            Ok(known) => state.known.push(known),
            Err(error) => {
                if !error.is_full() {
                    self.inner.set_suspect(true);
                }
                if let Some(step) = state.steps.get_mut(place) {
                    step.error.get_or_insert(error);
                }
            }
        }
        if let Some(step) = state.steps.get_mut(place) {
            assert!(step.waits > 0, "an answer that was owed");
            step.waits -= 1;
        }
        drop(state);
        self.go_on();
    }

    /// The connection needs the bytes of this step no more.
    fn returned(self: &Arc<Self>, number: u64, operation: Box<dyn WriteOperation>) {
        let mut state = lock(&self.state);
        let place = usize::try_from(number.saturating_sub(state.first)).unwrap_or(usize::MAX);
        if let Some(step) = state.steps.get_mut(place) {
            step.operation = Some(operation);
        }
        drop(state);
        self.go_on();
    }

    /// Tells of what has ended, in order, and begins what comes next. One thread at a time does it.
    fn go_on(self: &Arc<Self>) {
        let mut state = lock(&self.state);
        state.is_called = true;
        if state.is_telling {
            return;
        }
        state.is_telling = true;
        while std::mem::take(&mut state.is_called) {
            while let Some(next) = self.next(&mut state) {
                drop(state);
                match next {
                    Next::Tell(operation, result) => operation.done(result),
                    Next::Sync => {
                        let this = Arc::clone(self);
                        self.settle(0, Box::new(move |result| this.step_done(result)));
                    }
                    Next::Seal if self.replaces => self.seal_replacement(),
                    Next::Seal => self.seal(),
                    Next::CleanUp => self.clean_up(),
                }
                state = lock(&self.state);
            }
        }
        state.is_telling = false;
    }

    fn next(&self, state: &mut State) -> Option<Next> {
        let (drive, extent) = (self.inner.id, self.id);
        let Some(step) = state.steps.front_mut() else {
            // Of an extent that is there unsealed it is for its owner to decide.
            let is_nobodys = self.replaces || state.is_removed || matches!(state.begin, Begin::Failed);
            let was_sent = !matches!(state.begin, Begin::New);
            if state.is_dropped && !state.is_sealed && is_nobodys && was_sent {
                state.is_sealed = true;
                return Some(Next::CleanUp);
            }
            return None;
        };
        if step.waits > 0 || step.operation.is_none() {
            return None;
        }
        let mut result = step.error.take().map_or(Ok(()), Err);
        if result.is_ok() && state.has_failed {
            if step.has_begun && !step.is_done {
                return None;
            }
            result = Err(DriveError::Poisoned { drive, extent });
        }
        if result.is_ok() {
            if !matches!(state.begin, Begin::Stands) {
                return None;
            }
            if step.kind != Kind::Append && !step.is_done {
                if std::mem::replace(&mut step.has_begun, true) {
                    return None;
                }
                return Some(if step.kind == Kind::Sync { Next::Sync } else { Next::Seal });
            }
            state.told = step.pieces;
        }
        state.has_failed |= result.is_err();
        let step = state.steps.pop_front()?;
        state.first += 1;
        Some(Next::Tell(step.operation?, result))
    }

    /// A sync or seal has ended.
    fn step_done(self: &Arc<Self>, result: Result<(), DriveError>) {
        let mut state = lock(&self.state);
        let result = match result {
            Ok(()) if state.is_removed => {
                let source = io::Error::new(io::ErrorKind::NotFound, "it was removed while it was written");
                Err(self.inner.io(self.id, "sync", source))
            }
            result => result,
        };
        if result.as_ref().is_err_and(|error| !error.is_full()) {
            self.inner.set_suspect(true);
        }
        if let Some(step) = state.steps.front_mut() {
            assert!(step.kind != Kind::Append && step.has_begun, "the first step is the one that was begun");
            step.is_done = true;
            step.error = result.err();
        }
        drop(state);
        self.go_on();
    }

    /// Makes all that is known to stand on the drive durable.
    fn settle(self: &Arc<Self>, round: u32, then: Then) {
        let known = std::mem::take(&mut lock(&self.state).known);
        self.settle_known(round, known, then);
    }

    fn settle_known(self: &Arc<Self>, round: u32, known: Vec<Known>, then: Then) {
        let this = Arc::clone(self);
        let flushed = move |result| match this.inner.check(this.id, "sync", result) {
            Err(error) => then(Err(error)),
            Ok(answered) => this.flushed(round, answered.connection, known, then),
        };
        flush(&self.inner, Box::new(flushed));
    }

    /// Asks for what was answered over other connections than the flush.
    fn flushed(self: &Arc<Self>, round: u32, connection: u64, known: Vec<Known>, then: Then) {
        let doubtful: Vec<Known> = known.into_iter().filter(|known| known.connection != connection).collect();
        if doubtful.is_empty() {
            return then(Ok(()));
        }
        if round >= SYNC_ROUNDS_MAX {
            let source = io::Error::other("its connections break all the time");
            return then(Err(self.inner.io(self.id, "sync", source)));
        }
        let asked = doubtful.len();
        let asking =
            Arc::new(Mutex::new(Asking { left: asked, known: Vec::new(), error: None, then: Some(then) }));
        for known in doubtful {
            let (this, asking) = (Arc::clone(self), Arc::clone(&asking));
            let request = Request::GetVersion { key: known.key.clone() };
            self.inner.submit(request, move |result| {
                let stands = this.inner.check(this.id, "sync", result).and_then(|answered| {
                    let is_it = matches!(&answered.response.answer, Answer::Version(version)
                        if *version == known.version);
                    let lost = io::Error::other("the drive broke down and lost what it had answered");
                    if is_it { Ok(answered.connection) } else { Err(this.inner.io(this.id, "sync", lost)) }
                });
                let mut state = lock(&asking);
                state.left -= 1;
                match stands {
                    Ok(connection) => state.known.push(Known { connection, ..known }),
                    Err(DriveError::NotFound { .. }) => {
                        let lost = io::Error::other("the drive broke down and lost what it had answered");
                        state.error.get_or_insert(this.inner.io(this.id, "sync", lost));
                    }
                    Err(error) => drop(state.error.get_or_insert(error)),
                }
                if state.left > 0 {
                    return;
                }
                let (known, error) = (std::mem::take(&mut state.known), state.error.take());
                let Some(then) = state.then.take() else { return };
                drop(state);
                if let Some(error) = error {
                    return then(Err(error));
                }
                // What stands there over the connection of the flush was there when it was made.
                if known.iter().all(|known| known.connection == connection) {
                    return then(Ok(()));
                }
                this.settle_known(round + 1, known, then);
            });
        }
    }

    fn seal(self: &Arc<Self>) {
        let before = keys::head_version(self.inner.instance, self.id, self.generation, 0);
        self.put_head(before, move |this, head| {
            this.inner.written_no_more(this.id, Arc::as_ptr(&this));
            this.inner.remember(this.id, head);
            lock(&this.state).is_sealed = true;
            this.step_done(Ok(()));
        });
    }

    /// Writes the head of what is complete, and makes all durable.
    fn put_head(self: &Arc<Self>, before: Bytes, then: impl FnOnce(Arc<Self>, Arc<Head>) + Send + 'static) {
        let head = Arc::new(self.head(true));
        let key = keys::head(self.id);
        let version = keys::head_version(self.inner.instance, self.id, self.generation, head.change);
        let value = head.encode(self.inner.instance, self.id);
        let request = inner::put(key.clone(), before, version.clone(), value);
        let this = Arc::clone(self);
        self.inner.submit(request, move |result| {
            let connection = match this.inner.check(this.id, "seal", result) {
                Ok(answered) => answered.connection,
                Err(error) => return this.step_done(Err(error)),
            };
            {
                let mut state = lock(&this.state);
                // What stood there before stands there no more.
                state.known.retain(|known| known.key != key);
                state.known.push(Known { key, version, connection });
            }
            let that = Arc::clone(&this);
            this.settle(
                0,
                Box::new(move |result| match result {
                    Ok(()) => then(that, head),
                    Err(error) => that.step_done(Err(error)),
                }),
            );
        });
    }

    /// All pieces are durable before the head names them; those of before go when that is durable.
    fn seal_replacement(self: &Arc<Self>) {
        let this = Arc::clone(self);
        self.settle(
            0,
            Box::new(move |result| {
                if let Err(error) = result {
                    return this.step_done(Err(error));
                }
                let that = Arc::clone(&this);
                this.inner.submit(inner::get(keys::head(this.id)), move |result| {
                    let before = match that.inner.check(that.id, "seal", result) {
                        Ok(answered) => match answered.response.answer {
                            Answer::Entry(entry) => Some(entry),
                            _ => None,
                        },
                        Err(DriveError::NotFound { .. }) => None,
                        Err(error) => return that.step_done(Err(error)),
                    };
                    let version = before.as_ref().map(|entry| entry.metadata.version.clone());
                    that.put_head(version.unwrap_or_default(), move |this, head| {
                        if let Some(writer) = this.inner.writer_of(this.id) {
                            // Its head is gone: what it writes is nobody's.
                            writer.remove();
                        }
                        this.inner.remember(this.id, head);
                        lock(&this.state).is_sealed = true;
                        let value = before.map(|entry| entry.value);
                        let old = value.and_then(|value| Head::decode(&value, this.inner.instance, this.id));
                        if let Some(old) = old.filter(|old| old.generation != this.generation) {
                            read::remove_pieces(&this.inner, this.id, &old);
                        }
                        let mark = inner::removal(keys::replacement(this.id, this.generation));
                        this.inner.submit(mark, drop);
                        this.step_done(Ok(()));
                    });
                });
            }),
        );
    }

    /// Removes what was written of a replacement that was given up, or of an extent that is none. What cannot
    /// be removed now goes when the drive is opened again, or with the extent.
    fn clean_up(self: &Arc<Self>) {
        let pieces = lock(&self.state).pieces.clone();
        for piece in pieces {
            let key = keys::piece(self.id, self.generation, piece);
            self.inner.submit(inner::removal(key), drop);
        }
        self.inner.submit(inner::removal(keys::replacement(self.id, self.generation)), drop);
    }
}

enum Next {
    Tell(Box<dyn WriteOperation>, Result<(), DriveError>),
    Sync,
    Seal,
    CleanUp,
}

struct Asking {
    left: usize,
    known: Vec<Known>,
    error: Option<DriveError>,
    then: Option<Then>,
}

/// Cuts an append into pieces: what is no multiple of the longest comes first. So the header of a cell is a
/// piece of its own, and its payload another.
fn cut(mut from: u64, mut pages: u64, most: u16) -> Vec<Piece> {
    let mut pieces = Vec::new();
    while pages > 0 {
        let rest = pages % u64::from(most);
        let here = if rest > 0 { rest } else { u64::from(most) };
        // An extent that is too long for its numbers has no pieces.
        let (Ok(at), Ok(length)) = (u32::try_from(from), u16::try_from(here)) else { return Vec::new() };
        pieces.push(Piece { from: at, pages: length });
        (from, pages) = (from + here, pages - here);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appends_are_cut_with_the_short_piece_first() {
        let of = |from, pages| -> Vec<(u32, u16)> {
            cut(from, pages, 256).iter().map(|piece| (piece.from, piece.pages)).collect()
        };
        assert_eq!(of(0, 0), []);
        assert_eq!(of(0, 257), [(0, 1), (1, 256)]);
        assert_eq!(of(257, 256), [(257, 256)]);
        assert_eq!(of(5, 700), [(5, 188), (193, 256), (449, 256)]);
        assert_eq!(of(u64::from(u32::MAX) + 1, 1), []);
    }
}
