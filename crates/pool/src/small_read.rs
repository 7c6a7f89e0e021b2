//! Reading small values: through the drives' queues, so that one that hangs holds up nobody for long.

use std::sync::Arc;

use base::{BlobDescription, BlobPiece, DriveGroup};
use drive::{AlignedBuffer, ExtentId, PAGE};

use crate::arena::PoolBuffer;
use crate::config::LATE_LOOK_EVERY;
use crate::drives::{PoolDrive, Present, count};
use crate::error::PoolError;
use crate::fetch::CellFault;
use crate::gather::Gather;
use crate::pool::Pool;
use crate::reading::ReadPlace;
use crate::record::{RECORD_HEADER_BYTES, RecordIdentity};

/// The pages around a record, verified.
type RecordRead = Result<AlignedBuffer, CellFault>;

/// Where the record begins in its first page, and where it ends.
fn within_pages(identity: &RecordIdentity) -> (usize, usize) {
    let skip = usize::try_from(identity.offset % PAGE as u64).unwrap_or(0);
    (skip, skip + RECORD_HEADER_BYTES + identity.length as usize)
}

impl Pool {
    /// Reads a small value, verified, from whichever copy is whole. A copy that does not come within a
    /// multiple of the usual time is waited for only if no other gives the value.
    ///
    /// # Errors
    /// [`PoolError::Unrecoverable`] if no copy is whole, [`PoolError::Shortage`], [`PoolError::Description`]
    /// if the piece is not of the blob.
    pub fn read_small(&self, blob: &BlobDescription, piece: &BlobPiece) -> Result<PoolBuffer, PoolError> {
        let (identity, drives) = self.record(blob, piece)?;
        let (skip, end) = within_pages(&identity);
        // Values are spread over the copies by their place.
        let first = usize::try_from(piece.offset.0 / 512).unwrap_or(0) % drives.len().max(1);
        let mut copies: Vec<usize> = (0..drives.len()).map(|n| (first + n) % drives.len()).collect();
        copies.sort_by_key(|copy| self.device(drives[*copy]).is_none_or(|device| device.is_stuck()));
        let (mut late, mut shortage) = (Vec::new(), None);
        for copy in copies {
            let Some(drive) = self.drive(drives[copy]) else { continue };
            if let Some(present) = drive.present() {
                let gather = self.ask_record(&identity, &present, copy);
                let (came, all) = gather.wait_for(self.hedge(DriveGroup::MAIN));
                match came.into_iter().next() {
                    Some(Ok(buffer)) => return Ok(PoolBuffer::own(buffer, skip + RECORD_HEADER_BYTES..end)),
                    Some(Err(fault)) => self.note_record(&identity, &fault, &mut shortage),
                    // Dropped, since its drive was set aside.
                    None if all => {}
                    None => {
                        count(&present.device.counters.late, 1);
                        late.push((gather, present));
                    }
                }
            }
            count(&drive.reconstructions, 1);
        }
        // Whichever comes first: a drive that hangs does not hold up those that are only slow.
        while !late.is_empty() {
            for (gather, present) in std::mem::take(&mut late) {
                let (came, all) = gather.wait_for(LATE_LOOK_EVERY);
                match came.into_iter().next() {
                    Some(Ok(buffer)) => {
                        return Ok(PoolBuffer::own(buffer, skip + RECORD_HEADER_BYTES..end));
                    }
                    Some(Err(fault)) => self.note_record(&identity, &fault, &mut shortage),
                    None if all || present.device.is_away() => {}
                    None => late.push((gather, present)),
                }
            }
        }
        if let Some(reason) = shortage {
            return Err(PoolError::Shortage { blob: blob.id, reason });
        }
        Err(PoolError::Unrecoverable {
            blob: blob.id,
            offset: piece.offset,
            length: piece.length,
            found: 0,
            needed: 1,
        })
    }

    /// A copy that is of no use is repaired, unless only this machine lacks something.
    fn note_record(&self, identity: &RecordIdentity, fault: &CellFault, shortage: &mut Option<String>) {
        match fault {
            CellFault::Shortage(reason) => *shortage = Some(reason.clone()),
            _ => {
                let value = (identity.offset, identity.length.into());
                self.watch().needs_repair(identity.segment, Some(value));
            }
        }
    }

    /// Queues the reading of a record in one copy.
    fn ask_record(
        &self,
        identity: &RecordIdentity,
        present: &Present,
        copy: usize,
    ) -> Arc<Gather<RecordRead>> {
        let shard = u8::try_from(copy).unwrap_or(u8::MAX);
        let id = ExtentId { blob: identity.segment, stripe: 0, shard };
        let ((skip, end), identity) = (within_pages(identity), *identity);
        let gather = Gather::new();
        let ticket = gather.ticket();
        let length = end.next_multiple_of(PAGE);
        let place = ReadPlace::whole(id, identity.offset - skip as u64, length);
        present.read(place, AlignedBuffer::new(length), move |device, buffer, read| {
            let checked = match read {
                Err(error) => {
                    device.read_failed(id.blob, &error);
                    Err(CellFault::of(&error))
                }
                Ok(()) => identity.verify(&buffer.as_slice()[skip..end]).map_err(|damage| {
                    count(&device.counters.damaged, 1);
                    tracing::warn!(extent = %id, offset = identity.offset, ?damage, "damaged record");
                    CellFault::Damaged(damage)
                }),
            };
            ticket.done(checked.map(|()| buffer));
        });
        gather
    }

    /// Reads and checks a record in one copy; gives the bytes read.
    pub(crate) fn read_record(
        &self,
        blob: &BlobDescription,
        piece: &BlobPiece,
        copy: usize,
    ) -> Result<u64, CellFault> {
        let Ok((identity, drives)) = self.record(blob, piece) else { return Err(CellFault::NoExtent) };
        let Some(present) = drives.get(copy).and_then(|id| self.drive(*id)).and_then(PoolDrive::present)
        else {
            return Err(CellFault::NoDrive);
        };
        let gather = self.ask_record(&identity, &present, copy);
        let read = gather.wait_unless(|_| present.device.is_away()).pop();
        read.unwrap_or(Err(CellFault::NoDrive)).map(|buffer| buffer.as_slice().len() as u64)
    }
}
