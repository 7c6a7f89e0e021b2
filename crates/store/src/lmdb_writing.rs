//! The writing transaction of LMDB, with the rows that every command changes kept beside it until the commit.

use catalogue::{KvError, Overlay, Snapshot, Table, Transaction, Visit, scan_overlaid};
use heed::{PutFlags, RwTxn};

use crate::engine::{DataFile, Rows, kv_error, scan};
use crate::head::Head;
use crate::integrity::SUMS_KEY;
use crate::room::Room;
use crate::sums::Sums;

/// `EIO` of Linux.
const EIO: i32 = 5;

/// Tables of which the same few rows are changed again and again: kept in memory and written once a commit.
fn is_hot(table: Table) -> bool {
    matches!(table, Table::Blob)
}

/// Tables whose new keys mostly are the largest ones.
fn is_appended(table: Table) -> bool {
    matches!(
        table,
        Table::File
            | Table::Change
            | Table::Container
            | Table::Member
            | Table::RunItem
            | Table::Directory
            | Table::IdempotencyAge
    )
}

/// The writing transaction; dropped without a commit it changes nothing.
pub(crate) struct LmdbWriting<'e> {
    txn: RwTxn<'e>,
    tables: &'e [Rows; Table::COUNT],
    sums_table: &'e Rows,
    head: &'e Head,
    data: &'e DataFile,
    room: &'e Room,
    is_changed: bool,
    /// What the rows add up to with the changes so far.
    sums: Sums,
    /// Rows of hot tables that the engine has not been given yet.
    hot: [Overlay; Table::COUNT],
    /// No key of an appended table is larger than this; `None`: not looked up yet.
    last: [Option<Vec<u8>>; Table::COUNT],
}

/// The file is at another commit than the one that this process has made last.
pub(crate) fn went_back(found: u64, last: u64) -> KvError {
    KvError::Engine(format!(
        "the catalogue's file is at commit {found} and was at {last}: an older file was written over it \
         while the server runs; stop it and restore the backup"
    ))
}

impl<'e> LmdbWriting<'e> {
    pub(crate) fn new(
        txn: RwTxn<'e>,
        tables: &'e [Rows; Table::COUNT],
        sums_table: &'e Rows,
        head: &'e Head,
        data: &'e DataFile,
        room: &'e Room,
    ) -> Result<Self, KvError> {
        let stored = sums_table.get(&txn, SUMS_KEY).map_err(kv_error)?.map(Sums::decode);
        // LMDB counts on in its lock file whatever becomes of its pages: what these say of themselves tells.
        if let Some(Some((_, found))) = &stored
            && head.last() != 0
            && *found != head.last()
        {
            return Err(went_back(*found, head.last()));
        }
        let sums = match stored {
            Some(sums) => sums.map(|(sums, _)| sums),
            None => Some(Sums::default()),
        };
        let damaged = || KvError::Engine("the sums of the tables are damaged".to_owned());
        let sums = sums.ok_or_else(damaged)?;
        let (hot, last) = (std::array::from_fn(|_| Overlay::new()), std::array::from_fn(|_| None));
        Ok(LmdbWriting { txn, tables, sums_table, head, data, room, is_changed: false, sums, hot, last })
    }

    /// The tables with what the engine has been given so far.
    pub(crate) fn reading(&self) -> &heed::RoTxn<'_> {
        &self.txn
    }

    #[cfg(test)]
    pub(crate) fn sums(&self) -> &Sums {
        &self.sums
    }

    /// Begins anew with the sums that the rows were found to have.
    pub(crate) fn set_sums(&mut self, sums: Sums) {
        self.sums = sums;
    }

    pub(crate) fn is_changed(&self) -> bool {
        self.is_changed
    }

    pub(crate) fn commit(mut self) -> Result<(), KvError> {
        for (rows, hot) in self.tables.iter().zip(&mut self.hot) {
            for (key, value) in std::mem::take(hot) {
                match value {
                    Some(value) => rows.put(&mut self.txn, &key, &value).map_err(kv_error)?,
                    None => drop(rows.delete(&mut self.txn, &key).map_err(kv_error)?),
                }
            }
        }
        let commit = self.txn.id() as u64;
        assert!(commit > self.head.last(), "each commit of this process is newer than the one before");
        assert!(self.hot.iter().all(Overlay::is_empty), "what was kept back is written with the commit");
        let encoded = self.sums.encode(commit);
        assert_eq!(
            Sums::decode(&encoded).as_ref().map(|(sums, at)| (sums, *at)),
            Some((&self.sums, commit)),
            "what the rows add up to is read again as it is written"
        );
        self.sums_table.put(&mut self.txn, SUMS_KEY, &encoded).map_err(kv_error)?;
        self.txn.commit().map_err(|error| match error {
            // What LMDB says of a write that a full file system has cut short.
            heed::Error::Io(error) if error.raw_os_error() == Some(EIO) && self.room.is_full() => {
                KvError::DiskFull
            }
            error => kv_error(error),
        })?;
        self.head.write(commit);
        self.room.met_room();
        // What stands in a file that the next start does not find is not durable.
        self.data.check_place().map_err(|damage| {
            KvError::Engine(format!(
                "the catalogue's file is not in its place any more: {damage}; nothing is acknowledged that \
                 is written into it: stop the server and start it again, which says how to go on"
            ))
        })
    }

    /// Puts a row behind all others if it belongs there: no search, and full pages.
    fn append(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), KvError> {
        let (rows, last) = (&self.tables[table.index()], &mut self.last[table.index()]);
        let last = match last {
            Some(last) => last,
            None => {
                let found = rows.last(&self.txn).map_err(kv_error)?;
                last.insert(found.map_or_else(Vec::new, |(key, _)| key.to_vec()))
            }
        };
        if key <= last.as_slice() {
            self.take_old(table, key)?;
            let rows = &self.tables[table.index()];
            return rows.put(&mut self.txn, key, value).map_err(kv_error);
        }
        debug_assert!(rows.get(&self.txn, key).is_ok_and(|old| old.is_none()), "what is appended is new");
        last.clear();
        last.extend_from_slice(key);
        rows.put_with_flags(&mut self.txn, PutFlags::APPEND, key, value).map_err(kv_error)
    }

    /// Takes the row that is about to be replaced or deleted out of the sums; whether there was one.
    fn take_old(&mut self, table: Table, key: &[u8]) -> Result<bool, KvError> {
        let old = match self.hot[table.index()].get(key) {
            Some(value) => value.as_deref(),
            None => self.tables[table.index()].get(&self.txn, key).map_err(kv_error)?,
        };
        if let Some(old) = old {
            self.sums.of(table).take(old);
        }
        Ok(old.is_some())
    }

    fn put_hot(&mut self, table: Table, key: &[u8], value: &[u8]) {
        assert!(is_hot(table) && !is_appended(table), "rows of {table:?} are kept back, not appended");
        let hot = &mut self.hot[table.index()];
        match hot.get_mut(key) {
            Some(Some(known)) => {
                known.clear();
                known.extend_from_slice(value);
            }
            Some(gone) => *gone = Some(value.to_vec()),
            None => drop(hot.insert(key.to_vec(), Some(value.to_vec()))),
        }
    }
}

impl Snapshot for LmdbWriting<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<&[u8]>, KvError> {
        match self.hot[table.index()].get(key) {
            Some(value) => Ok(value.as_deref()),
            None => self.tables[table.index()].get(&self.txn, key).map_err(kv_error),
        }
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: Option<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<(), KvError> {
        let (rows, hot) = (&self.tables[table.index()], &self.hot[table.index()]);
        scan_overlaid(hot, from, to, visit, |visit| scan(&self.txn, rows, from, to, visit))
    }
}

impl Transaction for LmdbWriting<'_> {
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), KvError> {
        assert!(!key.is_empty() && !value.is_empty(), "a row of {table:?} has a key and a value");
        self.is_changed = true;
        self.sums.of(table).add(value);
        if is_appended(table) {
            return self.append(table, key, value);
        }
        self.take_old(table, key)?;
        if is_hot(table) {
            self.put_hot(table, key, value);
            return Ok(());
        }
        self.tables[table.index()].put(&mut self.txn, key, value).map_err(kv_error)
    }

    fn delete(&mut self, table: Table, key: &[u8]) -> Result<bool, KvError> {
        self.is_changed = true;
        let was_there = self.take_old(table, key)?;
        if is_hot(table) {
            self.hot[table.index()].insert(key.to_vec(), None);
            return Ok(was_there);
        }
        let is_gone = self.tables[table.index()].delete(&mut self.txn, key).map_err(kv_error)?;
        assert_eq!(is_gone, was_there, "what is taken from the sums is what is deleted");
        Ok(is_gone)
    }
}
