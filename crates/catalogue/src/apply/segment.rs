//! What is given back of segments that hold other values too.

use base::{BlobPiece, Layout};

use super::{limit, tidy};
use crate::command::Outcome;
use crate::draft::Draft;
use crate::error::{Object, Rejection};
use crate::key;
use crate::record::{SEGMENT_PAGES, Sectors, UnneededSectors};
use crate::table::Table;

/// Pages that a segment may have: offsets in it are below 2^31.
const PAGES_MAX: u32 = 1 << 19;
const _: () = assert!(PAGES_MAX.is_multiple_of(SEGMENT_PAGES), "the last row of a segment is a whole one");

/// What is not known as garbage is passed over, and so are pages of segments that are not in use any more: a
/// repeat does no harm.
pub(super) fn values_removed(
    draft: &mut Draft<'_>,
    values: &[BlobPiece],
    pages: &[UnneededSectors],
) -> Result<Outcome, Rejection> {
    limit("values and pages in one command", values.len().saturating_add(pages.len()), tidy::ROWS_MAX)?;
    tidy::garbage_removed(draft, &[], values)?;
    for page in pages {
        if page.page >= PAGES_MAX {
            let what = "a segment has no page of this number";
            return Err(Rejection::Malformed { object: Object::Blob(page.blob), what });
        }
        let blob = draft.view().blob_record(page.blob)?;
        if !blob.is_some_and(|blob| matches!(blob.layout, Layout::Segment { .. })) {
            continue;
        }
        note(draft, page)?;
    }
    Ok(Outcome::Done)
}

fn note(draft: &mut Draft<'_>, page: &UnneededSectors) -> Result<(), Rejection> {
    let (key, place) = key::unneeded(page.blob, page.page);
    let known: Option<Sectors> = draft.view().get(Table::Unneeded, &key)?;
    let mut sectors = known.unwrap_or([0; SEGMENT_PAGES as usize]);
    if let Some(slot) = sectors.get_mut(place) {
        *slot = page.sectors;
    }
    match known {
        Some(known) if known == sectors => {}
        _ if sectors.iter().any(|page| *page != 0) => draft.put(Table::Unneeded, key, &sectors),
        Some(_) => draft.remove(Table::Unneeded, key),
        None => {}
    }
    Ok(())
}
