//! Files that are larger than a tape: what of them is back in the pool while somebody waits for the rest. The
//! bytes of a part that came are the image of its container, so that all that looks after images (references,
//! what is looked for after a loss or a restore, what is written to tape again) looks after them.

use base::{BlobPiece, ContainerId, FileId};

use super::{cold, lifecycle, online, pool, recall, request};
use crate::draft::Draft;
use crate::error::Rejection;
use crate::key;
use crate::record::{ContainerKind, ContainerRecord, FileState, ItemState, RecallItem, RecallKey};
use crate::table::Table;

/// The file of which a container is a part.
fn file_of(record: &ContainerRecord) -> Option<FileId> {
    match record.kind {
        ContainerKind::Segment { file, .. } => Some(file),
        ContainerKind::Pack | ContainerKind::File(_) => None,
    }
}

/// What the pool has of a part of a file; nothing of any other container.
pub(super) fn in_pool(record: &ContainerRecord) -> Option<BlobPiece> {
    file_of(record).and(record.image)
}

/// Whether this very piece is what the pool has of a part, or of the whole file by now.
pub(super) fn has_piece(draft: &Draft<'_>, id: ContainerId, piece: BlobPiece) -> Result<bool, Rejection> {
    let Some(record) = draft.view().container(id)? else { return Ok(false) };
    let Some(file) = file_of(&record) else { return Ok(false) };
    let file = draft.view().file(file)?;
    Ok(record.image == Some(piece) || file.is_some_and(|file| file.pieces.contains(&piece)))
}

/// Whether a container is a part of a file that somebody waits for: then its image is kept although all its
/// copies are on tape.
pub(super) fn is_waited_for(draft: &Draft<'_>, record: &ContainerRecord) -> Result<bool, Rejection> {
    match file_of(record) {
        Some(file) => Ok(!draft.view().wants(file)?.is_empty()),
        None => Ok(false),
    }
}

/// A part is in the pool: nobody reads it from tape any more, and with the last one the file is online.
pub(super) fn came(
    draft: &mut Draft<'_>,
    id: ContainerId,
    record: &ContainerRecord,
) -> Result<(), Rejection> {
    assert!(record.image.is_some(), "what came is in the pool");
    let Some(file) = file_of(record) else { return Ok(()) };
    for (key, item) in request::recalls(draft, file)? {
        if item.container == id {
            request::drop_recall(draft, &key, &item)?;
        }
    }
    if is_waited_for(draft, record)? {
        complete(draft, file)?;
    }
    Ok(())
}

/// A part is in the pool no more: who waits for the file waits for it again.
pub(super) fn went(
    draft: &mut Draft<'_>,
    id: ContainerId,
    record: &ContainerRecord,
) -> Result<(), Rejection> {
    assert!(record.image.is_none(), "what went is not in the pool");
    let Some(file_id) = file_of(record) else { return Ok(()) };
    if !is_waited_for(draft, record)? {
        return Ok(());
    }
    for member in draft.view().members(id, None, 1)? {
        for (vid, block) in record.places() {
            let key = RecallKey { vid, block, data_offset: member.data_offset, file: file_id };
            let item = RecallItem { container: id, length: member.length, since: draft.at };
            request::put_recall(draft, &key, &item)?;
        }
    }
    let file = draft.view().file(file_id)?;
    file.map_or(Ok(()), |file| {
        recall::fail_unserved(draft, file_id, &file, "a part of the file is on no tape")
    })
}

/// Makes a file online of which every part is in the pool. The references go over from the containers to it.
pub(super) fn complete(draft: &mut Draft<'_>, id: FileId) -> Result<bool, Rejection> {
    let file = draft.view().file(id)?.filter(|file| file.state == FileState::Live && !file.is_online());
    let Some(mut file) = file else { return Ok(false) };
    let (mut pieces, mut containers) = (Vec::new(), Vec::new());
    for (container, _) in draft.view().parts(id)? {
        let record: ContainerRecord = draft.view().expect(Table::Container, &key::container(container))?;
        let Some(image) = in_pool(&record) else { return Ok(false) };
        pieces.push(image);
        containers.push(container);
    }
    if pool::total(&pieces) != Some(file.size) {
        return Ok(false);
    }
    for container in containers {
        lifecycle::update(draft, container, |record| record.image.take().map(drop))?;
    }
    request::settle(draft, id, &file, &ItemState::Done(draft.at))?;
    online::came(draft, id, &file)?;
    file.pieces = pieces;
    assert!(file.is_online(), "a file of which all parts came is in the pool");
    draft.put(Table::File, key::file(id), &file);
    cold::leave_later(draft, id, &file)?;
    Ok(true)
}

/// Nobody waits for a file any more: what came of it is given up, but for what is to be written to tape.
pub(super) fn give_up(draft: &mut Draft<'_>, id: FileId) -> Result<(), Rejection> {
    for (container, _) in draft.view().parts(id)? {
        let mut record: ContainerRecord =
            draft.view().expect(Table::Container, &key::container(container))?;
        if let Some(image) = in_pool(&record).filter(|_| record.is_settled()) {
            record.image = None;
            draft.put(Table::Container, key::container(container), &record);
            pool::dereference(draft, &[image])?;
        }
    }
    Ok(())
}
