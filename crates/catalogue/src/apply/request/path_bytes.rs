//! How many bytes the paths have that requests keep, for each who asks: what is not there costs nothing else.

use std::collections::BTreeMap;
use std::ops::Range;

use base::RequestId;

use crate::command::{AskedPath, KEPT_PATH_BYTES_MAX, Outcome};
use crate::draft::Draft;
use crate::error::{ReadError, Rejection};
use crate::frame;
use crate::key;
use crate::record::{PathPlace, RequestPath, Rule};
use crate::table::Table;

/// Paths are counted from now on: those that requests have already come to be counted bit by bit.
pub(in crate::apply) fn begin(draft: &mut Draft<'_>) -> Result<(), Rejection> {
    if draft.view().has_paths()? {
        draft.put(
            Table::PathBytesBehind,
            key::CLOCK.to_vec(),
            &PathPlace { request: RequestId(0), number: 0 },
        );
    }
    Ok(())
}

/// Goes on through the paths that are older than their count, `most` at a time.
pub(in crate::apply) fn count_some(draft: &mut Draft<'_>, most: usize) -> Result<Outcome, Rejection> {
    let Some(behind) = draft.view().path_bytes_behind()? else { return Ok(Outcome::More(false)) };
    let from = key::request_path(behind.request, behind.number);
    let rows = draft.view().rows(Table::RequestPath, &from, None, most, |mut parts, key, value| {
        let place = PathPlace { request: RequestId(parts.u64()?), number: parts.u32()? };
        let row: RequestPath = frame::open(Table::RequestPath, key, value)?;
        Ok((place, row.path.len() as u64))
    })?;
    let mut requests: BTreeMap<RequestId, u64> = BTreeMap::new();
    for (place, length) in &rows {
        *requests.entry(place.request).or_default() += length;
    }
    for (request, bytes) in requests {
        let owner = super::find(draft, request)?.owner;
        change(draft, &owner, |kept| kept.checked_add(bytes))?;
    }
    let more = rows.len() == most;
    match rows.last().filter(|_| more) {
        Some((last, _)) => {
            let next = PathPlace { number: last.number.saturating_add(1), ..*last };
            assert!(next > behind, "each part goes on where the last one ended");
            draft.put(Table::PathBytesBehind, key::CLOCK.to_vec(), &next);
        }
        None => draft.remove(Table::PathBytesBehind, key::CLOCK.to_vec()),
    }
    Ok(Outcome::More(more))
}

/// Paths are added to a request of this owner, the first one of this number.
pub(super) fn add(
    draft: &mut Draft<'_>,
    owner: &str,
    (request, number): (RequestId, u32),
    paths: &[AskedPath],
) -> Result<(), Rejection> {
    if !draft.view().holds(Rule::PathsCounted)? {
        return Ok(());
    }
    let bytes: u64 = paths.iter().map(|asked| asked.path.len() as u64).sum();
    let kept = draft.view().path_bytes(owner)?;
    // What is older than the count may be more than anybody may have.
    if kept.saturating_add(bytes) > KEPT_PATH_BYTES_MAX {
        let what = "bytes of paths that requests of a caller keep";
        return Err(Rejection::LimitExceeded { what, limit: KEPT_PATH_BYTES_MAX });
    }
    // All of them or none: the count goes on behind the last path that the request had.
    let is_counted = draft.view().counted_paths()?;
    if is_counted(request, number) {
        change(draft, owner, |kept| kept.checked_add(bytes))?;
    }
    Ok(())
}

/// Paths of these numbers are removed.
pub(super) fn take(
    draft: &mut Draft<'_>,
    owner: &str,
    request: RequestId,
    numbers: Range<u32>,
) -> Result<(), Rejection> {
    let is_counted = draft.view().counted_paths()?;
    let mut bytes = 0;
    for number in numbers.filter(|number| is_counted(request, *number)) {
        let row: RequestPath =
            draft.view().expect(Table::RequestPath, &key::request_path(request, number))?;
        bytes += row.path.len() as u64;
    }
    change(draft, owner, |kept| kept.checked_sub(bytes))
}

/// Counts what an owner keeps anew; `None`: it was miscounted.
fn change(
    draft: &mut Draft<'_>,
    owner: &str,
    count: impl FnOnce(u64) -> Option<u64>,
) -> Result<(), Rejection> {
    let key = key::path_bytes(owner);
    let before = draft.view().path_bytes(owner)?;
    let after = count(before).ok_or_else(|| ReadError::inconsistent(Table::PathBytes, &key))?;
    match after {
        after if after == before => {}
        0 => draft.remove(Table::PathBytes, key),
        after => draft.put(Table::PathBytes, key, &after),
    }
    Ok(())
}
