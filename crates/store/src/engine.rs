//! LMDB behind the catalogue's narrow seam, and beside it tables in memory.

use std::fs::File;
use std::io::ErrorKind;
use std::ops::Bound;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use catalogue::{KvError, ReadError, Rejection, Snapshot, Table, Transaction, Visit};
use heed::types::Bytes;
use heed::{CommitOrAbort, CompactionOption, Database, Env, EnvOpenOptions, MdbError, RoTxn, WithoutTls};

use crate::error::Damage;
use crate::format::FORMAT_VERSION;
use crate::head::Head;
use crate::integrity::{SUMS_KEY, SUMS_TABLE, Whole, walk_file};
use crate::lmdb_writing::{LmdbWriting, went_back};
use crate::memory::{MemoryEngine, MemoryWriting};
use crate::snapshot::SNAPSHOT_DATA;
use crate::sums::commit_of;

/// A table's handle.
pub(crate) type Rows = Database<'static, Bytes, Bytes>;

/// What the catalogue's tables lie in.
pub(crate) enum Engine {
    Lmdb(Box<LmdbEngine>),
    /// For the simulator and tests.
    Memory(MemoryEngine),
}

impl Engine {
    /// Gives a snapshot to `read`.
    pub(crate) fn read<T>(
        &self,
        read: impl FnOnce(&dyn Snapshot) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        match self {
            Engine::Lmdb(engine) => read(&engine.read()?),
            Engine::Memory(engine) => read(&engine.read()),
        }
    }

    pub(crate) fn write(&self) -> Result<Writing<'_>, KvError> {
        Ok(match self {
            Engine::Lmdb(engine) => Writing::Lmdb(Box::new(engine.write()?)),
            Engine::Memory(engine) => Writing::Memory(Box::new(engine.write())),
        })
    }
}

/// The writing transaction of either.
pub(crate) enum Writing<'e> {
    Lmdb(Box<LmdbWriting<'e>>),
    Memory(Box<MemoryWriting<'e>>),
}

impl Writing<'_> {
    pub(crate) fn transaction(&mut self) -> &mut dyn Transaction {
        match self {
            Writing::Lmdb(writing) => &mut **writing,
            Writing::Memory(writing) => writing.as_mut(),
        }
    }

    /// Whether there is anything to commit.
    pub(crate) fn is_changed(&self) -> bool {
        match self {
            Writing::Lmdb(writing) => writing.is_changed(),
            Writing::Memory(writing) => writing.is_changed(),
        }
    }

    /// Makes all changes durable.
    pub(crate) fn commit(self) -> Result<(), KvError> {
        match self {
            Writing::Lmdb(writing) => writing.commit(),
            Writing::Memory(writing) => writing.commit(),
        }
    }
}

/// The open environment and its tables in the order of [`Table::ALL`].
pub(crate) struct LmdbEngine {
    env: Env<WithoutTls>,
    tables: [Rows; Table::COUNT],
    sums: Rows,
    head: Head,
    data: DataFile,
    /// What a walk has found wrong: nothing is read or written any more.
    damaged: OnceLock<String>,
}

/// A commit may write the page of metas while it is read: what is wrong is wrong every time.
const WALKS: usize = 3;

impl LmdbEngine {
    /// Opens what was found to be `whole`; tables that it does not have yet are made.
    pub(crate) fn open(
        dir: &Path,
        map_size: usize,
        readers_max: u32,
        whole: &Whole,
    ) -> Result<Self, heed::Error> {
        let mut options = EnvOpenOptions::new().read_txn_without_tls();
        options.map_size(map_size).max_readers(readers_max).max_dbs(Table::COUNT as u32 + 1);
        // SAFETY: the map may be touched by LMDB alone while it is open. The directory's lock, which the
        // caller holds,
        // keeps other Kist processes out; nothing else in Kist opens these files; no flag that weakens LMDB
        // is set.
        let env = unsafe { options.open(dir)? };
        env.clear_stale_readers()?;
        let txn = env.write_txn()?;
        let opened = env.create_databases_and_commit(txn, |opener, txn| -> Result<_, heed::Error> {
            let mut tables = Vec::with_capacity(Table::COUNT);
            for table in Table::ALL {
                tables.push(opener.create_database::<Bytes, Bytes>(txn, Some(table.name()))?);
            }
            let tables: [_; Table::COUNT] =
                tables.try_into().unwrap_or_else(|_| unreachable!("one for each table"));
            let sums = opener.create_database::<Bytes, Bytes>(txn, Some(SUMS_TABLE))?;
            if whole.tables <= Table::COUNT {
                // Every commit says what the rows add up to, this one too.
                let commit = txn.id() as u64;
                sums.put(txn, SUMS_KEY, &whole.sums.encode(commit))?;
            }
            Ok(CommitOrAbort::<_, std::convert::Infallible>::Commit((tables, sums)))
        })?;
        let CommitOrAbort::Commit((tables, sums)) = opened;
        let data = DataFile::of(dir.join(SNAPSHOT_DATA))?;
        Ok(LmdbEngine { env, tables, sums, head: Head::open(dir)?, data, damaged: OnceLock::new() })
    }

    fn check_sound(&self) -> Result<(), KvError> {
        match self.damaged.get() {
            Some(found) => Err(KvError::Engine(found.clone())),
            None => Ok(()),
        }
    }

    /// Walks all pages of the newest commit as a start does. What was found once is refused from then on.
    pub(crate) fn walk(&self) -> Result<(), KvError> {
        self.check_sound()?;
        let mut found = None;
        for _ in 0..WALKS {
            match self.walk_once()? {
                Ok(()) => return Ok(()),
                Err(damage) => found = Some(damage),
            }
        }
        let Some(damage) = found else { return Ok(()) };
        let text = format!(
            "the catalogue was damaged while the server runs: {damage}; nothing is answered or removed any \
             more: stop the server and start it again, which says how to go on"
        );
        let _ = self.damaged.set(text);
        self.check_sound()
    }

    fn walk_once(&self) -> Result<Result<(), Damage>, KvError> {
        let last = self.head.last();
        // Its pages, and those of later commits, are not used again until it ends.
        let _held = self.env.read_txn().map_err(kv_error)?;
        let walk = |file| walk_file(file, Some(last), FORMAT_VERSION).map(drop);
        match self.data.reopen().and_then(walk) {
            // This machine lacks something, such as descriptors: that says nothing of the catalogue.
            Err(Damage::Io(error)) => Err(KvError::Engine(format!("its pages cannot be checked: {error}"))),
            walked => Ok(walked),
        }
    }

    pub(crate) fn read(&self) -> Result<Reading<'_>, KvError> {
        self.check_sound()?;
        let last = self.head.last();
        let txn = self.env.read_txn().map_err(kv_error)?;
        // Before the first commit of this process the file is what the start has walked.
        if last != 0
            && let Some(found) = self.sums.get(&txn, SUMS_KEY).map_err(kv_error)?.and_then(commit_of)
            && found < last
        {
            return Err(went_back(found, last));
        }
        Ok(Reading { txn, tables: &self.tables })
    }

    /// Writes all tables of one moment into `file`.
    pub(crate) fn copy_to(&self, file: &mut File, how: CompactionOption) -> Result<(), heed::Error> {
        self.env.copy_to_file(file, how)
    }

    pub(crate) fn write(&self) -> Result<LmdbWriting<'_>, KvError> {
        self.check_sound()?;
        let txn = self.env.write_txn().map_err(kv_error)?;
        LmdbWriting::new(txn, &self.tables, &self.sums, &self.head, &self.data)
    }
}

/// `data.mdb` as LMDB has it open.
pub(crate) struct DataFile {
    path: PathBuf,
    /// Device and number of the file.
    identity: (u64, u64),
}

impl DataFile {
    fn of(path: PathBuf) -> std::io::Result<Self> {
        let identity = identity(&std::fs::metadata(&path)?);
        Ok(DataFile { path, identity })
    }

    /// Opens the file that LMDB has open by its name, if it still has it.
    fn reopen(&self) -> Result<File, Damage> {
        let opened = File::open(&self.path).and_then(|file| Ok((identity(&file.metadata()?), file)));
        self.is_it(opened)
    }

    /// Whether what is written into the file is there at the next start.
    pub(crate) fn check_place(&self) -> Result<(), Damage> {
        self.is_it(std::fs::metadata(&self.path).map(|metadata| (identity(&metadata), ())))
    }

    fn is_it<T>(&self, found: std::io::Result<((u64, u64), T)>) -> Result<T, Damage> {
        match found {
            Ok((identity, found)) if identity == self.identity => Ok(found),
            Ok(_) => Err(Damage::Replaced),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(Damage::Missing),
            Err(error) => Err(error.into()),
        }
    }
}

fn identity(metadata: &std::fs::Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

pub(crate) fn kv_error(error: heed::Error) -> KvError {
    match error {
        heed::Error::Mdb(MdbError::MapFull) => KvError::MapFull,
        other => KvError::Engine(other.to_string()),
    }
}

/// The words of a refusal that is a failure of the engine.
pub(crate) fn kv_error_of_rejection(rejection: &Rejection) -> Option<String> {
    match rejection {
        Rejection::Read(ReadError::Kv(error)) => Some(error.to_string()),
        _ => None,
    }
}

pub(crate) fn scan(
    txn: &RoTxn<'_>,
    rows: &Rows,
    from: &[u8],
    to: Option<&[u8]>,
    visit: &mut Visit<'_>,
) -> Result<(), KvError> {
    if to.is_some_and(|to| to <= from) {
        return Ok(());
    }
    // LMDB has no empty keys and refuses to look for one.
    let from = if from.is_empty() { Bound::Unbounded } else { Bound::Included(from) };
    let range = (from, to.map_or(Bound::Unbounded, Bound::Excluded));
    for row in rows.range(txn, &range).map_err(kv_error)? {
        let (key, value) = row.map_err(kv_error)?;
        if visit(key, value).is_break() {
            break;
        }
    }
    Ok(())
}

/// A snapshot.
pub(crate) struct Reading<'e> {
    txn: RoTxn<'e, WithoutTls>,
    tables: &'e [Rows; Table::COUNT],
}

impl Snapshot for Reading<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<&[u8]>, KvError> {
        self.tables[table.index()].get(&self.txn, key).map_err(kv_error)
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: Option<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<(), KvError> {
        scan(&self.txn, &self.tables[table.index()], from, to, visit)
    }
}
