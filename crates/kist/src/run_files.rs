//! Files that tell others of a running server, written also when the instance's file system is full.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use terminal::{Failure, Outcome};

use crate::instance::{Instance, try_write_durable};

/// Given up for the files of a start that finds no room, and taken again when there is some.
const RESERVE_FILE: &str = "run/reserve";
/// Enough for all of them, on file systems with large blocks too.
const RESERVE_BYTES: usize = 256 << 10;
/// What found no room is tried again after this.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// A file that is to be there while the server runs.
struct RunFile {
    path: PathBuf,
    bytes: Vec<u8>,
    mode: u32,
}

/// The files of one server.
pub struct RunFiles {
    reserve: PathBuf,
    /// What found no room yet.
    waiting: Mutex<Vec<RunFile>>,
}

impl RunFiles {
    /// Makes the directory if it is missing.
    pub fn open(instance: &Instance) -> Outcome<Self> {
        let run = instance.path("run");
        fs::create_dir_all(&run).map_err(|error| Failure::io("making the directory", &run, &error))?;
        let files = RunFiles { reserve: instance.path(RESERVE_FILE), waiting: Mutex::default() };
        files.take_reserve();
        Ok(files)
    }

    /// Writes a file; if there is no room for it even so, it is written once there is some.
    pub fn write(&self, path: PathBuf, bytes: Vec<u8>, mode: u32) -> Outcome {
        let mut written = try_write_durable(&path, &bytes, mode);
        if written.as_ref().is_err_and(is_full) {
            let _ = fs::remove_file(&self.reserve);
            written = try_write_durable(&path, &bytes, mode);
        }
        match written {
            Ok(()) => Ok(()),
            Err(error) if is_full(&error) => {
                let path_shown = path.display();
                tracing::error!(
                    "{path_shown}: no room: the server starts without, and writes it when there is"
                );
                // What an earlier server wrote there would mislead.
                let _ = fs::remove_file(&path);
                self.waiting().push(RunFile { path, bytes, mode });
                Ok(())
            }
            Err(error) => Err(Failure::io("writing", &path, &error)),
        }
    }

    /// Writes what found no room, for ever.
    pub async fn write_when_there_is_room(&self) {
        loop {
            tokio::time::sleep(RETRY_AFTER).await;
            self.waiting().retain(|file| try_write_durable(&file.path, &file.bytes, file.mode).is_err());
            if self.waiting().is_empty() {
                self.take_reserve();
            }
        }
    }

    /// Bytes, not a hole; without room there is none.
    fn take_reserve(&self) {
        let has_all = fs::metadata(&self.reserve).is_ok_and(|found| found.len() == RESERVE_BYTES as u64);
        if !has_all && try_write_durable(&self.reserve, &vec![0xa5; RESERVE_BYTES], 0o600).is_err() {
            let _ = fs::remove_file(&self.reserve);
        }
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Vec<RunFile>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
