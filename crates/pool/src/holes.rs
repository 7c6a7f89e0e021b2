//! Giving back what values of a segment held that are gone, although other values stay.
//!
//! Records begin at sectors of 512 bytes, space is given back in pages of 4096. A page that a value shares
//! with others goes when the last of them is gone; until then the catalogue knows which sectors are unneeded.
//! What is believed unneeded is not enough: a page goes only if the rest of it is zeros, on each drive by
//! what stands there. So nothing but what was named ever changes, whatever the catalogue, a footer or another
//! copy says.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use threads::Mutex;

use base::{BlobDescription, BlobPiece, ByteCount, Layout};
use drive::{DriveError, ExtentId, PAGE, SECTOR, SharedPage};

use crate::drives::{Device, PoolDrive};
use crate::error::PoolError;
use crate::gather::{Gather, lock};
use crate::pool::Pool;
use crate::record::record_bytes;

/// An extent that takes so much more than its length has space reserved: less may be what the file system
/// itself needs for it.
const RESERVED_MIN: u64 = 64 << 10;

/// Sectors of pages of a segment that nobody needs, by the number of the page: a bit each, the lowest for the
/// first.
pub type Unneeded = BTreeMap<u32, u8>;

/// What became of values that were given up.
#[derive(Debug, Default)]
pub struct GivenBack {
    /// Of the pages that they touch what is unneeded from now on; 0 of those that were given back, and of
    /// those that drives should have given back.
    pub pages: Unneeded,
    /// Bytes given back, on each drive that has a copy.
    pub bytes: ByteCount,
    /// What one of the drives did not do, or what was wrong with a value. It takes its space until the
    /// segment goes.
    pub failure: Option<PoolError>,
}

/// The pages that a value's record touches, with the sectors that are its own.
#[must_use]
pub fn sectors_of(piece: &BlobPiece) -> Unneeded {
    let length = usize::try_from(piece.length.0).unwrap_or(usize::MAX);
    let sector = SECTOR as u64;
    let (from, sectors) = (piece.offset.0 / sector, record_bytes(length) as u64 / sector);
    let mut pages = Unneeded::new();
    for at in from..from.saturating_add(sectors) {
        let per_page = (PAGE / SECTOR) as u64;
        let page = u32::try_from(at / per_page).unwrap_or(u32::MAX);
        *pages.entry(page).or_default() |= 1 << (at % per_page);
    }
    pages
}

impl Pool {
    /// Gives back the space of deleted values of one segment, as far as it is in pages of which nobody needs
    /// anything. `known` is what was unneeded before of pages that they touch. May be repeated.
    ///
    /// # Errors
    /// None; see [`GivenBack::failure`].
    #[must_use]
    pub fn give_back(&self, blob: &BlobDescription, values: &[BlobPiece], known: &Unneeded) -> GivenBack {
        let mut back = GivenBack::default();
        for piece in values {
            match self.record(blob, piece) {
                Ok(_) if piece.offset.0.is_multiple_of(SECTOR as u64) => {
                    for (page, sectors) in sectors_of(piece) {
                        let before = known.get(&page).copied().unwrap_or(0);
                        *back.pages.entry(page).or_insert(before) |= sectors;
                    }
                }
                Ok(_) => back.failure = Some(PoolError::Description(blob.id)),
                Err(error) => back.failure = Some(error),
            }
        }
        let asked =
            back.pages.iter().map(|(number, unneeded)| SharedPage { number: *number, unneeded: *unneeded });
        let asked: Vec<SharedPage> = asked.collect();
        // What one copy says of its pages is most likely so of the others: they are asked for these alone.
        let mut copies: Vec<usize> = (0..blob.layout.width()).collect();
        copies.sort_by_key(|copy| self.copy_drive(blob, *copy).is_none_or(|drive| drive.is_stuck()));
        let mut given: Option<BTreeSet<u32>> = None;
        while let (None, Some(copy)) = (&given, copies.first().copied()) {
            copies.remove(0);
            given = self.punch_unneeded(blob, &[copy], &asked, &mut back.failure);
        }
        let given = given.unwrap_or_default();
        let same: Vec<SharedPage> =
            asked.iter().filter(|page| given.contains(&page.number)).copied().collect();
        self.punch_unneeded(blob, &copies, &same, &mut back.failure);
        self.try_full_drives();
        for number in given {
            back.pages.insert(number, 0);
            back.bytes.0 += PAGE as u64;
        }
        // Nobody asks for these again: no other value will go from them.
        back.pages.values_mut().filter(|unneeded| **unneeded == u8::MAX).for_each(|unneeded| *unneeded = 0);
        back
    }

    fn copy_drive(&self, blob: &BlobDescription, copy: usize) -> Option<Arc<Device>> {
        let drive = *blob.stripes.first()?.drives.get(copy)?;
        self.drive(drive).and_then(PoolDrive::device)
    }

    /// The pages that one of these copies gave back; `None` if none of their drives did as it was told.
    fn punch_unneeded(
        &self,
        blob: &BlobDescription,
        copies: &[usize],
        pages: &[SharedPage],
        failure: &mut Option<PoolError>,
    ) -> Option<BTreeSet<u32>> {
        let set = blob.stripes.first().filter(|_| !pages.is_empty())?;
        let given = Arc::new(Mutex::new(None));
        let jobs = copies.iter().filter_map(|copy| {
            let drive = *set.drives.get(*copy)?;
            let id = ExtentId { blob: blob.id, stripe: 0, shard: u8::try_from(*copy).unwrap_or(u8::MAX) };
            let (pages, told) = (pages.to_vec(), Arc::clone(&given));
            let job = move |device: &Device| {
                let numbers = match device.drive.punch_unneeded(id, &pages) {
                    // A copy that is not there takes no space.
                    Err(DriveError::NotFound { .. }) => return Ok(()),
                    numbers => numbers?,
                };
                if !numbers.is_empty() {
                    device.space_freed();
                }
                *lock(&told) = Some(numbers.into_iter().collect());
                Ok(())
            };
            Some((drive, job))
        });
        if let Err(error) = self.on_writers(jobs) {
            *failure = Some(error);
        }
        lock(&given).take()
    }

    /// Gives back those of these pages that are zeros, which loses nothing.
    pub(crate) fn punch_zeros(&self, blob: &BlobDescription, copies: &[usize], pages: BTreeSet<u32>) {
        let pages = pages.into_iter().map(|number| SharedPage { number, unneeded: 0 });
        let (pages, mut failure) = (pages.collect::<Vec<_>>(), None);
        self.punch_unneeded(blob, copies, &pages, &mut failure);
        if let Some(error) = failure {
            tracing::warn!(%error, segment = %blob.id, "zeros of a segment take space");
        }
    }

    /// What a segment takes on all drives that have a copy; what one does not tell is taken to be as on the
    /// others. `None` of one that is written still, which has space reserved, and if no drive tells. Of one
    /// of an earlier epoch, which a crash may have left open, what is reserved is given back before.
    #[must_use]
    pub fn room_of_segment(&self, blob: &BlobDescription) -> Option<ByteCount> {
        let (Layout::Segment { copies }, false) = (blob.layout, self.small().is_open(blob.id)) else {
            return None;
        };
        let set = blob.stripes.first()?;
        let gather = Gather::new();
        let mut asked = Vec::new();
        for (shard, drive) in (0u8..).zip(&set.drives) {
            let Some(present) = self.drive(*drive).and_then(PoolDrive::present) else { continue };
            let (id, ticket) = (ExtentId { blob: blob.id, stripe: 0, shard }, gather.ticket());
            let is_ended = blob.id.epoch() < self.epoch();
            present.call_reader(Box::new(move |device| ticket.done((shard, room_of(device, id, is_ended)))));
            asked.push((shard, present));
        }
        let told = gather.wait_unless(|told| {
            let is_in = |shard: &u8| told.iter().any(|(other, _)| other == shard);
            asked.iter().all(|(shard, present)| is_in(shard) || present.device.is_away())
        });
        let told: Vec<u64> = told.into_iter().filter_map(|(_, allocated)| Some(allocated.ok()?.0)).collect();
        let sum: u64 = told.iter().sum();
        Some(ByteCount(sum.saturating_mul(copies.into()).checked_div(told.len() as u64)?))
    }
}

/// What an extent takes; before, what is reserved behind the end of one that nobody writes is given back.
fn room_of(device: &Device, id: ExtentId, is_ended: bool) -> Result<ByteCount, DriveError> {
    let taken = device.drive.allocated(id)?;
    if !is_ended || taken.0 <= device.drive.length(id)?.0.saturating_add(RESERVED_MIN) {
        return Ok(taken);
    }
    device.drive.trim(id)?;
    device.space_freed();
    device.drive.allocated(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::BlobId;

    #[test]
    fn a_record_has_its_sectors_and_no_other() {
        let piece = |offset, length| BlobPiece {
            blob: BlobId(1),
            offset: ByteCount(offset),
            length: ByteCount(length),
        };
        assert_eq!(sectors_of(&piece(0, 432)), [(0, 1)].into());
        assert_eq!(sectors_of(&piece(512, 433)), [(0, 0b110)].into());
        assert_eq!(sectors_of(&piece(4096 + 3584, 1)), [(1, 0x80)].into());
        let long = sectors_of(&piece(3 * 4096 - 1024, 9_000));
        assert_eq!(long, [(2, 0b1100_0000), (3, 0xff), (4, 0xff)].into());
    }
}
