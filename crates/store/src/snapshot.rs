//! Copies of the catalogue: taken without stopping, read without changing them.

use std::fs::{self, File};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use base::{Blake3, ByteCount};
use catalogue::{KvError, ReadError, Snapshot, Table, View, Visit};
use heed::types::Bytes;
use heed::{CommitOrAbort, CompactionOption, Env, EnvFlags, EnvOpenOptions, RoTxn, WithoutTls};

use crate::engine::{Engine, Rows, kv_error, scan};
use crate::error::SnapshotError;
use crate::format;
use crate::integrity;
use crate::store::CatalogueStore;

/// The file of a snapshot that holds the tables.
pub const SNAPSHOT_DATA: &str = "data.mdb";
/// The file of a snapshot that names its format.
pub const SNAPSHOT_FORMAT: &str = "FORMAT";

impl CatalogueStore {
    /// Writes a consistent copy of all tables into `directory`, which must be empty or absent: the files
    /// [`SNAPSHOT_DATA`] and [`SNAPSHOT_FORMAT`], without unused pages, synced; the directory's own name is
    /// the caller's to sync. Writers and readers go on; pages freed meanwhile cannot be used again until
    /// the copy is whole, so that the catalogue's file grows by what is written during it.
    ///
    /// # Errors
    /// If a file cannot be written, or the engine fails. What was written is left for the caller to remove.
    pub fn copy_to(&self, directory: &Path) -> Result<(), SnapshotError> {
        self.copy_with(directory, CompactionOption::Enabled)
    }

    /// As [`CatalogueStore::copy_to`]; without compaction the pages are copied as they are, unseen.
    pub(crate) fn copy_with(&self, directory: &Path, how: CompactionOption) -> Result<(), SnapshotError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| SnapshotError::File { path, source }
        };
        fs::create_dir_all(directory).map_err(failed(directory))?;
        let path = directory.join(SNAPSHOT_DATA);
        let mut file = File::create_new(&path).map_err(failed(&path))?;
        let Engine::Lmdb(engine) = self.engine() else {
            let reason = "tables in memory have no copy".to_owned();
            return Err(SnapshotError::Engine { path, reason });
        };
        engine.copy_to(&mut file, how).map_err(|error| match error {
            heed::Error::Io(source) => SnapshotError::File { path: path.clone(), source },
            other => SnapshotError::Engine { path: path.clone(), reason: other.to_string() },
        })?;
        file.sync_all().map_err(failed(&path))?;
        format::write(directory).map_err(failed(directory))
    }
}

/// The rows of one table as one value, to compare two catalogues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableDigest {
    /// How many rows it has.
    pub rows: u64,
    /// Bytes of keys and values.
    pub bytes: ByteCount,
    /// BLAKE3 over all rows in order: length of key and value, 4 bytes each, key, value.
    pub blake3: Blake3,
}

/// The digest of each table in the order of [`Table::ALL`].
pub type Digests = Vec<(Table, TableDigest)>;

/// Reads all tables. Memory does not grow with them.
///
/// # Errors
/// If the engine fails.
pub(crate) fn digests(snapshot: &dyn Snapshot) -> Result<Digests, KvError> {
    Table::ALL.into_iter().map(|table| Ok((table, digest(snapshot, table)?))).collect()
}

fn digest(snapshot: &dyn Snapshot, table: Table) -> Result<TableDigest, KvError> {
    let (mut rows, mut bytes, mut hasher) = (0, 0, blake3::Hasher::new());
    snapshot.scan(table, &[], None, &mut |key, value| {
        rows += 1;
        bytes += (key.len() + value.len()) as u64;
        for part in [key, value] {
            let length = u32::try_from(part.len());
            assert!(length.is_ok(), "the length of a part of a row has four bytes");
            // Keys have at most 511 bytes and values less than 4 GiB.
            hasher.update(&length.unwrap_or(u32::MAX).to_le_bytes());
        }
        hasher.update(key).update(value);
        ControlFlow::Continue(())
    })?;
    Ok(TableDigest { rows, bytes: ByteCount(bytes), blake3: Blake3(*hasher.finalize().as_bytes()) })
}

/// A copy of the catalogue, opened to be read only: no file of it is touched, no lock taken.
pub struct SnapshotReader {
    env: Env<WithoutTls>,
    tables: [Option<Rows>; Table::COUNT],
}

impl SnapshotReader {
    /// Opens the copy in `directory`, all of which is read first and must be whole. Nobody may write to it
    /// meanwhile.
    ///
    /// # Errors
    /// If it is of another format, damaged, or cannot be opened.
    pub fn open(directory: &Path) -> Result<SnapshotReader, SnapshotError> {
        let format = format::check_existing(directory)?;
        let damaged = |damage| SnapshotError::Damaged { path: directory.to_owned(), damage };
        integrity::walk(directory, format).map_err(damaged)?;
        let engine = |error: heed::Error| SnapshotError::Engine {
            path: directory.to_owned(),
            reason: error.to_string(),
        };
        let mut options = EnvOpenOptions::new().read_txn_without_tls();
        options.max_dbs(crate::engine::tables_max());
        // SAFETY: the files of a snapshot are written once and never changed afterwards, so that neither a
        // lock nor care for writers is needed while they are mapped.
        let env = unsafe {
            options.flags(EnvFlags::READ_ONLY | EnvFlags::NO_LOCK);
            options.open(directory).map_err(engine)?
        };
        let txn = env.read_txn().map_err(engine)?;
        let opened = env.open_databases_and_commit(txn, |opener, txn| -> Result<_, heed::Error> {
            let mut tables = Vec::with_capacity(Table::COUNT);
            for table in Table::ALL {
                // A snapshot of an older Kist may lack a newer table: it was empty then.
                tables.push(opener.open_database::<Bytes, Bytes>(txn, Some(table.name()))?);
            }
            let tables: [_; Table::COUNT] =
                tables.try_into().unwrap_or_else(|_| unreachable!("one for each table"));
            Ok(CommitOrAbort::<_, std::convert::Infallible>::Commit(tables))
        });
        let CommitOrAbort::Commit(tables) = opened.map_err(engine)?;
        Ok(SnapshotReader { env, tables })
    }

    /// Reads it as [`CatalogueStore::read`] does.
    ///
    /// # Errors
    /// What `f` returns, or that the engine failed.
    pub fn read<T>(&self, f: impl FnOnce(&View<'_>) -> Result<T, ReadError>) -> Result<T, ReadError> {
        let txn = self.env.read_txn().map_err(kv_error)?;
        f(&View::new(&Frozen { txn, tables: &self.tables }))
    }

    /// The digest of each table.
    ///
    /// # Errors
    /// If the engine fails.
    pub fn digests(&self) -> Result<Digests, KvError> {
        let txn = self.env.read_txn().map_err(kv_error)?;
        digests(&Frozen { txn, tables: &self.tables })
    }
}

struct Frozen<'e> {
    txn: RoTxn<'e, WithoutTls>,
    tables: &'e [Option<Rows>; Table::COUNT],
}

impl Snapshot for Frozen<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<&[u8]>, KvError> {
        match &self.tables[table.index()] {
            Some(rows) => rows.get(&self.txn, key).map_err(kv_error),
            None => Ok(None),
        }
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: Option<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<(), KvError> {
        match &self.tables[table.index()] {
            Some(rows) => scan(&self.txn, rows, from, to, visit),
            None => Ok(()),
        }
    }
}

/// The files of a snapshot in `directory`, in the order in which they are listed in manifests.
#[must_use]
pub fn snapshot_files(directory: &Path) -> [(&'static str, PathBuf); 2] {
    [SNAPSHOT_DATA, SNAPSHOT_FORMAT].map(|name| (name, directory.join(name)))
}
