//! What runs out: pins, answers, garbage, the change log.

use std::collections::BTreeSet;

use base::{BlobDescription, BlobId, BlobPiece, FileId, RequestId, Timestamp};

use super::request::paths;
use super::{cold, limit};
use crate::command::{IDEMPOTENCY_KEPT, Outcome};
use crate::draft::Draft;
use crate::encoding::Nothing;
use crate::error::Rejection;
use crate::frame;
use crate::key;
use crate::record::{Garbage, IdempotencyRecord};
use crate::table::Table;

/// Most rows in one `GarbageRemoved`, and most changes dropped by one `TrimChanges`.
pub(super) const ROWS_MAX: usize = 100_000;

fn dropped(count: usize) -> Result<Outcome, Rejection> {
    Ok(Outcome::Dropped(u32::try_from(count).unwrap_or(u32::MAX)))
}

pub(super) fn expire_pins(draft: &mut Draft<'_>, most: usize) -> Result<Outcome, Rejection> {
    let end = key::pin_expiry_end(draft.at);
    let pins = draft.view().rows(Table::PinExpiry, &[], end.as_deref(), most, |mut parts, key, value| {
        frame::open::<Nothing>(Table::PinExpiry, key, value)?;
        parts.time()?;
        Ok((key.to_vec(), FileId(parts.u64()?), RequestId(parts.u64()?)))
    })?;
    let count = pins.len();
    let mut holders = BTreeSet::new();
    for (key, file, request) in pins {
        draft.remove(Table::PinExpiry, key);
        draft.remove(Table::Pin, key::pin(file, request));
        cold::leave(draft, file)?;
        holders.insert(request);
    }
    for request in holders {
        paths::differ(draft, request)?;
    }
    dropped(count)
}

pub(super) fn expire_idempotency(draft: &mut Draft<'_>, most: usize) -> Result<Outcome, Rejection> {
    let kept = i64::try_from(IDEMPOTENCY_KEPT.as_nanos()).unwrap_or(i64::MAX);
    let oldest = Timestamp(draft.at.0.saturating_sub(kept));
    let end = key::time_bytes(oldest);
    let rows = draft.view().rows(Table::IdempotencyAge, &[], Some(&end), most, |mut parts, key, value| {
        frame::open::<Nothing>(Table::IdempotencyAge, key, value)?;
        parts.time()?;
        Ok((key.to_vec(), parts.digest()?))
    })?;
    let count = rows.len();
    for (key, idempotency) in rows {
        draft.view().expect::<IdempotencyRecord>(Table::Idempotency, &idempotency)?;
        draft.remove(Table::IdempotencyAge, key);
        draft.remove(Table::Idempotency, idempotency.to_vec());
    }
    dropped(count)
}

/// What is not known as garbage is passed over, so that a repeat does no harm.
pub(super) fn garbage_removed(
    draft: &mut Draft<'_>,
    blobs: &[BlobId],
    values: &[BlobPiece],
) -> Result<Outcome, Rejection> {
    limit("blobs and values in one command", blobs.len().saturating_add(values.len()), ROWS_MAX)?;
    let whole = blobs.iter().map(|blob| key::garbage(*blob, key::WHOLE_BLOB));
    let single = values.iter().map(|value| key::garbage(value.blob, value.offset));
    for key in whole.chain(single) {
        if let Some(garbage) = draft.view().get::<Garbage>(Table::Garbage, &key)? {
            if let Garbage::Blob(BlobDescription { stands_as: Some(extents), .. }) = garbage {
                draft.remove(Table::StandsAs, key::blob(extents));
            }
            draft.remove(Table::Garbage, key);
        }
    }
    Ok(Outcome::Done)
}

/// The changes that were dropped are not in a base, and a catalogue that was made from one has none of them:
/// so this writes a record whatever it drops, or it would be a change in one of them and none in the other.
pub(super) fn trim_changes(draft: &mut Draft<'_>, through: u64, most: usize) -> Result<Outcome, Rejection> {
    let end = through.checked_add(1).map(key::change);
    let keys = draft.view().rows(Table::Change, &[], end.as_deref(), most, |_, key, _| Ok(key.to_vec()))?;
    let count = keys.len();
    for key in keys {
        draft.remove(Table::Change, key);
    }
    let known: Option<u64> = draft.view().get(Table::Trimmed, key::CLOCK)?;
    draft.put(Table::Trimmed, key::CLOCK.to_vec(), &known.unwrap_or(0).max(through));
    dropped(count)
}
