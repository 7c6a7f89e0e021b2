//! How full drives are with what the catalogue names, and which shard moves next so that they become equally
//! full.

use std::collections::BTreeMap;

use base::{BlobDescription, ByteCount, DriveId, Layout, StripeSet};
use cluster::{DriveFill, Fills, LevellingMove, Share};

use crate::error::PoolError;
use crate::gather::lock;
use crate::pool::Pool;
use crate::status::DriveSpace;

impl Pool {
    /// What each shard of a stripe takes on its drive, or each copy of a segment of which values have so many
    /// bytes.
    ///
    /// # Errors
    /// [`PoolError::Description`], [`PoolError::Code`], [`PoolError::ArenaTooSmall`].
    pub fn shard_bytes(
        &self,
        blob: &BlobDescription,
        stripe: u32,
        live: ByteCount,
    ) -> Result<ByteCount, PoolError> {
        match blob.layout {
            Layout::Striped { .. } => self.room_of_shard(blob, stripe),
            Layout::Segment { .. } => Ok(live),
        }
    }

    /// How full the drives are between which shards may move, if so many bytes stand on each. A drive that is
    /// being emptied, or does not work, takes no part. Sizes and room are at most a second old.
    #[must_use]
    pub fn fills(&self, used: &BTreeMap<DriveId, ByteCount>) -> Fills {
        let takes_part = |drive: &DriveSpace| drive.health.is_up() && !drive.drains;
        let fill = |drive: DriveSpace| {
            let used = used.get(&drive.id).copied().unwrap_or(ByteCount(0));
            let (total, room) = (drive.capacity, drive.room_for_files());
            (drive.id, DriveFill { group: drive.group, used, total, room })
        };
        Fills::new(self.spaces().into_iter().filter(takes_part).map(fill))
    }

    /// The shard of a stripe that moves next, so that drives become equally full: see
    /// [`cluster::StripeSets::level`].
    ///
    /// # Errors
    /// As [`Pool::shard_bytes`].
    pub fn levelling_move(
        &self,
        blob: &BlobDescription,
        (stripe, bytes): (u32, ByteCount),
        fills: &Fills,
        least: Share,
    ) -> Result<Option<LevellingMove>, PoolError> {
        let set = usize::try_from(stripe).ok().and_then(|stripe| blob.stripes.get(stripe));
        let set: &StripeSet = set.ok_or(PoolError::Description(blob.id))?;
        let room = self.room_of_shard(blob, stripe)?;
        let with_room = |(id, fill): (DriveId, &DriveFill)| {
            let room = if fill.room < room { ByteCount(0) } else { fill.room };
            (id, DriveFill { room, ..*fill })
        };
        let fills = Fills::new(fills.drives().map(with_room));
        Ok(lock(self.sets()).level(set, bytes, &fills, least))
    }
}
