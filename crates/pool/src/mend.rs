//! Moving the shards of a failed drive to a spare while their stripe is being written.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::DriveId;
use drive::DriveError;
use erasure::Codec;

use crate::cell::HEADER_BYTES;
use crate::error::PoolError;
use crate::fetch::read_cell;
use crate::geometry::Geometry;
use crate::pool::Pool;
use crate::shard::ShardStream;
use crate::status::DriveHealth;
use crate::stripe::Stripe;

impl Pool {
    /// Waits for a stripe's rows and moves each failed shard to a spare drive, rebuilt from the others.
    ///
    /// On success every shard holds all rows, and is sealed if the stripe is.
    pub(crate) fn mend(
        &self,
        stripe: &mut Stripe,
        geometry: &Geometry,
        codec: &Codec,
    ) -> Result<(), PoolError> {
        let mut given_up: BTreeSet<DriveId> = BTreeSet::new();
        // Each round gives up at least one drive, so this ends.
        loop {
            stripe.wait_rows(1);
            let failed = stripe.failed();
            if failed.is_empty() {
                return Ok(());
            }
            if failed.len() > geometry.parity {
                let first = &stripe.shards[failed[0]];
                let is_full = |shard: &usize| {
                    let drive = self.drive(stripe.shards[*shard].drive);
                    drive.is_some_and(|drive| drive.health() == DriveHealth::Full)
                };
                if failed.iter().all(is_full) {
                    return Err(DriveError::Full { drive: first.drive, extent: first.id }.into());
                }
                return Err(PoolError::WriteLost {
                    blob: stripe.blob,
                    stripe: stripe.number,
                    lost: failed.len(),
                    parity: geometry.parity,
                });
            }
            let lost: BTreeSet<DriveId> = failed.iter().map(|shard| stripe.shards[*shard].drive).collect();
            given_up.extend(&lost);
            let mut avoid = self.unwritable();
            avoid.extend(&given_up);
            let set = self.substitute_set(&stripe.set, &lost, &avoid)?;
            tracing::warn!(blob = %stripe.blob, stripe = stripe.number, ?lost, "shards move to spare drives");
            for shard in &failed {
                let old = &stripe.shards[*shard];
                if let Some(device) = self.device(old.drive) {
                    // The drive has just failed; what stays there is found as an orphan of this epoch.
                    let _ = device.drive.delete(old.id);
                }
                stripe.shards[*shard] =
                    Arc::new(ShardStream::new(old.id, set.drives[*shard], stripe.preallocate));
            }
            stripe.set = set;
            for shard in failed.clone() {
                self.rebuild(stripe, geometry, codec, shard, &failed);
            }
        }
    }

    /// Writes all rows of a new shard; failures are noted in the shards they concern.
    fn rebuild(&self, stripe: &Stripe, geometry: &Geometry, codec: &Codec, shard: usize, failed: &[usize]) {
        let stream = &stripe.shards[shard];
        let Some(device) = self.device(stream.drive) else { return stream.fail() };
        let sources: Vec<usize> =
            (0..geometry.width()).filter(|other| !failed.contains(other)).take(geometry.data).collect();
        let mut buffers = self.mend_arena().acquire(geometry.data + 1);
        for row in 0..stripe.rows.len() {
            let target = stripe.identity(self, geometry, row, shard);
            let range = HEADER_BYTES..HEADER_BYTES + target.payload as usize;
            for (source, buffer) in sources.iter().zip(&mut buffers) {
                let identity = stripe.identity(self, geometry, row, *source);
                let from = &stripe.shards[*source];
                let cell = &mut buffer.as_mut_slice()[..range.end];
                let read = self.device(from.drive).map(|device| {
                    let offset = geometry.extent_offset(row as u64);
                    read_cell(&device, from.id, offset, &identity, 0..identity.payload as usize, cell)
                });
                if !matches!(read, Some(Ok(()))) {
                    // The next round of mending takes this shard for failed as well.
                    from.fail();
                    return stream.fail();
                }
            }
            let Some((rebuilt, present)) = buffers.split_last_mut() else { return stream.fail() };
            let present: Vec<(usize, &[u8])> = sources
                .iter()
                .zip(present.iter())
                .map(|(source, buffer)| (*source, &buffer.as_slice()[range.clone()]))
                .collect();
            let cell = &mut rebuilt.as_mut_slice()[..range.end];
            if codec.reconstruct(&present, &mut [(shard, &mut cell[range.clone()])]).is_err() {
                return stream.fail();
            }
            target.seal(cell);
            stream.append(&device, cell);
            if stream.has_failed() {
                return;
            }
        }
        if stripe.sealing {
            stream.seal(&device);
        }
    }
}
