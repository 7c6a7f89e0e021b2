//! The lock of a library's directory: one program at a time moves its cartridges.

use std::fs::{self, File, OpenOptions};
use std::path::Path;
use std::time::{Duration, Instant};

use archive::Settings;
use terminal::{Exit, Failure, Outcome};

/// Locked by whoever uses the library: the server of an instance, or `kist library serve`.
const LOCK_FILE: &str = "lock";

/// The lock of a library's directory; gone when it is dropped or the process ends.
#[derive(Debug)]
pub struct LibraryLock {
    _file: File,
}

/// How long a server waits for the one before it, which has been killed and has let its instance go already:
/// the kernel closes its files one after the other.
const OF_A_SERVER: Duration = Duration::from_secs(5);
/// Often enough that nobody sees the wait.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Takes the locks of all libraries of an instance. A library that is not there is told when it is opened.
///
/// # Errors
/// If another program uses one of them.
pub fn take_all(settings: &Settings) -> Outcome<Vec<LibraryLock>> {
    let all = std::iter::once(&settings.library).chain(&settings.more_libraries);
    // A changer's cartridges are kept for its users by reservations of the drives.
    let directories = all.filter_map(|library| Some(&library.files()?.directory));
    let directories = directories.filter(|directory| directory.is_dir());
    directories.map(|directory| take(directory, OF_A_SERVER)).collect()
}

/// Takes the lock of a library's directory.
///
/// # Errors
/// If another program uses the library, and still does after `patience`.
pub fn take(directory: &Path, patience: Duration) -> Outcome<LibraryLock> {
    let path = directory.join(LOCK_FILE);
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(|error| Failure::io("opening the lock", &path, &error))?;
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(LibraryLock { _file: file }),
            Err(fs::TryLockError::WouldBlock) if begun.elapsed() < patience => {
                std::thread::sleep(LOOK_EVERY);
            }
            Err(fs::TryLockError::WouldBlock) => {
                let message = format!(
                    "the library {} is in use by another program: kist serve, or kist library serve; stop \
                     that first",
                    directory.display()
                );
                return Err(Failure::new(Exit::Refused, message));
            }
            Err(fs::TryLockError::Error(error)) => return Err(Failure::io("locking", &path, &error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_has_one_user() {
        let directory = tempfile::tempdir().unwrap();
        let lock = take(directory.path(), Duration::ZERO).unwrap();
        let refused = take(directory.path(), Duration::ZERO).unwrap_err();
        assert_eq!(refused.exit, Exit::Refused);
        drop(lock);
        take(directory.path(), Duration::ZERO).unwrap();
        assert_eq!(take(&directory.path().join("absent"), Duration::ZERO).unwrap_err().exit, Exit::NotFound);
    }
}
