//! All tables in memory: for tests, and for the twin.

use crate::kv::{KvError, Snapshot, Transaction, Visit};
use crate::overlay::{Rows, scan_rows};
use crate::table::Table;

/// A catalogue in memory. A clone is a snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemoryStore {
    tables: [Rows; Table::COUNT],
}

impl Default for MemoryStore {
    fn default() -> Self {
        MemoryStore { tables: std::array::from_fn(|_| Rows::default()) }
    }
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        MemoryStore::default()
    }

    /// All rows of a table in order.
    pub fn rows(&self, table: Table) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.tables[table.index()].iter().map(|(key, value)| (key.as_slice(), value.as_slice()))
    }
}

impl Snapshot for MemoryStore {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<&[u8]>, KvError> {
        Ok(self.tables[table.index()].get(key).map(Vec::as_slice))
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: Option<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<(), KvError> {
        scan_rows(&self.tables[table.index()], from, to, visit);
        Ok(())
    }
}

impl Transaction for MemoryStore {
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), KvError> {
        self.tables[table.index()].insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn delete(&mut self, table: Table, key: &[u8]) -> Result<bool, KvError> {
        Ok(self.tables[table.index()].remove(key).is_some())
    }
}
