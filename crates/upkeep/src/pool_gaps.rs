//! Drives that were away, or were put back from an old copy, are gone through: each shard that the catalogue
//! names there is looked at, and what is missing is computed again. What is there is not read.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::{BlobId, ByteCount, DriveId};

use crate::findings::Found;
use crate::pool_rebuild;
use crate::scrub::{Scrubber, pace};
use ground::ArchiveError;

/// Blobs looked up together.
const PAGE: usize = 256;
/// About what a look at one shard costs a drive, for the pace.
const LOOK_BYTES: u64 = 4_096;

/// Goes through these drives. Those of which nothing was left out have no gaps from then on.
pub(crate) fn fill(scrubber: &mut Scrubber, drives: &BTreeSet<DriveId>) -> Result<(), ArchiveError> {
    let upkeep = Arc::clone(&scrubber.upkeep);
    tracing::warn!(?drives, "drives of the pool may lack what was written since: they are gone through");
    // A copy of an open segment may be short; the next one is opened on drives as they are now.
    upkeep.pool.seal_segments();
    scrubber.has_left_out = false;
    let (mut after, mut missing, mut first_error) = (None, 0u64, None);
    loop {
        let page = upkeep.read(|view| view.blobs(after, PAGE))?;
        let Some((last, _)) = page.last() else { break };
        after = Some(*last);
        for (id, _) in page {
            match one(scrubber, id, drives) {
                Ok(found) => missing += found,
                Err(error) => {
                    tracing::error!(blob = %id, %error, "what drives lack of a blob cannot be written anew");
                    first_error.get_or_insert(error);
                }
            }
            if upkeep.stopping() {
                return Ok(());
            }
        }
    }
    if let Some(error) = first_error {
        scrubber.has_left_out = true;
        return Err(error);
    }
    if scrubber.has_left_out {
        tracing::error!(?drives, missing, "drives lack shards that could not all be written anew");
        return Ok(());
    }
    for drive in drives {
        upkeep.pool.has_no_gaps(*drive)?;
    }
    tracing::warn!(?drives, missing, "drives were gone through: they have all that they should hold");
    Ok(())
}

/// One blob, its description read within the gate. Gives how many shards were missing.
fn one(scrubber: &mut Scrubber, id: BlobId, drives: &BTreeSet<DriveId>) -> Result<u64, ArchiveError> {
    scrubber.remove_left_behind();
    let upkeep = Arc::clone(&scrubber.upkeep);
    let reading = upkeep.gate.enter();
    let Some(blob) = upkeep.read(|view| view.blob(id))? else { return Ok(0) };
    let lacking = upkeep.pool.lacking(&blob, drives)?;
    pace(&upkeep, ByteCount(lacking.looked_at * LOOK_BYTES));
    scrubber.has_left_out |= lacking.unknown > 0;
    if lacking.bad.is_empty() {
        return Ok(0);
    }
    let missing = lacking.bad.len() as u64;
    upkeep.note(|info| info.found += missing);
    let what = "missing since the drive was away or put back";
    upkeep.found(lacking.bad.iter().map(|bad| Found::of_shard(id, bad, what)));
    let moved = pool_rebuild::repair(scrubber, &blob, &lacking.bad, 0)?;
    drop(reading);
    scrubber.leave(moved);
    Ok(missing)
}
