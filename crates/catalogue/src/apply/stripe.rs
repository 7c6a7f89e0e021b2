//! Shards that stand on other drives than before, and blobs that were written anew.

use base::{BlobDescription, BlobId, Layout, StripeSet, StripeSetId};

use super::pool;
use crate::command::Outcome;
use crate::draft::Draft;
use crate::error::{Object, Rejection};
use crate::frame;
use crate::key;
use crate::record::{BlobRecord, Garbage};
use crate::table::Table;

pub(super) fn moved(
    draft: &mut Draft<'_>,
    id: BlobId,
    number: u32,
    from: StripeSetId,
    to: &StripeSet,
) -> Result<Outcome, Rejection> {
    let mut blob = draft.view().blob_record(id)?.ok_or(Rejection::NotFound(Object::Blob(id)))?;
    pool::check_set(id, blob.layout, to)?;
    let Some(set) = blob.stripes.get_mut(number as usize) else {
        return Err(Rejection::Malformed {
            object: Object::Blob(id),
            what: "it has no stripe of this number",
        });
    };
    if *set != from {
        let needed = "with its stripe on the set that it is moved from: look at it again";
        return Err(Rejection::WrongState { object: Object::Blob(id), state: "on another set", needed });
    }
    pool::record_set(draft, to)?;
    if to.id == from {
        return Ok(Outcome::Done);
    }
    *set = to.id;
    stands(draft, id, &blob)?;
    Ok(Outcome::Done)
}

/// The copies that it had stay the first ones.
pub(super) fn copied(
    draft: &mut Draft<'_>,
    id: BlobId,
    from: StripeSetId,
    to: &StripeSet,
) -> Result<Outcome, Rejection> {
    let blob = draft.view().blob_record(id)?.ok_or(Rejection::NotFound(Object::Blob(id)))?;
    if !matches!(blob.layout, Layout::Segment { .. }) {
        return Err(pool::malformed(id, "only a segment of small values has copies"));
    }
    if blob.stripes != [from] {
        let needed = "on the set that it is copied from: look at it again";
        return Err(Rejection::WrongState { object: Object::Blob(id), state: "on another set", needed });
    }
    let before = draft.view().describe(id, &blob)?;
    let old = before.stripes.iter().flat_map(|set| &set.drives);
    let copies =
        u8::try_from(to.drives.len()).ok().filter(|copies| usize::from(*copies) > old.clone().count());
    let Some(copies) = copies.filter(|_| old.zip(&to.drives).all(|(old, new)| old == new)) else {
        return Err(pool::malformed(id, "further copies stand on drives behind those that it has"));
    };
    let layout = Layout::Segment { copies };
    pool::check_set(id, layout, to)?;
    pool::record_set(draft, to)?;
    stands(draft, id, &BlobRecord { layout, stripes: vec![to.id], ..blob })?;
    Ok(Outcome::Done)
}

/// Records where a blob stands now.
fn stands(draft: &mut Draft<'_>, id: BlobId, blob: &BlobRecord) -> Result<(), Rejection> {
    draft.put(Table::Blob, key::blob(id), blob);
    // Garbage among its values carries the description by which it is removed.
    let description = draft.view().describe(id, blob)?;
    let stands_on = description.stripes.iter().map(|set| set.id);
    assert!(stands_on.eq(blob.stripes.iter().copied()), "garbage is removed where it stands now");
    let rows =
        draft.view().rows_within(Table::Garbage, &key::blob(id), None, usize::MAX, |_, key, value| {
            Ok((key.to_vec(), frame::open::<Garbage>(Table::Garbage, key, value)?))
        })?;
    for (key, garbage) in rows {
        if let Garbage::Value(_, piece) = garbage {
            draft.put(Table::Garbage, key, &Garbage::Value(description.clone(), piece));
        }
    }
    Ok(())
}

/// Whoever refers to the blob refers to the same bytes at the same places as before. The old extents are
/// nobody's from here on.
pub(super) fn recoded(
    draft: &mut Draft<'_>,
    from: Option<BlobId>,
    to: &BlobDescription,
) -> Result<Outcome, Rejection> {
    let malformed = |what| pool::malformed(to.id, what);
    let blob = draft.view().blob_record(to.id)?.ok_or(Rejection::NotFound(Object::Blob(to.id)))?;
    if blob.stands_as != from {
        let needed = "as it was when it was read: read it again";
        return Err(Rejection::WrongState { object: Object::Blob(to.id), state: "written anew", needed });
    }
    let is_striped = |layout| matches!(layout, Layout::Striped { .. });
    if !is_striped(blob.layout) || !is_striped(to.layout) || blob.length != to.length {
        return Err(malformed("only a striped blob is written anew, as one of the same length"));
    }
    let Some(extents) = to.stands_as else { return Err(malformed("extents written anew have another id")) };
    if draft.view().is_taken(extents)? {
        return Err(malformed("extents written anew have an id that none had before"));
    }
    pool::check_description(to)?;
    pool::record_sets(draft, to)?;
    let stripes: Vec<StripeSetId> = to.stripes.iter().map(|set| set.id).collect();
    assert!(!stripes.is_empty(), "a blob that is written anew stands somewhere");
    let record = BlobRecord { stands_as: to.stands_as, layout: to.layout, stripes, ..blob };
    draft.put(Table::Blob, key::blob(to.id), &record);
    if let Some(old) = from {
        draft.remove(Table::StandsAs, key::blob(old));
    }
    draft.put(Table::StandsAs, key::blob(extents), &to.id);
    assert_ne!(from, to.stands_as, "what it was stays beside it until nobody reads it");
    let found = draft.view().blob_of_extents(extents)?;
    assert_eq!(found.as_ref(), Some(to), "its extents are known to be its");
    Ok(Outcome::Done)
}
