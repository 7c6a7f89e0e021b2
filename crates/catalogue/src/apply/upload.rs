//! Uploads in parts: the bytes of each part are referred to by its row, until they become a file's.

use base::{BlobPiece, ByteCount, DirId, UploadId};

use super::{limit, namespace, pool, put};
use crate::command::{
    ABORT_PARTS_MAX, BUCKET_UPLOADS_MAX, Command, CompleteUpload, OpenUpload, Outcome, PARTS_MAX, PoolData,
    PutObject, PutPart, UPLOADS_MAX, completion_key,
};
use crate::draft::Draft;
use crate::encoding::Nothing;
use crate::error::{Object, Rejection};
use crate::key;
use crate::record::{Counter, UploadPart, UploadRecord};
use crate::table::Table;

mod usage;

pub(super) use usage::{move_some, move_up};

/// Most bytes in the name of who began an upload.
const OWNER_BYTES_MAX: usize = 64;
/// Most bytes of a collocation hint.
const HINT_BYTES_MAX: usize = 1024;
/// Most bytes of the path below the bucket.
const KEY_BYTES_MAX: usize = base::PATH_BYTES_MAX;
/// Most bytes that a door may keep of a part.
const PART_ATTRIBUTES_MAX: usize = 4 << 10;
/// Most nodes of a part's hash: two for each doubling of the longest part's chunks.
const NODES_MAX: usize = 128;

pub(super) fn perform(draft: &mut Draft<'_>, command: &Command) -> Result<Outcome, Rejection> {
    match command {
        Command::OpenUpload(open) => open_upload(draft, open).map(Outcome::Upload),
        Command::BeginUpload(open) => {
            let upload = open_upload(draft, open)?;
            usage::begin(draft, upload, open)?;
            Ok(Outcome::Upload(upload))
        }
        Command::PutPart(part) => put_part(draft, part),
        Command::CompleteUpload(complete) => complete_upload(draft, complete),
        Command::AbortUpload { upload } => abort(draft, *upload),
        _ => Ok(Outcome::Done),
    }
}

/// Whether uploads are open below a directory of the root.
pub(super) fn any_below(draft: &Draft<'_>, bucket: DirId) -> Result<bool, Rejection> {
    Ok(count_below(draft, bucket, 1)? > 0)
}

fn count_below(draft: &Draft<'_>, bucket: DirId, most: usize) -> Result<usize, Rejection> {
    let prefix = key::directory(bucket);
    Ok(draft.view().rows_within(Table::UploadName, &prefix, None, most, |_, _, _| Ok(()))?.len())
}

fn open_upload(draft: &mut Draft<'_>, open: &OpenUpload) -> Result<UploadId, Rejection> {
    limit("bytes of an owner's name", open.owner.len(), OWNER_BYTES_MAX)?;
    limit("bytes of a path", open.key.len(), KEY_BYTES_MAX)?;
    limit("bytes of a hint", open.plan.dataset.as_ref().map_or(0, String::len), HINT_BYTES_MAX)?;
    namespace::check_attributes(&open.plan.attributes)?;
    if let Some(class) = open.plan.class {
        namespace::class(draft, class)?;
    }
    namespace::check_directory(draft, open.bucket)?;
    let bucket = draft.view().directory(open.bucket)?;
    let bucket = bucket.ok_or(Rejection::NotFound(Object::Directory(open.bucket)))?;
    let is_path = base::ArchivePath::new(&format!("/{}", open.key)).is_ok_and(|path| !path.is_root());
    if bucket.parent != DirId::ROOT || open.bucket == DirId::ROOT || !is_path {
        let what = "an upload in parts is for a path below a directory of the root";
        return Err(Rejection::Malformed { object: Object::Directory(open.bucket), what });
    }
    if draft.tallied(Counter::Uploads)?.files >= UPLOADS_MAX {
        return Err(Rejection::LimitExceeded { what: "uploads in parts at a time", limit: UPLOADS_MAX });
    }
    let below = count_below(draft, open.bucket, BUCKET_UPLOADS_MAX)?;
    limit("uploads in parts at a time below one directory of the root", below + 1, BUCKET_UPLOADS_MAX)?;
    let upload = draft.change_meta(|meta| {
        meta.next_file += 1;
        UploadId(meta.next_file - 1)
    })?;
    assert!(draft.view().upload(upload)?.is_none(), "the number of a new upload was never given");
    let record = UploadRecord {
        bucket: open.bucket,
        key: open.key.clone(),
        owner: open.owner.clone(),
        created: draft.at,
        ending: false,
        plan: open.plan.clone(),
    };
    draft.put(Table::Upload, key::upload(upload), &record);
    draft.put(Table::UploadName, key::upload_name(open.bucket, &open.key, upload), &Nothing);
    draft.count(Counter::Uploads, 1, 0)?;
    Ok(upload)
}

fn open_one(draft: &Draft<'_>, upload: UploadId) -> Result<UploadRecord, Rejection> {
    match draft.view().upload(upload)? {
        Some(record) if !record.ending => Ok(record),
        _ => Err(Rejection::NotFound(Object::Upload(upload))),
    }
}

fn put_part(draft: &mut Draft<'_>, part: &PutPart) -> Result<Outcome, Rejection> {
    let upload = open_one(draft, part.upload)?;
    let malformed =
        |what| Rejection::Malformed { object: Object::UploadPart(part.upload, part.number), what };
    if part.number == 0 || part.number > PARTS_MAX {
        return Err(malformed("the numbers of parts are 1 to 10,000"));
    }
    let bytes = part.attributes.iter().map(|(name, value)| name.len() + value.len()).sum();
    limit("bytes kept of a part", bytes, PART_ATTRIBUTES_MAX)?;
    limit("nodes of a part's hash", part.hash.nodes.len(), NODES_MAX)?;
    if part.hash.length() != Some(part.size) {
        return Err(malformed("its hash is not one of so many bytes"));
    }
    let held = match &part.data {
        Some(data) if data.pieces.is_empty() => return Err(malformed("the pool data has no pieces")),
        Some(data) => pool::total(&data.pieces),
        None => Some(ByteCount(0)),
    };
    if held != Some(part.size) {
        return Err(malformed("the pieces do not add up to the size"));
    }
    // Before the old part lets go of its bytes, since both may stand in one segment.
    if let Some(data) = &part.data {
        pool::take(draft, data)?;
    }
    let key = key::upload_part(part.upload, part.number);
    let (mut replaced, mut stamped) = (ByteCount(0), 0);
    if let Some(old) = draft.view().get::<UploadPart>(Table::UploadPart, &key)? {
        pool::dereference(draft, &old.pieces)?;
        (replaced, stamped) = (old.size, old.stamp);
    }
    usage::change(draft, part.upload, &upload, replaced, part.size)?;
    let stamp = draft.meta()?.next_change;
    assert!(stamp > stamped, "a part that is put again has another stamp");
    let record = UploadPart {
        stamp,
        stored: draft.at,
        size: part.size,
        checksums: part.checksums,
        hash: part.hash.clone(),
        attributes: part.attributes.clone(),
        pieces: part.data.as_ref().map(|data| data.pieces.clone()).unwrap_or_default(),
    };
    draft.put(Table::UploadPart, key, &record);
    Ok(Outcome::Part(stamp))
}

fn complete_upload(draft: &mut Draft<'_>, complete: &CompleteUpload) -> Result<Outcome, Rejection> {
    let CompleteUpload { upload, parts, object } = complete;
    let record = open_one(draft, *upload)?;
    let malformed = |what| Rejection::Malformed { object: Object::Upload(*upload), what };
    if object.put.data.is_some() || object.put.idempotency != Some(completion_key(*upload)) {
        return Err(malformed("its end brings no bytes and has a key of its own"));
    }
    if !parts.is_sorted_by(|(before, _), (next, _)| before < next) || parts.is_empty() {
        return Err(malformed("its parts are to be named in order, each once, and at least one"));
    }
    // At most ten thousand rows, each with the pieces of one part.
    let rows = draft.view().upload_parts(*upload, 0, usize::from(PARTS_MAX))?;
    let pieces = named_pieces(*upload, parts, &rows)?;
    let mut object = object.clone();
    object.put.data = (!pieces.is_empty()).then(|| PoolData { blobs: Vec::new(), pieces: pieces.clone() });
    pool::hand_over(draft, &pieces)?;
    let PutObject { put, if_current, hold, always } = object;
    let how = put::How { if_current, hold, always, pieces: None };
    let outcome = put::put(draft, &put, how)?;
    // If the same bytes were there already, nobody took these.
    pool::discard_forsaken(draft, &pieces)?;
    for (number, part) in rows {
        if parts.binary_search_by_key(&number, |(number, _)| *number).is_err() {
            pool::dereference(draft, &part.pieces)?;
        }
        draft.remove(Table::UploadPart, key::upload_part(*upload, number));
    }
    let left = draft.view().upload_parts(*upload, 0, 1)?;
    assert!(left.is_empty(), "an upload is forgotten after all its parts");
    usage::end(draft, *upload, &record)?;
    draft.remove(Table::UploadName, key::upload_name(record.bucket, &record.key, *upload));
    draft.remove(Table::Upload, key::upload(*upload));
    draft.discount(Counter::Uploads, 1, 0)?;
    Ok(outcome)
}

/// The pieces of the parts that are named, in order.
fn named_pieces(
    upload: UploadId,
    parts: &[(u16, u64)],
    rows: &[(u16, UploadPart)],
) -> Result<Vec<BlobPiece>, Rejection> {
    let mut pieces = Vec::with_capacity(parts.len());
    for (number, stamp) in parts {
        let object = || Object::UploadPart(upload, *number);
        let found = rows.binary_search_by_key(number, |(number, _)| *number).ok();
        let Some((_, part)) = found.and_then(|at| rows.get(at)) else {
            return Err(Rejection::NotFound(object()));
        };
        if part.stamp != *stamp {
            let (state, needed) = ("put again meanwhile", "the one that was named: complete again");
            return Err(Rejection::WrongState { object: object(), state, needed });
        }
        pieces.extend_from_slice(&part.pieces);
    }
    Ok(pieces)
}

/// Gives up an upload, a batch of parts at a time. One that is complete has nothing to be given up.
fn abort(draft: &mut Draft<'_>, upload: UploadId) -> Result<Outcome, Rejection> {
    let record = draft.view().upload(upload)?;
    let mut record = record.ok_or(Rejection::NotFound(Object::Upload(upload)))?;
    if !record.ending {
        usage::end(draft, upload, &record)?;
        record.ending = true;
        draft.remove(Table::UploadName, key::upload_name(record.bucket, &record.key, upload));
        draft.discount(Counter::Uploads, 1, 0)?;
    }
    let rows = draft.view().upload_parts(upload, 0, ABORT_PARTS_MAX + 1)?;
    let more = rows.len() > ABORT_PARTS_MAX;
    for (number, part) in rows.into_iter().take(ABORT_PARTS_MAX) {
        pool::dereference(draft, &part.pieces)?;
        draft.remove(Table::UploadPart, key::upload_part(upload, number));
    }
    if more {
        draft.put(Table::Upload, key::upload(upload), &record);
    } else {
        let left = draft.view().upload_parts(upload, 0, 1)?;
        assert!(left.is_empty(), "an upload is forgotten after all its parts");
        draft.remove(Table::Upload, key::upload(upload));
    }
    Ok(Outcome::More(more))
}
