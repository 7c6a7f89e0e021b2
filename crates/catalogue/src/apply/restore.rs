//! The first steps of a catalogue that was restored from a backup or rebuilt from tapes.

use base::{BlobId, Epoch};

use crate::command::Outcome;
use crate::draft::Draft;
use crate::error::{Object, Rejection};

/// What ids and the numbers of changes jump to a multiple of when a catalogue is restored
/// ([`Command::AcceptRestore`](crate::Command::AcceptRestore)): no history gives so many between a backup and
/// its loss.
pub const RESTORE_JUMP: u64 = 1 << 32;

/// The next multiple, never `next` itself, so that a second restore of the same backup jumps as well.
fn jumped(next: u64) -> Option<u64> {
    (next / RESTORE_JUMP).checked_add(1)?.checked_mul(RESTORE_JUMP)
}

/// The number from which all ids and changes go on since the last restore before that change; 0 if there was
/// none.
pub(crate) fn level_of(change: u64) -> u64 {
    change / RESTORE_JUMP * RESTORE_JUMP
}

/// How many changes came behind `change`, which may be 0. What a restore has left out counts for nothing.
#[must_use]
pub fn changes_behind(change: u64, last: u64) -> u64 {
    if change / RESTORE_JUMP == last / RESTORE_JUMP {
        last.saturating_sub(change)
    } else {
        last % RESTORE_JUMP
    }
}

pub(super) fn accept(
    draft: &mut Draft<'_>,
    epoch: Epoch,
    after: u64,
    seen: u64,
) -> Result<Outcome, Rejection> {
    let mut meta = draft.meta()?;
    if meta.next_change.checked_sub(1) != Some(after) {
        let what = "the catalogue does not stand at the change that was restored";
        return Err(Rejection::Malformed { object: Object::Change(after), what });
    }
    let epoch = epoch.max(meta.epoch);
    if epoch.0 >= BlobId::EPOCH_MAX {
        let limit = u64::from(BlobId::EPOCH_MAX);
        return Err(Rejection::LimitExceeded { what: "starts of the writer", limit });
    }
    let ids = [
        &mut meta.next_file,
        &mut meta.next_container,
        &mut meta.next_request,
        &mut meta.next_run,
        &mut meta.next_change,
    ];
    // One level for all, above everything that drives and tapes have seen of histories that were given up.
    let highest = ids.iter().map(|id| **id).fold(seen, u64::max);
    let what = "restores of a catalogue";
    let level = jumped(highest).ok_or(Rejection::LimitExceeded { what, limit: u64::MAX / RESTORE_JUMP })?;
    assert!(level > highest, "ids go on above all that histories that were given up may have used");
    assert_eq!(level_of(level), level, "the level of a restore is told from its first change");
    for id in ids {
        *id = level;
    }
    meta.epoch = epoch;
    meta.quarantine = meta.quarantine.max(Some(epoch));
    meta.restored = true;
    assert!(meta.quarantine >= Some(meta.epoch), "no blob of an epoch so far is taken for garbage");
    draft.change_meta(|record| *record = meta)?;
    Ok(Outcome::Done)
}

pub(super) fn settled(draft: &mut Draft<'_>) -> Result<Outcome, Rejection> {
    if draft.meta()?.restored {
        draft.change_meta(|meta| meta.restored = false)?;
    }
    Ok(Outcome::Done)
}

pub(super) fn end_quarantine(draft: &mut Draft<'_>) -> Result<Outcome, Rejection> {
    if draft.meta()?.quarantine.is_some() {
        draft.change_meta(|meta| meta.quarantine = None)?;
    }
    Ok(Outcome::Done)
}
