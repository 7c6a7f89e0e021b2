//! Names of a directory from any place on: for walks in another order than the tree's.

use base::{DirId, NAME_BYTES_MAX, Name};

use super::View;
use crate::error::ReadError;
use crate::frame;
use crate::key;
use crate::record::Entry;
use crate::table::Table;

impl View<'_> {
    /// Names in a directory in the order of their bytes, from `from` (itself included, any bytes) on, at most
    /// `limit`.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn names_from(
        &self,
        directory: DirId,
        from: &[u8],
        limit: usize,
    ) -> Result<Vec<(Name, Entry)>, ReadError> {
        // A name is shorter than this, so that what stands behind it decides nothing.
        let from = from.get(..=NAME_BYTES_MAX).unwrap_or(from);
        let start = [&key::directory(directory), from].concat();
        let end = key::prefix_end(&key::directory(directory));
        self.rows(Table::Entry, &start, end.as_deref(), limit, |mut parts, key, value| {
            parts.u64()?;
            Ok((parts.name()?, frame::open(Table::Entry, key, value)?))
        })
    }

    /// What a name in a directory stands for; `None` also for what can be no name.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn entry_named(&self, directory: DirId, name: &str) -> Result<Option<Entry>, ReadError> {
        self.entry_of(directory, name)
    }
}
