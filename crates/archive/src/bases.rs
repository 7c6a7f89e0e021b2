//! Bases of the catalogue: which tapes have one, when a tape pool is due for one, and the files in which one
//! waits to be written.
//!
//! The rows are read once, into files beside the catalogue, so that no read of the catalogue waits for a
//! tape. Sessions write the files to a tape of each pool, before an index.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use threads::{Mutex, MutexGuard};

use base::{ByteCount, Duration, TapePoolId, Uuid, Vid};
use catalogue::{ReadError, TapeRecord, TapeState, View};
use ltfs::catalogue_base::{BasePartWriter, BaseRow, PARTS_MAX, PartHead};
use ltfs::changes::ChangeNumber;
use store::LogSize;

use crate::engine::Engine;
use crate::rebuild::{JUMP, read_part};
use crate::settings::ChangeLogSettings;

/// Rows are read in one go for at most so long: pages that are freed meanwhile cannot be used again, and the
/// catalogue's file grows by as much.
const READ_LONGEST: Duration = Duration::from_secs(15 * 60);
/// A base that could not be made is tried again after this long: each try may read the whole catalogue.
const MAKE_RETRY: Duration = Duration::from_secs(3_600);
/// A base may take one part in so many of what the catalogue's file system has free, so that the catalogue,
/// which grows meanwhile, has as much.
const FREE_PART: u64 = 2;
/// So much stays free of it whatever a base turns out to need.
const KEPT_FREE: u64 = 2 * ltfs::catalogue_base::PART_BYTES as u64;

/// Bases in the making.
#[derive(Default)]
pub(crate) struct Bases {
    waiting: Mutex<Waiting>,
    /// Up to which change the backup has the log; `None`: there is no backup.
    backup: Mutex<Option<u64>>,
}

/// The base that waits to be written to tapes.
#[derive(Default)]
pub(crate) struct Waiting {
    made: Option<Arc<Made>>,
    /// How many were begun.
    begun: u64,
    /// When making one failed last, by the steady clock.
    failed: Option<Duration>,
}

/// A base, in files.
pub(crate) struct Made {
    pub(crate) change: u64,
    pub(crate) bytes: ByteCount,
    parts: Vec<MadePart>,
    _directory: Option<Directory>,
}

/// A directory that is removed when nobody needs it any more.
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        remove_spool(&self.0);
    }
}

enum MadePart {
    File(PathBuf),
    /// In simulations there is no file system.
    Memory(Vec<u8>),
}

/// Why a base cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MakeError {
    #[error("{path}: {source}", path = .path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("{0}")]
    Read(#[from] ReadError),
    #[error("reading the catalogue took longer than {} minutes", READ_LONGEST.as_nanos() / 60_000_000_000)]
    TooLong,
    #[error("the file system of the catalogue has too little room for it")]
    NoRoom,
    #[error("a row, or the catalogue, is longer than a base can be")]
    TooLarge,
}

impl Bases {
    /// The base that waits. Held while one is made: whoever else needs one waits for it.
    pub(crate) fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`Bases::waiting`], `None` while another thread is at it.
    pub(crate) fn waiting_now(&self) -> Option<MutexGuard<'_, Waiting>> {
        self.waiting.try_lock().ok()
    }

    /// The backup has all changes up to this one, or nobody knows what it has (0).
    pub(crate) fn shipped(&self, through: u64) {
        *self.backup.lock().unwrap_or_else(PoisonError::into_inner) = Some(through);
    }

    pub(crate) fn backup_has(&self) -> Option<u64> {
        *self.backup.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// The base to be written to a tape of this pool: the one that waits if it is new enough, else one that
    /// is made now. `None` if that does not succeed, which is told.
    pub(crate) fn take(&mut self, engine: &Engine) -> Result<Option<Arc<Made>>, ReadError> {
        let settings = engine.settings.change_log;
        let (first, last) = engine.catalogue.read(|view| Ok((view.first_change()?, view.last_change()?)))?;
        let is_new = |made: &Made| {
            changes_behind(made.change, last) <= settings.base_changes.max(1) && made.change >= first
        };
        if !self.made.as_deref().is_some_and(is_new) {
            let now = engine.steady();
            if self.failed.is_some_and(|failed| now.saturating_sub(failed) < MAKE_RETRY) {
                return Ok(None);
            }
            self.made = None;
            self.begun += 1;
            match make(engine, self.begun) {
                Ok(made) => (self.made, self.failed) = (Some(Arc::new(made)), None),
                Err(error) => {
                    tracing::error!(%error, "no base of the catalogue can be made: its log is not trimmed");
                    self.failed = Some(now);
                }
            }
        }
        Ok(self.made.clone())
    }

    /// Removes the files if nobody waits for them.
    pub(crate) fn drop_if_done(&mut self, engine: &Engine) -> Result<(), ReadError> {
        let Some(change) = self.made.as_ref().map(|made| made.change) else { return Ok(()) };
        let is_done = engine
            .catalogue
            .read(|view| Ok(newest_bases(view, None)?.values().all(|newest| *newest >= change)))?;
        if is_done {
            self.made = None;
        }
        Ok(())
    }
}

impl Made {
    pub(crate) fn parts(&self) -> u32 {
        u32::try_from(self.parts.len()).unwrap_or(u32::MAX)
    }

    /// The bytes of a part, the first one being 0.
    pub(crate) fn part(&self, at: u32) -> std::io::Result<Vec<u8>> {
        match self.parts.get(at as usize) {
            Some(MadePart::File(path)) => read_part(path),
            Some(MadePart::Memory(bytes)) => Ok(bytes.clone()),
            None => Err(std::io::ErrorKind::NotFound.into()),
        }
    }
}

/// Whether the base of a tape counts: the tape is to stay and can be read.
pub(crate) fn is_to_stay(tape: &TapeRecord) -> bool {
    matches!(tape.state, TapeState::Active | TapeState::Full | TapeState::ReadOnly)
}

/// The tape pools whose tapes must have a base before the log is trimmed, those that classes have copies in
/// and those that have a tape; and of each the newest change of the newest base on tapes that are to stay and
/// can be read, 0 without one. As if there were no tape `without`.
pub(crate) fn newest_bases(
    view: &View<'_>,
    without: Option<Vid>,
) -> Result<BTreeMap<TapePoolId, u64>, ReadError> {
    let copies = view.classes()?.into_iter().flat_map(|(_, class)| class.copies);
    let mut newest: BTreeMap<TapePoolId, u64> = copies.map(|pool| (pool, 0)).collect();
    for (vid, tape) in view.tapes()? {
        let Some(pool) = tape.tape_pool.filter(|_| tape.generation.0 > 0) else { continue };
        let of_pool = newest.entry(pool).or_default();
        if Some(vid) != without && is_to_stay(&tape) {
            *of_pool = view.bases(vid)?.into_iter().fold(*of_pool, |newest, (change, _)| newest.max(change));
        }
    }
    Ok(newest)
}

/// How many changes came behind `change`, which may be 0. What a restore has left out counts for nothing.
pub(crate) fn changes_behind(change: u64, last: u64) -> u64 {
    if change / JUMP == last / JUMP { last.saturating_sub(change) } else { last % JUMP }
}

/// Whether a tape of the pool with this `newest` base is to get one: the log does not go back to it, or so
/// much came behind it that a new one is worth its tape.
pub(crate) fn is_due(
    view: &View<'_>,
    log: LogSize,
    settings: ChangeLogSettings,
    newest: u64,
) -> Result<bool, ReadError> {
    let (first, last) = (view.first_change()?, view.last_change()?);
    if first > 1 && newest.saturating_add(1) < first {
        return Ok(true);
    }
    if settings.base_changes == 0 {
        return Ok(false);
    }
    let is_large = log.bytes.saturating_mul(100) >= log.other_bytes.saturating_mul(settings.base_log_percent);
    Ok(changes_behind(newest, last) > settings.base_changes && is_large)
}

/// Reads all rows into parts.
fn make(engine: &Engine, number: u64) -> Result<Made, MakeError> {
    let mut maker = Maker::begin(engine, number)?;
    let mut failed = None;
    let whole = engine.catalogue.each_base_row(READ_LONGEST, &mut |change, table, key, value| {
        let row = BaseRow { table: table.number(), key, value };
        failed = maker.add(change, row).err();
        failed.is_none() && !engine.stopping()
    })?;
    match failed {
        Some(error) => Err(error),
        None if !whole => Err(MakeError::TooLong),
        None => maker.end(),
    }
}

struct Maker {
    instance: Uuid,
    /// `None`: into memory.
    directory: Option<Directory>,
    change: u64,
    part: BasePartWriter,
    rows_before: u64,
    made: Vec<MadePart>,
    bytes: u64,
}

impl Maker {
    fn begin(engine: &Engine, number: u64) -> Result<Maker, MakeError> {
        let directory = match engine.catalogue.is_in_memory() {
            true => None,
            false => {
                let path = spool(&engine.settings.catalogue_directory).join(number.to_string());
                let directory = Directory(path.clone());
                let failed = |source| MakeError::File { path: path.clone(), source };
                fs::create_dir_all(&path).map_err(failed)?;
                let wanted = engine.catalogue.log_size()?.other_bytes;
                if store::free_bytes(&path).map_err(failed)? / FREE_PART < wanted {
                    return Err(MakeError::NoRoom);
                }
                Some(directory)
            }
        };
        Ok(Maker {
            instance: engine.instance,
            directory,
            change: 0,
            part: BasePartWriter::default(),
            rows_before: 0,
            made: Vec::new(),
            bytes: 0,
        })
    }

    fn add(&mut self, change: u64, row: BaseRow<'_>) -> Result<(), MakeError> {
        self.change = change;
        if self.part.add(row) {
            return Ok(());
        }
        self.close(false)?;
        if self.part.add(row) { Ok(()) } else { Err(MakeError::TooLarge) }
    }

    fn close(&mut self, is_last: bool) -> Result<(), MakeError> {
        let number = u32::try_from(self.made.len() + 1).unwrap_or(u32::MAX);
        if number > PARTS_MAX || self.part.rows() == 0 {
            return Err(MakeError::TooLarge);
        }
        let part = std::mem::take(&mut self.part);
        let rows = part.rows();
        let head = PartHead {
            instance: self.instance,
            format: store::FORMAT_VERSION,
            change: ChangeNumber(self.change),
            part: number,
            is_last,
            rows_before: self.rows_before,
        };
        let bytes = part.close(&head);
        self.rows_before += rows;
        self.bytes += bytes.len() as u64;
        let made = match &self.directory {
            None => MadePart::Memory(bytes),
            Some(Directory(directory)) => {
                let path = directory.join(format!("{number:06}.kcb"));
                write(directory, &path, &bytes)?;
                MadePart::File(path)
            }
        };
        self.made.push(made);
        Ok(())
    }

    fn end(mut self) -> Result<Made, MakeError> {
        self.close(true)?;
        let (bytes, parts) = (ByteCount(self.bytes), self.made);
        Ok(Made { change: self.change, bytes, parts, _directory: self.directory })
    }
}

/// Writes a part, if that leaves the catalogue room to grow. It is not synced: what waits here does not
/// outlive the server.
fn write(directory: &Path, path: &Path, bytes: &[u8]) -> Result<(), MakeError> {
    let failed = |source| MakeError::File { path: path.to_owned(), source };
    let free = store::free_bytes(directory).map_err(failed)?;
    if free < KEPT_FREE.saturating_add(bytes.len() as u64) {
        return Err(MakeError::NoRoom);
    }
    fs::write(path, bytes).map_err(failed)
}

/// Where a base waits to be written.
fn spool(catalogue: &Path) -> PathBuf {
    let mut name = catalogue.file_name().unwrap_or_default().to_owned();
    name.push(".base");
    catalogue.with_file_name(name)
}

fn remove_spool(spool: &Path) {
    match fs::remove_dir_all(spool) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::error!(path = %spool.display(), %error, "files of a base cannot be removed");
        }
        _ => {}
    }
}

/// Removes what a server that was killed has left beside its catalogue.
pub(crate) fn clean(catalogue: &Path) {
    remove_spool(&spool(catalogue));
}
