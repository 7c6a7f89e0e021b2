//! Files that are larger than a tape: cut at sealing into parts, each a container of its own.
//!
//! The pool is read once for that: the checksums of each part are not known from the put. What they are
//! together must be those of the file before any part is queued, so that nothing comes to tape that is not
//! what was put.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::PoisonError;
use threads::{Mutex, MutexGuard};

use base::{BlobPiece, ByteCount, Duration, FileId, StreamChecksums, Timestamp, pieces_within};
use blob::{BlobFault, Use};
use catalogue::{Command, ContainerKind, FileRecord, FileState, MemberRecord, SealContainer, typed};

use super::{joined, path_of, tolerate_change};
use crate::room::Tape;
use ground::{ArchiveError, Class};

/// Bytes that are read between two looks at where the file's bytes stand: what was removed or moved to other
/// drives meanwhile waits for no longer than this.
const LOOK_BYTES: u64 = 4 << 30;

/// Files that could not be sealed, until when they are left alone, and why. They are few, and forgotten when
/// the server stops.
#[derive(Default)]
pub(crate) struct RestingFiles(Mutex<BTreeMap<FileId, Rest>>);

struct Rest {
    until: Timestamp,
    why: String,
    /// How often it failed; each time it rests twice as long.
    failures: u32,
}

impl RestingFiles {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<FileId, Rest>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why a file is left alone now, if it is.
    pub(super) fn why(&self, file: FileId, now: Timestamp) -> Option<String> {
        self.lock().get(&file).filter(|rest| rest.until > now).map(|rest| rest.why.clone())
    }

    /// A file failed: it rests for `shortest`, and twice as long after each failure.
    pub(super) fn begin(&self, file: FileId, now: Timestamp, shortest: Duration, why: &str) {
        let mut resting = self.lock();
        let failures = resting.get(&file).map_or(0, |rest| rest.failures);
        let until = now.plus(session::back_off(shortest, failures, session::BACK_OFF_MAX));
        let failures = failures.saturating_add(1);
        resting.insert(file, Rest { until, why: why.to_owned(), failures });
    }

    /// It is sealed, or is no more.
    pub(super) fn forget(&self, file: FileId) {
        self.lock().remove(&file);
    }
}

/// A part of a file as it is sealed.
struct FilePart {
    offset: ByteCount,
    length: ByteCount,
    checksums: StreamChecksums,
}

/// Seals what of a file is not sealed yet, in parts of which an empty tape takes each: `largest`. A file that
/// is given up meanwhile, or a stop, is no error: what is not sealed goes on waiting. Gives why it cannot be
/// sealed now.
pub(super) fn seal_in_parts(
    room: &Tape,
    class: &Class,
    file: FileId,
    record: &FileRecord,
    largest: ByteCount,
) -> Result<Result<(), String>, ArchiveError> {
    let Some((sealed, mut whole)) = sealed_so_far(room, file)? else { return Ok(Ok(())) };
    let Some(bounds) = session::parts_of(record.size, sealed, largest) else {
        let most = session::FILE_PARTS_MAX;
        return Ok(Err(format!("of parts of {largest} it would have more than {most}")));
    };
    let mut parts = Vec::with_capacity(bounds.len());
    for (offset, length) in bounds {
        let checksums = match checksums_of(room, file, record, offset, length) {
            Ok(Some(checksums)) => checksums,
            Ok(None) => return Ok(Ok(())),
            Err(ArchiveError::Blob(error)) => {
                if let BlobFault::Unreadable(_) = error.fault {
                    upkeep::declare_file(&room.upkeep, file, record)?;
                }
                return Ok(Err(error.to_string()));
            }
            Err(error) => return Err(error),
        };
        whole = whole.combine(checksums, length.0);
        parts.push(FilePart { offset, length, checksums });
    }
    let Some(path) = path_of(room, file)? else { return Ok(Ok(())) };
    if whole != record.checksums.stream {
        return Ok(Err("what the pool has of it does not have its checksums".to_owned()));
    }
    let reserve = vec![typed::ReserveContainer {}; parts.len()];
    let ids = room.catalogue.ask_all(reserve).map_err(ArchiveError::Store)?;
    let mut commands = Vec::with_capacity(parts.len());
    for (part, id) in parts.into_iter().zip(ids) {
        let container = id.map_err(|error| room.failed(error))?;
        let FilePart { offset, length, checksums } = part;
        let member = MemberRecord {
            file,
            header_offset: ByteCount(0),
            data_offset: ByteCount(0),
            length,
            file_offset: offset,
        };
        commands.push(Command::SealContainer(Box::new(SealContainer {
            container,
            kind: ContainerKind::Segment { file, file_offset: offset },
            class: class.id,
            members: vec![member],
            length,
            checksums,
            tape_path: joined(&ltfs::naming::segment_path(&path, file, offset)),
            skeleton: None,
        })));
    }
    for result in room.catalogue.execute_all(commands).map_err(ArchiveError::Store)? {
        tolerate_change(result.map(|_| ()))?;
    }
    Ok(Ok(()))
}

/// Bytes of a file that stand in parts already, and what they are; `None` if the file is no more.
fn sealed_so_far(room: &Tape, file: FileId) -> Result<Option<(ByteCount, StreamChecksums)>, ArchiveError> {
    room.read(|view| {
        let (mut sealed, mut whole) = (ByteCount(0), StreamChecksums::default());
        for (container, member) in view.parts(file)? {
            let Some(record) = view.container(container)? else { return Ok(None) };
            whole = whole.combine(record.checksums, member.length.0);
            sealed.0 = sealed.0.saturating_add(member.length.0);
        }
        Ok(Some((sealed, whole)))
    })
}

/// The checksums of a part, from its bytes in the pool; `None` if the file is not as it was, or if a stop was
/// asked for.
fn checksums_of(
    room: &Tape,
    file: FileId,
    record: &FileRecord,
    offset: ByteCount,
    length: ByteCount,
) -> Result<Option<StreamChecksums>, ArchiveError> {
    let mut sums = StreamChecksums::default();
    for (piece, from, length) in pieces_within(&record.pieces, offset, length) {
        let mut at = from.0;
        let end = from.0 + length.0;
        while at < end {
            let step = (end - at).min(LOOK_BYTES);
            let range = (ByteCount(at), ByteCount(step));
            match add(room, file, record, (&piece, range), sums)? {
                ControlFlow::Continue(next) => sums = next,
                ControlFlow::Break(()) => return Ok(None),
            }
            at += step;
        }
    }
    Ok(Some(sums))
}

/// Reads a range of one of the file's pieces.
fn add(
    room: &Tape,
    file: FileId,
    record: &FileRecord,
    (piece, range): (&BlobPiece, (ByteCount, ByteCount)),
    mut sums: StreamChecksums,
) -> Result<ControlFlow<(), StreamChecksums>, ArchiveError> {
    // What is read here stays as long as it is read.
    let _reading = room.gate.enter();
    let blob = room.read(|view| {
        let now = view.file(file)?.filter(|now| now.state == FileState::Live);
        let is_same = now.is_some_and(|now| now.pieces == record.pieces);
        if is_same { view.blob(piece.blob) } else { Ok(None) }
    })?;
    let Some(blob) = blob else { return Ok(ControlFlow::Break(())) };
    let mut read = 0;
    let mut source = room.blobs.read(&blob, piece, range, Use::Engine)?;
    while let Some(bytes) = source.next()? {
        if room.stopping() {
            return Ok(ControlFlow::Break(()));
        }
        sums = sums.extend(bytes);
        read += bytes.len() as u64;
    }
    let (_, length) = range;
    assert_eq!(read, length.0, "what is read of the pool has the length that was asked for");
    Ok(ControlFlow::Continue(sums))
}
