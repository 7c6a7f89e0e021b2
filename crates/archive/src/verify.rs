//! Verification on demand: files read from the pool, the catalogue checked against itself.

use base::{ArchivePath, ByteCount, FileId, StreamChecksums};

use crate::{Archive, ArchiveError};

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

/// Two records of the catalogue that contradict each other, or one that cannot be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CatalogueFinding {
    /// Which record, and what is wrong with it.
    pub what: String,
}

impl Archive {
    /// Reads a part of a file from the pool, at most [`VERIFY_BYTES_MAX`], with all its checks.
    ///
    /// # Errors
    /// As a get: [`ArchiveError::Nearline`], [`ArchiveError::Lost`], [`ArchiveError::Corrupt`],
    /// [`ArchiveError::Pool`].
    pub fn verify(&self, path: &ArchivePath, offset: u64, length: u64) -> Result<VerifyDone, ArchiveError> {
        let mut download = self.open_read(path)?;
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

    /// Checks all tables of the catalogue against each other. Reads all of it.
    ///
    /// # Errors
    /// [`ArchiveError::Catalogue`] if a record cannot be read at all.
    pub fn verify_catalogue(&self) -> Result<Vec<CatalogueFinding>, ArchiveError> {
        let found = self.engine().read(|view| view.check())?;
        let text = |found: catalogue::Inconsistency| {
            format!("table {}, key {}: {}", found.table.name(), found.key, found.what)
        };
        Ok(found.into_iter().map(|found| CatalogueFinding { what: text(found) }).collect())
    }
}
