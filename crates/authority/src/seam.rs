//! Bytes and reports on their way between doors and the engine.

use archive::{ArchiveError, FileStat, PartInfo, PutCallback, PutDone, UsageReport};
use base::Duration;
use bytes::Bytes;

/// A usage report in the making, of which each step takes a bounded time.
pub trait UsageSteps: Send {
    /// Goes on; the report at the end.
    fn step(&mut self) -> Option<UsageReport>;

    /// Bytes that were read, and that there are.
    fn progress(&self) -> (u64, u64);
}

/// A client that sends no piece of a file for this long is slow: see [`Upload::pause`].
pub const UPLOAD_SLOW_AFTER: Duration = Duration::from_millis(250);

/// A part on its way in. Dropping it before `finish` leaves nothing behind.
pub trait PartUpload: Send {
    /// Takes the next bytes.
    ///
    /// # Errors
    /// If they cannot be stored; the part is over then.
    fn write(&mut self, bytes: &[u8]) -> Result<(), ArchiveError>;

    /// The client has sent nothing for a while ([`UPLOAD_SLOW_AFTER`]): gives back memory of the engine that
    /// others need meanwhile.
    fn pause(&mut self);

    /// Makes the part durable, with what the door keeps of it, in place of one of its number.
    ///
    /// # Errors
    /// If it cannot be stored, or the upload has ended. Nothing is stored then.
    fn finish(self: Box<Self>, attributes: Vec<(String, Vec<u8>)>) -> Result<PartInfo, ArchiveError>;
}

/// A file on its way in. Dropping it before `finish` leaves nothing behind.
pub trait Upload: Send {
    /// Takes the next bytes.
    ///
    /// # Errors
    /// If they cannot be stored; the upload is over then.
    fn write(&mut self, bytes: &[u8]) -> Result<(), ArchiveError>;

    /// The client has sent nothing for a while ([`UPLOAD_SLOW_AFTER`]): gives back memory of the engine that
    /// others need meanwhile.
    fn pause(&mut self);

    /// Gives the file an extended attribute that is known only when its bytes have gone by.
    fn attribute(&mut self, name: String, value: Vec<u8>);

    /// Makes the file durable and gives it its name.
    ///
    /// # Errors
    /// If length or checksum are not as announced, or it cannot be stored. Nothing is stored then.
    fn finish(self: Box<Self>) -> Result<PutDone, ArchiveError>;

    /// As `finish`, but `done` gets what it returns, at once or later, perhaps on another thread. It may be
    /// dropped uncalled only if that thread panicked.
    fn finish_then(self: Box<Self>, done: PutCallback);
}

/// A file on its way out.
pub trait Download: Send {
    /// What file it is.
    fn stat(&self) -> &FileStat;

    /// Reads only `length` bytes from `offset` on; to be called before the first `next`.
    ///
    /// # Errors
    /// If the range is not within the file.
    fn select(&mut self, offset: u64, length: u64) -> Result<(), ArchiveError>;

    /// Whether drives answer that hold what is to be read; nothing is read for it.
    ///
    /// # Errors
    /// If too few of them do.
    fn check_drives(&self) -> Result<(), ArchiveError>;

    /// The next verified bytes, at most 1 MiB; `None` at the end. Of a whole file the last bytes come only
    /// after its checksum agreed.
    ///
    /// # Errors
    /// If the bytes cannot be read, or are not those that were stored.
    fn next(&mut self) -> Result<Option<Bytes>, ArchiveError>;

    /// Gives back what the engine holds ready for this download; the next `next` goes on where it was.
    fn pause(&mut self);
}

impl UsageSteps for archive::UsageReading {
    fn step(&mut self) -> Option<UsageReport> {
        archive::UsageReading::step(self)
    }

    fn progress(&self) -> (u64, u64) {
        archive::UsageReading::progress(self)
    }
}

impl PartUpload for archive::PartUpload {
    fn write(&mut self, bytes: &[u8]) -> Result<(), ArchiveError> {
        archive::PartUpload::write(self, bytes)
    }

    fn pause(&mut self) {
        archive::PartUpload::pause(self);
    }

    fn finish(self: Box<Self>, attributes: Vec<(String, Vec<u8>)>) -> Result<PartInfo, ArchiveError> {
        archive::PartUpload::finish(*self, attributes)
    }
}

impl Upload for archive::Upload {
    fn attribute(&mut self, name: String, value: Vec<u8>) {
        archive::Upload::attribute(self, name, value);
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), ArchiveError> {
        archive::Upload::write(self, bytes)
    }

    fn pause(&mut self) {
        archive::Upload::pause(self);
    }

    fn finish(self: Box<Self>) -> Result<PutDone, ArchiveError> {
        archive::Upload::finish(*self)
    }

    fn finish_then(self: Box<Self>, done: PutCallback) {
        archive::Upload::finish_then(*self, done);
    }
}

impl Download for archive::Download {
    fn stat(&self) -> &FileStat {
        archive::Download::stat(self)
    }

    fn select(&mut self, offset: u64, length: u64) -> Result<(), ArchiveError> {
        archive::Download::select(self, offset, length)
    }

    fn check_drives(&self) -> Result<(), ArchiveError> {
        archive::Download::check_drives(self)
    }

    fn next(&mut self) -> Result<Option<Bytes>, ArchiveError> {
        // The pool's buffer goes back to its arena when the connection has sent it.
        Ok(archive::Download::next(self)?.map(Bytes::from_owner))
    }

    fn pause(&mut self) {
        archive::Download::pause(self);
    }
}
