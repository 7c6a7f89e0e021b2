//! Reading extents: which pieces they have, and the values of these.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use base::ByteCount;
use bytes::Bytes;
use drive::{DriveError, ExtentId, PAGE, ReadOperation};
use kinetic::Answer;
use kinetic_client::{Answered, CallError};
use threads::Mutex;

use crate::head::Head;
use crate::inner::{self, Inner, lock};
use crate::keys::{self, Named, Piece};
use crate::piece;

type WithHead = Box<dyn FnOnce(Result<Arc<Head>, DriveError>) + Send>;

/// Finds out which pieces an extent has.
pub(crate) fn with_head(inner: &Arc<Inner>, id: ExtentId, then: WithHead) {
    let written = inner.writer_of(id).and_then(|writer| writer.readable());
    match written.map(Arc::new).or_else(|| inner.head(id)) {
        Some(head) => then(Ok(head)),
        None => ask_head(inner, id, then),
    }
}

/// As [`with_head`], from the drive.
fn ask_head(inner: &Arc<Inner>, id: ExtentId, then: WithHead) {
    let shared = Arc::clone(inner);
    inner.submit(inner::get(keys::head(id)), move |result| {
        let found = shared.check(id, "reading", result).and_then(|answered| {
            let value = match answered.response.answer {
                Answer::Entry(entry) => entry.value,
                _ => Bytes::new(),
            };
            let damaged = || io::Error::new(io::ErrorKind::InvalidData, "its head is damaged");
            Head::decode(&value, shared.instance, id).ok_or_else(|| shared.io(id, "reading", damaged()))
        });
        match found {
            Ok(head) if head.is_sealed => {
                let head = Arc::new(head);
                shared.remember(id, Arc::clone(&head));
                then(Ok(head));
            }
            // Nobody here writes it: what a crash left.
            Ok(head) => {
                let (start, end) = keys::pieces(id, head.generation);
                list_pieces(&shared, id, head, start, end, then);
            }
            Err(error) => then(Err(error)),
        }
    });
}

/// What there is of an extent that was not sealed: the pieces from its beginning to the first gap. One that
/// stands behind a gap was never told of: those before it were not.
fn list_pieces(inner: &Arc<Inner>, id: ExtentId, mut head: Head, start: Bytes, end: Bytes, then: WithHead) {
    let shared = Arc::clone(inner);
    inner.submit(inner::range(start, end.clone()), move |result| {
        let keys = match shared.check(id, "reading", result) {
            Ok(answered) => keys_of(answered),
            Err(error) => return then(Err(error)),
        };
        let mut has_gap = false;
        for key in &keys {
            match keys::read(key) {
                Some(Named::Piece(_, _, piece)) if u64::from(piece.from) == head.pages() => {
                    head.pieces.push(piece);
                }
                _ => has_gap = true,
            }
        }
        match keys.last() {
            Some(last) if !has_gap => {
                let start = Bytes::from([last.as_ref(), &[0]].concat());
                list_pieces(&shared, id, head, start, end, then);
            }
            _ => {
                let head = Arc::new(head);
                shared.remember(id, Arc::clone(&head));
                then(Ok(head));
            }
        }
    });
}

pub(crate) fn keys_of(answered: Answered) -> Vec<Bytes> {
    match answered.response.answer {
        Answer::Keys(keys) => keys,
        _ => Vec::new(),
    }
}

/// Removes the pieces of a writing of an extent that is no more; what fails is found by the next removal.
pub(crate) fn remove_pieces(inner: &Arc<Inner>, id: ExtentId, old: &Head) {
    for piece in &old.pieces {
        inner.submit(inner::removal(keys::piece(id, old.generation, *piece)), drop);
    }
    if !old.is_sealed {
        let (start, end) = keys::pieces(id, old.generation);
        remove_range(inner, start, end);
    }
}

fn remove_range(inner: &Arc<Inner>, start: Bytes, end: Bytes) {
    let shared = Arc::clone(inner);
    inner.submit(inner::range(start, end.clone()), move |result| {
        let Ok(answered) = result else { return };
        let keys = keys_of(answered);
        let Some(last) = keys.last() else { return };
        let start = Bytes::from([last.as_ref(), &[0]].concat());
        for key in keys {
            shared.submit(inner::removal(key), drop);
        }
        remove_range(&shared, start, end);
    });
}

/// A read on its way.
struct Reading {
    inner: Arc<Inner>,
    id: ExtentId,
    state: Mutex<ReadState>,
}

struct ReadState {
    operation: Option<Box<dyn ReadOperation>>,
    /// Where each part begins, and how long it is.
    parts: Vec<(u64, usize)>,
    left: usize,
    error: Option<DriveError>,
    /// A piece that the head names is not there.
    is_missing: bool,
}

/// Does a read.
pub(crate) fn read(inner: &Arc<Inner>, mut operation: Box<dyn ReadOperation>) {
    let id = operation.extent();
    let mut parts = Vec::new();
    while let Some((offset, into)) = operation.part(parts.len()) {
        parts.push((offset.0, into.len()));
    }
    let state = ReadState { operation: Some(operation), parts, left: 0, error: None, is_missing: false };
    let reading = Arc::new(Reading { inner: Arc::clone(inner), id, state: Mutex::new(state) });
    reading.begin(true);
}

impl Reading {
    /// `may_repeat`: what was known of the extent may be old, if something of it is missing.
    fn begin(self: &Arc<Self>, may_repeat: bool) {
        let this = Arc::clone(self);
        let then = move |head: Result<Arc<Head>, DriveError>| match head {
            Ok(head) => this.fetch(head, may_repeat),
            Err(error) => this.end(Err(error)),
        };
        with_head(&self.inner, self.id, Box::new(then));
    }

    fn end(&self, result: Result<(), DriveError>) {
        let operation = lock(&self.state).operation.take();
        if let Some(operation) = operation {
            operation.done(result);
        }
    }

    fn truncated(&self, end: u64) -> DriveError {
        DriveError::Truncated { drive: self.inner.id, extent: self.id, end: ByteCount(end) }
    }

    fn fetch(self: &Arc<Self>, head: Arc<Head>, may_repeat: bool) {
        let length = head.pages() * PAGE as u64;
        let mut wanted = BTreeMap::new();
        let mut too_far = None;
        {
            let mut state = lock(&self.state);
            for (offset, bytes) in &state.parts {
                let end = offset.saturating_add(*bytes as u64);
                if end > length {
                    too_far = Some(end);
                    break;
                }
                let first = head.pieces.partition_point(|piece| piece.end() * PAGE as u64 <= *offset);
                for piece in head.pieces.get(first..).unwrap_or_default() {
                    let from = u64::from(piece.from) * PAGE as u64;
                    if from >= end {
                        break;
                    }
                    let here = end.min(piece.end() * PAGE as u64) - from.max(*offset);
                    *wanted.entry(*piece).or_insert(0) += here;
                }
            }
            state.left = wanted.len();
        }
        if let Some(end) = too_far {
            return self.end(Err(self.truncated(end)));
        }
        if wanted.is_empty() {
            return self.end(Ok(()));
        }
        for (piece, bytes) in wanted {
            let name = (self.id, head.generation, piece);
            if let Some(value) = self.inner.kept(name) {
                self.came(&head, piece, Ok(value), may_repeat);
                continue;
            }
            let (this, head) = (Arc::clone(self), Arc::clone(&head));
            let is_part = bytes < u64::from(piece.pages) * PAGE as u64;
            let request = inner::get(keys::piece(self.id, head.generation, piece));
            self.inner.submit(request, move |result| {
                let value = value(&this.inner, this.id, &head, piece, result);
                if let (true, Ok(value)) = (is_part, &value) {
                    this.inner.keep(name, value.clone());
                }
                this.came(&head, piece, value, may_repeat);
            });
        }
    }

    /// A value came: it is copied to where it is wanted.
    fn came(self: &Arc<Self>, head: &Head, piece: Piece, value: Result<Bytes, DriveError>, may_repeat: bool) {
        let mut state = lock(&self.state);
        let ReadState { operation, parts, left, error, is_missing } = &mut *state;
        match value {
            Ok(value) => {
                let from = u64::from(piece.from) * PAGE as u64;
                let to = from + value.len() as u64;
                for (number, (offset, bytes)) in parts.iter().enumerate() {
                    let end = offset + *bytes as u64;
                    let (first, last) = (from.max(*offset), to.min(end));
                    if first >= last {
                        continue;
                    }
                    let part = operation.as_mut().and_then(|operation| operation.part(number));
                    let source = value.get((first - from) as usize..(last - from) as usize);
                    let target = part.and_then(|(_, into)| {
                        into.get_mut((first - offset) as usize..(last - offset) as usize)
                    });
                    if let (Some(source), Some(target)) = (source, target) {
                        target.copy_from_slice(source);
                    }
                }
            }
            Err(DriveError::NotFound { .. }) => *is_missing = true,
            Err(failed) => drop(error.get_or_insert(failed)),
        }
        *left -= 1;
        if *left > 0 {
            return;
        }
        let (error, is_missing) = (error.take(), std::mem::take(is_missing));
        let end = state.parts.iter().map(|(offset, bytes)| offset + *bytes as u64).max().unwrap_or(0);
        drop(state);
        match error {
            Some(error) => self.end(Err(error)),
            None if !is_missing => self.end(Ok(())),
            // Another writing may have taken its place meanwhile.
            None if may_repeat => {
                self.inner.forget(self.id);
                self.begin(false);
            }
            None => {
                assert!(head.pages() > 0, "what is missing was named");
                self.end(Err(self.truncated(end)));
            }
        }
    }
}

/// The pages of a piece. Bytes that do not agree with their tag are handed on: whoever wrote them has
/// checksums of its own, which say which of them are bad.
pub(crate) fn value(
    inner: &Inner,
    id: ExtentId,
    head: &Head,
    piece: Piece,
    result: Result<Answered, CallError>,
) -> Result<Bytes, DriveError> {
    let answered = inner.check(id, "reading", result)?;
    let wrong =
        |what: &'static str| inner.io(id, "reading", io::Error::new(io::ErrorKind::InvalidData, what));
    let Answer::Entry(entry) = answered.response.answer else {
        return Err(wrong("the drive answers without an entry"));
    };
    let stored =
        keys::read_piece_version(&entry.metadata.version, inner.instance, id, head.generation, piece)
            .ok_or_else(|| wrong("what stands there is of another place"))?;
    piece::decode(&entry.value, piece.pages, stored.kept).ok_or_else(|| wrong("a piece is damaged"))
}
