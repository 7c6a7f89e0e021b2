//! The lock of a directory that is a drive or becomes one.

use std::fs::{self, File, Metadata, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use crate::DriveOpenError;

/// Who has the lock may be a program that the last owner has begun, which has all that was open for a moment.
const LOOK_EVERY: Duration = Duration::from_millis(10);
const LOOKS: u32 = 50;

/// A directory that no other process opens as a drive, makes one of, or burns in, as long as this value
/// lives.
#[derive(Debug)]
pub struct DirectoryLock(File);

impl DirectoryLock {
    /// Takes the lock of a directory that is there. Waits for it half a second.
    ///
    /// # Errors
    /// [`DriveOpenError::Locked`] if somebody has it, [`DriveOpenError::Io`].
    pub fn take(path: &Path) -> Result<DirectoryLock, DriveOpenError> {
        let failed = |operation| {
            let path = path.to_owned();
            move |source| DriveOpenError::Io { path, operation, source }
        };
        let directory = File::open(path).map_err(failed("opening"))?;
        for look in 0.. {
            match directory.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if look < LOOKS => std::thread::sleep(LOOK_EVERY),
                Err(TryLockError::WouldBlock) => return Err(DriveOpenError::Locked(path.to_owned())),
                Err(TryLockError::Error(source)) => return Err(failed("locking")(source)),
            }
        }
        Ok(DirectoryLock(directory))
    }

    /// Whether a path leads to the directory that is locked: its disk may have been unmounted meanwhile, or
    /// another one mounted over it.
    #[must_use]
    pub fn is_of(&self, path: &Path) -> bool {
        let locked = identity(self.0.metadata());
        locked.is_some() && locked == identity(fs::metadata(path))
    }

    /// The directory, with which the lock lives on.
    pub(crate) fn into_directory(self) -> File {
        self.0
    }
}

/// Device and inode, by which a directory is known again; `None` if it cannot be looked at.
pub(crate) fn identity(found: io::Result<Metadata>) -> Option<(u64, u64)> {
    found.map(|found| (found.dev(), found.ino())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_it_and_knows_its_directory_again() {
        let above = tempfile::tempdir().unwrap();
        let path = above.path().join("d");
        fs::create_dir(&path).unwrap();
        let lock = DirectoryLock::take(&path).unwrap();
        assert!(matches!(DirectoryLock::take(&path), Err(DriveOpenError::Locked(_))));
        assert!(lock.is_of(&path));
        fs::rename(&path, above.path().join("away")).unwrap();
        assert!(!lock.is_of(&path));
        fs::create_dir(&path).unwrap();
        assert!(!lock.is_of(&path), "another one is there");
        drop(lock);
        assert!(DirectoryLock::take(&above.path().join("away")).is_ok());
    }
}
