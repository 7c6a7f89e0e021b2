//! Further copies of segments that have fewer than new ones get, since the code bears more losses by now.

use std::sync::Arc;

use base::{BlobDescription, ByteCount, Layout, StripeSet};

use crate::error::PoolError;
use crate::pool::Pool;
use crate::repair::Repaired;
use crate::scrub::BadShard;

/// What came of further copies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Copied {
    /// Where the segment is to stand, first on the drives on which it stands.
    pub to: StripeSet,
    /// The further copies, written or not.
    pub further: Vec<BadShard>,
    /// Why it is not to stand there for now: not all copies are written. The first reason.
    pub failure: Option<String>,
}

impl Pool {
    /// Whether a segment has fewer copies than new ones get.
    #[must_use]
    pub fn lacks_copies(&self, layout: Layout) -> bool {
        matches!(layout, Layout::Segment { copies } if copies < self.config().segment_copies)
    }

    /// Writes further copies of a sealed segment, each synced on return, until it has as many as new ones
    /// get: with every record that any copy has whole. The catalogue names them afterwards; until then they
    /// are extents that nothing names.
    ///
    /// # Errors
    /// [`PoolError::SegmentOpen`], [`PoolError::Description`]; too few drives, or none with room.
    pub fn add_copies(
        self: &Arc<Self>,
        blob: &BlobDescription,
        pace: &mut dyn FnMut(ByteCount) -> bool,
    ) -> Result<Copied, PoolError> {
        let Some(set) = blob.stripes.first().filter(|_| matches!(blob.layout, Layout::Segment { .. })) else {
            return Err(PoolError::Description(blob.id));
        };
        let room = self.room_of_shard(blob, 0)?;
        let mut avoid = self.unwritable();
        avoid.extend(self.without_room_for(room));
        let to = self.widened_set(set, self.config().segment_copies.into(), &avoid)?;
        let further = (0u8..).zip(&to.drives).skip(set.drives.len());
        let further: Vec<BadShard> =
            further.map(|(shard, drive)| BadShard { stripe: 0, shard, drive: *drive }).collect();
        let mut repaired = Repaired::default();
        self.repair_segment(blob, (set, &to), &further, &mut repaired, pace)?;
        let written = repaired.in_place.len() + repaired.failed.len();
        assert_eq!(written, further.len(), "each copy is written, or it is said why not");
        let failure = repaired.failed.into_iter().next().map(|(_, why)| why);
        Ok(Copied { to, further, failure })
    }
}
