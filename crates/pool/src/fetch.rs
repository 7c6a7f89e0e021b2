//! Reading the cells of one row from several drives at once.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use base::{BlobDescription, BlobId, StreamChecksums, StripeSet};
use blob::Use;
use drive::{DriveError, ExtentId};

use crate::arena::CellBuffer;
use crate::cell::{CellDamage, CellIdentity, HEADER_BYTES};
use crate::drives::{Device, PoolDrive, count};
use crate::gather::Gather;
use crate::geometry::{Geometry, RowPart};
use crate::pool::Pool;
use crate::reading::ReadPlace;
use crate::stripe;

/// Why a cell is of no use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum CellFault {
    /// The drive is not there or was set aside.
    NoDrive,
    /// The drive does not have the extent.
    NoExtent,
    /// The drive does not give it.
    Unreadable(String),
    /// This machine lacks what a read needs: nothing is known of the cell.
    Shortage(String),
    /// The extent ends before.
    Short,
    /// It can be read, but is wrong.
    Damaged(CellDamage),
}

impl CellFault {
    pub(crate) fn of(error: &DriveError) -> Self {
        match error {
            DriveError::NotFound { .. } => CellFault::NoExtent,
            // A short extent is a torn write of this one, not the loss of the drive.
            DriveError::Truncated { .. } => CellFault::Short,
            _ if error.is_shortage() => CellFault::Shortage(error.to_string()),
            _ => CellFault::Unreadable(error.to_string()),
        }
    }

    /// Whether other cells of the shard are not expected either.
    pub(crate) fn is_lost(&self) -> bool {
        !matches!(self, CellFault::Short | CellFault::Damaged(_))
    }
}

/// What is checked of a cell where it is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Check {
    /// Its header and its blocks.
    Whole,
    /// The same, and the checksums of its bytes are computed on the way if all of it is read.
    WholeAndSum,
    /// Its header: whoever computes from the blocks checks them in the same pass.
    Header,
}

/// A cell that is read, or only its header and the blocks in `blocks`.
///
/// Its memory has room for header and payload; bytes outside `blocks` stay arbitrary.
pub(crate) struct AskedCell {
    at: (ExtentId, u64),
    identity: CellIdentity,
    blocks: Range<usize>,
}

impl AskedCell {
    pub(crate) fn new(at: (ExtentId, u64), identity: CellIdentity, blocks: Range<usize>) -> Self {
        assert!(
            blocks.start.is_multiple_of(crate::cell::BLOCK_BYTES),
            "blocks are read from their beginning"
        );
        assert!(blocks.end <= identity.payload as usize, "and in the cell");
        AskedCell { at, identity, blocks }
    }

    fn is_whole(&self) -> bool {
        self.blocks == (0..self.identity.payload as usize)
    }

    /// What is read of the drive, and where to.
    pub(crate) fn place(&self) -> ReadPlace {
        let (extent, offset) = self.at;
        let payload = self.identity.payload as usize;
        if self.is_whole() {
            return ReadPlace::whole(extent, offset, HEADER_BYTES + payload);
        }
        let blocks = HEADER_BYTES + self.blocks.start..HEADER_BYTES + self.blocks.end;
        ReadPlace { extent, parts: vec![(offset, 0..HEADER_BYTES), (offset + blocks.start as u64, blocks)] }
    }

    /// Checks what came. `listed`: what is wrong is put on the list of repairs. Gives the checksums of the
    /// cell's bytes of the file if they were to be computed.
    pub(crate) fn check(
        &self,
        device: &Device,
        read: Result<(), DriveError>,
        (check, listed): (Check, bool),
        cell: &mut [u8],
    ) -> Result<Option<StreamChecksums>, CellFault> {
        let AskedCell { at, identity, blocks } = self;
        assert_eq!(cell.len(), HEADER_BYTES + identity.payload as usize, "header and payload");
        if let Err(error) = read {
            let blob = identity.owner();
            device.read_failed(blob, &error);
            let fault = CellFault::of(&error);
            if listed && !matches!(fault, CellFault::Shortage(_)) {
                device.watch.needs_repair(blob, None);
            }
            return Err(fault);
        }
        let checked = match check {
            Check::WholeAndSum if self.is_whole() => identity.verify_and_sum(cell).map(Some),
            Check::WholeAndSum | Check::Whole => identity.verify(cell, blocks).map(|()| None),
            Check::Header => identity.verify_header(cell).map(|()| None),
        };
        checked.map_err(|damage| {
            is_damaged(device, *at, damage, listed.then(|| identity.owner()));
            CellFault::Damaged(damage)
        })
    }
}

/// Takes note of a cell that is wrong. `listed`: the blob, if it is put on the list of repairs.
fn is_damaged(device: &Device, (id, offset): (ExtentId, u64), damage: CellDamage, listed: Option<BlobId>) {
    count(&device.counters.damaged, 1);
    if let Some(blob) = listed {
        device.watch.needs_repair(blob, None);
    }
    tracing::warn!(drive = %device.drive.id(), extent = %id, offset, ?damage, "damaged cell");
}

/// What came of reading one cell.
pub(crate) struct Fetched {
    pub(crate) shard: usize,
    pub(crate) cell: Result<CellBuffer, CellFault>,
    pub(crate) check: Check,
}

/// Where a row of a blob lies: everything to address its cells.
#[derive(Clone)]
pub(crate) struct RowPlace {
    pub(crate) part: RowPart,
    pub(crate) set: StripeSet,
    pub(crate) stripe: u64,
    pub(crate) row_in_stripe: u64,
    /// The payload bytes to read of each cell, in whole blocks.
    pub(crate) blocks: Range<usize>,
    /// Whether what is wrong is put on the list of repairs; whoever repairs what it reads needs no list.
    pub(crate) listed: bool,
}

impl RowPlace {
    /// `None` if the description lacks the stripe.
    pub(crate) fn new(blob: &BlobDescription, geometry: &Geometry, part: RowPart) -> Option<Self> {
        let (stripe, row_in_stripe) = geometry.place(part.row);
        let set = blob.stripes.get(usize::try_from(stripe).ok()?)?.clone();
        let payload = geometry.payload(part.bytes);
        let cells = part.cells(geometry);
        let blocks = if cells.len() == 1 {
            let within = part.within(geometry, cells.start);
            let start = within.start / crate::cell::BLOCK_BYTES * crate::cell::BLOCK_BYTES;
            start..within.end.next_multiple_of(crate::cell::BLOCK_BYTES).min(payload)
        } else {
            0..payload
        };
        assert!(blocks.start < blocks.end && blocks.end <= payload, "something is read, and of the cell");
        assert!(cells.end <= geometry.data, "what is wanted stands in data shards");
        Some(RowPlace { part, set, stripe, row_in_stripe, blocks, listed: true })
    }

    /// Queues the reading of one cell into `buffer`.
    pub(crate) fn fetch(
        &self,
        pool: &Pool,
        geometry: &Geometry,
        blob: &BlobDescription,
        (shard, buffer): (usize, CellBuffer),
        check: Check,
        gather: &Arc<Gather<Fetched>>,
    ) {
        assert!(shard < geometry.width(), "the shard is one of the code");
        let place = (self.stripe, self.row_in_stripe);
        let identity = stripe::identity(pool, geometry, blob, place, self.part.bytes, shard);
        let id = ExtentId { blob: blob.extents(), stripe: identity.stripe, shard: identity.shard };
        let offset = geometry.extent_offset(self.row_in_stripe);
        let (blocks, listed) = (self.blocks.clone(), self.listed);
        let drive = self.set.drives.get(shard).and_then(|drive| pool.drive(*drive));
        let ticket = gather.ticket();
        let Some(present) = drive.and_then(PoolDrive::present) else {
            return ticket.done(Fetched { shard, cell: Err(CellFault::NoDrive), check });
        };
        let asked = present.device.watch.now();
        let cell = AskedCell::new((id, offset), identity, blocks);
        present.read(cell.place(), buffer, move |device, mut buffer, read| {
            let bytes = &mut buffer.as_mut_slice()[..HEADER_BYTES + identity.payload as usize];
            let read = cell.check(device, read, (check, listed), bytes);
            // A repair's read waits behind all others: it says nothing of how late a client's is.
            if buffer.whose() != Use::Upkeep {
                device.watch.took(device.group(), asked);
            }
            let cell = read.map(|sums| {
                if let Some(sums) = sums {
                    buffer.keep_sums(HEADER_BYTES..HEADER_BYTES + identity.valid as usize, sums);
                }
                buffer
            });
            ticket.done(Fetched { shard, cell, check });
        });
    }

    /// The shards of this row whose drive is not there, or does not answer at present.
    pub(crate) fn missing(&self, pool: &Pool) -> BTreeSet<usize> {
        let silent = |drive| pool.device(drive).is_none_or(|device| device.is_stuck());
        let drives = self.set.drives.iter().enumerate();
        drives.filter(|(_, drive)| silent(**drive)).map(|(shard, _)| shard).collect()
    }

    /// Takes note that the blocks of a cell are wrong, which was found after it had been read.
    pub(crate) fn blocks_are_damaged(
        &self,
        pool: &Pool,
        geometry: &Geometry,
        blob: &BlobDescription,
        shard: usize,
    ) {
        let small = |n: usize| u8::try_from(n).unwrap_or(u8::MAX);
        let stripe = u32::try_from(self.stripe).unwrap_or(u32::MAX);
        let id = ExtentId { blob: blob.extents(), stripe, shard: small(shard) };
        if let Some(device) = self.set.drives.get(shard).and_then(|drive| pool.device(*drive)) {
            let place = (id, geometry.extent_offset(self.row_in_stripe));
            is_damaged(&device, place, CellDamage::Block, self.listed.then_some(blob.id));
        }
    }

    /// Takes note that a drive did not give a cell in time.
    pub(crate) fn late(&self, pool: &Pool, shard: usize) {
        if let Some(device) = self.set.drives.get(shard).and_then(|drive| pool.device(*drive)) {
            count(&device.counters.late, 1);
        }
    }
}
