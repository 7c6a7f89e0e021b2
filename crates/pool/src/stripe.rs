//! One stripe of a blob being written: its shards and the rows on their way.

use std::collections::VecDeque;
use std::sync::Arc;

use base::{BlobDescription, BlobId, ByteCount, Crc32c, StripeSet};
use blob::Use;
use drive::ExtentId;

use crate::arena::CellBuffer;
use crate::cell::{CellIdentity, HEADER_BYTES};
use crate::config::{STREAM_ROWS_BEHIND_MAX, WRITE_ROWS_IN_FLIGHT};
use crate::drives::{PoolDrive, Present};
use crate::gather::Gather;
use crate::geometry::Geometry;
use crate::pool::Pool;
use crate::shard::{Outgoing, ShardStream, Step};

/// By which ids a blob is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BlobNames {
    /// To the catalogue.
    pub(crate) id: BlobId,
    /// To drives, if that is another one: it was written anew.
    pub(crate) stands_as: Option<BlobId>,
}

impl BlobNames {
    /// Of a blob that has one id.
    pub(crate) fn of_new(id: BlobId) -> Self {
        BlobNames { id, stands_as: None }
    }

    pub(crate) fn extents(self) -> BlobId {
        self.stands_as.unwrap_or(self.id)
    }
}

impl From<&BlobDescription> for BlobNames {
    fn from(blob: &BlobDescription) -> Self {
        BlobNames { id: blob.id, stands_as: blob.stands_as }
    }
}

pub(crate) struct Stripe {
    pub(crate) blob: BlobNames,
    pub(crate) number: u32,
    pub(crate) set: StripeSet,
    pub(crate) shards: Vec<Arc<ShardStream>>,
    /// File bytes of each row submitted.
    pub(crate) rows: Vec<u64>,
    pub(crate) preallocate: ByteCount,
    pub(crate) whose: Use,
    in_flight: VecDeque<InFlight>,
    pub(crate) sealing: bool,
}

/// A row on its way, and the drives that have it.
struct InFlight {
    gather: Arc<Gather<usize>>,
    drives: Vec<Option<Arc<Present>>>,
}

impl Stripe {
    pub(crate) fn new(
        blob: BlobNames,
        number: u32,
        set: StripeSet,
        preallocate: ByteCount,
        whose: Use,
    ) -> Self {
        let shards = set.drives.iter().enumerate().map(|(shard, drive)| {
            let shard = u8::try_from(shard).unwrap_or(u8::MAX);
            let id = ExtentId { blob: blob.extents(), stripe: number, shard };
            Arc::new(ShardStream::new(id, *drive, preallocate).used_by(whose))
        });
        let shards = shards.collect();
        Stripe {
            blob,
            number,
            set,
            shards,
            rows: Vec::new(),
            preallocate,
            whose,
            in_flight: VecDeque::new(),
            sealing: false,
        }
    }

    /// What the cell of a shard in a row must say.
    pub(crate) fn identity(
        &self,
        pool: &Pool,
        geometry: &Geometry,
        row: usize,
        shard: usize,
    ) -> CellIdentity {
        let bytes = self.rows.get(row).copied().unwrap_or(0);
        identity(pool, geometry, self.blob, (u64::from(self.number), row as u64), bytes, shard)
    }

    /// Hands a coded row to the drives. `cells` have room for the header, and the payload, data first;
    /// `checksums` are those of their blocks.
    pub(crate) fn submit(
        &mut self,
        pool: &Pool,
        geometry: &Geometry,
        bytes: u64,
        cells: Vec<CellBuffer>,
        checksums: &[Crc32c],
    ) {
        assert!(cells.len() == self.shards.len() && !self.sealing, "a cell for each shard");
        assert!((self.rows.len() as u64) < geometry.rows_per_stripe, "a stripe has no more rows than it may");
        let is_full = |bytes: u64| bytes == geometry.row_bytes();
        assert!(self.rows.last().copied().is_none_or(is_full), "only the last row of a blob is not full");
        assert!(0 < bytes && bytes <= geometry.row_bytes(), "a row has bytes, and no more than fit");
        assert!(checksums.len().is_multiple_of(cells.len()), "each cell has as many checksums");
        self.rows.push(bytes);
        let row = self.rows.len() - 1;
        let gather = Gather::new();
        let mut drives = Vec::with_capacity(self.shards.len());
        let blocks = checksums.len() / cells.len();
        for (shard, mut cell) in cells.into_iter().enumerate() {
            let identity = self.identity(pool, geometry, row, shard);
            let ticket = gather.ticket();
            let length = HEADER_BYTES + identity.payload as usize;
            identity.seal(&mut cell.as_mut_slice()[..length], &checksums[shard * blocks..][..blocks]);
            let append = Step::Append(Outgoing::Cell(cell, length));
            drives.push(self.on_drive(pool, shard, append, move || ticket.done(shard)));
        }
        self.in_flight.push_back(InFlight { gather, drives });
    }

    /// Of a tape stream: gives memory for one more row if there is some; else waits for a row to end, if
    /// there are as many on their way as others may have.
    pub(crate) fn wait_behind<M>(&mut self, memory: impl FnOnce() -> Option<M>) -> Option<M> {
        while self.in_flight.front().is_some_and(|row| row.gather.is_complete()) {
            self.wait_rows(self.in_flight.len());
        }
        match self.in_flight.len() {
            rows if rows < WRITE_ROWS_IN_FLIGHT => None,
            rows if rows < STREAM_ROWS_BEHIND_MAX
                && let Some(memory) = memory() =>
            {
                Some(memory)
            }
            rows => {
                assert!(rows <= STREAM_ROWS_BEHIND_MAX, "no stream is further behind");
                self.wait_rows(rows);
                None
            }
        }
    }

    /// Waits until fewer than `limit` rows are on their way.
    pub(crate) fn wait_rows(&mut self, limit: usize) {
        while self.in_flight.len() >= limit.max(1) {
            let Some(InFlight { gather, drives }) = self.in_flight.pop_front() else { return };
            // A drive that was set aside may never end the job it is at.
            let away = |shard: usize| {
                drives.get(shard).is_none_or(|drive| drive.as_ref().is_none_or(|p| p.device.is_away()))
            };
            let done = gather.wait_unless(|done| (0..drives.len()).all(|s| done.contains(&s) || away(s)));
            (0..drives.len()).filter(|shard| !done.contains(shard)).for_each(|s| self.shards[s].fail());
        }
    }

    /// Queues the sync and seal of all shards behind their rows.
    pub(crate) fn seal(&mut self, pool: &Pool) {
        assert!(!self.sealing, "a stripe is sealed once");
        self.sealing = true;
        let gather = Gather::new();
        let mut drives = Vec::with_capacity(self.shards.len());
        for shard in 0..self.shards.len() {
            let ticket = gather.ticket();
            drives.push(self.on_drive(pool, shard, Step::Seal, move || ticket.done(shard)));
        }
        self.in_flight.push_back(InFlight { gather, drives });
    }

    /// The shards whose drive failed them.
    pub(crate) fn failed(&self) -> Vec<usize> {
        (0..self.shards.len()).filter(|shard| self.shards[*shard].has_failed()).collect()
    }

    /// Queues a step on the drive of a shard; a drive that is not there fails the shard.
    fn on_drive(
        &self,
        pool: &Pool,
        shard: usize,
        step: Step,
        then: impl FnOnce() + Send + 'static,
    ) -> Option<Arc<Present>> {
        let stream = &self.shards[shard];
        let present = pool.drive(stream.drive).and_then(PoolDrive::present);
        match &present {
            Some(present) => stream.queue(present, step, then),
            None => stream.fail(),
        }
        present
    }
}

/// What the cell of a shard must say, by (stripe, row within it) and the file bytes of the row.
pub(crate) fn identity(
    pool: &Pool,
    geometry: &Geometry,
    blob: impl Into<BlobNames>,
    (stripe, row): (u64, u64),
    bytes: u64,
    shard: usize,
) -> CellIdentity {
    assert!(shard < geometry.width() && row < geometry.rows_per_stripe, "the cell is one of the stripe");
    let small = |n: usize| u8::try_from(n).unwrap_or(u8::MAX);
    let word = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    let blob: BlobNames = blob.into();
    CellIdentity {
        instance: pool.config().instance,
        blob: blob.extents(),
        of: blob.stands_as.map(|_| blob.id),
        stripe: word(stripe),
        row: word(row),
        shard: small(shard),
        data: small(geometry.data),
        parity: small(geometry.parity),
        local: geometry.code.local,
        payload: word(geometry.payload(bytes) as u64),
        valid: word(geometry.valid(bytes, shard) as u64),
    }
}
