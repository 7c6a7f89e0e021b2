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
    /// Checks what every start checks: each page, each record's checksum, that the rows of each table are
    /// those of the last commit. To be asked before anything is removed because it is not known. A snapshot
    /// is held meanwhile. Once damage was found, all reads and writes are refused. Tables in memory are
    /// whole.
    ///
    /// # Errors
    /// If the catalogue is damaged, or its file cannot be read now.
    pub fn check_pages(&self) -> Result<(), ReadError> {
        match self.engine() {
            Engine::Lmdb(engine) => Ok(engine.walk()?),
            Engine::Memory(_) => Ok(()),
        }
    }

    /// Checks what every start checks (each page, each record's checksum, that the rows of each table are
    /// those of the last commit), and all cross references and tallies. Empty if all is well. The tables
    /// contradict each other unless they are of one moment, and a snapshot held for so long would keep
    /// freed pages from use: a copy is made in `scratch`, a directory that must not exist yet, as large as
    /// the catalogue, and is read instead. A snapshot is held for as long as the copy takes. The copy is
    /// removed afterwards. Tables in memory are read where they are.
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
            Ok(copy.read(|view| view.check())?)
        });
        // What cannot be removed is in the way of the next one, which says so.
        let _ = fs::remove_dir_all(scratch);
        found
    }
}
