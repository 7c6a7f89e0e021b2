//! What the disks hold against what the catalogue says that they hold.

use std::collections::BTreeMap;
use std::sync::Arc;

use ::catalogue::{FileState, ReadError, Table, View};
use base::{BlobDescription, BlobId, BlobPiece, ContainerId, DriveId, FileId, Layout, StripeCode, StripeSet};
use drive::{ExtentId, PAGE};
use erasure::{Codec, Lrc};
use store::MemorySnapshot;

use super::{Found, Quiet, Rule, id_of};
use crate::machines::SimDisk;

/// The largest extent of a striped blob.
const EXTENT_BYTES: u64 = 64 << 20;
/// Bytes in front of each cell.
const CELL_HEADER: usize = PAGE;

pub(super) fn check(
    snapshot: &MemorySnapshot,
    view: &View<'_>,
    disks: &[SimDisk],
    quiet: &Quiet,
    found: &mut Found,
) -> Result<(), ReadError> {
    let disks: BTreeMap<DriveId, &SimDisk> = disks.iter().map(|disk| (disk.id(), disk)).collect();
    let mut values: BTreeMap<BlobId, Vec<BlobPiece>> = BTreeMap::new();
    for piece in pieces(snapshot, view)? {
        values.entry(piece.blob).or_default().push(piece);
    }
    for (key, _) in snapshot.rows(Table::Blob) {
        let Some(blob) = view.blob(BlobId(id_of(key)))? else { continue };
        match blob.layout {
            Layout::Striped { code } => striped(&blob, code, &disks, quiet, found),
            Layout::Segment { .. } => {
                let values = values.get(&blob.id).map_or(&[][..], Vec::as_slice);
                segment(&blob, values, &disks, quiet, found);
            }
        }
    }
    if quiet.is_swept {
        orphans(view, &disks, found)?;
    }
    Ok(())
}

/// All pieces of the pool that the catalogue refers to.
fn pieces(snapshot: &MemorySnapshot, view: &View<'_>) -> Result<Vec<BlobPiece>, ReadError> {
    let mut pieces = Vec::new();
    for (key, _) in snapshot.rows(Table::File) {
        let file = view.file(FileId(id_of(key)))?;
        // Of a condemned file only what a container still needs is kept, and it is checked there.
        let live = file.into_iter().filter(|file| file.state == FileState::Live);
        pieces.extend(live.flat_map(|file| file.pieces));
    }
    for (key, _) in snapshot.rows(Table::Container) {
        pieces.extend(view.container(ContainerId(id_of(key)))?.and_then(|container| container.skeleton));
    }
    Ok(pieces)
}

/// The bytes of each shard of a stripe that are there.
fn shards(
    blob: &BlobDescription,
    stripe: usize,
    set: &StripeSet,
    disks: &BTreeMap<DriveId, &SimDisk>,
) -> Vec<Option<Arc<Vec<u8>>>> {
    let read = |(shard, drive): (usize, &DriveId)| {
        let id = ExtentId { blob: blob.extents(), stripe: stripe as u32, shard: shard as u8 };
        disks.get(drive).filter(|disk| !disk.is_gone()).and_then(|disk| disk.bytes(id))
    };
    set.drives.iter().enumerate().map(read).collect()
}

fn striped(
    blob: &BlobDescription,
    code: StripeCode,
    disks: &BTreeMap<DriveId, &SimDisk>,
    quiet: &Quiet,
    found: &mut Found,
) {
    let rows = Rows::of(blob, code.data, quiet.cell_size.0);
    for (stripe, set) in blob.stripes.iter().enumerate() {
        let wanted = rows.extent_bytes(stripe as u64);
        let mut shards = shards(blob, stripe, set, disks);
        let object = |shard: usize| {
            let drive = set.drives.get(shard).copied().unwrap_or(DriveId(0));
            format!("blob {} stripe {stripe} shard {shard} on disk {drive}", blob.id)
        };
        for (shard, bytes) in shards.iter_mut().enumerate() {
            let found_bytes = bytes.as_ref().map_or(0, |bytes| bytes.len());
            if found_bytes < wanted {
                *bytes = None;
                let what = format!("holds {found_bytes} of {wanted} bytes");
                found.expect(!quiet.is_whole, Rule::Pool, object(shard), what);
            }
        }
        let whole = shards.iter().flatten().count();
        let what = format!("{whole} of {code} shards are left: it cannot be read");
        let gone: Vec<usize> = (0..shards.len()).filter(|shard| shards[*shard].is_none()).collect();
        found.expect(::pool::survives(blob.layout, &gone), Rule::Pool, object(0), what);
        if quiet.is_whole && whole == shards.len() {
            let shards: Vec<&[u8]> = shards.iter().flatten().map(|shard| shard.as_slice()).collect();
            if let Some(shard) = rows.odd_one(stripe as u64, &shards, code) {
                found.add(Rule::Pool, object(shard), "is not the parity of its row");
            }
        }
    }
}

/// The arithmetic of `docs/format/pool.md`, written down a second time.
struct Rows {
    length: u64,
    data: u64,
    cell: u64,
    a_stripe: u64,
}

impl Rows {
    fn of(blob: &BlobDescription, data: u8, cell: u64) -> Self {
        let a_stripe = (EXTENT_BYTES / (cell + CELL_HEADER as u64)).max(1);
        Rows { length: blob.length.0, data: u64::from(data).max(1), cell, a_stripe }
    }

    /// Payload bytes of each cell of the rows of a stripe.
    fn cells(&self, stripe: u64) -> Vec<usize> {
        let row_bytes = self.data * self.cell;
        let begin = stripe * self.a_stripe * row_bytes;
        let bytes = self.length.saturating_sub(begin).min(self.a_stripe * row_bytes);
        let of_row = |row: u64| (bytes - row * row_bytes).min(row_bytes);
        let payload = |row| of_row(row).div_ceil(self.data).next_multiple_of(PAGE as u64).min(self.cell);
        (0..bytes.div_ceil(row_bytes)).map(|row| payload(row) as usize).collect()
    }

    fn extent_bytes(&self, stripe: u64) -> usize {
        self.cells(stripe).into_iter().map(|cell| CELL_HEADER + cell).sum()
    }

    /// A parity shard that does not follow from the data shards.
    fn odd_one(&self, stripe: u64, shards: &[&[u8]], code: StripeCode) -> Option<usize> {
        let [data, local, global] = [code.data, code.local, code.global].map(usize::from);
        let encode = |cells: &[&[u8]], parity: &mut [&mut [u8]]| match local {
            0 => Codec::new(data, global)?.encode(cells, parity),
            _ => Lrc::new(data, local, global)?.encode(cells, parity),
        };
        let mut at = 0;
        for payload in self.cells(stripe) {
            let range = at + CELL_HEADER..at + CELL_HEADER + payload;
            let cells: Vec<&[u8]> = shards.iter().map(|shard| &shard[range.clone()]).collect();
            let mut parity = vec![vec![0u8; payload]; shards.len() - data];
            let mut outputs: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
            encode(cells.get(..data)?, &mut outputs).ok()?;
            let wrong = parity.iter().zip(&cells[data..]).position(|(right, found)| right != found);
            if let Some(wrong) = wrong {
                return Some(data + wrong);
            }
            at += CELL_HEADER + payload;
        }
        None
    }
}

/// Each value of a segment is on all its copies, and they are alike.
fn segment(
    blob: &BlobDescription,
    values: &[BlobPiece],
    disks: &BTreeMap<DriveId, &SimDisk>,
    quiet: &Quiet,
    found: &mut Found,
) {
    let Some(set) = blob.stripes.first() else { return };
    let copies = shards(blob, 0, set, disks);
    for value in values {
        let range = value.offset.0 as usize..(value.offset.0 + value.length.0) as usize;
        let object = format!("value at {} of segment {}", value.offset.0, blob.id);
        let mut whole = copies.iter().map(|copy| copy.as_ref().and_then(|bytes| bytes.get(range.clone())));
        let present = whole.clone().flatten().count();
        found.expect(present > 0, Rule::Pool, &object, "is on no disk");
        if quiet.is_whole {
            let what = format!("is on {present} of {} disks", copies.len());
            found.expect(present == copies.len(), Rule::Pool, &object, what);
            let first = whole.next().flatten();
            let are_alike = whole.all(|copy| copy == first);
            found.expect(are_alike, Rule::Pool, &object, "its copies differ");
        }
    }
}

/// What is on a disk and of an older epoch must be known.
fn orphans(view: &View<'_>, disks: &BTreeMap<DriveId, &SimDisk>, found: &mut Found) -> Result<(), ReadError> {
    let epoch = view.epoch()?;
    for (drive, disk) in disks.iter().filter(|(_, disk)| !disk.is_gone()) {
        for extent in disk.extents() {
            if extent.blob.epoch() < epoch && !view.is_known_blob(extent.blob)? {
                let object = format!("extent {extent} on disk {drive}");
                found.add(Rule::Orphans, object, "the catalogue does not know its blob");
            }
        }
    }
    let garbage = view.garbage(usize::MAX)?.len();
    found.expect(garbage == 0, Rule::Orphans, "the catalogue", format!("{garbage} pieces of garbage wait"));
    Ok(())
}
