//! Repair: damaged or lost shards are written anew, whole, from the others of their stripe.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::{BlobDescription, BlobId, ByteCount, DriveId, Layout, StripeSet, StripeSetId};
use drive::ExtentId;
use erasure::Codec;

use crate::arena::CellBuffer;
use crate::cell::HEADER_BYTES;
use crate::drives::{Device, PoolDrive};
use crate::error::PoolError;
use crate::fetch::RowPlace;
use crate::gather::Gather;
use crate::geometry::Geometry;
use crate::pool::Pool;
use crate::scrub::{BadShard, RowCells, whole_row};
use crate::shard::ShardStream;
use crate::status::DriveHealth;
use crate::stripe;

/// A stripe of which shards stand on other drives now. Until the catalogue says so the old set is read; the
/// old extents are removed after that, when no reader can be in them any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MovedStripe {
    /// The stripe.
    pub stripe: u32,
    /// The set it stood on.
    pub from: StripeSetId,
    /// The set it stands on now; all of it is synced.
    pub to: StripeSet,
    /// What is to be removed afterwards; most of it is on drives that are not there.
    pub old: Vec<BadShard>,
}

/// What a repair did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Repaired {
    /// Shards written anew in their place.
    pub in_place: Vec<BadShard>,
    /// Stripes with shards on other drives, to be told to the catalogue.
    pub moved: Vec<MovedStripe>,
    /// Bytes written.
    pub bytes: ByteCount,
    /// Shards that are as bad as before, and why.
    pub failed: Vec<(BadShard, String)>,
    /// Rows or records of which fewer than k cells, or no copy, are whole: they stay as they are.
    pub lost_rows: u64,
}

/// A shard being written anew.
pub(crate) struct Target {
    pub(crate) bad: BadShard,
    pub(crate) stream: Arc<ShardStream>,
}

impl Pool {
    /// Writes the `bad` shards of a blob anew, each synced on return: in place where the drive is up (the old
    /// extent stays until the new one is durable), else on spare drives. A stripe whose rows cannot all be
    /// rebuilt is not moved, since a drive that comes back may hold what is missing.
    ///
    /// # Errors
    /// [`PoolError::Description`], [`PoolError::Code`], [`PoolError::ArenaTooSmall`],
    /// [`PoolError::SegmentOpen`]. What cannot be repaired stands in [`Repaired::failed`].
    pub fn repair(
        self: &Arc<Self>,
        blob: &BlobDescription,
        bad: &BTreeSet<BadShard>,
        pace: &mut dyn FnMut(ByteCount) -> bool,
    ) -> Result<Repaired, PoolError> {
        let mut repaired = Repaired::default();
        let mut by_stripe: BTreeMap<u32, Vec<BadShard>> = BTreeMap::new();
        bad.iter().for_each(|bad| by_stripe.entry(bad.stripe).or_default().push(*bad));
        for (number, bad) in by_stripe {
            let set = usize::try_from(number).ok().and_then(|number| blob.stripes.get(number));
            let set = set.ok_or(PoolError::Description(blob.id))?;
            let to = match self.destination(set, &bad) {
                Ok(to) => to,
                Err(error) => {
                    repaired.failed.extend(bad.iter().map(|bad| (*bad, error.to_string())));
                    continue;
                }
            };
            match blob.layout {
                Layout::Striped { data, parity } => {
                    let (geometry, codec) = self.layout(blob, (data, parity))?;
                    let coding = (&geometry, codec.as_ref());
                    self.repair_stripe(blob, coding, (number, set, &to), &bad, &mut repaired, pace)?;
                }
                Layout::Segment { .. } => {
                    self.repair_segment(blob, (set, &to), &bad, &mut repaired, pace)?;
                }
            }
        }
        Ok(repaired)
    }

    /// Where the bad shards of a stripe go: those whose drive is up stay, the others get spares.
    fn destination(&self, set: &StripeSet, bad: &[BadShard]) -> Result<StripeSet, PoolError> {
        let down = self.unwritable();
        let lost: BTreeSet<DriveId> = bad
            .iter()
            .map(|bad| bad.drive)
            .filter(|drive| down.contains(drive) && !self.is_only_full(*drive))
            .collect();
        if lost.is_empty() {
            return Ok(set.clone());
        }
        self.substitute_set(set, &lost, &down)
    }

    /// A full drive may have room for one extent in place of another.
    fn is_only_full(&self, drive: DriveId) -> bool {
        self.drive(drive).is_some_and(|drive| drive.health() == DriveHealth::Full)
    }

    fn repair_stripe(
        self: &Arc<Self>,
        blob: &BlobDescription,
        (geometry, codec): (&Geometry, &Codec),
        (number, set, to): (u32, &StripeSet, &StripeSet),
        bad: &[BadShard],
        repaired: &mut Repaired,
        pace: &mut dyn FnMut(ByteCount) -> bool,
    ) -> Result<(), PoolError> {
        let preallocate = ByteCount(geometry.extent_bytes(blob.length.0, number.into()));
        let targets = targets(blob.id, to, bad, preallocate);
        let moves = to.id != set.id;
        let first = u64::from(number) * geometry.rows_per_stripe;
        let rows = geometry.rows(blob.length.0).min(first + geometry.rows_per_stripe);
        for row in first..rows {
            let Some(place) = whole_row(blob, geometry, row) else {
                return Err(PoolError::Description(blob.id));
            };
            let cells = self.row_cells(blob, geometry, &place);
            if cells.good.len() < geometry.data {
                repaired.lost_rows += 1;
                if moves {
                    let why = "the stripe cannot be rebuilt: fewer shards than needed are whole".to_owned();
                    repaired.failed.extend(bad.iter().map(|bad| (*bad, why.clone())));
                    return Ok(());
                }
            }
            let written = self.write_row(blob, (geometry, codec), &place, cells, &targets)?;
            repaired.bytes.0 += written;
            if !pace(ByteCount(written)) {
                repaired.failed.extend(bad.iter().map(|bad| (*bad, "broken off".to_owned())));
                return Ok(());
            }
        }
        self.finish(&targets, (set, to), repaired);
        Ok(())
    }

    /// Writes one row of all targets; gives the bytes.
    fn write_row(
        self: &Arc<Self>,
        blob: &BlobDescription,
        (geometry, codec): (&Geometry, &Codec),
        place: &RowPlace,
        mut cells: RowCells,
        targets: &[Target],
    ) -> Result<u64, PoolError> {
        let payload = geometry.payload(place.part.bytes);
        let range = HEADER_BYTES..HEADER_BYTES + payload;
        let can_rebuild = cells.good.len() >= geometry.data;
        let missing: Vec<usize> = targets
            .iter()
            .map(|target| usize::from(target.bad.shard))
            .filter(|shard| !cells.good.contains_key(shard))
            .collect();
        let mut buffers = self.scrub_arena().acquire(missing.len());
        if can_rebuild {
            let good = cells.good.iter().take(geometry.data);
            let present: Vec<(usize, &[u8])> =
                good.map(|(shard, cell)| (*shard, &cell.as_slice()[range.clone()])).collect();
            let mut outputs: Vec<(usize, &mut [u8])> = missing
                .iter()
                .zip(&mut buffers)
                .map(|(shard, cell)| (*shard, &mut cell.as_mut_slice()[range.clone()]))
                .collect();
            codec.reconstruct(&present, &mut outputs)?;
        }
        for (shard, mut cell) in missing.into_iter().zip(buffers) {
            let bytes = &mut cell.as_mut_slice()[..range.end];
            if can_rebuild {
                let at = (place.stripe, place.row_in_stripe);
                stripe::identity(self, geometry, blob.id, at, place.part.bytes, shard).seal(bytes);
            } else {
                self.read_raw(blob, geometry, place, shard, bytes);
            }
            cells.good.insert(shard, cell);
        }
        let mut written = 0;
        let mut rows = Vec::with_capacity(targets.len());
        for target in targets {
            if let Some(cell) = cells.good.remove(&usize::from(target.bad.shard)) {
                written += range.end as u64;
                rows.push((target, cell));
            }
        }
        self.append(rows, range.end);
        Ok(written)
    }

    /// A cell as it lies there, whatever it is worth: a row that cannot be rebuilt must not get worse.
    fn read_raw(
        &self,
        blob: &BlobDescription,
        geometry: &Geometry,
        place: &RowPlace,
        shard: usize,
        into: &mut [u8],
    ) {
        let id = ExtentId {
            blob: blob.id,
            stripe: u32::try_from(place.stripe).unwrap_or(u32::MAX),
            shard: u8::try_from(shard).unwrap_or(u8::MAX),
        };
        let device = place.set.drives.get(shard).and_then(|drive| self.device(*drive));
        let offset = geometry.extent_offset(place.row_in_stripe);
        let read = device.map(|device| device.read(id, offset, into));
        if !matches!(read, Some(Ok(()))) {
            into.fill(0);
        }
    }

    /// Appends a cell to each target on its drive's thread, and waits.
    fn append(&self, rows: Vec<(&Target, CellBuffer)>, length: usize) {
        let jobs = rows.into_iter().map(|(target, cell)| {
            let job = move |stream: &ShardStream, device: &Device| {
                stream.append(device, &cell.as_slice()[..length]);
            };
            (target, job)
        });
        self.on_targets(jobs);
    }

    /// Runs a job for each target on its drive's thread and waits; what does not come back has failed.
    pub(crate) fn on_targets<'a, J>(&self, jobs: impl Iterator<Item = (&'a Target, J)>)
    where
        J: FnOnce(&ShardStream, &Device) + Send + 'static,
    {
        let gather = Gather::new();
        let mut asked = Vec::new();
        for (number, (target, job)) in jobs.enumerate() {
            let Some(present) = self.drive(target.stream.drive).and_then(PoolDrive::present) else {
                target.stream.fail();
                continue;
            };
            let (stream, ticket) = (Arc::clone(&target.stream), gather.ticket());
            present.write(Box::new(move |device| {
                job(&stream, device);
                drop(stream);
                ticket.done(number);
            }));
            asked.push((number, target, present));
        }
        let done = gather.wait_unless(|done| {
            asked.iter().all(|(number, _, present)| done.contains(number) || present.device.is_away())
        });
        let lost = asked.iter().filter(|(number, ..)| !done.contains(number));
        lost.for_each(|(_, target, _)| target.stream.fail());
    }

    /// Seals all targets. A stripe counts as moved only if every one of its shards did.
    pub(crate) fn finish(
        &self,
        targets: &[Target],
        (from, to): (&StripeSet, &StripeSet),
        repaired: &mut Repaired,
    ) {
        let seal = |target| (target, |stream: &ShardStream, device: &Device| stream.seal(device));
        // What stays where it is counts whether or not the stripe moves.
        let (moving, staying): (Vec<&Target>, Vec<&Target>) =
            targets.iter().partition(|target| target.stream.drive != target.bad.drive);
        let healthy = targets.iter().all(|target| !target.stream.has_failed());
        if healthy {
            self.on_targets(moving.iter().map(|target| seal(*target)));
        }
        let moved = healthy && moving.iter().all(|target| target.stream.is_sealed());
        if moved && let Some(stripe) = moving.first().map(|target| target.bad.stripe) {
            let old = moving.iter().map(|target| target.bad).collect();
            repaired.moved.push(MovedStripe { stripe, from: from.id, to: to.clone(), old });
        }
        self.on_targets(staying.iter().filter(|t| !t.stream.has_failed()).map(|target| seal(*target)));
        for target in staying {
            if target.stream.is_sealed() {
                repaired.in_place.push(target.bad);
            } else {
                repaired.failed.push((target.bad, "its drive failed while it was written".to_owned()));
            }
        }
        if !moved {
            let why = "a spare drive failed while it was written".to_owned();
            repaired.failed.extend(moving.iter().map(|target| (target.bad, why.clone())));
        }
    }

    /// Removes the extents that a move has left behind, from drives that are there. What is not there is
    /// found when its drive comes back.
    ///
    /// # Errors
    /// [`PoolError::Drive`] with the first failure after all were tried.
    pub fn remove_moved(&self, blob: BlobId, old: &[BadShard]) -> Result<(), PoolError> {
        let mut result = Ok(());
        for BadShard { stripe, shard, drive } in old {
            let Some(device) = self.device(*drive) else { continue };
            match device.drive.delete(ExtentId { blob, stripe: *stripe, shard: *shard }) {
                Ok(()) => device.space_freed(),
                Err(error) => result = result.and(Err(error.into())),
            }
        }
        result
    }
}

/// A stream for each bad shard, to the drive that it has in `to`.
pub(crate) fn targets(blob: BlobId, to: &StripeSet, bad: &[BadShard], preallocate: ByteCount) -> Vec<Target> {
    let target = |bad: &BadShard| {
        let drive = to.drives.get(usize::from(bad.shard)).copied().unwrap_or(bad.drive);
        let id = ExtentId { blob, stripe: bad.stripe, shard: bad.shard };
        Target { bad: *bad, stream: Arc::new(ShardStream::replacing(id, drive, preallocate)) }
    };
    bad.iter().map(target).collect()
}
