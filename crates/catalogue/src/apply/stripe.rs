//! Shards that stand on other drives than before.

use base::{BlobId, StripeSet, StripeSetId};

use super::pool;
use crate::command::Outcome;
use crate::draft::Draft;
use crate::error::{Object, Rejection};
use crate::frame;
use crate::key;
use crate::record::Garbage;
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
    draft.put(Table::Blob, key::blob(id), &blob);
    // Garbage among its values carries the description by which it is removed.
    let description = draft.view().describe(id, &blob)?;
    let stands_on = description.stripes.get(number as usize).map(|set| set.id);
    assert_eq!(stands_on, Some(to.id), "garbage is removed where it stands now");
    let rows =
        draft.view().rows_within(Table::Garbage, &key::blob(id), None, usize::MAX, |_, key, value| {
            Ok((key.to_vec(), frame::open::<Garbage>(Table::Garbage, key, value)?))
        })?;
    for (key, garbage) in rows {
        if let Garbage::Value(_, piece) = garbage {
            draft.put(Table::Garbage, key, &Garbage::Value(description.clone(), piece));
        }
    }
    Ok(Outcome::Done)
}
