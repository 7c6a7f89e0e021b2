//! What every drive can do.

use std::sync::Arc;

use base::planted::{Bug, is_planted};
use base::{ByteCount, DriveId, Epoch, Uuid};

use crate::{AlignedBuffer, BurnInRecord, DriveError, DriveQueue, ExtentId};

/// The unit of writing: lengths of appends and addresses of buffers are multiples of it.
pub const PAGE: usize = 4096;
/// The eighth of a page: what shares a page with something else begins and ends at multiples of it.
pub const SECTOR: usize = PAGE / 8;

/// A page of an extent, and which of its sectors nobody needs any more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SharedPage {
    /// Its number in the extent.
    pub number: u32,
    /// A bit for each sector that nobody needs, the lowest for the first.
    pub unneeded: u8,
}

impl SharedPage {
    /// Where it begins.
    #[must_use]
    pub fn offset(&self) -> ByteCount {
        ByteCount(u64::from(self.number) * PAGE as u64)
    }

    /// Whether a page with these bytes becomes zeros without a loss: all that somebody may need is zeros.
    #[must_use]
    pub fn is_unneeded(&self, bytes: &[u8]) -> bool {
        let mut sectors = bytes.chunks(SECTOR).enumerate();
        let is_unneeded = |(n, sector): (usize, &[u8])| {
            (self.unneeded >> n) & 1 == 1 || sector.iter().all(|byte| *byte == 0)
        };
        sectors.all(is_unneeded) || is_planted(Bug::PunchNeighbours)
    }
}

/// [`ObjectDrive::punch_unneeded`] for a drive that has nothing better: a page is read and, if nobody needs
/// it, punched. Nobody may write the extent meanwhile.
///
/// # Errors
/// As [`ObjectDrive::punch_unneeded`].
pub fn punch_page_by_page(
    drive: &dyn ObjectDrive,
    id: ExtentId,
    pages: &[SharedPage],
) -> Result<Vec<u32>, DriveError> {
    let mut given_back = Vec::new();
    let mut bytes = AlignedBuffer::new(PAGE);
    for page in pages {
        match drive.read_at(id, page.offset(), bytes.as_mut_slice()) {
            Err(DriveError::Truncated { .. }) => continue,
            read => read?,
        }
        if page.is_unneeded(bytes.as_slice()) {
            drive.punch(id, page.offset(), ByteCount(PAGE as u64))?;
            given_back.push(page.number);
        }
    }
    Ok(given_back)
}

/// A drive of named extents, each written once from its beginning to its end. No call has a default: whoever
/// wraps a drive decides about each.
pub trait ObjectDrive: Send + Sync {
    /// The drive's id within the instance.
    fn id(&self) -> DriveId;

    /// Where the drive is, for people: a path or an address.
    fn name(&self) -> String;

    /// The burn-in that its place has a record of, as it was found when the drive was opened.
    fn burn_in(&self) -> Option<BurnInRecord>;

    /// The queue of a drive that has several operations under way at one time. `None`: its calls block, and
    /// it is given one read and one write at a time ([`crate::BlockingQueue`]).
    fn queue(&self) -> Option<Arc<dyn DriveQueue>>;

    /// Why it has no queue although one was to be had if possible.
    fn queue_refused(&self) -> Option<String> {
        None
    }

    /// Makes an extent and reserves space for `preallocate` bytes (0: none). Durable only after a sync.
    ///
    /// # Errors
    /// [`DriveError::Exists`] if it exists, [`DriveError::Full`] if the reservation does not fit.
    fn create(&self, id: ExtentId, preallocate: ByteCount) -> Result<Box<dyn ExtentWriter>, DriveError>;

    /// Begins an extent that takes the place of the one of this id, if there is one, when it is sealed: it is
    /// written under another name, synced, and renamed over the old one in one step. Readers see the old
    /// bytes or the new ones, after a crash too. Dropped unsealed it changes nothing.
    ///
    /// # Errors
    /// [`DriveError::Full`] if the reservation does not fit, [`DriveError::Io`], also of a drive that cannot
    /// do it.
    fn replace(&self, id: ExtentId, preallocate: ByteCount) -> Result<Box<dyn ExtentWriter>, DriveError>;

    /// Fills `into` from `offset` on. Extents still being written can be read up to what was appended.
    ///
    /// # Errors
    /// [`DriveError::NotFound`], [`DriveError::Truncated`] if the extent ends before, [`DriveError::Io`].
    fn read_at(&self, id: ExtentId, offset: ByteCount, into: &mut [u8]) -> Result<(), DriveError>;

    /// Gives back the space of a range of whole pages, which reads as zeros (or is left as it is) from then
    /// on.
    ///
    /// # Errors
    /// [`DriveError::NotFound`], [`DriveError::Io`]. A file system without holes is no error.
    fn punch(&self, id: ExtentId, offset: ByteCount, length: ByteCount) -> Result<(), DriveError>;

    /// As [`ObjectDrive::punch`] those pages of which all that somebody may need is zeros, and no other:
    /// whatever the caller believes, no byte changes that he did not name. Gives their numbers. The pages are
    /// in the order of their numbers.
    ///
    /// # Errors
    /// [`DriveError::NotFound`], [`DriveError::Io`].
    fn punch_unneeded(&self, id: ExtentId, pages: &[SharedPage]) -> Result<Vec<u32>, DriveError>;

    /// Gives back what is reserved behind the end of an extent that nobody writes any more, as a crash leaves
    /// it. Changes no byte of it and not its length.
    ///
    /// # Errors
    /// [`DriveError::NotFound`], [`DriveError::Io`].
    fn trim(&self, id: ExtentId) -> Result<(), DriveError>;

    /// What an extent takes of the drive, which may be less than its length, or more while it is written.
    ///
    /// # Errors
    /// As [`ObjectDrive::length`].
    fn allocated(&self, id: ExtentId) -> Result<ByteCount, DriveError>;

    /// The length of an extent: what was appended.
    ///
    /// # Errors
    /// [`DriveError::NotFound`], [`DriveError::Io`].
    fn length(&self, id: ExtentId) -> Result<ByteCount, DriveError>;

    /// Removes an extent; one that is absent is no error. Not durable by itself: a crash may bring it back.
    ///
    /// # Errors
    /// [`DriveError::Io`].
    fn delete(&self, id: ExtentId) -> Result<(), DriveError>;

    /// Lists at most `limit` extents behind `after` in the order of [`ExtentId`]. Empty at the end.
    ///
    /// # Errors
    /// [`DriveError::List`].
    fn list(&self, after: Option<ExtentId>, limit: usize) -> Result<Vec<ExtentId>, DriveError>;

    /// Space and health.
    ///
    /// # Errors
    /// [`DriveError::Status`] if the drive does not answer.
    fn status(&self) -> Result<DriveStatus, DriveError>;

    /// What the superblock says.
    fn stamp(&self) -> Stamp;

    /// Records epoch and commit in the superblock; durable on return. Only where the drive is: it is read
    /// back first, and written where this drive's superblock is and nowhere else. If the one found is older
    /// than [`ObjectDrive::stamp`], the drive was put back from an old copy: [`Stamp::gaps_after`] says so
    /// from then on.
    ///
    /// # Errors
    /// [`DriveError::Stamp`]; [`DriveError::NotThere`] and [`DriveError::Wiped`], and nothing was written.
    fn set_stamp(&self, epoch: Epoch, commit: u64) -> Result<(), DriveError>;

    /// Sets [`Stamp::gaps_after`], as [`ObjectDrive::set_stamp`] does the others.
    ///
    /// # Errors
    /// As [`ObjectDrive::set_stamp`].
    fn set_gaps(&self, gaps_after: Option<u64>) -> Result<(), DriveError>;

    /// Reads the superblock anew and compares it with [`ObjectDrive::stamp`].
    ///
    /// # Errors
    /// [`DriveError::StampDamaged`] if a copy of it is damaged, old or gone:
    /// [`ObjectDrive::set_stamp`] writes all of it anew.
    fn check_stamp(&self) -> Result<(), DriveError>;

    /// Looks whether the drive stands where it was opened and holds its superblock: a directory may be moved
    /// away, its disk unmounted, or all in it removed, and then nothing that is asked for by name exists.
    /// Costs a look at two small files. One that is older than [`ObjectDrive::stamp`] is treated as by
    /// [`ObjectDrive::set_stamp`].
    ///
    /// # Errors
    /// [`DriveError::NotThere`] if it may come back, [`DriveError::Wiped`] if what it held is gone,
    /// [`DriveError::Stamp`] if the superblock cannot be read.
    fn check_place(&self) -> Result<(), DriveError>;

    /// Finds out whether a drive that failed works again: it is still this drive by its superblock, and a
    /// page can be written, synced and read back. On success the drive is not suspect any more.
    ///
    /// # Errors
    /// [`DriveError::Probe`].
    fn probe(&self) -> Result<(), DriveError>;

    /// Finds out whether so much can be reserved, as [`ObjectDrive::create`] would; nothing of it stays. What
    /// the file system says is free does not tell that where a quota limits it.
    ///
    /// # Errors
    /// [`DriveError::Probe`].
    fn probe_room(&self, bytes: ByteCount) -> Result<(), DriveError>;
}

/// The one writer of an extent. Dropping it leaves the extent unsealed, to be deleted by its owner.
pub trait ExtentWriter: Send {
    /// Appends whole pages.
    ///
    /// # Errors
    /// [`DriveError::Unaligned`], [`DriveError::Full`], [`DriveError::Io`]; any of the last two poisons the
    /// writer.
    fn append(&mut self, bytes: &[u8]) -> Result<(), DriveError>;

    /// Makes everything appended so far, and the extent's name, durable.
    ///
    /// # Errors
    /// [`DriveError::Io`]; the writer is poisoned then, since the kernel may have dropped the pages and a
    /// second sync would prove nothing.
    fn sync(&mut self) -> Result<(), DriveError>;

    /// Gives back unused reserved space, syncs, and ends writing for good.
    ///
    /// # Errors
    /// As [`ExtentWriter::sync`].
    fn seal(self: Box<Self>) -> Result<(), DriveError>;
}

/// Space and health of a drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DriveStatus {
    /// The size of the file system.
    pub capacity: ByteCount,
    /// What is taken, by whomever.
    pub used: ByteCount,
    /// What may still be written.
    pub free: ByteCount,
    /// A write or sync failed since the drive was opened or last probed: it should get no new data.
    pub suspect: bool,
    /// The file system that it says this of, by a number: drives with the same number share it. `None`: it is
    /// the drive's own.
    pub file_system: Option<u64>,
}

/// The superblock's content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// The instance that owns the drive.
    pub instance: Uuid,
    /// The drive's id within the instance.
    pub drive: DriveId,
    /// The newest epoch that wrote here; 0 for a fresh drive.
    pub epoch: Epoch,
    /// The newest catalogue commit this drive has been told of.
    pub commit: u64,
    /// It may lack what was written after this commit: it was away, or put back from an old copy, and nobody
    /// has gone through it since. `None`: it holds what it should, as far as is known.
    pub gaps_after: Option<u64>,
}

impl Stamp {
    /// What orders the stamps of a drive, and those that several drives got at one time.
    #[must_use]
    pub fn age(&self) -> (Epoch, u64) {
        (self.epoch, self.commit)
    }
}
