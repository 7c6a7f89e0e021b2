//! Further copies of segments of small files, as a change of code asks for them.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::{BlobDescription, BlobId, ByteCount, DriveId, Layout, StripeSet};
use catalogue::Command;

use crate::Upkeep;
use crate::pool_rebuild::with_sealed;
use crate::scrub::{Scrubber, pace};
use ground::ArchiveError;
use pool::BadShard;

/// What came of it.
pub(crate) enum Copies {
    /// They are there.
    Written,
    /// Not all of them, for a reason that may pass.
    Failed(String),
    /// The segment has gone, or has enough.
    NotNeeded,
}

impl Scrubber {
    /// Gives a segment as many copies as new ones get. The catalogue is told of all together, when all are
    /// synced.
    pub(crate) fn copy_segment(&mut self, id: BlobId) -> Result<Copies, ArchiveError> {
        let upkeep = Arc::clone(&self.upkeep);
        let _reading = upkeep.gate.enter();
        let Some(blob) = lacking_copies(&upkeep, id)? else { return Ok(Copies::NotNeeded) };
        let mut pacing = |bytes: ByteCount| pace(&upkeep, bytes);
        let written = with_sealed(&upkeep, || upkeep.pool.add_copies(&blob, &mut pacing));
        if upkeep.stopping() {
            return Err(ArchiveError::Stopping);
        }
        let copied = match written {
            Ok(copied) => copied,
            Err(error) => return Ok(Copies::Failed(error.to_string())),
        };
        let told = match copied.failure {
            Some(why) => Ok(Copies::Failed(why)),
            None => tell(&upkeep, &blob, copied.to),
        };
        let is_no_use = match &told {
            Ok(Copies::Written) => false,
            Ok(_) => true,
            Err(error) => error.is_certain_refusal(),
        };
        if is_no_use {
            give_up(&upkeep, &blob, &copied.further)?;
        }
        told
    }
}

/// Tells the catalogue of copies that are synced.
fn tell(upkeep: &Upkeep, blob: &BlobDescription, to: StripeSet) -> Result<Copies, ArchiveError> {
    let Some(from) = blob.stripes.first().map(|set| set.id) else { return Ok(Copies::NotNeeded) };
    let layout = Layout::Segment { copies: u8::try_from(to.drives.len()).unwrap_or(u8::MAX) };
    let anew = BlobDescription { layout, stripes: vec![to.clone()], ..blob.clone() };
    // A drive may have lost what it had synced. Those that had a copy before may have a shorter one, of a
    // segment that was given up after a failed write.
    let further: BTreeSet<DriveId> = anew.drives().difference(&blob.drives()).copied().collect();
    let lacking = upkeep.pool.lacking(&anew, &further)?;
    if !lacking.bad.is_empty() || lacking.unknown > 0 {
        let why = "a drive lacks its copy of the segment, or does not answer".to_owned();
        return Ok(Copies::Failed(why));
    }
    upkeep.execute(Command::CopySegment { blob: blob.id, from, to })?;
    Ok(Copies::Written)
}

/// Removes copies that the catalogue does not name: nobody reads them.
fn give_up(upkeep: &Upkeep, blob: &BlobDescription, further: &[BadShard]) -> Result<(), ArchiveError> {
    let is_named = |copy: &BadShard| {
        upkeep.read(|view| view.is_known_extent(blob.extents(), (copy.stripe, copy.shard), copy.drive))
    };
    let mut unnamed = Vec::new();
    for copy in further {
        unnamed.extend((!is_named(copy)?).then_some(*copy));
    }
    // What stays is found by the look at extents that nothing names.
    if let Err(error) = upkeep.pool.remove_moved(blob.extents(), &unnamed) {
        tracing::debug!(segment = %blob.id, %error, "copies that are of no use stay for now");
    }
    Ok(())
}

/// The segment, if it is one with fewer copies than new ones get.
fn lacking_copies(upkeep: &Upkeep, id: BlobId) -> Result<Option<BlobDescription>, ArchiveError> {
    let blob = upkeep.read(|view| view.blob(id))?;
    Ok(blob.filter(|blob| upkeep.pool.lacks_copies(blob.layout)))
}
