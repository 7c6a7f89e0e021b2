//! Further copies of segments of small files, as a change of code asks for them.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::{BlobDescription, BlobId, ByteCount, DriveId, Layout};
use catalogue::Command;

use crate::Upkeep;
use crate::pool_rebuild::with_sealed;
use crate::scrub::{Scrubber, pace};
use ground::ArchiveError;

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
        if let Some(why) = copied.failure {
            return Ok(Copies::Failed(why));
        }
        let Some(from) = blob.stripes.first().map(|set| set.id) else { return Ok(Copies::NotNeeded) };
        let copies = u8::try_from(copied.to.drives.len()).unwrap_or(u8::MAX);
        let before = blob.drives();
        let anew =
            BlobDescription { layout: Layout::Segment { copies }, stripes: vec![copied.to.clone()], ..blob };
        // A drive may have lost what it had synced. Those that had a copy before may have a shorter one, of a
        // segment that was given up after a failed write.
        let further: BTreeSet<DriveId> = anew.drives().difference(&before).copied().collect();
        let lacking = upkeep.pool.lacking(&anew, &further)?;
        if !lacking.bad.is_empty() || lacking.unknown > 0 {
            let why = "a drive lacks its copy of the segment, or does not answer".to_owned();
            return Ok(Copies::Failed(why));
        }
        upkeep.execute(Command::CopySegment { blob: id, from, to: copied.to })?;
        Ok(Copies::Written)
    }
}

/// The segment, if it is one with fewer copies than new ones get.
fn lacking_copies(upkeep: &Upkeep, id: BlobId) -> Result<Option<BlobDescription>, ArchiveError> {
    let blob = upkeep.read(|view| view.blob(id))?;
    Ok(blob.filter(|blob| upkeep.pool.lacks_copies(blob.layout)))
}
