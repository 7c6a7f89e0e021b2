//! The store: one writer, many readers.

use std::path::Path;
use std::sync::Arc;

use base::{ByteCount, Clock};
use catalogue::{Command, Outcome, ReadError, Rejection, View};

use crate::error::{ExecuteError, OpenError};

/// Most commands in one group commit.
pub const BATCH_MAX: usize = 1024;
/// Most calls that wait for the writer.
pub const QUEUE_MAX: usize = 4096;

/// How to open the store.
#[derive(Clone)]
pub struct StoreOptions {
    /// Address space reserved for the catalogue: its largest size.
    pub map_size: ByteCount,
    /// The time that commands carry.
    pub clock: Arc<dyn Clock>,
    /// Most commands in one group commit, 1 to [`BATCH_MAX`].
    pub batch_max: usize,
}

/// The open catalogue. Cheap to share behind an `Arc`.
pub struct CatalogueStore {}

impl CatalogueStore {
    /// Opens or makes the catalogue in a directory.
    ///
    /// # Errors
    /// If the directory is in use, of a newer format, or cannot be opened.
    pub fn open(dir: &Path, options: StoreOptions) -> Result<CatalogueStore, OpenError> {
        let _ = (dir, options);
        Ok(CatalogueStore {})
    }

    /// Executes a command; it is durable when this returns `Ok`. Blocks.
    ///
    /// # Errors
    /// If it was refused, or the engine failed.
    pub fn execute(&self, command: Command) -> Result<Outcome, ExecuteError> {
        let _ = command;
        Err(ExecuteError::Stopped)
    }

    /// Executes commands in order in one group commit; each is accepted or refused by itself.
    ///
    /// # Errors
    /// If the engine failed.
    pub fn execute_all(
        &self,
        commands: Vec<Command>,
    ) -> Result<Vec<Result<Outcome, Rejection>>, ExecuteError> {
        let _ = commands;
        Err(ExecuteError::Stopped)
    }

    /// Reads one consistent snapshot. Keep `f` short: pages freed meanwhile cannot be used again until it ends.
    ///
    /// # Errors
    /// What `f` returns, or that the engine failed.
    pub fn read<T>(&self, f: impl FnOnce(&View<'_>) -> Result<T, ReadError>) -> Result<T, ReadError> {
        f(&View::new(&catalogue::MemoryStore::new()))
    }
}
