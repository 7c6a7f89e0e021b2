//! New files.

use base::planted::{Bug, is_planted};
use base::{Blake3, BlobPiece, ByteCount, FileId};

use super::{hold, limit, namespace, online, pool, quota, version};
use crate::command::{Outcome, PutFile, PutOutcome, Replace};
use crate::draft::Draft;
use crate::error::{Object, Rejection};
use crate::key;
use crate::record::{Counter, Entry, FileKind, FileRecord, FileState, Hold, IdempotencyRecord, TodoFile};
use crate::table::Table;

/// Most bytes in the target of a symbolic link.
const TARGET_BYTES_MAX: usize = 4095;
/// The largest file: offsets stay below the sign bit.
const FILE_BYTES_MAX: u64 = 1 << 62;

/// What is said of a put beside the file.
#[derive(Default)]
pub(super) struct How<'a> {
    /// Refused unless this version has the name.
    pub(super) if_current: Option<FileId>,
    /// What keeps the file; `None`: what its bucket says.
    pub(super) hold: Option<Hold>,
    /// The same bytes make a new version too.
    pub(super) always: bool,
    /// The pieces of a file whose bytes are another's, referred to already.
    pub(super) pieces: Option<&'a [BlobPiece]>,
}

pub(super) fn put_file(draft: &mut Draft<'_>, put: &PutFile) -> Result<Outcome, Rejection> {
    self::put(draft, put, How::default())
}

pub(super) fn put(draft: &mut Draft<'_>, put: &PutFile, how: How<'_>) -> Result<Outcome, Rejection> {
    if let Some(known) = known_answer(draft, put)? {
        return Ok(Outcome::Put(known));
    }
    if how.pieces.is_none() {
        check(put)?;
    }
    namespace::check_attributes(&put.attributes)?;
    namespace::check_name(put.parent, &put.name)?;
    namespace::check_directory(draft, put.parent)?;
    let class = namespace::class(draft, put.class)?;
    let current = match draft.view().entry(put.parent, &put.name)? {
        Some(Entry::Directory(_)) => {
            return Err(Rejection::IsADirectory { parent: put.parent, name: put.name.clone() });
        }
        Some(Entry::File(old)) => Some(old),
        None => None,
    };
    if how.if_current.is_some() && how.if_current != current {
        return Err(Rejection::NotCurrent { parent: put.parent, name: put.name.clone(), current });
    }
    if let Some(old) = current {
        let file: FileRecord = draft.view().expect(Table::File, &key::file(old))?;
        // What is to be held is a version of its own: the old one is held as its own put said.
        let is_same = !how.always && how.hold.is_none() && is_same(&file, put);
        // Bytes that nobody can read are no reason to turn the same ones away.
        if is_same && !file.is_lost() {
            remember(draft, put, old);
            discard(draft, put, Some(&file))?;
            return Ok(Outcome::Put(PutOutcome { file: old, created: false, replaced: None }));
        }
        if put.replace == Replace::Refused && !is_same {
            return Err(Rejection::NameTaken { parent: put.parent, name: put.name.clone() });
        }
    }
    // Before the old version lets go of its bytes, since both may stand in one segment.
    if let Some(data) = &put.data {
        pool::take(draft, data)?;
    }
    let replaced = version::give_way(draft, (put.parent, &put.name), current, "the file was replaced")?;
    let id = create(draft, put, how.pieces, !class.copies.is_empty())?;
    assert_ne!(replaced, Some(id), "a file does not replace itself");
    let named = draft.view().entry(put.parent, &put.name)?;
    assert_eq!(named, Some(Entry::File(id)), "the name stands for the file that was put");
    let bucket = draft.view().bucket_of(put.parent)?.map(|(_, bucket)| bucket);
    hold::begin(draft, id, &put.name, how.hold, bucket.as_ref())?;
    Ok(Outcome::Put(PutOutcome { file: id, created: true, replaced }))
}

fn known_answer(draft: &mut Draft<'_>, put: &PutFile) -> Result<Option<PutOutcome>, Rejection> {
    let Some(idempotency) = &put.idempotency else { return Ok(None) };
    let Some(known) = draft.view().get::<IdempotencyRecord>(Table::Idempotency, idempotency)? else {
        return Ok(None);
    };
    if known.request != digest(put) {
        return Err(Rejection::IdempotencyKeyReused { file: known.file });
    }
    let holder = draft.view().file(known.file)?;
    if holder.as_ref().is_some_and(FileRecord::is_lost) {
        // The client still has what Kist has lost: the put is done once more, and this answer forgotten.
        draft.remove(Table::Idempotency, idempotency.to_vec());
        draft.remove(Table::IdempotencyAge, key::idempotency_age(known.at, idempotency));
        return Ok(None);
    }
    discard(draft, put, holder.as_ref())?;
    Ok(Some(PutOutcome { file: known.file, created: false, replaced: None }))
}

fn discard(draft: &mut Draft<'_>, put: &PutFile, holder: Option<&FileRecord>) -> Result<(), Rejection> {
    let pieces = put.data.as_ref().map_or(&[][..], |data| &data.pieces);
    pool::discard_unused(draft, pieces, holder)
}

/// What a repeat must have in common with the first put: target, kind, size, content.
fn digest(put: &PutFile) -> [u8; 16] {
    let mut text = put.parent.0.to_le_bytes().to_vec();
    text.extend_from_slice(&put.size.0.to_le_bytes());
    text.extend_from_slice(&put.checksums.blake3.0);
    text.extend_from_slice(&(put.name.as_str().len() as u64).to_le_bytes());
    text.extend_from_slice(put.name.as_str().as_bytes());
    if let FileKind::Symlink(target) = &put.kind {
        text.push(1);
        text.extend_from_slice(target.as_bytes());
    }
    let Blake3(hash) = Blake3::of(&text);
    std::array::from_fn(|at| hash[at])
}

fn is_same(file: &FileRecord, put: &PutFile) -> bool {
    (&file.kind, file.size, file.checksums.blake3) == (&put.kind, put.size, put.checksums.blake3)
}

fn check(put: &PutFile) -> Result<(), Rejection> {
    let malformed = |what| Rejection::Malformed { object: Object::Name(put.parent, put.name.clone()), what };
    if let FileKind::Symlink(target) = &put.kind {
        limit("bytes of a link's target", target.len(), TARGET_BYTES_MAX)?;
        if target.is_empty() || target.contains('\0') || put.size.0 != 0 {
            return Err(malformed("a link has a target without NUL and no bytes of its own"));
        }
    }
    if put.size.0 > FILE_BYTES_MAX {
        return Err(Rejection::LimitExceeded { what: "bytes of a file", limit: FILE_BYTES_MAX });
    }
    let held = match &put.data {
        Some(data) if data.pieces.is_empty() => return Err(malformed("the pool data has no pieces")),
        Some(data) => pool::total(&data.pieces),
        None => Some(ByteCount(0)),
    };
    if held != Some(put.size) {
        return Err(malformed("the pieces do not add up to the size"));
    }
    Ok(())
}

fn remember(draft: &mut Draft<'_>, put: &PutFile, file: FileId) {
    if is_planted(Bug::ForgottenKey) {
        return;
    }
    if let Some(idempotency) = &put.idempotency {
        let record = IdempotencyRecord { file, request: digest(put), at: draft.at };
        draft.put(Table::Idempotency, idempotency.to_vec(), &record);
        let age = key::idempotency_age(draft.at, idempotency);
        draft.put(Table::IdempotencyAge, age, &crate::encoding::Nothing);
    }
}

fn create(
    draft: &mut Draft<'_>,
    put: &PutFile,
    shared: Option<&[BlobPiece]>,
    goes_to_tape: bool,
) -> Result<FileId, Rejection> {
    let own = put.data.as_ref().map(|data| &data.pieces[..]);
    let id = draft.change_meta(|meta| {
        meta.next_file += 1;
        FileId(meta.next_file - 1)
    })?;
    assert!(draft.view().file(id)?.is_none(), "the number of a new file was never given");
    assert!(own.is_none() || shared.is_none(), "a file brings its bytes or shares those of another");
    let is_whole = own.is_none_or(|own| pool::total(own) == Some(put.size));
    assert!(is_whole, "the pieces of a file have all its bytes and no others");
    let record = FileRecord {
        parent: put.parent,
        name: put.name.clone(),
        kind: put.kind.clone(),
        state: FileState::Live,
        size: put.size,
        created: draft.at,
        attributes: put.attributes.clone(),
        checksums: put.checksums,
        class: put.class,
        dataset: put.dataset,
        pieces: shared.or(own).unwrap_or_default().to_vec(),
    };
    draft.put(Table::File, key::file(id), &record);
    draft.put(Table::Entry, key::entry(put.parent, put.name.as_str()), &Entry::File(id));
    draft.count(Counter::Class(put.class), 1, put.size.0)?;
    quota::charge(draft, id, &record, quota::Way::In)?;
    online::came(draft, id, &record)?;
    // Links and empty files too: header-only members, so that the tapes alone hold the whole tree.
    if goes_to_tape {
        let todo = TodoFile { size: put.size, since: draft.at };
        draft.put(Table::Todo, key::todo(put.class, put.dataset, id), &todo);
        draft.count(Counter::Todo(put.class), 1, put.size.0)?;
    }
    remember(draft, put, id);
    Ok(id)
}
