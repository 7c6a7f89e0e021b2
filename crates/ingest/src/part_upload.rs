//! A part of an upload on its way in: bytes to the pool, synced, then one catalogue command.

use base::{
    BlobDescription, BlobPiece, ByteCount, DriveGroup, PartHash, PartHasher, StreamChecksums, UploadId,
};
use catalogue::{Object, PARTS_MAX, PoolData, PutPart, Rejection};
use pool::BlobWriter;

use crate::Ingest;
use crate::open_parts::PartRoom;
use crate::upload::SEGMENT_RETRIES_MAX;
use ground::SMALL_BYTES_MAX;
use ground::{ArchiveError, PartInfo, UploadError};

/// Of parts of which nothing is known: what most clients send.
const USUAL_PART: u64 = 8 << 20;

/// A part in progress. Dropping it stores nothing.
pub struct PartUpload {
    ingest: Ingest,
    upload: UploadId,
    number: u16,
    length: Option<ByteCount>,
    /// Whose client sends it.
    who: String,
    /// The first bytes, until there are too many for a small value.
    small: Vec<u8>,
    large: Option<BlobWriter>,
    hasher: PartHasher,
    received: u64,
    /// There is a part of this number already.
    replaces: bool,
    /// The drives that get it.
    group: DriveGroup,
    /// Its share of the quotas, until it is stored.
    room: PartRoom,
}

impl Ingest {
    /// Begins a part of an upload. What is known of its length helps to hash it at the place that it will
    /// have in the file, and to refuse it before its body.
    ///
    /// # Errors
    /// [`UploadError::NoSuchUpload`], a number that no part has, there is no room, or
    /// [`ArchiveError::QuotaExceeded`]: all parts of uploads count as their files will.
    pub fn begin_part(
        &self,
        upload: UploadId,
        number: u16,
        length: Option<ByteCount>,
    ) -> Result<PartUpload, ArchiveError> {
        let ingest = &*self.0;
        if number == 0 || number > PARTS_MAX {
            let (what, limit) = ("the number of a part, from 1 on", u64::from(PARTS_MAX));
            return Err(ArchiveError::Limit { what, limit });
        }
        let found = ingest.read(|view| match view.upload(upload)? {
            Some(record) if !record.ending => {
                let first = view.upload_parts(upload, 0, 1)?.into_iter().next();
                let first = first.map(|(number, part)| (number, part.size.0));
                let replaces = view.upload_part(upload, number)?.is_some();
                Ok(Some((first, replaces, record.bucket, record.plan.class)))
            }
            _ => Ok(None),
        })?;
        let (first, replaces, bucket, class) = found.ok_or(UploadError::NoSuchUpload(upload))?;
        let group = match class {
            Some(class) => ingest.group_of_class(class),
            None => self.group_below(None, bucket, ByteCount(u64::MAX)),
        };
        let room = self.room_for_part(upload, number, length.unwrap_or(ByteCount(0)))?;
        self.check_room(length)?;
        let offset = likely_offset(number, length.map(|length| length.0), first);
        Ok(PartUpload {
            ingest: self.clone(),
            upload,
            number,
            length,
            who: String::new(),
            small: Vec::new(),
            large: None,
            hasher: PartHasher::new(offset),
            received: 0,
            replaces,
            group,
            room,
        })
    }
}

/// Where a part probably begins, given its length and number and length of the first part that is there: all
/// have one length, but for the last, which is shorter.
fn likely_offset(number: u16, length: Option<u64>, first: Option<(u16, u64)>) -> ByteCount {
    let each = match (length, first) {
        (Some(own), Some((before, size))) if before < number => own.max(size),
        (Some(own), _) => own,
        (None, Some((_, size))) => size,
        (None, None) => USUAL_PART,
    };
    ByteCount(u64::from(number.saturating_sub(1)).saturating_mul(each).min(i64::MAX as u64))
}

impl PartUpload {
    /// Says whose client sends it, before the first byte.
    #[must_use]
    pub fn sent_by(mut self, who: &str) -> Self {
        who.clone_into(&mut self.who);
        self
    }

    /// The client sends nothing at present: gives back memory of the pool that others need meanwhile.
    pub fn pause(&mut self) {
        if let Some(writer) = &mut self.large {
            writer.pause();
        }
    }

    /// Takes the next bytes of the body.
    ///
    /// # Errors
    /// If the pool cannot take them, or there are more than were announced. The part must be dropped then.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), ArchiveError> {
        let taken = self.take_in(bytes);
        taken.map_err(|error| self.ingest.0.tell_of_lack(error, self.length))
    }

    fn take_in(&mut self, bytes: &[u8]) -> Result<(), ArchiveError> {
        self.received += bytes.len() as u64;
        if let Some(expected) = self.length
            && self.received > expected.0
        {
            return Err(ArchiveError::LengthMismatch { expected: expected.0, actual: self.received });
        }
        if self.length.is_none() {
            self.room.grow(self.received)?;
        }
        self.hasher.update(bytes);
        if let Some(writer) = &mut self.large {
            return Ok(writer.write(bytes)?);
        }
        if self.small.len() + bytes.len() <= SMALL_BYTES_MAX {
            self.small.extend_from_slice(bytes);
            return Ok(());
        }
        let writer = self.ingest.0.pool.create_on(self.group, self.length)?;
        let mut writer = writer.used_by_client_of(&self.who).with_checksums();
        writer.write(&self.small)?;
        writer.write(bytes)?;
        self.small = Vec::new();
        self.large = Some(writer);
        Ok(())
    }

    /// Ends the body: checks its length, syncs it, commits it. When this returns the part is as safe as a
    /// file, and one of its number that was there before is gone.
    ///
    /// # Errors
    /// [`UploadError::NoSuchUpload`] if the upload has ended meanwhile. After an error nothing is stored,
    /// but for [`ArchiveError::Store`], where it may be.
    pub fn finish(mut self, attributes: Vec<(String, Vec<u8>)>) -> Result<PartInfo, ArchiveError> {
        if let Some(expected) = self.length
            && expected.0 != self.received
        {
            return Err(ArchiveError::LengthMismatch { expected: expected.0, actual: self.received });
        }
        let replaces = self.replaces;
        let hash = std::mem::replace(&mut self.hasher, PartHasher::new(ByteCount(0))).finish();
        let done = match self.large.take() {
            Some(writer) => self.finish_large(writer, hash, attributes),
            None => self.finish_small(&hash, &attributes),
        };
        if replaces {
            self.ingest.0.sweep.ring();
        }
        done
    }

    fn finish_large(
        &mut self,
        mut writer: BlobWriter,
        hash: PartHash,
        attributes: Vec<(String, Vec<u8>)>,
    ) -> Result<PartInfo, ArchiveError> {
        let Some(checksums) = writer.end()? else { unreachable!("the writer was made with checksums") };
        let blob = writer.finish().map_err(ArchiveError::from);
        let blob = blob.map_err(|error| self.ingest.0.tell_of_lack(error, self.length))?;
        let piece = BlobPiece { blob: blob.id, offset: ByteCount(0), length: ByteCount(self.received) };
        let part = self.part(checksums, hash, attributes, Some((&blob, piece)));
        let result = self.commit(part);
        // After an engine failure nobody knows whether it was kept, and the next start finds out.
        if let Err(error) = &result
            && error.is_certain_refusal()
            && let Err(error) = self.ingest.0.pool.remove(&blob)
        {
            tracing::warn!(%error, "an unused blob stays until the next start");
        }
        result
    }

    fn finish_small(
        &mut self,
        hash: &PartHash,
        attributes: &[(String, Vec<u8>)],
    ) -> Result<PartInfo, ArchiveError> {
        let ingest = self.ingest.clone();
        let ingest = &*ingest.0;
        let checksums = StreamChecksums::of(&self.small);
        if self.small.is_empty() {
            let part = self.part(checksums, hash.clone(), attributes.to_vec(), None);
            return self.commit(part);
        }
        // Before the gate is entered, which garbage waits for.
        ingest.pool.pace(self.received);
        // A segment that is swept meanwhile is still known as garbage when the commit arrives; see `sweep`.
        let _storing = ingest.gate.enter();
        for _ in 0..SEGMENT_RETRIES_MAX {
            let (blob, piece) = ingest.pool.put_small(&self.small)?;
            let part = self.part(checksums, hash.clone(), attributes.to_vec(), Some((&blob, piece)));
            match self.commit(part) {
                // The segment's other values were all deleted and it is being removed, or a repair has moved
                // it to other drives meanwhile.
                Err(ArchiveError::Rejected(Rejection::BlobIsGarbage(_) | Rejection::BlobDiffers(_))) => {
                    ingest.pool.seal_segments();
                }
                Err(error) => {
                    if error.is_certain_refusal()
                        && let Err(error) = ingest.pool.punch(&blob, &piece)
                    {
                        tracing::warn!(%error, "a refused value stays until its segment is removed");
                    }
                    return Err(error);
                }
                done => return done,
            }
        }
        Err(ArchiveError::Stopping)
    }

    fn part(
        &self,
        checksums: StreamChecksums,
        hash: PartHash,
        attributes: Vec<(String, Vec<u8>)>,
        place: Option<(&BlobDescription, BlobPiece)>,
    ) -> PutPart {
        let data = place.map(|(blob, piece)| PoolData { blobs: vec![blob.clone()], pieces: vec![piece] });
        let (upload, number, size) = (self.upload, self.number, ByteCount(self.received));
        PutPart { upload, number, size, checksums, hash, attributes, data }
    }

    fn commit(&mut self, part: PutPart) -> Result<PartInfo, ArchiveError> {
        // From here on the command decides, and the bytes must not count twice.
        self.room.give_back();
        let ingest = &*self.ingest.0;
        let (number, size, attributes) = (part.number, part.size, part.attributes.clone());
        match ingest.ask(Box::new(part)) {
            Ok(stamp) => Ok(PartInfo { number, size, stored: ingest.now(), attributes, stamp }),
            Err(ArchiveError::Rejected(Rejection::NotFound(Object::Upload(upload)))) => {
                Err(UploadError::NoSuchUpload(upload).into())
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_thought_to_have_one_length_but_the_last() {
        let offset = |number, length, first| likely_offset(number, length, first).0;
        assert_eq!(offset(1, Some(500), None), 0);
        assert_eq!(offset(3, Some(500), None), 1000);
        assert_eq!(offset(3, Some(100), Some((1, 500))), 1000, "the last one");
        assert_eq!(offset(2, Some(500), Some((3, 100))), 500, "the last one came first");
        assert_eq!(offset(3, None, Some((2, 500))), 1000);
        assert_eq!(offset(2, None, None), USUAL_PART);
    }
}
