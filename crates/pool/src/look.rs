//! Looking whether drives have what they should, without reading all of it: each extent's length and the
//! header of its last cell, of a small value its record.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::{BlobDescription, BlobId, BlobPiece, ByteCount, DriveId, Layout, StripeSet};
use drive::{AlignedBuffer, DriveError, ExtentId, ObjectDrive};

use crate::cell::{CellIdentity, HEADER_BYTES};
use crate::drives::{Device, PoolDrive};
use crate::error::PoolError;
use crate::fetch::CellFault;
use crate::gather::Gather;
use crate::geometry::Geometry;
use crate::pool::Pool;
use crate::scrub::BadShard;
use crate::status::DriveHealth;
use crate::stripe;

/// What some drives lack of a blob.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Lacking {
    /// Shards and copies that are not there, too short, or not what they should be; to be given to
    /// [`Pool::repair`].
    pub bad: BTreeSet<BadShard>,
    /// How many could not be looked at, or not be compared with another copy.
    pub unknown: u64,
    /// Shards and copies looked at.
    pub looked_at: u64,
}

/// How closely a piece is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Depth {
    /// Of a striped blob the length of each extent and the header of its last cell. A small value is read.
    Headers,
    /// All bytes are read, and their checksums compared.
    Bytes,
}

/// Whether the pool has the bytes of a piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PieceState {
    /// They can be read from the drives that answer.
    Readable,
    /// Not from these, but perhaps with those that do not answer or refuse to read.
    Waits,
    /// Whatever drives come back, too little of it is whole.
    Gone,
}

/// What is known of one shard or copy.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Found {
    There,
    /// Its drive does not give it now, and may later.
    Perhaps,
    Gone,
    /// This machine lacks what a look needs.
    Unknown(String),
}

impl Found {
    fn of(pool: &Pool, drive: DriveId, looked: Result<(), CellFault>) -> Found {
        match looked {
            Ok(()) => Found::There,
            Err(CellFault::NoExtent | CellFault::Short | CellFault::Damaged(_)) => Found::Gone,
            Err(CellFault::Unreadable(_)) => Found::Perhaps,
            Err(CellFault::Shortage(why)) => Found::Unknown(why),
            Err(CellFault::NoDrive) => {
                let health = pool.drive(drive).map_or(DriveHealth::Missing, PoolDrive::health);
                if health.is_given_up() { Found::Gone } else { Found::Perhaps }
            }
        }
    }
}

impl Pool {
    /// Looks whether these drives have what they should of a blob, each extent in full length. Reads the
    /// headers of last cells, no more.
    ///
    /// # Errors
    /// [`PoolError::Description`] if the description contradicts itself, [`PoolError::Code`].
    pub fn lacking(&self, blob: &BlobDescription, drives: &BTreeSet<DriveId>) -> Result<Lacking, PoolError> {
        let mut lacking = Lacking::default();
        for (number, set) in (0u32..).zip(&blob.stripes) {
            let concerned: BTreeSet<usize> =
                (0..set.drives.len()).filter(|shard| drives.contains(&set.drives[*shard])).collect();
            if concerned.is_empty() {
                continue;
            }
            lacking.looked_at += concerned.len() as u64;
            match blob.layout {
                Layout::Striped { code } => {
                    let geometry = self.geometry(code);
                    if !geometry.fits(blob) {
                        return Err(PoolError::Description(blob.id));
                    }
                    for (shard, looked) in self.look_at_stripe(blob, &geometry, (number, set), &concerned) {
                        lacking.note(self, (number, shard, set.drives[shard]), looked);
                    }
                }
                Layout::Segment { .. } => self.look_at_copies(blob, set, &concerned, &mut lacking),
            }
        }
        let told = lacking.bad.len() as u64 + lacking.unknown;
        assert!(told <= lacking.looked_at, "what lacks was looked at");
        Ok(lacking)
    }

    /// Asks a drive what only looks, on its reading thread; `None` if it is not there, or is set aside before
    /// it answers. The question is to take milliseconds: a drive that is at it for 30 s is set aside.
    pub fn ask_drive<T: Send + 'static>(
        &self,
        drive: DriveId,
        question: impl FnOnce(&dyn ObjectDrive) -> T + Send + 'static,
    ) -> Option<T> {
        let present = self.drive(drive).and_then(PoolDrive::present)?;
        present.ask_reader(move |device| question(device.drive.as_ref()))
    }

    /// Whether a drive has a shard of a striped blob whole, as [`Depth::Headers`] looks at it, or a copy of a
    /// segment that has this value, whatever drive the description names for it.
    ///
    /// # Errors
    /// [`PoolError::Description`], [`PoolError::Code`].
    pub fn stands_on(
        &self,
        blob: &BlobDescription,
        piece: &BlobPiece,
        (stripe, shard): (u32, u8),
        drive: DriveId,
    ) -> Result<bool, PoolError> {
        let (mut there, shard) = (blob.clone(), usize::from(shard));
        let set = usize::try_from(stripe).ok().and_then(|stripe| there.stripes.get_mut(stripe));
        let set = set.ok_or(PoolError::Description(blob.id))?;
        *set.drives.get_mut(shard).ok_or(PoolError::Description(blob.id))? = drive;
        let set = set.clone();
        let Layout::Striped { code } = blob.layout else {
            return Ok(self.read_record(&there, piece, shard).is_ok());
        };
        let geometry = self.geometry(code);
        if !geometry.fits(blob) {
            return Err(PoolError::Description(blob.id));
        }
        let looked = self.look_at_stripe(blob, &geometry, (stripe, &set), &BTreeSet::from([shard]));
        Ok(looked.iter().all(|(_, looked)| looked.is_ok()))
    }

    /// Whether the bytes of a piece are there: what a look at names cannot tell, since bytes may be missing
    /// from an extent that exists. What drives that are given up held does not count.
    ///
    /// # Errors
    /// [`PoolError::Description`], [`PoolError::Code`]; [`PoolError::Shortage`] and
    /// [`PoolError::ArenaTooSmall`]: nothing is known then.
    pub fn verify_piece(
        self: &Arc<Self>,
        blob: &BlobDescription,
        piece: &BlobPiece,
        depth: Depth,
    ) -> Result<PieceState, PoolError> {
        let Layout::Striped { code } = blob.layout else { return self.verify_record(blob, piece) };
        let geometry = self.geometry(code);
        if !geometry.fits(blob) {
            return Err(PoolError::Description(blob.id));
        }
        let row_bytes = geometry.row_bytes();
        let end = piece.offset.0.saturating_add(piece.length.0);
        let stripe_of = |row: u64| usize::try_from(geometry.place(row).0).unwrap_or(usize::MAX);
        let stripes = stripe_of(piece.offset.0 / row_bytes)..stripe_of(end.div_ceil(row_bytes)) + 1;
        let mut found: BTreeMap<(usize, usize), Found> = BTreeMap::new();
        for (number, set) in blob.stripes.iter().enumerate().filter(|(number, _)| stripes.contains(number)) {
            let stripe = u32::try_from(number).unwrap_or(u32::MAX);
            for (shard, looked) in
                self.look_at_stripe(blob, &geometry, (stripe, set), &(0..set.drives.len()).collect())
            {
                found.insert((number, shard), Found::of(self, set.drives[shard], looked));
            }
        }
        let is_there = |stripe, shard| found.get(&(stripe, shard)) == Some(&Found::There);
        if self.bears(blob, piece, is_there)? {
            return match depth {
                Depth::Headers => Ok(PieceState::Readable),
                Depth::Bytes => self.read_through(blob, piece, found.values().any(|f| *f == Found::Perhaps)),
            };
        }
        if let Some(Found::Unknown(reason)) = found.values().find(|f| matches!(f, Found::Unknown(_))) {
            return Err(PoolError::Shortage { blob: blob.id, reason: reason.clone() });
        }
        let may_be =
            |stripe, shard| matches!(found.get(&(stripe, shard)), Some(Found::There | Found::Perhaps));
        Ok(if self.bears(blob, piece, may_be)? { PieceState::Waits } else { PieceState::Gone })
    }

    /// Whether the bytes of a stripe, or a copy of a segment, are there. All bytes of a stripe are read.
    ///
    /// # Errors
    /// As [`Self::verify_piece`].
    pub fn stripe_state(
        self: &Arc<Self>,
        blob: &BlobDescription,
        stripe: u32,
    ) -> Result<PieceState, PoolError> {
        let Layout::Striped { code } = blob.layout else { return self.segment_state(blob) };
        let geometry = self.geometry(code);
        let bytes = geometry.stripe_bytes().0;
        let begin = bytes.saturating_mul(stripe.into());
        let length = blob.length.0.checked_sub(begin).ok_or(PoolError::Description(blob.id))?.min(bytes);
        let piece = BlobPiece { blob: blob.id, offset: ByteCount(begin), length: ByteCount(length) };
        self.verify_piece(blob, &piece, Depth::Bytes)
    }

    fn segment_state(&self, blob: &BlobDescription) -> Result<PieceState, PoolError> {
        let set = blob.stripes.first().ok_or(PoolError::Description(blob.id))?;
        let (mut state, mut shortage) = (PieceState::Gone, None);
        for (copy, length) in self.lengths_of_copies(blob.id, set) {
            match Found::of(self, set.drives[copy], length.map(drop)) {
                Found::There => return Ok(PieceState::Readable),
                Found::Perhaps => state = PieceState::Waits,
                Found::Gone => {}
                Found::Unknown(reason) => shortage = Some(reason),
            }
        }
        match shortage {
            Some(reason) => Err(PoolError::Shortage { blob: blob.id, reason }),
            None => Ok(state),
        }
    }

    fn lengths_of_copies(&self, blob: BlobId, set: &StripeSet) -> Vec<(usize, Result<ByteCount, CellFault>)> {
        self.on_readers(set, &(0..set.drives.len()).collect(), |copy| {
            let id = ExtentId { blob, stripe: 0, shard: u8::try_from(copy).unwrap_or(u8::MAX) };
            move |device: &Device| length_of(device, id)
        })
    }

    fn verify_record(&self, blob: &BlobDescription, piece: &BlobPiece) -> Result<PieceState, PoolError> {
        let (_, drives) = self.record(blob, piece)?;
        let (mut state, mut shortage) = (PieceState::Gone, None);
        for (copy, drive) in drives.iter().enumerate() {
            match Found::of(self, *drive, self.read_record(blob, piece, copy).map(drop)) {
                Found::There => return Ok(PieceState::Readable),
                Found::Perhaps => state = PieceState::Waits,
                Found::Gone => {}
                Found::Unknown(reason) => shortage = Some(reason),
            }
        }
        match shortage {
            Some(reason) => Err(PoolError::Shortage { blob: blob.id, reason }),
            None => Ok(state),
        }
    }

    /// Reads all bytes of a piece of a striped blob. `more`: whether there are shards that may be had later.
    fn read_through(
        self: &Arc<Self>,
        blob: &BlobDescription,
        piece: &BlobPiece,
        more: bool,
    ) -> Result<PieceState, PoolError> {
        let mut reader = self.read(blob, piece.offset, piece.length)?;
        loop {
            match reader.next() {
                Ok(Some(_)) => {}
                Ok(None) => return Ok(PieceState::Readable),
                Err(PoolError::Unrecoverable { .. }) if more => return Ok(PieceState::Waits),
                Err(PoolError::Unrecoverable { .. }) => return Ok(PieceState::Gone),
                Err(other) => return Err(other),
            }
        }
    }

    /// Looks at some shards of a stripe, all drives at once.
    fn look_at_stripe(
        &self,
        blob: &BlobDescription,
        geometry: &Geometry,
        (stripe, set): (u32, &StripeSet),
        shards: &BTreeSet<usize>,
    ) -> Vec<(usize, Result<(), CellFault>)> {
        let length = geometry.extent_bytes(blob.length.0, stripe.into());
        let first = u64::from(stripe) * geometry.rows_per_stripe;
        let rows = geometry.rows(blob.length.0).saturating_sub(first).min(geometry.rows_per_stripe);
        let last = rows.saturating_sub(1);
        let bytes = geometry.bytes_of_row(blob.length.0, first + last);
        let offset = geometry.extent_offset(last);
        self.on_readers(set, shards, |shard| {
            let at = (u64::from(stripe), last);
            let identity = stripe::identity(self, geometry, blob, at, bytes, shard);
            let id = ExtentId { blob: blob.extents(), stripe, shard: identity.shard };
            move |device: &Device| look_at_extent(device, id, length, (offset, &identity))
        })
    }

    /// Compares the lengths of copies of a segment. One that is shorter than another lacks values.
    fn look_at_copies(
        &self,
        blob: &BlobDescription,
        set: &StripeSet,
        concerned: &BTreeSet<usize>,
        lacking: &mut Lacking,
    ) {
        // It was opened by this server, on drives that are there: each copy has what was committed.
        if self.small().is_open(blob.id) {
            return;
        }
        let lengths = self.lengths_of_copies(blob.id, set);
        let mut others = lengths.iter().filter(|(copy, _)| !concerned.contains(copy)).peekable();
        // If all are to be looked at they are compared with each other.
        let is_incomparable = others.peek().is_some() && !others.any(|(_, length)| length.is_ok());
        let longest = lengths.iter().filter_map(|(_, length)| length.as_ref().ok()).max().copied();
        for (copy, length) in lengths.into_iter().filter(|(copy, _)| concerned.contains(copy)) {
            let looked = match length {
                Ok(length) if Some(length) < longest => Err(CellFault::Short),
                Ok(_) if is_incomparable => {
                    lacking.unknown += 1;
                    continue;
                }
                other => other.map(drop),
            };
            lacking.note(self, (0, copy, set.drives[copy]), looked);
        }
    }

    /// Runs a job for each of these shards on the reading thread of its drive, and waits for all.
    fn on_readers<T, J>(
        &self,
        set: &StripeSet,
        shards: &BTreeSet<usize>,
        job: impl Fn(usize) -> J,
    ) -> Vec<(usize, Result<T, CellFault>)>
    where
        T: Send + 'static,
        J: FnOnce(&Device) -> Result<T, CellFault> + Send + 'static,
    {
        let gather = Gather::new();
        let mut asked = Vec::new();
        for shard in shards {
            let present = set.drives.get(*shard).and_then(|drive| self.drive(*drive));
            let Some(present) = present.and_then(PoolDrive::present) else { continue };
            let (shard, job, ticket) = (*shard, job(*shard), gather.ticket());
            present.call_reader(Box::new(move |device| ticket.done((shard, job(device)))));
            asked.push((shard, present));
        }
        let mut came = gather.wait_unless(|came| {
            let is_in = |shard: usize| came.iter().any(|(other, _)| *other == shard);
            asked.iter().all(|(shard, present)| is_in(*shard) || present.device.is_away())
        });
        let answered: BTreeSet<usize> = came.iter().map(|(shard, _)| *shard).collect();
        came.extend(shards.difference(&answered).map(|shard| (*shard, Err(CellFault::NoDrive))));
        assert_eq!(came.len(), shards.len(), "each shard that was asked for has one answer");
        came
    }
}

impl Lacking {
    fn note(
        &mut self,
        pool: &Pool,
        (stripe, shard, drive): (u32, usize, DriveId),
        looked: Result<(), CellFault>,
    ) {
        match Found::of(pool, drive, looked) {
            Found::There => {}
            Found::Gone => {
                let shard = u8::try_from(shard).unwrap_or(u8::MAX);
                self.bad.insert(BadShard { stripe, shard, drive });
            }
            Found::Perhaps | Found::Unknown(_) => self.unknown += 1,
        }
    }
}

/// Checks that an extent has all of its length, and that its last cell is the one that belongs there.
fn look_at_extent(
    device: &Device,
    id: ExtentId,
    length: u64,
    (offset, last): (u64, &CellIdentity),
) -> Result<(), CellFault> {
    if length_of(device, id)?.0 < length {
        return Err(CellFault::Short);
    }
    let mut header = AlignedBuffer::new(HEADER_BYTES);
    device.read(id, offset, header.as_mut_slice()).map_err(|error| failed(device, id, &error))?;
    last.verify_header(header.as_slice()).map_err(CellFault::Damaged)
}

fn length_of(device: &Device, id: ExtentId) -> Result<ByteCount, CellFault> {
    device.drive.length(id).map_err(|error| failed(device, id, &error))
}

/// That an extent is not there counts only where the drive is. It is what a look asks, and no failure of the
/// drive: whoever asks says for a whole file, or for all, what was found.
fn failed(device: &Device, id: ExtentId, error: &DriveError) -> CellFault {
    if matches!(error, DriveError::NotFound { .. }) {
        tracing::debug!(drive = %device.drive.id(), blob = %id.blob, %error, "looked for");
        device.gone();
    } else {
        device.read_failed(id.blob, error);
    }
    if device.is_away() { CellFault::NoDrive } else { CellFault::of(error) }
}
