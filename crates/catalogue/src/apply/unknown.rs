//! Extents on the pool's drives that nothing names: since when that is known.

use base::Timestamp;

use super::limit;
use crate::command::{Outcome, UNKNOWN_BATCH_MAX};
use crate::draft::Draft;
use crate::error::Rejection;
use crate::key;
use crate::record::UnknownExtent;
use crate::table::Table;

pub(super) fn note(
    draft: &mut Draft<'_>,
    found: &[UnknownExtent],
    gone: &[UnknownExtent],
) -> Result<Outcome, Rejection> {
    limit("unknown extents of a command", found.len().max(gone.len()), UNKNOWN_BATCH_MAX)?;
    for extent in found {
        if draft.view().get::<Timestamp>(Table::Unknown, &key::unknown(extent))?.is_none() {
            let at = draft.at;
            draft.put(Table::Unknown, key::unknown(extent), &at);
        }
    }
    for extent in gone {
        draft.remove(Table::Unknown, key::unknown(extent));
    }
    Ok(Outcome::Done)
}
