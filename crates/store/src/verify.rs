//! The full check of a catalogue that goes on being used.

use std::fs;
use std::path::Path;

use catalogue::{Inconsistency, ReadError};

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
    /// Checks every record's checksum, all cross references and all tallies. Empty if all is well. The tables
    /// contradict each other unless they are of one moment, and a snapshot held for so long would keep freed
    /// pages from use: a copy is made in `scratch`, a directory that must not exist yet, as large as the
    /// catalogue, and is read instead. A snapshot is held for as long as the copy takes. The copy is removed
    /// afterwards.
    ///
    /// # Errors
    /// If the copy cannot be made, or a record cannot be read.
    pub fn verify(&self, scratch: &Path) -> Result<Vec<Inconsistency>, VerifyError> {
        // Only what was made here may be removed at the end.
        fs::create_dir(scratch).map_err(|source| {
            VerifyError::Snapshot(SnapshotError::File { path: scratch.to_owned(), source })
        })?;
        let found = self.copy_to(scratch).map_err(VerifyError::from).and_then(|()| {
            let copy = SnapshotReader::open(scratch)?;
            Ok(copy.read(|view| view.check())?)
        });
        // What cannot be removed is in the way of the next one, which says so.
        let _ = fs::remove_dir_all(scratch);
        found
    }
}
