//! The narrow seam to the embedded engine: ordered tables of bytes, snapshots, one writing transaction.

use std::ops::ControlFlow;

use crate::table::Table;

/// An error of the engine itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KvError {
    /// The map reserved for the catalogue is full.
    #[error("the catalogue's map is full: raise catalogue.map_size in kist.toml and restart")]
    MapFull,
    /// The file system of the catalogue is full; nothing was changed.
    #[error("the file system of the catalogue is full: make room on it")]
    DiskFull,
    /// The engine failed; the text is the engine's own.
    #[error("the catalogue's engine failed: {0}")]
    Engine(String),
}

/// Called for each key and value of a scan; `Break` ends it.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// A consistent view of all tables.
pub trait Snapshot {
    /// The value of a key.
    ///
    /// # Errors
    /// If the engine fails.
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<&[u8]>, KvError>;

    /// Visits keys `from <= key < to` (`None`: to the end of the table) in order.
    ///
    /// # Errors
    /// If the engine fails.
    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: Option<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<(), KvError>;
}

/// The one writing transaction. Nothing is visible to others or durable before it is committed.
pub trait Transaction: Snapshot {
    /// Sets a key.
    ///
    /// # Errors
    /// If the engine fails.
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), KvError>;

    /// Deletes a key; whether it was there.
    ///
    /// # Errors
    /// If the engine fails.
    fn delete(&mut self, table: Table, key: &[u8]) -> Result<bool, KvError>;
}
