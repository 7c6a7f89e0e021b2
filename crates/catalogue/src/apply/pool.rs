//! Which bytes of the pool are in use: every reference is counted, and what nobody refers to becomes garbage.

use std::collections::{BTreeMap, BTreeSet};

use base::{BlobDescription, BlobId, BlobPiece, ByteCount, DriveId, Layout, StripeSet};

use super::limit;
use crate::command::PoolData;
use crate::draft::Draft;
use crate::error::{Object, ReadError, Rejection};
use crate::key;
use crate::record::{BlobRecord, FileRecord, Garbage, PoolDriveRecord, PoolDriveState};
use crate::table::Table;

/// Most pieces of one file or skeleton, and most blobs that hold them.
const PIECES_MAX: usize = 1 << 20;

/// The sum of the pieces' lengths; `None` if it does not fit.
pub(super) fn total(pieces: &[BlobPiece]) -> Option<ByteCount> {
    pieces.iter().try_fold(0u64, |sum, piece| sum.checked_add(piece.length.0)).map(ByteCount)
}

/// Records blobs that are new, with no references yet, and checks those that are known.
pub(super) fn record_blobs(draft: &mut Draft<'_>, blobs: &[BlobDescription]) -> Result<(), Rejection> {
    limit("blobs of a command", blobs.len(), PIECES_MAX)?;
    let mut seen = BTreeSet::new();
    for blob in blobs {
        if !seen.insert(blob.id) {
            return Err(malformed(blob.id, "the blob is described twice"));
        }
        check_description(blob)?;
        if draft.view().is_garbage(blob.id)? {
            return Err(Rejection::BlobIsGarbage(blob.id));
        }
        let stripes = blob.stripes.iter().map(|set| set.id).collect();
        let BlobDescription { stands_as, layout, length, .. } = *blob;
        let known = draft.view().blob_record(blob.id)?;
        if stands_as.is_none() && known.as_ref().is_some_and(|known| known.was_written_anew(length)) {
            // Whoever describes it as it was before it was written anew means the same bytes.
            continue;
        }
        record_sets(draft, blob)?;
        match known {
            Some(known) => {
                let BlobRecord { references, live, .. } = known;
                if known != (BlobRecord { stands_as, layout, length, stripes, references, live }) {
                    return Err(Rejection::BlobDiffers(blob.id));
                }
            }
            None => {
                if stands_as.is_some() || draft.view().is_taken(blob.id)? {
                    return Err(malformed(
                        blob.id,
                        "a new blob has extents of its own id, which none had before",
                    ));
                }
                assert!(!blob.stripes.is_empty(), "a new blob stands somewhere");
                let (references, live) = (0, ByteCount(0));
                let record = BlobRecord { stands_as, layout, length, stripes, references, live };
                draft.put(Table::Blob, key::blob(blob.id), &record);
            }
        }
    }
    Ok(())
}

pub(super) fn malformed(blob: BlobId, what: &'static str) -> Rejection {
    Rejection::Malformed { object: Object::Blob(blob), what }
}

pub(super) fn check_description(blob: &BlobDescription) -> Result<(), Rejection> {
    match blob.layout {
        Layout::Striped { code } if !code.exists() => {
            return Err(malformed(blob.id, "there is no code with so many shards of each kind"));
        }
        Layout::Segment { copies: 0 } => return Err(malformed(blob.id, "a segment needs at least one copy")),
        Layout::Segment { .. } if blob.length.0 != 0 || blob.stripes.len() != 1 => {
            return Err(malformed(blob.id, "a segment has length 0 and exactly one stripe set"));
        }
        Layout::Striped { .. } if blob.length.0 == 0 || blob.stripes.is_empty() => {
            return Err(malformed(blob.id, "a striped blob has bytes and at least one stripe"));
        }
        Layout::Striped { .. } | Layout::Segment { .. } => {}
    }
    blob.stripes.iter().try_for_each(|set| check_set(blob.id, blob.layout, set))
}

pub(super) fn check_set(blob: BlobId, layout: Layout, set: &StripeSet) -> Result<(), Rejection> {
    let distinct: BTreeSet<_> = set.drives.iter().collect();
    if set.drives.len() != layout.width() || distinct.len() != set.drives.len() {
        return Err(malformed(blob, "a stripe set needs as many distinct drives as the layout has shards"));
    }
    Ok(())
}

pub(super) fn record_sets(draft: &mut Draft<'_>, blob: &BlobDescription) -> Result<(), Rejection> {
    let mut seen: BTreeMap<_, &[DriveId]> = BTreeMap::new();
    for set in &blob.stripes {
        match seen.get(&set.id) {
            Some(drives) if *drives == set.drives => continue,
            Some(_) => return Err(Rejection::StripeSetDiffers(set.id)),
            None => seen.insert(set.id, &set.drives),
        };
        record_set(draft, set)?;
    }
    Ok(())
}

/// Records a stripe set that is new, and checks one that is known. No stripe comes to stand on a drive that
/// was taken out of the pool.
pub(super) fn record_set(draft: &mut Draft<'_>, set: &StripeSet) -> Result<(), Rejection> {
    // Most pools have none, and then this is one look.
    let removed = draft.view().pool_drives()?;
    let is_removed = |(id, record): &(DriveId, PoolDriveRecord)| {
        matches!(record.state, PoolDriveState::Leaving | PoolDriveState::Removed) && set.drives.contains(id)
    };
    if let Some((drive, _)) = removed.iter().find(|drive| is_removed(drive)) {
        return Err(Rejection::WrongState {
            object: Object::PoolDrive(*drive),
            state: "removed",
            needed: "a drive of the pool: write it to the others",
        });
    }
    let key = key::stripe_set(set.id);
    match draft.view().get::<Vec<DriveId>>(Table::StripeSet, &key)? {
        Some(known) if known != set.drives => return Err(Rejection::StripeSetDiffers(set.id)),
        Some(_) => {}
        None => draft.put(Table::StripeSet, key, &set.drives),
    }
    Ok(())
}

/// Counts references of `pieces`, whose blobs must be recorded.
pub(super) fn refer(draft: &mut Draft<'_>, pieces: &[BlobPiece]) -> Result<(), Rejection> {
    for (id, pieces) in by_blob(pieces) {
        let Some(mut blob) = draft.view().blob_record(id)? else {
            return Err(Rejection::NotFound(Object::Blob(id)));
        };
        let (before, count, bytes) = ((blob.references, blob.live.0), pieces.len() as u64, total(&pieces));
        for piece in pieces {
            let end = piece.offset.0.checked_add(piece.length.0);
            let inside = match blob.layout {
                Layout::Striped { .. } => end.is_some_and(|end| end <= blob.length.0),
                // The end of an open segment is not known here.
                Layout::Segment { .. } => end.is_some() && piece.offset != key::WHOLE_BLOB,
            };
            if !inside || piece.length.0 == 0 {
                return Err(malformed(id, "a piece is empty or reaches beyond the end of its blob"));
            }
            let counted = blob.references.checked_add(1).zip(blob.live.0.checked_add(piece.length.0));
            let (references, live) =
                counted.ok_or_else(|| malformed(id, "the pieces have more bytes than 2^64"))?;
            blob.references = references;
            blob.live = ByteCount(live);
        }
        assert_eq!(blob.references - before.0, count, "each piece is one reference");
        assert_eq!(Some(blob.live.0 - before.1), bytes.map(|bytes| bytes.0), "each byte of them is counted");
        draft.put(Table::Blob, key::blob(id), &blob);
    }
    Ok(())
}

fn by_blob(pieces: &[BlobPiece]) -> BTreeMap<BlobId, Vec<BlobPiece>> {
    let mut blobs: BTreeMap<BlobId, Vec<BlobPiece>> = BTreeMap::new();
    for piece in pieces {
        blobs.entry(piece.blob).or_default().push(*piece);
    }
    assert_eq!(blobs.values().map(Vec::len).sum::<usize>(), pieces.len(), "each piece is of one blob");
    blobs
}

/// Gives back references to bytes that somebody else refers to next, in the same command: nothing becomes
/// garbage, even if no reference is left for the moment. [`discard_forsaken`] looks for those that nobody
/// took.
pub(super) fn hand_over(draft: &mut Draft<'_>, pieces: &[BlobPiece]) -> Result<(), Rejection> {
    for (id, pieces) in by_blob(pieces) {
        let blob = with_fewer(draft, id, &pieces)?;
        draft.put(Table::Blob, key::blob(id), &blob);
    }
    Ok(())
}

/// Makes those blobs garbage that were handed over and that nobody took.
pub(super) fn discard_forsaken(draft: &mut Draft<'_>, pieces: &[BlobPiece]) -> Result<(), Rejection> {
    for id in by_blob(pieces).into_keys() {
        if let Some(record) = draft.view().blob_record(id)?
            && record.references == 0
        {
            discard_blob(draft, id, &record)?;
        }
    }
    Ok(())
}

/// A blob without the references of these pieces.
fn with_fewer(draft: &Draft<'_>, id: BlobId, pieces: &[BlobPiece]) -> Result<BlobRecord, Rejection> {
    let key = key::blob(id);
    let mut blob: BlobRecord = draft.view().expect(Table::Blob, &key)?;
    let bytes = total(pieces).and_then(|bytes| blob.live.0.checked_sub(bytes.0));
    let references = blob.references.checked_sub(pieces.len() as u64);
    let (references, live) =
        references.zip(bytes).ok_or_else(|| ReadError::inconsistent(Table::Blob, &key))?;
    blob.references = references;
    blob.live = ByteCount(live);
    Ok(blob)
}

/// Gives back references. A blob without any becomes garbage; of a segment that holds others, the value does.
pub(super) fn dereference(draft: &mut Draft<'_>, pieces: &[BlobPiece]) -> Result<(), Rejection> {
    for (id, pieces) in by_blob(pieces) {
        let blob = with_fewer(draft, id, &pieces)?;
        if blob.references == 0 {
            discard_blob(draft, id, &blob)?;
            continue;
        }
        draft.put(Table::Blob, key::blob(id), &blob);
        if matches!(blob.layout, Layout::Segment { .. }) {
            discard_values(draft, id, &blob, &pieces)?;
        }
    }
    Ok(())
}

/// Makes a whole blob garbage; what was garbage within it goes with it.
fn discard_blob(draft: &mut Draft<'_>, id: BlobId, blob: &BlobRecord) -> Result<(), Rejection> {
    assert_eq!(blob.references, 0, "a blob that somebody refers to is no garbage");
    let description = draft.view().describe(id, blob)?;
    let values =
        draft
            .view()
            .rows_within(Table::Garbage, &key::blob(id), None, usize::MAX, |_, key, _| Ok(key.to_vec()))?;
    for value in values {
        draft.remove(Table::Garbage, value);
    }
    if matches!(blob.layout, Layout::Segment { .. }) {
        let pages =
            draft.view().rows_within(Table::Unneeded, &key::blob(id), None, usize::MAX, |_, key, _| {
                Ok(key.to_vec())
            })?;
        pages.into_iter().for_each(|page| draft.remove(Table::Unneeded, page));
    }
    draft.remove(Table::Blob, key::blob(id));
    draft.put(Table::Garbage, key::garbage(id, key::WHOLE_BLOB), &Garbage::Blob(description));
    Ok(())
}

fn discard_values(
    draft: &mut Draft<'_>,
    id: BlobId,
    blob: &BlobRecord,
    pieces: &[BlobPiece],
) -> Result<(), Rejection> {
    assert!(matches!(blob.layout, Layout::Segment { .. }), "only a segment is given up by the value");
    assert!(blob.references > 0, "a segment that nobody refers to is given up whole");
    assert!(pieces.iter().all(|piece| piece.blob == id), "each value is of this segment");
    let description = draft.view().describe(id, blob)?;
    for piece in pieces {
        let garbage = Garbage::Value(description.clone(), *piece);
        draft.put(Table::Garbage, key::garbage(id, piece.offset), &garbage);
    }
    Ok(())
}

/// Bytes that were written but are not needed: values of segments that hold others become garbage here.
/// Blobs that are
/// not known are the caller's to remove. `holder` is the file that was kept instead: what it refers to is in
/// use, which
/// matters if the very same command is given twice.
pub(super) fn discard_unused(
    draft: &mut Draft<'_>,
    pieces: &[BlobPiece],
    holder: Option<&FileRecord>,
) -> Result<(), Rejection> {
    let held = |piece: &BlobPiece| {
        let mut held = holder.into_iter().flat_map(|file| &file.pieces);
        held.any(|held| (held.blob, held.offset) == (piece.blob, piece.offset))
    };
    for (id, pieces) in by_blob(pieces) {
        let Some(blob) = draft.view().blob_record(id)? else { continue };
        if !matches!(blob.layout, Layout::Segment { .. }) || blob.references == 0 {
            continue;
        }
        let mut unused = Vec::new();
        for piece in pieces.into_iter().filter(|piece| !held(piece)) {
            let known: Option<Garbage> = draft.view().get(Table::Garbage, &key::garbage(id, piece.offset))?;
            if known.is_none() {
                unused.push(piece);
            }
        }
        if !unused.is_empty() {
            discard_values(draft, id, &blob, &unused)?;
        }
    }
    Ok(())
}

/// Makes those of `blobs` garbage to which nothing refers.
pub(super) fn discard_unreferenced(
    draft: &mut Draft<'_>,
    blobs: &[BlobDescription],
) -> Result<(), Rejection> {
    for blob in blobs {
        if let Some(record) = draft.view().blob_record(blob.id)?
            && record.references == 0
        {
            discard_blob(draft, blob.id, &record)?;
        }
    }
    Ok(())
}

/// Records and refers to the bytes of a new file or skeleton.
pub(super) fn take(draft: &mut Draft<'_>, data: &PoolData) -> Result<(), Rejection> {
    limit("pieces of a file", data.pieces.len(), PIECES_MAX)?;
    record_blobs(draft, &data.blobs)?;
    refer(draft, &data.pieces)?;
    let used: BTreeSet<_> = data.pieces.iter().map(|piece| piece.blob).collect();
    match data.blobs.iter().find(|blob| !used.contains(&blob.id)) {
        Some(blob) => Err(malformed(blob.id, "the blob is described but holds no piece")),
        None => Ok(()),
    }
}
