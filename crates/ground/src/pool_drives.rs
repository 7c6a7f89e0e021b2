//! The drives of the pool that the settings name, and those that are added while the server runs.

use std::path::PathBuf;
use std::sync::PoisonError;

use base::DriveId;
use threads::{Mutex, MutexGuard};

use crate::PoolDriveSettings;

/// The drives of the pool and where they are: those that the settings named at the start, and those that came
/// since. None goes from it: one that is taken out keeps its number.
pub struct PoolDriveList(Mutex<Vec<PoolDriveSettings>>);

impl PoolDriveList {
    /// The list of a start.
    #[must_use]
    pub fn new(drives: Vec<PoolDriveSettings>) -> Self {
        PoolDriveList(Mutex::new(drives))
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> Vec<PoolDriveSettings> {
        self.list().clone()
    }

    /// The one of this number.
    #[must_use]
    pub fn get(&self, id: DriveId) -> Option<PoolDriveSettings> {
        self.list().iter().find(|drive| drive.id == id.0).cloned()
    }

    /// Adds one that was put in.
    ///
    /// # Panics
    /// If there is one of its number.
    pub fn add(&self, drive: PoolDriveSettings) {
        let mut list = self.list();
        assert!(list.iter().all(|other| other.id != drive.id), "each number is given once");
        list.push(drive);
    }

    fn list(&self) -> MutexGuard<'_, Vec<PoolDriveSettings>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes down what was made ready: durable on return.
pub type NameDrive = Box<dyn FnOnce() -> Result<(), DriveFileError>>;

/// The file in which the operator names the drives of the pool. It alone says what the next start opens, so a
/// drive that is added stands in it before anything is written to the drive.
pub trait PoolDriveFile: Send + Sync {
    /// The drives that it names now, which may be more than it did at the start.
    ///
    /// # Errors
    /// If it cannot be read, or is wrong.
    fn drives(&self) -> Result<Vec<PoolDriveSettings>, DriveFileError>;

    /// Makes ready to name one more drive in it, and changes nothing before the answer is called.
    ///
    /// # Errors
    /// If it is wrong, cannot be written, or has a form in which that has to be done by hand.
    fn prepare(&self, drive: &PoolDriveSettings) -> Result<NameDrive, DriveFileError>;
}

/// Why a drive cannot be named in the operator's file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriveFileError {
    /// It cannot be read, or has a mistake, which is told with file and line.
    #[error("{0}: mend that first")]
    Wrong(String),
    /// It cannot be written.
    #[error("{file} cannot be written ({source}): make it so, or add this to it and say it again:{entry}")]
    Io {
        /// The file.
        file: PathBuf,
        /// What it lacks.
        entry: String,
        /// The reason.
        source: std::io::Error,
    },
    /// What it names cannot be added to by appending lines.
    #[error("{file} has its drives in another form than [[pool.drives]]: add this in its form:{entry}")]
    ByHand {
        /// The file.
        file: PathBuf,
        /// What it lacks.
        entry: String,
    },
}
