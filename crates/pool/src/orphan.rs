//! What a crashed writer may have left: extents of blobs of older epochs.

use base::{BlobId, ByteCount, DriveId, StripeCode};
use drive::{AlignedBuffer, DriveError, ExtentId};

use crate::cell::{CellIdentity, HEADER_BYTES};
use crate::drives::{Device, PoolDrive};
use crate::error::PoolError;
use crate::pool::Pool;

/// An extent of an older epoch. It is garbage if the catalogue does not know its blob, unless the catalogue
/// is older than the drives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OrphanCandidate {
    /// The drive that holds it.
    pub drive: DriveId,
    /// The extent; `extent.blob` is what to ask the catalogue for.
    pub extent: ExtentId,
}

/// Ids by which drives know blobs that were written anew have a sequence from here on: of all others nobody
/// need read whose they are.
pub(crate) const ANEW_FROM: u64 = 1 << 39;

/// Whether extents of this id are of a blob that was written anew under it.
#[must_use]
pub fn is_written_anew(extents: BlobId) -> bool {
    extents.sequence() >= ANEW_FROM
}

/// Where a listing continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OrphanCursor {
    drive: DriveId,
    after: Option<ExtentId>,
}

/// A part of a listing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OrphanPage {
    /// What was found, perhaps nothing.
    pub candidates: Vec<OrphanCandidate>,
    /// Where to continue; `None` at the end.
    pub next: Option<OrphanCursor>,
}

impl Pool {
    /// Lists extents of older epochs, drive by drive, looking at no more than `limit` extents a call.
    ///
    /// # Errors
    /// [`PoolError::Drive`] if a drive cannot be listed.
    pub fn list_orphan_candidates(
        &self,
        cursor: Option<OrphanCursor>,
        limit: usize,
    ) -> Result<OrphanPage, PoolError> {
        let from = cursor.map(|cursor| cursor.drive);
        let mut present = self
            .drives()
            .filter(|drive| from.is_none_or(|from| drive.id >= from))
            .filter_map(|drive| drive.present().map(|present| (drive.id, present)));
        let Some((id, listed)) = present.next() else {
            return Ok(OrphanPage { candidates: Vec::new(), next: None });
        };
        let after = cursor.filter(|cursor| cursor.drive == id).and_then(|cursor| cursor.after);
        let extents = listed.ask_reader(move |device| device.drive.list(after, limit.max(1)));
        // One that is set aside meanwhile is left out, as those are that were before.
        let extents = extents.transpose()?.unwrap_or_default();
        let next = match extents.last() {
            Some(last) => Some(OrphanCursor { drive: id, after: Some(*last) }),
            None => present.next().map(|(drive, _)| OrphanCursor { drive, after: None }),
        };
        let old = extents.into_iter().filter(|extent| extent.blob.epoch() < self.epoch());
        let candidates = old.map(|extent| OrphanCandidate { drive: id, extent }).collect();
        Ok(OrphanPage { candidates, next })
    }

    /// What an extent takes of its drive; nothing if it is not there any more.
    ///
    /// # Errors
    /// [`PoolError::Drive`].
    pub fn orphan_bytes(&self, orphan: &OrphanCandidate) -> Result<ByteCount, PoolError> {
        let (extent, found) = (orphan.extent, self.drive(orphan.drive).and_then(PoolDrive::present));
        match found.and_then(|present| present.ask_reader(move |device| device.drive.allocated(extent))) {
            None | Some(Err(DriveError::NotFound { .. })) => Ok(ByteCount(0)),
            Some(bytes) => Ok(bytes?),
        }
    }

    /// Gives back what is reserved behind the end of an extent of an older epoch, which nobody writes any
    /// more.
    ///
    /// # Errors
    /// [`PoolError::NotAnOrphan`] if it is of the current epoch; [`PoolError::Drive`].
    pub fn trim_orphan(&self, orphan: &OrphanCandidate) -> Result<(), PoolError> {
        if orphan.extent.blob.epoch() >= self.epoch() {
            return Err(PoolError::NotAnOrphan(orphan.extent.blob));
        }
        let id = orphan.extent;
        let trim = move |device: &Device| device.drive.trim(id).map(|()| device.space_freed());
        self.on_writers(std::iter::once((orphan.drive, trim)))
    }

    /// Of which blob an extent that the catalogue does not know is a shard, and in which code, if that blob
    /// was written anew there. `None` if it is of none, or nothing can be told.
    #[must_use]
    pub fn orphan_of(&self, orphan: &OrphanCandidate) -> Option<(BlobId, StripeCode)> {
        let (extent, instance) = (orphan.extent, self.config().instance);
        let present = self.drive(orphan.drive).and_then(PoolDrive::present)?;
        let cell = present.ask_reader(move |device| {
            let mut header = AlignedBuffer::new(HEADER_BYTES);
            device.drive.read_at(extent, ByteCount(0), header.as_mut_slice()).ok()?;
            CellIdentity::announced(header.as_slice().try_into().ok()?, instance)
        });
        let cell = cell.flatten()?;
        let is_its_own = (cell.blob, cell.stripe, cell.shard) == (extent.blob, extent.stripe, extent.shard);
        let global = cell.parity.checked_sub(cell.local)?;
        let code = StripeCode { data: cell.data, local: cell.local, global };
        (is_its_own && code.exists()).then_some(cell.of?).map(|of| (of, code))
    }

    /// Removes an extent that the catalogue does not know.
    ///
    /// # Errors
    /// [`PoolError::NotAnOrphan`] if it is of the current epoch; [`PoolError::Drive`].
    pub fn remove_orphan(&self, orphan: &OrphanCandidate) -> Result<(), PoolError> {
        if orphan.extent.blob.epoch() >= self.epoch() {
            return Err(PoolError::NotAnOrphan(orphan.extent.blob));
        }
        self.delete_all(std::iter::once((orphan.drive, orphan.extent)))
    }
}
