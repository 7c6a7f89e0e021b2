//! Parts count for quotas from the moment on at which they are stored, and until the upload ends.

use base::{ArchivePath, ByteCount, DirId, FileId, UploadId};

use super::super::quota;
use crate::command::OpenUpload;
use crate::draft::Draft;
use crate::encoding::Nothing;
use crate::error::{ReadError, Rejection};
use crate::key;
use crate::record::{Entry, UploadRecord, UploadUse};
use crate::table::Table;

/// Uploads that move to the directory above with one command, when theirs is removed; it is refused if there
/// are more.
const MOVED_MAX: usize = 1_000;

/// Has the parts of an upload count where its file is to stand.
pub(super) fn begin(draft: &mut Draft<'_>, upload: UploadId, open: &OpenUpload) -> Result<(), Rejection> {
    let directory = nearest(draft, open)?;
    write(draft, upload, UploadUse { directory, bytes: ByteCount(0) });
    Ok(())
}

/// The nearest directory to the path of an upload that is there.
fn nearest(draft: &Draft<'_>, open: &OpenUpload) -> Result<DirId, Rejection> {
    let mut at = open.bucket;
    // That it is a path was checked before.
    let Ok(path) = ArchivePath::new(&format!("/{}", open.key)) else { return Ok(at) };
    let Some((parent, _)) = path.split() else { return Ok(at) };
    for name in parent.components() {
        match draft.view().entry_of(at, name)? {
            Some(Entry::Directory(below)) => at = below,
            _ => break,
        }
    }
    Ok(at)
}

fn write(draft: &mut Draft<'_>, upload: UploadId, usage: UploadUse) {
    draft.put(Table::UploadUse, key::upload(upload), &usage);
    draft.put(Table::UploadIn, key::upload_in(usage.directory, upload), &Nothing);
}

/// A part was stored, perhaps in place of another one.
pub(super) fn change(
    draft: &mut Draft<'_>,
    upload: UploadId,
    record: &UploadRecord,
    replaced: ByteCount,
    stored: ByteCount,
) -> Result<(), Rejection> {
    let key = key::upload(upload);
    let Some(mut usage) = draft.view().get::<UploadUse>(Table::UploadUse, &key)? else { return Ok(()) };
    let bytes = usage.bytes.0.checked_sub(replaced.0).and_then(|bytes| bytes.checked_add(stored.0));
    usage.bytes.0 = bytes.ok_or_else(|| ReadError::inconsistent(Table::UploadUse, &key))?;
    draft.put(Table::UploadUse, key, &usage);
    let more = i128::from(stored.0) - i128::from(replaced.0);
    charge(draft, upload, record, usage.directory, more)
}

/// The parts are a file's, or given up.
pub(super) fn end(draft: &mut Draft<'_>, upload: UploadId, record: &UploadRecord) -> Result<(), Rejection> {
    let key = key::upload(upload);
    let Some(usage) = draft.view().get::<UploadUse>(Table::UploadUse, &key)? else { return Ok(()) };
    draft.remove(Table::UploadUse, key);
    draft.remove(Table::UploadIn, key::upload_in(usage.directory, upload));
    charge(draft, upload, record, usage.directory, -i128::from(usage.bytes.0))
}

fn charge(
    draft: &mut Draft<'_>,
    upload: UploadId,
    record: &UploadRecord,
    directory: DirId,
    bytes: i128,
) -> Result<(), Rejection> {
    quota::charge_bytes(draft, FileId(upload.0), directory, &record.plan.attributes.group, bytes)
}

/// Has the parts that count for a directory count for the one above it, since theirs is being removed.
/// Whether that can be done: not if there are too many of them.
pub(in super::super) fn move_up(
    draft: &mut Draft<'_>,
    directory: DirId,
    above: DirId,
) -> Result<bool, Rejection> {
    let uploads = counting_in(draft, directory, MOVED_MAX + 1)?;
    if uploads.len() > MOVED_MAX {
        return Ok(false);
    }
    move_all(draft, uploads, (directory, above))?;
    Ok(true)
}

/// The same, of at most `most` of them; gives how many were moved.
pub(in super::super) fn move_some(
    draft: &mut Draft<'_>,
    directory: DirId,
    above: DirId,
    most: usize,
) -> Result<usize, Rejection> {
    let uploads = counting_in(draft, directory, most)?;
    let moved = uploads.len();
    move_all(draft, uploads, (directory, above))?;
    Ok(moved)
}

/// The first uploads whose parts count for a directory.
fn counting_in(draft: &Draft<'_>, directory: DirId, most: usize) -> Result<Vec<UploadId>, ReadError> {
    let within = key::directory(directory);
    draft.view().rows_within(Table::UploadIn, &within, None, most, |mut parts, _, _| {
        parts.u64()?;
        parts.u64().map(UploadId)
    })
}

fn move_all(
    draft: &mut Draft<'_>,
    uploads: Vec<UploadId>,
    (directory, above): (DirId, DirId),
) -> Result<(), Rejection> {
    for upload in uploads {
        let usage: UploadUse = draft.view().expect(Table::UploadUse, &key::upload(upload))?;
        draft.remove(Table::UploadIn, key::upload_in(directory, upload));
        // What counts below a directory counts for those above it already.
        write(draft, upload, UploadUse { directory: above, ..usage });
    }
    Ok(())
}
