//! Verification on demand of files in the pool.

use base::{ArchivePath, ByteCount, FileId, StreamChecksums};

use crate::Ingest;
use ground::ArchiveError;

/// The most bytes that one call reads.
pub const VERIFY_BYTES_MAX: u64 = 1 << 30;

/// What a part of a file was found to be. All its bytes agreed with the checksums in the pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VerifyDone {
    /// The version of the file that was read.
    pub file: FileId,
    /// Its size.
    pub size: ByteCount,
    /// Where the part begins.
    pub offset: ByteCount,
    /// Bytes read.
    pub length: ByteCount,
    /// Their checksums: combined over all parts they must be the file's.
    pub sums: StreamChecksums,
    /// The file's own checksums.
    pub expected: StreamChecksums,
}

impl Ingest {
    /// Reads a part of a file from the pool, at most [`VERIFY_BYTES_MAX`], with all its checks.
    ///
    /// # Errors
    /// As a get: [`ArchiveError::Nearline`], [`ArchiveError::Lost`], [`ArchiveError::Corrupt`],
    /// [`ArchiveError::Pool`].
    pub fn verify(&self, path: &ArchivePath, offset: u64, length: u64) -> Result<VerifyDone, ArchiveError> {
        let mut download = self.open_check(path)?;
        let (file, size) = (download.stat().file, download.stat().size);
        let expected = download.stat().checksums.stream;
        let mut done = VerifyDone {
            file,
            size,
            offset: ByteCount(offset),
            length: ByteCount(0),
            sums: StreamChecksums::default(),
            expected,
        };
        if size.0 == 0 {
            return Ok(done);
        }
        download.select(offset, length.min(VERIFY_BYTES_MAX))?;
        while let Some(chunk) = download.next()? {
            done.sums = done.sums.extend(chunk.as_ref());
            done.length.0 += chunk.as_ref().len() as u64;
        }
        Ok(done)
    }
}
