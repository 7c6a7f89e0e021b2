//! Moving the shards of a failed drive to a spare while their stripe is being written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::{ByteCount, DriveId};
use blob::Use;
use drive::{AlignedBuffer, DriveError};

use crate::cell::{HEADER_BYTES, checksums_of};
use crate::code::Code;
use crate::drives::{Device, PoolDrive};
use crate::error::PoolError;
use crate::fetch::{AskedCell, Check};
use crate::gather::Gather;
use crate::geometry::Geometry;
use crate::pool::Pool;
use crate::shard::{Outgoing, ShardStream, Step};
use crate::stripe::Stripe;

impl Pool {
    /// What a write failed of whose extents on these drives failed: full drives, or else `lost`.
    pub(crate) fn full_or<'s>(
        &self,
        failed: impl Iterator<Item = &'s ShardStream> + Clone,
        lost: PoolError,
    ) -> PoolError {
        let is_full = |stream: &ShardStream| self.drive(stream.drive).is_some_and(PoolDrive::is_full);
        match failed.clone().next() {
            Some(first) if failed.clone().all(is_full) => {
                DriveError::Full { drive: first.drive, extent: first.id }.into()
            }
            _ => lost,
        }
    }

    /// Waits for a stripe's rows and moves each failed shard to a spare drive, rebuilt from the others.
    ///
    /// On success every shard holds all rows, and is sealed if the stripe is.
    pub(crate) fn mend(
        &self,
        stripe: &mut Stripe,
        geometry: &Geometry,
        code: &Code,
    ) -> Result<(), PoolError> {
        let mut given_up: BTreeSet<DriveId> = BTreeSet::new();
        // Each round gives up at least one drive, so this ends.
        loop {
            stripe.wait_rows(1);
            let failed = stripe.failed();
            if failed.is_empty() {
                return Ok(());
            }
            let whole: Vec<usize> = (0..geometry.width()).filter(|shard| !failed.contains(shard)).collect();
            if !code.determines(&whole, &failed) {
                let lost = PoolError::WriteLost {
                    blob: stripe.blob.id,
                    stripe: stripe.number,
                    lost: failed.len(),
                    borne: geometry.code.bears(),
                };
                let failed = failed.iter().map(|shard| &*stripe.shards[*shard]);
                return Err(self.full_or(failed, lost));
            }
            let lost: BTreeSet<DriveId> = failed.iter().map(|shard| stripe.shards[*shard].drive).collect();
            let before = given_up.len();
            given_up.extend(&lost);
            assert!(given_up.len() > before, "each round gives up at least one drive, so this ends");
            let written = geometry.extent_offset(stripe.rows.len() as u64);
            let bytes = stripe.preallocate.max(ByteCount(written));
            let mut avoid = self.unwritable_for(bytes, stripe.whose);
            avoid.extend(&given_up);
            let set = self.substitute_set(&stripe.set, &lost, &avoid)?;
            assert_eq!(set.drives.len(), stripe.shards.len(), "each shard has a drive");
            let is_new = |shard: &usize| !given_up.contains(&set.drives[*shard]);
            assert!(failed.iter().all(is_new), "no shard moves to a drive that was given up");
            let (blob, number) = (stripe.blob.id, stripe.number);
            tracing::warn!(%blob, stripe = number, ?lost, "shards move to spare drives");
            for shard in &failed {
                let old = &stripe.shards[*shard];
                // The drive has just failed; what stays there is found as an orphan of this epoch.
                // Not as space that came free: a full drive would be tried again at once.
                let id = old.id;
                let delete = move |device: &Device| device.drive.delete(id);
                let _ = self.on_writers(std::iter::once((old.drive, delete)));
                stripe.shards[*shard] =
                    Arc::new(ShardStream::new(old.id, set.drives[*shard], stripe.preallocate));
            }
            stripe.set = set;
            for shard in failed.clone() {
                self.rebuild(stripe, geometry, code, shard, &whole);
            }
        }
    }

    /// Writes all rows of a new shard; failures are noted in the shards they concern.
    fn rebuild(&self, stripe: &Stripe, geometry: &Geometry, code: &Code, shard: usize, whole: &[usize]) {
        let stream = &stripe.shards[shard];
        let Some(sources) = code.sources(whole, &[shard]) else { return stream.fail() };
        // Room for what the drives' threads hold; theirs is not the arena's, which a drive that hangs would
        // keep from all others.
        let _room = self.mend_arena().acquire(sources.len() + 1, Use::Engine);
        for row in 0..stripe.rows.len() {
            let target = stripe.identity(self, geometry, row, shard);
            let range = HEADER_BYTES..HEADER_BYTES + target.payload as usize;
            let cells = self.gather_row(stripe, geometry, row, &sources);
            let missing = sources.iter().filter(|source| !cells.contains_key(source));
            // The next round of mending takes these shards for failed as well.
            missing.for_each(|source| stripe.shards[*source].fail());
            if cells.len() < sources.len() {
                return stream.fail();
            }
            let present: Vec<(usize, &[u8])> =
                cells.iter().map(|(source, cell)| (*source, &cell.as_slice()[range.clone()])).collect();
            let mut rebuilt = AlignedBuffer::new(range.end);
            let cell = rebuilt.as_mut_slice();
            if code.reconstruct(&present, &mut [(shard, &mut cell[range.clone()])]).is_err() {
                return stream.fail();
            }
            let checksums = checksums_of(&cell[range.clone()]);
            target.seal(cell, &checksums);
            self.on_stream(stream, Step::Append(Outgoing::Pages(rebuilt)));
            if stream.has_failed() {
                return;
            }
        }
        if stripe.sealing {
            self.on_stream(stream, Step::Seal);
        }
    }

    /// Reads the cells of a row; those that cannot be had are missing.
    fn gather_row(
        &self,
        stripe: &Stripe,
        geometry: &Geometry,
        row: usize,
        sources: &[usize],
    ) -> BTreeMap<usize, AlignedBuffer> {
        let gather = Gather::new();
        let mut asked = Vec::new();
        for source in sources.iter().copied() {
            let identity = stripe.identity(self, geometry, row, source);
            let from = &stripe.shards[source];
            let Some(present) = self.drive(from.drive).and_then(PoolDrive::present) else { continue };
            let (id, offset, ticket) = (from.id, geometry.extent_offset(row as u64), gather.ticket());
            let asked_for = AskedCell::new((id, offset), identity, 0..identity.payload as usize);
            let cell = AlignedBuffer::new(HEADER_BYTES + identity.payload as usize);
            present.read(asked_for.place(), cell, move |device, mut cell, read| {
                let read = asked_for.check(device, read, (Check::Whole, true), cell.as_mut_slice());
                ticket.done((source, read.map(|_| cell)));
            });
            asked.push((source, present));
        }
        let came = gather.wait_unless(|came| {
            let is_in = |source: usize| came.iter().any(|(other, _)| *other == source);
            asked.iter().all(|(source, present)| is_in(*source) || present.device.is_away())
        });
        came.into_iter().filter_map(|(source, cell)| Some((source, cell.ok()?))).collect()
    }

    /// Has a step done on a shard's drive and waits; the shard fails if the drive is set aside.
    fn on_stream(&self, stream: &Arc<ShardStream>, step: Step) {
        let Some(present) = self.drive(stream.drive).and_then(PoolDrive::present) else {
            return stream.fail();
        };
        let gather = Gather::new();
        let ticket = gather.ticket();
        stream.queue(&present, step, move || ticket.done(()));
        if gather.wait_unless(|_| present.device.is_away()).is_empty() {
            stream.fail();
        }
    }
}
