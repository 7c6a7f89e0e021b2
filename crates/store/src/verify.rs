//! The full check of a catalogue that goes on being used.

use std::fs;
use std::path::Path;

use catalogue::{Inconsistency, ReadError};
use heed::CompactionOption;

use crate::engine::Engine;
use crate::error::SnapshotError;
use crate::snapshot::SnapshotReader;
use crate::store::CatalogueStore;

/// Why a catalogue could not be verified, or that a record of it cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The copy that is checked could not be made or opened.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// A record is damaged: restore the catalogue from its backup.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl CatalogueStore {
    /// Checks every record's checksum, the order and number of the rows of every table, all cross references
    /// and all tallies. Empty if all is well. The tables contradict each other unless they are of one moment,
    /// and a snapshot held for so long would keep freed pages from use: a copy is made in `scratch`, a
    /// directory that must not exist yet, at most twice as large as the catalogue, and is read instead. A
    /// snapshot is held for as long as the copy takes. The copy is removed afterwards. Tables in memory are
    /// read where they are.
    ///
    /// What no look at the file alone can find: that its newest meta page, or the root under it, is lost, so
    /// that the engine falls back to the commit before. All is right then, and older. Whoever has seen a
    /// later change can tell: the drives of the pool do at the start. And a page of an older commit in its
    /// old place whose rows agree with all others as they are now, as a tape with fewer mounts does:
    /// rehearsing the backup tells.
    ///
    /// # Errors
    /// If the copy cannot be made, or a record cannot be read.
    pub fn verify(&self, scratch: &Path) -> Result<Vec<Inconsistency>, VerifyError> {
        if let Engine::Memory(_) = self.engine() {
            return Ok(self.read(|view| view.check())?);
        }
        // Only what was made here may be removed at the end.
        fs::create_dir(scratch).map_err(|source| {
            VerifyError::Snapshot(SnapshotError::File { path: scratch.to_owned(), source })
        })?;
        // Page by page: damage must neither crash the server here nor make the copy endless.
        let copied = self.copy_with(scratch, CompactionOption::Disabled);
        let found = copied.map_err(VerifyError::from).and_then(|()| {
            let copy = SnapshotReader::open(scratch)?;
            let mut found = copy.miscounted().map_err(ReadError::from)?;
            if found.is_empty() {
                found.extend(copy.read(|view| view.check())?);
                copy.check_pages(&scratch.join("pages"))?;
            }
            Ok(found)
        });
        // What cannot be removed is in the way of the next one, which says so.
        let _ = fs::remove_dir_all(scratch);
        found
    }
}
