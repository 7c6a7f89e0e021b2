//! Scrubbing: every cell of every shard, and every copy of small values, read and checked.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use base::{BlobDescription, BlobId, BlobPiece, ByteCount, DriveId, Layout, StripeCode};
use blob::Use;

use crate::arena::CellBuffer;
use crate::cell::{CellDamage, HEADER_BYTES};
use crate::code::Code;
use crate::drives::PoolDrive;
use crate::error::PoolError;
use crate::fetch::{CellFault, Check, Fetched, RowPlace};
use crate::gather::Gather;
use crate::geometry::{Geometry, RowPart};
use crate::pool::Pool;

/// Findings that a report lists; more are counted only.
pub(crate) const FINDINGS_MAX: usize = 1_000;

/// A shard of a stripe, or a copy of a segment, that is not whole.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BadShard {
    /// The stripe; 0 for a segment.
    pub stripe: u32,
    /// The shard, or the copy.
    pub shard: u8,
    /// The drive that should hold it.
    pub drive: DriveId,
}

impl fmt::Display for BadShard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BadShard { stripe, shard, drive } = self;
        write!(f, "stripe {stripe}, shard {shard}, drive {drive}")
    }
}

/// What is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The drive is not there, does not answer, or is lost.
    NoDrive,
    /// The drive does not have the extent.
    NoExtent,
    /// The drive refuses to read it, with the reason.
    Unreadable(String),
    /// The extent is too short: a torn write.
    Short,
    /// It was read, but is not what was written: header, place or bytes.
    Damaged(CellDamage),
    /// Every cell of the row is whole, but this parity cell does not belong to the data.
    Parity,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::NoDrive => f.write_str("the drive is not there"),
            Fault::NoExtent => f.write_str("the extent is gone"),
            Fault::Unreadable(reason) => write!(f, "cannot be read: {reason}"),
            Fault::Short => f.write_str("the extent is too short (torn)"),
            Fault::Damaged(CellDamage::Header) => f.write_str("the header's checksum is wrong"),
            Fault::Damaged(CellDamage::Identity) => {
                f.write_str("another cell stands in this place (lost or misdirected write)")
            }
            Fault::Damaged(CellDamage::Block) => f.write_str("the checksum of a block is wrong"),
            Fault::Damaged(CellDamage::Void) => {
                f.write_str("the row could not be computed when the shard was written anew")
            }
            Fault::Parity => f.write_str("the parity does not belong to the data"),
        }
    }
}

/// One thing found: a cell or record, or for a drive or extent that is gone a whole shard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The blob.
    pub blob: BlobId,
    /// Where.
    pub shard: BadShard,
    /// The row within the stripe; for a segment the record's offset; `None`: the whole shard.
    pub row: Option<u64>,
    /// What is wrong.
    pub fault: Fault,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "blob {}, {}", self.blob, self.shard)?;
        match self.row {
            Some(row) => write!(f, ", row {row}: {}", self.fault),
            None => write!(f, ": {}", self.fault),
        }
    }
}

/// What scrubbing a blob found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ScrubReport {
    /// Bytes read from drives.
    pub bytes: ByteCount,
    /// Cells or records checked.
    pub checked: u64,
    /// What is wrong, the first thousand.
    pub findings: Vec<Finding>,
    /// How much is wrong in all.
    pub found: u64,
    /// The shards concerned, to be given to [`Pool::repair`].
    pub bad: BTreeSet<BadShard>,
    /// Bytes of the blob (offset, length) that cannot be read at present, damaged beyond what redundancy
    /// bears. For a segment the records' offsets and the values' lengths.
    pub lost: Vec<(ByteCount, ByteCount)>,
    /// `false` if it was broken off, or this machine lacked descriptors or memory for a part.
    pub complete: bool,
}

impl ScrubReport {
    pub(crate) fn find(&mut self, blob: BlobId, shard: BadShard, row: Option<u64>, fault: Fault) {
        self.found += 1;
        assert!((self.findings.len() as u64) < self.found, "each finding that is told was counted");
        self.bad.insert(shard);
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(Finding { blob, shard, row, fault });
        }
    }

    /// Whether all is as it should be.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.found == 0 && self.lost.is_empty()
    }
}

/// What became of the cells of one row.
pub(crate) struct RowCells {
    pub(crate) good: BTreeMap<usize, CellBuffer>,
    pub(crate) bad: BTreeMap<usize, CellFault>,
}

impl RowCells {
    /// The shards whose cells are good, ascending.
    pub(crate) fn good_shards(&self) -> Vec<usize> {
        self.good.keys().copied().collect()
    }
}

/// Cells of one row that drives were asked for.
pub(crate) struct AskedCells {
    place: RowPlace,
    shards: BTreeSet<usize>,
    /// Those whose drives answered.
    asked: BTreeSet<usize>,
    gather: Arc<Gather<Fetched>>,
}

impl AskedCells {
    /// The memory that they have, in cells.
    pub(crate) fn cells(&self) -> usize {
        self.asked.len()
    }

    /// Waits for them.
    pub(crate) fn wait(self, pool: &Pool) -> (RowPlace, RowCells) {
        let AskedCells { place, shards, asked, gather } = self;
        let mut cells = RowCells { good: BTreeMap::new(), bad: BTreeMap::new() };
        for Fetched { shard, cell, .. } in pool.wait_for_cells(&gather, &place, &asked) {
            match cell {
                Ok(cell) => drop(cells.good.insert(shard, cell)),
                Err(fault) => drop(cells.bad.insert(shard, fault)),
            }
        }
        let count = shards.len();
        for shard in shards {
            if !cells.good.contains_key(&shard) {
                // Its drive was set aside, or was not there before.
                cells.bad.entry(shard).or_insert(CellFault::NoDrive);
            }
        }
        assert_eq!(cells.good.len() + cells.bad.len(), count, "each cell is good or bad");
        (place, cells)
    }
}

impl Pool {
    /// Reads and checks a blob: of a striped one every cell of every shard, parity included, of a segment
    /// the records of `pieces` in every copy. `pace` is told of the bytes read, row by row, and may wait; it
    /// ends the scrub with `false`. Repairs nothing.
    ///
    /// # Errors
    /// [`PoolError::Description`] if blob and pieces contradict each other, [`PoolError::Code`],
    /// [`PoolError::ArenaTooSmall`]. What is damaged is no error.
    pub fn scrub_blob(
        self: &Arc<Self>,
        blob: &BlobDescription,
        pieces: &[BlobPiece],
        pace: &mut dyn FnMut(ByteCount) -> bool,
    ) -> Result<ScrubReport, PoolError> {
        match blob.layout {
            Layout::Striped { code } => self.scrub_striped(blob, code, None, pace),
            Layout::Segment { .. } => self.scrub_records(blob, pieces, pace),
        }
    }

    /// As [`Pool::scrub_blob`], of one stripe of a striped blob.
    ///
    /// # Errors
    /// As [`Pool::scrub_blob`]; [`PoolError::Description`] of a segment.
    pub fn scrub_stripe(
        self: &Arc<Self>,
        blob: &BlobDescription,
        stripe: u32,
        pace: &mut dyn FnMut(ByteCount) -> bool,
    ) -> Result<ScrubReport, PoolError> {
        match blob.layout {
            Layout::Striped { code } => self.scrub_striped(blob, code, Some(stripe), pace),
            Layout::Segment { .. } => Err(PoolError::Description(blob.id)),
        }
    }

    pub(crate) fn layout(
        &self,
        blob: &BlobDescription,
        shape: StripeCode,
    ) -> Result<(Geometry, Arc<Code>), PoolError> {
        let code = self.code(shape)?;
        let geometry = self.geometry(shape);
        if !geometry.fits(blob) {
            return Err(PoolError::Description(blob.id));
        }
        let (needed, available) = (2 * geometry.width(), self.scrub_arena().capacity());
        if needed > available {
            return Err(PoolError::ArenaTooSmall { blob: blob.id, needed, available });
        }
        Ok((geometry, code))
    }

    fn scrub_striped(
        self: &Arc<Self>,
        blob: &BlobDescription,
        shape: StripeCode,
        stripe: Option<u32>,
        pace: &mut dyn FnMut(ByteCount) -> bool,
    ) -> Result<ScrubReport, PoolError> {
        let (geometry, code) = self.layout(blob, shape)?;
        let _claim = self.repair_room().enter(geometry.width(), 1);
        let mut report = ScrubReport { complete: true, ..ScrubReport::default() };
        // Shards of which nothing is to be had are reported once a stripe.
        let mut gone: BTreeSet<BadShard> = BTreeSet::new();
        let all = geometry.rows(blob.length.0);
        let rows = stripe.map_or(0..all, |stripe| {
            let first = u64::from(stripe).saturating_mul(geometry.rows_per_stripe).min(all);
            first..all.min(first + geometry.rows_per_stripe)
        });
        for row in rows {
            let Some(place) = whole_row(blob, &geometry, row) else {
                return Err(PoolError::Description(blob.id));
            };
            let cells = self.row_cells(blob, &geometry, &place);
            let read = cells.good.len() * (HEADER_BYTES + geometry.payload(place.part.bytes));
            report.bytes.0 += read as u64;
            report.checked += geometry.width() as u64;
            note_row(&mut report, blob.id, &place, &cells, &mut gone);
            note_lost(&mut report, (&geometry, &code), &place, &cells);
            if cells.bad.is_empty() {
                let memory = self.scrub_arena().acquire(geometry.parity, Use::Upkeep);
                for shard in self.wrong_parity((&geometry, &code), &place, &cells.good, memory)? {
                    let row = place.row_in_stripe;
                    report.find(blob.id, bad_shard(&place, shard), Some(row), Fault::Parity);
                }
            }
            drop(cells);
            if !pace(ByteCount(read as u64)) {
                report.complete = false;
                break;
            }
        }
        Ok(report)
    }

    /// Reads all cells of a row.
    pub(crate) fn row_cells(
        self: &Arc<Self>,
        blob: &BlobDescription,
        geometry: &Geometry,
        place: &RowPlace,
    ) -> RowCells {
        self.some_cells(blob, geometry, place, (0..geometry.width()).collect())
    }

    /// Reads the cells of some shards of a row.
    pub(crate) fn some_cells(
        self: &Arc<Self>,
        blob: &BlobDescription,
        geometry: &Geometry,
        place: &RowPlace,
        shards: BTreeSet<usize>,
    ) -> RowCells {
        let buffers = self.scrub_arena().acquire(self.there(place, &shards), Use::Upkeep);
        self.ask_cells(blob, geometry, place.clone(), shards, buffers).wait(self).1
    }

    /// How many of these shards of a row have a drive that answers.
    pub(crate) fn there(&self, place: &RowPlace, shards: &BTreeSet<usize>) -> usize {
        shards.iter().filter(|shard| !self.is_silent(place, **shard)).count()
    }

    /// Asks for the cells of some shards of a row, as far as there are buffers for them: for those whose
    /// drives answer.
    pub(crate) fn ask_cells(
        &self,
        blob: &BlobDescription,
        geometry: &Geometry,
        place: RowPlace,
        shards: BTreeSet<usize>,
        buffers: Vec<CellBuffer>,
    ) -> AskedCells {
        let gather = Gather::new();
        let there = shards.iter().copied().filter(|shard| !self.is_silent(&place, *shard));
        let asked: Vec<(usize, CellBuffer)> = there.zip(buffers).collect();
        let of = asked.iter().map(|(shard, _)| *shard).collect();
        for cell in asked {
            place.fetch(self, geometry, blob, cell, Check::Whole, &gather);
        }
        AskedCells { place, shards, asked: of, gather }
    }

    /// Waits for cells, but for those whose drive is set aside meanwhile.
    pub(crate) fn wait_for_cells(
        &self,
        gather: &Gather<Fetched>,
        place: &RowPlace,
        shards: &BTreeSet<usize>,
    ) -> Vec<Fetched> {
        gather.wait_unless(|came| {
            let is_in = |shard: usize| came.iter().any(|fetched| fetched.shard == shard);
            shards.iter().all(|shard| is_in(*shard) || self.is_silent(place, *shard))
        })
    }

    /// Whether the drive of this shard was set aside, so that nothing of it is waited for.
    pub(crate) fn is_silent(&self, place: &RowPlace, shard: usize) -> bool {
        let drive = place.set.drives.get(shard).and_then(|drive| self.drive(*drive));
        drive.and_then(PoolDrive::present).is_none()
    }

    /// The parity shards of a whole row that are not the code of its data.
    pub(crate) fn wrong_parity(
        &self,
        (geometry, code): (&Geometry, &Code),
        place: &RowPlace,
        good: &BTreeMap<usize, CellBuffer>,
        mut coded: Vec<CellBuffer>,
    ) -> Result<Vec<usize>, PoolError> {
        let range = HEADER_BYTES..HEADER_BYTES + geometry.payload(place.part.bytes);
        let data: Vec<&[u8]> =
            good.range(..geometry.data).map(|(_, cell)| &cell.as_slice()[range.clone()]).collect();
        assert_eq!(data.len(), geometry.data, "parity is computed from all data");
        assert_eq!(coded.len(), geometry.parity, "each parity cell is computed");
        let mut parity: Vec<&mut [u8]> =
            coded.iter_mut().map(|cell| &mut cell.as_mut_slice()[range.clone()]).collect();
        code.encode(&data, &mut parity)?;
        let stored = good.range(geometry.data..);
        let wrong =
            stored.zip(&parity).filter(|((_, cell), coded)| cell.as_slice()[range.clone()] != ***coded);
        Ok(wrong.map(|((shard, _), _)| *shard).collect())
    }

    fn scrub_records(
        self: &Arc<Self>,
        blob: &BlobDescription,
        pieces: &[BlobPiece],
        pace: &mut dyn FnMut(ByteCount) -> bool,
    ) -> Result<ScrubReport, PoolError> {
        let mut report = ScrubReport { complete: true, ..ScrubReport::default() };
        for piece in pieces {
            let mut whole = 0;
            let mut unknown = false;
            let (_, drives) = self.record(blob, piece)?;
            let mut read = 0;
            for (copy, drive) in drives.iter().enumerate() {
                report.checked += 1;
                let at = BadShard { stripe: 0, shard: u8::try_from(copy).unwrap_or(u8::MAX), drive: *drive };
                match self.read_record(blob, piece, copy) {
                    Ok(bytes) => {
                        whole += 1;
                        read += bytes;
                    }
                    Err(CellFault::Shortage(_)) => unknown = true,
                    Err(fault) => report.find(blob.id, at, Some(piece.offset.0), Fault::from(fault)),
                }
            }
            report.bytes.0 += read;
            report.complete &= !unknown;
            if whole == 0 && !unknown {
                report.lost.push((piece.offset, piece.length));
            }
            if !pace(ByteCount(read)) {
                report.complete = false;
                break;
            }
        }
        Ok(report)
    }

    /// Whether a piece can be read as far as it depends on which drives are there: no byte is read.
    ///
    /// # Errors
    /// [`PoolError::Description`] if blob and piece contradict each other.
    pub fn has_drives_for(&self, blob: &BlobDescription, piece: &BlobPiece) -> Result<bool, PoolError> {
        self.has_drives_without(blob, piece, &self.silent_drives())
    }

    /// Likewise, as if exactly the drives in `gone` were not there.
    ///
    /// # Errors
    /// As [`Pool::has_drives_for`].
    pub fn has_drives_without(
        &self,
        blob: &BlobDescription,
        piece: &BlobPiece,
        gone: &BTreeSet<DriveId>,
    ) -> Result<bool, PoolError> {
        let there = |drive: &DriveId| !gone.contains(drive);
        if matches!(blob.layout, Layout::Segment { .. }) {
            return Ok(self.record(blob, piece)?.1.iter().any(there));
        }
        self.bears(blob, piece, |stripe, shard| {
            blob.stripes.get(stripe).and_then(|set| set.drives.get(shard)).is_some_and(there)
        })
    }

    /// Whether a piece of a striped blob can be had from the shards (by stripe and number) that are there.
    pub(crate) fn bears(
        &self,
        blob: &BlobDescription,
        piece: &BlobPiece,
        is_there: impl Fn(usize, usize) -> bool,
    ) -> Result<bool, PoolError> {
        let Layout::Striped { code: shape } = blob.layout else {
            return Err(PoolError::Description(blob.id));
        };
        let code = self.code(shape)?;
        let geometry = self.geometry(shape);
        let end = piece.offset.0.saturating_add(piece.length.0);
        if !geometry.fits(blob) || end > blob.length.0 {
            return Err(PoolError::Description(blob.id));
        }
        let there_of = |stripe: usize| -> Vec<usize> {
            (0..geometry.width()).filter(|shard| is_there(stripe, *shard)).collect()
        };
        let data: Vec<usize> = (0..geometry.data).collect();
        let stripes = 0..blob.stripes.len();
        let bears: Vec<bool> = stripes.map(|stripe| code.determines(&there_of(stripe), &data)).collect();
        let row_bytes = geometry.row_bytes();
        // Rows of a stripe differ in nothing but what is wanted of them.
        let mut known = BTreeMap::new();
        for row in piece.offset.0 / row_bytes..end.div_ceil(row_bytes) {
            let start = row * row_bytes;
            let bytes = geometry.bytes_of_row(blob.length.0, row);
            let wanted = piece.offset.0.max(start) - start..(end - start).min(bytes);
            let (stripe, _) = geometry.place(row);
            let stripe = usize::try_from(stripe).unwrap_or(usize::MAX);
            if wanted.is_empty() || bears.get(stripe).is_some_and(|bears| *bears) {
                continue;
            }
            let cells = RowPart { row, bytes, wanted }.cells(&geometry);
            let can_be_had = known
                .entry((stripe, cells.start, cells.end))
                .or_insert_with(|| code.determines(&there_of(stripe), &cells.collect::<Vec<_>>()));
            if !*can_be_had {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// All of a row, with every block of its cells, to be scrubbed or repaired.
pub(crate) fn whole_row(blob: &BlobDescription, geometry: &Geometry, row: u64) -> Option<RowPlace> {
    let bytes = geometry.bytes_of_row(blob.length.0, row);
    let place = RowPlace::new(blob, geometry, RowPart { row, bytes, wanted: 0..bytes })?;
    Some(RowPlace { blocks: 0..geometry.payload(bytes), listed: false, ..place })
}

pub(crate) fn bad_shard(place: &RowPlace, shard: usize) -> BadShard {
    BadShard {
        stripe: u32::try_from(place.stripe).unwrap_or(u32::MAX),
        shard: u8::try_from(shard).unwrap_or(u8::MAX),
        drive: place.set.drives.get(shard).copied().unwrap_or(DriveId(u16::MAX)),
    }
}

fn note_row(
    report: &mut ScrubReport,
    blob: BlobId,
    place: &RowPlace,
    cells: &RowCells,
    gone: &mut BTreeSet<BadShard>,
) {
    for (shard, fault) in &cells.bad {
        let at = bad_shard(place, *shard);
        match fault {
            CellFault::Shortage(_) => report.complete = false,
            CellFault::NoDrive | CellFault::NoExtent => {
                if gone.insert(at) {
                    report.find(blob, at, None, Fault::from(fault.clone()));
                }
            }
            _ => report.find(blob, at, Some(place.row_in_stripe), Fault::from(fault.clone())),
        }
    }
}

/// The data cells of a row that can neither be read nor rebuilt.
fn note_lost(
    report: &mut ScrubReport,
    (geometry, code): (&Geometry, &Code),
    place: &RowPlace,
    cells: &RowCells,
) {
    if cells.bad.values().any(|fault| matches!(fault, CellFault::Shortage(_))) {
        return;
    }
    let payload = geometry.payload(place.part.bytes) as u64;
    let good = cells.good_shards();
    let is_lost = |shard: &&usize| **shard < geometry.data && !code.determines(&good, &[**shard]);
    for shard in cells.bad.keys().filter(is_lost) {
        let valid = geometry.valid(place.part.bytes, *shard) as u64;
        if valid > 0 {
            let offset = place.part.row * geometry.row_bytes() + *shard as u64 * payload;
            report.lost.push((ByteCount(offset), ByteCount(valid)));
        }
    }
}

impl From<CellFault> for Fault {
    fn from(fault: CellFault) -> Self {
        match fault {
            CellFault::NoDrive => Fault::NoDrive,
            CellFault::NoExtent => Fault::NoExtent,
            CellFault::Unreadable(reason) | CellFault::Shortage(reason) => Fault::Unreadable(reason),
            CellFault::Short => Fault::Short,
            CellFault::Damaged(damage) => Fault::Damaged(damage),
        }
    }
}
