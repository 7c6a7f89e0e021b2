//! The store: one writer, many readers.

use std::fs::{self, File, TryLockError};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use threads::JoinHandle;
use threads::mpsc::{SyncSender, sync_channel};

use base::{ByteCount, Clock, Timestamp};
use catalogue::{Command, Envelope, KvError, Outcome, ReadError, Rejection, Table, TypedCommand, View};

use crate::change_log::{ChangeLog, Embedded, Term};
use crate::engine::{Engine, LmdbEngine};
use crate::error::{ExecuteError, OpenError};
use crate::format::{self, FIRST_WITH_SUMS};
use crate::integrity;
use crate::memory::MemoryCatalogue;
use crate::replay::replay_one;
use crate::room::{Lack, Refused, Shortage};
use crate::sums::Sums;
use crate::writer::{Answer, BATCH_MAX, EXECUTE_ALL_MAX, Job, QUEUE_MAX, Writer};

/// Most snapshots open at a time.
pub const READERS_MAX: u32 = 2048;
/// The map is reserved in whole units of this size, a multiple of any page size.
const MAP_UNIT: u64 = 1 << 20;
/// So often is a lock tried that another process has, half a second in all ...
const LOCK_TRIES: usize = 100;
/// ... with this rest in between.
const LOCK_REST: Duration = Duration::from_millis(5);

/// How to open the store.
#[derive(Clone)]
pub struct StoreOptions {
    /// Address space reserved for the catalogue: its largest size. Rounded up to 1 MiB.
    pub map_size: ByteCount,
    /// The time that commands carry.
    pub clock: Arc<dyn Clock>,
    /// Most commands in one group commit, 1 to [`BATCH_MAX`].
    pub batch_max: usize,
}

impl StoreOptions {
    /// Options with the largest batches.
    #[must_use]
    pub fn new(map_size: ByteCount, clock: Arc<dyn Clock>) -> Self {
        StoreOptions { map_size, clock, batch_max: BATCH_MAX }
    }
}

/// The open catalogue; share it behind an `Arc`. Dropped, it finishes what waits and closes.
pub struct CatalogueStore {
    engine: Arc<Engine>,
    clock: Arc<dyn Clock>,
    jobs: Option<SyncSender<Job>>,
    writer: Option<JoinHandle<()>>,
    commits: Arc<AtomicU64>,
    is_stopped: Arc<AtomicBool>,
    /// The writer's right to append to the log of changes.
    term: Term,
    #[cfg(test)]
    commit_fails: Arc<AtomicBool>,
    /// Held locked while the store is open; tables in memory have none.
    _lock: Option<File>,
}

impl CatalogueStore {
    /// Whether a directory holds a catalogue, of whatever format.
    #[must_use]
    pub fn is_there(dir: &Path) -> bool {
        dir.join(crate::SNAPSHOT_DATA).exists()
    }

    /// Opens the catalogue in a directory, or makes an empty one there. All of it is read first, and must
    /// be what the last commit left.
    ///
    /// # Errors
    /// If the directory is in use, of another format, damaged, or cannot be opened. Nothing is changed then.
    pub fn open(dir: &Path, options: StoreOptions) -> Result<CatalogueStore, OpenError> {
        Self::open_with_log(dir, options, Box::new(Embedded))
    }

    /// As [`CatalogueStore::open`], with a change log of its own, which is taken over: what it has and the
    /// tables lack is applied first.
    ///
    /// # Errors
    /// As [`CatalogueStore::open`]; [`OpenError::ChangeLog`] if the log cannot be followed.
    pub fn open_with_log(
        dir: &Path,
        options: StoreOptions,
        log: Box<dyn ChangeLog>,
    ) -> Result<CatalogueStore, OpenError> {
        let (lock, engine) = open_directory(dir, options.map_size)?;
        Self::start(Engine::Lmdb(Box::new(engine)), options, Some(lock), log)
    }

    /// Opens tables in memory, for the simulator and tests; `options.map_size` is not looked at. Whoever has
    /// them open already cannot commit any more.
    ///
    /// # Errors
    /// If the writer's thread cannot be started.
    pub fn open_memory(tables: &MemoryCatalogue, options: StoreOptions) -> Result<CatalogueStore, OpenError> {
        Self::open_memory_with_log(tables, options, Box::new(Embedded))
    }

    /// As [`CatalogueStore::open_memory`], with a change log of its own.
    ///
    /// # Errors
    /// As [`CatalogueStore::open_with_log`].
    pub fn open_memory_with_log(
        tables: &MemoryCatalogue,
        options: StoreOptions,
        log: Box<dyn ChangeLog>,
    ) -> Result<CatalogueStore, OpenError> {
        Self::start(Engine::Memory(tables.open()), options, None, log)
    }

    fn start(
        engine: Engine,
        options: StoreOptions,
        lock: Option<File>,
        mut log: Box<dyn ChangeLog>,
    ) -> Result<CatalogueStore, OpenError> {
        let followed = log.take_over().map_err(|error| error.to_string());
        let followed = followed.and_then(|term| catch_up(&engine, log.as_mut()).map(|()| term));
        let term = followed.map_err(OpenError::ChangeLog)?;
        let engine = Arc::new(engine);
        let commits = Arc::new(AtomicU64::new(0));
        let is_stopped = Arc::new(AtomicBool::new(false));
        #[cfg(test)]
        let commit_fails = Arc::default();
        let writer = Writer {
            engine: Arc::clone(&engine),
            clock: Arc::clone(&options.clock),
            batch_max: options.batch_max.clamp(1, BATCH_MAX),
            commits: Arc::clone(&commits),
            is_stopped: Arc::clone(&is_stopped),
            log,
            term,
            is_turned: false,
            #[cfg(test)]
            commit_fails: Arc::clone(&commit_fails),
        };
        let clock = options.clock;
        let (jobs, waiting) = sync_channel(QUEUE_MAX);
        let thread = threads::Builder::new().name("catalogue-writer".to_owned());
        let thread = thread.spawn(move || writer.run(&waiting)).map_err(OpenError::Thread)?;
        Ok(CatalogueStore {
            engine,
            clock,
            jobs: Some(jobs),
            writer: Some(thread),
            commits,
            is_stopped,
            term,
            #[cfg(test)]
            commit_fails,
            _lock: lock,
        })
    }

    /// The term of the log of changes under which this store writes, as long as it is open. Once another has
    /// taken the log over it writes nothing more.
    #[must_use]
    pub fn term(&self) -> Term {
        self.term
    }

    /// Executes a command; it is durable when this returns `Ok`. Blocks for one or two syncs of the disk.
    ///
    /// # Errors
    /// If it was refused, or the engine failed.
    pub fn execute(&self, command: Command) -> Result<Outcome, ExecuteError> {
        let answer = self.submit(vec![command])?;
        assert_eq!(answer.len(), 1, "a command has one answer");
        answer.into_iter().next().ok_or(ExecuteError::Stopped)?.map_err(ExecuteError::Rejected)
    }

    /// Executes commands in order in one group commit, thus all durable or none; each is accepted or refused
    /// by itself.
    ///
    /// # Errors
    /// If there are more than [`EXECUTE_ALL_MAX`], or the engine failed.
    pub fn execute_all(
        &self,
        commands: Vec<Command>,
    ) -> Result<Vec<Result<Outcome, Rejection>>, ExecuteError> {
        if commands.len() > EXECUTE_ALL_MAX {
            return Err(ExecuteError::TooMany { found: commands.len(), limit: EXECUTE_ALL_MAX });
        }
        let count = commands.len();
        let answers = self.submit(commands)?;
        assert_eq!(answers.len(), count, "each command has its answer, at its place");
        Ok(answers)
    }

    /// As [`CatalogueStore::execute`], with the answer that the command has.
    ///
    /// # Errors
    /// As [`CatalogueStore::execute`]; [`ExecuteError::WrongOutcome`].
    pub fn ask<C: TypedCommand>(&self, command: C) -> Result<C::Answer, ExecuteError> {
        answer_of::<C>(self.execute(command.into_command())?)
    }

    /// As [`CatalogueStore::execute_all`], with the answer that each command has.
    ///
    /// # Errors
    /// As [`CatalogueStore::execute_all`]; of one of them, as [`CatalogueStore::ask`].
    pub fn ask_all<C: TypedCommand>(
        &self,
        commands: impl IntoIterator<Item = C>,
    ) -> Result<Vec<Result<C::Answer, ExecuteError>>, ExecuteError> {
        let results = self.execute_all(commands.into_iter().map(C::into_command).collect())?;
        Ok(results.into_iter().map(|result| answer_of::<C>(result?)).collect())
    }

    fn submit(&self, commands: Vec<Command>) -> Answer {
        let (answer, answered) = sync_channel(1);
        let jobs = self.jobs.as_ref().ok_or(ExecuteError::Stopped)?;
        let envelopes = commands.into_iter().map(|command| Envelope { at: Timestamp(0), command }).collect();
        jobs.send(Job { envelopes, answer }).map_err(|_| ExecuteError::Stopped)?;
        answered.recv().map_err(|_| ExecuteError::Stopped)?
    }

    /// Reads one consistent snapshot. Keep `f` short and never wait in it: pages freed meanwhile cannot be
    /// used again
    /// until it ends.
    ///
    /// # Errors
    /// What `f` returns, or that the engine failed.
    pub fn read<T>(&self, f: impl FnOnce(&View<'_>) -> Result<T, ReadError>) -> Result<T, ReadError> {
        self.engine.read(|snapshot| f(&View::new(snapshot)))
    }

    /// Looks up rows by their keys and touches no more of them than their first byte: how fast the engine
    /// alone is, for measurements. How many were there.
    ///
    /// # Errors
    /// If the engine fails.
    pub fn probe(&self, table: Table, keys: &[Vec<u8>]) -> Result<u64, ReadError> {
        self.engine.read(|snapshot| {
            let mut found = 0;
            for key in keys {
                found += u64::from(snapshot.get(table, key)?.is_some_and(|value| !value.is_empty()));
            }
            Ok(found)
        })
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Whether the tables are in memory, as in simulations.
    #[must_use]
    pub fn is_in_memory(&self) -> bool {
        matches!(*self.engine, Engine::Memory(_))
    }

    pub(crate) fn steady(&self) -> base::Duration {
        self.clock.steady()
    }

    /// How many group commits this store has made since it was opened.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// What the catalogue lacks, so that it takes no more commands that make it grow, and which others.
    #[must_use]
    pub fn lack(&self) -> Option<Lack> {
        let found = self.engine.lack(self.clock.steady()).ok().flatten();
        if self.engine.is_kept_by_readers() {
            return Some((Shortage::Readers, Refused::All));
        }
        found.or(self.engine.is_met_full().then_some((Shortage::Disk, Refused::Growth)))
    }

    /// Whether a command that makes the catalogue grow is worth a try.
    ///
    /// # Errors
    /// As [`CatalogueStore::execute`] would fail.
    pub fn check_room(&self) -> Result<(), ExecuteError> {
        if !self.is_writing() {
            return Err(ExecuteError::Stopped);
        }
        match self.engine.lack(self.clock.steady()) {
            Ok(Some((shortage, _))) => Err(shortage.into()),
            Ok(None) | Err(_) => Ok(()),
        }
    }

    /// Whether the writer still takes commands.
    #[must_use]
    pub fn is_writing(&self) -> bool {
        !self.is_stopped.load(Ordering::SeqCst)
    }
}

/// The answer of a command that was carried out. Neither a panic nor a stop of the writer if the outcome is
/// another's: the command is durable and the tables agree with it, only what the caller makes of it would be
/// wrong, and a restart would change nothing about that. The caller must take the command for done and gets
/// no answer, as after a failure of the engine, so that nobody gives up bytes that it refers to.
fn answer_of<C: TypedCommand>(outcome: Outcome) -> Result<C::Answer, ExecuteError> {
    C::answer(outcome).map_err(|other| ExecuteError::WrongOutcome(Box::new(other)))
}

/// Applies what the log has and the tables lack, in commits of their own: each is whole or not there.
fn catch_up(engine: &Engine, log: &mut dyn ChangeLog) -> Result<(), String> {
    let mut last = engine.read(|snapshot| View::new(snapshot).last_change()).map_err(|e| e.to_string())?;
    loop {
        let changes = log.follow(last).map_err(|error| error.to_string())?;
        if changes.is_empty() {
            return Ok(());
        }
        let mut txn = engine.write().map_err(|error| error.to_string())?;
        for bytes in &changes {
            last += 1;
            let envelope = Envelope::decode(bytes).map_err(|error| format!("change {last}: {error}"))?;
            replay_one(txn.transaction(), last, &envelope).map_err(|error| error.to_string())?;
        }
        txn.commit().map_err(|error| error.to_string())?;
        debug_assert!(
            engine.read(|snapshot| View::new(snapshot).last_change()).is_ok_and(|now| now == last),
            "the tables stand where the log does"
        );
    }
}

/// A program that begins another one, such as one that gives keys, shares its locks with that for a moment,
/// also if it is killed just then: a lock that is free soon is waited for.
fn take_lock(lock: &File) -> Result<(), TryLockError> {
    for _ in 1..LOCK_TRIES {
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_REST),
            taken => return taken,
        }
    }
    lock.try_lock()
}

/// Locks a catalogue's directory, checks its format and opens the engine.
pub(crate) fn open_directory(dir: &Path, map_size: ByteCount) -> Result<(File, LmdbEngine), OpenError> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| OpenError::File { path, source }
    };
    fs::create_dir_all(dir).map_err(at(dir))?;
    let lock_path = dir.join("LOCK");
    let lock = File::options().create(true).truncate(false).write(true).open(&lock_path);
    let lock = lock.map_err(at(&lock_path))?;
    match take_lock(&lock) {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(OpenError::InUse(dir.to_owned())),
        Err(TryLockError::Error(source)) => return Err(at(&lock_path)(source)),
    }
    let found = format::check(dir)?;
    let whole = integrity::walk(dir, found);
    let whole = whole.map_err(|damage| OpenError::Damaged { path: dir.to_owned(), damage })?;
    let whole = whole.unwrap_or_default();
    let rounded = map_size.0.div_ceil(MAP_UNIT).max(1).checked_mul(MAP_UNIT);
    let rounded = rounded.and_then(|size| usize::try_from(size).ok());
    let rounded = rounded.ok_or(OpenError::MapSize(map_size.0))?;
    assert!(rounded as u64 >= map_size.0, "the map is not smaller than was asked for");
    let engine = LmdbEngine::open(dir, rounded, READERS_MAX, &whole);
    let engine = engine.map_err(|source| OpenError::Engine { path: dir.to_owned(), source })?;
    if found < FIRST_WITH_SUMS {
        upgrade(dir, &engine, whole.sums)?;
    }
    Ok((lock, engine))
}

/// Writes the sums into a catalogue of format 2, which has none. What it holds was walked; that nothing of
/// it is missing can only be told by what its records say of each other.
fn upgrade(dir: &Path, engine: &LmdbEngine, sums: Sums) -> Result<(), OpenError> {
    let unreadable = |reason: String| OpenError::Unreadable { path: dir.to_owned(), reason };
    let read = |error: KvError| unreadable(error.to_string());
    let found = View::new(&engine.read().map_err(read)?).check();
    if let Some(first) = found.map_err(|error| unreadable(error.to_string()))?.first() {
        return Err(unreadable(format!("{} key {}: {}", first.table.name(), first.key, first.what)));
    }
    let mut txn = engine.write().map_err(read)?;
    txn.set_sums(sums);
    txn.commit().map_err(read)?;
    format::write(dir).map_err(|source| OpenError::File { path: dir.to_owned(), source })
}

impl Drop for CatalogueStore {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(writer) = self.writer.take() {
            // A panic of the writer was told to those who waited for it.
            let _ = writer.join();
        }
    }
}

#[cfg(test)]
mod base_tests;
#[cfg(test)]
mod log_tests;
#[cfg(test)]
mod memory_tests;
#[cfg(test)]
mod room_tests;
#[cfg(test)]
mod tests;
