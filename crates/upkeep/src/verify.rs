//! Verification on demand: the catalogue checked against itself.

use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use crate::Upkeep;
use ground::ArchiveError;

/// Two records of the catalogue that contradict each other, or one that cannot be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CatalogueFinding {
    /// Which record, and what is wrong with it.
    pub what: String,
}

impl Upkeep {
    /// Checks all tables of the catalogue against each other. Reads all of a copy, which is made beside the
    /// catalogue and needs up to twice its room; it is removed afterwards. A second call waits for the first.
    ///
    /// # Errors
    /// [`ArchiveError::Catalogue`] if a record cannot be read at all; [`ArchiveError::Verify`] if the copy
    /// cannot be made or read.
    pub fn verify_catalogue(&self) -> Result<Vec<CatalogueFinding>, ArchiveError> {
        let upkeep = self;
        // One at a time: the copy that is read has one place.
        let _one = upkeep.verifying.lock().unwrap_or_else(PoisonError::into_inner);
        let scratch = scratch(&upkeep.settings.catalogue_directory);
        remove_leftovers(&scratch);
        let found = upkeep.catalogue.verify(&scratch)?;
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
pub fn clean(catalogue: &Path) {
    remove_leftovers(&scratch(catalogue));
}
