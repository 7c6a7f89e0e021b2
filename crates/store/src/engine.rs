//! LMDB behind the catalogue's narrow seam, and beside it tables in memory.

use std::fs::File;
use std::io::ErrorKind;
use std::ops::Bound;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use base::Duration;
use catalogue::{KvError, ReadError, Rejection, Snapshot, Table, Transaction, Visit};
use heed::types::Bytes;
use heed::{CommitOrAbort, CompactionOption, Database, Env, EnvOpenOptions, MdbError, RoTxn, WithoutTls};

use crate::error::Damage;
use crate::even_copy;
use crate::format::FORMAT_VERSION;
use crate::head::Head;
use crate::integrity::{SUMS_KEY, SUMS_TABLE, Whole, walk_file};
use crate::lmdb_writing::{LmdbWriting, went_back};
use crate::memory::{MemoryEngine, MemoryWriting};
use crate::room::{Lack, Room, Shortage, is_full};
use crate::rows::LogSize;
use crate::snapshot::SNAPSHOT_DATA;
use crate::sums::{Sums, commit_of};

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

    /// As [`Engine::read`], beside what the last commit said that the rows of each table add up to; tables in
    /// memory do not say.
    pub(crate) fn read_with_sums<T>(
        &self,
        read: impl FnOnce(&dyn Snapshot, Option<Sums>) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        match self {
            Engine::Lmdb(engine) => {
                let reading = engine.read()?;
                let stored = engine.sums.get(&reading.txn, SUMS_KEY).map_err(kv_error)?;
                let sums = stored.and_then(Sums::decode).map(|(sums, _)| sums);
                let damaged = || KvError::Engine("the sums of the tables are damaged".to_owned());
                read(&reading, Some(sums.ok_or_else(damaged)?))
            }
            Engine::Memory(engine) => read(&engine.read(), None),
        }
    }

    /// What commands that grow the catalogue lack.
    pub(crate) fn lack(&self, now: Duration) -> Result<Option<Lack>, KvError> {
        match self {
            Engine::Lmdb(engine) => engine.lack(now),
            Engine::Memory(_) => Ok(None),
        }
    }

    /// A command that makes room was refused for lack of it, of this kind.
    pub(crate) fn is_exhausted(&self, shortage: Shortage) {
        if let Engine::Lmdb(engine) = self {
            engine.room.is_exhausted(shortage);
        }
    }

    /// Bytes up to the last page; 0 of tables in memory.
    #[cfg(test)]
    pub(crate) fn used(&self) -> u64 {
        match self {
            Engine::Lmdb(engine) => engine.used(),
            Engine::Memory(_) => 0,
        }
    }

    /// Whether there are pages that hold nothing, as many as are kept for what makes room; readers may still
    /// see what they held.
    pub(crate) fn has_last_part(&self) -> bool {
        match self {
            Engine::Lmdb(engine) => engine.live().is_ok_and(|live| engine.room.has_last_part(live)),
            Engine::Memory(_) => false,
        }
    }

    /// Whether what a transaction has written lies in the part of the map that is kept for what makes room.
    pub(crate) fn is_in_last_part(&self, txn: &Writing<'_>) -> Result<bool, KvError> {
        match (self, txn) {
            (Engine::Lmdb(engine), Writing::Lmdb(writing)) if engine.room.is_near_end(engine.used()) => {
                Ok(!engine.room.has_last_part(engine.live_in(writing.reading())?))
            }
            _ => Ok(false),
        }
    }

    /// Makes a commit without changes; tables in memory have no use for one. Whether it did.
    pub(crate) fn commit_nothing(&self) -> Result<bool, KvError> {
        match self.write()? {
            Writing::Lmdb(writing) => writing.commit().map(|()| true),
            Writing::Memory(_) => Ok(false),
        }
    }

    /// How much of the tables the log is.
    pub(crate) fn log_size(&self) -> Result<LogSize, ReadError> {
        let mut size = LogSize::default();
        for table in Table::ALL {
            let (rows, bytes) = match self {
                Engine::Lmdb(engine) => engine.table_size(table)?,
                Engine::Memory(engine) => engine.table_size(table),
            };
            match table {
                Table::Change => (size.changes, size.bytes) = (rows, bytes),
                _ => size.other_bytes = size.other_bytes.saturating_add(bytes),
            }
        }
        Ok(size)
    }

    /// Whether the last command that makes room found none in the map although there are pages that hold
    /// nothing. A full disk says nothing of readers, and a large map has such pages then.
    pub(crate) fn is_kept_by_readers(&self) -> bool {
        let exhausted = match self {
            Engine::Lmdb(engine) => engine.room.exhausted(),
            Engine::Memory(_) => None,
        };
        exhausted == Some(Shortage::Map) && self.has_last_part()
    }

    /// Whether the last commit met a full file system.
    pub(crate) fn is_met_full(&self) -> bool {
        matches!(self, Engine::Lmdb(engine) if engine.room.is_met_full())
    }

    /// Whether a commit that found no room has left an engine that goes on.
    pub(crate) fn after_failure(&self, error: KvError, now: Duration) -> KvError {
        match (self, error) {
            (Engine::Lmdb(engine), KvError::DiskFull) => engine.after_full(now),
            (_, error) => error,
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
    room: Room,
    page_bytes: u64,
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
        options.map_size(map_size).max_readers(readers_max).max_dbs(tables_max() + 1);
        // SAFETY: the map may be touched by LMDB alone while it is open. The directory's lock, which the
        // caller holds,
        // keeps other Kist processes out; nothing else in Kist opens these files; no flag that weakens LMDB
        // is set.
        let env = unsafe { options.open(dir)? };
        env.clear_stale_readers()?;
        let data = dir.join(SNAPSHOT_DATA);
        // Before the first commit: with a full file system it needs the blocks that an earlier run got.
        let room = Room::open(&data, map_size as u64)?;
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
        let data = DataFile::of(data)?;
        let txn = env.read_txn()?;
        let page_bytes = u64::from(sums.stat(&txn)?.page_size);
        assert!(page_bytes.is_power_of_two(), "room is counted in whole pages");
        drop(txn);
        let (head, damaged) = (Head::open(dir)?, OnceLock::new());
        Ok(LmdbEngine { env, tables, sums, head, data, room, page_bytes, damaged })
    }

    fn lack(&self, now: Duration) -> Result<Option<Lack>, KvError> {
        self.room.look(now, self.used(), || self.live())
    }

    /// Bytes up to the last page.
    fn used(&self) -> u64 {
        (self.env.info().last_page_number as u64 + 1) * self.page_bytes
    }

    /// Bytes of pages that hold something; the list of free pages itself is not counted.
    fn live(&self) -> Result<u64, KvError> {
        let txn = self.env.read_txn().map_err(kv_error)?;
        self.live_in(&txn)
    }

    fn live_in(&self, txn: &RoTxn<'_>) -> Result<u64, KvError> {
        let mut pages = 0;
        for rows in self.tables.iter().chain([&self.sums]) {
            let found = rows.stat(txn).map_err(kv_error)?;
            pages += (found.branch_pages + found.leaf_pages + found.overflow_pages) as u64;
        }
        Ok(pages * self.page_bytes)
    }

    /// LMDB writes pages, syncs them, then writes the page that names them. What failed before that is
    /// forgotten with its transaction: it was named by nothing, so that no later commit rests on it. Of a
    /// failure at the naming page LMDB says with the next transaction that nobody knows what is durable.
    fn after_full(&self, now: Duration) -> KvError {
        match self.env.write_txn() {
            Ok(_) => {
                self.room.met_full(now);
                KvError::DiskFull
            }
            Err(error) => kv_error(error),
        }
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
        assert!(self.check_sound().is_err(), "from here on nothing is read of a damaged catalogue");
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

    /// Rows of a table, and bytes of its pages.
    fn table_size(&self, table: Table) -> Result<(u64, u64), KvError> {
        let txn = self.env.read_txn().map_err(kv_error)?;
        let found = self.tables[table.index()].stat(&txn).map_err(kv_error)?;
        let pages = (found.branch_pages + found.leaf_pages + found.overflow_pages) as u64;
        Ok((found.entries as u64, pages.saturating_mul(self.page_bytes)))
    }

    /// Writes all tables of one moment into `file`.
    pub(crate) fn copy_to(&self, file: &mut File, how: CompactionOption) -> Result<(), heed::Error> {
        even_copy::copy(&self.env, file, how)
    }

    pub(crate) fn write(&self) -> Result<LmdbWriting<'_>, KvError> {
        self.check_sound()?;
        let txn = self.env.write_txn().map_err(kv_error)?;
        LmdbWriting::new(txn, &self.tables, &self.sums, &self.head, &self.data, &self.room)
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

/// How many tables LMDB keeps open.
pub(crate) fn tables_max() -> u32 {
    u32::try_from(Table::COUNT).unwrap_or(u32::MAX)
}

fn identity(metadata: &std::fs::Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

pub(crate) fn kv_error(error: heed::Error) -> KvError {
    match error {
        heed::Error::Mdb(MdbError::MapFull) => KvError::MapFull,
        heed::Error::Io(error) if is_full(&error) => KvError::DiskFull,
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
        debug_assert!(to.is_none_or(|to| key < to), "no row is visited behind the end that was asked for");
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
