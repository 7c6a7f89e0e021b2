//! Verification on demand: files read from the pool, the catalogue checked against itself.

use std::path::{Path, PathBuf};
use std::sync::PoisonError;

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

    /// Checks all tables of the catalogue against each other. Reads all of a copy, which is made beside the
    /// catalogue and needs up to twice its room; it is removed afterwards. A second call waits for the first.
    ///
    /// # Errors
    /// [`ArchiveError::Catalogue`] if a record cannot be read at all; [`ArchiveError::Verify`] if the copy
    /// cannot be made or read.
    pub fn verify_catalogue(&self) -> Result<Vec<CatalogueFinding>, ArchiveError> {
        let engine = self.engine();
        // One at a time: the copy that is read has one place.
        let _one = engine.verifying.lock().unwrap_or_else(PoisonError::into_inner);
        let scratch = scratch(&engine.settings.catalogue_directory);
        remove_leftovers(&scratch);
        let found = engine.catalogue.verify(&scratch)?;
        let text = |found: catalogue::Inconsistency| {
            format!("table {}, key {}: {}", found.table.name(), found.key, found.what)
        };
        Ok(found.into_iter().map(|found| CatalogueFinding { what: text(found) }).collect())
    }
}

/// Where the copy of a catalogue lies that is being verified.
fn scratch(catalogue: &Path) -> PathBuf {
    let mut name = catalogue.file_name().unwrap_or_default().to_owned();
    name.push(".verifying");
    catalogue.with_file_name(name)
}

/// Removes the copy of a verification that was cut short, if there is one.
fn remove_leftovers(scratch: &Path) {
    match std::fs::remove_dir_all(scratch) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::error!(path = %scratch.display(), %error, "a copy of the catalogue cannot be removed");
        }
        _ => {}
    }
}

/// Removes what a server that was killed has left beside its catalogue.
pub(crate) fn clean(catalogue: &Path) {
    remove_leftovers(&scratch(catalogue));
}
